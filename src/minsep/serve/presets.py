"""Tasks to begin with."""

from dataclasses import dataclass

from minsep.planning import Request


@dataclass(frozen=True)
class Preset:
    """A task to begin with: its name, what it is in words, and the request."""

    name: str
    words: str
    request: Request


PRESETS = (
    Preset(
        "An image classifier",
        "60,000 examples: the task of the README.",
        Request(60_000, 512, 2000, epsilon=4, delta=1e-5),
    ),
    Preset(
        "CIFAR-10",
        "50,000 images, 20 epochs in batches of 500, a small convolutional network.",
        Request(50_000, 500, 2000, epsilon=4, delta=1e-5, model_size=550_000),
    ),
    Preset(
        "A LoRA fine-tune",
        "20,000 texts, 5 epochs, adapters of some 3 million parameters.",
        Request(20_000, 200, 500, epsilon=8, delta=1e-5, model_size=3_000_000, max_bands=32),
    ),
    Preset(
        "The paper's production case",
        "14.7 million users, 7,200 rounds of 1,793, truncated at 2,048, up to 256 bands.",
        Request(
            14_745_600,
            1793,
            7200,
            epsilon=10,
            delta=1.301e-8,
            model_size=10_000_000,
            max_batch_size=2048,
            max_bands=256,
            min_sep=256,
            schemes=("poisson", "cyclic-poisson", "min-sep"),
        ),
    ),
)
