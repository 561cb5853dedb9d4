"""From a table to a sketch: what is charged, pinned, booked and refused, with noise that a test knows."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.drawing import drawing
from support.fakes import FakeNoise

from factored_mwem import InputError, LedgerFile
from factored_mwem import sketch as public_sketch
from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import BudgetExceeded, FmwemError
from factored_mwem.ledger.run import Booking
from factored_mwem.sessions.sketch import Sketch, SketchRequest, build, sketch
from factored_mwem.sessions.sketch.build import make_sketch

VISITS = ["/home"] * 90 + ["/jobs"] * 8 + [None, ""] + [f"/page/{i}" for i in range(20)]


def table(values: list[str | None] = VISITS) -> pa.Table:
    return pa.table({"url": values, "person": [f"p{i % 50}" for i in range(len(values))]})


def made(fake: FakeNoise | None = None, booking: Booking | None = None, **asked: Any) -> Sketch:
    request = SketchRequest.of(asked.pop("table", table()), "url", **asked)
    fake = fake or FakeNoise(request.spending.budget.composition)
    with drawing(fake), request.spending.booked(booking or Booking()) as run:
        found = make_sketch(request, run)
        run.finish()
    return found


@pytest.fixture
def known_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of which it is known that the few keys here do not fall together."""
    monkeypatch.setattr(build.secrets, "token_bytes", np.random.default_rng(2).bytes)


@pytest.mark.parametrize("size", [2**14, 2**14 - 5])
def test_without_noise_answers_are_the_counts_but_for_the_hash(size: int, known_hash: None) -> None:
    found = made(size=size)
    for query, count in ((["/home"], 90), ({"/jobs": 0.5}, 4), (["/home", "/jobs"], 98), (["/none"], 0)):
        answer = found.answer(query)
        assert answer.estimate == pytest.approx(count, abs=1.0)
        assert answer.noise_stderr > 0
    assert found.answer([]).estimate == found.answer([]).stderr == 0


def test_a_missing_key_counts_nothing() -> None:
    with_them, without = made(size=64, keys=["/home"]), np.int64(90)
    assert (np.abs(with_them.noisy) == without).all()  # nulls, empty texts and keys that are not listed


@pytest.mark.parametrize(
    ("delta", "neighbours", "contributions", "composition", "sensitivity"),
    [
        (1e-9, "add-remove", 1, Composition.ZCDP, 64),
        (1e-9, "replace", 3, Composition.ZCDP, 64 * 36),
        (0.0, "add-remove", 2, Composition.PURE, 128),
        (0.0, "replace", 1, Composition.PURE, 128),
    ],
)
def test_the_whole_budget_pays_for_one_measurement(
    delta: float, neighbours: Any, contributions: int, composition: Composition, sensitivity: int
) -> None:
    noise = FakeNoise(composition)
    found = made(noise, size=64, delta=delta, neighbours=neighbours, contributions=contributions)
    (entry,), (call,) = found.statement.ledger, noise.calls
    assert entry.sensitivity == sensitivity and entry.scale == call.scale == found.scale.value
    assert 0.999 <= found.statement.recompute() <= 1.0
    promise = found.statement.guarantee
    assert promise.spent_epsilon == found.statement.recompute() and promise.composition is composition
    assert ("exchanged" in promise.unit) == (neighbours == "replace") and str(contributions) in promise.unit


def test_printed_noise_is_laplaces_and_paid_in_rho() -> None:
    found = made(FakeNoise(Composition.PURE), size=64, noise="laplace")
    (entry,) = found.statement.ledger
    assert entry.mechanism == "discrete laplace, in rho" and found.scale.composition is Composition.PURE
    gaussian = made(size=64)
    assert found.scale.stddev == pytest.approx(2**0.5 * gaussian.scale.stddev)
    assert found.statement.recompute() <= 1.0


def test_under_pure_privacy_noise_is_laplaces() -> None:
    assert SketchRequest.of(table(), "url", delta=0.0).noise == "laplace"
    assert SketchRequest.of(table(), "url", delta=0.0).size == 2**11
    assert SketchRequest.of(table(), "url").size == 2**17


def test_error_bars_are_those_of_the_identity(known_hash: None) -> None:
    """Noise |Q|^2 sigma^2 / T, and the projection's part with |D|^2 and the counts put in."""
    size = 2**12
    rng = np.random.default_rng(1)
    drawn = lambda values, scale: values + np.rint(rng.normal(0, scale, len(values))).astype(int)  # noqa: E731
    found = made(FakeNoise(offset=drawn), size=size, keys=["/home", "/jobs", "x"], epsilon=3.0)
    squares = 90**2 + 8**2
    assert found.squares == pytest.approx(squares, rel=0.1)
    home, both = found.answer(["/home"]), found.answer({"/home": 1, "/jobs": 0.5, "x": 0.25})
    assert home.noise_stderr == pytest.approx(found.scale.value / size**0.5)
    assert home.projection_stderr**2 == pytest.approx((squares - 90**2) / size, abs=0.1 * squares / size)
    norm = 1 + 0.25 + 0.0625
    assert both.noise_stderr == pytest.approx(found.scale.value * (norm / size) ** 0.5)
    assert both.projection_stderr**2 == pytest.approx((norm * squares + (1 - 2 / 3) * 94**2) / size, rel=0.1)
    assert home.low < home.estimate < home.high
    assert home.stderr**2 == pytest.approx(home.noise_stderr**2 + home.projection_stderr**2)


