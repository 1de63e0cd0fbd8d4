"""Statements for registries and model cards."""

import datetime
import json
import re
from typing import get_args, get_type_hints

import pytest
import yaml

import minsep
from minsep.cli.app import app
from minsep.cli.statement import statement as command
from minsep.show.statements import SUFFIXES
from minsep.show.statements.content import rounded_up
from tests.statements.registry_schema import problems

EVIL = "a: b # 'c' \"d\" \\ | > - \u202e\x00é ☃\n- e\n---\n*f* _g_ <script> {h} [i](j)"


def certified(noise_multiplier=1.0, **more):
    mechanism = minsep.Mechanism(
        minsep.BandedToeplitz.identity(iterations=60), minsep.Poisson(rate=0.02), noise_multiplier
    )
    return minsep.certify(mechanism, epsilon=1.0, delta=1e-3, **more)


@pytest.fixture(scope="module")
def certificate():
    return certified()


@pytest.fixture(scope="module")
def two(certificate):
    return minsep.statement(certificate, certified(1.5), estimate=False)


@pytest.fixture(scope="module")
def conditional():
    graph = minsep.AttributionGraph.from_lists([[0], [0], [1]])
    scheme = minsep.MultiAttributionMinSep(sampling_prob=0.02, min_sep=4, graph=graph, accept_assumption=True)
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=20), scheme, noise_multiplier=8.0)
    return minsep.statement(minsep.certify(mechanism, epsilon=8.0, delta=0.1, seed=1), estimate=False)


def stated(certificate, **words):
    return minsep.statement(certificate, estimate=False, **words)


def entry_of(statement):
    """Return the entry of a statement, as the registry reads it."""
    entry = yaml.safe_load(statement.to_registry())
    assert problems(entry) == []
    # The registry's own check refuses texts whose lines a reader of YAML would join.
    assert {token.style for token in yaml.scan(statement.to_registry()) if hasattr(token, "style")} <= {None, '"', "|"}
    datetime.date.fromisoformat(entry["deployment"]["basic"]["publication_date"])
    return entry["deployment"]


