"""Linked: the release of tables that belong together, under one promise: one root, with all that hangs on it.

Each table is a release of its own, paid for by a part of one budget: the root's rows, each with how many rows
of every child hang on it; of every other table its rows, each root weighing one (pipeline/people.py), beside
the columns of what they hang on. A root more or less changes the first by one row, and each of the others by
one person; so what they cost adds up. Drawn are roots, then the rows of children, each given the row it
hangs on (pipeline/linked_rows.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from factored_mwem.accounting.unit import size_classes
from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.errors import NothingLearnt
from factored_mwem.files.crashpoints import reach
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Scope
from factored_mwem.mechanisms.rounds import Report
from factored_mwem.mechanisms.worth import fewest_rows
from factored_mwem.pipeline.linked_request import LinkedRequest
from factored_mwem.pipeline.linked_rows import LinkedModels, LinkedRelease
from factored_mwem.pipeline.linked_views import PARENT, ROOT, LinkedViews, beside, count_of
from factored_mwem.pipeline.record.assumptions import Assumption
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.release import SINGLES_COST, fitted_to, spending_of
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.spending import Spent
from factored_mwem.privacy.noise import Noise
from factored_mwem.privacy.people import RowsUsed, most_rows, number_of_people, rows_of_roots
from factored_mwem.privacy.session import Session
from factored_mwem.request.data_package import read_package
from factored_mwem.request.package import LinkedTable, Package
from factored_mwem.request.policy import Choices, Policy
from factored_mwem.request.promise import Books
from factored_mwem.request.request import Request, ToldColumn

MOST_DRAWN = 50_000
"""Rows of the root that are drawn to tell how what rows hang on is distributed."""
KEYS = Assumption(
    statement="which columns are keys, and of which tables, is public; a row belongs to each root that it "
    "leads to by its references",
    enforced=False,
)


class BookedChoices(Choices, Books, total=False):
    """The fields of a policy, and where the cost is entered."""


def release_tables(
    package: Package | str | Path,
    marginals: int,
    policy: Policy | None = None,
    *,
    report: Report = lambda _: None,
    domains: Mapping[str, Any] | None = None,
    rows: int | None = None,
    sample_seed: int | None = None,
    **options: Unpack[BookedChoices],
) -> LinkedRelease:
    """Synthetic tables that belong together, as the private ones do.

    Private input: the tables of the package that are not public; a path names the descriptor of a data
    package. What is returned is safe to publish.

    `marginals`: the order K of the marginals that must come out right, of the columns of each table and of
    those that it hangs on. `domains`: which values may appear, by table; without one a share of the budget
    learns it. `rows`: how many of the root. `options`: fields of Policy, where no policy is
    given, and where the cost is entered.

    Raises as `release`.

    >>> import pyarrow as pa
    >>> from factored_mwem import LinkedTable, Package, Reference, release_tables
    >>> users = pa.table({"id": [1, 2, 3], "sex": ["F", "M", "F"]})
    >>> visits = pa.table({"user": [1, 1, 3], "ward": ["a", "b", "a"]})
    >>> package = Package.of([
    ...     LinkedTable("users", users, key="id"),
    ...     LinkedTable("visits", visits, parent=Reference("user", "users"))])
    >>> domains = {"users": {"fields": [{"name": "sex", "categories": ["F", "M"]}]},
    ...     "visits": {"fields": [{"name": "ward", "categories": ["a", "b"]}]}}
    >>> made = release_tables(package, 2, domains=domains, rows=50, epsilon=1.0)
    >>> made.tables()["users"].shape, made.tables()["visits"].column_names
    ((50, 2), ['user', 'ward'])
    """
    choices: dict[str, Any] = dict(options)
    booking = Booking.of(choices)
    policy = Policy.given(policy, choices)
    if not isinstance(package, Package):
        package = read_package(package)
    request = LinkedRequest.of(
        package, marginals, policy, domains=domains, rows=rows, sample_seed=sample_seed
    )
    check_linked(request)
    return request.spending.made(booking, lambda run: make_linked(request, run, report))


def check_linked(request: LinkedRequest) -> None:
    """Raises what names, types and numbers rule out; reads no row."""
    machine = Machine.of(request.policy)
    for _, own in own_requests(request):
        _ = Scope.of(own, machine), own.budget


def own_requests(request: LinkedRequest) -> Iterator[tuple[LinkedTable, Request]]:
    """Each table with the request of its own columns alone, without a row."""
    names, sizes = [each.name for each in request.package.private], size_classes(request.most_rows)
    views = LinkedViews.of(request.package, request.tables())
    for table in request.package.private:
        known = [*request.public_keys(table), *request.counts(table, dict.fromkeys(names, sizes))]
        domain = request.domain_of(table, known)
        workload, policy = request.workload(table, known), request.policy_of(table)
        own = Request.of(views.shape(table), workload, policy, domain=domain)
        yield table, replace(own, known=tuple(known), hanging=request.hanging(table))


def make_linked(
    request: LinkedRequest,
    run: Run | None = None,
    report: Report = lambda _: None,
    *,
    noise: Noise | None = None,
) -> LinkedRelease:
    """Make a release of several tables; `run` enters its cost. `noise`: OpenDP's; tests pass a fake."""
    policy, run, package = request.policy, run or Run(), request.package
    machine = Machine.of(policy)  # before any row is in memory
    seed = secrets.randbits(64) if request.sample_seed is None else request.sample_seed
    spent = request.spending.begin(run, noise, machine=[machine.memory, machine.step], seed=seed)
    tables = request.tables()
    views = LinkedViews.of(package, tables)
    views.read(tables)  # ---- private from here ...
    used = dict[str, RowsUsed]()
    for table in package.private:
        used[table.name] = _rows_used(request, views, table, spent.session, used)
    most = {name: rows.most for name, rows in used.items()}
    parts = _parts(request, spent, {name: rows.people or 0.0 for name, rows in used.items()})
    try:
        _check_enough(request, parts, used)
    except NothingLearnt:
        spent.drawn()
        raise
    sizes = {table.name: _sizes(request, table, used, parts) for table in package.private}
    made: dict[str, Release] = {}
    for table in package.private:
        known = [*_above(package, table, made), *request.public_keys(table), *request.counts(table, sizes)]
        root = package.root.name
        of_root = {beside(root, name) for name in (_names(made[root]) if made else ())}
        constant = [a.name for a in known if a.name in of_root]
        view = views.view(table, [a.name for a in known], most)
        policy = request.policy_of(table, constant if table.parent is not None else ())
        own = Request.of(
            view,
            request.workload(table, known),
            policy,
            rows=request.rows,
            domain=request.domain_of(table, known),
        )
        told = _told(request, table, made, most[table.name], spent.pinned["seed"])
        below = [each.name for each in package.children(table.name) if used[each.name].looks]
        counted = {count_of(name): used[name].looks for name in below}
        own = replace(own, known=tuple(known), told=told, counted=counted, hanging=request.hanging(table))
        if PARENT in view.schema.names:
            own = _in_families(own, [a.name for a in _above(package, table, made) if a.name not in of_root])
        apart = replace(spent, spending=spending_of(own))
        made[table.name] = fitted_to(own, apart, parts[table.name], report, used[table.name])
    spent.drawn()  # ---- ... to here
    reach("after fit")
    schemas = {name: source.schema for name, source in request.sources.items()}
    statement = _statement(request, spent, made, used)
    return LinkedRelease(package.without_rows, made, schemas, request.public, statement, spent.pinned["seed"])


