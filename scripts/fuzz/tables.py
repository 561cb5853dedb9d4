"""Tables of every format, and whole releases of them."""

from __future__ import annotations

import gzip
import io
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.orc as orc
import pyarrow.parquet as pq

from factored_mwem import Attribute, Domain, FmwemError, NothingLearnt, release
from factored_mwem.backends.codes import encode_table
from factored_mwem.domain.grids import coarse_grid
from factored_mwem.files import IfExists
from factored_mwem.tables.codec import fit_columns
from factored_mwem.tables.decode import decode
from factored_mwem.tables.formats import write_batches
from factored_mwem.tables.kinds import MOMENTS, NUMBERS, kind_of
from factored_mwem.tables.profile import profile
from factored_mwem.tables.source import Table, open_table
from fuzz import hostile
from fuzz.target import Target, allowed

FIELDS: list[dict[str, Any]] = [
    {
        "name": "a",
        "type": "integer",
        "constraints": {"minimum": 0, "maximum": 99, "required": True},
        "bins": 10,
    },
    {
        "name": "b",
        "type": "string",
        "categories": ["x", "y", "0311", "other"],
        "other": "other",
        "missingValues": ["", "NA"],
    },
    {"name": "c", "type": "number", "edges": [-1.5, 0, 5e-324, 1e6]},
    {
        "name": "d",
        "type": "date",
        "constraints": {"minimum": "1950-01-01", "maximum": "2020-12-31"},
        "bins": 6,
    },
    {
        "name": "e",
        "type": "datetime",
        "format": "%d.%m.%Y %H:%M",
        "constraints": {"minimum": "2020-01-01T00:00:00+02:00", "maximum": "2021-01-01"},
    },
    {"name": "f", "type": "boolean", "trueValues": ["ja"], "falseValues": ["nein"]},
    {
        "name": "g",
        "type": "integer",
        "categories": [{"value": 1, "label": "one"}, 2, 2**60],
        "categoriesOrdered": True,
    },
    {"name": "h", "type": "number", "categories": [0.1, 1.0, -3e10]},
    {"name": "i", "type": "year", "constraints": {"minimum": 2000, "maximum": 2004, "unique": False}},
    {
        "name": "j",
        "type": "string",
        "constraints": {"enum": ["p", "q"], "required": True},
        "title": "T",
        "example": "p",
    },
]
ATTRIBUTES = tuple(Domain.from_dict({"fields": FIELDS}))
ROWS = [
    ["5", "x", "0.25", "1999-12-31", "01.02.2020 10:00", "ja", "1", "0.1", "2001", "p"],
    ["99", "0311", "-1e3", "2000-02-29", "31.12.2020 23:59", "nein", "2", "1.0", "2004", "q"],
    ["", "NA", "", "", "", "", "", "", "", "p"],
    [
        "100",
        "unlisted",
        "1e300",
        "2020-01-01T10:00:00Z",
        "",
        "ja",
        "1152921504606846976",
        "-3e10",
        "1999",
        "z",
    ],
]
TYPES: tuple[pa.DataType, ...] = (
    *(
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.uint64(),
        pa.float16(),
        pa.float32(),
        pa.float64(),
    ),
    *(
        pa.bool_(),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary(4),
        pa.null(),
        pa.date32(),
        pa.date64(),
    ),
    *(
        pa.timestamp(unit, zone)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Zurich")
    ),
    *(
        pa.time32("s"),
        pa.time64("ns"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.decimal128(38, 37),
        pa.decimal128(5, -2),
        pa.decimal256(76, 3),
    ),
    *(
        pa.list_(pa.int8()),
        pa.struct([("x", pa.int8())]),
        pa.map_(pa.string(), pa.int8()),
        pa.list_(pa.list_(pa.string())),
        pa.list_(pa.int8(), 2),
    ),
    *(
        pa.dictionary(pa.int8(), kind)
        for kind in (pa.string(), pa.int64(), pa.float32(), pa.date32(), pa.bool_(), pa.large_string())
    ),
    *(
        pa.dictionary(pa.uint64(), pa.string()),
        pa.dictionary(pa.int32(), pa.string(), ordered=True),
        pa.run_end_encoded(pa.int32(), pa.int64()),
    ),
)


def run_table(path: Path) -> bool:
    """Open, fit, encode, decode and write every column under an attribute that the file's bytes pick; and
    profile it, as for a learnt domain.
    """
    random = Random(zlib.crc32(path.read_bytes()))
    table = allowed(lambda: open_table(path))
    if table is None:
        return False
    fitting = []
    for name in table.schema.names[:10]:
        attribute = random.choice(ATTRIBUTES).model_copy(update={"name": name})
        if allowed(lambda name=name, attribute=attribute: _encoded(table, name, attribute)):
            fitting.append(attribute)
        allowed(lambda name=name: _profiled(table, name))
    if fitting:
        back(*fit_columns(Domain(fitting), table, [a.name for a in fitting]), path)
    return bool(fitting)


def _profiled(table: Table, name: str) -> bool:
    """All that `discover` may read of a column: each row is in one vote, one key at most and one cell at
    most; nothing ends it, and nothing is warned about.
    """
    found = profile(table, [name])[name]
    rows = int(found.votes().sum())
    with warnings.catch_warnings(action="error"):
        read = [found.texts(())]
        for kinds, unit, scale in READ_AS if kind_of(table.schema.field(name)) == "string" else ():
            values = found.popular(kinds, unit, scale, 0)
            edges = coarse_grid(unit)
            cells = found.histogram(kinds, unit, scale, edges, np.array([*values][:2], dtype=edges.dtype))
            assert int(cells.sum()) <= rows
            read.append({**values, **found.texts(kinds)})
    assert all(sum(counts.values()) <= rows and min(counts.values(), default=1) > 0 for counts in read)
    return True


READ_AS = (
    (NUMBERS, "integer", 1.0),
    (NUMBERS, "integer", 100.0),
    (NUMBERS, "number", 1.0),
    (MOMENTS, "date", 1.0),
    (MOMENTS, "datetime", 1.0),
)
"""Kinds, unit and scale of a column's readings."""


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
        rng = np.random.default_rng(0)
        most = min(max(domain.shape), 1000)
        columns = [
            decode(a, np.arange(most) % a.size, field, rng) for a, field in zip(domain, schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        write_batches(path.with_name("back.parquet"), schema, [batch], exists=IfExists.REPLACE)
        write_batches(path.with_name("back.csv"), schema, [batch], exists=IfExists.REPLACE)
    except FmwemError as error:
        raise AssertionError(f"refused too late: {error}") from error


def _csv_corpus(folder: Path) -> list[bytes]:
    names = [field["name"] for field in FIELDS]
    return [hostile.csv_text(names, ROWS * n, Random(n)) for n in (1, 2, 3)] + [b"a,b\n1,x\n", b"a\n\n1\n"]


def _make_csv(random: Random, corpus: Sequence[bytes]) -> bytes:
    if random.random() < 0.7:
        names = [field["name"] for field in FIELDS]
        data = hostile.csv_text(names, ROWS * random.choice((1, 1, 20)), random)
    else:
        data = random.choice(corpus)
    return hostile.damaged(data, random, corpus) if random.random() < 0.4 else data


def _make_gz(random: Random, corpus: Sequence[bytes]) -> bytes:
    data = gzip.compress(_make_csv(random, [gzip.decompress(text) for text in corpus]), 1)
    return (
        hostile.damaged(data, random, corpus)
        if random.random() < 0.7
        else data + random.choice((b"", data, b"x"))
    )


def any_table(random: Random) -> pa.Table:
    """A table whose columns are of any type, filled with bytes that come as they come."""
    columns = {}
    for field in random.sample(FIELDS, random.randrange(1, 6)):
        name = (
            field["name"]
            if random.random() < 0.95
            else random.choice([t for t in hostile.TEXTS if t.isprintable()])
        )
        columns[name] = any_column(random.choice(TYPES), random)
    return pa.table(columns)


def any_column(kind: pa.DataType, random: Random, rows: int = 6) -> pa.Array:
    if pa.types.is_dictionary(kind):
        indices = pa.array([random.choice((0, 1, None)) for _ in range(rows)], kind.index_type)
        return pa.DictionaryArray.from_arrays(
            indices, any_column(kind.value_type, random, 2), ordered=kind.ordered
        )
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        texts = [
            *(t.encode() for t in hostile.TEXTS if "\ud800" not in t and "\udfff" not in t),
            b"\xff",
            b"ab\xc3",
            b"x",
            b"0311",
            None,
        ]
        large = pa.types.is_large_string(kind)
        column = pa.array(
            [random.choice(texts) for _ in range(rows)], pa.large_binary() if large else pa.binary()
        )
        return (
            column.view(kind)
            if not pa.types.is_string_view(kind)
            else pa.array([random.choice(("x", None, "0311")) for _ in range(rows)], kind)
        )
    if pa.types.is_primitive(kind) and kind.bit_width >= 8:
        raw = b"".join(
            random.choice(
                (bytes(8), b"\xff" * 8, b"\x00" * 7 + b"\x80", b"\xff" * 7 + b"\x7f", random.randbytes(8))
            )
            for _ in range(4 * rows)
        )
        valid = pa.py_buffer(bytes([random.randrange(256)])) if random.random() < 0.5 else None
        return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(raw)])
    return pa.nulls(rows, kind)


def _bytes_of(table: pa.Table, kind: str, random: Random) -> bytes:
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(
            table,
            sink,
            compression=random.choice(("none", "snappy", "zstd", "gzip")),
            use_dictionary=random.random() < 0.5,
            row_group_size=4,
        )
    elif kind == "orc":
        orc.write_table(table, sink, compression=random.choice(("uncompressed", "snappy", "zstd", "zlib")))
    else:
        pf.write_feather(table, sink, compression=random.choice(("uncompressed", "lz4", "zstd")), version=2)
    return sink.getvalue()


def _arrow_corpus(kind: str) -> Callable[[Path], list[bytes]]:
    def corpus(folder: Path) -> list[bytes]:
        columns = {
            "a": [1, 2, None] * 40,
            "b": ["x", "y", "z\u00e9"] * 40,
            "c": [0.5, None, -1e300] * 40,
            "f": [True, False, None] * 40,
        }
        table = pa.table(columns).append_column("d", pa.array([0, 1, 20_000] * 40, pa.date32()))
        return [_bytes_of(table, kind, Random(n)) for n in range(4)]

    return corpus


def _make_arrow(kind: str) -> Callable[[Random, Sequence[bytes]], bytes]:
    def make(random: Random, corpus: Sequence[bytes]) -> bytes:
        data = random.choice(corpus)
        if random.random() < 0.5:
            try:
                data = _bytes_of(any_table(random), kind, random)
            except (pa.ArrowException, UnicodeError, OSError):  # the format has no such type
                return hostile.damaged(data, random, corpus)
            if random.random() < 0.5:
                return data
        return hostile.damaged(data, random, corpus)

    return make


def run_release(path: Path) -> bool:
    """A release of a hostile table: rows, or a refusal before anything is spent."""
    taken = False
    for domain in ({"fields": FIELDS}, None):
        try:
            made = release(path, 1, domain=domain, epsilon=5.0, rows=5, rounds=1)
            taken |= made.to_arrow().num_rows == 5
        except FmwemError as error:
            assert str(error).isprintable()
            learning = domain is None and isinstance(error, NothingLearnt)
            assert learning or not error.budget_spent, f"spent, then refused: {error}"
    return taken


def _make_release(random: Random, corpus: Sequence[bytes]) -> bytes:
    names = [field["name"] for field in FIELDS]
    data = hostile.csv_text(names, ROWS * random.choice((1, 5)), random)
    return hostile.damaged(data, random, corpus) if random.random() < 0.1 else data


TARGETS = {
    "csv": Target(".csv", _csv_corpus, _make_csv, run_table),
    "gzip": Target(
        ".csv.gz", lambda folder: [gzip.compress(text) for text in _csv_corpus(folder)], _make_gz, run_table
    ),
    "parquet": Target(".parquet", _arrow_corpus("parquet"), _make_arrow("parquet"), run_table),
    "feather": Target(".feather", _arrow_corpus("feather"), _make_arrow("feather"), run_table),
    "orc": Target(".orc", _arrow_corpus("orc"), _make_arrow("orc"), run_table),
    "release": Target(".csv", _csv_corpus, _make_release, run_release),
}
