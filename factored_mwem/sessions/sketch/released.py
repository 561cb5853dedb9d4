"""Sketch: a released projection of a key column, which answers for any keys with error bars; and its file, a
header in JSON and arrays in the format of a model file.

The same sketch gives the same bytes. What is read may be a stranger's: all of it is checked.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from factored_mwem.accounting.accountant import Mechanism
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import InputError
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.saving.model_fields import MAX_SCALE, MIN_SCALE, Read
from factored_mwem.pipeline.saving.model_file import packed, parts_of
from factored_mwem.privacy.session import NoiseScale
from factored_mwem.tables.outputs.targets import Target, target_of
from factored_mwem.workload.projection import (
    MAX_BLOCKS,
    MAX_ROWS,
    Hashed,
    Listed,
    Projection,
    ProjectionReader,
)

log = logging.getLogger("factored_mwem")
VERSION = 1
KINDS = {
    Mechanism.GAUSSIAN: Composition.ZCDP,
    Mechanism.LAPLACE: Composition.PURE,
    Mechanism.LAPLACE_IN_RHO: Composition.PURE,
}
"""The composition under which each kind of noise is charged."""
MAX_SENSITIVITY = 2**90
Keys = Mapping[str, float] | Iterable[str]
"""A query: keys with weights from 0 to 1, or keys that count 1 each."""
LEAST = 4
"""Least coefficients of the polynomial: the standard deviation of an answer needs this many independent
signs.
"""
NORMAL = 1.959963984540054
"""Standard deviations of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class SketchAnswer:
    """How many records have the keys of a query, each times its weight: unbiased, may lie below 0; its
    expected standard deviation over noise and hash; 95 in 100 times the truth is from `low` to `high`.
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
    projection: Projection
    noisy: np.ndarray = field(repr=False)
    scale: NoiseScale
    statement: Statement = field(repr=False)
    _reader: ProjectionReader | None = field(default=None, init=False, repr=False)

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
        """<Q A, u> for each query Q. Raises InputError if a weight is not from 0 to 1, a key unlisted.

        Variance: of the noise |Q|^2 times that of a row, over T; of the projection, with 4-wise independent
        signs, (1/T) (|Q|^2 |D|^2 + <Q, D>^2 - 2 sum Q_x^2 D_x^2), of which the last two are at most
        (1 - 2/m) <Q, D>^2 for m keys; |D|^2 is estimated and <Q, D> answered by the sketch.
        """
        weighted = [_weights(query) for query in queries]
        numbers = {key: self._number(key) for query in weighted for key in query}
        if self._reader is None:
            self._reader = self.projection.reader(self.noisy)
        unique = np.array(list(numbers.values()), dtype=np.uint64)
        sums = dict(zip(numbers, (self._reader.sums(unique) / self.projection.size).tolist(), strict=True))
        squares = self.squares
        return [self._answer(query, sums, squares) for query in weighted]

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

    def save(
        self, path: str | Path | Target, *, overwrite: bool = False, exists: IfExists | None = None
    ) -> None:
        """Write the sketch file, whole or not at all. Raises InputError if it exists, without `overwrite`."""
        target, exists = target_of(path), exists or IfExists(overwrite)
        target.check(exists)
        content = self._content()
        with target.replacing(exists) as temporary:
            temporary.write_bytes(content)
        log.info("wrote %r: the sketch", str(target))

    def _content(self) -> bytes:
        """The file's bytes."""
        universe, projection = self.universe, self.projection
        header = {
            "fmwem_sketch": VERSION,
            "column": self.column,
            "hash_key": universe.key.hex() if isinstance(universe, Hashed) else None,
            "keys": list(universe.keys) if isinstance(universe, Listed) else None,
            "size": projection.size,
            "blocks": projection.blocks,
            "scale": self.scale.value,
            "composition": self.scale.composition,
            "statement": self.statement.model_dump(mode="json"),
        }
        return packed(header, {"noisy": self.noisy, "coefficients": projection.coefficients.ravel()})

    @classmethod
    def load(cls, path: str | Path) -> Sketch:
        """The sketch in a file, which may be a stranger's. Raises InputError if it is none, or damaged;
        ResourceError if too large.
        """
        writer = "`fmwem sketch build` of this version writes them"
        with parts_of(Path(path), "sketch file", writer) as (header, read):
            if header.get("fmwem_sketch") != VERSION:
                raise ValueError("another file, or of a newer program")
            return _put_together(header, read)


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


def _put_together(header: dict[str, Any], read: Read) -> Sketch:
    noisy, words = read("noisy", np.int64), read("coefficients", np.uint64)
    size, column = header["size"], header["column"]
    if type(size) is not int or not 1 <= size <= MAX_ROWS or len(noisy) != size:
        raise ValueError("a sketch of another size")
    blocks = header["blocks"]
    if not isinstance(column, str) or not column:
        raise ValueError("a sketch of no column")
    if type(blocks) is not int or not 1 <= blocks <= MAX_BLOCKS or size % blocks or len(words) % (2 * blocks):
        raise ValueError("blocks that do not fit")
    universe = _universe(header)
    projection = Projection(words.reshape(blocks, -1, 2), size, universe.bits)
    scale = NoiseScale(float(header["scale"]), Composition(header["composition"]))
    if not MIN_SCALE <= scale.value <= MAX_SCALE:
        raise ValueError("noise of no scale")
    if projection.independence < LEAST:
        raise ValueError("signs that no standard deviation is known of")
    statement = _sound(Statement.model_validate(header["statement"]), scale)
    return Sketch(column, universe, projection, noisy, scale, statement)


def _universe(header: dict[str, Any]) -> Hashed | Listed:
    code, keys = header["hash_key"], header["keys"]
    if (code is None) == (keys is None):
        raise ValueError("a universe is hashed or listed")
    if keys is not None:
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise ValueError("keys that are no text")
        return Listed(tuple(keys))
    if not isinstance(code, str) or not re.fullmatch("[0-9a-f]{32}", code):
        raise ValueError("no key of a hash")
    return Hashed(bytes.fromhex(code))


def _sound(stated: Statement, scale: NoiseScale) -> Statement:
    """The statement, checked: its one entry is for noise of this scale, and has a price."""
    stated.model_dump_json()  # ValueError for half of a surrogate pair
    (entry,) = stated.ledger
    Neighbours(stated.guarantee.neighbours)
    in_rho = entry.mechanism is not Mechanism.LAPLACE
    if entry.delta != "0" or not 0 < entry.sensitivity <= MAX_SENSITIVITY or entry.scale != scale.value:
        raise ValueError("an entry of another measurement")
    if KINDS[entry.mechanism] is not scale.composition:
        raise ValueError("noise of another kind than is charged")
    delta, composition = stated.guarantee.delta, stated.guarantee.composition
    if in_rho != (composition is Composition.ZCDP) or in_rho != (1e-250 < delta < 1):
        raise ValueError("a promise that cannot be")
    if not in_rho and delta != 0:
        raise ValueError("a promise that cannot be")
    if not math.isfinite(stated.recompute()):
        raise ValueError("no price")
    return stated
