"""Sequences: what a row knows of the person's other rows moves no count by more than the person is charged
for, whoever else is there; and rows come out in order, as what follows what says.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support.asked import request_of
from support.fakes import FakeNoise
from support.model_files import parts_of, write

from factored_mwem.accounting.unit import Unit, grains_of
from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.companions import change_of, companions_of, gap_of, steps_between
from factored_mwem.domain.conditions import intervals
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.errors import InputError
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.privacy.rows import Rows
from factored_mwem.request.policy import Policy
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.people import People
from factored_mwem.tables.backends.source import IN_MEMORY
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.inputs import people as inputs
from factored_mwem.tables.inputs.people import RowOrder
from factored_mwem.workload.workload import Workload

MOST = 3
Row = tuple[str, int, int]
"""Of a person, `a` of 2 codes and `b` of 3, which orders the rows."""
CELLS = list(itertools.product(range(2), range(3)))
OTHERS: list[Row] = [("x", 0, 0), ("x", 1, 2), ("y", 0, 1), ("x", 1, 1), ("x", 0, 2), ("x", 0, 1)]
NEEDED = {"required": True}
OWN = [
    {"name": "a", "type": "integer", "categories": [0, 1], "constraints": NEEDED},
    {"name": "b", "type": "integer", "categories": [0, 1, 2], "constraints": NEEDED},
]
SIZES = {"name": ROWS_OF_PERSON, "type": "integer", "categories": [1, 2, 3], "constraints": NEEDED}
COLUMNS = Domain.from_dict({"fields": [*OWN, SIZES]})
COMPANIONS = companions_of(COLUMNS, "b")
WHOLE = Domain([*COLUMNS, *(each.attribute for each in COMPANIONS)])
VIEWS = [v for k in (1, 2, 3) for v in itertools.combinations(range(len(WHOLE)), k)]
UNIT = Unit(contributions=MOST, by_id=True, grains=grains_of(MOST))


def people_of(rows: Sequence[Row], unit: Unit = UNIT, most: int = MOST) -> People:
    ids, a, b = zip(*rows, strict=True)
    table = pa.table({"who": pa.array(ids, pa.string()), "a": a, "b": b})
    return open_source(table).people("who", most, unit.row_weight, order=RowOrder("b"))


def counted(rows: Sequence[Row], unit: Unit = UNIT) -> list[np.ndarray]:
    """Every marginal of up to three attributes, companions among them, in grains."""
    exact = Rows(people_of(rows, unit).encoded(WHOLE, IN_MEMORY), Levels.fine(WHOLE.shape))
    cells = [int(np.prod([WHOLE.shape[a] for a in view])) for view in VIEWS]
    members = np.array([[*view, -1, -1][:3] for view in VIEWS], dtype=np.int32)
    offsets = np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)
    return np.split(exact.counts(members, offsets).astype(np.int64), offsets[1:-1])


NORMS: dict[str, Callable[[np.ndarray], int]] = {
    "l1_of_marginal": lambda change: int(np.abs(change).sum()),
    "l2_squared_of_marginal": lambda change: int((change**2).sum()),
    "linf_of_marginal": lambda change: int(np.abs(change).max()),
    "l0_of_marginal": lambda change: int((change != 0).sum()),
}


def moved(unit: Unit = UNIT, some: int = 1) -> dict[str, int]:
    """By norm the greatest of what a person more, of up to MOST + 1 rows, one of which is left out, changes
    in any marginal; their rows stand among those of others, in turns in one order and in the other.
    """
    before, greatest = counted(OTHERS, unit), dict.fromkeys(NORMS, 0)
    persons = [
        cells
        for number in range(1, MOST + 2)
        for cells in itertools.combinations_with_replacement(CELLS, number)
    ]
    for i, cells in enumerate(persons[::some]):
        person = [("z", a, b) for a, b in cells][:: 1 if i % 2 else -1]
        rows = [*OTHERS[:2], person[0], *OTHERS[2:4], *person[1:], *OTHERS[4:]]
        for after, was in zip(counted(rows, unit), before, strict=True):
            greatest = {name: max(most, NORMS[name](after - was)) for name, most in greatest.items()}
    return greatest


@pytest.mark.slow
def test_a_person_more_moves_every_marginal_with_companions_by_exactly_what_is_charged() -> None:
    assert moved() == {name: getattr(UNIT, name) for name in NORMS}


def test_a_planted_row_before_that_is_somebody_elses_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_anybody(ids: pa.Array, most: int, keys: np.ndarray) -> Any:
        person, used, number, previous = window(ids, most, keys)
        return person, used, number, np.arange(len(previous)) - 1

    window = inputs._window
    monkeypatch.setattr(inputs, "_window", of_anybody)
    assert moved(some=5)["l1_of_marginal"] > UNIT.l1_of_marginal


def test_a_planted_weight_that_forgets_how_many_rows_there_are_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Unit, "row_weight", lambda self, rows: self.grains)
    assert moved(some=5)["l1_of_marginal"] == MOST * UNIT.l1_of_marginal


# --- what companions say ---


def companions(rows: Sequence[Row], most: int = MOST) -> list[tuple[int, ...]]:
    """(a, b, n, then every companion) of each row that is used, in their order in the table, as values."""
    people = people_of(rows, most=most)
    names = WHOLE.names
    codes = {}
    for weight, part in people.encoded(WHOLE, IN_MEMORY)._parts:  # type: ignore[attr-defined]
        codes[weight] = list(zip(*(c.tolist() for c in part.columns), strict=True))
    assert names[3:] == ("previous a", "gap of b", "first b", "last b")
    return sorted(itertools.chain(*codes.values()))


def test_companions_are_those_of_a_loop_over_people() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        rows = [(f"p{rng.integers(6)}", int(rng.integers(2)), int(rng.integers(3))) for _ in range(9)]
        expected = []
        for who in {row[0] for row in rows}:
            own = sorted((row for row in rows if row[0] == who), key=lambda row: row[2])  # stable
            if len(own) > MOST:
                break
            for i, (_, a, b) in enumerate(own):
                before, gap = (own[i - 1][1], b - own[i - 1][2] + 1) if i else (2, 0)
                expected.append((a, b, len(own) - 1, before, gap, own[0][2], own[-1][2]))
        else:
            assert companions(rows) == sorted(expected)


def test_of_people_with_too_many_rows_a_window_of_rows_that_follow_each_other_is_used() -> None:
    """Anywhere among a person's rows: 400 people of 8 rows, two of each are used."""
    rows = [(f"p{i % 400}", 0, i // 400) for i in range(400 * 8)]
    ids, _, b = zip(*rows[::-1], strict=True)
    table = open_source(pa.table({"who": ids, "b": b})).table  # type: ignore[attr-defined]
    read, used = inputs.rows_of_people(table, "who", 2, order=RowOrder("b"))
    kept = np.concatenate([batch.column(0).to_numpy() for batch in read.batches(["b"])])
    assert used.previous is not None and (used.previous >= 0).sum() == 400 == (used.previous < 0).sum()
    after = np.flatnonzero(used.previous >= 0)
    assert (kept[after] - kept[used.previous[after]] == 1).all()
    begins = np.bincount(kept[used.previous < 0], minlength=7)
    assert begins.min() > 25 and begins.max() < 95  # 57 expected, sd 7


def test_text_is_ordered_by_what_each_value_is() -> None:
    texts = ["10", "9", "", "2021-03-01", "2020-12-31T10:00:00", "+1.5", "what", None, "-3"]
    table = open_source(pa.table({"who": ["x"] * len(texts), "t": texts})).table  # type: ignore[attr-defined]
    _, used = inputs.rows_of_people(table, "who", 64, order=RowOrder("t"))
    assert used.previous is not None
    follows = {texts[i]: texts[b] if b >= 0 else "-" for i, b in enumerate(used.previous.tolist())}
    assert follows["-3"] == "-" and follows["+1.5"] == "-3" and follows["9"] == "+1.5"
    assert follows["10"] == "9" and follows["2020-12-31T10:00:00"] == "10"
    assert follows["2021-03-01"] == "2020-12-31T10:00:00" and follows[""] == "2021-03-01"


DAY = {"minimum": "2020-01-01", "maximum": "2020-12-31", "required": True}
ORDERING = [
    {"name": "t", "type": "integer", "constraints": {"minimum": 0, "maximum": 10**6}},
    {"name": "t", "type": "number", "decimals": 2, "constraints": {"minimum": -5.0, "maximum": 5.0}},
    {"name": "t", "type": "number", "constraints": {"minimum": 0.0, "maximum": 1e-3}},
    {"name": "t", "type": "date", "constraints": DAY},
    {"name": "t", "type": "datetime", "resolution": "hour", "constraints": DAY},
    {"name": "t", "type": "integer", "categories": [3, 1, 40]},
]


@pytest.mark.parametrize("field", ORDERING)
def test_gaps_have_few_bins_that_hold_all_there_can_be(field: dict[str, Any]) -> None:
    own = Attribute.model_validate(field)
    gap = gap_of(own)
    low, high = intervals(own)
    assert gap.size < 40 and gap.cuts[0] == 0 and gap.cuts[-1] > high.max() - low.min()
    assert (gap.cuts[1:] > gap.cuts[:-1]).all()


# --- how columns change ---

CHANGING = [
    {"name": "a", "type": "string", "categories": [*"abcdefghij"], "constraints": NEEDED},
    {"name": "n", "type": "integer", "edges": [0, 4, 9, 12]},
    {"name": "b", "type": "integer", "categories": [0, 1, 2], "constraints": NEEDED},
]
CHANGED = companions_of(Domain.from_dict({"fields": [*CHANGING, SIZES]}), "b")
LARGER = Domain([*Domain.from_dict({"fields": [*CHANGING, SIZES]}), *(each.attribute for each in CHANGED)])
PAIRS = [
    (i, LARGER.index(each.attribute.name))
    for each in CHANGED
    if each.kind == "change"
    for i in range(len(LARGER))
    if LARGER.names[i] != each.attribute.name
]
Wide = tuple[str, str, int | None, int]


def encoded(rows: Sequence[Wide], unit: Unit = UNIT) -> Any:
    ids, a, n, b = zip(*rows, strict=True)
    table = pa.table({"who": ids, "a": a, "n": pa.array(n, pa.int64()), "b": b})
    people = open_source(table).people("who", MOST, unit.row_weight, order=RowOrder("b"))
    return people.encoded(LARGER, IN_MEMORY)


def pairs_counted(rows: Sequence[Wide]) -> np.ndarray:
    """The pairs of a change and each other attribute, one marginal after the other, in grains."""
    exact = Rows(encoded(rows), Levels.fine(LARGER.shape))
    cells = [LARGER.shape[a] * LARGER.shape[b] for a, b in PAIRS]
    members = np.array(PAIRS, dtype=np.int32)
    return exact.counts(members, np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)).astype(np.int64)


def greatest_of_changes() -> int:
    """Grains by which a person of up to 3 rows moves a marginal with changes: L1."""
    others: list[Wide] = [("x", "a", 3, 0), ("y", "b", 7, 1), ("x", "a", 11, 2), ("y", "c", None, 2)]
    ends = np.cumsum([LARGER.shape[a] * LARGER.shape[b] for a, b in PAIRS])[:-1]
    before, greatest = pairs_counted(others), 0
    cells = list(itertools.product("ac", (3, 8, None), (0, 2)))
    for number in range(1, MOST + 1):
        for own in list(itertools.product(cells, repeat=number))[:: 1 + 6 * (number > 1) + 40 * (number > 2)]:
            rows = [*others[:1], *(("z", *cell) for cell in own), *others[1:]]
            moved = np.abs(pairs_counted(rows) - before)
            greatest = max(greatest, *(int(part.sum()) for part in np.split(moved, ends)))
    return greatest


@pytest.mark.slow
def test_a_person_more_moves_a_marginal_with_changes_by_exactly_what_is_charged() -> None:
    assert greatest_of_changes() == UNIT.l1_of_marginal


@pytest.mark.slow
def test_a_planted_change_since_the_row_above_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the table, not of the person: who stands between two rows of another changes theirs."""

    def above(self: People, a: Attribute, domain: Domain, codes: Any) -> np.ndarray:
        own, self._previous = self._previous, np.arange(len(self._previous)) - 1
        try:
            return companion(self, a, domain, codes)
        finally:
            self._previous = own

    companion = People._companion
    monkeypatch.setattr(People, "_companion", above)
    assert greatest_of_changes() > UNIT.l1_of_marginal


def test_changes_are_those_of_a_loop_over_rows() -> None:
    rows: list[Wide] = [("x", "a", 3, 0), ("x", "a", 3, 1), ("x", "b", 12, 1), ("x", "b", None, 2)]
    ((_, part),) = encoded(rows[:3])._parts
    codes = {name: c.tolist() for name, c in zip(LARGER.names, part.columns, strict=True)}
    assert codes["change of a"] == [2, 0, 1]
    n = LARGER["change of n"]
    low, high = intervals(n)
    assert [(low[c], high[c]) for c in codes["change of n"][1:]] == [(0, 0), (9, 13)]
    assert codes["change of n"][0] == n.special_codes[0] == 0
    with_null = encoded(rows[1:])._parts[0][1].columns[LARGER.index("change of n")].tolist()
    assert with_null[2] == n.null_code
    assert "change of b" not in LARGER


@pytest.mark.parametrize("field", [f for f in ORDERING if "categories" not in f])
def test_changes_have_bins_for_all_differences_and_one_for_none(field: dict[str, Any]) -> None:
    own = Attribute.model_validate(field)
    change, (low, high) = change_of(own), intervals(own)
    most = int(steps_between(own, low.min(), high.max()))
    assert change.size < 80 and change.cuts[0] <= -most and change.cuts[-1] > most
    zero = int(np.searchsorted(change.cuts, 0))
    assert change.cuts[zero] == 0 and change.cuts[zero + 1] == 1  # none has a bin of its own
    assert (steps_between(own, np.zeros(2), np.array([0.0, 1e-9])) == 0).tolist() == [True, False]


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_columns_of_any_width_have_gaps_and_changes(kind: str) -> None:
    """Seen to fail: noise or a domain put the ends so far apart, and a paid release ended as `unexpected`."""
    most = 4 * 10**18 if kind == "integer" else 10**25
    facts = {"name": "x", "type": kind, "constraints": {"minimum": -most, "maximum": most}, "bins": 4}
    own = Attribute.model_validate(facts | ({} if kind == "integer" else {"decimals": 0}))
    gap, change = gap_of(own), change_of(own)
    assert all((each.cuts[1:] > each.cuts[:-1]).all() and each.size < 80 for each in (gap, change))
    ends = np.array([-most, 0, most], dtype=own.cuts.dtype)
    steps = steps_between(own, ends[::-1], ends)
    codes = encode(change, pa.array(steps))
    assert steps[0] < 0 == steps[1] < steps[2] and codes.tolist() == sorted(codes.tolist())
    assert codes[2] == change.bin_codes[-1]


# --- rows that are drawn ---


def visits(people: int, seed: int = 0, days: int = 300) -> pd.DataFrame:
    """People whose ward mostly stays what it was, with a visit every one to three weeks from any day on."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 7, people)
    who = np.repeat(np.arange(people), rows)
    day, ward = np.zeros(len(who), dtype=np.int64), rng.integers(0, 4, len(who))
    for i in range(len(who)):
        if i and who[i] == who[i - 1]:
            day[i] = day[i - 1] + rng.integers(7, 22)
            ward[i] = ward[i - 1] if rng.random() < 0.8 else ward[i]
        else:
            day[i] = rng.integers(0, days - 22 * 6)
    table = pd.DataFrame({"who": who, "sex": (who % 2), "ward": ward, "day": day})
    table["day"] = [datetime.date(2020, 1, 1) + datetime.timedelta(int(d)) for d in day]
    return table.sample(frac=1, random_state=seed).reset_index(drop=True)


FIELDS = {
    "fields": [
        {"name": "sex", "type": "integer", "categories": [0, 1], "constraints": NEEDED},
        {"name": "ward", "type": "integer", "categories": [0, 1, 2, 3], "constraints": NEEDED},
        {"name": "day", "type": "date", "bins": 12, "constraints": {**DAY, "maximum": "2020-10-27"}},
    ]
}


def made_of(table: pd.DataFrame, fields: dict[str, Any] = FIELDS, **choices: Any) -> Release:
    policy = Policy.of(
        epsilon=50.0, privacy_id="who", people=True, contributions=6, order_by="day", **choices
    )
    request = request_of(open_source(table), Workload.marginals(2), policy, Domain.from_dict(fields))
    return make(request, noise=FakeNoise())


@pytest.fixture(scope="module")
def made() -> Release:
    return made_of(visits(3000), person_columns=["sex"])


def pairs(table: pd.DataFrame, column: str) -> np.ndarray:
    """float64[before, after]: shares of successive rows."""
    same = table["who"].to_numpy()[1:] == table["who"].to_numpy()[:-1]
    values = table[column].to_numpy()
    return pd.crosstab(values[:-1][same], values[1:][same], normalize=True).to_numpy()


def gaps(table: pd.DataFrame) -> np.ndarray:
    same = table["who"].to_numpy()[1:] == table["who"].to_numpy()[:-1]
    days = pd.to_datetime(table["day"]).to_numpy().astype("datetime64[D]").astype(np.int64)
    return np.diff(days)[same]


def test_without_noise_what_follows_what_and_when_come_back(made: Release) -> None:
    real = visits(3000).sort_values(["who", "day"], kind="stable")
    rows = made.sample(made.rows, seed=1).to_pandas()  # its people scatter as a sample does
    assert (rows.groupby("who")["sex"].nunique() == 1).all()
    assert np.abs(pairs(real, "ward") - pairs(rows, "ward")).sum() / 2 < 0.05  # of independent rows .6
    mine, theirs = gaps(rows), gaps(real)
    assert mine.min() >= 0 and abs(np.median(mine) - np.median(theirs)) <= 3
    assert abs((mine < 7).mean()) < 0.1 and (mine > 31).mean() < 0.02
    for column in ("ward", "sex"):
        shares = [each[column].value_counts(normalize=True).sort_index() for each in (real, rows)]
        assert (shares[0] - shares[1]).abs().max() < 0.03
    days = [pd.to_datetime(each["day"]).dt.month.value_counts(normalize=True) for each in (real, rows)]
    assert days[0].sub(days[1], fill_value=0).abs().sum() / 2 < 0.06


def pay(people: int) -> pd.DataFrame:
    """People whose pay stays to the last digit in seven of ten rows, and else grows by 3 or falls by 40; and
    whose employer, of 12, stays or changes with it. The bonus has nothing to do with the row before.
    """
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(people), 6)
    day = np.tile(np.arange(6), people)
    paid, firm = rng.integers(500, 1000, len(who)), rng.integers(0, 12, len(who))
    for i in range(len(who)):
        if i and who[i] == who[i - 1]:
            move = rng.choice([0, 3, -40], p=[0.7, 0.2, 0.1])
            paid[i] = paid[i - 1] + move
            firm[i] = firm[i - 1] if move >= 0 else (firm[i - 1] + rng.integers(1, 12)) % 12
    names = np.array([f"firm {i}" for i in range(12)])
    bonus = np.clip(rng.normal(500, 150, len(who)).round(), 0, 999).astype(np.int64)
    return pd.DataFrame({"who": who, "firm": names[firm], "paid": paid, "bonus": bonus, "day": day})


