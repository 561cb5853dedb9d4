"""Tables of every format, and whole releases of them."""

from __future__ import annotations

import gzip
import io
import warnings
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.orc as orc
import pyarrow.parquet as pq

from factored_mwem import Attribute, Domain, FmwemError, NothingLearnt, release
from factored_mwem.domain.coarse_grids import coarse_grid
from factored_mwem.files.files import IfExists
from factored_mwem.tables.backends.codes import encode_table
from factored_mwem.tables.codes.codec import fit_columns
from factored_mwem.tables.codes.decode import decode
from factored_mwem.tables.codes.kinds import MOMENTS, NUMBERS, kind_of
from factored_mwem.tables.codes.profile import profile
from factored_mwem.tables.inputs.source import Table, open_table
from factored_mwem.tables.outputs.formats import write_batches
from fuzz import hostile
from fuzz.target import Target, allowed

REQUIRED = {"required": True}
FIELDS: list[dict[str, Any]] = [
    {"name": "a", "type": "integer", "constraints": {"minimum": 0, "maximum": 99, **REQUIRED}, "bins": 10},
    {"name": "b", "type": "string", "categories": ["x", "y", "0311", "other"], "other": "other",
     "missingValues": ["", "NA"]},
    {"name": "c", "type": "number", "edges": [-1.5, 0, 5e-324, 1e6]},
    {"name": "d", "type": "date", "bins": 6,
     "constraints": {"minimum": "1950-01-01", "maximum": "2020-12-31"}},
    {"name": "e", "type": "datetime", "format": "%d.%m.%Y %H:%M",
     "constraints": {"minimum": "2020-01-01T00:00:00+02:00", "maximum": "2021-01-01"}},
    {"name": "f", "type": "boolean", "trueValues": ["ja"], "falseValues": ["nein"]},
    {"name": "g", "type": "integer", "categories": [{"value": 1, "label": "one"}, 2, 2**60],
     "categoriesOrdered": True},
    {"name": "h", "type": "number", "categories": [0.1, 1.0, -3e10]},
    {"name": "i", "type": "year", "constraints": {"minimum": 2000, "maximum": 2004, "unique": False}},
    {"name": "j", "type": "string", "constraints": {"enum": ["p", "q"], **REQUIRED}, "title": "T",
     "example": "p"},
]  # fmt: skip
NAMES = [field["name"] for field in FIELDS]
ATTRIBUTES = tuple(Domain.from_dict({"fields": FIELDS}))
ROWS = [
    ["5", "x", "0.25", "1999-12-31", "01.02.2020 10:00", "ja", "1", "0.1", "2001", "p"],
    ["99", "0311", "-1e3", "2000-02-29", "31.12.2020 23:59", "nein", "2", "1.0", "2004", "q"],
    ["", "NA", "", "", "", "", "", "", "", "p"],
    ["100", "new", "1e300", "2020-01-01T10:00:00Z", "", "ja", "1152921504606846976", "-3e10", "1999", "z"],
]  # fmt: skip
TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view())
TYPES: tuple[pa.DataType, ...] = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.null(), pa.date32(), pa.date64()),
    *(*TEXT_TYPES, pa.binary(), pa.large_binary(), pa.binary(4)),
    *(pa.timestamp(u, zone) for u in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Zurich")),
    *(pa.time32("s"), pa.time64("ns"), pa.duration("us"), pa.month_day_nano_interval()),
    *(pa.decimal128(38, 37), pa.decimal128(5, -2), pa.decimal256(76, 3)),
    *(pa.list_(pa.int8()), pa.list_(pa.int8(), 2), pa.list_(pa.list_(pa.string()))),
    *(pa.struct([("x", pa.int8())]), pa.map_(pa.string(), pa.int8())),
    *(pa.dictionary(pa.int8(), pa.type_for_alias(kind))
      for kind in ("string", "int64", "float32", "date32", "bool", "large_string")),
    *(pa.dictionary(pa.uint64(), pa.string()), pa.dictionary(pa.int32(), pa.string(), ordered=True)),
    pa.run_end_encoded(pa.int32(), pa.int64()),
)  # fmt: skip
READ_AS = (
    *((NUMBERS, "integer", 1.0), (NUMBERS, "integer", 100.0), (NUMBERS, "number", 1.0)),
    *((MOMENTS, "date", 1.0), (MOMENTS, "datetime", 1.0)),
)
"""Kinds, unit and scale of a column's readings."""


