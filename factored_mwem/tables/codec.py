"""Codec: Arrow columns to codes of the domain, and codes back to values of the column's own type.

A value that is unreadable, unlisted, out of range or unexpectedly null maps by the attribute's fixed rule
(`other`, null, clip): never an error, a count or an echo, because one person's row must not decide whether a
release succeeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.tables.parsing import (
    check_writable,
    is_number,
    is_text,
    plain,
    read_units,
    spelt,
    value_type,
)
from factored_mwem.tables.source import Table

OWN_TYPE = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
}
"""The Arrow type of an attribute whose column came as text."""


def fit_columns(domain: Domain, table: Table, columns: Sequence[str] | None) -> tuple[Domain, pa.Schema]:
    """The domain of the columns to release, in the table's order, and the types they come back in.

    Reads names and types only. InputError for a column that the domain or the table lacks, or whose type
    cannot hold the domain's values.
    """
    wanted = list(columns) if columns is not None else table.schema.names
    for name in wanted:
        table.check_column(name)
        if name not in domain:
            how = "declare it there or leave it out with --columns"
            raise InputError(f"column {name!r} is not in the domain; {how}")
    unknown = [name for name in domain.names if columns is None and name not in table.schema.names]
    if unknown:
        how = "correct the domain or use --columns"
        raise InputError(f"the domain names {unknown[0]!r}, but the table has no such column; {how}")
    fields = []
    for name in [n for n in table.schema.names if n in set(wanted)]:
        attribute = domain[name]
        arrow = OWN_TYPE[attribute.type] if table.text else table.schema.field(name).type
        if not table.text:
            check_type(attribute, arrow)
            arrow = _released(attribute, arrow)
        fields.append(pa.field(name, arrow, nullable=attribute.nullable))
    return Domain(domain[f.name] for f in fields), pa.schema(fields)


def _released(attribute: Attribute, arrow: pa.DataType) -> pa.DataType:
    """The type that a column comes back in: text as strings, dictionaries by 32-bit codes, else as it came.

    A library chooses wider codes, or longer offsets, where there are more values or more text: one more of
    them must not show.
    """
    if not pa.types.is_dictionary(arrow):
        return _as_string(arrow)
    ordered = arrow.ordered and attribute.categories_ordered
    return pa.dictionary(pa.int32(), _as_string(arrow.value_type), ordered=ordered)


def _as_string(arrow: pa.DataType) -> pa.DataType:
    return pa.string() if is_text(arrow) else arrow


def check_type(attribute: Attribute, arrow: pa.DataType) -> None:
    """InputError where a typed column cannot be what the domain says, or cannot hold its values."""
    value = value_type(arrow)
    kinds = {
        "string": is_text(value),
        "boolean": pa.types.is_boolean(value) or pa.types.is_integer(value),
        "integer": is_number(value) or pa.types.is_boolean(value),
        "number": is_number(value),
        "date": pa.types.is_date(value) or pa.types.is_timestamp(value),
        "datetime": pa.types.is_date(value) or pa.types.is_timestamp(value),
    }
    check_writable(attribute.name, arrow)
    if not (kinds[attribute.type] or is_text(value)):
        types = f"{spelt(arrow)} in the table but {attribute.type} in the domain"
        raise InputError(f"column {attribute.name!r} is {types}; correct the domain")
    try:
        fits = _survives(attribute, _typed(attribute, _extremes(attribute), arrow, safe=True))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        fits = False
    if not fits:
        what = f"the domain's values do not fit its type {spelt(arrow)}"
        raise InputError(f"column {attribute.name!r}: {what}; correct the domain")


def _survives(attribute: Attribute, extremes: pa.Array) -> bool:
    """Whether a type tells the extremes apart (0.5 is no integer) and holds them (1e300 is no float32)."""
    if attribute.type == "number" and not attribute.categorical:
        return not np.isinf(read_units(attribute, plain(extremes)).filled(0)).any()
    last = attribute.size - attribute.nullable - 1
    codes = list(range(last + 1)) if attribute.categorical else [0, last]
    return encode(attribute, extremes).tolist() == codes


def _extremes(attribute: Attribute) -> pa.Array:
    """The least and greatest value the attribute can give back."""
    if attribute.categorical:
        return _listed(attribute)
    cuts = attribute.cuts
    ends = [cuts[0], cuts[-1] - 1 if attribute.type != "number" else np.nextafter(cuts[-1], -np.inf)]
    return _from_units(attribute, np.array(ends))


def _listed(attribute: Attribute) -> pa.Array:
    """The listed values in the attribute's own type; Arrow takes integers for doubles up to 2^53 only."""
    values = [float(value) for value in attribute.values] if attribute.type == "number" else attribute.values
    return pa.array(values, type=OWN_TYPE[attribute.type])


