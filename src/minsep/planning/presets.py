"""Runs that people have reported, by name: where a plan may start from."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from minsep.core import validation as validate


@dataclass(frozen=True)
class Preset:
    """The numbers of a run that was reported.

    Attributes:
        name: Its name on the command line.
        what: What it is, in a few words.
        source: Who reported it, and where.
        values: The numbers, by the fields of a `minsep.planning.Request`.
    """

    name: str
    what: str
    source: str
    values: Mapping[str, Any]


def _preset(name: str, what: str, source: str, **values: Any) -> Preset:
    return Preset(name, what, source, MappingProxyType(values))


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        one.name: one
        for one in (
            _preset(
                "vaultgemma",
                "a language model that is trained from nothing, of a billion parameters",
                "VaultGemma: epsilon and delta by its model card, the rest about as in its report",
                num_examples=13_000_000_000,
                batch_size=518_000,
                iterations=100_000,
                epsilon=2.0,
                delta=1.1e-10,
            ),
            _preset(
                "mellum-lora",
                "adapters of a language model for code, of four billion parameters",
                "opaque by JetBrains, examples/train_dpftrl.py",
                num_examples=500_000,
                batch_size=256,
                iterations=15_624,
                epsilon=3.0,
                delta=5.4e-7,
            ),
            _preset(
                "paper-production",
                "the production run of the paper, with batches that are truncated at 2,048",
                "Privacy Amplification for BandMF via b-Min-Sep Subsampling, its production use-case",
                num_examples=14_745_600,
                batch_size=1793,
                iterations=7200,
                epsilon=10.0,
                delta=1.301e-8,
                max_batch_size=2048,
                max_bands=256,
            ),
            _preset(
                "stackoverflow",
                "federated training of a language model on the users of Stack Overflow",
                "about as in the experiments of BandMF, arXiv 2306.08153",
                num_examples=342_477,
                batch_size=1000,
                iterations=2052,
                epsilon=2.0,
                delta=1e-6,
                max_bands=342,
            ),
            _preset(
                "gemma-lora",
                "adapters of Gemma 3 on the dialogues of SAMSum, three epochs",
                "a notebook of jax-privacy",
                num_examples=3000,
                batch_size=16,
                iterations=563,
                epsilon=4.0,
                delta=2e-5,
            ),
            _preset(
                "flair",
                "federated training of an image classifier on the users of FLAIR",
                "pfl-research, benchmarks/flair; delta is the usual one of its benchmarks",
                num_examples=41_131,
                batch_size=5000,
                iterations=5000,
                epsilon=2.0,
                delta=1e-6,
            ),
            _preset(
                "random-allocation",
                "20 epochs of 250 batches, each example in one batch of an epoch at random",
                "Ertan and van Dijk; here with 60,000 examples",
                num_examples=60_000,
                batch_size=240,
                iterations=5000,
                epsilon=1.0,
                delta=1e-5,
            ),
        )
    }
)
"""The runs, by name."""


def preset_of(name: str) -> Preset:
    """Return a preset by its name.

    Args:
        name: The name.

    >>> preset_of("gemma-lora").values["iterations"]
    563
    """
    validate.choice(tuple(PRESETS), preset=name)
    return PRESETS[name]
