"""Statements of ledgers, and of runs that are booked in one."""

import html
import json
import re
import shutil

import pytest
from dp_accounting import LaplaceDpEvent

import minsep
from minsep.ledger import Total
from minsep.ledger.balance import Balance
from minsep.show.statements import SUFFIXES, LedgerStatement
from minsep.show.statements.content import rounded_up
from tests.cli.command_line import run
from tests.ledger.small import EVENT, certificate, create
from tests.statements.registry_schema import problems
from tests.statements.test_formats import entry_of

EVIL = "a|b <script> `c` *d* [e](f) {g}"


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    book = create(tmp_path_factory.mktemp("fixed"), num_examples=60_000)
    book.add(certificate(), name="first model")
    book.add(LaplaceDpEvent(20.0), name=EVIL)
    return book


@pytest.fixture(scope="module")
def stated(book):
    return minsep.ledger_statement(book)


@pytest.fixture(scope="module")
def text(stated):
    return stated.to_markdown()


@pytest.fixture(scope="module")
def adaptive(tmp_path_factory):
    book = create(tmp_path_factory.mktemp("adaptive"), adaptive=True, epsilon=8.0, unit="example")
    book.add(certificate(), name="first model")
    book.add(EVENT, delta=2e-6, name="second")
    return book


def test_the_summary_is_what_the_entries_guarantee_together(book, stated):
    epsilon = rounded_up(book.spent().epsilon)
    assert stated.title == "Privacy ledger: digits"
    assert stated.summary == (
        f"The 2 entries of this ledger are together ({epsilon}, 1e-05)-differentially private for every example, if "
        "they were chosen without looking at what earlier ones released. The total for digits is (4, 1e-05)-DP."
    )


def test_everything_is_stated(book, stated, text):
    for heading in (
        "What the ledger is about",
        "Entries",
        "What is spent, and what is left",
        "What it means",
        "Assumptions",
        "What is not covered",
        "How to check it",
        "Versions",
    ):
        assert f"## {heading}\n" in text
    day = book.total.date
    assert "| Examples | 60,000 |" in text
    assert f"| 1: first model | certificate, {day} | (2.5, 1e-06) |" in text
    assert f"event, {day} | ({rounded_up(minsep.compose([LaplaceDpEvent(20.0)], 1e-5).epsilon)}, 1e-05) |" in text
    assert book.left().statement in text.replace("\\", "")
    assert f"Entry 1 (first model) could be repeated {book.left_like(certificate())} times." in text
    assert f"minsep ledger budget.json --head {book.head}\nminsep statement budget.json" in text
    assert "nothing is included for rounding" in text
    for entry in book.entries:
        assert entry.hash in text


def test_attackers_are_bounded_by_all_entries_together(book, stated):
    for row in json.loads(stated.to_json())["attacker"]:
        assert row["most_true_positives"] == book.spent().curve.true_positives(row["false_positives"])
        alone = certificate().curve.true_positives(row["false_positives"])
        assert row["most_true_positives"] > alone


def test_names_cannot_break_a_format(stated, text):
    assert "<script>" not in text.replace("\\<script\\>", "")
    page = stated.to_html()
    assert "<script>" not in page
    assert html.escape("a|b <script>") in page
    assert "<script>" not in stated.to_model_card().replace("\\<script\\>", "")
    entry_of(stated)


def test_an_entry_of_the_registry_is_about_all_entries(book, stated):
    entry = entry_of(stated)
    assert problems({"url_slug": "x", "status": "Draft", "tier": 3, "deployment": entry}) == []
    assert entry["privacy_loss"]["privacy_parameters"]["epsilon"] == float(rounded_up(book.spent().epsilon))
    assert "of 60,000 examples: digits." in entry["dp_variant"]["data_domain"]
    assert entry["deployment_model"]["release_type"] == "Many releases"
    assert "Entry 1 of the ledger, first model (certificate, " in entry["implementation"]["mechanisms"]
    assert book.head in entry["administrative"]["notes"]


