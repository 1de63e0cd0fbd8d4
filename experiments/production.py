"""The paper's production use case, with its baselines: `python -m experiments.production`. A few minutes on one core.

7,200 iterations, 256 bands, expected batches of 1,793 from 14,745,600 examples, truncated to 2,048, and privacy of
(10, 1.301e-8). Results are added to a file one by one, so a killed command continues.
"""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import minsep
from experiments.sweep import Record, Setting, read, sweep

EXAMPLES, BATCH, MOST, ITERATIONS, BANDS = 14_745_600, 1793, 2048, 7200, 256
EPSILON, DELTA = 10.0, 1.301e-8
RATE = BATCH / EXAMPLES
RESULTS = Path("experiments/results/production.jsonl")
CUT = minsep.Truncation(MOST, EXAMPLES)

SETTINGS: list[Setting] = [
    {"question": "least noise", "scheme": "b-min-sep", "truncated": True},
    *(
        {"question": "certificate", "scheme": "b-min-sep", "truncated": True, "noise": noise}
        for noise in (0.47, 0.5, 0.56)
    ),
    *({"question": "delta", "scheme": "b-min-sep", "truncated": False, "noise": noise} for noise in (0.44, 0.47)),
    *({"question": "least noise", "scheme": "cyclic Poisson", "truncated": cut} for cut in (True, False)),
    *({"question": "epsilon", "scheme": "cyclic Poisson", "truncated": cut, "noise": 0.627} for cut in (True, False)),
    {"question": "least noise", "scheme": "DP-SGD", "truncated": False},
    {"question": "epsilon", "scheme": "DP-SGD", "truncated": False, "noise": 0.368},
]


def design_of(setting: Setting) -> minsep.Design:
    """Return the strategy and the sampling of a setting."""
    cut = CUT if setting["truncated"] else None
    if setting["scheme"] == "DP-SGD":
        return minsep.Design(minsep.BandedToeplitz.identity(iterations=ITERATIONS), minsep.Poisson(RATE), cut)
    strategy = minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=BANDS)
    if setting["scheme"] == "cyclic Poisson":
        return minsep.Design(strategy, minsep.CyclicPoisson(RATE, BANDS, "equal"), cut)
    return minsep.Design(strategy, minsep.MinSep(RATE, BANDS), cut)


def run(setting: Setting) -> dict[str, Any]:
    """Answer one question."""
    begin = time.process_time()
    design = design_of(setting)
    if setting["question"] == "least noise":
        found = minsep.calibrate(design, epsilon=EPSILON, delta=DELTA, seed=0)
        result = {
            "noise_multiplier": found.mechanism.noise_multiplier,
            "passed": found.certificate.passed,
            "samples": sum(rung.samples for rung in found.rungs),
            "fallback": found.fallback,
        }
    elif setting["question"] == "certificate":
        certificate = minsep.certify(design.with_noise(setting["noise"]), EPSILON, DELTA, seed=0)
        result = {"passed": certificate.passed, "samples": certificate.samples}
    elif setting["question"] == "delta":
        estimate = minsep.estimate_delta(design.with_noise(setting["noise"]), EPSILON, samples=20_000, seed=0)
        result = {"delta": estimate.value, "stderr": estimate.stderr}
    else:
        estimate = minsep.estimate_epsilon(design.with_noise(setting["noise"]), DELTA)
        result = {"epsilon": estimate.value, "stderr": estimate.stderr, "method": estimate.method}
    return {**result, "processor_seconds": round(time.process_time() - begin, 1)}


def main(results: Annotated[Path, typer.Option(help="File of JSON lines.")] = RESULTS) -> None:
    """Answer all questions that the file has no answer to, and show all answers."""
    Console(width=110).print(table_of(sweep(SETTINGS, run, results)))


def table_of(records: list[Record]) -> Table:
    """Return the answers as a table."""
    table = Table(title="Production: (10, 1.301e-8)-DP", title_justify="left")
    for heading in ("scheme", "batches", "question", "answer", "processor seconds"):
        table.add_column(heading)
    for record in records:
        setting, result = record["setting"], record["result"]
        at = f" at noise {setting['noise']:g}" if "noise" in setting else ""
        table.add_row(
            setting["scheme"],
            "truncated to 2,048" if setting["truncated"] else "not truncated",
            setting["question"] + at,
            _answer(setting["question"], result),
            f"{result['processor_seconds']:g}",
        )
    return table


def _answer(question: str, result: dict[str, Any]) -> str:
    if question == "least noise":
        return f"{result['noise_multiplier']:.4f}, {result['samples']:,} samples"
    if question == "certificate":
        return f"{'passed' if result['passed'] else 'refused'}, {result['samples']:,} samples"
    if question == "delta":
        return f"{result['delta']:.3g} ± {2 * result['stderr']:.1g}: {result['delta'] / DELTA:.3f} times the target"
    return f"{result['epsilon']:.3f}"


def repeat_slice(results: Path = RESULTS) -> list[str]:
    """Certify the paper's noise and account for the baseline again, and compare with the file of results."""
    lines = []
    for record in read(results):
        setting, known = record["setting"], record["result"]
        if setting.get("noise") not in (0.47, 0.627) or setting["question"] == "delta":
            continue
        found = run(setting)
        if any(found[name] != known[name] for name in ("passed",) if name in known):
            raise AssertionError(f"{setting}: {found}, but the file says {known}.")
        if abs(found.get("epsilon", 1.0) / known.get("epsilon", 1.0) - 1) > 1e-3:
            raise AssertionError(f"{setting}: {found}, but the file says {known}.")
        lines.append(f"{setting['scheme']} at {setting['noise']}: {_answer(setting['question'], found)}")
    return lines


if __name__ == "__main__":
    typer.run(main)
