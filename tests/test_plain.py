"""Frozen values come back from plain data as they were, and whatever else the data hold is refused by name."""

import json
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minsep.core.arrays import FloatArray
from minsep.core.plain import from_plain, to_plain
from minsep.core.registry import Registered


@dataclass(frozen=True)
class Animal(Registered):
    name: str


@dataclass(frozen=True)
class Bird(Animal):
    span: float
    kind = "bird"


@dataclass(frozen=True)
class Fish(Animal):
    depths: tuple[int, ...]
    kind = "fish"


@dataclass(frozen=True)
class Zoo:
    animals: tuple[Animal, Animal]
    side: Literal["north", "south"]
    owner: str | None
    open: bool
    notes: dict[str, int]


@dataclass(frozen=True)
class Sums:
    count: int
    each: FloatArray
    table: FloatArray


ZOO = Zoo((Bird("owl", 1.5), Fish("carp", (1, 2))), "north", None, True, {"rain": 3})
PLAIN = {
    "animals": [{"kind": "bird", "name": "owl", "span": 1.5}, {"kind": "fish", "name": "carp", "depths": [1, 2]}],
    "side": "north",
    "owner": None,
    "open": True,
    "notes": {"rain": 3},
}


def test_records_come_back():
    assert to_plain(ZOO) == PLAIN
    assert json.dumps(to_plain(ZOO)) == json.dumps(PLAIN)
    assert from_plain(Zoo, PLAIN) == ZOO


@given(st.lists(st.floats(), min_size=4, max_size=4))
def test_numbers_come_back_to_the_last_bit(numbers):
    sums = Sums(3, np.array(numbers), np.array(numbers).reshape(2, 2))
    again = from_plain(Sums, json.loads(json.dumps(to_plain(sums))), finite=False)
    for one, other in ((sums.each, again.each), (sums.table, again.table)):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert np.array_equal(one, other, equal_nan=True)
        assert np.array_equal(np.signbit(one[~np.isnan(one)]), np.signbit(other[~np.isnan(other)]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"side": "west"}, "The zoo's side is 'west', which is invalid"),
        ({"side": ["north"]}, "side is"),
        ({"owner": 7}, "owner is 7"),
        ({"owner": "a\x1b[2J"}, "owner is"),
        ({"open": 1}, "open is 1"),
        ({"notes": []}, "notes is"),
        ({"more": 1}, "The zoo has missing or unexpected fields: 'more'"),
        ({"kind": "zoo"}, "has missing or unexpected fields: 'kind'"),
        ({"animals": PLAIN["animals"][:1]}, "animals is"),
        ({"animals": [1, 2]}, "animals 0 is 1, but it must be an object"),
        ({"animals": [{"name": "owl"}] * 2}, "The animal is of kind None, but it must be one of 'bird', 'fish'"),
        ({"animals": [{"kind": ["bird"]}] * 2}, "of kind"),
        ({"animals": [{"kind": "bird", "name": "owl"}] * 2}, "animals 0 has missing or unexpected fields: 'span'"),
        ({"animals": [{"kind": "bird", "name": "owl", "span": True}] * 2}, "animals 0's span is True"),
        ({"animals": [{"kind": "bird", "name": "owl", "span": 10**400}] * 2}, "span is"),
        ({"animals": [{"kind": "bird", "name": "owl", "span": math.nan}] * 2}, "span is nan"),
        ({"animals": [{"kind": "bird", "name": "owl", "span": -math.inf}] * 2}, "span is -inf"),
        ({"animals": [{"kind": "fish", "name": "carp", "depths": [1.0]}] * 2}, "depths 0 is 1.0"),
    ],
)
def test_what_is_not_as_it_must_be_is_refused(change, words):
    with pytest.raises(ValueError, match=words.replace("'", ".")):
        from_plain(Zoo, PLAIN | change, "The zoo")


def test_a_variant_of_another_branch_is_refused():
    with pytest.raises(ValueError, match="The fish is of kind 'bird', but it must be one of 'fish'"):
        from_plain(Fish, to_plain(ZOO.animals[0]), "The pet")


@pytest.mark.parametrize("each", [[True], ["1"], [None], [0.5, [0.5]], 0.5, {}, [10**400]])
def test_arrays_hold_numbers_in_rows_of_one_length(each):
    with pytest.raises(ValueError):  # noqa: PT011  # NumPy names rows of several lengths itself
        from_plain(Sums, {"count": 1, "each": each, "table": []}, finite=False)


def test_what_a_reader_knows_is_not_read():
    plain = to_plain(ZOO, lambda value: None if value is ZOO.animals else value)
    assert plain["animals"] is None
    assert from_plain(Zoo, plain, known={tuple[Animal, Animal]: ZOO.animals}) == ZOO


@pytest.mark.parametrize("value", [object(), b"bytes", {1: 2}, np.arange(2), np.zeros(2, np.float32), Zoo, 1j])
def test_what_plain_data_cannot_hold_is_not_written(value):
    with pytest.raises(TypeError, match="plain data"):
        to_plain((value,))
