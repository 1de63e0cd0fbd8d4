"""Fully sharded models (FSDP2): each process holds a part of the weights, of the gradients and of the noise."""

from minsep.training.torch.sharded.clipping import ShardedSum
from minsep.training.torch.sharded.shards import is_sharded, local_part, restored, restored_optimizer, whole_values

__all__ = ["ShardedSum", "is_sharded", "local_part", "restored", "restored_optimizer", "whole_values"]
