"""Plan: every decision about a release that follows from public facts and the domain, declared or learnt.
`fmwem check` prints it, a release executes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from factored_mwem.accounting.unit import size_classes
from factored_mwem.domain.agreement import Agreement
from factored_mwem.domain.attribute import OTHER, ROWS_OF_PERSON, Attribute
from factored_mwem.domain.companions import Companion, companions_of, names_for
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.mechanisms.limits import (
    CODES_SHARE,
    Machine,
    RunLimits,
    check_attributes,
    limits_of,
    memory_limit,
    whole_memory,
)
from factored_mwem.mechanisms.public_joint import PublicJoint
from factored_mwem.mechanisms.rules import check_rules
from factored_mwem.privacy.counts import check_memory
from factored_mwem.privacy.session import Measurement
from factored_mwem.request.policy import Policy
from factored_mwem.request.request import Request, ToldColumn
from factored_mwem.request.table import PrivateTable
from factored_mwem.tables.backends.source import Source, Spill
from factored_mwem.tables.codes.codec import fit_columns
from factored_mwem.tables.codes.derive import check_rules as check_types
from factored_mwem.tables.codes.kinds import kind_of
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.workload import Workload

BYTES_A_CERTIFIED_CELL = 32.0
"""Counts of the private and of the released rows, of a batch of these, and in grains."""
ONE_WAY = Workload.marginals(1)
MAX_CERTIFIED_CELLS = 2.0**27
"""Of all marginals that are certified: 4 GB with what counting takes beside them."""

if TYPE_CHECKING:
    from factored_mwem.mechanisms.learn import Learning
    from factored_mwem.mechanisms.queries import Queries


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A request without its privacy-id column, on a given machine: all that is known before there is a
    domain. Of a table that no workload is asked of, what learning its domain measures is the workload.

    `visible`: the table's names and types; `domain`: the declared one, None if it must be learnt;
    `sizes`: the classes of numbers of rows that a person may have (`size_classes`), once these are known.
    """

    request: PrivateTable
    machine: Machine
    visible: Source
    columns: Sequence[str] | None
    domain: Domain | None
    sizes: Sequence[int] = ()

    @property
    def asked(self) -> Request:
        """The request, of a release."""
        assert isinstance(self.request, Request)
        return self.request

    @property
    def policy(self) -> Policy:
        assert isinstance(self.request.promise, Policy)
        return self.request.promise

    @property
    def workload(self) -> Workload:
        return self.request.workload if isinstance(self.request, Request) else ONE_WAY

    @property
    def own_columns(self) -> list[str]:
        """The columns of the table that are released."""
        names = self.visible.schema.names if self.columns is None else self.columns
        known = {ROWS_OF_PERSON, *(attribute.name for attribute in self._others)}
        return [name for name in names if name not in known]

    @property
    def known(self) -> list[Attribute]:
        """Attributes whose values are not to be learnt: of people, how many rows each has, and what a request
        says of its columns.
        """
        sizes = self.sizes or size_classes(self.policy.contributions)
        rows = [rows_of_person(sizes)] if self.policy.people else []
        return [*self._others, *rows]

    @property
    def _others(self) -> Sequence[Attribute]:
        return self.request.known if isinstance(self.request, Request) else ()

    @property
    def spill(self) -> Spill:
        """Where the rows' codes go, and how many stay in memory."""
        memory = whole_memory(self.policy, self.machine)
        return Spill(memory * CODES_SHARE, self.request.spill)

    @classmethod
    def of(cls, request: PrivateTable, machine: Machine) -> Scope:
        """Raise InputError or ResourceError for what names and types of the columns alone rule out."""
        domain, columns = request.declared, request.columns
        scope = cls(request, machine, request.visible, columns, domain)
        policy = scope.policy
        if domain is not None:  # whatever it says of itself, a domain that is handed in is declared
            domain = domain.holding([a.model_copy(update={"learnt": False}) for a in domain])
        if policy.privacy_id is not None:
            if domain is not None and policy.privacy_id in domain:
                domain = domain.project([name for name in domain.names if name != policy.privacy_id])
            columns = None if columns is None else [name for name in columns if name != policy.privacy_id]
        if policy.people:
            scope._check_person_columns(columns)
            if columns is not None and domain is not None:  # what is learnt is of the table's own
                columns = [*columns, ROWS_OF_PERSON]
        scope = replace(scope, columns=columns, domain=domain)
        if domain is not None and scope.known:
            more = [attribute for attribute in scope.known if attribute.name not in domain]
            scope = replace(scope, domain=domain.holding([*domain, *more]))
        if domain is None:
            scope._check_learnable()
        return scope

    def using(self, sizes: Sequence[int]) -> Scope:
        """The same where the numbers of rows that are used of a person come in these classes."""
        scope = replace(self, sizes=sizes)
        if self.domain is None:
            return scope
        known = {attribute.name for attribute in scope.known}
        others = [a for a in self.domain if a.name not in known]
        return replace(scope, domain=self.domain.holding([*others, *scope.known]))

    def _check_person_columns(self, columns: Sequence[str] | None) -> None:
        known = self.visible.schema.names if columns is None else columns
        if self.policy.person_columns and self.domain is not None and self.domain.rules:
            raise InputError("--person-columns cannot keep the rules of the domain; leave out one of the two")
        for name in self.policy.person_columns or ():
            if name not in known or name == ROWS_OF_PERSON:
                raise InputError(f"--person-columns {name!r}: there is no such column among those released")
        if self.policy.order_by is not None:
            self._check_order(known)

    def _check_order(self, known: Sequence[str]) -> None:
        """Whether the column that puts rows in order does so, by public facts."""
        name, domain = self.policy.order_by, self.domain
        assert name is not None
        if name not in known or name == ROWS_OF_PERSON:
            raise InputError(f"--order-by {name!r}: there is no such column among those released")
        if domain is not None and domain.rules:
            raise InputError("--order-by cannot keep the rules of the domain; leave out one of the two")
        text = name in self.visible.folder_columns or self.visible.text
        declared = domain[name].type if domain is not None and name in domain else None
        kind = declared or (None if text else kind_of(self.visible.schema.field(name)))
        if kind in ("string", "boolean"):
            what = "puts no row before another: name a date, a time or a number"
            raise InputError(f"--order-by {name!r} is a column of type {kind}, which {what}")
        for taken in names_for(known).intersection(known):
            raise InputError(f"the table has a column {taken!r}, which --order-by adds; rename it")

    def _check_learnable(self) -> None:
        """What can be refused before a domain is learnt: as if each column had a single code."""
        from factored_mwem.privacy.discover import check_delta

        names = [name for name in self.visible.schema.names if self.columns is None or name in self.columns]
        workload = self.workload
        check_delta(self.request.promise.delta)
        self.visible.check_domain(None)
        workload.check(names)
        if not self.visible.text:
            workload.check_kinds({name: kind_of(self.visible.schema.field(name)) for name in names})
        for criterion in self.policy.criteria:
            if not set(criterion.columns) <= set(names):
                raise InputError(f"--accept {criterion.text.strip()!r}: there is no such column")
        if names and not workload.asked:
            fixed = {"categories": [OTHER], "constraints": {"required": True}}
            least = Domain(Attribute.model_validate({"name": name, **fixed}) for name in names)
            candidates, _, _ = fitting(workload, least, self.policy, self.machine)
            for criterion in self.policy.criteria:
                if criterion.what == "mean" and not (candidates.orders == criterion.order).any():
                    what = f"no marginals of {criterion.order} columns are asked for"
                    raise InputError(f"--accept {criterion.text.strip()!r}: {what}")


