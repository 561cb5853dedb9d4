"""Linked: the release of tables that belong together, under one promise: one root, with all that hangs on it.

Each table is a release of its own, paid for by a part of one budget: the root's rows, each with how many rows
of every child hang on it; of every other table its rows, each root weighing one (pipeline/people.py), beside
the columns of what they hang on. A root more or less changes the first by one row, and each of the others by
one person; so what they cost adds up. Drawn are roots, then the rows of children, each given the row it
hangs on (pipeline/linked_rows.py).
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any, Self, Unpack

import pyarrow as pa

from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.dialect import Dialect
from factored_mwem.domain.domain import Clique, Domain
from factored_mwem.errors import InputError, NothingLearnt, shown
from factored_mwem.files.crashpoints import reach
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.mechanisms.learn import fewest_rows
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Scope
from factored_mwem.mechanisms.rounds import Report
from factored_mwem.pipeline.linked_rows import LinkedRelease
from factored_mwem.pipeline.linked_views import (
    ROOT,
    LinkedViews,
    beside,
    count_attribute,
    count_of,
    own_columns,
    whole,
)
from factored_mwem.pipeline.record.assumptions import Assumption
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.release import fitted_to, spending_of
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.spending import Spending, Spent
from factored_mwem.privacy.noise import Noise
from factored_mwem.privacy.people import RowsUsed, most_rows, number_of_people
from factored_mwem.privacy.session import Session
from factored_mwem.request.data_package import read_package
from factored_mwem.request.package import LinkedTable, Package, check_columns
from factored_mwem.request.policy import Choices, Policy
from factored_mwem.request.promise import Books
from factored_mwem.request.request import Request
from factored_mwem.request.table import declared_domain
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import OpenedSource
from factored_mwem.tables.codes.parsing import is_text, value_type
from factored_mwem.tables.inputs.table import Table
from factored_mwem.tables.inputs.text_form import Reading
from factored_mwem.workload.workload import Workload

LEAST_ROOTS = 0.02
"""Of the most: where fewer have rows of a table, it gets no more of the budget for it."""
MOST_KEYS = 10_000
"""Keys of a public table that another refers to: each is a value of that column."""
REFUSED = ("privacy_id", "people", "person_columns", "order_by", "certificate", "accept")
"""Fields of a policy that a package decides by itself, or that are of one table alone."""
KEYS = Assumption(
    statement="which columns are keys, and of which tables, is public; a row belongs to each root that it "
    "leads to by its references",
    enforced=False,
)


class BookedChoices(Choices, Books, total=False):
    """The fields of a policy, and where the cost is entered."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LinkedRequest:
    """A package of private tables, the order K of the marginals that must come out right, and at what price.
    Only names and types were read; of public tables all.
    """

    package: Package
    sources: Mapping[str, OpenedSource]
    public: Mapping[str, pa.Table]
    domains: Mapping[str, Domain]
    policy: Policy
    order: int
    rows: int | None = None
    sample_seed: int | None = None

    @classmethod
    def of(
        cls,
        package: Package,
        order: int,
        policy: Policy,
        *,
        domains: Mapping[str, Any] | None = None,
        rows: int | None = None,
        sample_seed: int | None = None,
    ) -> Self:
        """`domains`: those that are declared, by table; of the others they are learnt. Raises InputError for
        what names and types rule out.
        """
        for name in REFUSED:
            if getattr(policy, name) != Policy.model_fields[name].default:
                raise InputError(f"{name} is for a single table; leave it out with a package of tables")
        if order < 1:
            raise InputError(f"--marginals {shown(order)}: must be a whole number, 1 or more")
        reading = Reading(policy.records, policy.dialect)
        sources = {each.name: open_source(each.source, reading) for each in package.private}
        public = {each.name: _public_rows(each) for each in package.public}
        for name in domains or ():
            if name not in sources:
                raise InputError(
                    f"a domain is declared for {name!r}, which is no private table of the package"
                )
        opened = {name: declared_domain(domain) for name, domain in (domains or {}).items()}
        declared = {name: domain for name, domain in opened.items() if domain is not None}
        made = cls(
            package=package,
            sources=sources,
            public=public,
            domains=declared,
            policy=policy,
            order=order,
            rows=rows,
            sample_seed=sample_seed,
        )
        made._check_names()
        return made

    def _check_names(self) -> None:
        """Raises InputError for columns there are not or that cannot be keys, and for names that two columns
        of a view would have.
        """
        opened = {**self.sources, **{each.name: open_source(each.source) for each in self.package.public}}
        text = {name for name, source in opened.items() if source.text}
        check_columns(self.package, {name: source.schema for name, source in opened.items()}, text)
        for each in self.package.private:
            if not self.own[each.name] and each.parent is None:
                raise InputError(f"table {each.name!r} has no columns but keys; there is nothing to release")
            names = [ROOT, ROWS_OF_PERSON, *self.modelled(each)]
            for above in self.package.ancestors(each):
                names += [beside(above.name, name) for name in self.modelled(above)]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise InputError(
                    f"table {each.name!r}: a column named {twice!r} is added to it; rename yours"
                )

    def modelled(self, table: LinkedTable) -> list[str]:
        """The columns of a table that are modelled, and how many rows of others hang on its rows."""
        return [*self.own[table.name], *(count_of(c.name) for c in self.package.children(table.name))]

    @property
    def own(self) -> dict[str, list[str]]:
        """The modelled columns of each table."""
        return {
            each.name: own_columns(each, self.sources[each.name].schema.names)
            for each in self.package.private
        }

    def shares(self, roots: Mapping[str, float]) -> dict[str, Fraction]:
        """Of the budget, by table, where about so many `roots` have rows of it: c columns measured at rho
        with n roots are wrong by c / (n sqrt(rho)), up to a factor, and the sum of all tables' is least where
        rho is as (c / n)^(2/3).
        """
        least = max(roots.values()) * LEAST_ROOTS
        each = {
            name: ((len(columns) + 1) / max(roots[name], least, 1.0)) ** (2 / 3)
            for name, columns in self.own.items()
        }
        return {name: Fraction(int(2**20 * one / sum(each.values())), 2**20) for name, one in each.items()}

    def policy_of(self, table: LinkedTable, constant: Sequence[str] = ()) -> Policy:
        """The policy of the release of one table: of a root's rows, or of whatever hangs on a root."""
        chosen = {name: getattr(self.policy, name) for name in self.policy.model_fields_set}
        chosen |= {"privacy_id": ROOT, "records": "checked"} | dict.fromkeys(Dialect.model_fields)  # as read
        if table.parent is None:
            return Policy.made({**chosen, "contributions": 1})
        return Policy.made({**chosen, "people": True, "person_columns": tuple(constant)})

    def domain_of(self, table: LinkedTable, known: Sequence[Attribute] = ()) -> Domain | None:
        """The domain that is declared for the columns of a table which are not `known`."""
        names = {attribute.name for attribute in known}
        own = [name for name in self.own[table.name] if name not in names]
        if not own and known:
            return Domain(known)
        domain = self.domains.get(table.name)
        return None if domain is None else domain.project([n for n in domain.names if n in own])

    def public_keys(self, table: LinkedTable) -> list[Attribute]:
        """Columns whose values are the keys of public tables."""
        keys = {each.name: each.key for each in self.package.public}
        return [
            _listed(each.column, self.public[each.of].column(keys[each.of] or ""), self.sources[table.name])
            for each in table.others
        ]

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides what is released, but for rows and policy: public facts, as JSON."""
        tables = {
            each.name: {
                "key": each.key,
                "parent": None if each.parent is None else [each.parent.column, each.parent.of],
                "public": [[other.column, other.of] for other in each.others],
                "schema": [[f.name, str(f.type)] for f in self.sources[each.name].schema],
            }
            for each in self.package.private
        }
        numbers = {"marginals": self.order, "rows": self.rows, "sample_seed": self.sample_seed}
        domains = {name: domain.to_dict() for name, domain in self.domains.items()}
        facts = {**numbers, "most_rows": self.most_rows, "tables": tables, "domains": domains}
        return json.loads(json.dumps(facts))

    def fingerprint(self, key: bytes) -> bytes:
        """A keyed digest of all private tables. Reads rows."""
        parts = [self.sources[each.name].fingerprint(key) for each in self.package.private]
        return hashlib.blake2b(b"".join(parts), key=key[:64], digest_size=32).digest()

    @property
    def most_rows(self) -> int:
        """Of each table that hang on one root, at most; noisy counts may choose fewer."""
        return self.policy_of(self.package.private[-1]).contributions

    @property
    def promise(self) -> Policy:
        """The policy as far as it is a promise: of one row of the root, however many hang on it."""
        chosen = {name: getattr(self.policy, name) for name in self.policy.model_fields_set}
        return Policy.made({**chosen, "contributions": 1})

    @property
    def spending(self) -> Spending:
        """The release as the ledger enters it."""
        learns = any(self.domain_of(table, self.public_keys(table)) is None for table in self.package.private)
        return Spending("tables", self.promise, self.settings, self.fingerprint, learns=learns)


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
    names = [each.name for each in request.package.private]
    views = LinkedViews.of(request.package, _tables(request))
    for table in request.package.private:
        known = [*request.public_keys(table), *_counts(request.package, table, dict.fromkeys(names, 1))]
        domain = request.domain_of(table, known)
        workload, policy = _workload(request, table, known), request.policy_of(table)
        own = Request.of(views.shape(table), workload, policy, domain=domain)
        yield table, replace(own, known=tuple(known))


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
    tables = _tables(request)
    views = LinkedViews.of(package, tables)
    views.read(tables)  # ---- private from here ...
    used = {table.name: _rows_used(request, views, table, spent.session) for table in package.private}
    most = {name: rows.most for name, rows in used.items()}
    parts = _parts(request, spent, {name: rows.people or 0.0 for name, rows in used.items()})
    try:
        _check_enough(request, parts, used)
    except NothingLearnt:
        spent.drawn()
        raise
    made: dict[str, Release] = {}
    for table in package.private:
        known = [*_above(package, table, made), *request.public_keys(table), *_counts(package, table, most)]
        root = package.root.name
        of_root = {beside(root, name) for name in (_names(made[root]) if made else ())}
        constant = [a.name for a in known if a.name in of_root]
        view = views.view(table, [a.name for a in known], most)
        policy = request.policy_of(table, constant if table.parent is not None else ())
        own = Request.of(
            view,
            _workload(request, table, known),
            policy,
            rows=request.rows,
            domain=request.domain_of(table, known),
        )
        own = replace(own, known=tuple(known))
        apart = replace(spent, spending=spending_of(own))
        made[table.name] = fitted_to(own, apart, parts[table.name], report, used[table.name])
    spent.drawn()  # ---- ... to here
    reach("after fit")
    schemas = {name: source.schema for name, source in request.sources.items()}
    statement = _statement(request, spent, made, used)
    return LinkedRelease(package.without_rows, made, schemas, request.public, statement, spent.pinned["seed"])


def _tables(request: LinkedRequest) -> dict[str, Table]:
    """What is read of the private tables, by this process."""
    why = "tables that belong together are read by this program; name files, data frames or a database"
    return {name: source.read_here(why) for name, source in request.sources.items()}


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


def _rows_used(request: LinkedRequest, views: LinkedViews, table: LinkedTable, session: Session) -> RowsUsed:
    """How many rows of a table that hang on one root are used, and about how many roots have any."""
    unit = request.policy_of(table).unit
    people = views.roots(table).people(ROOT, unit.contributions, unit.row_weight)
    session = session.protecting(unit)
    if table.parent is None:
        return RowsUsed(1, people=number_of_people(session, people, 1))
    return most_rows(session, people)


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


def _names(release: Release) -> Sequence[str]:
    return [name for name in release.domain.modelled.names if name != ROWS_OF_PERSON]


def _counts(package: Package, table: LinkedTable, most: Mapping[str, int]) -> list[Attribute]:
    """How many rows of each child hang on a row of a table."""
    return [count_attribute(count_of(child.name), most[child.name]) for child in package.children(table.name)]


def _workload(request: LinkedRequest, table: LinkedTable, known: Sequence[Attribute]) -> Workload:
    """All marginals of the order that is asked for with a column of the table's own among them; of the root
    all.
    """
    own = request.modelled(table)
    if table.parent is None:
        return Workload.marginals(min(request.order, len(own)))
    above = [ROWS_OF_PERSON, *(a.name for a in known if a.name not in own)]
    cliques: list[Clique] = []
    for k in range(1, min(request.order, len(own) + len(above)) + 1):
        names = combinations([*own, *above], k)
        cliques += [clique for clique in names if not set(clique).isdisjoint(own)]
    if not own:  # of a table of keys alone how many rows there are is told
        cliques = [(ROWS_OF_PERSON,)]
    widest = max(map(len, cliques))
    return Workload.of(clique for clique in cliques if len(clique) == widest)


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


def _public_rows(table: LinkedTable) -> pa.Table:
    """A public table, all of it."""
    return whole(open_source(table.source).read_here("a public table is read by this program"))


def _listed(column: str, keys: pa.ChunkedArray, source: OpenedSource) -> Attribute:
    """A column whose values are these public keys; any other cell counts as empty."""
    values = sorted({key for key in keys.to_pylist() if key not in (None, "")})
    if len(values) > MOST_KEYS:
        raise InputError(
            f"column {column!r} refers to {len(values):,} public keys; {MOST_KEYS:,} is the most"
        )
    cells = value_type(source.schema.field(column).type)
    if not (pa.types.is_integer(cells) or is_text(cells)):
        raise InputError(f"column {column!r} refers to public keys that are neither whole numbers nor texts")
    kind = "integer" if pa.types.is_integer(cells) else "string"
    return Attribute.model_validate({"name": column, "type": kind, "categories": values})
