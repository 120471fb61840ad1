"""Privacy bugs that are planted on purpose, and whether the tests notice: see :mod:`benchmarks.mutants.__main__`."""
