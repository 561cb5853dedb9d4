"""Planted bugs: each replaces one part of the running package from outside. A check of the audit, a
configuration of `fmwem verify`, or both, stand beside it and must then see it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.matrix import (
    Configuration,
    alike,
    calculated,
    crowded,
    looked,
    noted,
    of_people,
    of_two,
    ordered,
    related,
    spelt,
)
from factored_mwem.accounting import accountant
from factored_mwem.accounting.accountant import Accountant, Charge, Mechanism, scale_for
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.singles import SingleCells
from factored_mwem.kernels.scoring import Answers
from factored_mwem.ledger.journal import Journal
from factored_mwem.mechanisms import plan, tree
from factored_mwem.privacy import discover, functions, noise
from factored_mwem.privacy.counts import CandidateTables
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.privacy.other.edges import AllEdges, Edges
from factored_mwem.privacy.single_values import Looked
from factored_mwem.tables.backends import local, opening
from factored_mwem.tables.backends import people as people_backend
from factored_mwem.tables.backends.people import People
from factored_mwem.tables.codes import broken, rest
from factored_mwem.tables.codes.kinds import NUMBERS
from factored_mwem.tables.codes.notation import DIGITS
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.codes.rest import WEIGHT
from factored_mwem.tables.inputs import contributions, people
from factored_mwem.tables.inputs.source import Table

Replace = Callable[[Any], Any]
"""From the honest part to the one that takes its place."""


@dataclass(frozen=True)
class Verify:
    """A configuration of `fmwem verify`, within how many pairs a bug must show there, and a word of the
    failure that must be among them.
    """

    where: Configuration
    pairs: int = 25
    seen: str = "moved by"


@dataclass(frozen=True)
class Plant:
    """A bug: `target.part` is replaced. `checks`: (check, runs) that must catch it, the cheapest first."""

    name: str
    target: Any
    part: str
    bug: Replace
    checks: tuple[tuple[str, int], ...] = ()
    verify: Verify | None = None

    def plant(self) -> AbstractContextManager[Any]:
        return mock.patch.object(self.target, self.part, self.bug(getattr(self.target, self.part)))


# ---- the sampler


def scaled(factor: float) -> Replace:
    """Noise on another scale than the one it is asked for."""
    return lambda honest: lambda self, values, *, scale: honest(self, values, scale=scale * factor)


def reused(honest: Any) -> Any:
    """One vector of noise for all measurements of a run."""

    def add(self: OpenDPNoise, values: np.ndarray, *, scale: float) -> np.ndarray:
        if not hasattr(self, "vector"):
            self.vector = honest(self, np.zeros(64, dtype=np.int64), scale=scale)
        return values + self.vector[: len(values)]

    return add


def drawn(draw: Callable[[OpenDPNoise, float, int], np.ndarray]) -> Replace:
    """Noise from somewhere else, by its scale and its number."""
    return lambda _: lambda self, values, *, scale: values + draw(self, scale, len(values))


def seeded(self: OpenDPNoise, scale: float, number: int) -> np.ndarray:
    """From a generator that starts anew in every run."""
    if not hasattr(self, "rng"):
        self.rng = np.random.default_rng(1)
    draw = self.rng.normal if self.composition is Composition.ZCDP else self.rng.laplace
    return np.rint(draw(scale=scale, size=number)).astype(np.int64)


def textbook(_: OpenDPNoise, scale: float, number: int) -> np.ndarray:
    """Laplace noise by the textbook's formula in floating point."""
    uniform = np.random.default_rng().random(number) - 0.5
    return -scale * np.sign(uniform) * np.log1p(-2 * np.abs(uniform))


def rounded_late(_: OpenDPNoise, scale: float, number: int) -> np.ndarray:
    """The same, rounded, but only after it was scaled."""
    return np.rint(textbook(_, scale, number)).astype(np.int64)


