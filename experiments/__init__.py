"""The paper's experiments, each one command: `python -m experiments.images`, `python -m experiments.arxiv`."""
