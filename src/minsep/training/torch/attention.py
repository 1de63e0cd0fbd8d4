"""Attention in plain operations, which have batching rules and, under autocast, consistent dtypes."""

import torch
from torch import Tensor
from torch.nn.functional import dropout


def plain_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return what `scaled_dot_product_attention` returns, with its arguments.

    Args:
        query: Queries, (..., heads, length, width).
        key: Keys, (..., heads, length, width).
        value: Values, (..., heads, length, width).
        attn_mask: Where to attend, or what is added to the scores.
        dropout_p: Probability to drop a weight.
        is_causal: Whether a place attends only to itself and to earlier ones.
        scale: Factor of the scores. None is one over the root of the width.
        enable_gqa: Whether several heads of the query share one of key and value.
    """
    if enable_gqa:
        key, value = (part.repeat_interleave(query.shape[-3] // part.shape[-3], dim=-3) for part in (key, value))
    scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.transpose(-1, -2)
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        weights = scores.masked_fill(later, torch.finfo(scores.dtype).min).softmax(-1)
    elif attn_mask is None:
        weights = scores.softmax(-1)
    elif attn_mask.dtype == torch.bool:
        weights = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min).softmax(-1)
        weights = weights * attn_mask.any(-1, keepdim=True)  # a place that attends to nothing has no output
    else:
        # Where everything is masked, softmax would give no number.
        shown = (attn_mask > -torch.inf).any(-1, keepdim=True)
        weights = torch.where(shown, scores + attn_mask, 0.0).softmax(-1) * shown
    weights = weights.to(value.dtype)
    return (dropout(weights, dropout_p) if dropout_p else weights) @ value