class PersonFacts(NamedTuple):
    """How many rows of a person are used at most, and the columns that are the same in all of them; the noisy
    share of people who have more rows and the number of people, where these were counted; how often two rows
    of a person agree; the noisy share of people who have about as many rows, or more, where none beyond were
    counted.
    """

    most_rows: int
    constant: Sequence[str] = ()
    beyond: float | None = None
    people: float | None = None
    agreement: Agreement = Agreement()
    full: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The domain and the types its rows come back in, the marginals that may be measured, how many are
    `left_out`, and what the mechanism may use: `limits` of the trees, or the `queries` of other kinds.
    `learning`: what else is known where the domain was learnt; `people`: and of people.
    """

    request: Request
    domain: Domain
    schema: pa.Schema
    candidates: Candidates
    left_out: int = 0
    limits: RunLimits | None = None
    queries: Queries | None = None
    learning: Learning | None = None
    people: PersonFacts | None = None
    companions: Sequence[Companion] = ()

    @classmethod
    def of(
        cls,
        scope: Scope,
        domain: Domain,
        learning: Learning | None = None,
        people: PersonFacts | None = None,
    ) -> Plan:
        """The plan for a declared or learnt domain. Raises InputError, ResourceError if it does not fit."""
        request, policy = scope.asked, scope.policy
        columns = scope.columns if learning is None else domain.names
        domain, schema = fit_columns(domain, scope.visible, columns)
        check_types(domain, schema)
        scope.visible.check_domain(domain.modelled)
        companions: Sequence[Companion] = ()
        workload = request.workload
        if policy.people:  # shares of rows follow from shares of people if it is known who has how many
            workload = workload.beside(ROWS_OF_PERSON, domain.modelled.names)
        if policy.order_by is not None:
            companions = companions_of(domain, policy.order_by, people.constant if people else ())
            attributes = [*domain, *(each.attribute for each in companions)]
            domain = Domain(attributes, dialect=domain.dialect)
        if domain.zeros and policy.engine == "mwem":
            raise InputError("engine='mwem' cannot keep rules that rule out combinations; leave it at 'tree'")
        if domain.exchanges and policy.people:
            raise InputError('rows of people exchange no values: leave "exchange" out of the rules of order')
        public = PublicJoint.of(request.public, domain.modelled).positions
        candidates, left_out, limits = fitting(workload, domain, policy, scope.machine, companions, public)
        names = domain.modelled.names
        numbers = tuple(names.index(name) for name in request.numbers if name in names)
        candidates = replace(candidates, numbers=numbers)
        if domain.zeros and limits is not None:
            check_rules(domain, candidates, limits.cells)
        queries = None
        if policy.engine == "mwem" and request.workload.asked:
            from factored_mwem.mechanisms.queries import Queries

            queries = Queries.of(workload, candidates)
        known = (candidates, left_out, limits, queries, learning, people, companions)
        plan = cls(request, domain, schema, *known)
        if policy.certificate is not None:
            plan._check_certificate()
        return plan

    def _check_certificate(self) -> None:
        policy, budget = self.policy, self.request.budget
        from factored_mwem.mechanisms.certify import check_certificate, extent_of

        extent = extent_of(self.candidates, self.certified_cells, range(len(self.candidates)))
        cost = self.request.certifying / policy.tries
        check_certificate(extent, policy.criteria, cost, policy.unit, budget.composition)

    @property
    def policy(self) -> Policy:
        return self.request.policy

    @property
    def certified_cells(self) -> float:
        """Cells that a certificate counts at most, by the memory that rounds may take for theirs."""
        memory = self.limits.memory if self.limits is not None else math.inf
        return min(memory / BYTES_A_CERTIFIED_CELL, MAX_CERTIFIED_CELLS)

    @property
    def measured(self) -> tuple[Measurement, ...]:
        """The one-way marginals in the order of the domain, where learning it has measured them; of public
        columns there are none.
        """
        return self.learning.measured if self.learning is not None else ()

    @property
    def modelled(self) -> Domain:
        """The attributes of which a model is made; the others follow from them."""
        return self.domain.modelled

    @property
    def public(self) -> PublicJoint:
        """How often the values of public columns come together."""
        return PublicJoint.of(self.request.public, self.modelled)

    @property
    def told(self) -> dict[int, ToldColumn]:
        """By position: attributes whose marginals were paid for before."""
        names = self.modelled.names
        return {names.index(name): told for name, told in self.request.told.items() if name in names}

    @property
    def counted(self) -> Iterator[Measurement]:
        """Marginals that were measured before, of attributes as they are modelled."""
        names = self.modelled.names
        for name, looks in self.request.counted.items():
            if name in names:
                yield from (replace(look, positions=(names.index(name),)) for look in looks)

    @property
    def follows(self) -> dict[int, int]:
        """By the position of a companion that holds codes of a column, the column's."""
        names, kinds = self.modelled.names, ("previous", "start", "end")
        return {names.index(c.attribute.name): names.index(c.of) for c in self.companions if c.kind in kinds}

    @property
    def learnt(self) -> bool:
        return self.request.declared is None

    @property
    def late(self) -> str | None:
        """What to say where even the least that can be done takes longer than was asked."""
        return self.limits.late(self.policy) if self.limits is not None else None


