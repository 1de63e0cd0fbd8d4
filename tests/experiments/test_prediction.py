import json

import pytest

import minsep
from experiments import prediction

ITERATIONS = 20


def line(**record):
    return json.dumps(record | {"versions": {}, "seconds": 0.0}) + "\n"


@pytest.fixture
def results(tmp_path):
    """Runs whose loss grows with the noise multiplier alone: a perfect prediction of the noise of a single step."""
    noises, losses = [], []
    for place, bands in enumerate((1, 2, 3, 4, 6)):
        setting = {"user_bound": 1, "epsilon": 2.0, "method": "b-min-sep", "bands": bands, "iterations": ITERATIONS}
        sigma = [1.0, 3.0, 2.0, 5.0, 4.0][place]
        noises.append(line(setting=setting, result={"bands": bands, "noise_multiplier": sigma}))
        strategy = minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=bands)
        loss = minsep.Workload(horizon=1).error(strategy, sigma)
        losses += [line(setting={**setting, "seed": seed}, result={"loss": loss + seed}) for seed in (0, 1)]
    (tmp_path / "papers_noise.jsonl").write_text("".join(noises))
    (tmp_path / "papers_words.jsonl").write_text("".join(losses))
    return tmp_path


def test_a_workload_that_predicts_perfectly_has_a_correlation_of_one(results):
    found = prediction.of_papers(results, "words")
    assert {one.workload for one in found} == set(prediction.WORKLOADS)
    ranks = {one.workload: one.rank for one in found}
    assert ranks["single step"] == pytest.approx(1)
    assert all(-1 <= rank < 1 for name, rank in ranks.items() if name == "prefix sums")
    assert prediction.of_papers(results, "minilm") == []


def test_the_published_figure_is_drawn_from_the_files(tmp_path, capsys):
    prediction.main(figures=tmp_path)
    assert "hashed words" in (tmp_path / "prediction.svg").read_text()
    assert "Papers, hashed words, 1 an author: prefix sums: +" in capsys.readouterr().out
