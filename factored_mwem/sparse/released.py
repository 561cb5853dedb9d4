"""Sketch: a released projection of a key column, and what it says of any keys, with error bars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from factored_mwem.errors import InputError
from factored_mwem.files import IfExists
from factored_mwem.pipeline.statement import Statement
from factored_mwem.privacy.session import NoiseScale
from factored_mwem.tables.targets import Target, target_of
from factored_mwem.workload.projection import Hashed, Listed, Stack, StackReader

Keys = Mapping[str, float] | Iterable[str]
"""A query: keys with weights from 0 to 1, or keys that count 1 each."""
LEAST = 4
"""Coefficients of the polynomial, and so independent signs, that an answer's standard deviation rests on."""
NORMAL = 1.959963984540054
"""Standard deviations of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class SketchAnswer:
    """How many records have the keys of a query, each times its weight: an unbiased estimate, which may lie
    below 0, and its expected standard deviation over noise and hash; `low` and `high` hold the truth 95 times
    in 100.
    """

    keys: int
    estimate: float
    noise_stderr: float
    projection_stderr: float

    @property
    def stderr(self) -> float:
        return math.hypot(self.noise_stderr, self.projection_stderr)

    @property
    def low(self) -> float:
        return self.estimate - NORMAL * self.stderr

    @property
    def high(self) -> float:
        return self.estimate + NORMAL * self.stderr

    def to_dict(self) -> dict[str, Any]:
        names = ("keys", "estimate", "stderr", "noise_stderr", "projection_stderr", "low", "high")
        return {name: getattr(self, name) for name in names}

    def text(self) -> str:
        return f"{self.estimate:,.1f} +- {self.stderr:,.1f}  ({self.low:,.1f} to {self.high:,.1f})"


@dataclass(slots=True, eq=False)
class Sketch:
    """The noisy sums of a column's keys, with the hash that made them and the statement of their cost.

    `noisy: int64[row]`. All of it is public.

    >>> import pyarrow as pa
    >>> from factored_mwem import Sketch, sketch
    >>> sketch(pa.table({"word": ["a", "a", "b"]}), "word", size=64).save("words.sketch")
    >>> Sketch.load("words.sketch").answer({"a": 1.0, "b": 0.5}).keys
    2
    """

    column: str
    universe: Hashed | Listed
    projection: Stack
    noisy: np.ndarray = field(repr=False)
    scale: NoiseScale
    statement: Statement = field(repr=False)
    _reader: StackReader | None = field(default=None, init=False, repr=False)

    @property
    def squares(self) -> float:
        """An estimate of |D|^2, the sum over keys of their squared counts, from the sketch itself: the rows'
        mean square less that of the noise, which costs nothing.
        """
        values = self.noisy.astype(np.float64)
        return max(0.0, float((values**2).mean()) - self.scale.stddev**2)

    def answer(self, query: Keys) -> SketchAnswer:
        """The answer to one query: see `answers`."""
        return self.answers([query])[0]

    def answers(self, queries: Sequence[Keys]) -> list[SketchAnswer]:
        """<Q A, u> for each query Q. InputError where a weight is not from 0 to 1, or a key not in the list.

        Variance: of the noise |Q|^2 times that of a row, over T; of the projection, with 4-wise independent
        signs, (1/T) (|Q|^2 |D|^2 + <Q, D>^2 - 2 sum Q_x^2 D_x^2), of which the last two are at most
        (1 - 2/m) <Q, D>^2 for m keys; |D|^2 is estimated and <Q, D> answered by the sketch.
        """
        asked = [_weights(query) for query in queries]
        numbers = {key: self._number(key) for query in asked for key in query}
        if self._reader is None:
            self._reader = self.projection.reader(self.noisy)
        unique = np.array(list(numbers.values()), dtype=np.uint64)
        sums = dict(zip(numbers, (self._reader.sums(unique) / self.projection.size).tolist(), strict=True))
        squares = self.squares
        return [self._answer(query, sums, squares) for query in asked]

    def _answer(self, query: dict[str, float], sums: dict[str, float], squares: float) -> SketchAnswer:
        size, m = self.projection.size, max(1, len(query))
        estimate = math.fsum(weight * sums[key] for key, weight in query.items())
        norm = math.fsum(weight**2 for weight in query.values())
        noise = self.scale.stddev**2 * norm / size
        cross = (1 - 2 / m) * max(0.0, estimate**2 - noise)
        projection = max(0.0, norm * squares + cross) / size
        return SketchAnswer(len(query), estimate, math.sqrt(noise), math.sqrt(projection))

    def _number(self, key: str) -> int:
        number = self.universe.number(key)
        if number is None:
            raise InputError(f"key {key!r} is not in the sketch's list of keys")
        return number

    def save(self, path: str | Path | Target, *, overwrite: bool = False) -> None:
        """Write the sketch file, whole or not at all. InputError where it exists, without `overwrite`."""
        from factored_mwem.sparse.sketch_file import save

        save(self, target_of(path), IfExists(overwrite))

    @classmethod
    def load(cls, path: str | Path) -> Sketch:
        """What a sketch file holds, which may be a stranger's. InputError where it is none, or damaged."""
        from factored_mwem.sparse.sketch_file import load

        return load(Path(path))


def _weights(query: Keys) -> dict[str, float]:
    """A query as keys with weights; of keys without weights, each once."""
    if isinstance(query, str):
        raise InputError(f"a query is a list of keys, not a text: write [{query!r}]")
    if not isinstance(query, Mapping):
        query = dict.fromkeys(query, 1.0)
    for key, weight in query.items():
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not isinstance(key, str) or not number or not 0 <= weight <= 1:
            raise InputError("a query has keys that are text, with weights from 0 to 1")
    return {key: float(weight) for key, weight in query.items()}
