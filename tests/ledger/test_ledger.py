"""What a ledger accepts, refuses, and says of what is left."""

import json

import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st

import minsep
from minsep.ledger import OverBudgetError, Total
from minsep.ledger.accounts import for_any_run, rounded_down
from tests.ledger.small import EVENT, certificate, create, sampled
from tests.statements.test_composition import composed, enumerated_delta

BOOKING = "0123456789abcdef0123456789abcdef"


def test_a_ledger_holds_what_was_added(tmp_path):
    book = create(tmp_path, num_examples=1000)
    assert book.spent() is None
    certificate().save(tmp_path / "certificate.json")
    mechanism = certificate().mechanism
    first = book.add(tmp_path / "certificate.json", name="first model")
    second = book.add(EVENT, booking=BOOKING)
    third = book.add([LaplaceDpEvent(50.0), mechanism])
    again = minsep.Ledger.open(tmp_path / "budget.json")
    assert again.entries == (first, second, third)
    assert [entry.index for entry in again.entries] == [1, 2, 3]
    assert [entry.kind for entry in again.entries] == ["certificate", "event", "event, mechanism"]
    assert [entry.items for entry in again.entries] == [(certificate(),), (EVENT,), (LaplaceDpEvent(50.0), mechanism)]
    assert again.entries[0].name == "first model"
    assert again.entries[2].name.startswith("LaplaceDpEvent")
    assert again.total == book.total
    assert (again.total.dataset, again.total.num_examples, again.total.budget) == (
        "digits",
        1000,
        minsep.Budget(4, 1e-5),
    )
    together = minsep.compose([certificate(), EVENT, LaplaceDpEvent(50.0), mechanism], 1e-5)
    assert again.spent().epsilon == together.epsilon
    assert again.spent(1e-4).epsilon < together.epsilon


def test_the_total_is_that_of_compose(tmp_path):
    book, added = create(tmp_path), 0
    assert book.left_like(certificate()) == 4
    while book.can_add(certificate()):
        book.add(certificate())
        added += 1
    assert added == 4
    before = (tmp_path / "budget.json").read_bytes()
    with pytest.raises(
        OverBudgetError, match=r"has a total of \(4, 1e-05\)-DP, but with this entry .* nothing was added"
    ):
        book.add(certificate())
    assert (tmp_path / "budget.json").read_bytes() == before
    assert minsep.compose([certificate()] * 4, 1e-5).epsilon <= 4 < minsep.compose([certificate()] * 5, 1e-5).epsilon
    assert book.left_like(certificate()) == 0


def test_a_certificate_of_the_whole_total_fits_once(tmp_path):
    whole = certificate(epsilon=2.5, delta=1e-6)
    book = create(tmp_path, epsilon=2.5, delta=1e-6)
    book.add(whole)
    assert book.spent().epsilon <= 2.5
    assert not book.can_add(whole)


def test_what_is_left_is_a_gaussian_mechanism_that_fits(tmp_path):
    book = create(tmp_path)
    book.add(certificate())
    left = book.left()
    assert left.delta == 1e-5
    assert left.epsilon == pytest.approx(minsep.compose([GaussianDpEvent(1 / left.mu)], 1e-5).epsilon)
    assert not book.can_add(GaussianDpEvent(1 / (1.01 * left.mu)))
    assert "room for one Gaussian mechanism with mu" in left.statement
    book.add(GaussianDpEvent(1 / left.mu))
    assert book.spent().epsilon == pytest.approx(4, rel=1e-2)
    assert book.left().mu < 0.1


def test_nothing_may_be_left(tmp_path):
    book = create(tmp_path, epsilon=0.001, delta=1e-9)
    assert book.left().nothing
    assert book.left().statement == "Nothing is left of the budget."