def of_the_data(honest: Any) -> Any:
    """The sampler's scale depends on what is to be noised."""
    return lambda self, values, *, scale: honest(self, values, scale=scale * (1 + values.sum() % 2))


def exact_afterwards(honest: Any) -> Any:
    """What comes back is not what the sampler gave."""
    return lambda self, values, *, scale: (honest(self, values, scale=scale), values)[1]


def raw_keys(_: Any) -> Any:
    """Keys go to the library as they are, which cuts them off at a NUL."""
    thresholded = noise._thresholded
    return lambda _, counts, *, scale, threshold, listed=(): (
        dict(thresholded(scale, threshold)(counts)) if counts else {}
    )


def heard_twice(honest: Any) -> Any:
    """Among the numbers with zeros, and among all whole numbers, too."""
    return lambda self: np.concatenate([self.votes(), honest(self)[len(self.votes()) :]])


def grouped_and_plain(honest: Any) -> Any:
    """A number with its thousands apart counts as one without, too."""
    return lambda self, beside: honest(self, beside) + np.roll(honest(self, beside), DIGITS[2])


def with_a_sign_and_without(honest: Any) -> Any:
    """A number with a sign of money counts as one with its neighbour, too."""
    return lambda self: honest(self) + np.roll(honest(self), 1)


def told_in_pairs(_: Any) -> Any:
    """A cell tells something to each of the others that are like it."""
    return lambda self, most: np.array([0, (self.counts**2).sum(), 0, 0], dtype=np.int64)


def ended_by_the_table(honest: Any) -> Any:
    """Whether there is another look at all columns follows from how many rows there are."""

    def looked(session: Any, fields: Any, profiles: Any, few: float, most: Fraction, _: Any) -> Fraction:
        odd = bool(profiles[0]._contents.counts.sum() % 2)
        first: Fraction = honest(session, fields, profiles, few, most, lambda seen: (True, odd))
        return first

    return looked


def all_beside_what_stands_out(honest: Any) -> Any:
    """Where more stands out, that and the summed gaps are the score, not the larger of both."""

    def scores(self: CandidateTables, answers: Answers) -> np.ndarray:
        whole, clear = (
            honest(self, answers._replace(sparse=least)).copy() for least in (math.inf, answers.sparse)
        )
        return np.where(clear > whole, clear + whole, clear)

    return scores


def pairs_that_share(_: Any) -> Any:
    """Rows that share a text count for each of the others that do."""
    return lambda self, most: np.array([(np.maximum(self.counts - most, 0) ** 2).sum()])


def with_all_like_them(honest: Any) -> Any:
    """One row that breaks a function makes all rows break it."""
    return lambda *asked: honest(*asked) | bool(honest(*asked).any())


def counted_two_times(honest: Any) -> Any:
    """One row that breaks a function, or an order, counts for two."""
    return lambda *asked: 2 * honest(*asked)


def of_open_combinations(_: Any) -> Any:
    """Not the rows beside the most frequent code, but all rows with a combination of more than one."""

    def undetermined(rows: Any, asked: Any, rest: Any) -> np.ndarray:
        found = []
        for of, b in asked:
            clique = tuple(sorted((*of, b)))
            shape = [int(rows.levels.sizes[a]) for a in clique]
            table = np.moveaxis(rows.marginal(clique).reshape(shape), clique.index(b), -1)
            found.append(table[(table > 0).sum(axis=-1) > 1].sum())
        return np.array(found, dtype=np.int64)

    return undetermined


def lower_inside(honest: Any) -> Any:
    """A threshold that is lower than the one that was asked for, inside the adapter."""
    return lambda scale, threshold: honest(scale, threshold - round(2 * scale))


# ---- what is charged


def of_unit(value: Callable[[Unit], Any]) -> Replace:
    """A sensitivity, or a fact of the unit it follows from, that is another."""
    return lambda _: property(value, lambda self, _: None)


