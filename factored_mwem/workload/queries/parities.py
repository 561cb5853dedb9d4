"""Parities (Hadamard queries): rows with an even number of ones among some bits, less the other rows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.workload.queries.base import QueryRequest, Span, request_of

SIGNS = np.array([1, -1], dtype=np.int8)


class ParitiesRequest(QueryRequest):
    """All parities of at most `order` of the attributes that have two codes."""

    key: ClassVar[str] = "parities"
    option: ClassVar[str] = "parities"
    help: ClassVar[str] = "Keep all parities of at most K binary columns."
    repeats: ClassVar[bool] = False
    form: ClassVar[str] = "K"

    order: int = Field(ge=1, le=20)

    @classmethod
    def parse(cls, order: int, weight: float = 1.0) -> ParitiesRequest:
        """The order K."""
        if not 1 <= order <= 20:
            raise InputError(f"--parities {order}: a parity is over 1 to 20 attributes")
        return request_of(cls, order=order, weight=weight)

    def breadth(self, attributes: int) -> tuple[int, int, int]:
        return 1, attributes, min(self.order, attributes)

    def check(self, attributes: int) -> None:
        if self.order > attributes:
            raise InputError(f"--parities {self.order}: the table has only {attributes} columns")

    def in_words(self) -> str:
        return f"parities of up to {self.order} binary columns"

    def spans(self, domain: Domain) -> list[Span]:
        return [Span(tuple(domain.names[p] for p in self._binary(domain)), self.order, self.weight)]

    def questions(self, domain: Domain) -> Parities:
        return Parities.up_to(self._binary(domain), self.order)

    def _binary(self, domain: Domain) -> list[int]:
        binary = [p for p, size in enumerate(domain.shape) if size == 2]
        if len(binary) < self.order:
            raise InputError(
                f"--parities {self.order}: only {len(binary)} attributes have two values (a missing value "
                "counts as one)"
            )
        return binary


@dataclass(frozen=True, eq=False)
class Parities:
    """The parities over the binary attributes in each row of `members: int32[query, slot]`, -1 padded."""

    members: np.ndarray

    @classmethod
    def up_to(cls, binary: Sequence[int], order: int) -> Parities:
        """All parities of 1 to `order` of these attributes; the empty one is the number of rows."""
        sets = [s for k in range(1, order + 1) for s in itertools.combinations(binary, k)]
        return cls(np.array([s + (-1,) * (order - len(s)) for s in sets], dtype=np.int32).reshape(-1, order))

    @cached_property
    def cells(self) -> np.ndarray:
        return np.ones(len(self.members), dtype=np.int64)

    def positions(self, question: int) -> tuple[int, ...]:
        return tuple(int(p) for p in self.members[question] if p >= 0)

    def label(self, question: int, names: Sequence[str]) -> str:
        return "parity of " + ", ".join(names[p] for p in self.positions(question))

    def answers(self, source: Any) -> np.ndarray:
        """From rows: an exclusive or and a population count for each query, 64 rows a word. From a model: a
        product over its components.
        """
        if hasattr(source, "factors"):
            return self._of_product(source)
        if hasattr(source, "column"):
            columns = [source.column(p) for p in range(int(self.members.max(initial=-1)) + 1)]
            return parities_of(columns, self.members)
        tables = (source.marginal(self.positions(q)) for q in range(len(self.members)))
        return np.array([_signed(table) for table in tables])

    def _of_product(self, model: Any) -> np.ndarray:
        """n times each component's mean sign over its part of the query, from its Walsh transform."""
        from factored_mwem.kernels.linear import walsh  # here: requests are read where no kernel is needed

        ids = {id_: i for i, id_ in enumerate(model.factors)}
        starts, tables, bit = [], [], np.zeros(len(model.domain) + 1, dtype=np.int64)
        at = 0
        for factor in model.factors.values():
            starts.append(at)
            binary = [p for p, size in zip(factor.positions, factor.shape, strict=True) if size == 2]
            table = factor.shares(binary) if len(binary) < len(factor.positions) else factor.weights.copy()
            walsh(table)
            tables.append(table)
            bit[binary] = 1 << np.arange(len(binary))[::-1]
            at += len(table)
        flat, start = np.concatenate(tables), np.array([*starts, 0], dtype=np.int64)
        component = np.array([*(ids[int(i)] for i in model.factor_of), -1])[
            self.members
        ]  # padding reads the last entry
        parities = np.full(len(self.members), float(model.total))
        for j in range(self.members.shape[1]):
            same = component == component[:, j : j + 1]
            first = ~same[:, :j].any(axis=1) & (self.members[:, j] >= 0)
            mask = (bit[self.members] * same).sum(axis=1)
            parities *= np.where(first, flat[start[component[:, j]] + mask], 1.0)
        return parities

    def l1(self, unit: Unit) -> int:
        return unit.of_parity

    def l2_squared(self, unit: Unit) -> int:
        return unit.of_parity**2

    @property
    def lowest(self) -> int:
        return -1

    def axis_values(self, question: int) -> dict[int, np.ndarray]:
        return dict.fromkeys(self.positions(question), SIGNS)


def parities_of(columns: Sequence[np.ndarray], members: np.ndarray) -> np.ndarray:
    """int64[query]: the parities over `members` of rows whose bits (0 or 1) are in `columns`."""
    from factored_mwem.kernels.linear import parity_sums

    rows = len(columns[0])
    packed = np.zeros((len(columns), -(-rows // 64) * 8), dtype=np.uint8)
    for column, into in zip(columns, packed, strict=True):
        bits = np.packbits(column.astype(bool), bitorder="little")
        into[: len(bits)] = bits
    out = np.empty(len(members), dtype=np.int64)
    parity_sums(packed.view(np.uint64), rows, np.ascontiguousarray(members, dtype=np.int32), out)
    return out


def _signed(table: np.ndarray) -> Any:
    """The sum of a table over bits, with the sign of each cell's parity."""
    return (1 - 2 * (np.bitwise_count(np.arange(len(table))).astype(np.int64) % 2)) @ table