def test_an_entry_of_the_registry_has_its_fields(certificate):
    entry = entry_of(stated(certificate, model="Digits", data="images of digits"))
    assert entry["basic"]["name"] == "Digits"
    assert entry["basic"]["data_product_type"] == "Machine learning model"
    assert entry["dp_variant"]["variant_name"] == "Approximate DP"
    assert entry["privacy_loss"]["privacy_unit"] == "Example"
    assert "zero-out" in entry["privacy_loss"]["privacy_unit_details"]
    assert entry["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-3}
    assert certificate.mechanism.fingerprint in entry["implementation"]["mechanisms"]
    assert "minsep verify" in entry["administrative"]["notes"]


def test_what_only_the_curator_knows_says_todo(certificate):
    text = stated(certificate).to_registry()
    entry = entry_of(stated(certificate))
    for name in ("name", "data_curators", "intended_use", "data_product_region", "description"):
        assert "TODO" in str(entry["basic"][name])
    assert text.startswith('url_slug: "TODO"  # TODO: ')
    assert 'publication_date: "1900-01-01"  # TODO: the date of publication' in text


def test_an_entry_knows_the_number_of_examples():
    assert "of 3,000 examples." in entry_of(stated(certified(num_examples=3000)))["dp_variant"]["data_domain"]


def test_an_entry_of_several_runs_is_about_all_of_them(two):
    entry = entry_of(two)
    epsilon = float(rounded_up(two.epsilon))
    assert entry["privacy_loss"]["privacy_parameters"] == {"epsilon": epsilon, "delta": 2e-3}
    assert two.epsilon < 2.0
    assert entry["deployment_model"]["release_type"] == "Many releases"
    assert "dominate the runs add up" in entry["accounting"]["composition"]
    for run in two.runs:
        assert run.digest in entry["administrative"]["notes"]


def test_a_small_delta_is_a_number_of_yaml(certificate):
    mechanism = certificate.mechanism.with_noise_multiplier(3.0)
    entry = entry_of(stated(minsep.certify(mechanism, epsilon=2.0, delta=1e-5)))
    assert entry["privacy_loss"]["privacy_parameters"]["delta"] == 1e-5


def test_a_model_card_states_the_promise_and_how_to_check_it(certificate):
    text = stated(certificate).to_model_card()
    _, metadata, block = text.split("---\n", 2)
    assert yaml.safe_load(metadata) == {"tags": ["differential-privacy"]}
    assert block.startswith("\n## Privacy\n\n**This training run is (1, 0.001)-differentially private")
    for row in ("Epsilon | 1", "Delta | 0.001", "Unit of privacy | one example", "Mechanism | DP-SGD"):
        assert f"| {row}" in text
    assert "whose gradients are replaced by zero" in text
    assert certificate.mechanism.fingerprint in text
    assert "at most 2.8 times as likely" in text
    assert "```bash\nminsep verify certificate.json\n```" in text


def test_a_model_card_of_several_runs_names_each(two):
    text = two.to_model_card()
    assert f"| Epsilon | {rounded_up(two.epsilon)} |" in text
    for place, run in enumerate(two.runs, 1):
        assert f"| Fingerprint of the mechanism of run {place} | {run.mechanism.fingerprint} |" in text
        assert run.digest in text


def test_a_condition_is_part_of_every_format(conditional):
    assert "**CONDITIONAL" in conditional.to_model_card()
    sentence = conditional.runs[0].certificate.assumptions[0].sentence
    assert re.sub(r"\\", "", conditional.to_model_card()).count(sentence) == 1
    entry = entry_of(conditional)
    assert "CONDITIONAL" in entry["privacy_loss"]["privacy_parameters_details"]
    assert entry["privacy_loss"]["privacy_unit"] == "User"


def test_an_unverified_certificate_is_named_as_one(certificate):
    unverified = minsep.statement(certificate, verify=False, estimate=False)
    assert "was not verified for this entry" in entry_of(unverified)["administrative"]["notes"]
    assert "Not verified for this statement." in unverified.to_model_card()


def test_words_of_the_user_cannot_break_a_format(certificate):
    one = stated(certificate, model=EVIL, data=EVIL)
    assert "<script>" not in one.to_registry()
    assert "a: b" in entry_of(one)["basic"]["name"]
    assert "<script>" not in one.to_model_card()
    assert one.to_model_card().count("\n---\n") == 1


def test_the_command_offers_every_format():
    chosen, _ = get_args(get_type_hints(command)["format"])
    assert list(get_args(chosen)) == list(SUFFIXES)


def test_the_command_prints_and_writes_every_format(certificate, tmp_path, capsys):
    path = tmp_path / "run.json"
    certificate.save(path)
    one = minsep.statement(path, estimate=False)
    for format, suffix in SUFFIXES.items():
        output = tmp_path / f"{format}{suffix}"
        words = ["statement", str(path), "--no-estimate", "--format", format]
        app(words, standalone_mode=False)
        assert capsys.readouterr().out == one.text(format)
        app([*words, "-o", str(output)], standalone_mode=False)
        assert "Written to" in capsys.readouterr().out
        assert output.read_text() == one.text(format)
    app(["statement", str(path), "--no-estimate", "-o", str(tmp_path / "entry.yaml")], standalone_mode=False)
    assert (tmp_path / "entry.yaml").read_text() == one.to_registry()
    assert json.loads((tmp_path / "json.json").read_text())["title"] == "Privacy statement"


def test_a_format_and_a_name_that_do_not_fit_are_refused(certificate, tmp_path):
    path = tmp_path / "run.json"
    certificate.save(path)
    with pytest.raises(ValueError, match=r"its name must end with \.yaml"):
        app(["statement", str(path), "--format", "registry", "-o", str(tmp_path / "a.md")], standalone_mode=False)
    with pytest.raises(ValueError, match="format is 'pdf', but it must be one of 'markdown'"):
        stated(certificate).text("pdf")
