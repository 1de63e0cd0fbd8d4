"""The PyTorch adapter under audit: `minsep.training.torch.PrivateTraining` on a linear model."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from minsep.auditing.canaries import CanaryRun, is_resumed, layer_sizes
from minsep.core.arrays import FloatArray
from minsep.training.torch import PrivateTraining


@dataclass(frozen=True)
class TorchLoop:
    """A loop that trains with `minsep.training.torch.PrivateTraining`.

    Args:
        clipping: How `PrivateTraining` computes the gradients of single examples.
        noise: Where `PrivateTraining` makes the noise.
        micro_batch: Number of examples that `PrivateTraining` holds in memory at once.
        resume_every: Of so many runs, one on average is interrupted and resumed from its checkpoint, so that some steps
            are repeated. A coin of each run decides. 0 is never.

    Examples:
        >>> import minsep
        >>> from minsep.auditing import Canaries, CanaryRun
        >>> identity = minsep.BandedToeplitz.identity(iterations=4)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.5), noise_multiplier=1.0)
        >>> run = CanaryRun(mechanism, Canaries.draw(3), num_examples=3, clip_norm=1.0)
        >>> TorchLoop()(run)
        >>> run.observed().releases.shape
        (64, 4)
    """

    clipping: Literal["auto", "vmap", "ghost"] = "auto"
    noise: Literal["auto", "host", "device"] = "auto"
    micro_batch: int = 64
    resume_every: int = 4

    def __call__(self, run: CanaryRun) -> None:
        """Take a run from its first step to its last.

        Args:
            run: The run, which provides the mechanism and the examples, and records what the loop releases.
        """
        trainer = PrivateTraining(*arguments_of(run), seed=run.seed, **self._options(run))
        if not is_resumed(run, self.resume_every):
            train(run, trainer, run.mechanism.iterations)
            return
        n = run.mechanism.iterations
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.checkpoint"
            train(run, trainer, n // 3)
            trainer.save(path)
            train(run, trainer, 2 * n // 3)
            resumed = PrivateTraining.resume(path, *arguments_of(run), **self._options(run))
        train(run, resumed, n)

    def _options(self, run: CanaryRun) -> dict[str, Any]:
        return {
            "num_examples": run.num_examples,
            "clip_norm": run.clip_norm,
            "clipping": self.clipping,
            "noise": self.noise,
            "micro_batch": self.micro_batch,
        }


class Released(torch.optim.SGD):
    """An optimiser that sets the weights to the gradient that it is given."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Set all weights.

        Args:
            closure: Not called.
        """
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.copy_(parameter.grad)


class Layers(nn.Module):
    """A linear model of several layers. The gradient of its output, over all of its weights, is the example.

    Args:
        size: Number of weights.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.sizes = layer_sizes(size)
        # Applied to 1, a layer returns its weights. They are its rows, as sharded layers are split by rows.
        self.layers = nn.ModuleList(nn.Linear(1, length, bias=False) for length in self.sizes)

    def forward(self, examples: Tensor) -> Tensor:
        """Return the inner products of examples and weights."""
        one = examples.new_ones(*examples.shape[:-1], 1)
        parts = zip(self.layers, torch.split(examples, self.sizes, dim=-1), strict=True)
        return torch.stack([(layer(one) * part).sum(dim=-1) for layer, part in parts]).sum(dim=0)


def arguments_of(run: CanaryRun, model: nn.Module | None = None) -> tuple[Any, ...]:
    """Return the arguments of a training: model, loss, optimiser and mechanism.

    Args:
        run: The run.
        model: The model. None is `Layers`.
    """
    model = model or Layers(run.dimension)
    return model, _loss, Released(model.parameters(), lr=1.0), run.mechanism


def train(run: CanaryRun, trainer: PrivateTraining, until: int) -> None:
    """Take a run to a step.

    Args:
        run: The run.
        trainer: The training.
        until: The number of steps after which to stop.
    """
    while trainer.steps < until:
        step, indices = trainer.steps, next(trainer.batches())
        examples = torch.from_numpy(run.examples(step, indices))
        trainer.step(examples, torch.zeros(len(examples)))
        run.release(step, weights_of(trainer.model))


def weights_of(model: nn.Module) -> FloatArray:
    """Return all weights as one vector, also of a model whose weights several processes hold."""
    whole = (weight.full_tensor() if hasattr(weight, "full_tensor") else weight for weight in model.parameters())
    weights: FloatArray = torch.cat([weight.detach().double().flatten() for weight in whole]).numpy()
    return weights


def _loss(outputs: Tensor, targets: Any) -> Tensor:
    return outputs.sum()
