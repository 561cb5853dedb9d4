"""People: whatever one person's rows are, and however many, no count moves by more than one person is charged
for; and nobody else's rows are used otherwise for it.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.asked import request_of
from support.fakes import FakeNoise
from support.model_files import parts_of, write

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import MOST_ROWS, Neighbours, Unit, grains_of, size_classes
from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.errors import InputError
from factored_mwem.mechanisms.plan import rows_of_person
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.dense import ProductModel
from factored_mwem.pipeline.people import MadeUpIds, RowCounts, sloping
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.privacy.counts import CandidateTables, PrivateRows
from factored_mwem.privacy.discover import discover
from factored_mwem.privacy.distances import (
    ColumnDistances,
    MeanDistance,
    OneDistance,
    PrivateErrors,
    Reference,
)
from factored_mwem.privacy.people import (
    BY_NOISE,
    CAPS,
    CONSTANCY_SHARE,
    MOST_TIMES,
    PrivateConstancy,
    PrivateSizes,
    _sizes,
    averaged,
    constant_columns,
    last_seen,
    most_rows,
    rows_of_roots,
)
from factored_mwem.privacy.rows import SCORE_GRID, Rows
from factored_mwem.privacy.session import Session, noise_for
from factored_mwem.request.policy import Policy
from factored_mwem.tables.backends.codes import Codes
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.people import People, WeightedCodes
from factored_mwem.tables.backends.source import IN_MEMORY, Source
from factored_mwem.tables.codes.rest import WEIGHT, Known
from factored_mwem.tables.inputs.people import rows_of_people
from factored_mwem.workload.workload import Workload

MOST = 3
Row = tuple[Any, int, int]
"""Of a person, `a` of 2 codes and `b` of 3."""
CELLS = list(itertools.product(range(2), range(3)))
OTHERS: list[Row] = [("x", 0, 0), ("x", 1, 2), ("y", 0, 1), ("x", 1, 1), ("x", 0, 2), ("x", 0, 1)]
"""Rows of people who are in both of two neighbours; x has more than are used."""
TINY = Domain.from_dict(
    {
        "fields": [
            {"name": "a", "type": "integer", "categories": [0, 1], "constraints": {"required": True}},
            {"name": "b", "type": "integer", "categories": [0, 1, 2], "constraints": {"required": True}},
            {
                "name": ROWS_OF_PERSON,
                "type": "integer",
                "categories": list(range(1, MOST + 1)),
                "constraints": {"required": True},
            },
        ]
    }
)
VIEWS = [view for k in (1, 2, 3) for view in itertools.combinations(range(3), k)]


def unit_of(neighbours: Neighbours = Neighbours.ADD_REMOVE, most: int = MOST) -> Unit:
    return Unit(neighbours, most, by_id=True, grains=grains_of(most))


def source_of(rows: Sequence[Row]) -> Source:
    ids, a, b = zip(*rows, strict=True) if rows else ((), (), ())
    made = {"who": pa.array(ids, pa.string()), "a": pa.array(a, pa.int64()), "b": pa.array(b, pa.int64())}
    return open_source(pa.table(made))


def counted(rows: Sequence[Row], unit: Unit) -> list[np.ndarray]:
    """Every marginal of the weighted rows, in grains."""
    people = source_of(rows).people("who", MOST, unit.row_weight)
    exact = Rows(people.encoded(TINY, IN_MEMORY), Levels.fine(TINY.shape))
    return [exact.marginal(view) for view in VIEWS]


def persons() -> Iterator[list[Row]]:
    """A person with every multiset of up to MOST + 1 rows, one of which is then left out."""
    for number in range(1, MOST + 2):
        for cells in itertools.combinations_with_replacement(CELLS, number):
            yield [("z", a, b) for a, b in cells]


NORMS: dict[str, Callable[[np.ndarray], int]] = {
    "l1_of_marginal": lambda change: int(np.abs(change).sum()),
    "l2_squared_of_marginal": lambda change: int((change**2).sum()),
    "linf_of_marginal": lambda change: int(np.abs(change).max()),
    "l0_of_marginal": lambda change: int((change != 0).sum()),
}


def moved(unit: Unit, some: int = 1) -> dict[str, int]:
    """By norm the greatest of what a person more changes in any marginal, over all that they may be, or over
    every so many of these.
    """
    before, greatest = counted(OTHERS, unit), dict.fromkeys(NORMS, 0)
    for person in itertools.islice(persons(), 0, None, some):
        for after, was in zip(counted([*OTHERS, *person], unit), before, strict=True):
            greatest = {name: max(most, NORMS[name](after - was)) for name, most in greatest.items()}
    return greatest


@pytest.mark.slow
def test_a_person_more_moves_every_marginal_by_exactly_what_is_charged() -> None:
    unit = unit_of()
    assert moved(unit) == {name: getattr(unit, name) for name in NORMS}


def test_a_planted_weight_that_forgets_how_many_rows_there_are_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Unit, "row_weight", lambda self, rows: self.grains)
    unit = unit_of()
    assert moved(unit, 5)["l1_of_marginal"] == MOST * unit.l1_of_marginal


@pytest.mark.slow
def test_a_planted_rule_that_uses_all_rows_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from factored_mwem.tables.inputs import people

    def all_of_them(ids: pa.Array, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        person, used, number = drawn(ids, most)
        return person, np.ones(len(used), dtype=bool), np.maximum(number, 1)

    drawn = people._drawn
    monkeypatch.setattr(people, "_drawn", all_of_them)
    unit = unit_of()
    assert moved(unit, 5)["l1_of_marginal"] > unit.l1_of_marginal


@pytest.mark.slow
def test_a_planted_rank_that_depends_on_other_people_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who else is there decides which rows of x are used: they move beside those of the person who came."""
    from factored_mwem.tables.inputs import people

    def of_all(ids: pa.Array) -> np.ndarray:
        return np.full(len(ids), len(ids), dtype=np.uint64)

    monkeypatch.setattr(people, "_hashes", of_all)
    unit = unit_of()
    assert moved(unit, 5)["l1_of_marginal"] > unit.l1_of_marginal


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_an_exchange_is_a_removal_and_an_addition(neighbours: Neighbours) -> None:
    one, two = unit_of(), unit_of(neighbours)
    times = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    for name in ("l1_of_marginal", "l2_squared_of_marginal", "l0_of_marginal"):
        assert getattr(two, name) == times * getattr(one, name)
    assert two.linf_of_marginal == one.linf_of_marginal == grains_of(MOST)
    assert not two.total_is_public


