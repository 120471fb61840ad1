"""x."""
# %%
# # two_hospitals