def test_epsilons_and_deltas_of_an_adaptive_ledger_add_up(tmp_path):
    book = create(tmp_path, adaptive=True, epsilon=8.0)
    book.add(certificate())
    with pytest.raises(ValueError, match="delta is None, but an entry without a certificate"):
        book.add(EVENT)
    entry = book.add(EVENT, delta=2e-6)
    assert entry.charge.epsilon == minsep.compose([EVENT], 2e-6).epsilon
    assert (book.spent().epsilon, book.spent().delta) == pytest.approx((2.5 + entry.charge.epsilon, 3e-6))
    assert (book.left().epsilon, book.left().delta) == pytest.approx((5.5 - entry.charge.epsilon, 7e-6))
    assert book.left().statement.startswith("What is left is epsilon")
    assert book.left_like(certificate()) == 2
    book.add(certificate())
    book.add(certificate())
    with pytest.raises(OverBudgetError, match="the sums would be epsilon 10"):
        book.add(certificate())
    with pytest.raises(OverBudgetError, match=r"and delta 1\.1e-05"):
        book.add(GaussianDpEvent(10**6), delta=6e-6)
    with pytest.raises(ValueError, match="deltas of entries add up"):
        book.spent(1e-5)


def test_decimal_charges_add_up_to_the_total(tmp_path):
    book = create(tmp_path, adaptive=True, epsilon=7.5, delta=3e-6)
    for _ in range(3):
        book.add(certificate())
    assert book.left().epsilon == 0


def test_a_booking_is_booked_once(tmp_path):
    book = create(tmp_path)
    first = book.add(certificate(), booking=BOOKING)
    assert book.add(certificate(), booking=BOOKING) == first
    assert len(book.entries) == 1
    with pytest.raises(ValueError, match="its entry 1 has the same booking and is about something else"):
        book.add(EVENT, booking=BOOKING)
    with pytest.raises(ValueError, match="booking is 'again', but it must be 32 hexadecimal digits"):
        book.add(EVENT, booking="again")


@pytest.mark.parametrize(
    ("item", "refusal"),
    [
        (lambda: certificate(noise_multiplier=0.5), "The certificate did not pass"),
        (lambda: certificate(num_examples=999), "made for 999 examples, but the dataset of this ledger has 1,000"),
        (lambda: of_users(), "protects the unit 'user', but this ledger is about the unit 'example'"),
        (lambda: of_users().mechanism, "The mechanism protects the unit 'user'"),
        (lambda: forged(), "does not hold|was changed|proof"),
        (lambda: sampled(1).mechanism, "has no exact curve"),
        (lambda: NonPrivateDpEvent(), "must be an event with a privacy loss distribution"),
        (lambda: "none.json", "certificate is 'none.json', but the file cannot be read"),
        (lambda: 3.0, "item is 3.0, but it must be a certificate"),
        (list, "item is \\[\\], but it must be a certificate"),
    ],
)
def test_what_does_not_belong_to_a_ledger_is_refused(tmp_path, item, refusal):
    book = create(tmp_path, num_examples=1000)
    before = (tmp_path / "budget.json").read_bytes()
    with pytest.raises(ValueError, match=refusal) as error:
        book.add(item())
    assert "\n" not in str(error.value)
    assert (tmp_path / "budget.json").read_bytes() == before


def of_users():
    identity = minsep.BandedToeplitz.identity(iterations=8)
    scheme = minsep.UserMinSep(rate=0.25, min_sep=2, user_bound=2)
    return minsep.certify(minsep.Mechanism(identity, scheme, 20.0), epsilon=4.0, delta=1e-2, seed=0)


def forged():
    content = json.loads(certificate().to_json())
    content["mechanism"]["noise_multiplier"] *= 2
    return minsep.Certificate.from_json(json.dumps(content))


def test_different_certificates_of_one_seed_are_refused(tmp_path):
    book = create(tmp_path, epsilon=20.0, delta=0.1)
    book.add(sampled(1), verify=False)
    book.add(sampled(1), verify=False)
    other = json.loads(sampled(1).to_json()) | {"date": "2020-01-01"}
    with pytest.raises(ValueError, match="samples of the same seed"):
        book.add(minsep.Certificate.from_json(json.dumps(other)), verify=False)
    book.add(sampled(2), verify=False)
    # The chance of an error counts once each.
    chances = sampled(1).failure_probability + sampled(2).failure_probability
    assert book.spent().curve.chance == pytest.approx(chances)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"dataset": ""}, "dataset is empty"),
        ({"dataset": "two\nlines"}, "dataset is 'two\\\\nlines', but it must be one line"),
        ({"unit": "person"}, "unit is"),
        ({"epsilon": 0.0}, "epsilon is 0.0"),
        ({"delta": 1.0}, "delta is 1.0"),
        ({"num_examples": 0}, "num_examples is 0"),
        ({"adaptive": 1}, "adaptive is 1"),
    ],
)
def test_a_total_that_means_nothing_is_refused(tmp_path, options, refusal):
    with pytest.raises(ValueError, match=refusal):
        create(tmp_path, **options)
    assert not (tmp_path / "budget.json").exists()


