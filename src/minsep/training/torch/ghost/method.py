"""Ghost clipping of a micro-batch: one forward and one backward pass, without gradients of single examples."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vjp, vmap

from minsep.training.torch.examples import Examples, count_examples, each, signature
from minsep.training.torch.ghost.layers import Rule, rule_of
from minsep.training.torch.ghost.recorder import Call, Recorder, UsedElsewhere
from minsep.training.torch.ghost.uses import Uses
from minsep.training.torch.methods import Gradients, Method, Seeds
from minsep.training.torch.objective import Objective
from minsep.training.torch.randomness import DrawsOfExamples
from minsep.training.torch.vmapping import vmap_ready


class Ghost(Method):
    """Gradients as products of what layers saw and of the gradients of what they returned.

    The forward pass is that of single examples under `vmap`, so examples cannot mix. A parameter that belongs to a
    layer without a rule, or that is used outside its layers, has one row for each example, as with `Vmapped`.

    Args:
        objective: The model and its loss.
    """

    def __init__(self, objective: Objective) -> None:
        super().__init__(objective)
        self._names = {id(parameter): name for name, parameter in objective.parameters.items()}
        self._rows: set[str] = set()
        self._rules: dict[str, Rule] = {}
        self._layers: dict[str, nn.Module] = {}
        for name, layer in objective.model.named_modules():
            rule = rule_of(layer)
            if rule is None:
                self._rows.update(self._parameters_of(layer).values())
            elif self._parameters_of(layer):
                self._rules[name], self._layers[name] = rule, layer
        self._calls: dict[Any, list[Call]] = {}

    def __call__(self, inputs: Examples, targets: Examples, seeds: Seeds) -> Gradients:
        """Return the gradients of a micro-batch.

        Args:
            inputs: The inputs of the examples.
            targets: The targets of the examples.
            seeds: Function that returns the examples' seeds, which determine what they draw.
        """
        while True:
            try:
                return self._gradients(inputs, targets, seeds)
            except UsedElsewhere as parameter:
                self._rows.add(parameter.name)
                self._calls.clear()

    def _gradients(self, inputs: Examples, targets: Examples, seeds: Seeds) -> Gradients:
        calls = self._expected_calls(inputs, targets)
        examples = count_examples(inputs)
        constants = self._objective.constants()
        owners = self._owners(constants)
        rows = {name: constants[name] for name in constants if name in self._rows}
        perturbations = [torch.zeros(shape, dtype=dtype, device=self._objective.device) for _, shape, dtype in calls]
        versions: list[int] = []

        def loss_of_one(own: Any, added: Any, one: Examples, its_targets: Examples) -> tuple[Tensor, list[Tensor]]:
            with Recorder(self._layers, owners, added) as recorder:
                value = self._objective.of_one({**constants, **own}, one, its_targets)
            if recorder.calls != calls:
                raise RuntimeError("The layers are called in another order than for the example before.")
            versions.extend(recorder.versions)
            return value, recorder.inputs

        def gradients_of_one(one: Examples, its_targets: Examples) -> tuple[Any, Any, list[Tensor]]:
            loss = partial(loss_of_one, one=one, its_targets=its_targets)
            derivatives: Any = vjp(loss, rows, perturbations, has_aux=True)
            value, backward, seen = derivatives
            # A user's autocast is for the forward pass: it would change the dtypes of the backward pass.
            with torch.autocast(self._objective.device.type, enabled=False):
                return *backward(torch.ones_like(value), retain_graph=False, create_graph=False), seen

        with vmap_ready(), DrawsOfExamples(seeds):
            of_rows, of_outputs, seen = vmap(gradients_of_one, _dimensions(targets), randomness="different")(
                inputs, targets
            )
        if any(tensor._version != version for tensor, version in zip(seen, versions, strict=True)):
            raise RuntimeError("The input of a layer is changed in place after the layer has read it.")
        dtype, device = self._objective.dtype, self._objective.device
        uses = {name: Uses(value.shape, dtype, examples, device) for name, value in constants.items()}
        for name, gradient in of_rows.items():
            uses[name].add(gradient)
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            for (layer, _, _), given, gradient in zip(calls, seen, of_outputs, strict=True):
                of_roles = self._rules[layer](self._layers[layer], given, gradient)
                for role, name in self._parameters_of(self._layers[layer]).items():
                    if name not in self._rows:
                        uses[name].add(of_roles[role])
        return _GhostGradients(uses)

    def _expected_calls(self, inputs: Examples, targets: Examples) -> list[Call]:
        """Return the calls of the layers, whose outputs have the same shapes for all examples."""
        device = self._objective.device.type
        modes = [layer.training for layer in self._objective.model.modules()]
        autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
        key = (signature(inputs), signature(targets), tuple(modes), autocast)
        if key not in self._calls:
            constants = self._objective.constants()
            recorders: list[Recorder] = []

            def loss_of_one(one: Examples, its_targets: Examples, _: Tensor) -> Tensor:
                with Recorder(self._layers, self._owners(constants), None) as recorder:
                    recorders.append(recorder)
                    return self._objective.of_one(constants, one, its_targets)

            def forward(one: Examples, its_targets: Examples) -> Tensor:
                # Differentiated by nothing: autocast is not in effect under vmap alone.
                value: Tensor = vjp(partial(loss_of_one, one, its_targets), torch.zeros(()))[0]
                return value

            first, its_targets = (each(lambda tensor: tensor[:1], tree) for tree in (inputs, targets))
            with vmap_ready():
                vmap(forward, _dimensions(targets), randomness="different")(first, its_targets)
            self._calls[key] = recorders[-1].calls
        return self._calls[key]

    def _owners(self, constants: dict[str, Tensor]) -> dict[int, tuple[str, set[str]]]:
        owners = {id(value): (name, set[str]()) for name, value in constants.items() if name not in self._rows}
        for layer_name, layer in self._layers.items():
            for name in self._parameters_of(layer).values():
                if name not in self._rows:
                    owners[id(constants[name])][1].add(layer_name)
        return owners

    def _parameters_of(self, layer: nn.Module) -> dict[str, str]:
        """Return the names in the model of a layer's own trainable parameters, by their names in the layer."""
        return {
            role: self._names[id(parameter)]
            for role, parameter in layer._parameters.items()
            if parameter is not None and id(parameter) in self._names
        }


class _GhostGradients(Gradients):
    def __init__(self, uses: dict[str, Uses]) -> None:
        self._uses = uses

    def norms(self, names: list[str], scales: dict[str, Tensor] | None) -> Tensor:
        """Return the norm of each example's gradient over some parameters."""
        squares = [self._uses[name].squared_norms(None if scales is None else scales[name]) for name in names]
        return torch.stack(squares).sum(0).sqrt()

    def bits(self, names: list[str]) -> Tensor:
        """Return numbers for what the gradients are made of."""
        return torch.cat([self._uses[name].bits() for name in names])

    def add_to(self, totals: dict[str, Tensor], names: list[str], factors: Tensor) -> None:
        """Add the gradients times their factors, and forget them."""
        for name in names:
            self._uses.pop(name).add_to(totals[name], factors)


def _dimensions(targets: Examples) -> tuple[int, int | None]:
    return 0, None if targets is None else 0