def _in_families(own: Request, shared: Sequence[str]) -> Request:
    """The request of rows that hang on others than a root's: those on one row, in which the columns `shared`
    are the same, are alike as often as real ones. PARENT tells which these are, and is not released.
    """
    columns = [name for name in own.visible.schema.names if name != PARENT]
    return replace(own, columns=columns, family=PARENT, shared=tuple(shared))


def _parts(request: LinkedRequest, spent: Spent, roots: Mapping[str, float]) -> dict[str, Session]:
    """A session for each table, which may spend its share of what is left."""
    budget, left, parts = spent.accountant.budget, spent.accountant.left, {}
    shares = request.shares(roots)
    for table in request.package.private:
        share = shares[table.name]
        part = spent.accountant.part(left * share, budget.discovery_delta * share)
        unit = request.policy_of(table).unit
        parts[table.name] = spent.session.paid_by(part).protecting(unit)
    return parts


def _check_enough(request: LinkedRequest, parts: Mapping[str, Session], used: Mapping[str, RowsUsed]) -> None:
    """Raises NothingLearnt, before the tables are paid for, where too few roots have rows of one for its
    domain to be learnt, whatever its columns hold.
    """
    for table in request.package.private:
        public = request.public_keys(table)
        if request.domain_of(table, public) is not None:
            continue
        session, columns = parts[table.name], len(request.own[table.name]) - len(public)
        policy, budget = request.policy_of(table), session.accountant.budget
        fewest = fewest_rows(policy, budget, ["boolean"] * columns) / (session.unit.grains or 1)
        roots = max(used[table.name].people or 0.0, 0.0)
        if roots < fewest:
            raise NothingLearnt(
                f"about {roots:,.0f} roots have rows of {table.name!r}, and to learn its domain takes "
                f"{fewest:,.0f} or more: declare it in {table.name}.domain.json, leave the table out, or "
                f"raise --epsilon (spent so far: {budget.in_words(session.accountant.root.spent)})"
            )


def _rows_used(
    request: LinkedRequest,
    views: LinkedViews,
    table: LinkedTable,
    session: Session,
    above: Mapping[str, RowsUsed],
) -> RowsUsed:
    """How many rows of a table that hang on one root are used, and about how many roots have any. `above`:
    of those before it.
    """
    unit, root = request.policy_of(table).unit, request.package.root
    session = session.protecting(unit)
    if table.parent is not None and table.parent.of == root.name:
        own = session.protecting(request.policy_of(root).unit)
        columns = len(request.modelled(root)) * len(request.package.private)
        ends = _classes(own, unit.contributions, above[root.name].people, columns)
        tables = len(request.package.children(root.name))
        return rows_of_roots(session, views.number_of(table.name), (0, *ends), tables)
    people = views.roots(table).people(ROOT, unit.contributions, unit.row_weight)
    if table.parent is None:
        return RowsUsed(1, people=number_of_people(session, people, 1))
    return most_rows(session, people)


