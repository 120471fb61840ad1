"""What to expect of a fit, from public facts alone: fits to synthetic data of the same domain and size.

In the order of imports: `plan` makes a plan; `rehearsal` fits to what `synthetic` makes up; `shapes` says what a model
is made of.
"""

from diprime.planning.plan import Plan, plan

__all__ = ["Plan", "plan"]
