"""Cuboids: whole marginals, all cells of one at a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

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


class CubeRequest(QueryRequest):
    """A datacube: the marginals over all subsets of `attributes`, of at most `order` of them."""

    key: ClassVar[str] = "cubes"
    option: ClassVar[str] = "cube"
    help: ClassVar[str] = "Keep all marginals over A,B,C[:K]; repeatable."
    form: ClassVar[str] = "A,B,C"
    example: ClassVar[str] = "age,sex:2"

    attributes: Names = Field(min_length=1, max_length=64)
    order: int | None = Field(default=None, ge=1)

    @classmethod
    def parse(cls, text: str) -> CubeRequest:
        """`A,B,C` or `A,B,C:2`, each with `@WEIGHT` if wanted."""
        names, what, weight = split_spec(text, cls.option)
        if what and not (
            what.isascii() and what.isdigit() and len(what) < 10 and 1 <= int(what) <= len(names)
        ):
            example = f"{','.join(names)}:{min(2, len(names))}"
            raise InputError(
                f"--cube {shown(text)}: the order is a number from 1 to {len(names)}; for example "
                f"{shown(example)}"
            )
        return request_of(cls, attributes=names, order=int(what) if what else None, weight=weight)

    @property
    def names(self) -> Clique:
        return self.attributes

    def breadth(self, attributes: int) -> tuple[int, int, int]:
        width = len(self.attributes)
        return 1, width, min(self.order or width, width)

    def check(self, attributes: int) -> None:
        if self.order and self.order > len(self.attributes):
            raise InputError(
                f"a cube over {len(self.attributes)} attributes has no marginals of {self.order}"
            )

    def in_words(self) -> str:
        return f"cube over {', '.join(self.attributes)}" + (f", up to {self.order}-way" if self.order else "")

    def spans(self, domain: Domain) -> list[Span]:
        return [Span(domain.clique(self.attributes), self.order or len(self.attributes), self.weight)]

    def questions(self, domain: Domain) -> Cuboids:
        at = sorted(domain.index(name) for name in self.attributes)
        orders = range(1, (self.order or len(at)) + 1)
        return Cuboids(tuple(c for order in orders for c in itertools.combinations(at, order)), domain.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Cuboids:
    """The marginals over each of `cliques` (positions, ascending) of a domain of sizes `shape`."""

    cliques: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]

    @property
    def cells(self) -> np.ndarray:
        return np.array(
            [int(np.prod([self.shape[p] for p in clique], dtype=np.int64)) for clique in self.cliques],
            dtype=np.int64,
        )

    def positions(self, question: int) -> tuple[int, ...]:
        return self.cliques[question]

    def label(self, question: int, names: Sequence[str]) -> str:
        return " x ".join(names[p] for p in self.cliques[question])

    def answers(self, source: MarginalSource) -> np.ndarray:
        """Counted where no set of one attribute more is asked, too; else added up from that one."""
        tables: dict[tuple[int, ...], np.ndarray] = {}
        above: dict[tuple[int, ...], tuple[int, ...]] = {}
        for clique in sorted(self.cliques, key=len, reverse=True):
            holder = above.get(clique)
            above.update(dict.fromkeys(itertools.combinations(clique, len(clique) - 1), clique))
            if holder is None:
                tables[clique] = source.marginal(clique)
            else:
                table = tables[holder].reshape([self.shape[p] for p in holder])
                tables[clique] = table.sum(
                    axis=tuple(i for i, p in enumerate(holder) if p not in clique)
                ).ravel()
        return np.concatenate([tables[clique] for clique in self.cliques])

    def l1(self, unit: Unit) -> int:
        return unit.l1_of_marginal

    def l2_squared(self, unit: Unit) -> int:
        return unit.l2_squared_of_marginal

    @property
    def lowest(self) -> int:
        return 0

    def axis_values(self, question: int) -> None:
        return None
