"""Planted bugs: each is put into the running package from outside, and the configuration beside it must then
fail.
"""

from __future__ import annotations

import contextlib
import csv
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

from audit.verify.matrix import Configuration, crowded
from factored_mwem.accounting.accountant import Accountant, Charge
from factored_mwem.accounting.unit import Unit
from factored_mwem.backends import source
from factored_mwem.backends.codes import Codes
from factored_mwem.mechanisms import plan, tree
from factored_mwem.mechanisms.sweep import Sweep
from factored_mwem.privacy import discover, noise
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.privacy.session import Session
from factored_mwem.tables.contributions import without
from factored_mwem.tables.source import Table, open_table


@dataclass(frozen=True)
class Plant:
    """A bug, how to plant it, where it must show and within how many pairs; `seen`: a word of the failure
    that must be among them.
    """

    name: str
    plant: Callable[[], AbstractContextManager[Any]]
    where: Configuration
    pairs: int = 25
    seen: str = "moved by"


def raw_keys() -> AbstractContextManager[Any]:
    """Keys go to the library as they are, which cuts them off at a NUL."""

    def threshold(
        self: OpenDPNoise, counts: dict[str, int], *, scale: float, threshold: int
    ) -> dict[str, int]:
        dp = self._dp
        domain = dp.map_domain(dp.atom_domain(T="String"), dp.atom_domain(T="i64"))
        metric = dp.l02inf_distance(dp.absolute_distance(T="f64"))
        return (
            dict(dp.m.make_gaussian_threshold(domain, metric, scale=scale, threshold=threshold)(counts))
            if counts
            else {}
        )

    return mock.patch.object(OpenDPNoise, "threshold", threshold)


def greedy_reader() -> AbstractContextManager[Any]:
    """A quote that is open at a line's end takes the lines after it with it, as far as the next one."""

    def opened(given: Any, records: Any = "checked", *more: Any) -> Table:
        if not isinstance(given, str | Path) or Path(given).suffix != ".csv":
            return open_table(given, records, *more)
        names, *lines = Path(given).read_bytes().decode("utf-8", "replace").replace("\r", " ").split("\n")
        schema = pa.schema([(name, pa.string()) for name in names.split(",")])

        def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            records, is_open = list[str](), False
            for line in filter(None, lines):
                records[len(records) - is_open :] = [f"{records[-1]} {line}" if is_open else line]
                is_open ^= line.count('"') % 2 == 1
            cells = [[*next(csv.reader([record])), *[""] * len(schema)] for record in records]
            at = [schema.get_field_index(name) for name in columns]
            yield pa.RecordBatch.from_arrays(
                [pa.array([row[place] for row in cells]) for place in at], names=list(columns)
            )

        return Table(schema, True, read)

    return mock.patch.object(source, "open_table", opened)


