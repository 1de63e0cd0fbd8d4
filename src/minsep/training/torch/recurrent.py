"""Recurrent layers as plain operations, because `vmap` has no rule for torch's fused ones."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

State = tuple[Tensor, ...]
Cell = Callable[[Tensor, State, Sequence[Tensor]], State]


def unfused(fused: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a fused recurrent function returns, computed step by step. Packed sequences stay fused.

    Args:
        fused: One of `FUSED`.
        arguments: Its arguments, as `nn.RNN`, `nn.GRU` and `nn.LSTM` pass them.
    """
    # A packed sequence has its weights where others say whether there are biases.
    return fused(*arguments) if isinstance(arguments[3], list | tuple) else _run(_CELLS[fused], *arguments)


def _run(
    cell: Cell,
    inputs: Tensor,
    initial: Tensor | State,
    weights: Sequence[Tensor],
    biases: bool,
    layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """Return the outputs and the final states, in the shapes of torch's fused functions."""
    states = initial if isinstance(initial, list | tuple) else (initial,)
    directions = 2 if bidirectional else 1
    in_time = inputs.transpose(0, 1) if batch_first else inputs
    count = len(weights) // (layers * directions)
    finals: list[State] = []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            own = weights[place * count : (place + 1) * count]
            # (input, hidden, bias of input, bias of hidden[, projection]); without biases these two are zero.
            own = own if biases else [*own[:2], own[0].new_zeros(()), own[0].new_zeros(()), *own[2:]]
            state = tuple(part[place] for part in states)
            steps = []
            for step in reversed(range(len(in_time))) if direction else range(len(in_time)):
                state = cell(in_time[step], state, own)
                steps.append(state[0])
            outputs.append(torch.stack(steps[::-1] if direction else steps))
            finals.append(state)
        in_time = torch.cat(outputs, dim=-1)
        if dropout and layer < layers - 1:
            in_time = nn.functional.dropout(in_time, dropout, training)
    last = (torch.stack(parts) for parts in zip(*finals, strict=True))
    return in_time.transpose(0, 1) if batch_first else in_time, *last


def _sums(x: Tensor, hidden: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    return linear(x, weights[0]) + weights[2], linear(hidden, weights[1]) + weights[3]


def _plain(activation: Callable[[Tensor], Tensor]) -> Cell:
    def cell(x: Tensor, state: State, weights: Sequence[Tensor]) -> State:
        of_input, of_hidden = _sums(x, state[0], weights)
        return (activation(of_input + of_hidden),)

    return cell


def _gru(x: Tensor, state: State, weights: Sequence[Tensor]) -> State:
    of_input, of_hidden = (part.chunk(3, dim=-1) for part in _sums(x, state[0], weights))
    reset = torch.sigmoid(of_input[0] + of_hidden[0])
    update = torch.sigmoid(of_input[1] + of_hidden[1])
    new = torch.tanh(of_input[2] + reset * of_hidden[2])
    return (new + update * (state[0] - new),)


def _lstm(x: Tensor, state: State, weights: Sequence[Tensor]) -> State:
    of_input, of_hidden = _sums(x, state[0], weights)
    enter, forget, new, leave = (of_input + of_hidden).chunk(4, dim=-1)
    memory = torch.sigmoid(forget) * state[1] + torch.sigmoid(enter) * torch.tanh(new)
    hidden = torch.sigmoid(leave) * torch.tanh(memory)
    return linear(hidden, weights[4]) if len(weights) > 4 else hidden, memory


_CELLS: dict[Any, Cell] = {
    torch.gru: _gru,
    torch.lstm: _lstm,
    torch.rnn_tanh: _plain(torch.tanh),
    torch.rnn_relu: _plain(torch.relu),
}

FUSED = tuple(_CELLS)
