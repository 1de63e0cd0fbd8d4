"""Adam by scale-then-privatize: gradients are scaled to a common size in all coordinates before clipping."""

from dataclasses import dataclass

import torch
from torch import Tensor

from minsep.core import validation as validate
from minsep.training.torch.clipping import ClippedSum
from minsep.training.torch.sharded.clipping import ShardedSum
from minsep.training.torch.sharded.shards import local_part


@dataclass(frozen=True)
class ScaleThenPrivatize:
    """Adam whose gradients are scaled to a common size in all coordinates before clipping and noise.

    The scales are 1 / (sqrt(v) + stability), where v is Adam's estimate of second moments from the previous steps, a
    function of earlier releases. After the noise is added, the gradient is divided by the scales. The clip norm bounds
    scaled gradients. Algorithm 8 of Ganesh, McMahan and Thakurta, "On Design Principles for Private Adaptive
    Optimizers" (2025).

    Args:
        stability: What is added to sqrt(v) in the scales. With a large one this is plain Adam on noisy gradients.

    Examples:
        >>> ScaleThenPrivatize(stability=1e-2)  # PrivateTraining(..., torch.optim.Adam(...), scaling=...)
        ScaleThenPrivatize(stability=0.01)
    """

    stability: float = 1e-3

    def __post_init__(self) -> None:
        validate.real(stability=self.stability, above=0)

    def scales(self, optimizer: torch.optim.Optimizer, clipped: ClippedSum | ShardedSum) -> Tensor:
        """Return the scales of the next step, as a flat vector.

        Args:
            optimizer: Adam or AdamW, which holds the second moments.
            clipped: The sum of clipped gradients, which provides the order of the parameters.
        """
        flat = torch.zeros(clipped.held, dtype=clipped.dtype, device=clipped.device)
        for parameter, part in zip(clipped.parameters.values(), clipped.parts(flat).values(), strict=True):
            if "exp_avg_sq" in optimizer.state[parameter]:
                part.copy_(local_part(optimizer.state[parameter]["exp_avg_sq"]).flatten())
        return flat.sqrt_().add_(self.stability).reciprocal_()
