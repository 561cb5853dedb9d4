"""Codec: Arrow columns to codes of the domain; decode.py goes back.

A value that is unreadable, unlisted, out of range or unexpectedly null maps by the attribute's fixed rule
(`other`, null, the first code, clip): never an error, a count or an echo, because one person's row must not
decide whether a release succeeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.conditions import STEPS
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, shown
from factored_mwem.tables.codes.decode import (
    DecodeGrid,
    as_string,
    from_units,
    listed_values,
    own_type,
    typed,
)
from factored_mwem.tables.codes.kinds import tick_of
from factored_mwem.tables.codes.parsing import (
    check_writable,
    is_number,
    is_text,
    plain,
    read_units,
    spelt,
    value_type,
)
from factored_mwem.tables.inputs.table import Visible

LOOKED_UP = 2**13
"""Whole units between the first and the last cut for which a table of bins is made; for more rows alone."""


def fit_columns(domain: Domain, table: Visible, columns: Sequence[str] | None) -> tuple[Domain, pa.Schema]:
    """The domain of the columns to release, in the table's order, and the types they come back in.

    Reads names and types only. Raises InputError for a column that the domain or the table lacks, or whose
    type cannot hold the domain's values.
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
        as_text = table.text or name in table.folder_columns
        arrow = own_type(attribute) if as_text else table.schema.field(name).type
        if as_text and table.zone is not None and pa.types.is_timestamp(arrow):
            arrow = pa.timestamp(arrow.unit, table.zone)
        if as_text or is_text(value_type(arrow)):
            _check_format(attribute)
        if not as_text:
            check_type(attribute, arrow)
            arrow = _released(attribute, arrow)
        fields.append(pa.field(name, arrow, nullable=attribute.nullable))
    return domain.rearranged([f.name for f in fields]), pa.schema(fields)


def _released(attribute: Attribute, arrow: pa.DataType) -> pa.DataType:
    """The type that a column comes back in: text as strings, dictionaries by 32-bit codes, else as it came.

    A library chooses wider codes, or longer offsets, where there are more values or more text: one more of
    them must not show.
    """
    if not pa.types.is_dictionary(arrow):
        return as_string(arrow)
    ordered = arrow.ordered and attribute.categories_ordered
    return pa.dictionary(pa.int32(), as_string(arrow.value_type), ordered=ordered)


def _check_format(attribute: Attribute) -> None:
    """Raises InputError if no cell of text could be read by the attribute's format: all would be null."""
    pattern, such = attribute.format, "%d.%m.%Y"
    if pattern == "default":
        return
    if attribute.type in ("date", "datetime"):
        known = pattern == "any" or "%" in pattern
    else:
        from factored_mwem.tables.codes.notation import is_notation  # here: most numbers are plain

        known, such = attribute.type not in ("integer", "number") or is_notation(pattern), "$#,##0 or %H:%M"
    if not known:
        how = f"write it as in {such}, or leave it out of the domain"
        raise InputError(f"column {attribute.name!r}: format {shown(pattern)} is not known; {how}")


def check_type(attribute: Attribute, arrow: pa.DataType) -> None:
    """Raises InputError if a typed column cannot be what the domain says, or cannot hold its values."""
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
    if attribute.sentinels and not is_text(value):
        what = f"{spelt(arrow)} in the table and cannot hold {attribute.sentinels[0]!r}"
        raise InputError(f"column {attribute.name!r} is {what}; correct the domain")
    if not (kinds[attribute.type] or is_text(value)):
        types = f"{spelt(arrow)} in the table but {attribute.type} in the domain"
        raise InputError(f"column {attribute.name!r} is {types}; correct the domain")
    try:
        fits = _survives(attribute, typed(attribute, _extremes(attribute, arrow), arrow, safe=True))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        fits = False
    if not fits:
        what = f"the domain's values do not fit its type {spelt(arrow)}"
        raise InputError(f"column {attribute.name!r}: {what}; correct the domain")


def _survives(attribute: Attribute, extremes: pa.Array) -> bool:
    """Whether a type tells the extremes apart (0.5 is no integer) and holds them (1e300 is no float32).
    Learnt dates without a day stand for any of their month.
    """
    if attribute.type == "date" and "%" in attribute.format and "%d" not in attribute.format:
        return True
    if attribute.type == "number" and not attribute.categorical:
        return not np.isinf(read_units(attribute, plain(extremes)).filled(0)).any()
    codes = np.arange(len(attribute.values))
    if not attribute.categorical:
        ends = attribute.bin_codes[[0, -1]] if len(attribute.bin_codes) else attribute.bin_codes
        codes = np.concatenate([ends, attribute.special_codes])
    return np.array_equal(encode(attribute, extremes), codes)


def _extremes(attribute: Attribute, arrow: pa.DataType) -> pa.Array:
    """Values that it can give back: the listed ones, or of its first and last bin and the special ones."""
    if attribute.categorical:
        return listed_values(attribute)
    cuts = attribute.cuts
    if not len(attribute.bin_codes):
        return from_units(attribute, attribute.specials)
    if attribute.type == "number":
        ends = [cuts[0], np.nextafter(cuts[-1], -np.inf)]
    else:  # no special value
        tick = tick_of(arrow) if attribute.type == "datetime" else 1
        if attribute.resolution and "%" in attribute.format:  # which writes no finer ones
            tick = STEPS[attribute.resolution]
        grid = DecodeGrid.of(attribute.cuts, attribute.specials, tick)
        ends = [grid.value(0, 0) * tick, grid.value(-1, int(grid.room[-1]) - 1) * tick]
    return from_units(attribute, np.concatenate([np.array(ends, dtype=cuts.dtype), attribute.specials]))