PAY = {
    "fields": [
        {"name": "firm", "categories": [f"firm {i}" for i in range(12)], "constraints": NEEDED},
        {"name": "paid", "type": "integer", "bins": 8, "constraints": {"minimum": 250, "maximum": 1100}},
        {"name": "bonus", "type": "integer", "bins": 8, "constraints": {"minimum": 0, "maximum": 999}},
        {"name": "day", "type": "integer", "categories": [*range(6)], "constraints": NEEDED},
    ]
}


def test_without_noise_what_stays_is_the_same_to_the_last_digit_and_what_changes_is_not() -> None:
    made = made_of(pay(2000), PAY, person_columns=[])
    rows = made.sample(made.rows, seed=2).to_pandas()
    same = rows["who"].to_numpy()[1:] == rows["who"].to_numpy()[:-1]
    moved = np.diff(rows["paid"])[same]
    assert abs((moved == 0).mean() - 0.7) < 0.06 and abs((moved == 3).mean() - 0.2) < 0.06
    assert (moved < -20).mean() > 0.05 and (np.abs(moved) < 100).mean() > 0.98
    stays = (rows["firm"].to_numpy()[1:] == rows["firm"].to_numpy()[:-1])[same]
    assert abs(stays.mean() - 0.9) < 0.05
    bonus = rows["bonus"].to_numpy(float)
    assert abs(np.corrcoef(bonus[1:][same], bonus[:-1][same])[0, 1]) < 0.045  # drawn by value, not by change


