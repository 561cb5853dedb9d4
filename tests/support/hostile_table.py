"""One hostile table for every backend, and an oracle that counts it row by row in plain Python.

What a backend must get right is in it: text that differs by a blank, by case or by how an accent is written;
the least and the greatest integer; days at the ends of the calendar; codes beyond a byte; columns of one
code; nulls and missing values where they are allowed and where not. The `typed` columns (floats, zoned
timestamps, decimals) come on top where Arrow carries them.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.owner.verifier.hostile import DAYS, FLOATS, INTEGERS, WORDS
from factored_mwem.tables.backends.datavectors import Axis

REQUIRED = {"required": True}
SIMPLE = [
    {"name": "word", "categories": ["a", "A", "é", "it's", "x\\41", "%", "日本"], "other": "%"},
    {"name": "blank", "categories": ["", " ", "NA", "yes"], "missingValues": ["NA", "none"]},
    {"name": "many", "categories": [f"v{i}" for i in range(300)]},
    {"name": "one", "categories": ["only"], "constraints": REQUIRED},
    {"name": "age", "type": "integer", "constraints": {"minimum": -3, "maximum": 99}, "bins": 9},
    {
        "name": "gain",
        "type": "integer",
        "edges": [1, 1000, 99_999],
        "specialValues": [0, -1, 99_999],
        "other": -1,
        "constraints": REQUIRED,
    },
    {"name": "zip", "type": "integer", "constraints": {"minimum": 0, "maximum": 399, **REQUIRED},
     "bins": 400},
    {"name": "code", "type": "integer", "categories": [7, -7, 2**53 + 1, 2**53], "other": 7},
    {"name": "day", "type": "date", "constraints": {"minimum": "1999-12-31", "maximum": "2030-01-01"},
     "bins": 12},
    {"name": "feast", "type": "date", "categories": ["2020-02-29", "1970-01-01", "0001-01-01"]},
    {"name": "member", "type": "boolean"},
]  # fmt: skip
"""Columns that every backend takes."""
TYPED = [
    {"name": "share", "type": "number", "constraints": {"minimum": -1, "maximum": 1}, "specialValues": [0.1]},
    {"name": "seen", "type": "datetime", "edges": ["1970-01-01", "2000-01-01T12:00:00", "2030-01-01"]},
    {"name": "price", "type": "number", "edges": [0, 0.5, 10], "constraints": REQUIRED},
]
"""Columns that are exact only where Arrow carries them."""
NEAR = [
    "a", "A", "a ", " a", "", " ", "é", "e\u0301", "É", "it's", "it''s", "x\\41", "xA", "_", "日本", "only",
    "ONLY", "na", "none", "yes", "v1", "v299", "v300", '"', "a\nb", "\ufeffa", "x" * 5000,
]  # fmt: skip
"""Texts close to those of the domain."""


def hostile_domain(*, typed: bool = False) -> Domain:
    """The domain of the table; see the module."""
    return Domain([Attribute.model_validate(field) for field in [*SIMPLE, *(TYPED if typed else ())]])


def hostile_table(rows: int, *, typed: bool = False, seed: int = 0) -> pa.Table:
    """`rows` rows; each value of each list above is likely to be in some."""
    rng = np.random.default_rng(seed)

    def some(values: Sequence[Any], *, plain: Sequence[Any], null: float = 0.1) -> list[Any]:
        odd, usual = rng.integers(0, len(values), rows), rng.integers(0, len(plain), rows)
        kind = rng.random(rows)
        picked = [values[i] if k < 0.5 else plain[j] for i, j, k in zip(odd, usual, kind, strict=True)]
        return [None if k < null else value for k, value in zip(rng.random(rows), picked, strict=True)]

    columns: dict[str, pa.Array] = {}
    for name in ("word", "blank", "many", "one"):
        plain = [f"v{i}" for i in range(300)] if name == "many" else NEAR[:8]
        columns[name] = pa.array(some([*NEAR, *WORDS["text"]], plain=plain), pa.string())
    for name in ("age", "gain", "zip", "code"):
        columns[name] = pa.array(some(INTEGERS, plain=range(-5, 410)), pa.int64())
    for name in ("day", "feast"):
        columns[name] = pa.array(some(DAYS, plain=range(10_000, 22_000)), pa.int32()).cast(pa.date32())
    columns["member"] = pa.array(some([True, False], plain=[True, False]), pa.bool_())
    if typed:
        columns["share"] = pa.array(some(FLOATS, plain=[0.25, -0.75]), pa.float64())
        micros = [946_728_000_000_000 + d for d in (-1, 0, 1)]
        moments = pa.array(some(micros, plain=range(0, 2 * 10**15, 10**12)), pa.int64())
        columns["seen"] = moments.cast(pa.timestamp("us", "Europe/Zurich"))
        prices = [Decimal(text) for text in ("0.50", "0.49", "-1.00", "10.00", "99999999.99")]
        columns["price"] = pa.array(some(prices, plain=prices[:2]), pa.decimal128(10, 2))
    return pa.table(columns)


def code_of(attribute: Attribute, value: Any) -> int:
    """The code of one value: text, a number, days, microseconds, or None. Written from the documentation."""
    fallback = attribute.null_code if attribute.nullable else 0
    if attribute.other is not None:
        fallback = code_of(attribute.model_copy(update={"other": None}), attribute.other)
    missing = ("",) if attribute.missing_values is None else attribute.missing_values
    gone = value is None or (isinstance(value, float) and value != value)
    if gone or (isinstance(value, str) and value in missing and value not in attribute.values):
        return attribute.null_code if attribute.null_code is not None else fallback
    if attribute.categorical:
        listed = attribute.values if attribute.type in ("string", "boolean") else attribute.units.tolist()
        return list(listed).index(value) if value in list(listed) else fallback
    if value in attribute.specials.tolist():
        return int(attribute.special_codes[attribute.specials.tolist().index(value)])
    place = bisect_right(attribute.cuts.tolist(), value) - 1
    return int(attribute.bin_codes[min(max(place, 0), len(attribute.bin_codes) - 1)])


def codes_of(domain: Domain, table: pa.Table) -> list[list[int]]:
    """The codes of each column, in the domain's order."""
    coded = []
    for attribute in domain:
        column = table[attribute.name]
        if pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        elif pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        values = column.to_pylist()
        values = [float(v) if isinstance(v, Decimal) else v for v in values]
        coded.append([code_of(attribute, value) for value in values])
    return coded


