"""Conditional: rows of a model that meet a condition, or in which one column's values are equally frequent.
Free, for the model is public.

A condition on a column is a factor on one attribute of the model (model/reweighted.py), so what is drawn is
the model's own conditional distribution. Where a condition cuts a bin, rows are drawn that may meet it, and
those are kept that do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem.answers.grammar import parse_where
from factored_mwem.answers.query import OneColumn
from factored_mwem.answers.restriction import share_of_codes, values_meet
from factored_mwem.answers.weights import column_of
from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, shortened
from factored_mwem.model.forest import Forest
from factored_mwem.model.reweighted import reweighted
from factored_mwem.pipeline.drawable import Drawable, aims_for, generator
from factored_mwem.pipeline.sampling import Batches
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.parsing import plain, read_units
from factored_mwem.workload.workload import Workload

RAREST = 1e-3
"""Of rows drawn in the bins that a condition cuts, this share at least must meet it."""
MIN_DRAWN, FEWEST, SPARE = 2**12, RAREST / 10, 20
"""Where rows are rejected: how many are drawn at a time at least; of all that were drawn this share, less so
many rows, must have been kept.
"""


@dataclass(frozen=True, slots=True, eq=False)
class RowCondition:
    """Conditions on columns of a domain. `shares: float64[code]` by modelled attribute: the part of a code's
    rows that meets them all, strictly between 0 and 1 where they cut a bin.
    """

    domain: Domain
    where: tuple[OneColumn, ...]
    shares: Mapping[int, np.ndarray]

    @classmethod
    def of(cls, domain: Domain, text: str) -> RowCondition:
        """Raises InputError for a text that is no condition, and for columns and values there are not."""
        where, shares = parse_where(text), dict[int, np.ndarray]()
        for column in dict.fromkeys(each.column for each in where):
            a, codes = attribute_of(domain, column)
            own = share_of_codes(domain[column], [each for each in where if each.column == column])
            shares[a] = shares.get(a, 1.0) * own[codes]
        return cls(domain, where, shares)

    @property
    def exact(self) -> bool:
        """Whether each code is wholly in or out."""
        return not any(((share > 0) & (share < 1)).any() for share in self.shares.values())

    def applied(self, model: Forest) -> tuple[Forest, float, float]:
        """(the model of rows with codes that may meet the conditions, the probability of these codes, the
        probability of the conditions). Raises InputError where that is 0.
        """
        possible = likely = model
        for a, share in self.shares.items():
            may = (share > 0).astype(np.float64)
            if not possible.marginal((a,)) @ may > 0:
                raise InputError("the model gives this condition probability 0: no row of it meets it")
            possible = reweighted(possible, a, may)
            likely = possible if self.exact else reweighted(likely, a, share)
        return possible, possible.total / model.total, likely.total / model.total

    def meets(self, rows: pa.RecordBatch) -> np.ndarray:
        """bool[row]: by the values that rows hold."""
        meets = np.ones(len(rows), dtype=bool)
        for column in dict.fromkeys(each.column for each in self.where):
            attribute, values = self.domain[column], plain(rows.column(column))
            own = [each for each in self.where if each.column == column]
            codes = encode(attribute, values)
            meets &= values_meet(attribute, own, codes, read_units(attribute, values))
        return meets


def attribute_of(domain: Domain, column: str) -> tuple[int, np.ndarray]:
    """(the modelled attribute that a column follows from, int64[its code]: the column's). Raises
    InputError.
    """
    column_of(domain, column)
    try:
        name, codes = domain.source_of(column)
    except ValueError as error:
        raise InputError(str(error)) from None
    return domain.modelled.index(name), codes


@dataclass(frozen=True, eq=False)
class ConditionalBatches(Batches):
    """Rows that meet a condition; `model` is that of rows which may meet it. What the condition is of stays
    as it was drawn when rows are refined.
    """

    condition: RowCondition = field(kw_only=True)

    def batch(self, number: int) -> pa.RecordBatch:
        """Raises InputError where hardly a row that is drawn keeps to the condition: rules of the domain may
        contradict it, which the probability of codes does not tell.
        """
        rng, wanted, parts = self.generator(number), self.length(number), list[pa.RecordBatch]()
        moved = self.domain.ties or self.domain.chains or self.domain.exchanges
        kept, drawn, sure = 0, 0, self.condition.exact and not moved
        while kept < wanted:
            size = wanted if sure else max(wanted, MIN_DRAWN)
            codes = self.refined(self._drawing.codes(size, rng), rng, [*self.condition.shares])
            rows = self._decoded(codes, rng)
            parts.append(rows if sure else rows.filter(pa.array(self.condition.meets(rows))))
            kept, drawn = kept + len(parts[-1]), drawn + size
            if kept < min(wanted, FEWEST * drawn - SPARE):
                raise InputError(
                    f"of {drawn:,} rows drawn {kept:,} met the condition: the domain's rules hardly allow it"
                )
        return pa.Table.from_batches(parts).combine_chunks().to_batches()[0].slice(0, wanted)


@dataclass(frozen=True, slots=True, eq=False)
class Conditioned:
    """What rows that meet a condition are drawn from, as a release of this `workload` and `policy` draws
    them. `probability`: of the condition, in the release's model.
    """

    drawable: Drawable
    workload: Workload
    policy: Mapping[str, Any]
    condition: RowCondition
    probability: float

    @classmethod
    def of(
        cls,
        drawable: Drawable,
        workload: Workload,
        policy: Mapping[str, Any],
        where: str | None = None,
        balance: str | None = None,
    ) -> Conditioned:
        """Rows that meet the condition `where`, in which the values of the column `balance` are equally
        frequent, those that have any probability.

        Of a release of people both may name only what is the same in all rows of a person, and no part of a
        bin. Raises InputError.
        """
        domain = drawable.domain
        condition = RowCondition(domain, (), {}) if where is None else RowCondition.of(domain, where)
        if drawable.people is not None:
            _check_people(drawable, condition, balance)
        model, possible, likely = condition.applied(drawable.model)
        if likely < RAREST * possible:
            many = f"only 1 in {possible / max(likely, 1e-300):,.0f} rows of the bins that it cuts meets it"
            raise InputError(f"the model gives this condition probability {likely:.2g}: {many}; widen it")
        if balance is not None:
            model = balanced(model, domain, balance)
        return cls(replace(drawable, model=model), workload, policy, condition, likely)

    def drawn(self, rows: int, seed: int) -> Batches:
        """So many rows, as yet to be drawn."""
        of = self.drawable
        if not self.condition.where or of.people is not None:
            return of.released(rows, seed, self.workload, self.policy)
        aims = aims_for(self.workload, of.domain, of.model, rows, self.policy)
        own = (of.model, of.domain, of.schema, rows, partial(generator, seed), aims)
        return ConditionalBatches(*own, condition=self.condition)


def computed_in(domain: Domain) -> set[str]:
    """The columns whose values are computed from those of others when rows are drawn."""
    return {*domain.derived, *(rule.compute for rules in domain.ties.values() for rule in rules)}


def balanced(model: Forest, domain: Domain, column: str) -> Forest:
    """The model in which all values of a column are equally frequent that have any probability."""
    a, codes = attribute_of(domain, column)
    mass = np.bincount(codes, model.marginal((a,)), minlength=domain[column].size)
    return reweighted(model, a, np.divide(model.total, mass, np.zeros_like(mass), where=mass > 0)[codes])


def _check_people(drawable: Drawable, condition: RowCondition, balance: str | None) -> None:
    """Raises InputError for what rows of a person may differ in."""
    people = drawable.people
    assert people is not None
    names = drawable.domain.modelled.names
    wanted = [names[a] for a in condition.shares]
    if balance is not None:
        wanted.append(names[attribute_of(drawable.domain, balance)[0]])
    loose: Sequence[str] = [n for n in wanted if n not in (ROWS_OF_PERSON, *people.constant)]
    if loose:
        known = ", ".join(repr(shortened(name)) for name in people.constant) or "none"
        raise InputError(
            f"{shortened(loose[0])!r} may differ between the rows of a person, and people are drawn whole; "
            f"name what is the same in all of them: {known}"
        )
    if not condition.exact:
        raise InputError("on people, a condition must end where bins end; `fmwem answer` shows where they do")
    tied = [each.column for each in condition.where if each.column in computed_in(drawable.domain)]
    if tied:
        raise InputError(f"{shortened(tied[0])!r} follows from another column when rows are drawn: name that")
