"""x."""
# %%
# # study
