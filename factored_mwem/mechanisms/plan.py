"""Plan: every decision about a release that follows from public facts and the domain, declared or learnt.
`fmwem check` prints it, a release executes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from factored_mwem.backends.source import Source, Spill
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.mechanisms.certify import check_certificate, extent_of
from factored_mwem.mechanisms.first_domain import OTHER
from factored_mwem.mechanisms.learn import Learnt
from factored_mwem.mechanisms.limits import (
    CODES_SHARE,
    Limits,
    Machine,
    check_attributes,
    limits_of,
    memory_limit,
    whole_memory,
)
from factored_mwem.mechanisms.queries import Queries
from factored_mwem.mechanisms.residuals import one_shot_suits
from factored_mwem.mechanisms.rules import check_rules
from factored_mwem.mechanisms.shares import Course, choose_rounds, one_way_share
from factored_mwem.mechanisms.total import Total
from factored_mwem.policy import Policy
from factored_mwem.privacy.counts import check_memory
from factored_mwem.privacy.session import Measurement
from factored_mwem.request import Request
from factored_mwem.tables.codec import fit_columns
from factored_mwem.tables.derive import check_rules as check_types
from factored_mwem.tables.kinds import kind_of
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.workload import Workload

BYTES_A_CERTIFIED_CELL = 32.0
"""Counts of the private and of the released rows, of a batch of these, and in grains."""
MAX_CERTIFIED_CELLS = 2.0**27
"""Of all marginals that are certified: 4 GB with what counting takes beside them."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A request without its privacy-id column, on a given machine: all that is known before there is a
    domain.

    `visible`: the table's names and types; `domain`: the declared one, None where it must be learnt.
    """

    request: Request
    machine: Machine
    visible: Source
    columns: Sequence[str] | None
    domain: Domain | None

    @property
    def spill(self) -> Spill:
        """Where the rows' codes go, and how many stay in memory."""
        memory = whole_memory(self.request.policy, self.machine)
        return Spill(memory * CODES_SHARE, self.request.spill)

    @classmethod
    def of(cls, request: Request, machine: Machine) -> Scope:
        """InputError or ResourceError for what can be refused by the names and types of the columns."""
        policy, domain, columns, visible = request.policy, request.declared, request.columns, request.private
        if request.workload.asked and policy.iterate == "average":
            what = "iterate='average' is for marginals alone"
            raise InputError(f"{what}; leave it out with labels, cubes, ranges or parities")
        if domain is not None:  # whatever it says of itself, a domain that is handed in is declared
            fields = [a.model_copy(update={"learnt": False}) for a in domain]
            domain = Domain(fields, rules=domain.rules)
        if policy.privacy_id is not None:
            if domain is not None and policy.privacy_id in domain:
                domain = domain.project([name for name in domain.names if name != policy.privacy_id])
            columns = None if columns is None else [name for name in columns if name != policy.privacy_id]
            visible = visible.without(policy.privacy_id)
        scope = cls(request, machine, visible, columns, domain)
        if domain is None:
            scope._check_learnable()
        return scope

    def _check_learnable(self) -> None:
        """What can be refused before a domain is learnt: as if each column had a single code."""
        names = [name for name in self.visible.schema.names if self.columns is None or name in self.columns]
        workload = self.request.workload
        self.visible.check_domain(None)
        workload.check(names)
        if not self.visible.text:
            workload.check_kinds({name: kind_of(self.visible.schema.field(name)) for name in names})
        for criterion in self.request.policy.criteria:
            if criterion.column is not None and criterion.column not in names:
                raise InputError(f"--accept {criterion.text.strip()!r}: there is no such column")
        if names and not workload.asked:
            fixed = {"categories": [OTHER], "constraints": {"required": True}}
            least = Domain(Attribute.model_validate({"name": name, **fixed}) for name in names)
            candidates, _, _ = fitting(workload, least, self.request.policy, self.machine)
            for criterion in self.request.policy.criteria:
                if criterion.what == "mean" and not (candidates.orders == criterion.order).any():
                    what = f"no marginals of {criterion.order} columns are asked for"
                    raise InputError(f"--accept {criterion.text.strip()!r}: {what}")

    def bounded(self) -> Source:
        """The private table with at most `contributions` rows of each person, where a column names them.
        Reads rows.
        """
        policy, declared = self.request.policy, self.request.declared
        if policy.privacy_id is None:
            return self.request.private
        missing: Sequence[str] = ()
        if declared is not None and policy.privacy_id in declared:
            missing = declared[policy.privacy_id].missing_values or ()
        return self.request.private.bounded(policy.privacy_id, policy.contributions, missing)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The domain and the types its rows come back in, the marginals that may be measured, how many are
    `left_out`, and what the mechanism may use: `limits` of the trees, or the `queries` of other kinds.
    `learning`: what else is known where the domain was learnt.
    """

    request: Request
    domain: Domain
    schema: pa.Schema
    candidates: Candidates
    left_out: int = 0
    limits: Limits | None = None
    queries: Queries | None = None
    learning: Learnt | None = None

    @classmethod
    def of(cls, scope: Scope, domain: Domain, learning: Learnt | None = None) -> Plan:
        """The plan for a declared or learnt domain. InputError or ResourceError for what does not fit it."""
        request, policy = scope.request, scope.request.policy
        columns = scope.columns if learning is None else domain.names
        domain, schema = fit_columns(domain, scope.visible, columns)
        check_types(domain, schema)
        scope.visible.check_domain(domain.modelled)
        if domain.zeros and policy.engine == "mwem":
            raise InputError("engine='mwem' cannot keep rules that rule out combinations; leave it at 'tree'")
        candidates, left_out, limits = fitting(request.workload, domain, policy, scope.machine)
        if domain.zeros and limits is not None:
            check_rules(domain, candidates, limits.cells)
        queries = None
        if policy.engine == "mwem" and request.workload.asked:
            queries = Queries.of(request.workload, candidates)
        plan = cls(request, domain, schema, candidates, left_out, limits, queries, learning)
        if policy.certificate is not None:
            plan._check_certificate()
        return plan

    def _check_certificate(self) -> None:
        policy, budget = self.policy, self.request.budget
        extent = extent_of(self.candidates, self.certified_cells, range(len(self.candidates)))
        cost = self.request.certifying / policy.tries
        check_certificate(extent, policy.criteria, cost, policy.unit, budget.composition)

    @property
    def policy(self) -> Policy:
        return self.request.policy

    @property
    def certified_cells(self) -> float:
        """Cells of marginals that a certificate counts at most, by the memory that rounds may take for
        theirs.
        """
        memory = self.limits.memory if self.limits is not None else math.inf
        return min(memory / BYTES_A_CERTIFIED_CELL, MAX_CERTIFIED_CELLS)

    @property
    def measured(self) -> tuple[Measurement, ...]:
        """The one-way marginals in the order of the domain, where learning it has measured them."""
        return self.learning.measured if self.learning is not None else ()

    @property
    def modelled(self) -> Domain:
        """The attributes of which a model is made; the others follow from them."""
        return self.domain.modelled

    @property
    def learnt(self) -> bool:
        return self.request.declared is None

    def course(self, total: Total) -> Course:
        """What can be decided only once the number of rows is known, be it public, noisy or assumed."""
        policy, budget, candidates = self.policy, self.request.fitting, self.candidates
        if self.limits is None:
            questions = len(self.queries) if self.queries is not None else None
            return choose_rounds(candidates, policy, budget, total.records, questions=questions)
        if one_shot_suits(candidates, policy, budget, total.records, self.limits.cells):
            return Course(0, one_way_share(candidates.domain, policy, budget, total.records), at_once=True)
        if candidates.orders.max() <= 1:
            return Course(0, Fraction(1))
        return Course(self.limits.rounds, one_way_share(candidates.domain, policy, budget, total.records))

    @property
    def late(self) -> str | None:
        """What to say where even the least that can be done takes longer than was asked."""
        return self.limits.late(self.policy) if self.limits is not None else None


def fitting(
    workload: Workload, domain: Domain, policy: Policy, machine: Machine
) -> tuple[Candidates, int, Limits | None]:
    """(the candidates that fit the cell cap, how many do not, the limits of the trees); ResourceError where
    they need more memory than the machine has to give.
    """
    candidates = workload.candidates(domain)
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
