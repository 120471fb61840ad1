"""Domains of three numeric features that the tests of the estimators share."""

from diprime import Categorical, Domain, Numeric

ABC = {name: Numeric(0, 10) for name in "abc"}
YES_NO = Domain(ABC, Categorical(["no", "yes"]))
NUMBER = Domain(ABC, Numeric(0, 10))
