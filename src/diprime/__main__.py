"""``python -m diprime`` is ``diprime``."""

from diprime.cli import main

if __name__ == "__main__":
    main()
