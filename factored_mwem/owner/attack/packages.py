"""Packages: NOT PRIVATE. What releases of linked tables tell of one root, with all that hangs on it: see
`attack`. The noisy answers of a table are those about its rows, each beside what it hangs on, as they are
released; what all tables tell of a root adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.errors import InputError
from factored_mwem.owner.attack.attack import Attacker, taking_part
from factored_mwem.owner.attack.result import Attack, Effort
from factored_mwem.owner.attack.scores import SCORES, Aim, AttackedRelease, Pool, likeliest
from factored_mwem.owner.attack.seen import SeenScores
from factored_mwem.owner.evaluation.readings import read_columns
from factored_mwem.owner.verifier.packages import LinkedSheet
from factored_mwem.pipeline.linked import check_linked, make_linked
from factored_mwem.pipeline.linked_request import LinkedRequest
from factored_mwem.pipeline.linked_rows import LinkedModels, LinkedRelease
from factored_mwem.pipeline.linked_views import PARENT, ROOT, LinkedViews, beside
from factored_mwem.request.package import LinkedTable, Package
from factored_mwem.request.policy import Choices, Policy
from factored_mwem.tables.inputs.people import RowOrder, rows_of_people
from factored_mwem.tables.inputs.source import Private

MEMBERSHIP = SCORES[:4]
"""The scores of who is there."""


def attack_tables(
    package: Package,
    marginals: int,
    policy: Policy | None = None,
    *,
    domains: dict[str, Any] | None = None,
    effort: Effort | None = None,
    kept: Path | None = None,
    seed: int | None = None,
    report: Callable[[int, int], None] = lambda done, of: None,
    **choices: Unpack[Choices],
) -> Attack:
    """NOT PRIVATE. Attack releases of a package: who is there or not is one root, with all that hangs on it
    and on no other. No value is guessed. The arguments are those of `release_tables` and of `attack`; raises
    the same errors as a release of the package.
    """
    effort = effort or Effort()
    if effort.guessed is not None:
        raise InputError("--guess is for a single table; of linked tables it is guessed who is there")
    request = LinkedRequest.of(package, marginals, Policy.given(policy, choices), domains=domains)
    check_linked(request)
    seen = SeenScores.open(kept, request, effort, np.random.default_rng(seed).integers(2**62).item())
    rng, sheet = np.random.default_rng(seen.about("seed")), LinkedSheet.of(request, "attack")
    everybody = sheet.roots
    roots = taking_part(everybody, effort, rng)
    sheet = sheet.without(set(everybody) - set(roots))
    persons: list[tuple[int, ...]] = [(number,) for number in range(len(roots))]
    shadow, promise = LinkedShadow.of(request, sheet), request.promise
    return Attacker(promise, request.spending.budget, shadow, effort, seen, persons, rng).run(report)


class TableRows(Private):
    """The rows of a table that take part, as `pool`; `of_root: [root]`: the numbers of each one's rows."""

    __slots__ = ("of_root", "pool")

    def __init__(self, pool: Pool, of_root: list[tuple[int, ...]]) -> None:
        self.pool, self.of_root = pool, of_root

    def rows(self, roots: Sequence[int]) -> tuple[int, ...]:
        """The numbers of the rows of some roots."""
        return tuple(row for root in roots for row in self.of_root[root])

    def aims(self, aims: Sequence[Aim]) -> list[Aim]:
        """Aims at roots as aims at their rows."""
        return [Aim(aim.kind, self.rows(aim.rows), self.rows(aim.instead)) for aim in aims]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttackedTables(Private):
    """A release of linked tables before an attacker: of each table, its rows and its release. Rows that are
    aimed at are numbers of roots.
    """

    tables: list[tuple[TableRows, AttackedRelease]]

    @property
    def own(self) -> np.ndarray:
        """int64[root, column]: the pool's roots."""
        return self.tables[0][1].own

    @property
    def rarity(self) -> np.ndarray:
        """float64[root]: the mean over tables of the mean over a root's rows."""
        each = []
        for rows, release in self.tables:
            strange = release.rarity
            each.append([strange[list(own)].mean() if own else np.nan for own in rows.of_root])
        return np.nanmean(each, axis=0)

    def scores(self, aims: Sequence[Aim]) -> list[list[float]]:
        """Of each aim the sum of the log likelihood ratios, and the means of the others over tables in which
        the root has rows.
        """
        each = np.array([release.scores(rows.aims(aims)) for rows, release in self.tables])
        others = np.nanmean(each[:, :, 1 : len(MEMBERSHIP)], axis=0)
        return np.column_stack([each[:, :, 0].sum(axis=0), others]).tolist()

    def canaries(self, aims: Sequence[Aim]) -> np.ndarray:
        """float64[aim]: how likely each is there, see `AttackedRelease.canaries`."""
        each = [release.equations(rows.aims(aims)) for rows, release in self.tables]
        square, linear = (np.sum(side, axis=0) for side in zip(*each, strict=True))
        return likeliest(square, linear)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LinkedShadow(Private):
    """Releases of the roots of a sheet; `views`: all their rows."""

    request: LinkedRequest
    sheet: LinkedSheet
    roots: list[Any]
    views: LinkedViews
    _pools: dict[tuple[int, ...], list[TableRows]] = field(default_factory=dict)
    names: tuple[str, ...] = MEMBERSHIP

    @classmethod
    def of(cls, request: LinkedRequest, sheet: LinkedSheet) -> LinkedShadow:
        tables = sheet.request_like(request).tables()
        views = LinkedViews.of(request.package, tables)
        views.read(tables)
        return cls(request, sheet, sheet.roots, views)

    def attacked(self, rows: np.ndarray, present: np.ndarray) -> AttackedTables:
        """A release of these roots, before one who takes those `present` to be there."""
        inside = set(rows.tolist())
        gone = [root for number, root in enumerate(self.roots) if number not in inside]
        made = make_linked(self.sheet.without(gone).request_like(self.request))
        drawn = LinkedModels(made.package, made.releases, made.schemas).rows(made.releases, None, made.seed)
        found = []
        for table, own in zip(self.sheet.package.private, self._rows_of(made), strict=True):
            release, cells = made.releases[table.name], drawn[table.name].cells
            if release.manifest.people is not None:
                numbers = np.bincount(drawn[table.name].root)[drawn[table.name].root]
                most = release.manifest.people.most_rows
                cells = cells.append_column(ROWS_OF_PERSON, pa.array(np.minimum(numbers, most), pa.int32()))
            there = np.array(own.rows(present.tolist()), dtype=np.int64)
            found.append((own, AttackedRelease(release, own.pool, there, cells)))
        return AttackedTables(found)

    def _rows_of(self, made: LinkedRelease) -> list[TableRows]:
        """Of each table, its rows as a release reads them: of so many rows of each root at most."""
        people = {name: release.manifest.people for name, release in made.releases.items()}
        most = {name: 1 if one is None else one.most_rows for name, one in people.items()}
        key = tuple(most.values())
        if key not in self._pools:
            self._pools[key] = [self._read(table, most) for table in self.sheet.package.private]
        return self._pools[key]

    def _read(self, table: LinkedTable, most: Mapping[str, int]) -> TableRows:
        package, request, domain = self.sheet.package, self.request, self.request.domain_of(table)
        known = [beside(a.name, name) for a in package.ancestors(table) for name in request.modelled(a)]
        view, root = self.views.view(table, known, most).table, self.views.roots_of(table)
        weights, by = np.ones(len(root)), table.order_by
        if table.parent is not None:
            order = None if by is None else RowOrder(by, domain[by] if domain and by in domain else None)
            view, used = rows_of_people(view, ROOT, most[table.name], order=order)
            unit, first = request.policy_of(table).unit, np.unique(root, return_index=True)[1]
            root = root[np.sort(first)][used.person]  # people are numbered as they come
            weights = np.array([unit.row_weight(n) / unit.grains for n in used.rows.tolist()])
        places = np.split(
            np.argsort(root, kind="stable"), np.cumsum(np.bincount(root, minlength=len(self.roots)))
        )
        columns = read_columns(view, [name for name in view.schema.names if name != PARENT])
        return TableRows(Pool(columns, weights, ""), [tuple(rows.tolist()) for rows in places[:-1]])