def run_table(path: Path) -> bool:
    """Open, fit, encode, decode and write every column under an attribute that the file's bytes pick; and
    profile it, as for a learnt domain.
    """
    random = Random(zlib.crc32(path.read_bytes()))
    table = allowed(open_table, path)
    if table is None:
        return False
    fitting = []
    for name in table.schema.names[:10]:
        attribute = random.choice(ATTRIBUTES).model_copy(update={"name": name})
        if allowed(_encoded, table, name, attribute):
            fitting.append(attribute)
        allowed(_profiled, table, name)
    if fitting:
        back(*fit_columns(Domain(fitting), table, [a.name for a in fitting]), path)
    return bool(fitting)


def _profiled(table: Table, name: str) -> None:
    """All that `discover` may read of a column: each row is in one vote, one key at most and one cell at
    most; nothing ends it, and nothing is warned about.
    """
    column = profile(table, [name])[name]
    rows = int(column.votes().sum())
    with warnings.catch_warnings(action="error"):
        read = [column.texts(())]
        for kinds, unit, scale in READ_AS if kind_of(table.schema.field(name)) == "string" else ():
            values = column.popular(kinds, unit, scale, 0)
            edges = coarse_grid(unit)
            cells = column.histogram(kinds, unit, scale, edges, np.array([*values][:2], dtype=edges.dtype))
            assert int(cells.sum()) <= rows
            read.append({**values, **column.texts(kinds)})
    assert all(sum(counts.values()) <= rows and min(counts.values(), default=1) > 0 for counts in read)


def _encoded(table: Table, name: str, attribute: Attribute) -> bool:
    domain, _ = fit_columns(Domain([attribute]), table, [name])
    (codes,) = encode_table(domain, table).columns
    assert int(codes.max(initial=0)) < domain.shape[0]
    return True


def back(domain: Domain, schema: pa.Schema, path: Path) -> None:
    """Every code as a value, written to a file: a release does this after its budget is spent, so here
    nothing may be refused.
    """
    try:
        rng, codes = np.random.default_rng(0), np.arange(min(max(domain.shape), 1000))
        columns = [decode(a, codes % a.size, field, rng) for a, field in zip(domain, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        for name in ("back.parquet", "back.csv"):
            write_batches(path.with_name(name), schema, [batch], exists=IfExists.REPLACE)
    except FmwemError as error:
        raise AssertionError(f"refused too late: {error}") from error


def _csv_corpus(folder: Path) -> list[bytes]:
    made = [hostile.csv_text(NAMES, ROWS * n, Random(n)) for n in (1, 2, 3)]
    return [*made, b"a,b\n1,x\n", b"a\n\n1\n"]


def _gz_corpus(folder: Path) -> list[bytes]:
    return [gzip.compress(text) for text in _csv_corpus(folder)]


def _make_csv(random: Random, corpus: Sequence[bytes]) -> bytes:
    valid = random.random() < 0.3
    data = (
        random.choice(corpus) if valid else hostile.csv_text(NAMES, ROWS * random.choice((1, 1, 20)), random)
    )
    return hostile.damaged(data, random, corpus) if random.random() < 0.4 else data


def _make_gz(random: Random, corpus: Sequence[bytes]) -> bytes:
    data = gzip.compress(_make_csv(random, [gzip.decompress(text) for text in corpus]), 1)
    if random.random() < 0.7:
        return hostile.damaged(data, random, corpus)
    return data + random.choice((b"", data, b"x"))


def any_table(random: Random) -> pa.Table:
    """A table whose columns are of any type, filled with bytes that come as they come."""
    columns, names = {}, [text for text in hostile.TEXTS if text.isprintable()]
    for name in random.sample(NAMES, random.randrange(1, 6)):
        strange = random.random() >= 0.95
        columns[random.choice(names) if strange else name] = any_column(random.choice(TYPES), random)
    return pa.table(columns)


def any_column(kind: pa.DataType, random: Random, rows: int = 6) -> pa.Array:
    if pa.types.is_dictionary(kind):
        indices = pa.array([random.choice((0, 1, None)) for _ in range(rows)], kind.index_type)
        values = any_column(kind.value_type, random, 2)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)
    if pa.types.is_string_view(kind):
        return pa.array([random.choice(("x", None, "0311")) for _ in range(rows)], kind)
    if kind in TEXT_TYPES:
        texts = [*(text.encode() for text in hostile.VALID), b"\xff", b"ab\xc3", b"x", b"0311", None]
        large = pa.types.is_large_string(kind)
        some = [random.choice(texts) for _ in range(rows)]
        return pa.array(some, pa.large_binary() if large else pa.binary()).view(kind)
    if pa.types.is_primitive(kind) and kind.bit_width >= 8:
        ends = (bytes(8), b"\xff" * 8, b"\x00" * 7 + b"\x80", b"\xff" * 7 + b"\x7f")
        raw = b"".join(random.choice((*ends, random.randbytes(8))) for _ in range(4 * rows))
        valid = pa.py_buffer(bytes([random.randrange(256)])) if random.random() < 0.5 else None
        return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(raw)])
    return pa.nulls(rows, kind)