def uncharged(free: Callable[[Any], bool]) -> Replace:
    """Such a measurement is made for nothing."""
    return lambda charge: lambda self, entry: None if free(entry.target) else charge(self, entry)


def four_times_delta(honest: Any) -> Any:
    """A threshold whose delta is four times what is charged for it."""
    return lambda scale, delta, **more: (honest(scale, 4 * delta, **more)[0], honest(scale, delta, **more)[1])


def past_the_ledger(honest: Any) -> Any:
    """Somebody else draws noise for the number of rows, and charges nothing."""

    def encode(*arguments: Any) -> Any:
        codes = honest(*arguments)
        OpenDPNoise(Composition.PURE).add(np.array([len(codes.columns[0])]), scale=1.0)
        return codes

    return encode


def measured_afresh(_: Any) -> Any:
    """What an earlier attempt drew is forgotten, and drawn again."""
    return lambda journal: journal._records.clear()


# ---- what is read


def charged_alone(mechanism: Mechanism, name: str, read: Callable[[Any, Any], Any]) -> Replace:
    """Charged as it should be, and then `read` off the column without noise."""

    def reading(self: discover.ColumnDiscovery, cost: Fraction, more: Fraction) -> discover.FoundColumn:
        threshold = mechanism is Mechanism.THRESHOLD
        sensitivity, delta = self.session.unit.l2_squared_of_marginal, more if threshold else Fraction(0)
        scale = scale_for(mechanism, cost if threshold else cost + more, sensitivity=sensitivity)
        entry = Charge("discover", mechanism, ("x", name), scale, sensitivity, delta)
        return replace(self.found, **read(self, self.session._unseal(self.sealed, entry)))

    return lambda _: reading


def ends(reader: discover.ColumnDiscovery, column: Any) -> dict[str, Any]:
    """The least and the greatest value."""
    units, counts = column.numbers(reader.found.kinds, "integer")
    return {"edges": units[[0, -1]], "noisy": counts}