def hostile_views(domain: Domain, order: int = 3) -> tuple[list[Axis], np.ndarray, np.ndarray]:
    """(axes, members, offsets) of all marginals up to `order`, of columns as they are and, for every other
    one, also at a coarser level that is not in the order of its codes.
    """
    axes = [Axis(i, None, size) for i, size in enumerate(domain.shape)]
    for i, size in enumerate(domain.shape):
        if i % 2 == 0 and size > 2:
            lookup = np.where(np.arange(size) % 2, size > 3, np.arange(size) * 7 % min(5, size))
            axes.append(Axis(i, lookup.astype(np.uint32), min(5, size)))
    members, sizes = [], []
    for k in range(1, order + 1):
        for chosen in itertools.combinations(range(len(axes)), k):
            cells = int(np.prod([axes[i].size for i in chosen]))
            if len({axes[i].column for i in chosen}) == k and cells <= 2**18:
                members.append([*chosen, *[-1] * (order - k)])
                sizes.append(cells)
    return axes, np.array(members, np.int32), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def oracle_counts(
    domain: Domain, table: pa.Table, axes: Sequence[Axis], members: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """int64[all cells]: what `Datavectors.exact_counts` must give, bit for bit."""
    coded = codes_of(domain, table)
    along = []
    for axis in axes:
        codes = np.array(coded[axis.column], np.int64)
        along.append(codes if axis.lookup is None else axis.lookup.astype(np.int64)[codes])
    counts = np.zeros(int(offsets[-1]), np.int64)
    for row, begin in zip(members.tolist(), offsets.tolist(), strict=False):
        cell = np.zeros(table.num_rows, np.int64)
        for i in row:
            if i >= 0:
                cell = cell * axes[i].size + along[i]
        np.add.at(counts, cell + begin, 1)
    return counts