def _sizes(
    request: LinkedRequest, table: LinkedTable, used: Mapping[str, RowsUsed], parts: Mapping[str, Session]
) -> Sequence[int]:
    """The classes of how many rows of a table hang on a row; of noisy numbers alone."""
    most, ends = used[table.name].most, used[table.name].ends
    if ends:
        return ends[1:]
    if table.parent is None:
        return size_classes(most)
    above, columns = table.parent.of, len(request.modelled(next(request.package.ancestors(table))))
    return _classes(parts[above], most, used[above].people, columns)


def _classes(session: Session, most: int, roots: float | None, columns: int) -> Sequence[int]:
    """Up to `most` rows: coarser where few `roots` have any, for the noise on many small classes adds up. So
    many `columns` share what is left of the session's budget.
    """
    noise = session.marginal_noise(session.left * SINGLES_COST / columns).stddev / (session.unit.grains or 1)
    return size_classes(most, (roots or 0.0) / noise)


def _above(package: Package, table: LinkedTable, made: Mapping[str, Release]) -> Iterator[Attribute]:
    """The attributes of what the rows of a table hang on, as they were released; how many rows of a root
    there are is known by ROWS_OF_PERSON already.
    """
    above = list(package.ancestors(table))
    for each in above:
        own = {*_names(made[each.name])} - {beside(a.name, n) for a in above for n in _names(made[a.name])}
        for attribute in made[each.name].domain.modelled:
            same = each.parent is None and len(above) == 1 and attribute.name == count_of(table.name)
            if attribute.name in own and not same:
                yield attribute.model_copy(update={"name": beside(each.name, attribute.name)})


def _told(
    request: LinkedRequest, table: LinkedTable, made: Mapping[str, Release], most: int, seed: int
) -> dict[str, ToldColumn]:
    """How what the rows of a table hang on is distributed over them, each root weighing one, by the models of
    what was released before: free. None where no column of its own is left to measure.

    The rows of the table are drawn for such rows. So measuring it again would cost its own columns a part of
    the budget, for a second opinion that what is drawn does not follow.
    """
    if table.parent is None or not request.modelled(table):
        return {}
    schemas = {name: source.schema for name, source in request.sources.items()}
    models, above = LinkedModels(request.package, made, schemas), made[table.parent.of]
    rows = min(made[request.package.root.name].manifest.estimated_rows, MOST_DRAWN)
    names = [each.name for each in request.package.ancestors(table)]
    parents, each, of_root = models.parents(table, models.rows(names, rows, seed))
    held, noise = each > 0, _noise_of(above)
    weights, cells = each[held] / of_root[held], parents.filter(pa.array(held))
    told = {}
    for name in cells.schema.names:
        stddev = noise.get(name.removeprefix(beside(table.parent.of, "")), noise.get(name, 0.0))
        told[name] = ToldColumn(cells.column(name).combine_chunks(), weights, stddev)
    numbers = pa.array(np.minimum(of_root[held], most), pa.int32())
    told[ROWS_OF_PERSON] = ToldColumn(numbers, weights, noise.get(count_of(table.name), 0.0))
    return told


def _noise_of(release: Release) -> dict[str, float]:
    """The standard deviation of a share in the first marginal of each attribute, where it has one."""
    names, singles = release.domain.modelled.names, [m for m in release.measurements if len(m.positions) == 1]
    return {
        names[m.positions[0]]: m.stddev / release.model.total
        for m in reversed(singles)
        if m.positions[0] < len(names)
    }


def _names(release: Release) -> Sequence[str]:
    """The columns that are modelled, but for what says of a row which came before it."""
    rows = {*release.schema.names} - {ROWS_OF_PERSON}
    return [name for name in release.domain.modelled.names if name in rows]


def _statement(
    request: LinkedRequest, spent: Spent, made: Mapping[str, Release], used: Mapping[str, RowsUsed]
) -> Statement:
    """The record of a package: what was promised and spent, and of each table what came out."""
    tables = {}
    for name, release in made.items():
        facts, rows = release.manifest, used[name]
        tables[name] = {
            "columns": [n for n in release.domain.names if n in request.own[name]],
            "estimated_rows": facts.estimated_rows,
            "most_rows": rows.most,
            "beyond": rows.beyond,
            "warnings": list(facts.warnings),
        }
    assumptions: dict[str, Assumption] = {}
    for source in request.sources.values():
        each = Request.of(source, 1, request.promise)
        assumptions = spent.rests_on(each, learnt=True) | assumptions
    assumptions["keys"] = KEYS
    return spent.statement(assumptions, tables=tables)
