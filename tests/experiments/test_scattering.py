import json

import numpy as np
import pytest
import torch

import minsep
from experiments import image_figures, quick, scattering, scattering_study
from experiments.scattering_study import METHODS, Choice, choices, tunings
from experiments.sweep import key_of, read


def test_rows_are_read_in_single_precision_with_a_column_of_ones():
    stored = np.arange(12, dtype=np.float16).reshape(4, 3)
    rows = scattering.Rows(stored)
    assert rows.shape == (4, 4)
    assert rows[np.array([2, 0])].tolist() == [[6, 7, 8, 1], [0, 1, 2, 1]]
    assert rows[np.array([], dtype=int)].shape == (0, 4)
    assert rows[:].dtype == np.float32


def test_features_of_an_image_depend_on_no_other_image():
    scattered = torch.rand(3, 81, 7, 7, generator=torch.Generator().manual_seed(0))
    together = scattering.normalised(scattered, 2)
    assert together.shape == (3, 81 * 16)
    alone = torch.cat([scattering.normalised(scattered[k : k + 1], 2) for k in range(3)])
    assert torch.allclose(together, alone, atol=1e-6)
    first_group = together[0].view(27, 3 * 16)[0]
    assert abs(float(first_group.mean())) < 1e-5
    assert float(first_group.var(correction=0)) == pytest.approx(1, abs=1e-2)


def test_scattering_is_written_once_and_read_as_it_is(tmp_path, monkeypatch):
    pytest.importorskip("kymatio")
    images = scattering.load_images("generated", None, 6)
    padded = torch.nn.functional.interpolate(images.train.inputs, 32)
    small = scattering.load_images("generated", None, 1)
    small = type(small)(type(small.train)(padded, images.train.targets), type(small.test)(padded[:2], torch.zeros(2)))
    monkeypatch.setattr(scattering, "load_images", lambda *arguments: small)
    features = scattering.load_features("cifar10", None, tmp_path, 2)
    assert features.rows.shape == (8, 243 * 16)
    assert features.examples == 6
    assert np.array_equal(features.rows[0], features.rows[6])
    monkeypatch.setattr(scattering, "_scatter", None)
    again = scattering.load_features("cifar10", None, tmp_path, 2)
    assert np.array_equal(again.rows, features.rows)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cifar10-pool2.npy", "cifar10-raw.npy"]


def test_every_method_has_the_same_number_of_trials_at_the_same_privacy():
    counts = {method: sum(choice.method == method for choice in choices(METHODS)) for method in METHODS}
    assert set(counts.values()) == {4}
    assert len({len(tunings(choice.epoch, [1.0, 2.0])) for choice in choices(METHODS)}) == 1
    for choice in choices(METHODS):
        design = choice.design(epochs=2)
        assert design.scheme.min_sep >= design.strategy.bands
        assert design.scheme.rate == pytest.approx(1 / choice.epoch)
        assert design.scheme.min_sep == choice.min_sep
    of_paper = choices(METHODS, papers_batches=True)
    assert {choice.design(5).iterations for choice in of_paper} == {1500}


def test_learning_rates_are_extended_for_all_until_no_best_is_at_their_edge(tmp_path):
    class Given:
        def tune(self, noise, rates):
            best = {"dp-sgd": 4.0, "b-min-sep": 200.0}[noise["setting"]["method"]]
            return {
                "tried": [
                    {"optimiser": "sgd", "learning_rate": rate * 2, "clip_norm": 0.1, "decay": False}
                    | {"accuracy": 1 - abs(np.log(rate / best))}
                    for rate in rates
                ]
            }

    noises = [{"setting": {"method": method, "epoch": 10}} for method in ("dp-sgd", "b-min-sep")]
    tuned = scattering_study.tune_all(Given(), "x", noises, tmp_path / "tuning.jsonl")
    assert [record["setting"]["rates"] for record in tuned[::2]] == [
        list(scattering_study.RATES),
        [128, 2],
        [256],
        [512],
    ]
    assert [tuning["learning_rate"] for _, tuning in scattering_study.chosen(tuned)] == [8.0, 512.0]


@pytest.fixture(scope="module")
def small_study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    study = scattering_study.Study(scattering.generated_features(), 2, folder)
    tried = [Choice("balls-in-bins", 10, 1), Choice("balls-in-bins", 10, 2), Choice("b-min-sep", 10, 2)]
    scattering_study.run(study, "generated", tried, 8.0, 2, folder)
    return folder, study, tried