def encode(attribute: Attribute, column: pa.Array) -> np.ndarray:
    """uint8, uint16 or uint32[row]: the codes of a column, every value mapped by the attribute's rules.

    What a value maps to depends on it alone: so each value of a dictionary is mapped once.
    """
    if pa.types.is_dictionary(column.type) and len(column.dictionary) < len(column):
        values = encode(attribute, column.dictionary)
        nothing = encode(attribute, pa.nulls(1, plain(column.dictionary[:0]).type))
        places = pc.fill_null(column.indices.cast(pa.int64()), len(values))  # which int8 may not hold
        return np.concatenate([values, nothing])[places.to_numpy(zero_copy_only=False)]
    column = plain(column)
    codes = (_listed_codes if attribute.categorical else _binned_codes)(attribute, column)
    for rows, code in (
        (np.asarray(codes < 0), attribute.fallback_code),
        (missing_in(attribute, column), attribute.missing_code),
    ):
        if rows.any():  # most columns have none
            codes[rows] = code
    return codes.astype(code_dtype(attribute))


def missing_in(attribute: Attribute, column: pa.Array) -> np.ndarray:
    """bool[row]: whether a cell is null, or a text that stands for it."""
    column = plain(column)
    if not is_text(column.type):
        return pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False)
    missing = pa.array(attribute.missing_texts, pa.string())
    return pc.or_(pc.is_null(column), pc.is_in(column, value_set=missing)).to_numpy(zero_copy_only=False)


def unknown_in(attribute: Attribute, column: pa.Array) -> np.ndarray:
    """bool[row]: whether a cell holds what the attribute can neither read nor finds among its values."""
    column = plain(column)
    codes = (_listed_codes if attribute.categorical else _binned_codes)(attribute, column)
    return np.asarray(codes < 0) & ~missing_in(attribute, column)


def code_dtype(attribute: Attribute) -> type[np.unsignedinteger]:
    return np.uint8 if attribute.size <= 2**8 else np.uint16 if attribute.size <= 2**16 else np.uint32


def _listed_codes(attribute: Attribute, column: pa.Array) -> np.ndarray:
    if attribute.type == "string":
        return _places(column, pa.array(attribute.values, type=pa.string()))
    units = read_units(attribute, column)
    return np.where(np.ma.getmaskarray(units), -1, _equal(attribute, column, units, attribute.units))


def _equal(
    attribute: Attribute, column: pa.Array, units: np.ma.MaskedArray, values: np.ndarray
) -> np.ndarray:
    """int64[row]: which of `values` a row's unit equals, or -1."""
    # A float cannot tell integers beyond 2^53 apart; -0.0 + 0.0 is 0.0.
    kind = values.dtype
    narrow = column.type.to_pandas_dtype() if pa.types.is_floating(column.type) else kind
    # 0.1 in a float32 column is the float32 nearest to 0.1; what a column cannot hold, it does not hold.
    with np.errstate(over="ignore"):
        listed = pa.array((values + kind.type(0)).astype(narrow).astype(kind))
    return _places(pa.array(units.filled(0).astype(kind) + kind.type(0)), listed)


def _places(column: pa.Array, listed: pa.Array) -> np.ndarray:
    index = pc.index_in(column, value_set=listed, skip_nulls=True)
    return pc.fill_null(index, -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _bins(cuts: np.ndarray, units: np.ndarray) -> np.ndarray:
    """int64[row]: the bin of each unit, clipped to the first and the last. Where the cuts lie near each
    other, whole units are looked up rather than searched: the same, in a third of the time.
    """
    few = cuts.dtype.kind == units.dtype.kind == "i" and int(cuts[-1]) - int(cuts[0]) < LOOKED_UP
    if few and len(units) > LOOKED_UP + 1:
        table = _bins(cuts, np.arange(cuts[0] - 1, cuts[-1] + 1))  # with what lies beyond both ends
        return table[np.clip(units, cuts[0] - 1, cuts[-1]) - (cuts[0] - 1)]
    return np.clip(np.searchsorted(cuts, units, side="right") - 1, 0, len(cuts) - 2)


def _binned_codes(attribute: Attribute, column: pa.Array) -> np.ndarray:
    """The special value or the bin of each value, clipped to the ends; -1 where none is readable."""
    units = read_units(attribute, column)
    codes = np.full(len(column), -1)
    if len(attribute.bin_codes):
        codes = attribute.bin_codes[_bins(attribute.cuts, units.filled(0))]
    if len(attribute.specials):
        special = _equal(attribute, column, units, attribute.specials)
        codes = np.where(special >= 0, attribute.special_codes[special], codes)
    if units.mask is not np.ma.nomask:
        codes = np.where(units.mask, -1, codes)
    if attribute.sentinels and is_text(column.type):
        sentinel = _places(column, pa.array(attribute.sentinels, type=pa.string()))
        first = len(attribute.cuts) - 1 + len(attribute.specials)
        codes = np.where(sentinel >= 0, first + sentinel, codes)
    return codes
