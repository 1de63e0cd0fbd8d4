"""Sweeps: a list of settings, one JSON line a run, and a rerun that does only what is missing."""

import fcntl
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

Setting = dict[str, Any]
"""What determines a run, in plain JSON values."""

Record = dict[str, Any]
"""What a line of a file of results holds: setting, result, versions, seconds."""

VERSIONS = ("minsep", "numpy", "torch")


def sweep(
    settings: Iterable[Setting], run: Callable[[Setting], dict[str, Any]], path: Path, say: Callable[[str], Any] = print
) -> list[Record]:
    """Run the settings that are not in the file yet, and return the records of all of them, in their order.

    - `settings`: one a run.
    - `run`: returns the result of a setting, in plain JSON values.
    - `path`: a file of JSON lines. A record is appended as soon as its run ends, so a killed sweep loses one run.
    - `say`: is called with one line a run.

    One process writes a file at a time, and another is refused: give each process its own file. A sweep of which
    nothing is missing only reads.
    """
    settings = list(settings)
    known = {key_of(record["setting"]): record for record in read(path)}
    if all(key_of(setting) in known for setting in settings):
        return [known[key_of(setting)] for setting in settings]
    with _locked(path) as file:
        done = {key_of(record["setting"]): record for record in _whole_lines(file)}
        missing = {key_of(setting): setting for setting in settings if key_of(setting) not in done}
        say(f"{path.name}: {len(missing)} runs to do.")
        for number, (key, setting) in enumerate(missing.items(), 1):
            begin = time.monotonic()
            result = run(setting)
            seconds = round(time.monotonic() - begin, 2)
            record = {"setting": setting, "result": result, "versions": versions(), "seconds": seconds}
            line = json.dumps(record)
            file.write(line + "\n")
            file.flush()
            done[key] = json.loads(line)
            say(f"{number}/{len(missing)} in {seconds:.0f} s: {_brief(setting)} -> {_brief(result)}")
    return [done[key_of(setting)] for setting in settings]


def read(path: Path) -> list[Record]:
    """Return the records of a file, without a torn last line. A file that is not there has none.

    - `path`: a file that `sweep` wrote.
    """
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def key_of(setting: Setting) -> str:
    """Return the text that two settings share exactly if they are equal, whatever the order of their names.

    - `setting`: the setting.

    >>> key_of({"b": 2, "a": 1.0}) == key_of({"a": 1.0, "b": 2})
    True
    """
    return json.dumps(setting, sort_keys=True, allow_nan=False)


def versions() -> dict[str, str]:
    """Return the versions of the packages that a result depends on."""
    return {name: version(name) for name in VERSIONS}


@contextmanager
def _locked(path: Path) -> Iterator[IO[str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{path} is being written by another sweep: wait for it, or use another file.") from None
        yield file


def _whole_lines(file: IO[str]) -> list[Record]:
    """Return the records of a file, and cut off a line that a killed sweep left unfinished."""
    file.seek(0)
    text = file.read()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        file.truncate(len(whole.encode()))
    file.seek(0, 2)
    return [json.loads(line) for line in whole.splitlines()]


def _brief(values: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.5g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
        if isinstance(value, int | float | str)
    )
