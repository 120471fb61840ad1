"""A classification, from a table to a report."""

# %%
# # A classification, from a table to a report
#
# test $\varepsilon$ and
#
# $$\Pr[M(D) \in S] \le e^{\varepsilon}\,\Pr[M(D') \in S] + \delta$$

import matplotlib.pyplot as plt

print("x")

# %%
# plot
plt.plot([1, 2])
# Figure: a line