def test_a_ledger_is_created_once(tmp_path):
    create(tmp_path)
    with pytest.raises(ValueError, match="that ledger exists already"):
        create(tmp_path)
    with pytest.raises(ValueError, match="there is no such file: create the ledger first"):
        minsep.Ledger.open(tmp_path / "other.json")
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(ValueError, match="that is another kind of file"):
        minsep.Ledger.create(tmp_path / "notes.txt", dataset="digits", epsilon=1.0, delta=1e-5)
    assert (tmp_path / "notes.txt").read_text() == "notes"


def test_a_head_that_was_kept_shows_lost_entries(tmp_path):
    book = create(tmp_path)
    book.add(EVENT)
    head = book.head
    book.add(EVENT)
    minsep.Ledger.open(book.path, head=head)
    lines = (tmp_path / "budget.json").read_bytes().splitlines(keepends=True)
    (tmp_path / "budget.json").write_bytes(lines[0])
    with pytest.raises(ValueError, match="does not contain the line with the hash .*: an entry is missing"):
        minsep.Ledger.open(book.path, head=head)


def test_a_ledger_that_was_replaced_is_not_added_to(tmp_path):
    book = create(tmp_path)
    (tmp_path / "budget.json").unlink()
    create(tmp_path, dataset="letters")
    with pytest.raises(ValueError, match="it was replaced by another ledger"):
        book.add(EVENT)


@pytest.mark.parametrize("head", ["", "52ea9a5f9b839b0d", 3, "g" * 64])
def test_a_head_that_is_no_hash_is_refused(tmp_path, head):
    book = create(tmp_path)
    minsep.Ledger.open(book.path, head=book.head.upper())
    with pytest.raises(ValueError, match="head is .*, but it must be the 64 hexadecimal digits of a hash"):
        minsep.Ledger.open(book.path, head=head)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.builds(minsep.Budget, epsilon=st.floats(0.01, 2.0), delta=st.floats(1e-9, 1e-3)), max_size=3),
    st.floats(0.1, 6.0),
    st.floats(1e-6, 1e-2),
)
def test_a_run_with_the_budget_for_any_run_fits(budgets, epsilon, delta):
    """Against an enumeration of the randomised responses that tell as much as anything with these budgets."""
    total = Total("digits", "example", epsilon, delta, None, adaptive=False, date="2026-01-01")
    spent = composed(budgets) if budgets else None
    found = for_any_run(total, spent)
    if found is None:
        tiny = minsep.Budget(2e-3, 1e-9)
        assert enumerated_delta([*budgets, tiny], epsilon) > 0.9 * delta
        return
    assert enumerated_delta([*budgets, found], epsilon) <= delta * (1 + 1e-9) + 1e-14
    larger = minsep.Budget(1.05 * found.epsilon + 0.01, found.delta)
    assert found == total.budget or enumerated_delta([*budgets, larger], epsilon) > delta * (1 - 1e-9)


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_certificate_for_what_is_left_can_be_added(tmp_path, adaptive):
    book = create(tmp_path, epsilon=4.0, delta=3e-2, adaptive=adaptive)
    book.add(sampled(1), verify=False)
    left = book.left()
    assert adaptive or f"A run that is certified for {rounded_down(left.any_run)} fits" in left.statement
    strategy, scheme = minsep.BandedToeplitz.optimal(iterations=20, bands=2), minsep.MinSep(rate=0.1, min_sep=4)
    fitting = minsep.calibrate(strategy, scheme, epsilon=left.any_run.epsilon, delta=left.any_run.delta, seed=3)
    assert fitting.certificate.passed
    book.add(fitting.certificate, verify=False)
