"""Other people's runs: files that say what was run with another library, one file of code for each format."""

from minsep.core.registry import load_variants
from minsep.reading.dp_events import write_event
from minsep.reading.record import Record, read_record, read_runs

__all__ = ["Record", "read_record", "read_runs", "write_event"]

load_variants(__name__)
