"""Keyed streams of random words and normal variates."""

from minsep.randomness.keys import Key, KeyedWords
from minsep.randomness.normals import NormalRows
from minsep.randomness.philox import add_keyed_normals

__all__ = ["Key", "KeyedWords", "NormalRows", "add_keyed_normals"]