def test_a_model_card_lists_the_entries(book, stated):
    card = stated.to_model_card()
    assert card.startswith("---\ntags:\n- differential-privacy\n---\n")
    assert "| Entry 1 | first model (certificate, " in card
    assert f"| Hash of the ledger's last line | {book.head} |" in card
    assert "if they were chosen without looking at what earlier ones released" in card


def test_sums_count_in_an_adaptive_ledger(adaptive):
    stated = minsep.ledger_statement(adaptive, adjacency="replace-one")
    spent = adaptive.spent()
    assert "even if each was chosen after what earlier ones released" in stated.summary
    assert f"({rounded_up(spent.epsilon)}, {rounded_up(spent.delta)})-differentially private" in stated.summary
    # Composed curves say less than the sums, but guarantee nothing here.
    bound = min(
        2.718281828459045**spent.epsilon * 0.001 + spent.delta,
        1 - 2.718281828459045**-spent.epsilon * (1 - spent.delta - 0.001),
    )
    rows = json.loads(stated.to_json())["attacker"]
    assert rows[0]["most_true_positives"] == pytest.approx(bound, rel=1e-6)
    assert rows[0]["most_true_positives"] > 1.5 * spent.curve.true_positives(0.001)
    assert f"({rounded_up(2 * spent.epsilon)}, " in stated.for_other_neighbours
    assert "Whoever chose the entries" not in stated.to_markdown()


def test_an_empty_ledger_has_a_statement_and_no_entry_in_a_registry(tmp_path):
    stated = minsep.ledger_statement(create(tmp_path))
    assert stated.summary == (
        "Nothing is spent of this ledger, which protects every example. The total for digits is (4, 1e-05)-DP."
    )
    assert "| Left for one more run | (4, 1e-05)-DP |" in stated.to_markdown()
    assert json.loads(stated.to_json())["attacker"] is None
    for format in ("registry", "model-card"):
        with pytest.raises(ValueError, match=r"ledger is .*budget\.json', but .* needs at least one entry\."):
            stated.text(format)


def test_an_unproven_assumption_and_an_unverified_certificate_are_named(tmp_path):
    graph = minsep.AttributionGraph.from_lists([[0], [0], [1]])
    scheme = minsep.MultiAttributionMinSep(sampling_prob=0.02, min_sep=4, graph=graph, accept_assumption=True)
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=20), scheme, noise_multiplier=8.0)
    conditional = minsep.certify(mechanism, epsilon=8.0, delta=0.1, seed=1)
    book = create(tmp_path, unit="user", epsilon=8.0, delta=0.1)
    book.add(conditional, verify=False)
    stated = minsep.ledger_statement(book, verify=False)
    assert stated.summary.startswith("CONDITIONAL on the assumptions below that are not proven. The entry of")
    assert stated.summary.endswith("Not verified for this statement.")
    sentence = conditional.assumptions[0].sentence
    assert sentence in re.sub(r"\\", "", stated.to_markdown())
    assert sentence in re.sub(r"\\", "", stated.to_model_card())
    assert "not verified for this entry" in stated.to_registry()


def test_a_forged_certificate_has_no_statement(tmp_path):
    forged = json.loads(certificate().to_json())
    forged["mechanism"]["noise_multiplier"] *= 1.1
    book = create(tmp_path)
    book.add(minsep.Certificate.from_json(json.dumps(forged)), verify=False)
    with pytest.raises(ValueError, match="entry 1 does not hold: The certificate does not hold"):
        minsep.ledger_statement(book)


def test_a_statement_of_a_run_names_its_entry(book):
    stated = minsep.statement(certificate(), ledger=book, estimate=False)
    first = book.entries[0]
    sentence = (
        f"This run is booked in the ledger of the dataset digits: entry 1, first model (certificate), "
        f"added on {first.date}."
    )
    assert sentence in stated.to_markdown()
    assert "All 2 entries together are" in stated.to_markdown()
    assert first.hash in stated.to_markdown()
    assert book.head in stated.to_markdown()
    assert sentence in stated.to_model_card()
    assert sentence in entry_of(stated)["administrative"]["notes"]
    ledger = json.loads(stated.to_json())["ledger"]
    assert [one["index"] for one in ledger["entries"][0]] == [1]
    assert json.loads(minsep.statement(certificate(), estimate=False).to_json())["ledger"] is None


