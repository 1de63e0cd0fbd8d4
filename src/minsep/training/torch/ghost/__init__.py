"""Ghost clipping: norms of gradients from activations and output gradients, without the gradients themselves."""

from minsep.training.torch.ghost.method import Ghost

__all__ = ["Ghost"]
