"""Statements: their numbers, their words, their formats, and what they refuse."""

import hashlib
import html
import json
import math
import re
from dataclasses import replace

import pytest

import minsep
from minsep.cli.app import app
from minsep.show.statements import most_true_positives
from minsep.show.statements.content import rounded_up
from minsep.show.statements.neighbours import section, sentence


@pytest.fixture(scope="module")
def certificate():
    mechanism = minsep.Mechanism(
        minsep.BandedToeplitz.optimal(iterations=60, bands=3), minsep.MinSep(rate=0.02, min_sep=5), noise_multiplier=1.3
    )
    return minsep.certify(mechanism, epsilon=2.0, delta=1e-3, seed=5)


@pytest.fixture(scope="module")
def exact():
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=60), minsep.Poisson(rate=0.02), 1.0)
    return minsep.certify(mechanism, epsilon=1.0, delta=1e-3)


@pytest.fixture(scope="module")
def users():
    scheme = minsep.UserMinSep(rate=0.02, min_sep=5, user_bound=2)
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=30), scheme, noise_multiplier=3.0)
    return minsep.certify(mechanism, epsilon=4.0, delta=1e-2, seed=5)


def test_the_summary_names_the_guarantee(certificate):
    stated = minsep.statement(certificate, model="Digits", data="pictures of digits")
    assert stated.title == "Privacy statement: Digits"
    assert stated.summary == (
        "This training run on pictures of digits is (2, 0.001)-differentially private for every example."
    )


def test_the_attackers_odds_follow_from_the_certified_point(certificate):
    (run,) = json.loads(minsep.statement(certificate).to_json())["runs"]
    for row in run["attacker"]:
        bound = min(
            2.718281828459045**2 * row["false_positives"] + 1e-3,
            1 - 2.718281828459045**-2 * (1 - 1e-3 - row["false_positives"]),
        )
        assert row["most_true_positives"] == pytest.approx(bound)
        assert row["false_positives"] < row["estimated_true_positives"] <= row["most_true_positives"] + 0.01
    text = minsep.statement(certificate).to_markdown()
    assert "at most (certified)" in text
    assert "estimate, no guarantee" in text


def test_every_part_is_stated(certificate):
    text = minsep.statement(certificate).to_markdown()
    for heading in (
        "Who is protected",
        "What it means",
        "How it was proven",
        "Assumptions",
        "What is not covered",
        "How to check it",
        "Versions",
    ):
        assert f"## {heading}\n" in text
    assert "at most 1e-05; it is part of delta" in text
    assert "Tuning:" in text


def test_estimates_can_be_left_out(certificate):
    stated = minsep.statement(certificate, estimate=False)
    assert "no guarantee" not in stated.to_markdown()
    assert json.loads(stated.to_json())["runs"][0]["attacker"][0]["estimated_true_positives"] is None


def test_users_are_named_with_their_bound(users):
    stated = minsep.statement(users, estimate=False)
    assert stated.summary.endswith("for every user, with all of their examples.")
    assert "one user, with all of their examples" in stated.to_markdown()
    assert "| Examples of a user | at most 2 |" in stated.to_markdown()


def test_a_conditional_certificate_says_so_first():
    graph = minsep.AttributionGraph.from_lists([[0], [0], [1]])
    scheme = minsep.MultiAttributionMinSep(sampling_prob=0.02, min_sep=4, graph=graph, accept_assumption=True)
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=20), scheme, noise_multiplier=8.0)
    certificate = minsep.certify(mechanism, epsilon=8.0, delta=0.1, seed=1)
    stated = minsep.statement(certificate, estimate=False)
    assert certificate.conditional
    assert stated.summary.startswith("CONDITIONAL")
    sentence = certificate.assumptions[0].sentence
    assert sentence in html.unescape(stated.to_html())


def test_an_unverified_statement_says_so(certificate):
    assert minsep.statement(certificate, verify=False).summary.endswith("Not verified for this statement.")