def test_runs_with_one_certificate_need_an_entry_each(book, tmp_path):
    with pytest.raises(ValueError, match="has only 1 of 2 entries with this certificate: add what is missing"):
        minsep.statement(certificate(), certificate(), ledger=book, estimate=False)
    other = certificate(noise_multiplier=1.5)
    with pytest.raises(ValueError, match="has no entry with this certificate"):
        minsep.statement(other, ledger=book, estimate=False)
    both = create(tmp_path)
    both.add([certificate(), EVENT], name="first")
    both.add(certificate(), name="second")
    stated = minsep.statement(certificate(), certificate(), ledger=both.path, estimate=False).to_markdown()
    day = both.total.date
    assert (
        f"Run 2 is booked in the ledger of the dataset digits: in one of 2 entries with its certificate (entry 1, "
        f"first (certificate, event), added on {day}; entry 2, second (certificate), added on {day})." in stated
    )


@pytest.fixture
def folder(book, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(book.path, tmp_path)
    certificate().save("certificate.json")
    return tmp_path


def test_the_command_states_a_ledger_in_every_format(folder, monkeypatch):
    for format, suffix in SUFFIXES.items():
        monkeypatch.setattr(LedgerStatement, "text", lambda stated, format: f"{format} of {stated.title}\n")
        printed = run("statement", "budget.json", "--format", format)
        assert (printed.returncode, printed.stdout) == (0, f"{format} of Privacy ledger: digits\n")
        written = run("statement", "budget.json", "--format", format, "-o", f"{format}{suffix}")
        assert "Entries" in written.stdout
        assert (folder / f"{format}{suffix}").read_text() == printed.stdout


def test_the_command_names_the_entry_of_a_run(folder):
    printed = run("statement", "certificate.json", "--ledger", "budget.json", "--no-estimate")
    assert "booked in the ledger of the dataset digits: entry 1, first model" in printed.stdout


def edited(content):
    return content.replace(b"first model", b"first_model")


@pytest.mark.parametrize(
    ("change", "words", "refusal"),
    [
        (edited, ["budget.json"], "line 2 of 3 was edited, or is damaged, missing or out of place: restore the file."),
        (edited, ["certificate.json", "--ledger", "budget.json"], "line 2 of 3 was edited"),
        (lambda content: b"x" + content, ["budget.json"], "ledger is 'budget.json', but that is another kind of file"),
        (lambda content: b"", ["budget.json"], "This is not a certificate of minsep"),
        (None, ["certificate.json", "budget.json"], "state a ledger alone, or name it by --ledger"),
        (None, ["budget.json", "--model", "x"], "--model is 'x', but 'budget.json' is a ledger: omit it."),
        (None, ["budget.json", "--delta", "1e-5"], "--delta is 1e-05, but 'budget.json' is a ledger"),
        (None, ["budget.json", "--ledger", "budget.json"], "--ledger is 'budget.json', but 'budget.json' is a ledger"),
        (None, ["certificate.json", "--ledger", "none.json"], "there is no such file: create the ledger first"),
        (None, ["certificate.json", "--ledger", "certificate.json"], "that is another kind of file"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(folder, change, words, refusal):
    if change is not None:
        (folder / "budget.json").write_bytes(change((folder / "budget.json").read_bytes()))
    refused = run("statement", *words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refusal in refused.stderr
    assert refused.stderr.count("Error: ") == 1


def test_python_says_which_function_states_a_ledger(book):
    with pytest.raises(ValueError, match=r"it is a ledger: use minsep\.ledger_statement"):
        minsep.statement(book.path)


def test_what_is_left_of_a_balance_without_entries_is_the_total(tmp_path):
    total = Total("digits", "example", 2.0, 1e-6, None, adaptive=True, date="2026-01-01")
    balance = Balance("budget.json", total, (), "0" * 64)
    assert (balance.left.any_run, balance.curve, balance.costs) == (minsep.Budget(2.0, 1e-6), None, ())
