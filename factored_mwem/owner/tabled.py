"""Tabled: NOT PRIVATE. Columns that follow from one other, or from two together, by a table in every row."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import OTHER, Attribute, Scalar
from factored_mwem.domain.derived import single_valued
from factored_mwem.domain.rules import Derivation, Deriving, Lookup, Rule
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.decode import labels_of
from factored_mwem.tables.codes.parsing import plain, read_units
from factored_mwem.tables.inputs.table import Table

LEAST, MOST = 3, 512
"""Values of a column that follows from others; of fewer columns agree by chance."""
ROWS_A_CELL = 20
"""At least so many rows there are to a combination of values that another follows from."""
MOST_UNLISTED = 0.01
"""Share of the rows whose source may be no listed value: what follows from all such is told as one value."""
MOST_SOURCES = 24
"""Columns of few values that others may follow from: of more, the first."""
WIDE = 2**31
"""Values are below this, in steps of their last decimal; -WIDE stands for one that is missing."""
SOME_ROWS = 2000
"""The first rows, which rule out most guesses."""


@dataclass(slots=True)
class _Guess:
    """That `target` follows from `sources`; `seen: int64`: what was seen of both, each once."""

    sources: tuple[Attribute, ...]
    target: Attribute
    seen: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rows: int = 0
    unlisted: int = 0

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(int64[seen]: the combination of codes of the sources, ascending; the value of the target)."""
        return self.seen // (2 * WIDE), self.seen % (2 * WIDE) - WIDE

    @property
    def holds(self) -> bool:
        return bool((np.diff(self.pairs[0]) > 0).all())

    def see(self, codes: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> None:
        """Some more rows: those whose sources are listed values."""
        cells = np.zeros(len(values[self.target.name]), dtype=np.int64)
        listed = np.ones(len(cells), dtype=bool)
        for source in self.sources:
            own = codes[source.name]
            cells = cells * source.size + own
            listed &= own != (source.fallback_code if source.other == OTHER else -1)
        fresh = cells[listed] * (2 * WIDE) + values[self.target.name][listed] + WIDE
        self.seen = np.union1d(self.seen, fresh)
        self.rows += len(listed)
        self.unlisted += int((~listed).sum())


def tables_in(
    table: Table, attributes: Sequence[Attribute], counts: Mapping[str, np.ndarray], rules: Sequence[Rule]
) -> Iterator[Rule]:
    """Of columns that no rule names yet: first what follows from one, then what follows from two and from
    neither. Two passes over the rows. `counts`: by column int64[value], its distinct values.
    """
    taken = {rule.columns[0] for rule in rules if isinstance(rule, Deriving)}
    used = {name for rule in rules for name in rule.columns}
    rows = max((int(of.sum()) for of in counts.values()), default=0)
    sources = [a for a in attributes if a.name not in taken and a.categorical and 2 <= a.size <= MOST]
    targets = [
        a for a in attributes if a.name not in used and LEAST <= len(counts[a.name]) <= MOST and _written(a)
    ]
    found: set[str] = set()
    for order in (1, 2):
        guesses = [
            _Guess(of, target)
            for target in targets
            if target.name not in found
            for of in itertools.combinations([a for a in sources[:MOST_SOURCES] if a is not target], order)
            if math.prod(a.size for a in of) * ROWS_A_CELL <= rows
        ]
        for each in _that_hold(table, guesses):
            names = {source.name for source in each.sources}
            if each.target.name not in found and not names & found and len(np.unique(each.pairs[1])) >= LEAST:
                found.add(each.target.name)
                yield _rule_of(each)


def _written(attribute: Attribute) -> bool:
    """Whether its values can be told one by one."""
    if attribute.categorical:
        return True
    if attribute.type not in ("integer", "number") or attribute.sentinels:
        return False
    return bool(np.abs(attribute.cuts).max() * 10.0 ** (attribute.decimals or 0) < WIDE)


def _that_hold(table: Table, guesses: list[_Guess]) -> list[_Guess]:
    for batch in _in_parts(table, guesses):
        left = [guess for guess in guesses if guess.holds]
        names = _names(left)
        columns = {name: batch.column(name) for name in names}
        by_name = {a.name: a for guess in left for a in (*guess.sources, guess.target)}
        codes = {n: encode(by_name[n], c).astype(np.int64) for n, c in columns.items()}
        values = {
            n: codes[n] if single_valued(by_name[n]) else _units(by_name[n], c) for n, c in columns.items()
        }
        for guess in left:
            guess.see(codes, values)
        guesses = left
    return [guess for guess in guesses if guess.holds and guess.unlisted <= MOST_UNLISTED * guess.rows]


def _in_parts(table: Table, guesses: list[_Guess]) -> Iterator[pa.RecordBatch]:
    """The rows, the first of each batch apart."""
    for batch in table.batches(_names(guesses)) if guesses else ():
        yield batch.slice(0, SOME_ROWS)
        yield batch.slice(SOME_ROWS)


def _names(guesses: Sequence[_Guess]) -> list[str]:
    return [*dict.fromkeys(a.name for guess in guesses for a in (*guess.sources, guess.target))]


def _units(attribute: Attribute, column: pa.Array) -> np.ndarray:
    """int64[row]: numbers, in steps of their last decimal."""
    units = read_units(attribute, plain(column))
    steps = np.rint(units.filled(0).astype(np.float64) * 10.0 ** (attribute.decimals or 0)).astype(np.int64)
    return np.where(np.ma.getmaskarray(units), -WIDE, np.clip(steps, 1 - WIDE, WIDE - 1))


def _value(attribute: Attribute, value: int) -> Scalar | None:
    if single_valued(attribute):
        return labels_of(attribute)[value]
    if value == -WIDE:
        return None
    return value if attribute.type == "integer" else value / 10 ** (attribute.decimals or 0)


def _rule_of(guess: _Guess) -> Rule:
    """What is not seen gets the value that most combinations have."""
    cells, told = guess.pairs
    seen = dict(zip(cells.tolist(), told.tolist(), strict=True))
    values, counts = np.unique(told, return_counts=True)
    rest = _value(guess.target, int(values[np.argmax(counts)]))
    labels = itertools.product(*(labels_of(source) for source in guess.sources))
    listed: list[Any] = [
        (label, _value(guess.target, seen[cell]) if cell in seen else rest)
        for cell, label in enumerate(labels)
    ]
    facts: dict[str, Any] = {"derive": guess.target.name}
    if len(guess.sources) == 1:
        pairs = [(label[0], value) for label, value in listed]
        return Derivation.model_validate(facts | {"from": guess.sources[0].name, "map": pairs})
    others = [(label, value) for label, value in listed if value != rest]
    names = tuple(source.name for source in guess.sources)
    return Lookup.model_validate(facts | {"from": names, "map": others, "otherwise": rest})
