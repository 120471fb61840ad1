"""The commands. Their docstrings are the help texts that users see.

Each module has ``commands``, which `diprime.cli.app` adds to the command line.
"""
