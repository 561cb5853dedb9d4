"""Discovery: what one person changes in every reading is within its sensitivity, and what is found follows
from noisy answers alone, whoever a person is and whatever one row holds.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fakes import Call, FakeNoise
from support.releases import run
from support.tables import UNITS, as_text, every_unit

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.coarse_grids import coarse_grid
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.grids import CLEAR, CROWDED, MULTIPLES
from factored_mwem.errors import InputError, NothingLearnt
from factored_mwem.mechanisms.first_domain import First
from factored_mwem.pipeline import release as flow
from factored_mwem.privacy import discover as discovery
from factored_mwem.privacy import text_votes
from factored_mwem.privacy.discover import SHIFT, ColumnDiscovery, discover
from factored_mwem.privacy.found_column import FoundColumn
from factored_mwem.privacy.glance import count_rows, glance
from factored_mwem.privacy.popular import with_decimals
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Session
from factored_mwem.privacy.votes import BELIEVED, Votes
from factored_mwem.request.policy import Policy
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.codes.kinds import KINDS, ZEROS, kind_of
from factored_mwem.tables.codes.notation import BESIDE
from factored_mwem.tables.codes.profile import ColumnProfile, profile
from factored_mwem.tables.inputs.contributions import bound_contributions
from factored_mwem.tables.inputs.source import Table, open_table


def found_in(
    table: Any, noise: Any, policy: Policy | None = None, share: Fraction = Fraction(1, 2)
) -> list[FoundColumn]:
    """What `discover` finds at a fixed share of the budget."""
    policy = policy or Policy.of()
    session = Session(Accountant(policy.budget(learn_domain=True)), policy.unit, noise)
    source = open_source(table)
    return discover(session, source, None, lambda rows, columns: share)


# --- what one person changes ---

EPOCH = datetime.datetime(1970, 1, 1)
WHOLE = ("1", "1.0", "2.00", "01", "1e0", "-0", "0", "1e999", "9007199254740993", "9" * 300)
NUMBERS = (*WHOLE, "0.29", ".29", "0.290001")
DATES = (
    "3/14/2020", "14/3/2020", "1/2/20 0:00", "01.02.2020 12:00 AM", "2020/1/1", "1-Jan-2020",
    "20200101", "2020-01-01", "2020-01-01Z", "9999-99-99", "2020-01-01T00:00:00", "2020-01-01T00:00:00+0200",
)  # fmt: skip
AMOUNTS = ("$1", "-$1.00", "($1,000)", "1,000", "1%", "1 %", "1 km", "1,5", "1.000,5", "14:35", "2:35 PM")
TEXTS = [*NUMBERS, *DATES, *AMOUNTS, "nan", "N", "true", " 1", "", None, "N ", "N\x00", "N\x00x"]
HUGE = (1e308, -1e308, math.inf, -math.inf, math.nan, 2.0**53)
FLOATS = [0.0, -0.0, 1.0, 1.5, 0.29, 0.28999999999999998, None, *HUGE]
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), TEXTS),
    "float": (pa.float64(), FLOATS),
    "float32": (pa.float32(), [0.0, -0.0, 0.29, 0.28, 16777217.0, math.inf, math.nan, None]),
    "integer": (pa.int64(), [0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), None]),
    "unsigned": (pa.uint64(), [0, 1, 2**63, 2**64 - 1, None]),
    "moment": (
        pa.timestamp("us"),
        [EPOCH, EPOCH.replace(year=1), EPOCH.replace(year=9999), EPOCH.replace(hour=1), None],
    ),
    "date": (pa.date32(), [EPOCH.date(), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
}
READ_AS = ["string", "integer", "number", "date", "datetime"]


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[str, Unit, list[Any], list[Any]]:
    """(pool, unit, a column, a neighbour of it): everybody else's rows, and one person's or two persons'."""
    name, unit = draw(st.sampled_from(sorted(POOLS))), draw(st.sampled_from(UNITS))
    value, k = st.sampled_from(POOLS[name][1]), unit.contributions
    rest = draw(st.lists(value, max_size=3)) * draw(st.sampled_from([1, 4, 30]))
    one, other = (draw(st.lists(value, max_size=k)) for _ in range(2))
    return name, unit, rest + one, rest + other * (unit.neighbours is Neighbours.REPLACE)


