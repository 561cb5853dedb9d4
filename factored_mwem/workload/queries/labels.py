"""Labels: a column that is to be predicted from the others, by its marginals with each of them."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from factored_mwem.domain.domain import Clique, Domain
from factored_mwem.errors import InputError
from factored_mwem.workload.queries.base import QueryRequest, Span, request_of, shown, weight_of
from factored_mwem.workload.queries.cuboids import Cuboids

WEIGHT = 10.0
"""Default weight of a label. On a census table, a survey and Adult, classifiers learnt as much with it as
with 20 and 50, which cost the other marginals more. With 5, a label that 4 % of the rows have was measured in
some runs only.
"""


class LabelRequest(QueryRequest):
    """The marginals of `column` with each other column of the release.

    Weighted above plain marginals by default: a rare label moves few rows, and so its marginals are never
    those that a model answers worst.
    """

    key: ClassVar[str] = "labels"
    option: ClassVar[str] = "label"
    help: ClassVar[str] = "Keep how column A[@WEIGHT] goes with each other one, to predict it; repeatable."
    form: ClassVar[str] = "A"
    example: ClassVar[str] = "income"

    column: str = Field(min_length=1)
    weight: float = Field(default=WEIGHT, gt=0, le=1000)

    @classmethod
    def parse(cls, text: str) -> LabelRequest:
        """`A`, with `@WEIGHT` if wanted. A name may hold what separates others: commas and colons."""
        name, at, weight = text.rpartition("@") if "@" in text else (text, "", "")
        if not name.strip() or (at and not weight.strip()):
            raise InputError(f"--label {shown(text)}: name a column, with a weight if wanted: income@10")
        factor = weight_of(weight, f"--label {shown(text)}", shown(f"{name}@2")) if at else WEIGHT
        return request_of(cls, column=name.strip(), weight=factor)

    @property
    def names(self) -> Clique:
        return (self.column,)

    def breadth(self, attributes: int) -> tuple[int, int, int]:
        return max(attributes - 1, 0), 2, 2

    def check(self, attributes: int) -> None:
        if attributes < 2:
            raise InputError(f"--label {shown(self.column)}: there is no other column to predict it from")

    def in_words(self) -> str:
        return f"{self.column} with each other column"

    def spans(self, domain: Domain) -> list[Span]:
        pairs = (domain.clique((self.column, name)) for name in domain.names if name != self.column)
        return [Span(pair, 2, self.weight) for pair in pairs]

    def questions(self, domain: Domain) -> Cuboids:
        at = domain.index(self.column)
        pairs = (tuple(sorted((at, p))) for p in range(len(domain)) if p != at)
        return Cuboids(tuple(pairs), domain.shape)
