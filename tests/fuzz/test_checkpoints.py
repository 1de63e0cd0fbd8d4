"""A checkpoint that was changed is refused in a sentence, or resumes the run that it was of."""

import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

import minsep
from tests.fuzz.mutations import Originals, as_text, changed_data, damaged_bytes, fuzz, refused_in_a_sentence
from tests.training.adapters import ADAPTERS

EXAMPLES, FEATURES, STEPS = 30, 2, 5
MECHANISM = minsep.Mechanism(
    minsep.BandedToeplitz.optimal(iterations=8, bands=3), minsep.MinSep(rate=0.1, min_sep=3), noise_multiplier=1.0
)
OPTIONS = {"num_examples": EXAMPLES, "clip_norm": 1.0}


def train(adapter, trainer, until):
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((EXAMPLES, FEATURES)).astype(np.float32)
    targets = generator.standard_normal((EXAMPLES, 1)).astype(np.float32)
    for indices in trainer.batches():
        trainer.step(adapter.array(inputs[indices]), adapter.array(targets[indices]))
        if trainer.steps == until:
            break
    return adapter.parameters(trainer)


def checkpoint_of(adapter):
    trainer = adapter.training(*adapter.arguments(FEATURES, "adam"), MECHANISM, seed=1, **OPTIONS)
    train(adapter, trainer, STEPS)
    with tempfile.TemporaryDirectory() as folder:
        trainer.save(Path(folder, "checkpoint"))
        content = Path(folder, "checkpoint").read_bytes()
    return content, train(adapter, trainer, None)


BOTH = [checkpoint_of(adapter) for adapter in ADAPTERS]
FILES = Originals(content for content, _ in BOTH)


def arrays_of(content):
    with np.load(io.BytesIO(content)) as file:
        return {name: file[name] for name in file.files}


ARRAYS = [arrays_of(content) for content in FILES]
PLAIN = Originals(json.loads(str(arrays["plain"])) for arrays in ARRAYS)


def resumed(content, number):
    """Return the training that a file resumes, or None if it is refused as it should be."""
    adapter = ADAPTERS[number]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "checkpoint")
        path.write_bytes(content)
        with refused_in_a_sentence():
            return adapter.training.resume(path, *adapter.arguments(FEATURES, "adam"), MECHANISM, **OPTIONS)
    return None


@fuzz(damaged_bytes(FILES), quick=12, slow=300)
def test_damaged_checkpoints_are_refused_or_unharmed(case):
    number, content = case
    trainer = resumed(content, number)
    if trainer is not None:
        assert trainer.steps == STEPS
        assert np.array_equal(train(ADAPTERS[number], trainer, None), BOTH[number][1])


@fuzz(changed_data(PLAIN), quick=20, slow=300)
def test_changed_checkpoints_are_refused_or_of_a_step_of_this_run(case):
    number, plain = case
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{**ARRAYS[number], "plain": np.array(as_text(plain))})
    trainer = resumed(file.getvalue(), number)
    if trainer is not None:
        assert 0 <= trainer.steps <= MECHANISM.iterations
        assert trainer.mechanism.fingerprint == MECHANISM.fingerprint


@pytest.mark.parametrize("number", range(len(ADAPTERS)), ids=[adapter.name for adapter in ADAPTERS])
def test_arrays_of_other_shapes_are_refused(number):
    content, arrays = dict(PLAIN[number]["content"]["dict"]), ARRAYS[number]
    content.pop("optimizer", None)  # torch takes whatever its optimisers may keep
    for name, array in arrays.items():
        if f'"{name}"' in json.dumps(content):
            for other in (array[None], np.zeros(7, dtype=array.dtype)):
                file = io.BytesIO()
                np.savez(file, **{**arrays, name: other})
                assert resumed(file.getvalue(), number) is None, name
