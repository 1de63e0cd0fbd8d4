import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

import minsep
from experiments import arxiv, author_figures, paper_data
from experiments.schedule import linear_decay
from experiments.softmax import Tuning, evaluate, train
from experiments.sweep import read
from minsep.training.torch import PrivateTraining, ScaleThenPrivatize

ITERATIONS, EXAMPLES, CLASSES = 12, 60, 3


def small_task():
    generator = np.random.default_rng(1)
    features = generator.standard_normal((EXAMPLES, 5)).astype(np.float32) * (generator.random((EXAMPLES, 5)) < 0.6)
    features = np.hstack([features, np.ones((EXAMPLES, 1), dtype=np.float32)])
    mechanism = minsep.Mechanism(
        minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=3), minsep.MinSep(rate=0.1, min_sep=3), 0.5
    )
    return features, generator.integers(0, CLASSES, EXAMPLES), mechanism


def by_the_library(features, targets, mechanism, tuning):
    model = torch.nn.Linear(features.shape[1] - 1, CLASSES)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    if tuning.optimiser == "sgd":
        optimiser, options = torch.optim.SGD(model.parameters(), lr=tuning.learning_rate, momentum=0.9), {}
    else:
        optimiser = torch.optim.Adam(model.parameters(), lr=tuning.learning_rate)
        options = {"scaling": ScaleThenPrivatize(1e-3)}
    if tuning.decay:
        options["schedule"] = linear_decay(ITERATIONS)
    trainer = PrivateTraining(
        model,
        torch.nn.functional.cross_entropy,
        optimiser,
        mechanism,
        num_examples=EXAMPLES,
        clip_norm=tuning.clip_norm,
        expected_batch=6.0,
        seed=4,
        **options,
    )
    inputs, wanted = torch.from_numpy(features[:, :-1]), torch.from_numpy(targets)
    for indices in trainer.batches():
        trainer.step(inputs[indices], wanted[indices])
    return np.vstack([model.weight.detach().numpy().T, model.bias.detach().numpy()[None]])


@pytest.mark.filterwarnings("ignore:clip_norm is")
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_settings_trained_together_are_what_the_library_trains_one_by_one(optimiser, as_rows):
    features, targets, mechanism = small_task()
    clips = (0.3, 2.0) if optimiser == "sgd" else (1.0, 30.0)
    tunings = [Tuning(optimiser, rate, clip, decay) for rate in (0.1, 0.5) for clip in clips for decay in (False, True)]
    noise = iter(mechanism.noise((features.shape[1] * CLASSES,), seed=4))
    batches = iter(mechanism.batches(EXAMPLES, seed=4))
    found = train(as_rows(features), targets, CLASSES, batches, noise, ITERATIONS, 6.0, tunings)
    for weights, tuning in zip(found, tunings, strict=True):
        expected = by_the_library(features, targets, mechanism, tuning)
        # The simulation adds rows as they are; what the library releases is smoothed by a thousandth of the noise.
        np.testing.assert_allclose(weights, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())


def test_an_empty_batch_is_a_step_with_noise_alone():
    features, targets, _ = small_task()
    row = np.arange(18, dtype=np.float32)
    (weights,) = train(
        features, targets, CLASSES, [np.array([], dtype=int)], iter([row]), 1, 2.0, [Tuning("sgd", 1.0, 3.0)]
    )
    np.testing.assert_allclose(weights[:-1], -1.5 * row[:15].reshape(3, 5).T)
    np.testing.assert_allclose(weights[-1], -1.5 * row[15:])


def test_losses_are_those_of_torch():
    features, targets, _ = small_task()
    weights = np.random.default_rng(0).standard_normal((2, 6, 3))
    for one, result in zip(weights, evaluate(features, targets, weights), strict=True):
        outputs = torch.from_numpy(features @ one)
        assert result["loss"] == pytest.approx(
            float(torch.nn.functional.cross_entropy(outputs, torch.from_numpy(targets)))
        )
        assert result["accuracy"] == pytest.approx(float((outputs.argmax(1).numpy() == targets).mean()))


def test_papers_are_split_into_parts_that_share_nothing():
    papers = paper_data.generated_papers(1200, tests=100, public=60, validation=40)
    parts = [papers.train, papers.validation, papers.public, papers.test]
    assert sum(part.size for part in parts) == np.unique(np.concatenate(parts)).size
    assert [part.size for part in parts[1:]] == [40, 60, 100]
    assert all(len(papers.authors[row]) > 1 for part in parts for row in part)
    rows = paper_data.features_of(papers, "words", papers.train, Path())
    norms = np.sqrt(rows[papers.train].power(2).sum(axis=1))
    np.testing.assert_allclose(norms, np.sqrt(2), rtol=1e-5)
    with pytest.raises(SystemExit, match="2000 are needed"):
        paper_data.generated_papers(1200, tests=1000, public=0, validation=0)


