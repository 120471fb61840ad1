"""Records in files, in batches: ``model.fit_batches(read_files("data/*.parquet", domain))``."""

from diprime.cli.reading import read_files

__all__ = ["read_files"]
