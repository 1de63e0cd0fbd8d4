"""Keyed streams of random words and normal variates."""

from minsep.randomness.keys import Key, KeyedWords
from minsep.randomness.normals import NormalRows

__all__ = ["Key", "KeyedWords", "NormalRows"]
