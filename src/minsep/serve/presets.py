"""Tasks to begin with."""

from typing import Any

PRESETS: tuple[dict[str, Any], ...] = (
    {
        "name": "An image classifier",
        "words": "60,000 examples: the task of the README.",
        "values": {"examples": "60000", "batch_size": "512", "iterations": "2000", "epsilon": "4", "delta": "1e-5"},
    },
    {
        "name": "CIFAR-10",
        "words": "50,000 images, 20 epochs in batches of 500, a small convolutional network.",
        "values": {
            "examples": "50000",
            "batch_size": "500",
            "iterations": "2000",
            "epsilon": "4",
            "delta": "1e-5",
            "model_size": "550000",
        },
    },
    {
        "name": "A LoRA fine-tune",
        "words": "20,000 texts, 5 epochs, adapters of some 3 million parameters.",
        "values": {
            "examples": "20000",
            "batch_size": "200",
            "iterations": "500",
            "epsilon": "8",
            "delta": "1e-5",
            "model_size": "3000000",
            "max_bands": "32",
        },
    },
    {
        "name": "The paper's production case",
        "words": "14.7 million users, 7,200 rounds of 1,793, cut at 2,048, up to 256 bands.",
        "values": {
            "examples": "14745600",
            "batch_size": "1793",
            "iterations": "7200",
            "epsilon": "10",
            "delta": "1.301e-8",
            "model_size": "10000000",
            "max_batch_size": "2048",
            "max_bands": "256",
            "min_sep": "256",
            "schemes": "poisson,cyclic-poisson,min-sep",
        },
    },
)