def rows_of_person(ends: Sequence[int]) -> Attribute:
    """The number of rows of a person, by classes that end there (`size_classes`)."""
    facts = {"name": ROWS_OF_PERSON, "type": "integer", "constraints": {"required": True}}
    if len(ends) == ends[-1]:
        return Attribute.model_validate({**facts, "categories": list(ends), "categoriesOrdered": True})
    return Attribute.model_validate({**facts, "edges": [1, *(end + 1 for end in ends)]})


def fitting(
    workload: Workload,
    domain: Domain,
    policy: Policy,
    machine: Machine,
    companions: Sequence[Companion] = (),
    public: Sequence[int] = (),
) -> tuple[Candidates, int, RunLimits | None]:
    """(the candidates that fit the cell cap, how many do not, the limits of the trees); raises ResourceError
    if they need more memory than the machine has to give. `public`: attributes whose joint counts are public.
    """
    candidates = workload.candidates(domain, companions)
    if public:
        candidates = candidates.without(public)
        if not len(candidates):
            raise InputError("all that is asked for is about public columns; there is nothing to measure")
    if policy.engine == "tree":  # what is too large as it is may be measured at coarser levels
        return candidates, 0, limits_of(candidates, policy, machine)
    domain = domain.modelled
    check_attributes(domain, policy)
    small = candidates.keep(candidates.cells <= policy.cells)
    if workload.asked and len(small) < len(candidates):
        most = f"a question spans {candidates.cells.max():.3g} cells, more than --max-cells {policy.cells:,}"
        raise ResourceError(f"{most}; raise it or use fewer bins")
    check_memory(small, memory_limit())  # of now: it decides nothing but whether to go on
    if policy.components == "one" and domain.cells > policy.cells:
        most = f"components='one' needs {domain.cells:,} cells, more than --max-cells {policy.cells:,}"
        raise ResourceError(f"{most}; raise it or use fewer columns")
    return small, len(candidates) - len(small), None
