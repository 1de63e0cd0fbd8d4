import pytest

import minsep
from experiments import heat_maps
from experiments.heat_maps import Numbers
from experiments.sweep import read

SMALL = {"iterations": 64, "delta": 1e-2, "most_bands": 4}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("heat-maps") / "results.jsonl"
    for numbers in (Numbers.verified, Numbers.certified):
        heat_maps.fill(numbers, path, (16,), (2.0,), SMALL)
    return path


def test_all_designs_are_estimated_with_separations_from_the_bands_to_the_epoch(results):
    (record,) = [record for record in read(results) if record["setting"]["numbers"] == "estimated"]
    designs = {(one["scheme"], one["bands"], one["min_sep"]) for one in record["result"]["designs"]}
    assert designs == {
        *(("cyclic-poisson", bands, bands) for bands in (2, 4)),
        *(("balls-in-bins", bands, 16) for bands in (2, 4)),
        *(("min-sep", 2, b) for b in (2, 4, 8)),
        *(("min-sep", 4, b) for b in (4, 8)),
    }


def test_ratios_are_those_of_squared_errors_and_the_epoch_counts_for_both(results):
    records = read(results)
    for numbers in Numbers:
        best = heat_maps.best_designs(records, numbers)[16, 2.0]
        assert best["min-sep"]["error"] <= best["balls-in-bins"]["error"]
        ratio = heat_maps.ratios(records, numbers, "cyclic-poisson")[16, 2.0]
        assert ratio == pytest.approx((best["min-sep"]["error"] / best["cyclic-poisson"]["error"]) ** 2)
    worst = {
        scheme: {"scheme": scheme, "bands": 2, "min_sep": 2, "error": error}
        for scheme, error in (("cyclic-poisson", 2.0), ("balls-in-bins", 1.0), ("min-sep", 3.0))
    }
    record = {
        "setting": {"numbers": "estimated", "epoch": 16, "epsilon": 2.0},
        "result": {"designs": list(worst.values())},
    }
    assert heat_maps.ratios([record], Numbers.estimated, "balls-in-bins") == {(16, 2.0): 1.0}
    assert heat_maps.ratios([record], Numbers.estimated, "cyclic-poisson") == {(16, 2.0): 0.25}


def test_a_certificate_needs_less_noise_than_the_papers_verifier_and_more_than_the_estimate(results):
    by_numbers = {
        numbers: heat_maps.best_designs(read(results), numbers)[16, 2.0]["balls-in-bins"] for numbers in Numbers
    }
    estimated, verified, certified = (by_numbers[one]["error"] for one in ("estimated", "verified", "certified"))
    assert 0.99 * estimated < certified < verified
    # The verifier's noise is a power of 1.01.
    strategy = minsep.BandedToeplitz.optimal(iterations=64, bands=by_numbers["verified"]["bands"])
    noise = verified / minsep.Workload().error(strategy, 1.0)
    assert noise == pytest.approx(by_numbers["verified"]["noise_multiplier"])


def test_nothing_is_done_twice_and_the_figure_comes_from_the_file_alone(results, tmp_path):
    before = results.read_text()
    heat_maps.fill(Numbers.verified, results, (16,), (2.0,), SMALL)
    assert results.read_text() == before
    heat_maps.picture(read(results), Numbers.verified, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000