def encode(attribute: Attribute, column: pa.Array) -> np.ndarray:
    """uint8, uint16 or uint32[row]: the codes of a column, every value mapped by the attribute's rules."""
    column = plain(column)
    if is_text(column.type):
        texts = ("",) if attribute.missing_values is None else attribute.missing_values
        unlisted = [text for text in texts if text not in attribute.values]  # a listed value is a value
        missing = pa.array(unlisted, type=pa.string())
        null = pc.or_(pc.is_null(column), pc.is_in(column, value_set=missing))
    else:
        null = pc.is_null(column, nan_is_null=True)
    codes = _listed_codes(attribute, column) if attribute.categorical else _bin_codes(attribute, column)
    lost = np.asarray(codes < 0)
    codes[lost] = attribute.fallback_code
    mask = null.to_numpy(zero_copy_only=False)
    codes[mask] = attribute.null_code if attribute.null_code is not None else attribute.fallback_code
    return codes.astype(code_dtype(attribute))


def encode_table(domain: Domain, table: Table) -> list[np.ndarray]:
    """uint[row] per attribute: the codes of the whole table, read batch by batch.

    Two columns at a time, for pyarrow and numpy leave the interpreter free.
    """
    parts: list[list[np.ndarray]] = [[] for _ in domain]
    with ThreadPoolExecutor(max_workers=2) as pool:
        for batch in table.batches(domain.names):
            for part, codes in zip(parts, pool.map(encode, domain, batch.columns), strict=True):
                part.append(codes)
    return [
        np.concatenate([np.zeros(0, dtype=code_dtype(attribute)), *part])
        for attribute, part in zip(domain, parts, strict=True)
    ]


def code_dtype(attribute: Attribute) -> type[np.unsignedinteger]:
    return np.uint8 if attribute.size <= 2**8 else np.uint16 if attribute.size <= 2**16 else np.uint32


