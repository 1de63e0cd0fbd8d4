"""Models of the experiments."""

from torch import nn


def vgg(channels: int = 3, side: int = 32, classes: int = 10) -> nn.Sequential:
    """Return a small VGG without normalisation: 205,322 parameters for images of 3 x 32 x 32."""
    layers: list[nn.Module] = []
    width = channels
    for step in (32, 32, "pool", 64, 64, "pool", 128, "pool"):
        if isinstance(step, int):
            layers += [nn.Conv2d(width, step, 3, padding=1), nn.ReLU()]
            width = step
        else:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(width * (side // 8) ** 2, 32), nn.ReLU(), nn.Linear(32, classes)
    )
