"""The command line: reads arguments, calls the library, prints."""

from minsep.cli.app import main

__all__ = ["main"]