def one_nobody() -> AbstractContextManager[Any]:
    """All rows without an id are one person's, so that one of them decides which others are kept."""

    def bound(table: Table, privacy_id: str, most: int, missing: Sequence[str] = ()) -> Table:
        rest = without(table, privacy_id)
        people = pa.chunked_array([batch.column(0) for batch in table.batches([privacy_id])]).combine_chunks()
        person = pc.fill_null(people.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
        order = np.argsort(person, kind="stable")
        begins = np.flatnonzero(np.diff(person[order], prepend=np.iinfo(np.int64).min))
        rank = np.empty(len(person), dtype=np.int64)
        rank[order] = np.arange(len(person)) - np.repeat(begins, np.diff(begins, append=len(person)))
        kept = rank < most

        def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            at = 0
            for batch in table.batches(columns):
                yield batch.filter(pa.array(kept[at : at + batch.num_rows]))
                at += batch.num_rows

        return Table(rest.schema, table.text, read)

    return mock.patch.object(source, "bound_contributions", bound)


def codes_of_the_input() -> AbstractContextManager[Any]:
    """A released dictionary has codes as wide as the input's, which grow with the categories that there
    are.
    """
    honest = plan.fit_columns

    def fit(domain: Any, table: Table, columns: Sequence[str] | None) -> Any:
        fitted, schema = honest(domain, table, columns)
        for at, field in enumerate(schema):
            came = table.schema.field(field.name).type
            if pa.types.is_dictionary(field.type) and pa.types.is_dictionary(came):
                schema = schema.set(
                    at,
                    field.with_type(
                        pa.dictionary(came.index_type, field.type.value_type, field.type.ordered)
                    ),
                )
        return fitted, schema

    return mock.patch.object(plan, "fit_columns", fit)


def of_unit(name: str, value: Callable[[Unit], int]) -> Callable[[], AbstractContextManager[Any]]:
    """A sensitivity that is another."""
    return lambda: mock.patch.object(Unit, name, property(value))


@contextlib.contextmanager
def uncharged() -> Iterator[None]:
    """Marginals of one attribute are measured for nothing."""
    charge = Accountant.charge

    def some(self: Accountant, entry: Charge) -> None:
        if len(entry.target) != 1:
            charge(self, entry)

    with mock.patch.object(Accountant, "charge", some):
        yield


@contextlib.contextmanager
def half_noise() -> Iterator[None]:
    """The sampler's scale is half of what was asked for, inside the adapter."""
    honest = OpenDPNoise._additive
    with mock.patch.object(OpenDPNoise, "_additive", lambda self, scale: honest(self, scale / 2)):
        yield


@contextlib.contextmanager
def noise_of_the_data() -> Iterator[None]:
    """The sampler's scale depends on what is to be noised."""
    honest = OpenDPNoise.add

    def add(self: OpenDPNoise, values: np.ndarray, *, scale: float) -> np.ndarray:
        return honest(self, values, scale=scale * (1 + (values.sum() % 2)))

    with mock.patch.object(OpenDPNoise, "add", add):
        yield


@contextlib.contextmanager
def exact_afterwards() -> Iterator[None]:
    """What comes back is not what the sampler said."""
    honest = OpenDPNoise.add

    def add(self: OpenDPNoise, values: np.ndarray, *, scale: float) -> np.ndarray:
        honest(self, values, scale=scale)
        return values

    with mock.patch.object(OpenDPNoise, "add", add):
        yield


@contextlib.contextmanager
def past_the_ledger() -> Iterator[None]:
    """Somebody else draws noise for the number of rows, and charges nothing."""
    honest = source.encode_table

    def encode(domain: Any, table: Table, *more: Any) -> Codes:
        codes = honest(domain, table, *more)
        OpenDPNoise(noise.Composition.PURE).add(np.array([len(codes.columns[0])]), scale=1.0)
        return codes

    with mock.patch.object(source, "encode_table", encode):
        yield


def low_threshold() -> AbstractContextManager[Any]:
    """A threshold whose delta is four times what is charged for it."""
    honest = discover.threshold_for

    def lower(scale: float, delta: Fraction, *, l0: int, linf: int) -> tuple[int, Fraction]:
        return honest(scale, 4 * delta, l0=l0, linf=linf)[0], honest(scale, delta, l0=l0, linf=linf)[1]

    return mock.patch.object(discover, "threshold_for", lower)


def lower_inside() -> AbstractContextManager[Any]:
    """A threshold that is lower than the one that was asked for, inside the adapter."""
    honest = noise._thresholded
    return mock.patch.object(
        noise, "_thresholded", lambda scale, threshold: honest(scale, threshold - round(2 * scale))
    )


def swept_by_the_table() -> AbstractContextManager[Any]:
    """Whether the last of the small marginals is measured depends on a private row."""
    honest = tree.measure_sweep

    def measure(session: Session, estimate: Any, sweep: Sweep, candidates: Any) -> None:
        kept = len(sweep.views) - int(session.rows._contents.data.columns[0].sum()) % 2
        honest(
            session, estimate, replace(sweep, views=sweep.views[:kept], parts=sweep.parts[:kept]), candidates
        )

    return mock.patch.object(tree, "measure_sweep", measure)


REPLACE = {"neighbours": "replace", "epsilon": 1.0}
ARROW = Configuration("", "arrow")
THREE = Configuration("", "arrow", choices={"contributions": 3})
REPLACED = Configuration("", "arrow", choices={**REPLACE, "rounds": 4})
PURE = Configuration("", "arrow", choices={**REPLACE, "delta": 0.0})
SIGNS = Configuration(
    "", "arrow", "parities", columns=("sex", "income"), choices={**REPLACE, "engine": "mwem"}
)
LEARNT = Configuration("", "arrow", learnt=True, columns=("race", "sex"), choices={"epsilon": 8.0})
OPEN = Configuration("", "csv", columns=("age", "race", "sex"), choices={"records": "lines", "delta": 0.0})
BY_ID = Configuration("", "arrow", by_id=True, choices={"delta": 0.0})
SWEPT = Configuration("", "arrow", "label", choices={"rounds": None, "epsilon": 8.0})
CROWDED = replace(crowded()[0], choices={"delta": 0.0})

PLANTS = (
    Plant("keys go to the library as they are", raw_keys, LEARNT, 50, "two keys became one"),
    Plant("an open quote takes what follows", greedy_reader, OPEN, 100),
    Plant("rows without an id are one person's", one_nobody, BY_ID, 150),
    Plant("released codes as wide as the input's", codes_of_the_input, CROWDED, 150, "schema"),
    Plant(
        "k in place of k^2", of_unit("l2_squared_of_marginal", lambda u: u._people * u.contributions), THREE
    ),
    Plant(
        "a marginal under replace charged as under add-remove",
        of_unit("l2_squared_of_marginal", lambda u: u.contributions**2),
        REPLACED,
    ),
    Plant("the same with pure noise", of_unit("l1_of_marginal", lambda u: u.contributions), PURE),
    Plant(
        "a score without the factor of replace", of_unit("l1_of_score", lambda u: u.contributions), REPLACED
    ),
    Plant(
        "a parity under replace charged as a counting query",
        of_unit("of_parity", lambda u: u.contributions),
        SIGNS,
    ),
    Plant("a draw without a charge", uncharged, ARROW, 10, "no charge of its own"),
    Plant("noise that is drawn past the ledger", past_the_ledger, ARROW, 10, "past the ledger"),
    Plant("noise at half scale", half_noise, ARROW, 25),
    Plant("noise whose scale depends on the data", noise_of_the_data, ARROW, 25, "the sampler"),
    Plant("a sweep that looks at the table", swept_by_the_table, SWEPT, 25, "depend"),
    Plant("exact counts after the noise", exact_afterwards, ARROW, 10, "not what came back"),
    Plant("the exact number of rows", of_unit("total_is_public", lambda _: True), ARROW, 25, "depend"),
    Plant("a threshold too low for its delta", low_threshold, LEARNT, 25),
    Plant("a threshold lower than was asked for", lower_inside, LEARNT, 25),
)