def readings_of(
    name: str, unit: Unit, values: Sequence[Any], kind: str, rho: Fraction
) -> tuple[Any, FakeNoise, Accountant]:
    """The votes, how dates are written, the popular values, the rounding, the zone of moments that are text,
    and two histograms of a column, read as of a `kind`, under noise that keeps the same and says the same
    whatever the table.
    """
    arrow = POOLS[name][0]
    fake = FakeNoise(
        offset=lambda counts, scale: np.arange(len(counts)) * 7919 % 1000,
        kept=lambda counts, scale, threshold: dict.fromkeys(("v1", "v0.29", "v0", "tN"), threshold),
    )
    accountant = Accountant(Budget(1.0, 1e-6, Composition.ZCDP, Fraction(10**9), Fraction(1)))
    session = Session(accountant, unit, fake)
    sealed = Sealed(profile(open_table(pa.table({"x": pa.array(values, arrow)})), ["x"])["x"])
    votes = discovery.read_votes(session, "x", sealed, rho)
    if arrow == pa.string():
        text_votes.read_dates(session, [("x", sealed, votes)], rho)
        text_votes.read_notation(session, "x", sealed, votes, rho)
        text_votes.vote_on_digits(session, "x", sealed, BESIDE.index(("$", "")), rho)
        text_votes.is_rare(session, "x", sealed, 9.0, 100.0, rho)
    glance(session, "x", sealed, 2, rho)
    count_rows(session, "x", sealed, rho)
    decimals = 2 if kind == "number" else None
    found = FoundColumn(pa.field("x", arrow), kind, 100.0, 100.0, decimals=decimals, numbers=99.0)
    formats = {"date": "%m/%d/%Y", "integer": "$0", "number": "0%"} if arrow == pa.string() else {}
    found = dataclasses.replace(found, format=formats.get(kind))
    found = ColumnDiscovery(session, sealed, found).popular(rho, Fraction(1, 10**6))
    if kind != "string":
        found = ColumnDiscovery(session, sealed, found).beside_values(rho)
    return (votes, found), fake, accountant


def broken(ours: Call, theirs: Call, unit: Unit, charged: float) -> bool:
    """Whether two inputs to the noise differ by more than the unit allows or the charge pays for."""
    if ours.method == "threshold":
        assert isinstance(ours.values, dict) and isinstance(theirs.values, dict)
        if ours.listed != theirs.listed:
            return True
        unlisted = [n for call in (ours, theirs) for key, n in call.values.items() if key not in call.listed]
        if min(unlisted, default=1) < 1:
            return True  # a key whose count is 0 is there
        keys = sorted(ours.values | theirs.values)
        change = np.array(
            [ours.values.get(key, 0) - theirs.values.get(key, 0) for key in keys], dtype=np.int64
        )
    else:
        change = np.asarray(ours.values) - np.asarray(theirs.values)
    squared = (change**2).sum()
    return bool(
        np.count_nonzero(change) > unit.l0_of_marginal
        or np.abs(change).max(initial=0) > unit.linf_of_marginal
        or squared > min(unit.l2_squared_of_marginal, charged)
    )


def check_pair(
    name: str, unit: Unit, ours: Sequence[Any], theirs: Sequence[Any], kind: str, rho: Fraction
) -> None:
    """Two neighbours under the same noisy answers find the same, and ask what the charges say."""
    if POOLS[name][0] != pa.string():
        kind = {"float": "number", "float32": "number", "moment": "datetime", "date": "date"}.get(
            name, "integer"
        )
    (votes, found), one, books = readings_of(name, unit, ours, kind, rho)
    (votes2, found2), two, books2 = readings_of(name, unit, theirs, kind, rho)
    assert books.entries == books2.entries and len(one.calls) == len(two.calls) == len(books.entries)
    for a, b, entry in zip(one.calls, two.calls, books.entries, strict=True):
        assert a.scale == b.scale == entry.scale and a.threshold == b.threshold
        assert not broken(a, b, unit, entry.sensitivity), (entry.target, a.values, b.values)
    assert str(votes.noisy) == str(votes2.noisy) and list(found.values.items()) == list(found2.values.items())
    assert found.texts == found2.texts and str(found.edges) == str(found2.edges)
    assert str(found.noisy) == str(found2.noisy) and str(found.coarse) == str(found2.coarse)
    assert found.zone == found2.zone


pairs = given(
    pair=neighbours(), kind=st.sampled_from(READ_AS), rho=st.sampled_from([Fraction(1, 200), Fraction(50)])
)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@settings(max_examples=300, deadline=None)
@pairs
def test_one_person_changes_every_reading_by_its_sensitivity_at_most(
    pair: tuple[str, Unit, list[Any], list[Any]], kind: str, rho: Fraction
) -> None:
    """Brute force over neighbours of all units, with values that are hard to tell apart: one row has one
    vote, one key at most, one cell at most, and k rows move a shifted count by no more than k.
    """
    check_pair(*pair, kind, rho)


def _own_popular(honest: Callable[..., Any]) -> Callable[..., Any]:
    def histogram(self: ColumnProfile, of: Any, unit: str, scale: float, edges: Any, special: Any) -> Any:
        units, counts = self.numbers(of, unit, scale)
        return honest(self, of, unit, scale, edges, units[counts > 4])

    return histogram


