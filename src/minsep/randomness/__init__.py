"""Keyed streams of random words and normal variates."""

from minsep.randomness.keys import Key, KeyedWords
from minsep.randomness.normals import STRIPE, NormalRows
from minsep.randomness.philox import add_keyed_normals

__all__ = ["STRIPE", "Key", "KeyedWords", "NormalRows", "add_keyed_normals"]