def shift_of_the_table(honest: Any) -> Any:
    """Half of the largest count is taken off all counts."""
    return lambda self, without, least=0: honest(self, without, int(self.counts.max()) // 2)


def whole_weights(_: Any) -> Any:
    """However many values a row shares its weight among, each gets all of it."""
    return lambda claim, most: np.array([0] + [WEIGHT] * most, dtype=np.int64)


def counted_twice(honest: Any) -> Any:
    """A number that needs decimals has its own key, beside that of all such."""

    def keys(found: Any, column: ColumnProfile, least: int) -> Any:
        counts, finer = honest(found, column, least)
        more = column.popular(NUMBERS, "number", 1.0, least) if finer else {}
        return {**{"v" + repr(value): n for value, n in more.items()}, **counts}, finer

    return keys


def in_two_cells(honest: Any) -> Any:
    """In the second look at single values a row counts in its cell and in the next."""

    def counted(self: Looked, column: ColumnProfile) -> np.ndarray:
        counts: np.ndarray = honest(self, column)
        return counts if self.classes is not None else counts + np.roll(counts, 1)

    return counted


def of_two_multiples(honest: Any) -> Any:
    """Every other multiple of a step has the cell of the one before."""

    def apart(*asked: Any) -> SingleCells | None:
        cells = honest(*asked)
        return cells and replace(cells, single=np.repeat(cells.single[::2], 2)[: len(cells.single)])

    return apart


def own_popular(honest: Any) -> Any:
    """Cells leave out what is popular in the table, not in the noisy answers."""

    def histogram(self: ColumnProfile, of: Any, unit: str, scale: float, edges: np.ndarray, _: Any) -> Any:
        units, counts = self.numbers(of, unit, scale)
        return honest(self, of, unit, scale, edges, units[counts > 4])

    return histogram


def both_triangles(honest: Any) -> Any:
    """What a symmetric matrix gives where its two halves are added: an edge is 2, at the sensitivity of 1."""
    return lambda self, what: honest(self, what) * (2 if what is AllEdges.PAIRS else 1)


def swept_by_the_table(honest: Any) -> Any:
    """Whether the last of the small marginals is measured depends on a private row."""

    def measure(session: Any, estimate: Any, sweep: Any, candidates: Any) -> None:
        kept = len(sweep.views) - int(session.rows._contents.data.columns[0].sum()) % 2
        fewer = replace(sweep, views=sweep.views[:kept], parts=sweep.parts[:kept])
        honest(session, estimate, fewer, candidates)

    return measure


# ---- who decides what about others


def greedy_reader(honest: Any) -> Any:
    """A quote that is open at a line's end takes the lines after it with it, as far as the next one."""

    def opened(place: Any, *more: Any) -> Table:
        if not str(place).endswith(".csv"):
            return honest(place, *more)
        lines = Path(place).read_bytes().decode("utf-8", "replace").replace("\r", " ").split("\n")
        names, *rows = filter(None, csv.reader(lines))
        padded = [row + [""] * len(names) for row in rows]
        typed = honest(pa.table({name: [row[at] for row in padded] for at, name in enumerate(names)}))
        return Table(typed.schema, True, typed.batches)

    return opened


def one_nobody(honest: Any) -> Any:
    """All rows without an id are one person's, so that one of them decides which others are kept."""

    def bound(table: Table, privacy_id: str, *more: Any) -> Table:
        def named(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            for batch in table.batches(columns):
                cells = {name: batch.column(name) for name in columns}
                if privacy_id in cells:
                    cells[privacy_id] = pc.fill_null(cells[privacy_id], "nobody")
                yield pa.RecordBatch.from_pydict(cells)

        return honest(Table(table.schema, table.text, named), privacy_id, *more)

    return bound


def whole_rows(_: Any) -> Any:
    """A row of a person weighs as much as if it were the only one."""
    return lambda self, rows: self.grains


def all_rows_used(honest: Any) -> Any:
    """However many rows a person has, all are used, with the weight of those that should be."""

    def drawn(ids: pa.Array, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        person, _, number = honest(ids, most)
        return person, person >= 0, number

    return drawn


def rows_for_people(_: Any) -> Any:
    """Of how many rows a person has, each row is counted, not each person."""
    return lambda self, most: np.bincount(self._rows, minlength=most + 1)[1:].astype(np.int64)


def pairs_for_people(honest: Any) -> Any:
    """Of how often rows of a person agree, each pair weighs a person."""

    def counted(person: np.ndarray, codes: Any, groupings: Any, whole: int, family: Any) -> np.ndarray:
        most = int(np.bincount(person).max(initial=1))
        return honest(person, codes, groupings, whole * most * max(most - 1, 1), family)

    return counted


def drawn_by_all(_: Any) -> Any:
    """How many people there are decides which rows of each are used."""
    return lambda ids: np.full(len(ids), len(ids), dtype=np.uint64)


def anybodys_row_before(honest: Any) -> Any:
    """Before a person's first row comes the last row of whoever stands before."""

    def window(*asked: Any) -> tuple[np.ndarray, ...]:
        person, used, number, previous = honest(*asked)
        return person, used, number, np.arange(len(previous)) - 1

    return window


def codes_of_the_input(honest: Any) -> Any:
    """A released dictionary has codes as wide as the input's, which grow with the categories that there
    are.
    """

    def fit(domain: Any, table: Table, columns: Sequence[str] | None) -> Any:
        fitted, schema = honest(domain, table, columns)
        for at, column in enumerate(schema):
            came, kind = table.schema.field(column.name).type, column.type
            if pa.types.is_dictionary(kind) and pa.types.is_dictionary(came):
                wide = pa.dictionary(came.index_type, kind.value_type, kind.ordered)
                schema = schema.set(at, column.with_type(wide))
        return fitted, schema

    return fit


MARGINAL = "measure marginal: pure, add-remove, k=1"
ROWS = "measure rows: pure, add-remove, k=1"
RELEASE = "release mwem, marginals: epsilon 2, add-remove, k=1"
PAIRS = "measure pairs of a graph: pure, add-remove, k=1"
OWN_VALUE = "discover value of one person: zcdp, add-remove, k=1"
SPAN = "discover span and finer cells: zcdp, add-remove, k=2"

REPLACED = {"neighbours": "replace", "epsilon": 1.0}
PARTS, TWO = ("sex", "income"), ("race", "sex")
ARROW = Configuration("", "arrow")
THREE = Configuration("", "arrow", choices={"contributions": 3})
SWAPPED = Configuration("", "arrow", choices={**REPLACED, "rounds": 4})
PURE = Configuration("", "arrow", choices={**REPLACED, "delta": 0.0})
SIGNS = Configuration("", "arrow", "parities", columns=PARTS, choices={**REPLACED, "engine": "mwem"})
LEARNT = Configuration("", "arrow", learnt=True, columns=TWO, choices={"epsilon": 8.0})
RARER = Configuration("", "arrow", learnt=True, choices={"epsilon": 8.0})
OPEN = Configuration("", "csv", columns=("age", *TWO), choices={"records": "lines", "delta": 0.0})
BY_ID = Configuration("", "arrow", by_id=True, choices={"delta": 0.0})
PEOPLE = Configuration("", "arrow", by_id=True, columns=TWO, choices={"people": True, "contributions": 3})
ORDERED = of_people("add-remove", "arrow", order=True)
SWEPT = Configuration("", "arrow", "label", choices={"rounds": None, "epsilon": 8.0})
DECIMALS, TWICE, STEPPED = looked("add-remove", 1, "csv")
CROWDED = replace(crowded()[0], choices={"delta": 0.0})

PLANTS = (
    Plant("noise at half scale", OpenDPNoise, "add", scaled(0.5), (
        (ROWS, 4000),
        ("measure residuals of 2 x 2: zcdp, add-remove, k=2", 4000),
        ("measure sketch of 4 rows: zcdp, replace, k=1", 4000),
        ("discover votes: zcdp, add-remove, k=1", 4000),
        (RELEASE, 2400),
        (PAIRS, 4000),
        ("measure cut of a graph: zcdp, add-remove, k=2", 4000),
    ), Verify(ARROW)),
    Plant("an edge that counts in both triangles", Edges, "exact", both_triangles, ((PAIRS, 4400),)),
    Plant("selection with twice the epsilon", OpenDPNoise, "select", scaled(0.5), (
        ("select marginal: zcdp, replace, k=1", 3200),
        ("select marginal: pure, add-remove, k=1", 6000),
    )),
    Plant("sensitivity 1 under replace", Unit, "_people", of_unit(lambda _: 1), (
        ("measure question of parities: pure, replace, k=1", 4400),
        ("measure marginal: pure, replace, k=1", 6000),
        ("measure sketch of 1 rows: pure, replace, k=1", 4000),
    )),
    Plant("contributions ignored", Unit, "contributions", of_unit(lambda _: 1), (
        ("measure rows: zcdp, add-remove, k=2", 3600),
        ("measure sketch of 4 rows: zcdp, add-remove, k=2", 4000),
        ("measure residuals of 2 x 2: zcdp, add-remove, k=2", 4000),
        (SPAN, 4000),
    )),
    Plant("exact n", Unit, "total_is_public", of_unit(lambda _: True), ((RELEASE, 560),),
          Verify(ARROW, seen="depend")),
    Plant("a measurement not charged", Accountant, "charge", uncharged(lambda target: target == ("a", "b")), (
        (MARGINAL, 2000),
        ("release mwem, histogram first: epsilon 2, add-remove, k=1", 2400),
    )),
    Plant("values read off the data", discover.ColumnDiscovery, "popular",
          charged_alone(Mechanism.THRESHOLD, "values", lambda _, column: {"texts": column.texts(())}),
          ((OWN_VALUE, 400),)),
    Plant("bounds from min/max", discover.ColumnDiscovery, "cells",
          charged_alone(Mechanism.GAUSSIAN, "range", ends), ((SPAN, 600),)),
    Plant("a row gives all of its weight to each value", rest, "shared", whole_weights,
          (("discover rarer values: zcdp, add-remove, k=1", 800),), Verify(RARER)),
    Plant("a shift that follows the table", ColumnProfile, "texts", shift_of_the_table,
          (("discover popular values together: zcdp, add-remove, k=1", 600),)),
    Plant("cells without what is popular in the table", ColumnProfile, "histogram", own_popular,
          (("discover coarse cells: zcdp, add-remove, k=1", 800),)),
    Plant("the same noise reused", OpenDPNoise, "add", reused,
          (("measure two marginals: pure, add-remove, k=1", 400),)),
    Plant("noise from a fixed seed", OpenDPNoise, "add", drawn(seeded), ((ROWS, 400), (RELEASE, 640))),
    Plant("float rounding: low bits", OpenDPNoise, "add", drawn(textbook), ((MARGINAL, 3200),)),
    Plant("float rounding: noise rounded, on a large scale", OpenDPNoise, "add", drawn(rounded_late),
          (("measure rows on a scale of 2^57: pure, add-remove, k=1", 400),)),
    Plant("a resumed run that measures afresh", Journal, "replay", measured_afresh, (
        ("measure rows, resumed twice: pure, add-remove, k=1", 3200),
        ("release mwem, resumed after crashes: epsilon 2, add-remove, k=1", 1600),
    )),
    Plant("a threshold with four times its delta", discover, "threshold_for", four_times_delta,
          ((OWN_VALUE, 4000),), Verify(LEARNT)),
    Plant("keys go to the library as they are", OpenDPNoise, "threshold", raw_keys,
          verify=Verify(LEARNT, 50, "two keys became one")),
    Plant("an open quote takes what follows", opening, "open_table", greedy_reader, verify=Verify(OPEN, 100)),
    Plant("rows without an id are one person's", contributions, "bound_contributions", one_nobody,
          verify=Verify(BY_ID, 60)),
    *(Plant(f"rows without an id are one person's, of {k}", contributions, "bound_contributions", one_nobody,
            verify=Verify(replace(BY_ID, columns=TWO, choices={"contributions": k}), 150)) for k in (2, 20)),
    Plant("ten times the rho that epsilon allows", accountant, "largest_rho",
          lambda honest: lambda *promised: 10 * honest(*promised), verify=Verify(ARROW, 1, "come to")),
    Plant("a tenth of the epsilon that rho comes to", accountant, "epsilon_of",
          lambda honest: lambda *spent: honest(*spent) / 10, verify=Verify(ARROW, 1, "come to")),
    Plant("a row of a person weighs one person", Unit, "row_weight", whole_rows, verify=Verify(PEOPLE)),
    Plant("all rows of a person are used", people, "_drawn", all_rows_used, verify=Verify(PEOPLE, 100)),
    Plant("rows counted for people", People, "people_by_rows", rows_for_people, verify=Verify(PEOPLE)),
    Plant("pairs counted for people", people_backend, "agreement_of", pairs_for_people,
          verify=Verify(PEOPLE)),
    Plant("rows of a person drawn by how many people there are", people, "_hashes", drawn_by_all,
          verify=Verify(PEOPLE, 100)),
    Plant("a row before that is somebody else's", people, "_window", anybodys_row_before,
          verify=Verify(ORDERED, 10)),
    Plant("a window of rows drawn by how many people there are", people, "_hashes", drawn_by_all,
          verify=Verify(ORDERED, 10)),
    Plant("released codes as wide as the input's", plan, "fit_columns", codes_of_the_input,
          verify=Verify(CROWDED, 150, "schema")),
    Plant("k in place of k^2", Unit, "l2_squared_of_marginal",
          of_unit(lambda unit: unit._people * unit.contributions), verify=Verify(THREE)),
    Plant("a marginal under replace charged as under add-remove", Unit, "l2_squared_of_marginal",
          of_unit(lambda unit: unit.contributions**2), verify=Verify(SWAPPED)),
    Plant("the same with pure noise", Unit, "l1_of_marginal", of_unit(lambda unit: unit.contributions),
          verify=Verify(PURE)),
    Plant("a score without the factor of replace", Unit, "l1_of_score",
          of_unit(lambda unit: unit.contributions), verify=Verify(SWAPPED)),
    Plant("a parity under replace charged as a counting query", Unit, "of_parity",
          of_unit(lambda unit: unit.contributions), verify=Verify(SIGNS)),
    Plant("a draw without a charge", Accountant, "charge", uncharged(lambda target: len(target) == 1),
          verify=Verify(ARROW, 10, "no charge of its own")),
    Plant("noise that is drawn past the ledger", local, "encode_table", past_the_ledger,
          verify=Verify(ARROW, 10, "past the ledger")),
    Plant("noise whose scale depends on the data", OpenDPNoise, "add", of_the_data,
          verify=Verify(ARROW, seen="the sampler")),
    Plant("a sweep that looks at the table", tree, "measure_sweep", swept_by_the_table,
          verify=Verify(SWEPT, seen="depend")),
    Plant("exact counts after the noise", OpenDPNoise, "add", exact_afterwards,
          verify=Verify(ARROW, 10, "not what came back")),
    Plant("a number with zeros that votes twice", ColumnProfile, "spelt_votes", heard_twice,
          verify=Verify(spelt())),
    Plant("a number that counts as grouped and as plain", ColumnProfile, "digit_votes", grouped_and_plain,
          verify=Verify(noted())),
    Plant("a number with a sign and without", ColumnProfile, "beside_votes", with_a_sign_and_without,
          verify=Verify(noted())),
    Plant("pairs of cells at a glance", ColumnProfile, "told", told_in_pairs, verify=Verify(LEARNT)),
    Plant("a glance that the table ends", discover, "glances", ended_by_the_table,
          verify=Verify(LEARNT, 10, "depend")),
    Plant("a score of what stands out and of all the rest", CandidateTables, "scores",
          all_beside_what_stands_out, verify=Verify(alike())),
    Plant("pairs of rows that share a text", ColumnProfile, "beyond", pairs_that_share,
          verify=Verify(LEARNT)),
    Plant("rows that break a function counted with all like them", broken, "_breaks", with_all_like_them,
          verify=Verify(related("add-remove", 1, "csv"))),
    Plant("rows that break arithmetic counted with all like them", broken, "_breaks", with_all_like_them,
          verify=Verify(calculated("add-remove", 1, "csv"))),
    Plant("a row out of order that counts twice", broken, "_breaks", counted_two_times,
          verify=Verify(ordered("add-remove", 1, "csv"))),
    Plant("all rows of two codes that leave a third open", functions, "undetermined", of_open_combinations,
          verify=Verify(of_two("add-remove", 1, "csv"))),
    Plant("a number with decimals has two keys", discover, "first_keys", counted_twice,
          verify=Verify(DECIMALS, 60)),
    Plant("a row in two cells of the second look", Looked, "counted", in_two_cells, verify=Verify(TWICE, 22)),
    Plant("a row in a cell of two multiples of a step", SingleCells, "apart", of_two_multiples,
          verify=Verify(STEPPED, 50)),
    Plant("a threshold lower than was asked for", noise, "_thresholded", lower_inside, verify=Verify(LEARNT)),
)  # fmt: skip
"""The first are for the audit; those with a `verify` for that."""
AUDITED = tuple(plant for plant in PLANTS if plant.checks)
VERIFIED = {plant.name: plant for plant in PLANTS if plant.verify}
