"""Sessions: what is answered how, at what cost, and what becomes of it; with noise that a test knows."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.drawing import drawing
from support.fakes import FakeNoise
from support.runs import Crash, die_at

from factored_mwem import Release, ask, release
from factored_mwem.accounting.cap import Cap
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import BudgetExceeded, InputError, Lost
from factored_mwem.files import crashpoints as faults
from factored_mwem.ledger.entries import Entry
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.ledger.run import Booking
from factored_mwem.sessions.online.asking import AskRequest, ask_session
from factored_mwem.sessions.online.question import CountQuestion
from factored_mwem.sessions.online.session import Asking, Response

DOMAIN = {
    "fields": [
        {"name": "sex", "categories": ["F", "M"], "constraints": {"required": True}},
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 9, "required": True}},
        {"name": "town", "categories": ["A", "B", "C"], "constraints": {"required": True}},
    ]
}
N = 3000
ALPHA = 0.05


def people() -> pa.Table:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 10, N)
    sex = np.where(rng.random(N) < 0.2 + 0.06 * age, "M", "F")
    town = np.array(["A", "B", "C"])[np.minimum(rng.integers(0, 4, N), 2)]
    return pa.table({"sex": sex, "age": age, "town": town})


TABLE = people()
FRAME = TABLE.to_pandas()
QUERIES = {
    "count where sex = M and age >= 5": [FRAME.query("sex == 'M' and age >= 5")],
    "count where town = A and age < 3": [FRAME.query("town == 'A' and age < 3")],
    "count by town": [FRAME[FRAME.town == town] for town in "ABC"],
    "count where sex = F and town in (A, B)": [FRAME.query("sex == 'F' and town in ('A', 'B')")],
    "count where age between 2 and 4 by sex": [
        FRAME[FRAME.age.between(2, 4) & (FRAME.sex == s)] for s in "FM"
    ],
}
"""With the truth, by pandas."""
FIRST = next(iter(QUERIES))


@contextlib.contextmanager
def begun(
    noise: FakeNoise | None = None,
    model: Release | None = None,
    booking: Booking | None = None,
    table: pa.Table = TABLE,
    **given: Any,
) -> Iterator[Asking]:
    options = {"alpha": ALPHA, "epsilon": 20.0, "delta": 0.0, **given}
    kind = Composition.ZCDP if options["delta"] else Composition.PURE
    if model is None:
        options = {"domain": DOMAIN, **options}
    request, booking = AskRequest.of(table, model, **options), booking or Booking()
    with drawing(noise or FakeNoise(kind)), request.spending.booked(booking) as run:
        with ask_session(request, run, resumable=booking.run_id is not None) as session:
            yield session
        run.finish()


def told(session: Asking) -> list[Response]:
    return [session.answer(text) for text in (*QUERIES, FIRST)]


def stages(session: Asking) -> list[str]:
    return [entry.stage for entry in session._spent.accountant.entries]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_without_noise_answers_are_exact_or_within_half_of_alpha(neighbours: str, delta: float) -> None:
    with begun(neighbours=neighbours, delta=delta) as session:
        assert (session.spent == 0) == (neighbours == "replace")  # which makes the records public
        for answer in told(session):
            errors = np.abs(answer.values - [len(rows) for rows in QUERIES[answer.query]])
            assert errors.max() <= (0 if answer.source in ("measured", "cached") else session.alpha / 2)
            assert answer.bound == session.alpha == pytest.approx(ALPHA * N)
        assert session.counts["cached"] == 1 and session.model.total == N
        assert session.spent + session.left == pytest.approx(20.0)


def test_the_same_records_are_asked_once() -> None:
    with begun() as session:
        first = session.answer("count where sex = M")
        spent = session.spent
        for same in ("count where sex != F", "count where sex in (M)", "count where sex = M"):
            again = session.answer(same)
            assert (again.source, again.value, again.spent) == ("cached", first.value, spent)
        other = session.answer("count where sex = F")  # the other cell of what was measured
        assert (other.source, other.spent) == ("cached", spent)
        assert session.counts == {"model": 0, "measured": 1, "cached": 4, "public": 0}


def test_no_record_can_be_both_and_that_is_free() -> None:
    with begun() as session:
        spent = session.spent
        nothing = session.answer("count where sex = M and sex = F")
        assert (nothing.value, nothing.bound, nothing.source, nothing.spent) == (0, 0, "public", spent)
        halves = session.answer("count where sex = M by sex")
        assert halves.values[0] == 0
        assert halves.values[1] == session.answer("count where sex = M").value


def test_what_was_measured_makes_the_model_better() -> None:
    with begun() as session:
        session.answer(FIRST)
        for text, rows in (
            ("count where sex = M", FRAME.sex == "M"),
            ("count where age >= 5", FRAME.age >= 5),
        ):
            (believed,) = session.model.answers(CountQuestion.of(text, session.domain)).tolist()
            assert abs(believed - rows.sum()) < 3
        cells = session.model.forest.cells
        session.answer("count by age, town")
        assert session.model.forest.cells > cells


def test_a_model_that_earned_it_is_tested_and_a_test_serves_many() -> None:
    """Once the model has been right a few times, further questions share one charge of a test."""
    with begun() as session:
        for text in MANY[:3]:
            session.answer(text)
        some = itertools.product(range(2, 9), "FM", "ABC")
        texts = [f"count where age >= {a} and sex = {s} and town = {t}" for a, s, t in some]
        sources = [session.answer(text).source for text in texts]
        assert sources.count("model") > len(texts) / 2
        assert session.tests == 1
        assert stages(session).count("test") == 1
        entries = session._spent.accountant.entries
        assert sum((e.cost for e in entries), Fraction(0)) == session._spent.accountant.spent


def test_the_end_of_the_budget_is_said_before_anything_is_drawn() -> None:
    noise = FakeNoise(Composition.PURE)
    with begun(noise, epsilon=0.2) as session:
        with pytest.raises(BudgetExceeded, match="what is left"):
            for a in range(1, 9):
                for b in range(a, 9):
                    session.answer(f"count where age between {a} and {b} and town = B")
        calls = len(noise.calls)
        with pytest.raises(BudgetExceeded):
            session.answer("count where town = C and sex = M and age = 7")
        assert len(noise.calls) == calls
        assert session.answer("count where age between 1 and 1 and town = B").source == "cached"
        assert session.spent <= 0.2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1.0}, "alpha"),
        ({"alpha": "x"}, "alpha"),
        ({"beta": 0.7}, "beta"),
        ({"domain": None}, "--model"),
        ({"certificate": 0.1}, "certificate"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"table": TABLE.drop(["age"])}, "age"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_drawn(given: dict[str, Any], said: str) -> None:
    noise = FakeNoise(Composition.PURE)
    with pytest.raises(InputError, match=said), begun(noise, **given):
        pass
    assert not noise.calls


def test_a_wrong_query_costs_nothing() -> None:
    with begun() as session:
        spent, calls = session.spent, len(stages(session))
        for text in ("mean age", "count where none = 3", "count where age = 77 or", "count where sex = X"):
            with pytest.raises(InputError):
                session.answer(text)
        assert (session.spent, len(stages(session))) == (spent, calls)


@pytest.fixture(scope="module")
def made() -> Release:
    return release(TABLE, 1, domain=DOMAIN, epsilon=1.0)


def test_a_warm_session_saves_a_model_that_answers_and_samples(made: Release, tmp_path: Path) -> None:
    before = made.model.marginal((0, 1)).copy()
    with begun(model=made) as session:
        session.answer("count by sex, age")
        session.save(tmp_path / "better.fmwem")
        with pytest.raises(InputError):
            session.save(tmp_path / "better.fmwem")
        session.save(tmp_path / "better.fmwem", overwrite=True)
        known = session.model.forest.marginal((0, 1))
    assert (made.model.marginal((0, 1)) == before).all()
    loaded = Release.load(tmp_path / "better.fmwem")
    np.testing.assert_allclose(loaded.model.marginal((0, 1)), known)
    counts = FRAME.groupby(["sex", "age"]).size().to_numpy()
    assert np.abs(known - counts).sum() < np.abs(before - counts).sum() / 5
    assert "session of `fmwem ask`" in loaded.manifest.notes[-1]
    assert loaded.sample(10).num_rows == 10
    assert loaded.answer("count by sex").estimate.sum() > 0


# ---- the books


@pytest.fixture
def books(tmp_path: Path) -> Path:
    path = tmp_path / "books.db"
    LedgerFile.create(path).add("people", Cap.of(50.0, 1e-6), Neighbours.ADD_REMOVE, 1)
    return path


def booked(books: Path, run_id: str | None = "r") -> dict[str, Any]:
    return {"booking": Booking(books, "people", run_id)}


def entry(books: Path) -> Entry:
    (found,) = LedgerFile(books).entries("people")
    return found


def test_spent_takes_the_place_of_reserved(books: Path) -> None:
    with begun(**booked(books, None)) as session:
        assert entry(books).state == "reserved"
        assert float(entry(books).cost.amount) == 20.0
        told(session)
    check_ended(books, session)
    assert session.spent < 3
    assert entry(books).parameters["kind"] == "ask"


def check_ended(books: Path, session: Asking, state: str = "finished") -> None:
    """The books have what was drawn."""
    assert entry(books).state == state
    assert float(entry(books).cost.amount) == pytest.approx(session.spent)


def test_a_session_that_ends_by_an_error_is_counted_with_what_it_drew(books: Path) -> None:
    with pytest.raises(ZeroDivisionError), begun(**booked(books, None)) as session:
        session.answer(FIRST)
        raise ZeroDivisionError
    check_ended(books, session, "failed")


def test_nothing_is_entered_where_nothing_was_asked_of_the_rows(books: Path, made: Release) -> None:
    with begun(model=made, **booked(books)) as session:
        session.answer("count where sex = M and sex = F")
    assert LedgerFile(books).entries("people") == []


def noisy(seed: int = 5) -> FakeNoise:
    """Noise that differs from draw to draw: a draw made twice would show."""
    rng = np.random.default_rng(seed)
    return FakeNoise(Composition.PURE, offset=lambda values, _: values + rng.integers(-30, 30, len(values)))


MANY = [
    *("count by sex, age", "count by age, town", "count by sex, town"),
    *(f"count where age >= {a} and sex = M and town = {t}" for a in range(2, 8) for t in "ABC"),
]


@pytest.mark.parametrize(("point", "nth"), [("before draw", 3), ("after journal", 6), ("before journal", 9),
                                            ("after journal", 14), ("after journal", 21)])  # fmt: skip
def test_a_killed_session_goes_on_and_pays_once(books: Path, point: str, nth: int) -> None:
    """The answers before the end are the same for nothing; one that died in a test pays for another one."""
    first: list[Response] = []
    die_at(point, nth)
    with pytest.raises(Crash), begun(noisy(), **booked(books)) as session:
        for text in MANY:
            first.append(session.answer(text))
    faults.hook = lambda _: None
    died_at = session.spent
    assert 0 < len(first) < len(MANY)
    assert float(entry(books).cost.amount) == 20.0  # reserved as a whole
    with begun(noisy(seed=6), **booked(books)) as session:
        went_on = session.spent
        again = [session.answer(text) for text in MANY]
    for before, after in zip(first, again, strict=False):
        assert before.values.tolist() == after.values.tolist()
        assert after.source == "cached"
    one_test = float(session._online.prices.testing(1))
    assert went_on <= died_at + one_test + 1e-9
    check_ended(books, session)


def test_an_open_test_of_a_dead_session_is_charged_anew(books: Path) -> None:
    """The noise on its threshold is on no disk, so what goes on is another test: two charges, two draws."""
    with pytest.raises(Crash), begun(noisy(), **booked(books)) as session:
        for text in MANY:
            if session.answer(text).source == "model":
                break
        raise Crash
    assert session.tests == 1
    journals = b"".join(file.read_bytes() for file in books.parent.rglob("*") if file.is_file())
    assert b'"draw": "begin", "size": 0' in journals
    with begun(noisy(seed=6), **booked(books)) as session:
        told_again = [session.answer(text) for text in MANY]
        assert stages(session).count("test") == 2
    assert len(told_again) == len(MANY)


def test_a_closed_session_repeats_what_it_said_and_says_no_more(books: Path) -> None:
    with begun(noisy(), **booked(books)) as session:
        first = [session.answer(text) for text in MANY[:4]]
    with begun(noisy(seed=6), **booked(books)) as session:
        for before in first:
            assert session.answer(before.query).values.tolist() == before.values.tolist()
        with pytest.raises(InputError, match="closed"):
            session.answer("count where town = A and sex = F and age = 3")
    check_ended(books, session)


def test_another_session_is_not_this_one(books: Path) -> None:
    with pytest.raises(Crash), begun(noisy(), **booked(books)) as session:
        session.answer(FIRST)
        raise Crash
    for other in ({"alpha": 0.06}, {"beta": 0.01}, {"table": TABLE.slice(1)}):
        with pytest.raises(Lost, match="begun with"), begun(noisy(), **booked(books), **other):
            pass


def test_the_public_function_has_no_switch() -> None:
    assert "noise" not in inspect.signature(ask).parameters


def test_a_session_that_dies_before_it_begins_is_counted_with_what_it_drew(books: Path) -> None:
    """Too few records for alpha, which is known once they are counted: the rest was never spent."""
    with pytest.raises(InputError, match="alpha is") as error, begun(alpha=1e-4, **booked(books, None)):
        pass
    assert error.value.budget_spent
    assert entry(books).state == "failed"
    assert 0 < float(entry(books).cost.amount) < 1


def test_what_was_asked_before_the_first_charge_is_in_the_journal(books: Path, made: Release) -> None:
    """A warm session draws nothing when it begins: its first question comes before its journal does."""
    with pytest.raises(Crash), begun(noisy(), model=made, **booked(books)) as session:
        first = [session.answer(text) for text in MANY[:3]]
        raise Crash
    with begun(noisy(seed=6), model=made, **booked(books)) as session:
        spent = session.spent
        again = [session.answer(text) for text in MANY[:3]]
        assert [each.values.tolist() for each in again] == [each.values.tolist() for each in first]
        assert session.spent == spent == first[-1].spent