def test_several_runs_are_composed(certificate, exact):
    stated = minsep.statement(certificate, exact, estimate=False)
    assert stated.composition.sum_of_epsilons == 3.0
    assert "together" in stated.summary
    expected = minsep.compose([certificate, exact])
    assert (stated.epsilon, stated.delta) == (expected.epsilon, expected.delta)
    assert "the privacy losses of the pairs of distributions that dominate the runs add up" in stated.to_markdown()
    data = json.loads(stated.to_json())["composition"]
    assert data["sum_of_deltas"] == pytest.approx(2e-3)
    assert data["attacker"][1]["most_true_positives"] == expected.curve.true_positives(0.01)
    assert "Run 2: What it means" in stated.to_markdown()


def test_one_certificate_for_two_runs_counts_twice(exact):
    assert minsep.statement(exact, exact, estimate=False).composition.sum_of_epsilons == 2.0


def test_runs_on_other_numbers_of_examples_are_refused_unless_accepted(exact):
    smaller, larger = (replace(exact, num_examples=number) for number in (100, 200))
    with pytest.raises(ValueError, match="for 100 and 200 examples"):
        minsep.statement(smaller, larger, estimate=False)
    assert minsep.statement(smaller, larger, estimate=False, accept_other_num_examples=True).composition.count == 2


def test_a_certified_curve_says_more_than_its_point(certificate):
    curved = minsep.certify(certificate.mechanism, epsilon=2.0, delta=1e-3, seed=6, curve=True)
    stated = minsep.statement(curved, estimate=False)
    assert "More was proven than this one point" in stated.to_markdown()
    assert "More was proven" not in minsep.statement(certificate, estimate=False).to_markdown()
    (run,) = json.loads(stated.to_json())["runs"]
    for row in run["attacker"]:
        assert row["most_true_positives"] == curved.curve.true_positives(row["false_positives"])
        assert row["most_true_positives"] < most_true_positives(row["false_positives"], 2.0, 1e-3)


def test_replacing_an_example_uses_the_curve(exact):
    stated = minsep.statement(exact, adjacency="replace-one", estimate=False)
    least = exact.curve.replacing().epsilon(exact.delta)
    assert least < 2 * exact.epsilon
    assert f"If one example replaces another, the guarantee is ({rounded_up(least)}, 0.001)-diff" in stated.summary
    assert "## If one example replaces another\n" in stated.to_markdown()
    assert "- Replacing one example by another" not in stated.to_markdown()
    assert "- Replacing one example by another" in minsep.statement(exact, estimate=False).to_markdown()
    assert json.loads(stated.to_json())["adjacency"] == "replace-one"
    for text in (stated.to_html(), stated.to_model_card(), stated.to_registry()):
        assert "If one example replaces another" in text


def test_replacing_an_example_doubles_epsilon_without_a_curve(certificate, users):
    stated = minsep.statement(certificate, adjacency="replace-one", estimate=False)
    delta = (1 + math.exp(2.0)) * 1e-3
    assert f"({rounded_up(4.0)}, {rounded_up(delta)})-differential privacy" in stated.summary
    assert "so epsilon doubles" in stated.to_markdown()
    assert "If one user replaces another" in minsep.statement(users, adjacency="replace-one", estimate=False).summary


def test_nothing_is_proven_of_replacing_where_delta_would_be_one(certificate):
    curve = certificate.curve
    assert sentence("replace-one", curve, 10.0, 1e-3, "example").endswith("nothing is proven.")
    assert section("replace-one", curve, 10.0, 1e-3, "example").table is None


def test_adding_or_removing_says_what_must_be_public(exact, users):
    stated = minsep.statement(exact, adjacency="add-or-remove", estimate=False)
    assert "If one example is added or removed, the guarantee is (1, 0.001)-differential privacy." in stated.summary
    assert "- The sampling rate is a constant" in stated.to_markdown()
    assert "because a user whose" in minsep.statement(users, adjacency="add-or-remove", estimate=False).to_markdown()


def test_another_adjacency_is_refused(exact):
    with pytest.raises(ValueError, match="adjacency is 'replace', but"):
        minsep.statement(exact, adjacency="replace")


