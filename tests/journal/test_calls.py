"""Journals of certify, calibrate, plan, compare and plan_users."""

import inspect
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace

import pytest
from dp_accounting import GaussianDpEvent

import minsep
from minsep import paper
from minsep.cli.app import main
from minsep.planning import Request

ONE = minsep.Compute(workers=1)
STRATEGY = minsep.BandedToeplitz.optimal(iterations=20, bands=2)
SCHEME = minsep.MinSep(rate=0.1, min_sep=4)
MECHANISM = minsep.Mechanism(STRATEGY, SCHEME, noise_multiplier=0.905)
GRAPH = minsep.AttributionGraph.from_lists([[k // 2] for k in range(200)])
OTHER_GRAPH = minsep.AttributionGraph.from_lists([[k // 2 + k % 2] for k in range(200)])
NOT_THE_TASK = {"compute", "found", "journal", "options", "progress"}
OF_THE_GRAPH = {"num_examples", "user_bound", "max_batch_size", "attempts"}


class StopError(Exception):
    """A crash."""


def stop(event):
    raise StopError


def after(events):
    """Return a progress that crashes after some events."""
    seen = []

    def tell(event):
        seen.append(event)
        if len(seen) > events:
            raise StopError

    return tell


CERTIFY = {
    "model_size": (None, 100),
    "curve": (False, True),
    "alongside": ((), (GaussianDpEvent(30.0),)),
    "mechanism": (MECHANISM, MECHANISM.with_noise_multiplier(0.91)),
    "epsilon": (2.0, 2.5),
    "delta": (1e-2, 2e-2),
    "attempts": (1, 2),
    "seed": (None, 0),
    "failure_probability": (None, 1e-5),
    "max_samples": (None, 10**9),
    "memory": (1 << 30, 1 << 29),
    "num_examples": (None, 1000),
}
CALIBRATE = {
    "model_size": (None, 100),
    "curve": (False, True),
    "alongside": ((), (GaussianDpEvent(30.0),)),
    "strategy": (STRATEGY, minsep.BandedToeplitz.identity(iterations=20)),
    "scheme": (SCHEME, minsep.MinSep(rate=0.1, min_sep=5)),
    "truncation": (None, minsep.Truncation(500, 1000)),
    "near": (0.9, 0.91),
    "trials": (None, 5),
    "law": ("geometric", "logarithmic"),
    **{name: CERTIFY[name] for name in CERTIFY if name not in ("mechanism", "max_samples")},
}
PLAN = {
    "num_examples": (200, 300),
    "batch_size": (10.0, 11.0),
    "iterations": (20, 21),
    "epsilon": (2.0, 2.5),
    "delta": (1e-2, 2e-2),
    "max_bands": (2, 3),
    "min_sep": (None, 3),
    "schemes": (("min-sep",), ("poisson", "min-sep")),
    "max_batch_size": (None, 100),
    "user_bound": (2, 3),
    "graph": (None, GRAPH),
    "workload": (minsep.Workload(), minsep.Workload(momentum=0.9)),
    "model_size": (None, 1000),
    "curve": (None, False),
    "trials": (None, 5),
    "law": (None, "logarithmic"),
    "noise_memory": (1 << 34, 1 << 33),
    "tune": (False, True),
    "estimate": (False, True),
    "attempts": (1, 2),
    "seed": (None, 0),
}
USERS = {
    "graph": (GRAPH, OTHER_GRAPH),
    "user_bounds": ((1, 2), (2, 1)),
    "duplicates": (False, True),
    **{
        name: PLAN[name]
        for name in PLAN
        if name not in ("num_examples", "max_batch_size", "user_bound", "graph", "attempts")
    },
}
COMPARE = {
    "iterations": (20, 21),
    "delta": (1e-2, 2e-2),
    "epsilons": ((2.0,), (2.5,)),
    "epochs": ((8,), (9,)),
    "max_bands": (2, 3),
    "verified": (False, True),
}
PAPER_CERTIFY = {name: CERTIFY[name] for name in inspect.signature(paper.certify).parameters if name in CERTIFY}
PAPER_CALIBRATE = {
    "design": (minsep.Design(STRATEGY, SCHEME), minsep.Design(STRATEGY, minsep.MinSep(rate=0.1, min_sep=5))),
    **{name: CERTIFY[name] for name in ("epsilon", "delta", "model_size", "seed")},
}
CALLS = [
    (minsep.certify, CERTIFY),
    (minsep.calibrate, CALIBRATE),
    (minsep.plan, PLAN),
    (minsep.plan_users, USERS),
    (paper.compare, COMPARE),
    (paper.certify, PAPER_CERTIFY),
    (paper.calibrate, PAPER_CALIBRATE),
]


@pytest.mark.parametrize(("call", "values"), CALLS, ids=lambda item: getattr(item, "__name__", ""))
def test_every_input_is_part_of_the_task(call, values, tmp_path):
    """The journal of a call is refused by a call that differs in anything that could matter, and by nothing else."""
    parameters = set(inspect.signature(call).parameters)
    if "options" in parameters:
        parameters |= {field.name for field in fields(Request)} - OF_THE_GRAPH
    assert set(values) == parameters - NOT_THE_TASK
    path = tmp_path / "a.journal"
    same = {name: value for name, (value, _) in values.items()}
    with pytest.raises(StopError):
        call(**same, compute=ONE, journal=path, progress=stop)
    kept = path.read_bytes()
    for name, (_, other) in values.items():
        named = "design" if name in ("strategy", "scheme", "truncation") else name
        with pytest.raises(ValueError, match=rf"another task: .*{named} is .* here and .* there"):
            call(**(same | {name: other}), compute=ONE, journal=path)
        assert path.read_bytes().splitlines()[0] == kept.splitlines()[0]
    with pytest.raises(StopError):
        call(**same, compute=minsep.Compute(workers=2), journal=str(path), progress=stop)


def test_a_certificate_goes_on_with_other_workers(tmp_path, monkeypatch):
    monkeypatch.setattr("minsep.journal.compute._SECONDS", 0.0)
    path = tmp_path / "a.journal"
    whole = minsep.certify(MECHANISM, 2.0, 1e-2, seed=0, journal=path, compute=ONE)
    assert whole.samples > 4 * 1024
    header = path.read_bytes().splitlines(keepends=True)[0]
    with ProcessPoolExecutor(1) as executor:
        for compute in (minsep.Compute(workers=2), minsep.Compute(executor=executor)):
            path.write_bytes(header)
            for first in (ONE, compute):
                with pytest.raises(StopError):
                    minsep.certify(MECHANISM, 2.0, 1e-2, seed=0, journal=path, compute=first, progress=after(1))
            found = minsep.certify(MECHANISM, 2.0, 1e-2, seed=0, journal=path, compute=compute)
            assert found.to_json() == whole.to_json()
    assert minsep.verify(whole).holds
    plain = minsep.certify(MECHANISM, 2.0, 1e-2, seed=0, compute=ONE)
    assert plain == whole


SCHEMES = {
    "warm": minsep.MinSep(rate=0.1, min_sep=3),
    "cold": minsep.MinSep(rate=0.1, min_sep=3, start="cold"),
    "few bands": minsep.MinSep(rate=0.1, min_sep=1),
    "users": minsep.UserMinSep(rate=0.05, min_sep=3, user_bound=2),
    "graph": minsep.MultiAttributionMinSep(sampling_prob=0.1, min_sep=3, graph=GRAPH, accept_assumption=True),
    "poisson": minsep.Poisson(0.1),
    "allocation": minsep.RandomAllocation(5),
    "cyclic": minsep.CyclicPoisson(0.1, 2),
    "balls": minsep.BallsInBins(5),
    "unamplified": minsep.Unamplified(5, 4),
}


@pytest.mark.parametrize("certify", [minsep.certify, paper.certify])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_can_be_certified_with_a_journal(tmp_path, scheme, certify):
    allocation = scheme == "allocation"
    strategy = minsep.BandedToeplitz.identity(iterations=20) if allocation else STRATEGY
    mechanism = minsep.Mechanism(strategy, SCHEMES[scheme], noise_multiplier=1.5)
    path = tmp_path / "a.journal"
    first, second = (certify(mechanism, 2.0, 5e-2, journal=path, compute=ONE) for _ in range(2))
    assert first.to_json() == second.to_json()


def cut(path, lines):
    """Keep some lines of a journal, and say how many it had."""
    content = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(content[:lines]))
    return len(content)


def check_plan(path, **options):
    def made():
        return minsep.plan(200, 10, 20, 2.0, 1e-2, max_bands=2, min_sep=4, compute=ONE, journal=path, **options)

    whole, content = made(), path.read_bytes()
    lines = content.count(b"\n")
    for place in (lines // 3, lines - 4, lines):
        path.write_bytes(content)
        cut(path, place)
        found = made()
        assert found == whole
        assert found.certificate.to_json() == whole.certificate.to_json()
        if whole.wider is not None:
            assert found.wider.certificate.to_json() == whole.wider.certificate.to_json()
    return whole


def test_a_plan_goes_on(tmp_path):
    check_plan(tmp_path / "a.journal", schemes=["min-sep"])


@pytest.mark.slow
def test_a_plan_with_a_wider_one_beside_it_goes_on(tmp_path):
    options = {"schemes": ["poisson", "min-sep"], "max_batch_size": 14, "tune": False}
    assert check_plan(tmp_path / "a.journal", **options).wider is not None


@pytest.mark.parametrize("bounds", [[1], pytest.param([1, 2], marks=pytest.mark.slow)])
def test_plans_for_users_go_on(tmp_path, bounds):
    path = tmp_path / "a.journal"
    options = {"user_bounds": bounds, "max_bands": 2, "schemes": ["poisson"], "tune": False, "journal": path}
    whole = minsep.plan_users(GRAPH, 10, 20, 2.0, 1e-2, compute=ONE, **options)
    lines = cut(path, 1)
    found = minsep.plan_users(GRAPH, 10, 20, 2.0, 1e-2, compute=ONE, **options)
    assert cut(path, lines) == lines
    for one, other in zip(whole.plans, found.plans, strict=True):
        assert one.plan.certificate.to_json() == other.plan.certificate.to_json()


@pytest.mark.parametrize("verified", [False, True])
def test_a_comparison_goes_on(tmp_path, verified):
    path = tmp_path / "a.journal"
    options = {"epsilons": [2.0, 4.0], "epochs": [8], "max_bands": 2, "verified": verified, "journal": path}
    whole = paper.compare(20, 5e-2, compute=ONE, **options)
    lines = cut(path, 1)
    assert lines > 5
    for place in (1, lines // 2, lines - 1, lines):
        found = paper.compare(20, 5e-2, compute=ONE, **options)
        assert found == whole
        assert cut(path, place) == lines


def test_the_decisions_of_a_calibration_are_written_down(tmp_path):
    path = tmp_path / "a.journal"
    found = minsep.calibrate(STRATEGY, SCHEME, 2.0, 1e-2, journal=path, compute=ONE)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    notes = [entry["note"] for entry in entries if entry.get("kind") == "note"]
    assert notes == [
        f"noise multiplier {rung.noise_multiplier:.6g} passed after {rung.samples:,} samples"
        for rung in found.rungs[1:]
    ]
    assert entries[0]["seed"] == entries[0]["seed"]
    assert entries[-1]["outcome"].endswith(found.certificate.statement)


def test_events_say_what_was_only_read(tmp_path):
    path, first, second = tmp_path / "a.journal", [], []
    options = {"epsilons": [2.0, 4.0], "epochs": [8], "max_bands": 2, "journal": path, "compute": ONE}
    paper.compare(20, 5e-2, progress=first.append, **options)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    cut(path, 1 + next(place for place, entry in enumerate(entries) if entry.get("kind") == "note"))
    paper.compare(20, 5e-2, progress=second.append, **options)
    assert [event.replayed for event in first] == [False, False]
    assert [event.replayed for event in second] == [True, False]
    assert [replace(event, replayed=False) for event in second] == first


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["minsep", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def test_the_command_line_goes_on(tmp_path, monkeypatch, capsys):
    numbers = {"examples": 100, "batch-size": 10, "iterations": 20, "bands": 2, "min-sep": 4, "delta": 1e-2}
    setting = [f"--{name}={value}" for name, value in numbers.items()]
    path = tmp_path / "a.journal"
    for command, more in (("calibrate", []), ("certify", ["--noise-multiplier", 0.95])):
        journal = tmp_path / f"{command}.journal"
        files = [tmp_path / f"{command}-{number}.json" for number in (1, 2)]
        for file, workers in zip(files, (1, 2), strict=True):
            options = ["--epsilon", 2, "--journal", journal, "--workers", workers, "-o", file]
            assert run(monkeypatch, command, *setting, *more, *options) == 0
        assert files[0].read_bytes() == files[1].read_bytes()
        assert run(monkeypatch, command, *setting, *more, "--epsilon", 3, "--journal", journal) == 2
        assert "epsilon is 3.0 here and 2.0 there" in capsys.readouterr().err
    assert run(monkeypatch, "calibrate", *setting, "--epsilon", 2, "--journal", path, "-o", path) == 2
    assert "journal is" in capsys.readouterr().err
    assert not path.exists()
