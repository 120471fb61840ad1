"""Entry point of ``python -m diprime``."""

from diprime.cli import main

if __name__ == "__main__":
    main()
