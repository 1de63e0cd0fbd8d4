import shlex
from unittest.mock import MagicMock

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

import minsep
from minsep.cli.app import app
from minsep.planning import Request
from minsep.serve.cost import seconds_of
from minsep.serve.inputs import InputError, fields_as_data, read, schemes, texts_of
from minsep.serve.presets import PRESETS
from minsep.serve.repetition import command_of, python_of
from tests.serve.conftest import TINY

OPTIONS = {
    option
    for parameter in typer.main.get_command(app).commands["plan"].params  # type: ignore[attr-defined]
    for option in parameter.opts
}


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({"examples": "0"}, {"examples": "Examples is 0, but it must be an integer of at least 1 and at most"}),
        ({"examples": ""}, {"examples": "Examples is missing: give it."}),
        ({"batch_size": "2000"}, {"batch_size": "Batch size is 2000.0, but it must be a finite number above 0"}),
        ({"iterations": "2.5"}, {"iterations": "Iterations is '2.5', but it is not a whole number: write it as"}),
        ({"iterations": "1e9"}, {"iterations": "Iterations is 1000000000, but it must be an integer of at least 1"}),
        ({"epsilon": "nan"}, {"epsilon": "Epsilon (ε) is nan, but it must be a finite number above 0"}),
        ({"epsilon": "1e400"}, {"epsilon": "Epsilon (ε) is inf, but it must be a finite number"}),
        ({"delta": "1"}, {"delta": "Delta (δ) is 1.0, but it must be a finite number"}),
        ({"delta": "0", "epsilon": "-1"}, {"delta": "Delta (δ) is 0.0", "epsilon": "Epsilon (ε) is -1.0"}),
        (
            {"max_batch_size": "7"},
            {"max_batch_size": "Largest batch is 7, but it must be an integer of at least 50 and"},
        ),
        (
            {"min_sep": "21"},
            {
                "min_sep": "Separation of b-min-sep is 21, but it must be an integer of at least 1 and at most 20, "
                "the iterations of an epoch."
            },
        ),
        ({"schemes": "poisson,nothing"}, {"schemes": "Schemes to try is 'nothing', but it must be one of 'poisson'"}),
        ({"schemes": ""}, {"schemes": "Schemes to try is empty: choose at least one."}),
        (
            {"user_bound": "0"},
            {"user_bound": "Examples per user is 0, but it must be an integer of at least 1 and at most"},
        ),
        ({"momentum": "1"}, {"momentum": "Momentum is 1.0"}),
        ({"schedule": "sudden"}, {"schedule": "Learning rate is 'sudden'"}),
        ({"workers": "8"}, {"workers": "workers is not an input of a plan: omit it."}),
        ({"examples": "9" * 300}, {"examples": "Examples must be a text of at most 200 characters."}),
        ({"examples": "9" * 100}, {"examples": "Examples is '99999"}),
        ({"examples": 1000}, {"examples": "Examples must be a text"}),
    ],
)
def test_problems_are_with_their_fields(changes, problems):
    with pytest.raises(InputError) as error:
        read(TINY | changes)
    assert set(error.value.problems) == set(problems)
    for field, words in problems.items():
        assert error.value.problems[field].startswith(words)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_presets_are_plans(preset):
    assert read(texts_of(preset.request)) == preset.request


def test_the_page_begins_with_the_first_preset():
    fields = fields_as_data(PRESETS[0].request)
    assert {one["name"]: one["default"] for one in fields if one["needed"]} == texts_of(PRESETS[0].request)
    assert {one["name"]: one["default"] for one in fields if one["more"]}["max_bands"] == "64"


requests = st.builds(
    Request,
    num_examples=st.integers(1000, 10**9),
    batch_size=st.floats(1, 1000),
    iterations=st.integers(1, 20_000),
    epsilon=st.floats(1e-3, 100),
    delta=st.floats(1e-20, 0.49),
    model_size=st.none() | st.integers(1, 10**12),
    user_bound=st.integers(1, 1000),
    max_bands=st.integers(1, 1024),
    workload=st.builds(
        minsep.Workload,
        momentum=st.floats(0, 0.99),
        horizon=st.none() | st.floats(1, 1e6),
        schedule=st.sampled_from(["constant", "linear-decay", "cosine"]),
    ),
    schemes=st.lists(st.sampled_from(schemes()), min_size=1, unique=True),
)


@given(requests)
def test_a_link_holds_the_plan(some):
    again = read(texts_of(some))
    assert texts_of(again) == texts_of(some)
    assert seconds_of(again) == pytest.approx(seconds_of(some))


@given(requests)
def test_the_command_and_the_python_say_the_same(some):
    words = shlex.split(command_of(some, seed=3))
    assert words[:2] == ["minsep", "plan"]
    assert {word for word in words if word.startswith("--")} <= OPTIONS
    assert words[words.index("--epsilon") + 1] == texts_of(some)["epsilon"]
    plan = MagicMock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minsep, "plan", plan, raising=False)
        exec(python_of(some, seed=3), {})
    called = dict(plan.call_args.kwargs)
    again = read(texts_of(some))
    assert called.pop("seed") == 3
    assert called == {name: value for name, value in again.fields.items() if name in called}


def test_what_takes_long_is_known_before():
    assert seconds_of(read(TINY)) < 1
    assert seconds_of(read(TINY | {"iterations": "40000", "max_bands": "512"})) > 10
    assert seconds_of(read(TINY | {"iterations": "40000", "schemes": "poisson"})) == 0
    users = TINY | {"user_bound": "3", "schemes": "min-sep"}
    assert seconds_of(read(users)) > 10 * seconds_of(read(users | {"user_bound": "1"}))
    assert seconds_of(read(users | {"schemes": "balls-in-bins"})) == 0
