"""Print what is supported, as docs/support.md shows it: `python -m minsep.accounting.schemes`."""

from minsep.accounting.schemes import supported

COLUMNS = ("scheme", "strategies", "exact", "sampled", "truncated")

if __name__ == "__main__":
    rows = [[getattr(row, column) for column in COLUMNS] for row in supported()]
    for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows):
        print("| " + " | ".join(cells) + " |")
