"""`python -m minsep` is the command line."""

from minsep.cli import main

if __name__ == "__main__":
    main()
