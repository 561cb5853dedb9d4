"""Linked request: the release of tables that belong together as it was asked for, checked by public facts: of
private tables only names and types are read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, Self

import pyarrow as pa

from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.dialect import Dialect
from factored_mwem.domain.domain import Clique, Domain
from factored_mwem.errors import InputError, did_you_mean, shown
from factored_mwem.pipeline.linked_views import (
    PARENT,
    ROOT,
    beside,
    count_attribute,
    count_of,
    own_columns,
    whole,
)
from factored_mwem.pipeline.spending import Spending
from factored_mwem.request.package import LinkedTable, Package, check_columns
from factored_mwem.request.policy import Policy
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
            if each.order_by is not None and each.order_by not in self.own[each.name]:
                near = did_you_mean(each.order_by, self.own[each.name])
                raise InputError(
                    f"table {each.name!r}: no column {shown(each.order_by)} of its own to order it by{near}"
                )
            names = [ROOT, PARENT, ROWS_OF_PERSON, *self.modelled(each)]
            for above in self.package.ancestors(each):
                names += [beside(above.name, name) for name in self.modelled(above)]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise InputError(
                    f"table {each.name!r}: a column named {twice!r} is added to it; rename yours"
                )

    def modelled(self, table: LinkedTable) -> list[str]:
        """The columns of a table that are modelled, and how many rows of others hang on its rows."""
        return [*self.own[table.name], *self.hanging(table)]

    def hanging(self, table: LinkedTable) -> tuple[str, ...]:
        """The columns that say how many rows of each child hang on a row of a table."""
        return tuple(count_of(child.name) for child in self.package.children(table.name))

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
        rho is as (c / n)^(2/3). What a table hangs on counts with its own columns, which are tied to it.
        """
        least, own = max(roots.values()) * LEAST_ROOTS, self.own
        each = {}
        for table in self.package.private:
            columns = 1 + sum(len(own[of.name]) for of in (table, *self.package.ancestors(table)))
            each[table.name] = (columns / max(roots[table.name], least, 1.0)) ** (2 / 3)
        return {name: Fraction(int(2**20 * one / sum(each.values())), 2**20) for name, one in each.items()}

    def policy_of(self, table: LinkedTable, constant: Sequence[str] = ()) -> Policy:
        """The policy of the release of one table: of a root's rows, or of whatever hangs on a root."""
        as_read = {"records": "checked"} | dict.fromkeys(Dialect.model_fields)
        as_read["date_format"] = self.policy.date_format  # a warning asks for it
        chosen = self.policy.chosen | as_read
        if table.parent is None:  # each root has one row (`LinkedViews`), so no column need name it
            return Policy.made({**chosen, "contributions": 1})
        whose = {"privacy_id": ROOT, "people": True, "person_columns": tuple(constant)}
        return Policy.made({**chosen, **whose, "order_by": table.order_by})

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

    def counts(self, table: LinkedTable, sizes: Mapping[str, Sequence[int]]) -> list[Attribute]:
        """How many rows of each child hang on a row of a table, in classes that end at these `sizes`."""
        children = self.package.children(table.name)
        return [count_attribute(count_of(child.name), sizes[child.name]) for child in children]

    def workload(self, table: LinkedTable, known: Sequence[Attribute]) -> Workload:
        """All marginals of the order that is asked for with a column of the table's own among them; of the
        root all.
        """
        own = self.modelled(table)
        if table.parent is None:
            return Workload.marginals(min(self.order, len(own)))
        above = [ROWS_OF_PERSON, *(a.name for a in known if a.name not in own)]
        cliques: list[Clique] = []
        for k in range(1, min(self.order, len(own) + len(above)) + 1):
            names = combinations([*own, *above], k)
            cliques += [clique for clique in names if not set(clique).isdisjoint(own)]
        if not own:  # of a table of keys alone how many rows there are is told
            cliques = [(ROWS_OF_PERSON,)]
        widest = max(map(len, cliques))
        return Workload.of(clique for clique in cliques if len(clique) == widest)

    def tables(self) -> dict[str, Table]:
        """What is read of the private tables, by this process. Of a table on a cluster that nothing hangs on,
        and whose rows have no order, no more rows come of each parent than are used of a root.
        """
        return {each.name: self._gathered(each) for each in self.package.private}

    def _gathered(self, table: LinkedTable) -> Table:
        whole = table.parent is None or table.order_by is not None or self.package.children(table.name)
        reference = None if whole or table.parent is None else table.parent.column
        return self.sources[table.name].gathered(reference, self.most_rows)

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides what is released, but for rows and policy: public facts, as JSON."""
        tables = {
            each.name: {
                "key": each.key,
                "order_by": each.order_by,
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
        return Policy.made({**self.policy.chosen, "contributions": 1})

    @property
    def spending(self) -> Spending:
        """The release as the ledger enters it."""
        learns = any(self.domain_of(table, self.public_keys(table)) is None for table in self.package.private)
        return Spending("tables", self.promise, self.settings, self.fingerprint, learns=learns)


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
