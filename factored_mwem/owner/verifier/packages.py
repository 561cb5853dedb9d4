"""Packages: NOT PRIVATE. Whether one root, with all that hangs on it, moves what a release of linked tables
shows by more than was charged: see `verify`. Tables are read once, and neighbours are put together in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.random import Generator

from factored_mwem.errors import InputError
from factored_mwem.owner.verifier.tap import Tap, tapped
from factored_mwem.owner.verifier.verify import (
    MAX_COMPARED_ROWS,
    Comparing,
    Failure,
    Verified,
)
from factored_mwem.owner.verifier.watch import Parted, WatchedRelease
from factored_mwem.pipeline.linked import make_linked
from factored_mwem.pipeline.linked_request import LinkedRequest
from factored_mwem.pipeline.linked_rows import LinkedRelease
from factored_mwem.pipeline.linked_views import key_of, whole
from factored_mwem.request.package import Package
from factored_mwem.request.policy import Choices, Policy
from factored_mwem.tables.inputs.source import Private

PAIRS_OF_A_BASE = 10
PRIMED = 12
"""Roots that are added to every other base."""
CHILDREN = (0, 1, 2, 40)
"""How many rows hang on each row of a root that comes."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LinkedSheet(Private):
    """The rows of the private tables of a package, by name."""

    package: Package
    rows: dict[str, pa.Table]

    @classmethod
    def of(cls, request: LinkedRequest, command: str) -> LinkedSheet:
        """All rows, for a `command` that changes them."""
        why = f"{command} changes rows of tables on this machine; give it files or data frames"
        read = {name: source.read_here(why) for name, source in request.sources.items()}
        return cls(request.package, {name: whole(table) for name, table in read.items()})

    @property
    def sources(self) -> Package:
        """The package of these rows."""
        tables = (replace(table, source=self.rows[table.name]) for table in self.package.private)
        return replace(self.package, private=tuple(tables))

    def request_like(self, own: LinkedRequest) -> LinkedRequest:
        """The same request of these rows."""
        return LinkedRequest.of(self.sources, own.order, own.policy, domains=own.domains)

    @property
    def roots(self) -> list[Any]:
        """The keys of the root that are there, each once."""
        root = self.package.root
        return pc.unique(key_of(self.rows[root.name], root.key).drop_null()).to_pylist()

    def without(self, roots: Collection[Any]) -> LinkedSheet:
        """The rows without some roots, and without what hangs on them and on no other."""
        rows, lost = dict(self.rows), set[Any]()
        for table in self.package.private:
            cells = self.rows[table.name]
            if table.parent is None:
                lost = set(roots)
                kept = np.array([key not in lost for key in key_of(cells, table.key).to_pylist()], dtype=bool)
            else:
                lost = self._lost(rows, table.parent.of)
                references = key_of(cells, table.parent.column).to_pylist()
                kept = np.array([reference not in lost for reference in references], dtype=bool)
            rows[table.name] = cells.filter(pa.array(kept, pa.bool_()))
        return replace(self, rows=rows)

    def _lost(self, rows: dict[str, pa.Table], name: str) -> set[Any]:
        """The keys of a table that no row has any more."""
        key = next(table.key for table in self.package.private if table.name == name)
        before, after = (set(key_of(each[name], key).to_pylist()) for each in (self.rows, rows))
        return before - after - {None}

    def with_another(self, rng: Generator) -> LinkedSheet:
        """The rows with a root more: copies of others' rows under it, of which some have a key that another's
        row has already. What is new hangs on keys that are new: else it would be the other's, too.
        """
        rows, new = dict(self.rows), dict[str, list[Any]]()
        for table in self.package.private:
            cells = self.rows[table.name]
            above = [None] if table.parent is None else new[table.parent.of]
            each = 1 if table.parent is None else int(rng.choice(CHILDREN))
            hung = [key for key in above for _ in range(each)] if len(cells) else []
            copies = cells.take(pa.array(rng.integers(0, max(len(cells), 1), len(hung)), pa.int64()))
            if table.parent is not None:
                copies = _with(copies, table.parent.column, hung)
            if table.key is not None:
                own = _new_keys(cells, table.key, len(hung))
                odd = rng.random(len(own)) < (0.0 if table.parent is None else 0.3)
                taken = (
                    cells.column(table.key).take(pa.array(rng.integers(0, len(cells), len(own)))).to_pylist()
                )
                new[table.name] = [key for key, other in zip(own, odd, strict=True) if not other]
                keys = [t if other else k for t, other, k in zip(taken, odd, own, strict=True)]
                copies = _with(copies, table.key, keys)
            rows[table.name] = pa.concat_tables([cells, copies])
        return replace(self, rows=rows)


