"""The figures of the paper and its appendix, and one for its theorems: ``python -m benchmarks.paper figures``."""