def _bytes_of(table: pa.Table, kind: str, random: Random) -> bytes:
    sink = io.BytesIO()
    if kind == "parquet":
        packed, dictionary = random.choice(("none", "snappy", "zstd", "gzip")), random.random() < 0.5
        pq.write_table(table, sink, compression=packed, use_dictionary=dictionary, row_group_size=4)
    elif kind == "orc":
        orc.write_table(table, sink, compression=random.choice(("uncompressed", "snappy", "zstd", "zlib")))
    else:
        pf.write_feather(table, sink, compression=random.choice(("uncompressed", "lz4", "zstd")), version=2)
    return sink.getvalue()


def _arrow_corpus(kind: str, folder: Path) -> list[bytes]:
    columns = {
        "a": [1, 2, None] * 40,
        "b": ["x", "y", "z\u00e9"] * 40,
        "c": [0.5, None, -1e300] * 40,
        "f": [True, False, None] * 40,
        "d": pa.array([0, 1, 20_000] * 40, pa.date32()),
    }
    return [_bytes_of(pa.table(columns), kind, Random(n)) for n in range(4)]


def _make_arrow(kind: str, random: Random, corpus: Sequence[bytes]) -> bytes:
    data = random.choice(corpus)
    if random.random() < 0.5:
        try:
            data = _bytes_of(any_table(random), kind, random)
        except (pa.ArrowException, UnicodeError, OSError):  # the format has no such type
            return hostile.damaged(data, random, corpus)
        if random.random() < 0.5:
            return data
    return hostile.damaged(data, random, corpus)


def run_release(path: Path) -> bool:
    """A release of a hostile table: rows, or a refusal before anything is spent."""
    taken = False
    for domain in ({"fields": FIELDS}, None):
        try:
            released = release(path, 1, domain=domain, epsilon=5.0, rows=5, rounds=1)
            taken |= released.to_arrow().num_rows == 5
        except FmwemError as error:
            assert str(error).isprintable()
            learning = domain is None and isinstance(error, NothingLearnt)
            assert learning or not error.budget_spent, f"spent, then refused: {error}"
    return taken


def _make_release(random: Random, corpus: Sequence[bytes]) -> bytes:
    data = hostile.csv_text(NAMES, ROWS * random.choice((1, 5)), random)
    return hostile.damaged(data, random, corpus) if random.random() < 0.1 else data


TARGETS = {
    "csv": Target(".csv", _csv_corpus, _make_csv, run_table),
    "gzip": Target(".csv.gz", _gz_corpus, _make_gz, run_table),
    **{
        kind: Target(f".{kind}", partial(_arrow_corpus, kind), partial(_make_arrow, kind), run_table)
        for kind in ("parquet", "feather", "orc")
    },
    "release": Target(".csv", _csv_corpus, _make_release, run_release),
}