def _every_multiple(honest: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *rest: honest(self, *rest)[::-1].cumsum()[::-1]


Honest = Callable[..., Any]
PLANTED: dict[str, tuple[str, Callable[[Honest], Honest]]] = {
    "a whole number with zeros behind a point votes twice": (
        "spelt_votes",
        lambda honest: lambda self: np.concatenate([self.votes(), honest(self)[len(KINDS) :]]),
    ),
    "a shift that follows the largest count": (
        "popular",
        lambda honest: lambda self, *rest: honest(self, *rest[:-1], int(self.counts.max(initial=0)) // 2),
    ),
    "whole counts from the shift on: one row more brings as many as the shift": (
        "popular",
        lambda honest: lambda self, *rest: {key: n + rest[-1] for key, n in honest(self, *rest).items()},
    ),
    "what is popular in the table, not in the noisy answers, is left out of the cells": (
        "histogram",
        _own_popular,
    ),
    "a number counts at every multiple that divides it": ("multiples", _every_multiple),
    "a number counts as a text, too": (
        "texts",
        lambda honest: lambda self, without, *rest: honest(self, (), *rest),
    ),
    "rows that need decimals count under their number, too": (
        "popular",
        lambda honest: lambda self, of, *rest: honest(self, discovery.NUMBERS, *rest),
    ),
    "a date counts in both orders that it may have": (
        "date_votes",
        lambda honest: lambda self: honest(self) + np.roll(honest(self), 1),
    ),
    "a number counts with a sign and without": (
        "beside_votes",
        lambda honest: lambda self: honest(self) + np.roll(honest(self), 1),
    ),
    "a number counts as grouped and as plain": (
        "digit_votes",
        lambda honest: lambda self, beside: honest(self, beside) + np.roll(honest(self, beside), 8),
    ),
    "all rows of a text count once it is shared": (
        "beyond",
        lambda honest: lambda self, most: np.array([self.counts[self.counts > most + 6].sum()]),
    ),
    "all rows of a text are told once one is": (
        "told",
        lambda honest: lambda self, rare: honest(self, 0 if self.counts.max(initial=0) > 8 else rare),
    ),
    "all rows count twice where they are counted alone": (
        "told",
        lambda honest: lambda self, rare: honest(self, rare) * (1 + (rare == 0)),
    ),
    "a zone counts for all rows that say it, whoever they are": (
        "zones",
        lambda honest: lambda self: honest(self) * len(self.values),
    ),
}
MANY = [0] * 40 + [-1] * 40
ONE = Unit(Neighbours.ADD_REMOVE, 1)
SEEN = [
    ("integer", ONE, [1] * 44 + MANY, [1] * 43 + MANY, "integer", Fraction(1, 200)),
    ("integer", ONE, [-1] * 5, [-1] * 4, "integer", Fraction(50)),
    ("integer", ONE, [1] * 3, [1] * 2, "integer", Fraction(1, 200)),
    ("text", ONE, ["1"] * 9, ["1"] * 8, "integer", Fraction(50)),
    ("text", ONE, ["1"] * 9 + ["0.29"] * 9, ["1"] * 9 + ["0.29"] * 8, "integer", Fraction(50)),
    ("text", ONE, ["1/2/2020"] * 9, ["1/2/2020"] * 8, "date", Fraction(50)),
    ("text", ONE, ["$1"] * 9, ["$1"] * 8, "integer", Fraction(50)),
    ("text", ONE, ["N"] * 9, ["N"] * 8, "string", Fraction(50)),
    ("text", ONE, ["1.0"] * 9, ["1.0"] * 8, "number", Fraction(50)),
    ("integer", ONE, [40] * 9, [40] * 8, "integer", Fraction(50)),
    ("text", ONE, ["2020-01-01Z", "N"] * 9, ["2020-01-01Z", "N"] * 8 + ["N"], "datetime", Fraction(50)),
]


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_the_brute_force_sees_planted_bugs(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for pair in SEEN:
        check_pair(*pair)
    method, planted = PLANTED[bug]
    monkeypatch.setattr(ColumnProfile, method, planted(getattr(ColumnProfile, method)))
    with pytest.raises(AssertionError):
        for pair in SEEN:
            check_pair(*pair)


@pytest.mark.parametrize("part", ["l2_squared_of_marginal", "l0_of_marginal", "linf_of_marginal"])
@every_unit
def test_the_brute_force_sees_a_person_of_k_rows(part: str, unit: Unit) -> None:
    """As far as the unit allows is reached, so a unit that counted less would be seen."""
    k, swap = unit.contributions, unit.neighbours is Neighbours.REPLACE
    together, apart = ["1"] * 9 + ["N"] * k, ["1"] * 9 + ["0"] * (k * swap)
    spread = ["a", "b"][:k], ["c", "d"][: k * swap]
    smaller = Unit(unit.neighbours, 1) if k > 1 else Unit(Neighbours.ADD_REMOVE, 1)
    if smaller != unit and (k > 1 or part != "linf_of_marginal"):
        ours, theirs = spread if part == "l0_of_marginal" else (together, apart)
        check_pair("text", unit, ours, theirs, "string", Fraction(50))
        with pytest.raises(AssertionError):
            check_pair("text", smaller, ours, theirs, "string", Fraction(50))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(st.sampled_from(POOLS["text"][1]), max_size=12),
    cuts=st.sets(st.integers(0, 12)),
    seed=st.randoms(),
)
def test_a_profile_depends_on_no_order_and_no_batches(values: list[Any], cuts: set[int], seed: Any) -> None:
    """The same rows in another order, in other batches, with dictionaries or without: the same counts."""
    counts = [counts_of(pa.chunked_array([pa.array(values, pa.string())]))]
    seed.shuffle(values)
    ends = sorted({0, len(values), *(cut for cut in cuts if cut < len(values))})
    parts = [pa.array(values[a:b], pa.string()) for a, b in itertools.pairwise(ends)]
    counts.append(counts_of(pa.chunked_array(parts, pa.string())))
    encoded = [part.dictionary_encode() for part in parts]
    counts.append(counts_of(pa.chunked_array(encoded, pa.dictionary(pa.int32(), pa.string()))))
    assert counts[0] == counts[1] == counts[2]


def counts_of(column: pa.ChunkedArray) -> Any:
    found = profile(open_table(pa.table({"x": column})), ["x"])["x"]
    numbers = found.popular(("integer", "number", "2 decimals"), "integer", 100.0, 0)
    return found.votes().tolist(), found.texts(()), numbers


@pytest.mark.parametrize("value", [datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2), Decimal("2.50")])
def test_a_dictionary_of_any_type_is_profiled_as_its_values(value: Any) -> None:
    """`pa.array([], kind)` knows dictionaries of few types, and raised ArrowNotImplementedError."""
    plain = pa.array([value, value, None])
    one, other = (
        profile(open_table(pa.table({"x": c})), ["x"])["x"] for c in (plain, plain.dictionary_encode())
    )
    assert one.votes().tolist() == other.votes().tolist()
    assert one.keys()[0] == other.keys()[0] and one.keys()[1].tolist() == [2]


# --- thresholds ---


def test_the_threshold_is_on_what_is_left_above_the_shift() -> None:
    """Counts that the noise sees are less by the shift, those that are found have it again; the threshold is
    the one whose delta is charged, so a value needs as many rows more.
    """
    seen: dict[str, int] = {}
    for more in (-1, 0):
        fake = FakeNoise()
        (first,) = found_in(pa.table({"x": ["red"] * 5000 + ["blue"] * 5}), fake)
        enough = first.threshold + more
        fake = FakeNoise()
        rows = pa.table({"x": ["red"] * enough + [f"u{i}" for i in range(enough)]})
        (found,) = found_in(rows, fake)
        (call,) = [c for c in fake.calls if c.method == "threshold"]
        least = int(call.scale / SHIFT)
        assert least > 1 and isinstance(call.values, dict) and call.threshold is not None
        assert call.values == {"tred": enough - least} and found.threshold == call.threshold + least
        assert call.threshold > 1 + 5 * call.scale
        seen |= found.texts
        assert ("red" in found.texts) is (more == 0)
    assert seen == {"red": enough}


@every_unit
def test_the_threshold_pays_for_the_whole_unit(unit: Unit) -> None:
    """A person may hold 2 k values of nobody else, k rows in one: l0 or linf of 1 understates delta."""
    policy = Policy.of(neighbours=unit.neighbours, contributions=unit.contributions)
    fake, ledger = FakeNoise(), Accountant(policy.budget(learn_domain=True))
    table = pa.table({"c": ["x"] * 500, "n": [1, 2] * 250})
    discover(Session(ledger, unit, fake), open_source(table), None, lambda rows, columns: Fraction(1, 2))
    calls = [c for c in fake.calls if c.method == "threshold"]
    k, people = unit.contributions, 2 if unit.neighbours is Neighbours.REPLACE else 1
    tails = [0.5 * math.erfc((c.threshold - k - 1) / (c.scale * math.sqrt(2))) for c in calls if c.threshold]
    assert len(tails) == 2
    assert ledger.budget.discovery_delta >= ledger.spent_delta >= people * k * sum(tails) > 0


def test_the_cost_is_the_share_at_most() -> None:
    """Whatever the columns are taken for."""
    table = {"c": ["x", "y"] * 250, "n": [1, 2] * 250, "b": [True, False] * 250, "f": [0.5, 1.25] * 250}
    for share in (Fraction(1, 100), Fraction(1, 2)):
        policy = Policy.of()
        ledger = Accountant(policy.budget(learn_domain=True))
        session = Session(ledger, policy.unit, FakeNoise())
        discover(session, open_source(pa.table(table)), None, lambda rows, columns, share=share: share)
        assert share / 4 < ledger.spent / ledger.budget.amount <= share


def looks_of_cells(values: Sequence[Any], rho: Fraction) -> tuple[FoundColumn, list[tuple[str, Fraction]]]:
    """The cells of a column of whole numbers without noise, and what each look at them was charged."""
    accountant = Accountant(Budget(1.0, 1e-6, Composition.ZCDP, Fraction(10**9), Fraction(1)))
    session = Session(accountant, ONE, FakeNoise())
    sealed = Sealed(profile(open_table(pa.table({"x": pa.array(values, pa.int64())})), ["x"])["x"])
    start = FoundColumn(pa.field("x", pa.int64()), "integer", 9.0, 9.0, numbers=9.0)
    found = ColumnDiscovery(session, sealed, start).cells(rho, rho)
    return found, [(entry.target[-1], entry.cost) for entry in accountant.entries]


@pytest.mark.parametrize("width", [10**3, 10**6, 10**9, 10**13])
def test_looks_that_go_closer_cost_no_more_than_one(width: int) -> None:
    """However narrow what lies in a cell is, and so however many looks there are."""
    values = [36 * 10**13 + width * i // 3000 for i in range(3000)]
    rho = Fraction(1, 10)
    _, charged = looks_of_cells(values, rho)
    names = [name for name, _ in charged]
    assert names == ["range", *["closer"] * (len(names) - 2), "detail"]
    assert 1 <= names.count("closer") <= discovery.CLOSEST
    costs = [cost for _, cost in charged]
    assert Fraction(99, 100) * rho < sum(costs[1:]) <= rho and costs[0] <= rho


@pytest.mark.parametrize(("others", "part"), [(0, discovery.GLANCE), (100, discovery.GLANCE), (2000, 1)])
def test_a_column_whose_popular_values_are_all_there_is_gets_a_glance(others: int, part: Fraction) -> None:
    """What the first look at its cells costs follows from noisy answers: the votes and the values' counts."""
    accountant = Accountant(Budget(1.0, 1e-6, Composition.ZCDP, Fraction(10**9), Fraction(1)))
    session, rho = Session(accountant, ONE, FakeNoise()), Fraction(1, 10)
    values = [0, 1] * 10_000 + [5 + i % 90 for i in range(others)]
    sealed = Sealed(profile(open_table(pa.table({"x": pa.array(values, pa.int64())})), ["x"])["x"])
    known = {0.0: 10_000, 1.0: 10_000}
    start = FoundColumn(pa.field("x", pa.int64()), "integer", 2e4, 2e4, values=known, stddev=50.0)
    start = dataclasses.replace(start, numbers=len(values), vote_stddev=100.0)
    found = ColumnDiscovery(session, sealed, start).beside_values(rho)
    costs = {entry.target[-1]: float(entry.cost / rho) for entry in accountant.entries}
    assert costs["range"] == pytest.approx(float((discovery.RANGE - discovery.ROUNDING) * part), rel=1e-3)
    assert costs["multiples"] == pytest.approx(float(discovery.ROUNDING * part), rel=1e-3)
    assert (found.edges is not None) == (others > 0)  # a glance sees what is there, too


@pytest.mark.parametrize("stddev", [0.0, 600.0])
def test_no_glance_is_enough_where_nothing_was_found_or_noise_may_hide_much(stddev: float) -> None:
    facts = {"numbers": 20_000.0, "vote_stddev": stddev}
    start = FoundColumn(pa.field("x", pa.int64()), "integer", 20_000.0, 20_000.0, **facts)
    assert not start.all_popular
    assert not dataclasses.replace(start, values={0.0: 19_990}).all_popular


# --- what is found ---


def test_numbers_in_narrow_clusters_are_told_apart() -> None:
    """Codes of places: five clusters, each a hundred-thousandth as wide as the numbers are large."""
    prefixes = [36005, 36047, 36061, 36081, 36085]
    values = [prefix * 10**10 + i * 10**6 for prefix in prefixes for i in range(1000)]
    found, charged = looks_of_cells(values, Fraction(1, 10))
    assert found.edges is not None and found.noisy is not None and charged[1][0] == "closer"
    widths = np.diff(found.edges)[found.noisy > 0]
    assert found.noisy.max() <= CROWDED * len(values) and widths.max() < 10**9
    assert found.noisy.sum() == len(values)


def test_values_of_numbers_and_texts_are_found_and_the_rest_in_cells() -> None:
    """Without noise spikes are values, a sentinel is a text, and cells hold no row of a popular value."""
    rng = np.random.default_rng(3)
    numbers = rng.permutation(np.concatenate([np.full(4000, 40), rng.integers(100, 9000, 6000)])).astype(str)
    column = numbers.tolist() + ["N"] * 3000
    fake = FakeNoise()
    (found,) = found_in(pa.table({"x": column}), fake)
    assert found.type == "integer" and found.values == {40.0: 4000} and found.texts == {"N": 3000}
    assert found.noisy is not None and 5500 < found.noisy.sum() <= 6000
    multiples, grid, *_, fine = [c.values for c in fake.calls if c.method == "add"][1:]
    assert isinstance(multiples, np.ndarray) and multiples.sum() == 6000 and found.multiple_of == 1
    assert isinstance(grid, np.ndarray) and isinstance(fine, np.ndarray)
    assert len(grid) == len(coarse_grid("integer")) - 1 and grid.sum() == fine.sum() == 6000


def mostly_whole(tmp_path: Path, decimals: Sequence[str], rows: int) -> tuple[Path, list[str]]:
    """A CSV of thirteen columns of whole numbers; in `rows` of 20,000 the first has one of `decimals`."""
    whole = [str(i % 9) for i in range(20_000)]
    some = [decimals[i % len(decimals)] if i < rows else text for i, text in enumerate(whole)]
    path, names = tmp_path / "t.csv", ["some", *(f"c{i}" for i in range(12))]
    path.write_text(
        "\n".join([",".join(names), *(f"{x}" + f",{y}" * 12 for x, y in zip(some, whole, strict=True))])
    )
    return path, names


@pytest.mark.slow
@pytest.mark.parametrize("decimals", [["2.25"], [f"{i}.{i % 90 + 10}" for i in range(9)]])
def test_decimals_among_whole_numbers_make_a_column_of_numbers(tmp_path: Path, decimals: list[str]) -> None:
    """One row in 25 has some: too few for votes, whether one value has them or nine that are not popular.
    Seen to fail: where only popular values were looked at.
    """
    path, names = mostly_whole(tmp_path, decimals, 800)
    made = run(path, Policy.of(epsilon=1.0, delta=1e-9), FakeNoise(), domain=None)
    assert [made.domain[name].type for name in names] == ["number", *["integer"] * 12]
    released = made.to_arrow().column("some").to_numpy()
    assert (released % 1 != 0).mean() == pytest.approx(0.04, abs=0.01)
    if len(decimals) == 1:
        assert set(released) <= {2.25, *range(9)}
    else:
        assert made.domain["some"].decimals == 2


def test_decimals_that_were_not_seen_are_said(tmp_path: Path) -> None:
    """Where a few rows may hold some a warning names the column; a note says how many are never seen."""
    path, _ = mostly_whole(tmp_path, ["0.5"], 350)
    made = run(path, Policy.of(epsilon=1.0, delta=1e-9), FakeNoise(), domain=None)
    assert made.domain["some"].type == "integer"
    (warning,) = [text for text in made.manifest.warnings if "decimals" in text]
    assert warning.startswith("'some' was learnt as whole numbers, but about 350 of its values")
    (note,) = [text for text in made.manifest.notes if "decimals" in text]
    assert 350 < int(note.split()[5].replace(",", "")) < 800


@pytest.mark.parametrize(
    ("counts", "decimals"),
    [
        ((0, 0), None),
        ((449, 0), None),
        ((0, 330), None),
        ((451, 0), 2),
        ((0, 451), 6),
        ((330, 330), 6),
        ((-800, 451), 6),
    ],
)
def test_noise_alone_makes_no_decimals(counts: tuple[int, int], decimals: int | None) -> None:
    """Each key alone, or both together, must stand out; what is finest decides."""
    whole = FoundColumn(pa.field("x", pa.string()), "integer", 9.0, 9.0, values={3.0: 50, 2.0**52: 9})
    found = with_decimals(whole, counts, 100.0)
    assert found.decimals == decimals and found.type == ("integer" if decimals is None else "number")
    scale = 10 ** (decimals or 0)
    assert found.values == ({3.0 * scale: 50} if decimals else whole.values)
    assert (found.rounded, found.rounded_stddev) == (
        (counts[0], pytest.approx(141.4, abs=0.1)) if decimals is None else (0, 0)
    )


def test_what_whole_numbers_are_rounded_to_is_found() -> None:
    """Of what is not popular: 40, which is no hundred, does not count. Counts by an oracle of its own."""
    rng = np.random.default_rng(3)
    hundreds = rng.integers(1, 900, 6000) * 100
    odd = rng.integers(1, 90_000, 200)
    numbers = np.concatenate([np.full(4000, 40), hundreds, odd])
    fake = FakeNoise()
    (found,) = found_in(pa.table({"x": numbers}), fake)
    assert found.values == {40.0: 4000} and found.multiple_of == 100
    counts = [c.values for c in fake.calls if c.method == "add"][1]
    expected = dict.fromkeys(MULTIPLES, 0)
    for number in [*hundreds.tolist(), *odd.tolist()]:
        expected[max(m for m in MULTIPLES if number % m == 0)] += number != 40
    assert isinstance(counts, np.ndarray) and counts.tolist() == list(expected.values())
    assert found.edges is not None and (found.edges % 100 == 0).mean() > 0.9


def unreadable(schema: pa.Schema, *, text: bool = True) -> Table:
    def read(columns: Any) -> Any:
        raise AssertionError("a row was read")

    return Table(schema, text, read)


def test_pure_dp_without_a_domain_is_refused_and_nothing_is_read() -> None:
    table = unreadable(pa.schema([("a", pa.string()), ("b", pa.string())]))
    fake = FakeNoise(Composition.PURE)
    with pytest.raises(InputError, match=r"--delta is 0.*fmwem domain draft") as caught:
        run(table, Policy.of(delta=0.0), fake, domain=None)
    assert not fake.calls and not caught.value.budget_spent


def test_other_refusals_come_before_the_first_row_too() -> None:
    table = unreadable(
        pa.schema([("a", pa.string()), ("b", pa.list_(pa.int8())), ("c", pa.string())]), text=False
    )
    policy = Policy.of()
    session = Session(Accountant(policy.budget(learn_domain=True)), policy.unit, FakeNoise())
    with pytest.raises(InputError, match="no columns"):
        discover(session, table, [], lambda rows, columns: Fraction(1, 2))
    for columns, message in ((["a", "c", "nope"], "no column 'nope'"), (["a", "b"], "cannot release")):
        with pytest.raises(InputError, match=message):
            run(table, Policy.of(), FakeNoise(), domain=None, columns=columns)


@pytest.mark.parametrize(
    ("arrow", "value", "limits"),
    [
        (pa.uint8(), 255, (0, 255)),
        (pa.int8(), 127, (-128, 127)),
        (pa.int8(), -128, (-128, 127)),
        (pa.uint16(), 65535, (0, 65535)),
    ],
    ids=str,
)
def test_learnt_bounds_stay_inside_the_columns_type(
    arrow: pa.DataType, value: int, limits: tuple[int, int]
) -> None:
    """A grid's edge beyond the type would end the release after its budget was spent."""
    rng = np.random.default_rng(1)
    for values in ([value] * 3000, rng.integers(limits[0], limits[1], 3000, endpoint=True)):
        table = pa.table({"x": pa.array(values, arrow), "y": pa.array(values, arrow)})
        release = flow.release(table, 1, Policy.of(epsilon=3.0, delta=1e-6))
        known = release.domain["x"]
        bounds = [known.cuts[0], known.cuts[-1] - 1] if len(known.cuts) > 1 else []
        units = known.units if known.categorical else np.concatenate([bounds, known.specials])
        assert limits[0] <= units.min() and units.max() <= limits[1]
        assert release.to_arrow().schema.field("x").type == arrow


TYPED = [
    pa.array(np.array([math.nan, math.inf, -math.inf, -0.0, 1e308, 5e-324] * 5)),
    pa.array(np.array([math.nan, math.inf, -0.0, 65504] * 5, dtype=np.float16)),
    pa.array([2**63 - 1, -(2**63), 2**53 + 1, None] * 5, pa.int64()),
    pa.array([2**64 - 1, 0, None, 1] * 5, pa.uint64()),
    pa.array([2**63 - 1, -(2**63) + 1, None, 0] * 5, pa.timestamp("us")),
    pa.array([2**62, -(2**62), None, 0] * 5, pa.timestamp("s")),
    pa.array([2**62, -(2**62), None, 0] * 5, pa.timestamp("ns", "UTC")),
    pa.array([2**31 - 1, -(2**31), None, 0] * 5, pa.int32()).cast(pa.date32()),
]


@pytest.mark.parametrize("column", TYPED, ids=lambda column: str(column.type))
@pytest.mark.parametrize("high", [0, 50, 10**6])
def test_no_value_of_a_typed_column_ends_a_release(
    column: pa.Array, high: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether discovery believes in anything (`high` counts everywhere) or not, in one batch or two. Seen to
    fail after the budget was spent: a column of integers, none of which stood out, was taken for text.
    """
    monkeypatch.setattr("factored_mwem.mechanisms.worth.rows_for_a_text", lambda *_: 0.0)
    known = pa.array([True] * len(column))
    for parts in ([column], [column[:3], column[3:]]):
        table = pa.table({"x": pa.chunked_array(parts), "known": known})
        fake = FakeNoise(offset=high, kept=lambda counts, scale, threshold: dict.fromkeys(counts, threshold))
        try:
            assert run(table, Policy.of(rounds=1), fake, domain=None).rows >= 0
        except NothingLearnt:
            assert high < 10**6


def test_half_floats_that_cannot_be_counted_are_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an older pyarrow; it was a traceback."""
    monkeypatch.setattr("pyarrow.__version__", "25.0.0")
    field = pa.field("x", pa.float16())
    with pytest.raises(InputError, match=r"halffloat, which pyarrow 25\.0\.0 cannot count; "):
        kind_of(field)
    assert kind_of(field.with_type(pa.float32())) == "number"


ODD_NUMBERS = ("1e999", "-1e999", "9" * 300, "1" * 18, "9007199254740993", "nan", "inf", "0x10", "1_0")
ODD_DATES = ("9999-99-99", "2020-02-31", "2020-01-01Z", "9999-12-31T99:99:99")
ODD_TEXTS = ("\x00", "true ", "\u0661\u0662", "\U0001f600", '"', "NULL")
HOSTILE = [*ODD_NUMBERS, "+", "-0", *ODD_DATES, *ODD_TEXTS, "9999-12-31 23:59:59.999999999+99:99"]


@pytest.mark.slow
def test_no_value_of_one_row_decides_whether_the_release_succeeds() -> None:
    """Hostile text in every column, with declared and learnt domains, alone among good rows or not."""
    base = pa.table({c: ["1", "2.5", "2001-01-01", "true"] * 5 for c in "abcd"})
    kinds = zip("abcd", ("integer", "number", "date", "datetime"), strict=True)
    numbers, days = {"minimum": 0, "maximum": 9}, {"minimum": "2000-01-01", "maximum": "2010-01-01"}
    fields = [{"name": n, "type": t, "constraints": numbers if n in "ab" else days} for n, t in kinds]
    declared = Domain.from_dict({"fields": fields})
    for values in (HOSTILE, HOSTILE[:1], ["9999-12-31T99:99:99"]):
        rows = pa.concat_tables([base, pa.table(dict.fromkeys("abcd", values))])
        table = Table(
            rows.schema, True, lambda columns, rows=rows: iter(rows.select(list(columns)).to_batches())
        )
        for domain in (declared, None):
            assert run(table, Policy.of(rounds=1, epsilon=1000.0), FakeNoise(), domain=domain).rows >= 0


# --- people: whose rows are kept ---


def _person_pairs(k: int) -> Iterator[tuple[list[tuple[str, int]], list[tuple[str, int]]]]:
    """Tables of (person, row value) with and without one person, whose rows are mixed among the others'."""
    others = [("p", 0), ("q", 1), ("p", 2), ("p", 3), ("q", 4)]
    for rows in range(1, k + 4):
        for places in itertools.combinations(range(len(others) + rows), rows):
            table: list[tuple[str, int]] = []
            rest = iter(others)
            for i in range(len(others) + rows):
                table.append(("victim", 100 + i) if i in places else next(rest))
            yield table, others


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_person_moves_at_most_k_rows_whatever_the_order(k: int, encoded: bool) -> None:
    """All interleavings: with and without one person, kept rows differ by k rows of that person alone."""

    def kept(table: list[tuple[str, int]]) -> list[int]:
        people = pa.array([p for p, _ in table])
        source = pa.table(
            {"id": people.dictionary_encode() if encoded else people, "v": [v for _, v in table]}
        )
        bounded = bound_contributions(open_table(source), "id", k)
        return [v for batch in bounded.batches(["v"]) for v in batch.column(0).to_pylist()]

    for number, (with_person, without) in enumerate(_person_pairs(k)):
        if number % 5 == 0:
            more, fewer = kept(with_person), kept(without)
            assert [v for v in more if v < 100] == fewer
            assert len(more) - len(fewer) <= k


# --- noise alone ---


def offset_at(
    where: Callable[[np.ndarray], np.ndarray], sigmas: float
) -> Callable[[np.ndarray, float], np.ndarray]:
    """Noise that lifts the cells `where` by so many standard deviations, and no others."""
    return lambda values, scale: values + where(values) * math.ceil(sigmas * scale)


@pytest.mark.parametrize(("sigmas", "believed"), [(CLEAR - 0.7, False), (CLEAR + 0.7, True)])
def test_noise_alone_makes_no_range(sigmas: float, believed: bool) -> None:
    """One of some hundred empty cells: bounds of 10^18 would make a column of ratings useless."""
    grid = len(coarse_grid("integer")) - 1
    fake = FakeNoise(offset=offset_at(lambda v: (np.arange(len(v)) == len(v) - 1) & (len(v) == grid), sigmas))
    (found,) = found_in(pa.table({"c": [1.5, 2.5, 3.5, 9.5] * 5000}), fake, Policy.of(epsilon=5.0))
    assert (found.edges is not None and bool(found.edges[-1] > 1e6)) is believed


@pytest.mark.parametrize(("sigmas", "believed"), [(BELIEVED - 0.5, False), (BELIEVED + 0.5, True)])
def test_noise_alone_makes_no_codes(sigmas: float, believed: bool) -> None:
    """A column of numbers must not become text because noise on a vote that nobody gave was unlucky."""
    at = KINDS.index("code")
    size = len(KINDS) + ZEROS
    fake = FakeNoise(offset=offset_at(lambda v: (np.arange(len(v)) == at) & (len(v) == size), sigmas))
    (found,) = found_in(as_text(pa.table({"c": [1, 2, 3] * 5000})), fake, Policy.of(epsilon=5.0))
    assert (found.type == "string") is believed


def test_where_nothing_is_believed_no_digits_and_no_resolution_are() -> None:
    """Seen to fail: a small column of floats was written in whole numbers, one of timestamps in days."""
    few = FakeNoise(offset=lambda values, scale: np.zeros(len(values), np.int64))
    for values in ([1.5, 2.25], [EPOCH, EPOCH.replace(hour=3)]):
        (found,) = found_in(pa.table({"c": values}), few)
        assert found.decimals is None and found.resolution is None


def test_a_single_precision_number_has_its_own_digits() -> None:
    """The float32 nearest to 0.29, times 100, is no 29; it was counted as 0.28."""
    column = pa.array(np.array([0.29, 0.57, 1.01] * 2000, dtype=np.float32))
    (found,) = found_in(pa.table({"c": column}), FakeNoise())
    assert found.decimals == 2 and found.values == {29.0: 2000, 57.0: 2000, 101.0: 2000}


def test_single_precision_numbers_of_all_digits_keep_their_span() -> None:
    """Seen to fail: every float32 is one of six decimals, so values near 50 were all clipped to 10."""
    column = pa.array(np.random.default_rng(1).normal(50, 9, 9000).astype(np.float32))
    (found,) = found_in(pa.table({"c": column}), FakeNoise(), Policy.of(epsilon=20.0))
    edges = First.of(found).edges
    assert found.decimals is None and edges[0] < 20 and edges[-1] > 80 and len(edges) > 30


def test_where_neither_look_says_where_values_lie_none_is_made_up() -> None:
    """Seen to fail: ten cells of two deviations each, and no finer cell that shows anything, were a column
    from end to end.
    """
    grid = coarse_grid("integer")
    begin = int(np.searchsorted(grid, 1000)) // 30 * 30 + 10

    def noisy(values: np.ndarray, scale: float) -> np.ndarray:
        if len(values) != len(grid) - 1:
            return values
        counts = np.zeros(len(values), dtype=np.int64)
        counts[begin : begin + 10] = int(2 * scale)
        return counts

    (found,) = found_in(pa.table({"c": [0] * 9000 + [1]}), FakeNoise(offset=noisy), Policy.of(epsilon=1.0))
    assert found.coarse is not None and found.coarse.max() > 0 and found.edges is None


def test_what_text_looks_like_is_said_where_votes_are_believed() -> None:
    """Seen to fail: of a column that was missing nearly everywhere nobody said that noise hides its type."""

    def looks(**votes: int) -> tuple[str, str]:
        seen = Votes(np.array([votes.get(kind, 0) for kind in KINDS], dtype=np.float64), 10.0)
        return seen.type(), seen.looks()

    assert looks(null=900, integer=40) == ("string", "untold")
    assert looks(null=900, integer=60) == ("integer", "")  # the few that there are tell
    assert looks(clock=600, string=300) == ("string", "clock")
    assert looks(dated=600, null=900) == ("string", "dated")
    assert looks(clock=300, string=600) == looks(string=600) == looks(code=600) == ("string", "")
    assert looks(integer=900, dated=20) == ("integer", "")
