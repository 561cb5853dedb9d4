"""Request: a release as requested, checked by public facts; only names and types are read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
import pyarrow as pa

from factored_mwem.accounting.accountant import Budget
from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, ResourceError, shown
from factored_mwem.request.policy import Choices, Policy
from factored_mwem.request.promise import Books
from factored_mwem.request.table import PrivateTable, declared_domain
from factored_mwem.tables.backends.source import Source
from factored_mwem.workload.workload import Workload

if TYPE_CHECKING:
    from factored_mwem.privacy.session import Measurement
    from factored_mwem.request.public_columns import PublicColumns
    from factored_mwem.tables.backends.source import PeopleSource

NUMBERS = ("rows", "sample_seed")


class Options(Choices, total=False):
    """The keyword arguments of a request: its own options, and the fields of a policy. `spill`: a folder for
    the rows (as codes) that memory does not hold; `public`: the table that `public_columns` are known from.
    """

    domain: Domain | dict[str, Any] | str | Path | None
    columns: Sequence[str] | None
    public_columns: Sequence[str] | None
    public: Any
    rows: int | None
    sample_seed: int | None
    spill: str | Path | None


class BookedOptions(Options, Books, total=False):
    """The keyword arguments of a release: those of a request, and where its cost is entered."""


class ToldColumn(NamedTuple):
    """How a column is distributed, which was paid for before: synthetic `cells`, each of which counts
    `weights: float64[row]`, and the standard deviation of a share that noise gave it.
    """

    cells: pa.Array
    weights: np.ndarray
    stddev: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Request(PrivateTable):
    """A private table, what must come out right, and at what price."""

    promise: Policy
    workload: Workload
    rows: int | None
    sample_seed: int | None
    known: tuple[Attribute, ...] = ()
    """Attributes of columns whose values are public, or were paid for before."""
    public: PublicColumns | None = None
    told: Mapping[str, ToldColumn] = field(default_factory=dict)
    """Of these, and of how many rows a person has: what need not be measured by itself."""
    counted: Mapping[str, Sequence[Measurement]] = field(default_factory=dict)
    """Of these: noisy counts of all their values that were paid for before, and are fitted with the rest."""
    hanging: tuple[str, ...] = ()
    """Of these: how many rows of other tables hang on a row."""
    family: str | None = None
    """The column that parts the rows of a person; in each part the columns `shared` are the same."""
    shared: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, table: Any, workload: Workload | int, policy: Policy | None = None, **options: Unpack[Options]
    ) -> Request:
        """Raises InputError for arguments of a wrong type, now rather than after the budget is spent. Options
        that are not the request's own are fields of the policy, if no policy is passed.
        """
        choices: dict[str, Any] = dict(options)
        own: dict[str, Any] = {name: choices.pop(name, None) for name in ("domain", "columns", "spill")}
        named = choices.pop("public_columns", None), choices.pop("public", None)
        numbers = {name: choices.pop(name, None) for name in NUMBERS}
        if isinstance(workload, Integral) and not isinstance(workload, bool):
            workload = Workload.marginals(int(workload))
        if not isinstance(workload, Workload) or workload == Workload():
            raise InputError(
                f"workload={shown(workload)}: must be a Workload, or the order K of all K-way marginals"
            )
        if policy is not None and not isinstance(policy, Policy):
            raise InputError(f"policy={shown(policy)}: must be a Policy, for example Policy.of(epsilon=1.0)")
        for name, value in numbers.items():
            whole = isinstance(value, Integral) and not isinstance(value, bool)
            if value is not None and (not whole or value < 0):
                raise InputError(f"{name}={shown(value)}: must be a whole number, 0 or more")
            numbers[name] = None if value is None else int(value)
        policy = Policy.given(policy, choices)
        declared = own["domain"] = declared_domain(own["domain"])
        if named == (None, None):
            return cls.open(table, policy, workload=workload, **own, **numbers)
        from factored_mwem.request.public_columns import PublicColumns

        public = PublicColumns.given(*named, declared, beside=table)
        if declared is not None:
            own["domain"] = public.beside(declared)
        more: dict[str, Any] = {"known": public.attributes, "public": public}
        made = cls.open(table, policy, workload=workload, **own, **numbers, **more)
        made._check_public(public)
        return made

    def _check_public(self, public: PublicColumns) -> None:
        """Raises InputError for what public columns do not go with."""
        policy = self.policy
        if policy.people or policy.engine != "tree":
            what = "people=True (--people)" if policy.people else f"engine={policy.engine!r}"
            raise InputError(f"--public-columns does not go with {what}; leave out one of the two")
        if policy.certificate or policy.criteria:
            raise InputError(
                "--public-columns does not go with --certificate or --accept: a certificate measures nothing "
                "of what is taken from the public table; leave out one of the two"
            )
        joint = math.prod(attribute.size for attribute in public.attributes)
        if joint > policy.cells:
            what = f"the public columns have {joint:,} combinations, more than --max-cells {policy.cells:,}"
            raise ResourceError(f"{what}; name fewer of them, or declare fewer bins")
        released = self.columns or list((self.declared or self.visible.schema).names)
        for name in public.names:
            self.private.check_column(name, ", which --public-columns names,")
            if name == policy.privacy_id or name not in released:
                raise InputError(f"--public-columns {name!r}: the column is not among those released")
        if set(released) <= {*public.names, policy.privacy_id}:
            raise InputError(
                "--public-columns names all columns, so there is nothing to measure; leave out one"
            )

    def __repr__(self) -> str:
        more = f"rows={self.rows}, sample_seed={self.sample_seed}"
        return f"{PrivateTable.__repr__(self).removesuffix(')')}, {self.workload!r}, {more})"

    @property
    def policy(self) -> Policy:
        return self.promise

    def _visible(self) -> Source:
        """The columns that a release sees; with `people` also how many rows each person has."""
        by = self.policy.privacy_id
        if self.policy.people and by is not None:
            return self.private.with_rows_of_people(by)
        return PrivateTable._visible(self)

    def people(self, most: int | None = None) -> PeopleSource:
        """The rows of people, each of whom weighs one and has up to `most` rows. May read ids."""
        by, policy = self.policy.privacy_id, self.policy
        assert by is not None, "a policy of people names them"
        order = None
        if policy.order_by is not None:
            from factored_mwem.tables.inputs.people import RowOrder

            declared = self.declared
            known = declared is not None and policy.order_by in declared
            order = RowOrder(policy.order_by, declared[policy.order_by] if declared and known else None)
        most = most or policy.contributions
        return self.private.people(by, most, policy.unit.row_weight, self.nobody, order)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that say how many rows there are, of a person or of other tables."""
        return (*self.hanging, *([ROWS_OF_PERSON] if self.policy.people else ()))

    @property
    def public_facts(self) -> dict[str, Any] | None:
        """What a record says of public columns, if there are any."""
        return None if self.public is None else self.public.facts

    @property
    def budget(self) -> Budget:
        return self.policy.budget(learn_domain=self.declared is None)

    @property
    def certifying(self) -> Fraction:
        """What all certificates may spend together."""
        return self.budget.amount * Fraction(self.policy.certificate or 0)

    @property
    def fitting_all(self) -> Budget:
        """The part of the budget that the certificates leave; all of it, if there are none."""
        return self.budget.part(self.budget.amount - self.certifying)

    @property
    def fitting(self) -> Budget:
        """An equal part of that for each try."""
        return self.budget.part((self.budget.amount - self.certifying) / self.policy.tries)

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides what is released, but for the rows and the policy: public facts, as JSON."""
        facts = {
            "workload": self.workload.to_dict(),
            "domain": self.declared.to_dict() if self.declared is not None else None,
            "schema": [[field.name, str(field.type)] for field in self.private.schema],
            "columns": self.columns,
            "rows": self.rows,
            "sample_seed": self.sample_seed,
        }
        facts |= {} if self.public is None else {"public": self.public.facts}
        return json.loads(json.dumps(facts))
