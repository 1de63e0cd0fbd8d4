"""What a model must not be: one with layers that mix examples, or in several places."""

from typing import Any

from torch import Tensor, nn

# By name, as some take seconds to import.
_PARALLEL = {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel"}
_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm, nn.SyncBatchNorm)


def refuse_model(model: nn.Module) -> None:
    """Refuse a model with layers that mix or store examples, with sparse gradients, or on several devices.

    Args:
        model: The model, not wrapped for parallel training.

    >>> refuse_model(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    Traceback (most recent call last):
    ValueError: model has the layer '1', a BatchNorm1d, which mixes examples: use GroupNorm or LayerNorm, or keep \
its statistics with .eval().
    """
    refuse_mixing(model)
    for name, layer in model.named_modules():
        layer_is = f"model has the layer {name!r}, a {type(layer).__name__}"
        if any(kind.__name__ in _PARALLEL for kind in type(layer).__mro__):
            raise ValueError(
                f"{layer_is}, which adds up the gradients of several processes or devices before they are clipped: "
                "pass the bare module. minsep trains with several processes by itself."
            )
        if isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.track_running_stats:
            raise ValueError(f"{layer_is} that keeps statistics of its examples: set track_running_stats=False.")
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
            if layer.max_norm is not None:
                raise ValueError(
                    f"{layer_is} with max_norm, which changes weights depending on its examples: set max_norm=None."
                )
            if layer.sparse and layer.weight.requires_grad:
                raise ValueError(f"{layer_is} with sparse gradients, but noise is dense: set sparse=False.")
    _refuse_devices(model)


def refuse_mixing(model: nn.Module) -> None:
    """Refuse batch normalisation that uses statistics of a batch, and hooks of parameters. Both may come between steps.

    Args:
        model: The model.
    """
    for name, parameter in model.named_parameters():
        if getattr(parameter, "_post_accumulate_grad_hooks", None) or getattr(parameter, "_backward_hooks", None):
            raise ValueError(
                f"model has a hook on the gradient of {name!r}, which would see gradients before they are clipped: "
                "remove it."
            )
    for name, layer in model.named_modules():
        if isinstance(layer, _BATCH_NORMS) and (layer.training or layer.running_mean is None):
            raise ValueError(
                f"model has the layer {name!r}, a {type(layer).__name__}, which mixes examples: use GroupNorm or "
                "LayerNorm, or keep its statistics with .eval()."
            )


def refuse_loss(loss: Any, model: nn.Module) -> None:
    """Refuse a loss with trainable parameters that the model does not have: nobody clips their gradients.

    Args:
        loss: The loss.
        model: The model.
    """
    own = {id(parameter) for parameter in model.parameters()}
    for name, parameter in loss.named_parameters() if isinstance(loss, nn.Module) else ():
        if parameter.requires_grad and id(parameter) not in own:
            raise ValueError(
                f"loss has the trainable parameter {name!r}, which is not one of the model, so its gradient would have "
                "no noise: make the loss a part of the model, or freeze the parameter."
            )


def _refuse_devices(model: nn.Module) -> None:
    first: tuple[str, Tensor] | None = None
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        first = first or (name, tensor)
        if tensor.device != first[1].device:
            raise ValueError(
                f"model has {name!r} on {tensor.device}, but {first[0]!r} on {first[1].device}: move the whole model "
                f'to one device, for example with model.to("{first[1].device}").'
            )


class LayerAtFault:
    """A block that knows in which layer an error was raised: `name` is '' and `kind` the model's if in none.

    Args:
        model: The model that runs in the block.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._inside: list[tuple[str, str]] = []

    def __enter__(self) -> "LayerAtFault":
        names = {id(layer): name for name, layer in self._model.named_modules()}

        def enter(layer: nn.Module, _: Any) -> None:
            self._inside.append((names[id(layer)], type(layer).__name__))

        def leave(*_: Any) -> None:
            self._inside.pop()

        layers = list(self._model.modules())
        self._handles = [layer.register_forward_pre_hook(enter, prepend=True) for layer in layers]
        self._handles += [layer.register_forward_hook(leave) for layer in layers]
        return self

    def __exit__(self, *_: Any) -> None:
        for handle in self._handles:
            handle.remove()

    def __str__(self) -> str:
        """Return the layer's name and kind; the loss, if all layers were left."""
        if not self._inside:
            return "the loss or the backward pass"
        name, kind = self._inside[-1]
        return f"the layer {name!r}, a {kind}" if name else f"the model, a {kind}"