@pytest.mark.parametrize("most", [2, 3, 8, 9, 20, 64, 65, 1000, MOST_ROWS])
def test_rows_of_a_person_never_weigh_more_than_one(most: int) -> None:
    """Up to 64 rows they weigh 1.3 % less at most, beyond a third at most: what is lost is the last rows of
    a class. So few weights are there that counts take few passes.
    """
    unit = unit_of(most=most)
    for n in range(1, most + 1):
        least = 0.987 if n <= 64 else 0.66
        assert least * unit.grains < n * unit.row_weight(n) <= unit.grains
    assert len({unit.row_weight(n) for n in range(1, most + 1)}) <= 64 + 11
    if most <= 8:
        assert all(n * unit.row_weight(n) == unit.grains for n in range(1, most + 1))


def test_a_cell_of_more_grains_than_32_bits_hold_is_measured_and_scored_whole() -> None:
    """As of half a million people in one cell. Seen to fail: cut off at 2^31, as counts of rows are."""
    domain = Domain.from_dict({"fields": [{"name": n, "type": "boolean"} for n in "ab"]})
    candidates = Workload.marginals(2).candidates(domain)
    codes = Codes([np.zeros(6, np.uint8), np.arange(6, dtype=np.uint8) % 2], domain.shape)
    tables = CandidateTables(
        Rows(WeightedCodes([(5040 * 10**6, codes)], domain.shape), Levels.fine(domain.shape)), candidates
    )
    (both,) = np.flatnonzero(candidates.orders == 2)
    assert tables.marginal(candidates.positions(int(both))).max() == 3 * 5040 * 10**6
    every = np.arange(len(candidates))
    answers = ModelAnswers(candidates).answers(ProductModel.uniform(domain, 0.0), every)
    assert tables.scores(answers)[both] == 6 * 5040 * 10**6 * SCORE_GRID


@pytest.mark.slow
def test_votes_and_values_move_by_no_more_than_one_person() -> None:
    """Of what discovery reads: votes on kinds, and counts of values."""
    unit = unit_of()

    def read(rows: Sequence[Row]) -> list[dict[Any, int]]:
        profiles = source_of(rows).people("who", MOST, unit.row_weight).profile(["a", "b"])
        of = (("integer",), "integer", 1.0)
        return [
            part
            for one in profiles.values()
            for part in (dict(enumerate(one.votes().tolist())), one.popular(*of, 0))
        ]

    before = read(OTHERS)
    most = 0
    for person in persons():
        for after, was in zip(read([*OTHERS, *person]), before, strict=True):
            change = sum(abs(after.get(key, 0) - was.get(key, 0)) for key in {*after, *was})
            assert change <= unit.l1_of_marginal
            most = max(most, change)
    assert most == unit.l1_of_marginal


@pytest.mark.slow
def test_rare_values_move_by_no_more_than_one_person() -> None:
    """Of the second look: what rows of a person give their values has an L2 norm of one person at most."""
    unit = unit_of()
    known = {
        "a": Known(("integer",), "integer", 1.0, frozenset([1.0])),
        "b": Known(("integer",), "integer", 1.0),
    }

    def read(rows: Sequence[Row]) -> dict[Any, int]:
        profiles = source_of(rows).people("who", MOST, unit.row_weight).weighed(known)
        return {
            (name, value): int(count)
            for name, one in profiles.items()
            for value, count in zip(one.values.to_pylist(), one.counts, strict=True)
        }

    before, most = read(OTHERS), 0
    for person in persons():
        after = read([*OTHERS, *person])
        changes = [after.get(key, 0) - before.get(key, 0) for key in {*after, *before}]
        most = max(most, sum(change**2 for change in changes))
        assert max(map(abs, changes)) <= unit.linf_of_marginal * WEIGHT
        assert sum(map(bool, changes)) <= unit.l0_of_marginal * len(known)
    whole = unit.l2_squared_of_marginal * WEIGHT**2
    assert 0.99 * whole < most <= whole


def used_rows(rows: Sequence[Row], most: int = MOST) -> dict[Any, list[tuple[int, int, int]]]:
    """By person the rows that are used, and how many these are said to be."""
    tagged = [(who, i, b) for i, (who, _, b) in enumerate(rows)]
    read, number = rows_of_people(source_of(tagged).table, "who", most)
    own: dict[Any, list[tuple[int, int, int]]] = {}
    batches = list(read.batches(["a", "b", ROWS_OF_PERSON]))
    assert np.concatenate([b.column(2).to_numpy() for b in batches]).tolist() == number.rows.tolist()
    for batch in batches:
        for at, b, n in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            own.setdefault(rows[at][0], []).append((rows[at][1], b, n))
    return own


