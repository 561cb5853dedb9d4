"""SQL codes: what tables/codec.py does to a column, as an expression of Ibis, for the columns where the two
are the same for every value there can be: text compared byte by byte, whole numbers, dates and truth values.

Nothing is computed with a value, so none can overflow or fail to convert: it is compared, and that is all.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import ibis

from factored_mwem.domain.attribute import Attribute

MAX_CODES = 2**12
"""Codes of a column that are written into a query."""
UPPER = ("duckdb", "snowflake")
"""Those that write A to F large."""
_EPOCH = datetime.date(1970, 1, 1).toordinal()


def refusal(attribute: Attribute, kind: Any) -> str | None:
    """Why a column of an Ibis type is not encoded in SQL, in words that follow its name; None if it is."""
    whole = kind.is_integer() and not kind.is_uint64()
    fits = {
        "string": kind.is_string(),
        "integer": whole,
        "date": kind.is_date(),
        "boolean": kind.is_boolean(),
    }
    if not fits.get(attribute.type, False) or attribute.sentinels:
        declared = f"declared as {attribute.type}" + (" with special texts" if attribute.sentinels else "")
        return f"is {str(kind).lstrip('!')} and {declared}, which SQL may read otherwise than this program"
    if attribute.size > MAX_CODES:
        return f"has {attribute.size:,} codes, more than the {MAX_CODES:,} that are written into a query"
    return None


def code_in_sql(attribute: Attribute, column: Any, dialect: str) -> Any:
    """The code of each row, as `codec.encode` has it; for what `refusal` has nothing against."""
    if attribute.type == "string":
        code = _text(attribute, column, dialect)
    elif attribute.type == "boolean":
        codes = {value: code for code, value in enumerate(attribute.values)}
        code = ibis.ifelse(column, *(codes.get(value, attribute.fallback_code) for value in (True, False)))
    else:
        code = _ordered(attribute, column)
    return ibis.cases((column.isnull(), attribute.missing_code), else_=code)


def _text(attribute: Attribute, column: Any, dialect: str) -> Any:
    """Text by its bytes: no collation, padding or case makes two of them equal. Long text is told apart by
    its length: it need not be spelt out.
    """
    known = dict.fromkeys(attribute.missing_texts, attribute.missing_code)
    known |= {str(value): code for code, value in enumerate(attribute.values)}
    spelt = [(value.encode().hex(), code) for value, code in known.items()]
    spelt = [(text.upper() if dialect in UPPER else text, code) for text, code in spelt]
    longest = max(map(len, known))
    listed = hex_of(column, dialect).cases(*spelt, else_=attribute.fallback_code)
    return ibis.cases((column.length() > longest, attribute.fallback_code), else_=listed)


def hex_of(column: Any, dialect: str) -> Any:
    """The bytes of text in UTF-8, two digits each."""
    if dialect == "postgres":
        in_bytes = _builtin("convert_to", "string", "string")(column, "UTF8")
        return _builtin("encode", "binary", "string")(in_bytes, "hex")
    if dialect == "bigquery":
        return _builtin("to_hex", "binary")(column.cast("binary"))
    return _builtin({"duckdb": "hex", "snowflake": "hex_encode"}[dialect], "string")(column)


def md5_of(text: Any, dialect: str) -> Any:
    """32 digits, whose order has nothing to do with the texts'."""
    if dialect == "bigquery":
        return _builtin("to_hex", "binary")(_builtin("md5", "string")(text).cast("binary"))
    return _builtin("md5", "string")(text)


def _builtin(name: str, *takes: str) -> Any:
    """A function of the engine's own."""
    gives = "binary" if name == "convert_to" else "string"
    one, two = (lambda a: a), (lambda a, b: a)
    return ibis.udf.scalar.builtin(two if len(takes) == 2 else one, name=name, signature=(takes, gives))


def _ordered(attribute: Attribute, column: Any) -> Any:
    """Whole numbers and dates: the special or listed value that they equal, else the bin that they are in."""
    if attribute.type == "integer":  # a constant need not fit a smaller type
        column = column.cast("int64")
    if attribute.categorical:
        pairs = [(_literal(attribute, unit), code) for code, unit in enumerate(attribute.units.tolist())]
        return column.cases(*pairs, else_=attribute.fallback_code)
    bins = attribute.bin_codes.tolist()
    inner = [_literal(attribute, cut) for cut in attribute.cuts[1:-1].tolist()]
    code = _search(column, inner, bins) if bins else ibis.literal(attribute.fallback_code)
    special = zip(attribute.specials.tolist(), attribute.special_codes.tolist(), strict=True)
    pairs = [(_literal(attribute, unit), number) for unit, number in special]
    return column.cases(*pairs, else_=code) if pairs else code


def _search(column: Any, cuts: Sequence[Any], codes: Sequence[int]) -> Any:
    """The code of the bin that a value is in, found by halves; what lies outside is in the first or last."""
    if not len(cuts):
        return ibis.literal(codes[0])
    half = len(cuts) // 2
    below = _search(column, cuts[:half], codes[: half + 1])
    return ibis.ifelse(column < cuts[half], below, _search(column, cuts[half + 1 :], codes[half + 1 :]))


def _literal(attribute: Attribute, unit: int) -> Any:
    return ibis.literal(datetime.date.fromordinal(_EPOCH + unit) if attribute.type == "date" else unit)