def test_different_units_are_refused(exact, users):
    with pytest.raises(ValueError, match="one example .* and one user"):
        minsep.statement(exact, users)


def test_a_refused_certificate_is_refused(certificate):
    mechanism = certificate.mechanism.with_noise_multiplier(0.2)
    refused = minsep.certify(mechanism, epsilon=2.0, delta=1e-3, seed=5)
    with pytest.raises(ValueError, match="proves nothing: Not certified as"):
        minsep.statement(refused)


def test_a_forged_certificate_is_refused(certificate):
    with pytest.raises(ValueError, match="does not hold"):
        minsep.statement(replace(certificate, epsilon=1.0))


def test_no_certificate_and_a_needless_delta_are_refused(exact):
    with pytest.raises(ValueError, match="certificates is empty"):
        minsep.statement()
    with pytest.raises(ValueError, match="delta is 0.1, but it is for several"):
        minsep.statement(exact, delta=0.1)


def test_words_of_the_user_are_shown_as_they_are(exact):
    evil = "<script>alert(1)</script> | `x` *y* [z](http://w)"
    stated = minsep.statement(exact, model=evil, data=evil, estimate=False)
    assert "<script>" not in stated.to_html()
    assert "<script>" not in stated.to_markdown()
    assert "](http" not in re.sub(r"\\.", "", stated.to_markdown())
    assert json.loads(stated.to_json())["model"] == evil


def test_files_and_digests(exact, tmp_path):
    path = tmp_path / "run.json"
    exact.save(path)
    stated = minsep.statement(path, estimate=False)
    assert stated.runs[0].digest == hashlib.sha256(path.read_bytes()).hexdigest()
    for name in ("a.md", "a.html", "a.json"):
        stated.save(tmp_path / name)
    assert (tmp_path / "a.md").read_text() == stated.to_markdown()
    with pytest.raises(ValueError, match="must end with .md, .html, .json or .yaml"):
        stated.save(tmp_path / "a.pdf")


def test_the_command_prints_and_writes(exact, tmp_path, capsys):
    path = tmp_path / "run.json"
    exact.save(path)
    app(["statement", str(path), "--no-estimate"], standalone_mode=False)
    assert capsys.readouterr().out == minsep.statement(path, estimate=False).to_markdown()
    app(["statement", str(path), "--no-estimate", "-o", str(tmp_path / "s.html")], standalone_mode=False)
    assert "every example" in capsys.readouterr().out
    assert (tmp_path / "s.html").read_text().startswith("<!doctype html>")


def test_the_command_refuses_an_output_of_another_kind(exact, tmp_path):
    path = tmp_path / "run.json"
    exact.save(path)
    with pytest.raises(ValueError, match=r"must end with \.json"):
        app(["statement", str(path), "--format", "json", "-o", str(tmp_path / "s.html")], standalone_mode=False)


def test_certificates_with_one_name_keep_their_digests(certificate, exact, tmp_path):
    paths = [tmp_path / folder / "certificate.json" for folder in "ab"]
    for path, one in zip(paths, (certificate, exact), strict=True):
        path.parent.mkdir()
        one.save(path)
    text = minsep.statement(*paths, estimate=False).to_markdown()
    for place, path in enumerate(paths, 1):
        assert f"| certificate.json (run {place}) | {hashlib.sha256(path.read_bytes()).hexdigest()} |" in text


def test_a_delta_that_allows_everything_gives_epsilon_0(exact):
    stated = minsep.statement(exact, exact, delta=0.999, estimate=False)
    assert "together (0, 0.999)-differentially private" in stated.summary


def test_factors_are_rounded_up(certificate):
    # e^2 = 7.389
    assert "at most 7.4 times as likely" in minsep.statement(certificate, estimate=False).to_markdown()


def test_files_that_are_no_certificates_are_refused_by_name(tmp_path):
    path = tmp_path / "noise.json"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"noise\.json' is not a certificate of minsep: it is not text"):
        minsep.statement(path)
