"""What can go wrong with a file or a number, as strategies of hypothesis, and how a property is run on many of them."""

import contextlib
import copy
import functools
import json
import math
import resource
import signal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

SECONDS = 60
"""Processor time that one case may take. Cases take milliseconds: this is for those that would not end."""


class HangError(BaseException):
    """A case takes too long; not an `Exception`, which the code under test may catch."""


@contextlib.contextmanager
def time_limit(seconds=SECONDS):
    def hang(*_):
        raise HangError(f"more than {seconds} s of processor time")

    previous = signal.signal(signal.SIGPROF, hang)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def fuzz(strategy, *, quick, slow):
    """Run a property on a few reproducible cases in the default suite, and on many random ones in the slow suite."""

    def decorate(check):
        @pytest.mark.parametrize(
            "cases", [pytest.param(quick, id="quick"), pytest.param(slow, id="slow", marks=pytest.mark.slow)]
        )
        def test(cases, record_property):
            done = 0

            @settings(
                max_examples=cases,
                derandomize=cases == quick,
                database=None,
                deadline=None,
                report_multiple_bugs=False,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            )
            @given(strategy)
            def run(case):
                nonlocal done
                done += 1
                with time_limit():
                    check(case)

            run()
            record_property("fuzz_cases", done)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorate


def assert_sentences(error):
    """An error is a few sentences for people: no dump, nothing that a terminal would obey."""
    text = str(error)
    assert text.strip(), repr(error)
    assert len(text) < 10_000, text[:200]
    assert "Traceback" not in text
    for line in text.splitlines():
        assert line.isprintable(), repr(line)


@contextlib.contextmanager
def refused_in_a_sentence(kind=ValueError):
    """Let what is refused pass, if it is refused as it should be."""
    try:
        yield
    except kind as error:
        assert_sentences(error)


@contextlib.contextmanager
def memory_limit(extra=2 << 30):
    """Refuse the process more address space than it has now and `extra` bytes."""
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + extra, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


ABSURD_NUMBERS = [
    0, -0.0, 1, -1, 2, 0.5, 1.5, 1e-5, 1e-300, 5e-324, 1e16, 1e308, -1e308, 2**31 - 1, 2**31, 2**53 + 1, 2**63, 2**64,
    10**30, 10**400, math.nan, math.inf, -math.inf,
]  # fmt: skip
ABSURD_TEXTS = ["", " ", "a" * 100_000, "\x00", "é—", "\ud800", "\x1b[2J", "a\nb", "NaN", "1e5", "../..", "{}", "None"]
ABSURD_VALUES = [None, True, False, [], {}, [[]], {"": None}, [1, 2, 3], *ABSURD_NUMBERS, *ABSURD_TEXTS]


def _nested(depth):
    value = None
    for _ in range(depth):
        value = [value]
    return value


def places(data, path=()):
    """Return the place of every value in plain data."""
    found = [path] if path else []
    if isinstance(data, dict):
        for key, value in data.items():
            found += places(value, (*path, key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            found += places(value, (*path, number))
    return found


def value_at(data, path):
    return functools.reduce(lambda value, step: value[step], path, data)


class Originals(list):
    """Files or their contents as they should be; hypothesis is not to print them all."""

    def __repr__(self):
        return f"{len(self)} originals"


class Case:
    """A changed copy of one of the originals."""

    def __init__(self, number, content, what):
        self.number, self.content, self._what = number, content, what

    def __iter__(self):
        return iter((self.number, self.content))

    def __repr__(self):
        return f"original {self.number}, changed: {self._what}"


@st.composite
def changed_data(draw, originals):
    """Return plain data with up to three changes, and the number of the original."""
    number = draw(st.integers(0, len(originals) - 1))
    data = copy.deepcopy(originals[number])
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        everywhere = places(data)
        if not everywhere:
            break
        path = draw(st.sampled_from(everywhere))
        parent, last = value_at(data, path[:-1]), path[-1]
        value = parent[last]
        match draw(st.sampled_from(["absurd", "near", "near", "drop", "rename", "move", "other", "wrap", "deep"])):
            case "absurd":
                parent[last] = copy.deepcopy(draw(st.sampled_from(ABSURD_VALUES)))
            case "near" if isinstance(value, bool):
                parent[last] = not value
            case "near" if isinstance(value, int):
                parent[last] = value + draw(st.sampled_from([-1, 1, 2, 10, -value, 10**6]))
            case "near" if isinstance(value, float):
                factor = draw(st.sampled_from([-1, 0.5, 0.9, 0.999, 1 - 1e-9, 1 + 1e-9, 1.001, 1.1, 2, 10]))
                whole = int(value) if math.isfinite(value) else 0
                parent[last] = draw(st.sampled_from([value * factor, math.nextafter(value, 0), whole]))
            case "near" if isinstance(value, str):
                parent[last] = draw(st.sampled_from([value + " ", value[:-1], value.upper(), value.replace("-", "_")]))
            case "drop" | "near":
                del parent[last]
            case "rename" if isinstance(parent, dict):
                parent[draw(st.sampled_from(["", "kind", "graph", "samples", f"{last} ", str(last).upper()]))] = (
                    parent.pop(last)
                )
            case "rename" if isinstance(parent, list):
                parent.append(copy.deepcopy(value))
            case "move":
                parent[last] = copy.deepcopy(value_at(data, draw(st.sampled_from(everywhere))))
            case "other":
                other = draw(st.sampled_from(originals))
                with contextlib.suppress(KeyError, IndexError, TypeError):
                    parent[last] = copy.deepcopy(value_at(other, path))
            case "wrap":
                parent[last] = draw(st.sampled_from([[value], {"value": value}, [value, value]]))
            case "deep":
                parent[last] = _nested(draw(st.sampled_from([10, 900, 5000])))
                break
    return Case(number, data, differences(originals[number], data))


def differences(one, other, path=""):
    """Return where plain data differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [line for key in one for line in differences(one[key], other[key], f"{path}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            line for k, pair in enumerate(zip(one, other, strict=True)) for line in differences(*pair, f"{path}[{k}]")
        ]
    with contextlib.suppress(RecursionError):
        return [] if one == other else [f"{path}: {repr(one)[:200]} -> {repr(other)[:200]}"]
    return [f"{path}: deep"]


def as_text(data):
    """Write plain data as JSON, however deep it is."""
    try:
        return json.dumps(data, indent=1)
    except RecursionError:
        return "[" * 100_000


@st.composite
def damaged_bytes(draw, originals):
    """Return bytes that are damaged, or not, and the number of the original."""
    number = draw(st.integers(0, len(originals) - 1))
    content = originals[number]
    place = draw(st.integers(0, max(len(content) - 1, 0)))
    kinds = ["flip", "flip", "cut", "insert", "erase", "prefix", "random", "twice", "splice", "as is"]
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "flip":
            changed = bytearray(content)
            changed[place] ^= draw(st.integers(1, 255))
            content = bytes(changed)
        case "cut":
            content = content[:place]
        case "insert":
            content = content[:place] + draw(st.binary(max_size=20)) + content[place:]
        case "erase":
            content = content[:place] + content[place + draw(st.integers(1, 50)) :]
        case "prefix":
            content = draw(st.sampled_from([b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\n", b"\x80\x04"])) + content
        case "random":
            content = draw(st.binary(max_size=200))
        case "twice":
            content = content + content
        case "splice":
            content = content[:place] + draw(st.sampled_from(originals))[place:]
    before, after = (data[max(place - 30, 0) : place + 60] for data in (originals[number], content))
    return Case(number, content, f"{kind} at {place}: {before} -> {after}")