IDS = ["1", "1.0", " 1", "ann", "ANN", "ann\0", "ann ", "\0", "é", "e\u0301", "z" * 100_000, "-1", "0"]


@pytest.mark.parametrize("who", IDS)
def test_hostile_ids_cost_nobody_else_a_row(who: str) -> None:
    """Of ids that look alike each is a person of its own; of none, null or empty, no row is used."""
    rng = np.random.default_rng(3)
    others = [(o, int(i), int(rng.integers(3))) for i, o in enumerate(rng.choice(IDS, 60)) if o != who]
    alone = used_rows(others)
    assert all(len(own) <= MOST for own in alone.values())
    extra = [(who, 1000 + i, 0) for i in range(10)]
    for nobody in (None, ""):
        crowd = [(nobody, 5000 + i, 1) for i in range(7)]
        both = used_rows([*extra[:5], *crowd, *others, *extra[5:]])
        assert len(both.pop(who)) == MOST and both == alone


def test_an_id_of_10_MB_costs_nobody_else_a_row() -> None:
    others = [(who, i, i % 3) for i, who in enumerate(IDS * 4)]
    alone, long = used_rows(others), "z" * 10_000_000
    both = used_rows([(long, 1000 + i, 0) for i in range(MOST + 2)] + others)
    assert len(both.pop(long)) == MOST and both == alone
    near = used_rows([(long, 0, 0), (long[:-1], 1, 0), *others])  # equal but for the last letter
    assert len(near.pop(long)) == len(near.pop(long[:-1])) == 1 and near == alone


def test_ids_that_are_equal_after_case_folding_or_normalising_are_people_of_their_own() -> None:
    alike = ["ss", "\u00df", "SS", "i\u0307", "\u0130", "I", "i", "\u0131", "k", "\u212a", "K"]
    own = used_rows([(who, i, 0) for i, who in enumerate(alike * MOST)])
    assert set(own) == set(alike) and all(len(rows) == MOST for rows in own.values())


@pytest.mark.parametrize(
    ("ids", "people"),
    [
        (pa.array([1, 1, 2, None, -1], pa.int64()), 3),
        (pa.array([2**64 - 1, 2**64 - 2, 0, 0, None], pa.uint64()), 3),
        (pa.array(["1", "1.0", "1", None, ""]), 2),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 0], pa.int8()), ["x", "x", ""]), 1),
        (pa.array([None] * 5, pa.string()), 0),
        (pa.array([""] * 5), 0),
    ],
)
def test_an_id_is_what_its_type_says_it_is(ids: pa.Array, people: int) -> None:
    """1 and "1" cannot meet in a column; a dictionary that lists a value twice names one person by it."""
    table = pa.table({"who": ids, "a": [0, 1, 0, 1, 0], "b": [0, 1, 2, 0, 1]})
    counted = open_source(table).people("who", MOST, unit_of().row_weight).people_by_rows(MOST)
    assert counted.sum() == people


@pytest.mark.parametrize("ids", [pa.array([1.0, 1.5]), pa.array([[1], [2]])])
def test_ids_that_may_be_spelt_in_two_ways_are_refused(ids: pa.Array) -> None:
    source = open_source(pa.table({"who": ids, "a": [0, 1], "b": [0, 1]}))
    with pytest.raises(InputError, match="several spellings"):
        source.people("who", MOST, unit_of().row_weight)


def test_ids_of_several_types_in_one_column_are_a_line() -> None:
    import pandas as pd

    mixed = pd.DataFrame({"who": [1, "1", 1.0], "a": [0, 1, 0], "b": [0, 1, 2]}, dtype=object)
    with pytest.raises(InputError, match="who"):
        open_source(mixed).people("who", MOST, unit_of().row_weight)


