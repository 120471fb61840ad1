"""x."""
# %%
# # skewed_target
