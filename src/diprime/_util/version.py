"""The version of the package, which model files record too."""

__version__ = "0.1.0"