def test_methods_are_calibrated_chosen_and_tested_on_other_seeds(small_study):
    folder, study, tried = small_study
    names = ("images_noise", "images_generated_tuning", "images_certificates", "images_generated")
    noises, tuned, certified, tests = (read(folder / f"{name}.jsonl") for name in names)
    assert [len(noises), len(tuned) % 3, len(certified), len(tests)] == [3, 0, 2, 4]
    estimated = {key_of(record["setting"]): record["result"]["noise_multiplier"] for record in noises}
    for record in certified:
        assert record["result"]["noise_multiplier"] == pytest.approx(estimated[key_of(record["setting"])], rel=0.03)
        certificate = minsep.Certificate.load(folder / record["result"]["certificate"])
        assert certificate.passed
        assert certificate.mechanism.noise_multiplier == record["result"]["noise_multiplier"]
    assert {record["setting"]["seed"] for record in tests} == {0, 1}
    best = {}
    for record in tuned:
        for one in record["result"]["tried"]:
            best[record["setting"]["method"]] = max(best.get(record["setting"]["method"], 0), one["accuracy"])
    for setting, tuning in scattering_study.chosen(tuned):
        (record,) = (record for record in tuned if record["setting"] == setting)
        (one,) = (one for one in record["result"]["tried"] if tuning.items() <= one.items())
        assert one["accuracy"] == best[setting["method"]]
    before = (folder / "images_generated.jsonl").read_text()
    scattering_study.run(study, "generated", tried, 8.0, 2, folder)
    assert (folder / "images_generated.jsonl").read_text() == before


def test_figures_are_drawn_from_the_files_alone(small_study, tmp_path, capsys):
    folder, _, _ = small_study
    image_figures.draw_all(folder, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"images-generated.svg", "prediction-generated.svg"}
    first = (tmp_path / "images-generated.svg").read_bytes()
    image_figures.draw_all(folder, tmp_path)
    assert (tmp_path / "images-generated.svg").read_bytes() == first
    assert "b-min-sep: " in capsys.readouterr().out


def test_differences_and_rank_correlations_are_those_of_the_numbers():
    def record(method, seed, accuracy):
        return {"setting": {"method": method, "epsilon": 2.0, "seed": seed}, "result": {"accuracy": accuracy}}

    tests = [record("dp-sgd", seed, 0.6 + 0.01 * seed) for seed in range(3)]
    tests += [record("b-min-sep", seed, 0.65 + 0.01 * seed) for seed in range(3)]
    (one,) = image_figures.differences(tests).values()
    assert one.mean == pytest.approx(5)
    assert one.half == pytest.approx(2.776445 * (2 / 3) ** 0.5, rel=1e-5)
    # Smaller batches have more noise and yet do better; among equal batches, less noise does better.
    points = [
        image_figures.Prediction("dp-sgd", epoch, 2.0, {"good": epoch + k, "bad": -k}, epoch - k / 10)
        for epoch in (10, 50)
        for k in range(4)
    ]
    good, bad = image_figures.correlations(points)
    assert (good.within, bad.within) == (pytest.approx(-1), pytest.approx(1))
    assert good.across > 0
    assert good.chance < 0.01
    assert bad.chance == 1


def test_published_results_have_their_certificates():
    for record in read(scattering_study.RESULTS / "images_certificates.jsonl"):
        held = json.loads((scattering_study.RESULTS / record["result"]["certificate"]).read_text())
        assert held["passed"]
        assert (held["epsilon"], held["delta"]) == (record["setting"]["epsilon"], record["setting"]["delta"])
        assert held["mechanism"]["noise_multiplier"] == record["result"]["noise_multiplier"]


def test_published_tests_are_of_what_was_chosen_on_images_kept_aside():
    for path in scattering_study.RESULTS.glob("images_*_tuning.jsonl"):
        tuned, tests = read(path), read(path.with_name(path.name.replace("_tuning", "")))
        for epsilon in {record["setting"]["epsilon"] for record in tests}:
            best = scattering_study.chosen([record for record in tuned if record["setting"]["epsilon"] == epsilon])
            expected = {key_of({**scattering_study.without(setting, "rates"), "tuning": one}) for setting, one in best}
            for record in tests:
                if record["setting"]["epsilon"] == epsilon:
                    assert key_of(scattering_study.without(record["setting"], "seed")) in expected


@pytest.mark.slow
def test_a_slice_of_every_section_repeats(tmp_path):
    for name, repeat in quick.SLICES.items():
        folder = tmp_path / name
        folder.mkdir()
        assert repeat(folder)
