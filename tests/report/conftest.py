from pathlib import Path

import pytest

import minsep
from minsep.paper.comparison import Cell, Comparison
from minsep.planning import Candidate, Plan, Request

ITERATIONS = 60


def plan_of(chosen: Candidate, others: list[Candidate], request: Request) -> Plan:
    """A plan as the search would return it, with a real mechanism and certificate, without the search."""
    assert chosen.noise_multiplier is not None
    mechanism = chosen.design(request).with_noise(chosen.noise_multiplier)
    certificate = minsep.certify(mechanism, request.epsilon, request.delta, seed=0, compute=minsep.Compute(workers=1))
    tried = sorted([chosen, *(one for one in others if not one.skipped)], key=lambda one: one.error or 0.0)
    return Plan(request, chosen, mechanism, certificate, (*tried, *(one for one in others if one.skipped)), seed=0)


@pytest.fixture(scope="session")
def plan() -> Plan:
    chosen = Candidate("min-sep", 4, 16, 0.7, noise_multiplier=1.0, error=3.0)
    others = [
        Candidate("poisson", 1, 1, noise_multiplier=0.56, error=4.5, exact=True),
        Candidate("cyclic-poisson", 2, 2, noise_multiplier=0.62, error=3.6, exact=True),
        Candidate("cyclic-poisson", 4, 4, noise_multiplier=0.69, error=4.0, exact=True),
        Candidate("min-sep", 2, 8, noise_multiplier=0.57, error=3.5),
        Candidate("min-sep", 4, 8, noise_multiplier=0.61, error=3.4),
        Candidate("min-sep", 4, 16, noise_multiplier=0.59, error=3.2),
        Candidate("min-sep", 8, 4, skipped="more bands than the separation, 4"),
    ]
    return plan_of(chosen, others, Request(2000, 20, ITERATIONS, 2.0, 1e-3))


@pytest.fixture(scope="session")
def comparison() -> Comparison:
    epsilons, epochs = (1.0, 4.0), (32, 64, 128)
    cells = [
        Cell(
            epsilon,
            epoch,
            {
                "cyclic-poisson": Candidate("cyclic-poisson", 4, 4, noise_multiplier=1.0, error=2.0),
                "balls-in-bins": Candidate("balls-in-bins", 4, epoch, noise_multiplier=1.0, error=1.0),
                "min-sep": Candidate("min-sep", 4, 8, noise_multiplier=1.0, error=1.0 + 0.1 * place),
            },
        )
        for place, (epoch, epsilon) in enumerate((epoch, epsilon) for epoch in epochs for epsilon in epsilons)
    ]
    return Comparison(64, 1e-3, 4, epsilons, epochs, tuple(cells))


@pytest.fixture(scope="session")
def pages(plan: Plan, comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from minsep.show.report import write_comparison, write_report

    folder = tmp_path_factory.mktemp("pages")
    write_report(plan, folder / "plan.html", command="minsep plan --seed 0")
    write_comparison(comparison, folder / "comparison.html")
    return {"plan": folder / "plan.html", "comparison": folder / "comparison.html"}
