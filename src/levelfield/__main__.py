"""``python -m levelfield`` is ``levelfield``."""

from levelfield.cli import main

if __name__ == "__main__":
    main()
