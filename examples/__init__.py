"""Examples that are run with one command."""
