"""Scattering features of images, computed once: `python -m experiments.scattering --dataset cifar10 --data package`.

Wavelet scattering with two scales and eight angles, as in Tramer and Boneh, "Differentially Private Learning Needs
Better Features (or Much More Data)" (2021), averaged over squares of places where asked for, and group normalisation
within each image. No step looks at another image, so features cost no privacy.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from experiments.image_data import load_images

SCALES, GROUPS = 2, 27
_AT_ONCE = 250
_SIDES = {"cifar10": 32, "fashion-mnist": 28}
CACHE_HELP = "Folder for features: 1.9 GB for CIFAR-10, 0.5 GB for Fashion-MNIST; a quarter of it where pooled by two."


@dataclass(frozen=True)
class Rows:
    """Rows of features in half precision, perhaps on disk; those asked for come in single precision.

    - `stored`: the rows. A last column of ones is added for the biases.
    """

    stored: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns, that of ones included."""
        return len(self.stored), self.stored.shape[1] + 1

    def __getitem__(self, which: Any) -> np.ndarray:
        some = self.stored[which]
        rows = np.empty((len(some), self.shape[1]), dtype=np.float32)
        rows[:, :-1] = some
        rows[:, -1] = 1
        return rows


@dataclass(frozen=True)
class Features:
    """Features and classes of a dataset: training images, then test images."""

    name: str
    rows: np.ndarray
    targets: np.ndarray
    tests: int

    def part(self, first: int, last: int) -> tuple[Rows, np.ndarray]:
        """Return some rows and their classes."""
        return Rows(self.rows[first:last]), self.targets[first:last]

    @property
    def examples(self) -> int:
        """Number of training images."""
        return len(self.targets) - self.tests


def generated_features(examples: int = 1200, tests: int = 300, width: int = 30, classes: int = 10) -> Features:
    """Return rows around one centre a class, with much noise: for trials without data."""
    generator = np.random.default_rng(0)
    targets = generator.integers(0, classes, examples + tests)
    centres = generator.standard_normal((classes, width))
    rows = 0.5 * centres[targets] + generator.standard_normal((examples + tests, width))
    return Features("generated", rows.astype(np.float16), targets, tests)


def normalised(scattered: torch.Tensor, pool: int) -> torch.Tensor:
    """Return rows of features: averages over squares of `pool` x `pool` places, normalised in groups of channels.

    - `scattered`: (images, channels, side, side).
    """
    pooled = torch.nn.functional.avg_pool2d(scattered, pool, ceil_mode=True)
    return torch.nn.functional.group_norm(pooled, GROUPS).flatten(1)


def load_features(dataset: str, data: Path | None, cache: Path, pool: int) -> Features:
    """Return the features of a dataset, from files in the cache where they are."""
    images = load_images(dataset, data, 0)
    targets = torch.cat([images.train.targets, images.test.targets]).numpy()
    path = cache / f"{dataset}-pool{pool}.npy"
    if not path.exists():
        raw = cache / f"{dataset}-raw.npy"
        if not raw.exists():
            _scatter(torch.cat([images.train.inputs, images.test.inputs]), _SIDES[dataset], raw)
        scattered = np.load(raw, mmap_mode="r")
        _write(path, (normalised(torch.from_numpy(part), pool) for part in _parts(scattered)), len(scattered))
    return Features(dataset, np.load(path, mmap_mode="r"), targets, len(images.test))


def _scatter(images: torch.Tensor, side: int, path: Path) -> None:
    import scipy.special

    # kymatio's 3D part, which is imported with the rest, wants a name that SciPy has dropped.
    if not hasattr(scipy.special, "sph_harm"):
        scipy.special.sph_harm = None
    from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D

    transform = ScatteringTorch2D(J=SCALES, shape=(side, side))
    edge = (images.shape[2] - side) // 2
    pixels = (images[:, :, edge : edge + side, edge : edge + side] + 1) / 2
    parts = (transform(part.contiguous()).flatten(1, 2) for part in pixels.split(_AT_ONCE))
    _write(path, parts, len(images))


def _parts(scattered: np.ndarray) -> Any:
    return (scattered[start : start + _AT_ONCE].astype(np.float32) for start in range(0, len(scattered), _AT_ONCE))


@torch.no_grad()
def _write(path: Path, parts: Any, count: int) -> None:
    """Write parts to one array in half precision. A file of that name is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, written, start = path.with_suffix(".partial"), None, 0
    for part in parts:
        if written is None:
            shape = (count, *part.shape[1:])
            written = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float16, shape=shape)
        written[start : start + len(part)] = part.numpy()
        start += len(part)
        if start % 5000 < len(part):
            print(f"{path.name}: {start:,} of {count:,} images", flush=True)
    os.replace(partial, path)


def main(
    dataset: Annotated[str, typer.Option(help="cifar10 or fashion-mnist.")] = "cifar10",
    data: Annotated[Path | None, typer.Option(help="Folder of the dataset's files.")] = None,
    cache: Annotated[Path, typer.Option(help=CACHE_HELP)] = Path("features"),
    pool: Annotated[int, typer.Option(help="Places of a square that are averaged, along a side.")] = 1,
) -> None:
    """Compute features once. 60,000 images take about five minutes on one core."""
    features = load_features(dataset, data, cache, pool)
    print(f"{len(features.rows):,} rows of {features.rows.shape[1]:,} features are in {cache}.")


if __name__ == "__main__":
    typer.run(main)
