"""How gradients depend on the places of examples in a micro-batch: `python -m benchmarks.positions`.

For `nn.Linear` of 1 to 15 inputs and outputs under a squared error, the first table counts the shapes at which bits
differ between a micro-batch and a rolled copy, and in how many of the draws the rarest of them shows. Then the sum of
clipped gradients of a network with ReLU and natural data is compared with that of the same examples after one more,
which has no gradient. (The same for examples that an adversary chose is in `tests/training/torch/test_positions.py`.)
"""

import itertools

import torch
from torch import nn

from minsep.training.torch.methods import Vmapped
from minsep.training.torch.objective import Objective

DRAWS, SHAPES = 6, list(itertools.product(range(1, 16), repeat=2))
BATCH, CLIP_NORM = 2048, 1.0


def bits(method, inputs, targets):
    gradients = method(inputs, targets, list)
    return gradients.bits(list(method._objective.parameters))


def draws_that_differ(shape, size, apart):
    """Return in how many draws some bit of a gradient differs at the next position."""
    differing = 0
    for draw in range(DRAWS):
        torch.manual_seed(draw)
        method = Vmapped(Objective(nn.Linear(*shape), nn.functional.mse_loss), apart)
        inputs, targets = torch.randn(size, shape[0]), torch.randn(size, shape[1])
        here, there = bits(method, inputs, targets), bits(method, inputs.roll(1, 0), targets.roll(1, 0))
        differing += not torch.equal(here, there.roll(-1, 1))
    return differing


def effect_on_natural_data(shape, seed):
    """Return how far one example without a gradient moves the sum of the others, in clip norms."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(*shape), nn.ReLU(), nn.Linear(shape[1], 2))
    method = Vmapped(Objective(model, nn.functional.cross_entropy))
    inputs, targets = torch.randn(BATCH, shape[0]), torch.randint(2, (BATCH,))
    sums = []
    for place in (0, 1):
        gradients = method(inputs.roll(place, 0), targets.roll(place, 0), list)
        names = list(method._objective.parameters)
        factors = (CLIP_NORM / gradients.norms(names, None).clamp(min=CLIP_NORM)).double()
        factors[BATCH - 1 if place == 0 else 0] = 0.0  # the example that one of the two does not have
        total = {name: torch.zeros(value.numel(), dtype=torch.float64) for name, value in model.named_parameters()}
        gradients.add_to(total, names, factors)
        sums.append(torch.cat(list(total.values())))
    return float((sums[0] - sums[1]).norm()) / CLIP_NORM


def main() -> None:
    print(f"{torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads of torch {torch.__version__}")
    print("| examples | weights | shapes that differ | draws that show the rarest |\n|---|---|---|---|")
    for size, apart in itertools.product((8, 16, 32, 33), (False, True)):
        found = [count for shape in SHAPES if (count := draws_that_differ(shape, size, apart))]
        rarest = f"{min(found)} of {DRAWS}" if found else ""
        print(f"| {size} | {'one view each' if apart else 'shared'} | {len(found)} of {len(SHAPES)} | {rarest} |")
    for shape in ((30, 9), (13, 7), (5, 8), (10, 10)):
        effects = [effect_on_natural_data(shape, seed) for seed in range(20)]
        print(f"natural data, {BATCH:,} examples, first layer {shape}: at most {max(effects):.1e} clip norms")


if __name__ == "__main__":
    main()