def test_at_most_k_rows_of_a_person_count() -> None:
    one = made(size=64, privacy_id="person", keys=["/home"])
    assert (np.abs(one.noisy) == 50).all()  # of fifty people, one row each: all of them begin at home
    assert (np.abs(made(size=64, privacy_id="person", contributions=5, keys=["/home"]).noisy) == 90).all()


def test_the_hash_is_drawn_anew_for_every_sketch() -> None:
    one, other = made(size=64), made(size=64)
    assert (one.projection.coefficients != other.projection.coefficients).any()
    assert one.universe != other.universe


def test_the_cost_is_in_the_books_before_noise(books: Path) -> None:
    seen = []

    def look(values: np.ndarray, scale: float) -> np.ndarray:
        seen.extend(e.state for e in LedgerFile(books).entries("t"))
        return values

    made(FakeNoise(offset=look), Booking(books, "t"), size=64)
    (entry,) = LedgerFile(books).entries("t")
    assert (seen, entry.state, entry.parameters["kind"]) == (["reserved"], "finished", "sketch")
    assert entry.cost.amount > Fraction(1, 100)
    with pytest.raises(BudgetExceeded) as refused:
        sketch(table(), "url", epsilon=5.0, ledger=books, dataset="t")
    assert not refused.value.budget_spent


def test_a_run_goes_on_with_its_hash_and_its_noise(books: Path) -> None:
    """The same run id again: the same sketch, and nothing is drawn or paid."""
    booking, first = Booking(books, "t", "monday"), FakeNoise(offset=7)
    one = made(first, booking, size=64)
    second = FakeNoise(offset=9)
    again = made(second, booking, size=64)
    assert (one.noisy == again.noisy).all() and one.universe == again.universe and not second.calls
    assert (one.projection.coefficients == again.projection.coefficients).all()
    assert len(LedgerFile(books).entries("t")) == 1
    for other in ({"size": 32}, {"size": 64, "keys": ["/home"]}):
        with pytest.raises(InputError, match="other parameters"):
            made(None, booking, **other)
    with pytest.raises(InputError, match="other data"):
        made(None, booking, size=64, table=table(VISITS[:-1]))


def test_a_run_that_died_after_its_noise_goes_on(books: Path) -> None:
    request = SketchRequest.of(table(), "url", size=64)
    booking, noise = Booking(books, "t", "tuesday"), FakeNoise(offset=5)
    with pytest.raises(KeyboardInterrupt), drawing(noise), request.spending.booked(booking) as run:
        died = make_sketch(request, run)
        raise KeyboardInterrupt
    again = made(FakeNoise(offset=6), booking, size=64)
    assert (died.noisy == again.noisy).all()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"column": "nope"}, "no column 'nope'"),
        ({"column": 3}, "name of a column"),
        ({"size": 0}, "size=0"),
        ({"size": 2**25}, "size="),
        ({"size": True}, "size=True"),
        ({"independence": 3}, "independence=3"),
        ({"size": 2**24, "independence": 100}, "steps for each key"),
        ({"noise": "cauchy"}, "noise='cauchy'"),
        ({"keys": ["a", "a"]}, "list of keys"),
        ({"keys": []}, "list of keys"),
        ({"keys": "/home"}, "list of texts"),
        ({"keys": 3}, "list of texts"),
        ({"keys": [1, 2]}, "must be texts"),
        ({"privacy_id": "url"}, "no column 'url'"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"table": pa.table({"url": [0.5]})}, "several spellings"),
        ({"table": pa.table({"url": [[1]]})}, "several spellings"),
        ({"table": pa.table({"url": [b"x"]})}, "url"),
    ],
)
def test_what_is_wrong_by_public_facts_is_refused(asked: dict[str, Any], said: str) -> None:
    given = {"table": table(), "column": "url", **asked}
    with pytest.raises(FmwemError, match=said) as refused:
        public_sketch(given.pop("table"), given.pop("column"), **given)
    assert not getattr(refused.value, "budget_spent", False) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        *((query, "query") for query in ("/home", {"/home": 1.5}, {"/home": float("nan")}, {3: 1.0})),
        *(({"a": True}, "query"), ([3], "query"), (["/jobs"], "not in the sketch's list")),
    ],
    ids=str,
)
def test_a_query_that_is_none_is_refused(query: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        made(size=64, keys=["/home"]).answer(query)
