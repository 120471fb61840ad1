"""The version, for the package itself and for the files it writes."""

__version__ = "0.1.0.dev0"