ROLES = {
    "fields": [
        {"name": "role", "categories": ["head", "spouse", "child"], "constraints": NEEDED},
        {"name": "age", "type": "integer", "bins": 10, "constraints": {"minimum": 0, "maximum": 99}},
        {"name": "day", "type": "integer", "categories": [0, 1, 2], "constraints": NEEDED},
    ]
}


def children_right() -> float:
    """Of rows of children who follow somebody in a home, how many are 20 to 40 years younger, as all are; of
    homes of a head, in half of them a spouse as old, and a child.
    """
    rng, homes = np.random.default_rng(6), 2000
    head, wed = rng.integers(40, 90, homes), rng.random(homes) < 0.5
    table = pd.DataFrame({"who": np.repeat(np.arange(homes), 3), "role": ["head", "spouse", "child"] * homes})
    table["age"] = np.repeat(head, 3) - np.tile([0, 0, 30], homes)
    table = table[(table["role"] != "spouse") | np.repeat(wed, 3)]
    table["day"] = table.groupby("who").cumcount()
    rows = made_of(table, ROLES, person_columns=[]).to_pandas()
    younger = -rows.groupby("who")["age"].diff()[rows["role"] == "child"].dropna()
    return float(younger.between(20, 40).mean())


def test_how_much_a_number_changes_hangs_on_which_step_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: changes beside the row before alone, as they were measured once."""
    assert children_right() > 0.93
    monkeypatch.setattr("factored_mwem.domain.companions._by_steps", lambda each, *_: each)
    assert children_right() < 0.9


def test_what_two_columns_of_the_row_before_tell_counts_once() -> None:
    """Claims come to who had some before; whether there are any follows from how many there are."""
    rng, people = np.random.default_rng(3), 3000
    claims = np.zeros((people, 3), dtype=np.int64)
    for t in range(3):
        likely = 0.1 if t == 0 else np.array([0.1, 0.35, 0.6, 0.85])[claims[:, t - 1]]
        claims[:, t] = np.where(rng.random(people) < likely, rng.integers(1, 4, people), 0)
    who, number = np.repeat(np.arange(people), 3), claims.ravel()
    real = pd.DataFrame({"who": who, "number": number, "any": (number > 0).astype(int)})
    real["day"] = np.tile(np.arange(3), people)
    fields = {
        "fields": [
            {"name": name, "type": "integer", "categories": [*range(size)], "constraints": NEEDED}
            for name, size in (("number", 4), ("any", 2), ("day", 3))
        ]
    }
    rows = made_of(real, fields, person_columns=[]).to_pandas()
    assert np.abs(pairs(real, "number") - pairs(rows, "number")).sum() / 2 < 0.05
    assert abs(rows["any"].mean() - real["any"].mean()) < 0.03


def test_the_manifest_names_companions_and_rows_have_none(made: Release) -> None:
    people = made.manifest.people
    assert people is not None and people.order_by == "day"
    assert people.companions == ("previous ward", "gap of day", "first day", "last day")
    assert made.sample(20, seed=1).column_names == ["who", "sex", "ward", "day"]
    marginal = made.marginal("ward", "previous ward")
    assert marginal.counts.shape == (4, 5)


def test_a_model_file_draws_the_same_sequences_and_damage_is_refused(made: Release, tmp_path: Any) -> None:
    path = tmp_path / "m.fmwem"
    made.save(path)
    assert Release.load(path).sample(50, seed=4).equals(made.sample(50, seed=4))
    header, arrays = parts_of(path)
    for change in ({"order_by": None}, {"order_by": "ward"}, {"companions": []}, {"constant": []}):
        damaged = {**header, "manifest": {**header["manifest"]}}
        damaged["manifest"]["people"] = {**header["manifest"]["people"], **change}
        write(path, damaged, arrays)
        with pytest.raises(InputError, match="damaged"):
            Release.load(path)


def test_rows_that_have_no_date_come_last() -> None:
    table = visits(600)
    table.loc[::7, "day"] = None
    day = {**FIELDS["fields"][2], "constraints": {**DAY, "maximum": "2020-10-27", "required": False}}
    rows = made_of(table, {"fields": [*FIELDS["fields"][:2], day]}).to_pandas()
    null = rows["day"].isna().to_numpy()
    same = rows["who"].to_numpy()[1:] == rows["who"].to_numpy()[:-1]
    assert 0.05 < null.mean() < 0.3 and not (null[:-1] & ~null[1:] & same).any()


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"order_by": "b"}, "order_by needs people"),
        ({"people": True, "privacy_id": "who", "order_by": "who"}, "the same in all rows"),
        ({"people": True, "privacy_id": "who", "order_by": "a", "person_columns": ["a"]}, "the same in all"),
    ],
)
def test_choices_that_do_not_fit_are_refused(choices: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Policy.of(**choices)


@pytest.mark.parametrize(
    ("rename", "order", "said"),
    [
        ({}, "when", "no such column"),
        ({}, "who is it", "no such column"),
        ({"sex": "previous ward"}, "day", "rename it"),
        ({"sex": "text"}, "text", "of type string"),
    ],
)
def test_what_puts_no_rows_in_order_is_refused_before_anything_is_spent(
    rename: dict[str, str], order: str, said: str
) -> None:
    noise, table = FakeNoise(), visits(50).rename(columns=rename)
    table = table.astype({"text": str}) if "text" in table else table
    policy = Policy.of(privacy_id="who", people=True, contributions=6, order_by=order)
    with pytest.raises(InputError, match=said):
        make(request_of(open_source(table), Workload.marginals(1), policy, None), noise=noise)
    assert not noise.calls