def test_papers_are_read_from_their_file(tmp_path):
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    table = {
        "title": [f"Paper {k}" for k in range(80)],
        "abstract": [f"{'graph' if k % 2 else 'noise'} number{k}" for k in range(80)],
        "author_ids": [[k] if k % 4 == 0 else [k, k + 1] for k in range(80)],
        "primary_cat": ["cs.DS" if k % 2 else "cs.CR" for k in range(80)],
    }
    parquet.write_table(arrow.table(table), tmp_path / "papers.parquet")
    papers = paper_data.load_papers(tmp_path / "papers.parquet", tests=10, public=10, validation=10)
    assert papers.train.size == 60 - 30
    assert papers.texts[3] == "Paper 3. graph number3"
    assert papers.targets[:2].tolist() == [0, 1]
    with pytest.raises(SystemExit, match="file of papers"):
        paper_data.load_papers(tmp_path / "nothing")


@pytest.fixture(scope="module")
def small_study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers")
    papers = paper_data.generated_papers(1500, tests=200, public=100, validation=100)
    study = arxiv.Study(papers, "words", "generated", folder, 30, 20)
    settings = study.settings(arxiv.methods((2,)), [1, 2], [8.0])
    arxiv.run(study, "words", settings, 2, folder)
    return folder, study, settings


def test_every_method_is_calibrated_tuned_alike_and_tested_on_other_seeds(small_study):
    folder, study, settings = small_study
    noises, tuned, tests = (read(folder / f"papers_{name}.jsonl") for name in ("noise", "words_tuning", "words"))
    assert len(noises) == 6
    assert len(tuned) == 2 * 6
    assert len(tests) == 2 * 6
    assert {len(record["result"]["tried"]) for record in tuned if record["setting"]["optimiser"] == "sgd"} == {
        2 * len(arxiv.SGD)
    }
    for record in tests:
        names = ("user_bound", "method", "bands", "epsilon")
        own = [one for one in tuned if all(one["setting"][name] == record["setting"][name] for name in names)]
        assert len(own) == 2
        assert record["setting"]["tuning"] == arxiv.least_loss(own)
        assert record["setting"]["seed"] != arxiv.TUNING_SEED
    arxiv.run(study, "words", settings, 2, folder)
    assert read(folder / "papers_words.jsonl") == tests


def test_papers_are_tested_on_that_nothing_was_chosen_by():
    papers = paper_data.generated_papers(1500, tests=200, public=100, validation=100)
    study = arxiv.Study(papers, "words", "generated", Path(), 30, 20)
    assert np.array_equal(study._papers.validation, papers.validation)
    assert np.array_equal(study._papers.test, papers.test)
    many = paper_data.generated_papers(12_000, tests=1000, public=100, validation=2000)
    fewer = arxiv.Study(many, "minilm", "generated", Path(), 30, 20)._papers
    assert (fewer.validation.size, fewer.test.size) == (1000, 1500)
    assert not set(fewer.test) & ({*fewer.validation} | {*many.train} | {*many.public})


def test_fixed_batches_keep_what_their_accounting_says(small_study):
    _, study, _ = small_study
    kept = study._kept[2]
    separation, participations, batches = kept.fixed
    users = [kept.papers.authors[row] for row in kept.rows]
    times: dict[int, list[int]] = {}
    for step, batch in enumerate(batches):
        for example in batch:
            for user in users[example]:
                times.setdefault(user, []).append(step)
    assert max(map(len, times.values())) <= participations
    assert min(np.diff(some).min() for some in times.values() if len(some) > 1) >= separation


def test_the_figure_is_drawn_from_the_files_alone_with_the_bands_of_least_loss_kept_aside(small_study, tmp_path):
    folder, _, _ = small_study
    author_figures.draw_all(folder, tmp_path, "words")
    assert (tmp_path / "papers-words.svg").stat().st_size > 1000

    def record(bands, optimiser, losses):
        setting = {"user_bound": 1, "epsilon": 2.0, "method": "b-min-sep", "bands": bands, "optimiser": optimiser}
        return {"setting": setting, "result": {"tried": [{"loss": loss} for loss in losses]}}

    tuning = [record(2, "sgd", [3.0, 1.0]), record(2, "adam", [2.0, 2.5]), record(4, "sgd", [0.9, 7.0])]
    ((_, best),) = author_figures.best_bands(tuning).items()
    assert best.bands == 4
    found = author_figures.summaries(
        [{"setting": {**tuning[0]["setting"], "seed": k}, "result": {"loss": float(k)}} for k in range(3)], "loss"
    )
    ((mean, half, seeds),) = found.values()
    assert (mean, seeds) == (1.0, 3)
    assert half == pytest.approx(4.30265 / 3**0.5, rel=1e-4)


def test_results_hold_no_text_and_no_author(small_study):
    folder, _, _ = small_study
    for path in folder.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            assert "word" not in json.dumps(json.loads(line)["result"])