def _new_keys(cells: pa.Table, name: str, many: int) -> list[Any]:
    """Keys that no row has."""
    column = cells.column(name)
    if pa.types.is_integer(column.type):
        begin = (pc.max(column).as_py() or 0) + 1
        return list(range(begin, begin + many))
    taken = set(column.to_pylist())
    return [key for key in (f"new {n}" for n in range(many + len(taken))) if key not in taken][:many]


def _with(cells: pa.Table, name: str, values: list[Any]) -> pa.Table:
    at = cells.schema.get_field_index(name)
    return cells.set_column(at, cells.schema.field(at), pa.array(values, cells.schema.field(at).type))


def verify_tables(
    package: Package,
    marginals: int,
    policy: Policy | None = None,
    *,
    domains: dict[str, Any] | None = None,
    pairs: int = 100,
    seed: int | None = None,
    report: Callable[[int], None] = lambda _: None,
    **choices: Unpack[Choices],
) -> Verified:
    """NOT PRIVATE. Whether `pairs` neighbours of a package, one root with all that hangs on it apart, keep
    the promise of `release_tables`, whose arguments these are; see `verify`. Raises the same errors as that.
    """
    if pairs < 1:
        raise InputError(f"pairs={pairs}: must be a whole number, 1 or more")
    policy = Policy.given(policy, choices)
    request = LinkedRequest.of(package, marginals, policy, domains=domains)
    sheet = LinkedSheet.of(request, "verify")
    if len(sheet.roots) < 2:
        raise InputError("the package has too few roots to have a neighbour")
    with tapped() as tap:
        return _PackageSearch(request, sheet, tap, np.random.default_rng(seed)).run(pairs, report)


@dataclass(slots=True, eq=False, repr=False)
class _PackageSearch(Comparing):
    """The pairs so far, and what was found."""

    request: LinkedRequest
    sheet: LinkedSheet
    tap: Tap
    rng: Generator

    def run(self, pairs: int, report: Callable[[int], None]) -> Verified:
        own, primed = self.sheet, False
        while self.pairs < pairs:
            run, self.sheet = WatchedRelease(self.tap, self.request.policy), own
            for _ in range(PRIMED if primed else 0):  # roots that claim each other's rows
                self.sheet = self.sheet.with_another(self.rng)
            primed = not primed
            shown = _public(self._made(self.sheet, run))
            self._note(run.findings, "the package itself")
            for _ in range(min(PAIRS_OF_A_BASE, pairs - self.pairs)):
                self._compare(run, shown)
                self.pairs += 1
                report(self.pairs)
        return self.verified

    def _made(self, sheet: LinkedSheet, run: WatchedRelease) -> LinkedRelease:
        return make_linked(sheet.request_like(self.request), run)

    def _compare(self, base: WatchedRelease, shown: dict[str, Any]) -> None:
        """One pair: the neighbour goes the base run's way to its end, or the pair fails."""
        if self.rng.random() < 0.5:
            root = self.rng.choice(np.array(self.sheet.roots, object))
            words, sheet = "a root less", self.sheet.without([root])
        else:
            words, sheet = "a root more", self.sheet.with_another(self.rng)
        run = WatchedRelease(self.tap, self.request.policy, base)
        try:
            release = self._made(sheet, run)
        except Parted:
            self._note(run.findings, words)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it did not happen on the base
            why = f"one root decides whether there is a release: {type(error).__name__}"
            self._note(run.findings, words, [Failure("release", words, why)])
        else:
            now = _public(release)
            different = [name for name, value in shown.items() if now[name] != value]
            why = "the released {} depends on one root"
            self._note(run.findings, words, [Failure("release", words, why.format(n)) for n in different])


def _public(release: LinkedRelease) -> dict[str, Any]:
    """Everything that a release of tables publishes, and some rows of it."""
    drawn = release.tables(min(release.releases[release.package.root.name].rows, MAX_COMPARED_ROWS), 0)
    return {
        "record": release.statement.model_dump_json(),
        "models": {name: made.manifest.model_dump_json() for name, made in release.releases.items()},
        "synthetic rows": {name: repr(table.to_pylist()) for name, table in drawn.items()},
    }