def test_rows_beyond_the_cap_are_left_out_at_random_not_at_the_end() -> None:
    rows = [(f"p{i % 400}", i // 400, 0) for i in range(400 * 8)]
    places = np.bincount([a for own in used_rows(rows, 2).values() for a, _, _ in own], minlength=8)
    assert places.sum() == 800 and places.min() > 55 and places.max() < 150  # 100 expected, sd 8.7


def test_the_number_of_rows_is_that_of_rows_used() -> None:
    own = used_rows([("x", i, 0) for i in range(9)] + [("y", 0, 0), ("y", 1, 1)])
    assert [n for _, _, n in own["x"]] == [MOST] * MOST and [n for _, _, n in own["y"]] == [2, 2]


def test_every_source_gives_the_same_grains(tmp_path: Any) -> None:
    import pandas as pd
    import pyarrow.csv
    import pyarrow.parquet

    rows = [*OTHERS, *(("w", a, b) for a, b in CELLS)]
    plain = pa.table(
        {"who": [r[0] for r in rows], "a": [r[1] for r in rows], "b": [r[2] for r in rows]},
    )
    pyarrow.csv.write_csv(plain, tmp_path / "t.csv")
    pyarrow.parquet.write_table(plain, tmp_path / "t.parquet", row_group_size=4)
    coded = plain.set_column(0, "who", plain["who"].dictionary_encode())
    forms = [plain, coded, pd.DataFrame(plain.to_pydict()), tmp_path / "t.csv", tmp_path / "t.parquet"]
    unit, first = unit_of(), None
    for form in forms:
        people = open_source(form).people("who", MOST, unit.row_weight)
        exact = Rows(people.encoded(TINY, IN_MEMORY), Levels.fine(TINY.shape))
        counts = [exact.marginal(view).tolist() for view in VIEWS]
        first = first or counts
        assert counts == first


# --- what a release says, where there is no noise ---


def without_noise(table: Any, **choices: Any) -> Release:
    choices = {"contributions": MOST, **choices}
    policy = Policy.of(epsilon=50.0, privacy_id="who", people=True, **choices)
    domain = TINY.project(["a", "b"])
    return make(request_of(open_source(table), Workload.marginals(3), policy, domain), noise=FakeNoise())


def many(people: int, seed: int = 0) -> pa.Table:
    """People whose a is their own, and whose number of rows goes with it."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, 2, people)
    rows = np.where(own == 1, rng.integers(2, MOST + 1, people), 1)
    who = np.repeat(np.arange(people), rows)
    return pa.table({"who": who, "a": own[who], "b": rng.integers(0, 3, len(who))})


def test_without_noise_rows_and_people_come_back_as_they_were() -> None:
    table = many(3000)
    made = without_noise(table, person_columns=["a"])
    people = made.manifest.people
    assert people is not None and abs(people.estimated - 3000) <= 3
    assert abs(made.rows - table.num_rows) <= 10
    real = table.to_pandas().groupby("a").size()
    assert made.marginal("a").counts == pytest.approx(real.to_numpy(), rel=2e-3)
    out = made.sample(made.rows, seed=1).to_pandas()  # its people scatter as a sample does
    assert list(out.columns) == ["who", "a", "b"] and len(out) == made.rows
    sizes = out.groupby("who").agg(a=("a", "nunique"), n=("a", "size"), own=("a", "first"))
    assert (sizes["a"] == 1).all() and abs(len(sizes) - 3000) <= 30
    truth = table.to_pandas().groupby("who").agg(n=("a", "size"), own=("a", "first"))
    for key in ("n", "own"):
        gap = sizes[key].value_counts() - truth[key].value_counts()
        assert gap.abs().max() <= 30


@pytest.mark.parametrize("most", [64, 100])
def test_that_more_rows_of_a_person_are_there_than_are_used_is_said(most: int) -> None:
    """Seen to fail: of 400,000 laboratory tests 32,000 were left out without a word, and the interval for the
    number of rows was far below it.
    """
    who = np.repeat(np.arange(300), np.where(np.arange(300) < 15, 90, 2))
    made = without_noise(pa.table({"who": who, "a": who % 2, "b": who % 3}), contributions=most)
    said = [text for text in made.manifest.warnings if "have about 64 rows or more" in text]
    assert len(said) == (most == 64) and all(text.startswith("5.0% of the people") for text in said)


@pytest.mark.parametrize("text", [False, True])
def test_ids_are_new_and_of_the_kind_that_they_were(text: bool) -> None:
    """Even where the private ones look made up, or as what stands for a missing one."""
    table = many(200).to_pandas()
    table["who"] = [f"synthetic-{who + 1}" for who in table["who"]] if text else -1 - table["who"]
    made = without_noise(table)
    ids, again = (made.sample(400, seed=seed)["who"] for seed in (1, 1))
    assert ids.equals(again) and ids.type == (pa.string() if text else pa.int64())
    other = set(made.sample(400, seed=2)["who"].to_pylist())
    assert set(ids.to_pylist()).isdisjoint({*table["who"], *other, -999}) and len(set(ids.to_pylist())) > 50
    if text:
        assert all(re.fullmatch("synthetic-[0-9a-f]{16}-[0-9]+", who) for who in ids.to_pylist())
    else:
        assert all(-(2**53) < who < -(2**52) for who in ids.to_pylist())


def test_made_up_ids_are_spread_over_all_that_they_may_be() -> None:
    """From the first start to the last, and told apart up to the largest number of people."""
    numbers = np.array([1, 2**51])
    assert [MadeUpIds(True, token).of(numbers).to_pylist() for token in (0, 2**64 - 1)] == [
        [-(2**52) - 1, -(2**52) - 2**51],
        [-(2**52) - 2**51, -(2**53) + 1],
    ]
    starts = {MadeUpIds(True, token).of(numbers)[0].as_py() for token in (0, 2**13 - 1, 2**13)}
    assert len(starts) == 2


def test_batches_share_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    from factored_mwem.pipeline import sampling

    monkeypatch.setattr(sampling, "MAX_BATCH_ROWS", 500)
    drawn = without_noise(many(1000)).drawn()
    ids = [set(batch.column("who").to_pylist()) for batch in drawn]
    assert len(ids) > 2 and sum(map(len, ids)) == len(set().union(*ids))


def one_or_three(people: int) -> pa.Table:
    """People of one row or of three, of whom nobody has two."""
    rows = np.where(np.arange(people) % 2 == 0, 1, MOST)
    who = np.repeat(np.arange(people), rows)
    return pa.table({"who": who, "a": who % 2, "b": np.arange(len(who)) % 3})


def cut(table: pa.Table) -> int:
    """How many people have two rows; a fit gives one in 3,000 to what is 0."""
    return int((table.to_pandas().groupby("who").size() == 2).sum())


@pytest.mark.slow
def test_people_are_whole_in_any_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from factored_mwem.pipeline import sampling

    made = without_noise(one_or_three(3000))
    monkeypatch.setattr(sampling, "MAX_BATCH_ROWS", 30)
    out = made.to_arrow()
    assert cut(out) <= 10 and out.num_rows == made.rows > 5900  # if batches cut people, some 60 are
    for rows in (1, 2, 5, 250):
        assert made.sample(rows, seed=rows).num_rows == rows


def test_where_nobody_has_as_few_rows_as_are_left_the_last_has_fewer() -> None:
    who = np.repeat(np.arange(2000), MOST)
    made = without_noise(pa.table({"who": who, "a": who % 2, "b": np.arange(len(who)) % 3}))
    drawn = made.sample(7, seed=1)
    assert drawn.num_rows == 7 and sorted(drawn.to_pandas().groupby("who").size()) == [1, MOST, MOST]


@pytest.mark.slow
def test_as_many_people_are_drawn_as_are_asked_for_each_with_all_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And their numbers of rows are those of the table, as without noise they must be."""
    from factored_mwem.pipeline import sampling

    made = without_noise(one_or_three(3000), person_columns=["a"])
    monkeypatch.setattr(sampling, "MAX_BATCH_ROWS", 30)
    for people in (0, 1, 2, 300):
        drawn = made.sample(people, seed=people, unit="people")
        assert len(set(drawn["who"].to_pylist())) == people and cut(drawn) <= 5
        assert drawn.schema == made.to_arrow().schema
    assert abs(drawn.num_rows - 600) < 90 and drawn.equals(made.sample(300, seed=300, unit="people"))


def test_a_release_of_rows_has_no_people_to_draw() -> None:
    table, domain = many(300).drop_columns(["who"]), TINY.project(["a", "b"])
    made = make(request_of(open_source(table), Workload.marginals(1), Policy.of(), domain), noise=FakeNoise())
    with pytest.raises(InputError, match="not of people"):
        made.sample(5, unit="people")


def test_a_model_file_draws_the_same_people(tmp_path: Any) -> None:
    made = without_noise(many(300), person_columns=["a"])
    made.save(tmp_path / "m.fmwem")
    again = Release.load(tmp_path / "m.fmwem")
    assert again.sample(50, seed=4).equals(made.sample(50, seed=4))
    assert again.sample(50, seed=4).num_rows == 50


@pytest.mark.parametrize(
    "change",
    [
        {"grains": 0},
        {"grains": 10**9},
        {"most_rows": 0},
        {"most_rows": 1009},
        {"column": "a"},
        {"column": "somebody"},
        {"constant": ["c"]},
        {"constant": [ROWS_OF_PERSON]},
    ],
)
def test_a_model_file_of_people_that_cannot_be_is_refused(tmp_path: Any, change: dict[str, Any]) -> None:
    path = tmp_path / "m.fmwem"
    without_noise(many(100), person_columns=["a"]).save(path)
    header, arrays = parts_of(path)
    header["manifest"]["people"] |= change
    write(path, header, arrays)
    with pytest.raises(InputError, match="damaged"):
        Release.load(path)


def test_numbers_that_would_be_in_another_unit_are_refused() -> None:
    made = without_noise(many(100))
    with pytest.raises(InputError, match="say what is counted"):
        made.answer("count")
    with pytest.raises(InputError, match="drawn row by row"):
        next(made.replicates(2))


def test_a_release_answers_for_people_and_for_rows() -> None:
    """Without noise, as counted one by one; each person's `a` is the same in all rows."""
    table = many(3000)
    made, frame = without_noise(table), table.to_pandas()
    people = frame.groupby("who")["a"].first().value_counts().sort_index()
    assert made.answer("count people by a").estimate == pytest.approx(people.to_numpy(), rel=2e-3)
    assert made.answer("count rows").estimate[0] == pytest.approx(len(frame), rel=2e-3)
    mine = frame.assign(own=frame["b"] == 0).groupby("who")["own"].mean().mean()
    assert made.answer("share per person where b = 0").estimate[0] == pytest.approx(mine, rel=1e-2)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"people": True}, "privacy_id"),
        ({"people": True, "privacy_id": "who", "contributions": 1}, "contributions from 2 to 1008"),
        ({"people": True, "privacy_id": "who", "contributions": 1009}, "contributions from 2 to 1008"),
        ({"person_columns": ["a"]}, "person_columns needs people"),
        (
            {"people": True, "privacy_id": "who", "contributions": 3, "person_columns": ["who"]},
            "names the person",
        ),
    ],
)
def test_choices_that_do_not_fit_are_refused(choices: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Policy.of(**choices)


def test_a_table_that_has_the_column_already_is_refused_before_anything_is_spent() -> None:
    noise = FakeNoise()
    table = many(50).append_column(ROWS_OF_PERSON, pa.array([1] * many(50).num_rows))
    policy = Policy.of(privacy_id="who", people=True, contributions=MOST)
    with pytest.raises(InputError, match="rename"):
        make(request_of(open_source(table), Workload.marginals(1), policy, None), noise=noise)
    assert not noise.calls


def test_learning_reads_grains_and_charges_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scale of every reading is that of one person, in grains: G times what one row would cost."""
    monkeypatch.setattr("factored_mwem.privacy.discover.GLANCE", Fraction(1))  # which follows from noise
    policy = Policy.of(privacy_id="who", people=True, contributions=MOST)
    plain = replace(policy.unit, grains=0, contributions=1)
    scales = []
    for unit in (policy.unit, plain):
        noise = FakeNoise()
        session = Session(Accountant(policy.budget(learn_domain=True)), unit, noise)
        source = open_source(many(400)).people("who", MOST, policy.unit.row_weight)
        discover(session, source, ["a", "b"], lambda rows, columns: Fraction(1, 2))
        scales.append([call.scale for call in noise.calls])
    each = min(map(len, scales))  # what the second look is at follows from what the first one saw
    assert each >= 4
    assert scales[0][:each] == pytest.approx([policy.unit.grains * s for s in scales[1][:each]], rel=1e-6)


# --- distances that a certificate measures ---

PAIRS = Workload.marginals(2).candidates(TINY)
PAIRS = PAIRS.keep(PAIRS.orders == 2)
MEASURED = [ColumnDistances(), MeanDistance(2), *map(OneDistance, range(len(PAIRS) + 3))]


def public_tables(unit: Unit) -> list[Reference]:
    """Of nobody, of some people spread out, and of some who are all alike."""
    rng = np.random.default_rng(4)
    cells, made = int(np.prod(TINY.shape)), []
    for joint in (np.zeros(cells), rng.dirichlet(np.ones(cells)) * 2, np.eye(1, cells, 3)[0] * 3):
        shaped = (joint * unit.grains * SCORE_GRID).reshape(TINY.shape)
        over = [tuple(a for a in range(3) if a not in PAIRS.positions(c)) for c in range(len(PAIRS))]
        columns = (shaped.sum(axis=tuple(b for b in range(3) if b != a)) for a in range(3))
        tables = np.concatenate([shaped.sum(axis=axes).ravel() for axes in over])
        rounded = tuple(np.rint(column).astype(np.int64) for column in columns)
        made.append(Reference(PAIRS, rounded, np.rint(tables).astype(np.int64), (0, 1, 2)))
    return made


def furthest(unit: Unit, some: int = 1) -> dict[Any, Fraction]:
    """How far each distance moves at most, by what is charged for it, in either norm: over all persons who
    come, or over every so many; under replace over pairs of these.
    """
    tables = [OTHERS, *([*OTHERS, *person] for person in [*persons()][::some])]
    exact = [Rows(people_of(rows, unit).encoded(TINY, IN_MEMORY), Levels.fine(TINY.shape)) for rows in tables]
    pairs = [(0, i) for i in range(1, len(tables))]
    if unit.neighbours is Neighbours.REPLACE:
        pairs = list(itertools.combinations(range(1, len(tables)), 2))
    moved: dict[Any, Fraction] = defaultdict(Fraction)
    for reference in public_tables(unit):
        errors = [PrivateErrors.of(PrivateRows(rows, TINY.names), reference) for rows in exact]
        opened = [each.reveal() for each in errors]
        for what in [*MEASURED, None]:
            found = [one.scores(None) if what is None else one.exact(what) for one in opened]
            gaps = [np.abs(found[i] - found[j]).tolist() for i, j in pairs]
            if what is None:
                charged, most = errors[0].score_sensitivity(unit) * SCORE_GRID, max(map(max, gaps))
                moved["score"] = max(moved["score"], Fraction(most, charged))
                continue
            for kind, power in ((Composition.PURE, 1), (Composition.ZCDP, 2)):
                most = max(sum(gap**power for gap in each) for each in gaps)
                charged = errors[0].sensitivity(what, unit, kind)
                moved[what, kind] = max(moved[what, kind], Fraction(most, charged))
    return moved


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_person_moves_a_distance_by_what_is_charged(neighbours: Neighbours) -> None:
    """By exactly that, if one comes who was not there."""
    moved = furthest(unit_of(neighbours), 1 if neighbours is Neighbours.ADD_REMOVE else 9)
    assert max(moved.values()) <= 1 and len(moved) == 2 * len(MEASURED) + 1
    assert neighbours is Neighbours.REPLACE or set(moved.values()) == {1}


@pytest.mark.parametrize("bug", ["rows weigh one person each", "noise for rows, not grains"])
def test_a_planted_bug_in_distances_of_people_is_seen(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug.startswith("rows"):
        monkeypatch.setattr(Unit, "row_weight", lambda self, rows: self.grains)
    else:
        monkeypatch.setattr(Unit, "l1_of_score", property(lambda self: self.contributions))
    assert max(furthest(unit_of(), 9).values()) > 1


# --- numbers of people: how many rows they have, and what is the same in all of them ---


def people_of(rows: Sequence[Row], unit: Unit) -> People:
    return source_of(rows).people("who", MOST, unit.row_weight)


def exact_people(rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
    """What `most_rows` and `constant_columns` look at."""
    people = people_of(rows, unit_of())
    return np.add.reduceat(people.people_by_rows(MOST), [0, 2]), people.constancy(["a", "b"])


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_person_moves_numbers_of_people_by_what_is_charged(neighbours: Neighbours) -> None:
    """Over all persons, and under replace over all pairs of some of them."""
    unit, table = unit_of(neighbours), people_of(OTHERS, unit_of())
    charged = [
        PrivateSizes.of(table, MOST, [2]).query(None, unit),
        PrivateConstancy.of(table, ["a", "b"]).query(None, unit),
    ]
    before, added = exact_people(OTHERS), [exact_people([*OTHERS, *person]) for person in persons()]
    pairs = [(before, after) for after in added]
    if neighbours is Neighbours.REPLACE:
        pairs = list(itertools.combinations(added[::7], 2))
    for kind, query in enumerate(charged):
        changes = [np.abs(two[kind] - one[kind]) for one, two in pairs]
        assert max(int(change.sum()) for change in changes) == query.l1
        assert max(int((change**2).sum()) for change in changes) == query.l2_squared


def test_a_planted_count_of_rows_for_people_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_rows(self: People, most: int) -> np.ndarray:
        return np.bincount(self._rows, minlength=most + 1)[1:].astype(np.int64)

    monkeypatch.setattr(People, "people_by_rows", by_rows)
    before, after = exact_people(OTHERS), exact_people([*OTHERS, *(("z", 0, 0) for _ in range(MOST))])
    assert np.abs(after[0] - before[0]).sum() == MOST


def test_constancy_is_that_of_a_loop_over_people() -> None:
    rng = np.random.default_rng(8)
    for _ in range(30):
        rows = [(f"p{rng.integers(6)}", int(rng.integers(2)), int(rng.integers(3))) for _ in range(12)]
        own = used_rows(rows)
        cells = {who: [row for w, *row in rows if w == who] for who in own}
        several = {who for who, used in own.items() if len(used) > 1}
        _, found = exact_people(rows)
        assert found[-1] == len(several)
        kept = [who for who in several if len(cells[who]) <= MOST]  # of others some rows are left out
        for column in range(2):
            same = sum(len({row[column] for row in cells[who]}) == 1 for who in kept)
            assert same <= found[column] <= same + len(several) - len(kept)


def test_what_is_constant_and_how_many_rows_are_used_follow_from_noisy_numbers_alone() -> None:
    """The same table, other noise, other choices; and each is charged before it is drawn."""
    rng = np.random.default_rng(2)
    rows_of_each = rng.geometric(0.3, 4000)
    who, own = np.repeat(np.arange(4000), rows_of_each), rng.integers(0, 9, 4000)
    table = pa.table({"who": who, "a": own[who], "b": rng.integers(0, 3, len(who))})
    policy = Policy.of(privacy_id="who", people=True)
    source = open_source(table).people("who", policy.contributions, policy.unit.row_weight)
    chosen = ((0, 12, ["a"], 2, ["a"]), (1_000_000, 64, ["a", "b"], 1, []), (-1_000_000, 2, [], 2, []))
    for offset, most, constant, looks, doubted in chosen:
        noise = FakeNoise(offset=offset)
        session = Session(Accountant(policy.budget()), policy.unit, noise)
        rows, beyond, people, full, *_ = most_rows(session, source)
        assert offset or people == pytest.approx(4000)
        assert (full > 0) == (most == 64)
        assert rows == most and (beyond is None) == (most == 64)
        assert beyond is None or 0 <= beyond <= 1
        assert offset or beyond == pytest.approx((np.minimum(rows_of_each, 64) > 12).mean())
        assert constant_columns(session, source, ["a", "b"]) == constant
        charges = [(c.stage, c.target) for c in session.accountant.entries]
        sizes = [("discover", ("people", "rows"))] * looks  # two where people are few for the noise
        again = [("discover", (*doubted, "constant"))] * bool(doubted)
        assert charges == [*sizes, ("discover", ("a", "b", "constant")), *again]
        assert [call.scale for call in noise.calls] == [c.scale for c in session.accountant.entries]


def test_two_looks_at_how_many_rows_people_have_are_averaged_by_precision() -> None:
    """One of 1 % of what is left, and where people are few another of up to 4 %; each is charged."""
    policy, many = Policy.of(privacy_id="who", people=True), 10**6
    source = open_source(pa.table({"who": ["x"], "a": [1]})).people("who", 64, policy.unit.row_weight)
    for first, second in (([100, 200], [300, 0]), ([100 * many, 200 * many], None)):
        answers = [np.array([*look, *[0] * 13]) for look in (first, second) if look]
        session = Session(Accountant(policy.budget()), policy.unit, FakeNoise(answers=answers))
        noisy, stddev = averaged(_sizes(session, PrivateSizes.of(source, 64, CAPS[:14])))
        scales = [charge.scale for charge in session.accountant.entries]
        assert len(scales) == len(answers)
        precision = [scale**-2 for scale in scales]
        assert noisy == pytest.approx(np.average(answers, axis=0, weights=precision))
        assert stddev == pytest.approx(sum(precision) ** -0.5)


def test_how_many_rows_hang_on_roots_is_seen_and_handed_on() -> None:
    """A second look where roots are few, at a price that tables share; beyond the last class that is seen
    nothing is handed on.
    """
    rows = np.repeat([0, 1, 2, 7, 30], [400, 300, 200, 200, 100])
    policy, ends = Policy.of(), (0, 1, 2, 4, 8, 16)
    for tables, price in ((1, 8), (2, 4), (20, 1)):
        session = Session(Accountant(policy.budget()), policy.unit, FakeNoise())
        whole = session.left
        used = rows_of_roots(session, rows, ends, tables)
        assert used.most == 16 and used.beyond is None and used.people == 800 and used.ends == ends
        assert used.full == pytest.approx(100 / 800)
        assert [look.noisy.tolist() for look in used.looks] == [[400, 300, 200, 0, 200, 100]] * 2
        charges = [(c.stage, c.target) for c in session.accountant.entries]
        assert charges == [("discover", ("people", "rows"))] * 2
        assert session.left / whole == pytest.approx(0.99 * (1 - price / 100))
    answers = [np.array([400, 300, -9, 90, -80, 7])] * 2
    session = Session(Accountant(policy.budget()), policy.unit, FakeNoise(answers=answers))
    used = rows_of_roots(session, rows, ends, 1)
    assert used.most == 4 and used.beyond == used.full == 0.0 and len(used.looks[0].noisy) == 4


def test_the_last_class_of_rows_that_is_seen() -> None:
    assert last_seen(np.array([900, 80, 20, 4, 1, 0]), 0.0) == 2  # five of a thousand are borne
    assert last_seen(np.array([900, 80, 20, 4, 2, 0]), 0.0) == 3
    assert last_seen(np.array([900, 50, -40, 30, 35, -60, 55, -70]), 50.0) == 0
    assert last_seen(np.array([900, 50, -40, 300, 35, -60, 55, -70]), 50.0) == 3
    assert last_seen(np.array([900, 0, 0, 0, 500]), 50.0) == 4


def too_many(shape: Sequence[int], by_noise: float = BY_NOISE, runs: int = 2000) -> float:
    """How often a class is seen beyond the next to the last in which people are, in noise of 33."""
    rng = np.random.default_rng(6)
    people = np.array([*shape, *[0] * (16 - len(shape))])
    noisy = (people + rng.normal(0, 33, 16) for _ in range(runs))
    return np.mean([last_seen(each, 33.0, by_noise) > len(shape) for each in noisy])


def test_noise_alone_is_hardly_ever_seen_as_rows_that_nobody_has() -> None:
    """As it was where one standard deviation was believed."""
    homes = [280, 340, 150, 130, 60, 30, 10]
    assert too_many(homes) < 0.12
    assert too_many(homes, 1.0) > 0.2


def test_how_many_rows_people_have_slopes_within_a_class_and_adds_up() -> None:
    """Of classes of 1, 1, 4 and 4 numbers; against sums by hand."""
    codes = np.array([0, 1, 2, 2, 2, 2, 3, 3, 3, 3])
    falling = sloping(codes, np.array([50.0, 40.0, 80.0, 20.0]))
    assert np.bincount(codes, falling).tolist() == pytest.approx([50, 40, 80, 20])
    assert falling[2:6].tolist() == pytest.approx([25.625, 21.875, 18.125, 14.375])
    assert (np.diff(falling) < 0).all() and falling.min() > 0
    hill = sloping(codes, np.array([10.0, 20.0, 200.0, 0.0]))
    assert hill[2:6].tolist() == [50.0] * 4 and (hill[6:] == 1).all()  # a code of nobody: any of its numbers
    rng = np.random.default_rng(4)
    for _ in range(50):
        people = rng.integers(0, 9, 4).astype(float)
        each = sloping(codes, people)
        assert each.min() >= 0
        assert np.bincount(codes, each)[people > 0] == pytest.approx(people[people > 0])


def test_classes_of_numbers_of_rows_are_finer_where_people_are_many() -> None:
    """Each coarser one joins whole finer ones, and all end at the most rows that are used."""
    for most in (2, 7, 20, 49, 64, 1008):
        fine, middle, coarse = (set(size_classes(most, clear)) for clear in (1e4, 100.0, 5.0))
        assert coarse <= middle <= fine and max(coarse) == most and min(coarse) == 1
        assert size_classes(most, -3.0) == size_classes(most, 5.0)  # as noise may have it
    assert len(size_classes(64)) == 25 and len(size_classes(64, 100.0)) == 16


def test_few_people_are_counted_by_coarser_classes_of_rows() -> None:
    """By the noisy number of people alone: the same table, other noise, other classes."""
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(900), rng.integers(1, 20, 900))
    table = pa.table({"who": who, "a": who % 2, "b": rng.integers(0, 3, len(who))})
    codes = []
    for more in (0, 10**9):
        noise = FakeNoise(offset=lambda values, _, more=more: values + more * (len(values) == len(CAPS)))
        policy = Policy.of(privacy_id="who", people=True, contributions=1008)
        own = TINY.project(["a", "b"])
        made = make(request_of(open_source(table), Workload.marginals(1), policy, own), noise=noise)
        codes.append(made.domain[ROWS_OF_PERSON].size)
    assert codes[0] < codes[1]


def test_numbers_of_rows_are_dealt_within_one_person_of_their_share() -> None:
    """Of a code that stands for several, too; drawn one by one, they would vary by as much as a sample."""
    rng = np.random.default_rng(3)
    counts = RowCounts.of(rows_of_person((1, 2, 6)), unit_of(most=6), 6, np.array([400.0, 150.0, 200.0]))
    codes = rng.permutation(np.repeat([0, 1, 2], [1000, 500, 4000]))
    drawn = np.bincount(counts.drawn(codes, rng), minlength=7)[1:]
    share = counts.within[2:] / counts.within[2:].sum()
    assert drawn[:2].tolist() == [1000, 500]
    assert np.abs(drawn[2:] - 4000 * share).max() <= 1 and len(set(drawn[2:].tolist())) > 1


def test_what_varies_for_some_people_is_hardly_ever_taken_to_be_the_same() -> None:
    """At noise of a twenty-second of the people. Seen to fail: by one look alone, what is the same for all
    was lost once in six; without the middle as a bound, what is for .87 of people was taken once in five.
    """
    policy, rng = Policy.of(privacy_id="who", people=True), np.random.default_rng(3)
    names = [f"c{i}" for i in range(15)]
    truth = dict.fromkeys(names, 0.3) | {"c0": 1.0, "c1": 0.87}
    source = open_source(pa.table({"who": ["x"], **{name: [1] for name in names}}))
    table = source.people("who", 64, policy.unit.row_weight)

    def found() -> list[str]:
        session = Session(Accountant(policy.budget()), policy.unit, FakeNoise())
        of_all = PrivateConstancy.of(table, names).query(None, session.unit)
        cost = session.left * CONSTANCY_SHARE * MOST_TIMES
        several = 22 * noise_for(cost, of_all.sensitivity(session.composition), session.composition).stddev

        def counted(values: np.ndarray, scale: float) -> np.ndarray:
            asked = session.accountant.entries[-1].target[:-1]
            exact = np.array([*(truth[name] * several for name in asked), several])
            return np.rint(exact + rng.normal(0, scale, len(exact))).astype(np.int64)

        noisy = replace(session, noise=FakeNoise(offset=counted))
        return constant_columns(noisy, table, names, 0.0)

    every = [name for _ in range(200) for name in found()]
    assert every.count("c0") > 180 and every.count("c1") < 8 and {*every} <= {"c0", "c1"}


def test_of_a_few_people_nothing_is_said_to_be_constant() -> None:
    policy = Policy.of(privacy_id="who", people=True)
    source = open_source(many(60)).people("who", policy.contributions, policy.unit.row_weight)
    session = Session(Accountant(policy.budget()), policy.unit, FakeNoise())
    assert constant_columns(session, source, ["a", "b"]) == []