def _listed_codes(attribute: Attribute, column: pa.Array) -> np.ndarray:
    if attribute.type == "string":
        listed = pa.array(attribute.values, type=pa.string())
    else:
        original, units = column.type, read_units(attribute, column)
        # A float cannot tell integers beyond 2^53 apart; -0.0 + 0.0 is 0.0.
        kind = np.int64 if attribute.type == "integer" else np.float64
        column = pa.array(units.filled(0).astype(kind) + kind(0), mask=np.ma.getmaskarray(units))
        values = np.array(attribute.values, dtype=kind) + kind(0)
        narrow = original.to_pandas_dtype() if pa.types.is_floating(original) else kind
        # 0.1 in a float32 column is the float32 nearest to 0.1; what a column cannot hold, it does not hold.
        with np.errstate(over="ignore"):
            listed = pa.array(values.astype(narrow).astype(kind))
    index = pc.index_in(column, value_set=listed, skip_nulls=True)
    return pc.fill_null(index, -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _bin_codes(attribute: Attribute, column: pa.Array) -> np.ndarray:
    """Bin of each value, clipped to the ends; -1 where there is no readable value."""
    units = read_units(attribute, column)
    unread = np.ma.getmaskarray(units)
    values = units.filled(0)
    bins = np.searchsorted(attribute.cuts, values, side="right") - 1
    codes = np.clip(bins, 0, len(attribute.cuts) - 2).astype(np.int64)
    codes[unread] = -1
    return codes


def decode(attribute: Attribute, codes: np.ndarray, field: pa.Field, rng: np.random.Generator) -> pa.Array:
    """Values of `field`'s type for `codes: int[row]`: listed ones, or uniform inside their bin."""
    codes = codes.astype(np.int64)
    null = codes == attribute.null_code if attribute.nullable else None
    if attribute.categorical:
        listed = _listed(attribute)
        if pa.types.is_dictionary(field.type):  # the same dictionary in every batch
            values = _typed(attribute, listed, field.type.value_type, safe=False)
            return _dictionary(pa.array(codes, mask=null), values, field.type)
        values = listed.take(pa.array(codes, mask=null))
    else:
        inside = np.where(null, 0, codes) if null is not None else codes
        lower, upper = attribute.cuts[inside], attribute.cuts[inside + 1]
        number = attribute.type == "number"
        drawn = _draw_numbers(lower, upper, field.type, rng) if number else rng.integers(lower, upper)
        values = _from_units(attribute, drawn, null)
    return _typed(attribute, values, field.type, safe=False)


def _draw_numbers(
    lower: np.ndarray, upper: np.ndarray, arrow: pa.DataType, rng: np.random.Generator
) -> np.ndarray:
    """float64[row]: uniform over the numbers of a type in [lower, upper), or the next above `lower`."""
    arrow = value_type(arrow)
    if pa.types.is_integer(arrow) or pa.types.is_decimal(arrow):
        steps = 10.0 ** (arrow.scale if pa.types.is_decimal(arrow) else 0)
        first, beyond = np.ceil(lower * steps), np.ceil(upper * steps)
        return (first + np.floor(rng.random(len(lower)) * np.maximum(beyond - first, 1))) / steps
    drawn = lower + rng.random(len(lower)) * (upper - lower)
    narrow = arrow.to_pandas_dtype() if pa.types.is_floating(arrow) else np.float64
    return np.where(drawn.astype(narrow) >= upper, lower, drawn)


def _from_units(attribute: Attribute, units: np.ndarray, null: np.ndarray | None = None) -> pa.Array:
    if attribute.type == "date":
        return pa.array(units.astype(np.int32), mask=null).cast(pa.date32())
    own = OWN_TYPE[attribute.type]
    storage = pa.array(units.astype(np.int64 if attribute.type != "number" else np.float64), mask=null)
    return storage.cast(own) if own != storage.type else storage


def _typed(attribute: Attribute, values: pa.Array, arrow: pa.DataType, *, safe: bool) -> pa.Array:
    """`values` in another type; ArrowInvalid where `safe` and they do not fit."""
    if pa.types.is_dictionary(arrow):
        encoded = _typed(attribute, values, _as_string(arrow.value_type), safe=safe).dictionary_encode()
        return _dictionary(encoded.indices, encoded.dictionary, arrow)
    if pa.types.is_decimal(arrow):
        return _decimals(values, arrow, safe=safe)
    if is_text(arrow) and pa.types.is_temporal(values.type) and attribute.format not in ("default", "any"):
        values = pc.strftime(values.cast(pa.timestamp("s"), safe=False), format=attribute.format)
    if pa.types.is_date(arrow) and pa.types.is_timestamp(values.type):
        safe = False
    if pa.types.is_integer(arrow) and pa.types.is_floating(values.type) and not attribute.categorical:
        values = pc.floor(values)
    if pa.types.is_timestamp(arrow) and pa.types.is_timestamp(values.type) and arrow.tz is not None:
        values = pc.assume_timezone(values, "UTC")
    if is_text(arrow):
        values = values.cast(pa.string())  # the only text that everything can be cast to
    return values.cast(arrow, safe=safe)


def _dictionary(indices: pa.Array, values: pa.Array, arrow: pa.DataType) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        indices.cast(arrow.index_type), values.cast(arrow.value_type), ordered=arrow.ordered
    )


def _decimals(values: pa.Array, arrow: pa.DataType, *, safe: bool) -> pa.Array:
    """Numbers as decimals: Arrow refuses integers of fewer digits than the type has, and cuts floats off."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.decimal128(38, 0)).cast(arrow, safe=safe)
    rounded = [None if v is None else round(v, arrow.scale) for v in values.to_pylist()]
    return pa.array(rounded, pa.float64()).cast(arrow, safe=safe)
