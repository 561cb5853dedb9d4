"""Ranges: how many rows fall into a box over ordered attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.domain import Clique, Domain
from factored_mwem.errors import InputError
from factored_mwem.workload.queries.base import (
    MarginalSource,
    Names,
    QueryRequest,
    Span,
    request_of,
    shown,
    split_spec,
)

MAX_BOXES = 1_000_000
"""Most boxes of one workload."""


class RangesRequest(QueryRequest):
    """Boxes over ordered attributes: `count` random ones drawn from `seed`, or all, or all that begin at the
    lowest codes.
    """

    key: ClassVar[str] = "ranges"
    option: ClassVar[str] = "ranges"
    help: ClassVar[str] = "Keep ranges over A or A,B: A:1000 random ones, A:all, A:prefix; repeatable."
    form: ClassVar[str] = "A:1000"
    example: ClassVar[str] = "age:1000"

    attributes: Names = Field(min_length=1, max_length=6)
    which: Literal["random", "all", "prefix"] = "random"
    count: int = Field(default=1000, ge=1, le=MAX_BOXES)
    seed: int = Field(default=0, ge=0)

    @classmethod
    def parse(cls, text: str) -> RangesRequest:
        """`age:1000`, `age,hours-per-week:2000`, `age:all`, `age:prefix`, each with `@WEIGHT` if wanted."""
        names, what, weight = split_spec(text, cls.option)
        if what in ("all", "prefix"):
            return request_of(
                cls, attributes=names, which="all" if what == "all" else "prefix", weight=weight
            )
        if not what.isascii() or not what.isdigit() or len(what) > 9 or not 1 <= int(what) <= MAX_BOXES:
            raise InputError(
                f"--ranges {shown(text)}: say how many, 1 to {MAX_BOXES:,}, or all, or prefix; for example "
                f"{shown(','.join(names))}:1000"
            )
        return request_of(cls, attributes=names, count=int(what), weight=weight)

    @property
    def names(self) -> Clique:
        return self.attributes

    def in_words(self) -> str:
        how_many = f"{self.count:,} random" if self.which == "random" else self.which
        return f"{how_many} ranges over {', '.join(self.attributes)}"

    def check_kinds(self, kinds: Mapping[str, str]) -> None:
        self._ordered({name: kinds[name] not in ("string", "boolean") for name in self.attributes})

    def spans(self, domain: Domain) -> list[Span]:
        self._ordered({name: domain[name].ordered for name in self.attributes})
        sides = [domain[name].size - domain[name].nullable for name in self.attributes]
        boxes = math.prod(k if self.which == "prefix" else k * (k + 1) // 2 for k in sides)
        if self.which != "random" and boxes > MAX_BOXES:
            over = shown(", ".join(self.attributes))
            raise InputError(
                f"{self.which} ranges over {over} are {boxes:,} boxes, more than {MAX_BOXES:,}; ask for a "
                "number of them"
            )
        return [Span(domain.clique(self.attributes), len(self.attributes), self.weight, ordered=True)]

    def _ordered(self, ordered: Mapping[str, bool]) -> None:
        for name, is_so in ordered.items():
            if not is_so:
                raise InputError(
                    f"ranges over {name!r}: its values have no order; declare it a number, or its categories "
                    "as ordered"
                )

    def questions(self, domain: Domain) -> Ranges:
        """Missing values lie in no box."""
        at = tuple(sorted(domain.index(name) for name in self.attributes))
        attributes = [domain.attributes[p] for p in at]
        present = tuple(a.size - a.nullable for a in attributes)
        if self.which == "random":
            boxes = Ranges.random(at, present, self.count, seed=self.seed)
        else:
            boxes = (Ranges.every if self.which == "all" else Ranges.prefixes)(at, present)
        return replace(boxes, shape=tuple(a.size for a in attributes))


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Boxes over attributes `at` (positions, ascending) of sizes `shape`.

    `low`, `high: int64[box, axis]` are the first and last code inside.
    """

    at: tuple[int, ...]
    shape: tuple[int, ...]
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def random(cls, at: tuple[int, ...], shape: tuple[int, ...], count: int, *, seed: int) -> Ranges:
        """`count` boxes, the ends of each side two of its codes, uniform: public, by `seed`."""
        ends = np.random.default_rng(seed).integers(0, shape, size=(2, count, len(shape)))
        low, high = np.sort(ends, axis=0)
        return cls(at, shape, low, high)

    @classmethod
    def prefixes(cls, at: tuple[int, ...], shape: tuple[int, ...]) -> Ranges:
        """Every box that begins at the first codes."""
        high = np.ascontiguousarray(np.indices(shape).reshape(len(shape), -1).T)
        return cls(at, shape, np.zeros_like(high), high)

    @classmethod
    def every(cls, at: tuple[int, ...], shape: tuple[int, ...]) -> Ranges:
        """Every box: k (k + 1) / 2 intervals along each axis of k codes."""
        along = [np.array([(i, j) for i in range(k) for j in range(i, k)]) for k in shape]
        chosen = np.indices([len(s) for s in along]).reshape(len(shape), -1)
        both = np.stack([side[at] for side, at in zip(along, chosen, strict=True)], axis=-1)
        return cls(at, shape, both[:, 0], both[:, 1])

    @property
    def cells(self) -> np.ndarray:
        return np.ones(len(self.low), dtype=np.int64)

    def positions(self, question: int) -> tuple[int, ...]:
        return self.at

    def label(self, question: int, names: Sequence[str]) -> str:
        sides = zip(self.at, self.low[question], self.high[question], strict=True)
        return ", ".join(f"{names[p]} {low}..{high}" for p, low, high in sides)

    def answers(self, source: MarginalSource) -> np.ndarray:
        """One pass over the marginal makes its summed-area table; each box is then 2^axes reads."""
        table = source.marginal(self.at).reshape(self.shape)
        for axis in range(len(self.shape)):
            table = np.cumsum(table, axis=axis)
        table = np.pad(table, [(1, 0)] * len(self.shape))
        counts = np.zeros(len(self.low), dtype=table.dtype)
        for corner in range(2 ** len(self.shape)):
            lower = np.array([corner >> axis & 1 for axis in range(len(self.shape))], dtype=bool)
            at = np.where(lower, self.low, self.high + 1)
            counts += (-1) ** int(lower.sum()) * table[tuple(at.T)]
        return counts

    def l1(self, unit: Unit) -> int:
        return unit.of_counting_query

    def l2_squared(self, unit: Unit) -> int:
        return unit.of_counting_query**2

    @property
    def lowest(self) -> int:
        return 0

    def axis_values(self, question: int) -> dict[int, np.ndarray]:
        inside = {}
        for p, size, low, high in zip(
            self.at, self.shape, self.low[question], self.high[question], strict=True
        ):
            inside[p] = np.zeros(size, dtype=np.int8)
            inside[p][low : high + 1] = 1
        return inside
