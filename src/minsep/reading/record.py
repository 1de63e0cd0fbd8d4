"""Files in which somebody wrote down what they ran with another library."""

import json
import os
from dataclasses import dataclass
from typing import Any, NoReturn

from minsep.core.validation import in_short, shortened
from minsep.mechanism import Mechanism
from minsep.reading.base import Format, Run

_MOST_BYTES = 2**24
_BINARY = (b"PK\x03\x04", b"\x80")  # how a checkpoint of PyTorch begins, and any other pickle


@dataclass(frozen=True)
class Record:
    """What a file says about somebody's runs.

    Attributes:
        name: The name of the file.
        words: What the file holds, in words.
        runs: The runs, at least one: mechanisms where the file describes exactly one, else events of dp_accounting.
        assumptions: What the file does not show, and what is proven from it takes for granted, in sentences.
    """

    name: str
    words: str
    runs: tuple[Run, ...]
    assumptions: tuple[str, ...]

    @property
    def mechanism(self) -> Mechanism | None:
        """The mechanism of the only run. None if there are several runs, or the only one is an event."""
        only = self.runs[0] if len(self.runs) == 1 else None
        return only if isinstance(only, Mechanism) else None


def read_runs(path: str | os.PathLike[str]) -> list[Run]:
    """Return the runs that a file of another library describes, as mechanisms or as events of dp_accounting.

    Args:
        path: The file: the history of an Opacus accountant, an event of dp_accounting, or a `BandMFConfig` of
            jax-privacy, as JSON. The content says which. Anything else is refused.

    Examples:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "history.json")
        >>> with open(path, "w") as file:
        ...     _ = file.write('{"history": [[1.1, 0.01, 500]], "mechanism": "prv"}')
        >>> [(run.name, run.iterations, run.noise_multiplier) for run in read_runs(path)]
        [('DP-SGD, Poisson sampling', 500, 1.1)]
    """
    return list(read_record(path).runs)


def read_record(path: str | os.PathLike[str]) -> Record:
    """Return the runs that a file of another library describes, with what the file does not show.

    Args:
        path: The file, as for `read_runs`.

    Examples:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "event.json")
        >>> with open(path, "w") as file:
        ...     _ = file.write('{"class_name": "LaplaceDpEvent", "noise_multiplier": 2.0}')
        >>> record = read_record(path)
        >>> record.words, record.runs
        ('an event of dp_accounting', (LaplaceDpEvent(noise_multiplier=2.0),))
    """
    name = shortened(os.fspath(path))
    content = _content(path, name)
    for form in Format.variants().values():
        if form.recognises(content):
            try:
                runs = form.read(content)
            except ValueError as error:
                raise ValueError(f"{name} was read as {form.words}: {error}") from None
            return Record(name, form.words, runs, form.assumptions)
    raise _refusal(name, f"it holds {_found(content)}")


def _content(path: str | os.PathLike[str], name: str) -> Any:
    try:
        with open(path, "rb") as file:
            raw = file.read(_MOST_BYTES + 1)  # a device may have no end
    except OSError as error:
        raise ValueError(f"The file {name!r} cannot be read: {error.strerror}.") from None
    if raw.startswith(_BINARY):
        raise ValueError(
            f"{name} is a pickle or a checkpoint of PyTorch, which can run code and is not read: write "
            "json.dumps(privacy_engine.accountant.state_dict()) to a file instead."
        )
    if len(raw) > _MOST_BYTES:
        raise ValueError(f"{name} is larger than {_MOST_BYTES // 2**20} MiB, which no record of a run is.")
    try:
        return json.loads(raw.decode(), object_pairs_hook=_without_repetition, parse_constant=_no_number)
    except UnicodeDecodeError:
        raise _refusal(name, "it is not text") from None
    except RecursionError:
        raise _refusal(name, "it is nested too deeply") from None
    except ValueError as error:
        raise _refusal(name, f"it is not JSON ({shortened(str(error)).rstrip('.')})") from None


def _refusal(name: str, found: str) -> ValueError:
    valid = [f"{form.words}, written by {form.how}" for form in Format.variants().values()]
    return ValueError(f"{name} describes no run that minsep can read: {found}. Valid are {'; '.join(valid)}.")


def _found(content: Any) -> str:
    if isinstance(content, dict):
        return f"an object with the fields {in_short(sorted(content))}" if content else "an empty object"
    if isinstance(content, list):
        return f"a list of {len(content)} items"
    return in_short(content)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return content


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")
