"""The parsers under test: for each a corpus of valid files, a way to make a hostile one, and what is done with it.

`run` ends well where it returns (whether the file was taken) and FmwemError came in one line. What was read is used, too, as far as a stranger's file
decides what happens: a value that passes the parser and breaks the coder is a finding.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq

from factored_mwem import Domain, FmwemError, Policy, Release, Workload, job, release
from factored_mwem.attribute import Attribute
from factored_mwem.codec import OWN_TYPE, decode, encode, encode_table, fit_columns
from factored_mwem.output import write_batches
from factored_mwem.profile import profile
from factored_mwem.settings import policy_from, read_config
from factored_mwem.table import Table, open_table
from fuzzing import hostile

FIELDS: list[dict[str, Any]] = [
    {"name": "a", "type": "integer", "constraints": {"minimum": 0, "maximum": 99, "required": True}, "bins": 10},
    {"name": "b", "type": "string", "categories": ["x", "y", "0311", "other"], "other": "other", "missingValues": ["", "NA"]},
    {"name": "c", "type": "number", "edges": [-1.5, 0, 5e-324, 1e6]},
    {"name": "d", "type": "date", "constraints": {"minimum": "1950-01-01", "maximum": "2020-12-31"}, "bins": 6},
    {"name": "e", "type": "datetime", "format": "%d.%m.%Y %H:%M", "constraints": {"minimum": "2020-01-01T00:00:00+02:00", "maximum": "2021-01-01"}},
    {"name": "f", "type": "boolean", "trueValues": ["ja"], "falseValues": ["nein"]},
    {"name": "g", "type": "integer", "categories": [{"value": 1, "label": "one"}, 2, 2**60], "categoriesOrdered": True},
    {"name": "h", "type": "number", "categories": [0.1, 1.0, -3e10]},
    {"name": "i", "type": "year", "constraints": {"minimum": 2000, "maximum": 2004, "unique": False}},
    {"name": "j", "type": "string", "constraints": {"enum": ["p", "q"], "required": True}, "title": "T", "example": "p"},
]
DOMAINS: list[Any] = [
    {"fields": FIELDS, "missingValues": ["-"], "$schema": "https://example.org", "primaryKey": "a"},
    {"a": 10, "b": 2, "c": 300},
    {"fields": FIELDS[:1]},
    {"fields": [{"name": "x", "type": "datetime", "constraints": {"minimum": "2020-01-01", "maximum": "2020-01-02"}, "bins": 24, "learnt": True}]},
]
ATTRIBUTES = tuple(Domain.from_dict({"fields": FIELDS}))
ROWS = [
    ["5", "x", "0.25", "1999-12-31", "01.02.2020 10:00", "ja", "1", "0.1", "2001", "p"],
    ["99", "0311", "-1e3", "2000-02-29", "31.12.2020 23:59", "nein", "2", "1.0", "2004", "q"],
    ["", "NA", "", "", "", "", "", "", "", "p"],
    ["100", "unlisted", "1e300", "2020-01-01T10:00:00Z", "", "ja", "1152921504606846976", "-3e10", "1999", "z"],
]
WORKLOADS: list[Any] = [
    {"marginals": 2},
    {"marginals": [1, 2], "cliques": [["a", "b"], ["c"]]},
    {"cubes": [{"attributes": ["a", "b", "c"], "order": 2, "weight": 3.0}], "ranges": [{"attributes": ["a"], "count": 10}]},
    {"ranges": [{"attributes": ["a", "c"], "which": "prefix"}, {"attributes": ["d"], "which": "all", "seed": 3}], "parities": [{"order": 1}]},
]
CONFIGS: list[Any] = [
    {"marginals": 2, "epsilon": 0.5, "delta": 1e-6, "neighbours": "replace", "rounds": 3, "columns": ["a", "b"], "overwrite": True, "rows": 5},
    {"cube": ["a,b,c:2@3"], "ranges": ["a:10", "a,c:prefix"], "parities": 1, "max-memory": "100MB", "time_budget": 5.0, "domain": "d.json"},
    {"marginals": 1, "engine": "mwem", "rounds": "adaptive", "initial": "histogram", "step": "paper", "contributions": 2, "domain_budget": 0.2},
]
SPECS = ("a,b,c:2@3", "a:1000", "a,c:all", "a:prefix@0.5", "b", "a,b,c,d,e,f:10")
TYPES: tuple[pa.DataType, ...] = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
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
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Zurich")),
    *(
        pa.time32("s"),
        pa.time64("ns"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.decimal128(38, 37),
        pa.decimal128(5, -2),
        pa.decimal256(76, 3),
    ),
    *(pa.list_(pa.int8()), pa.struct([("x", pa.int8())]), pa.map_(pa.string(), pa.int8()), pa.list_(pa.list_(pa.string())), pa.list_(pa.int8(), 2)),
    *(pa.dictionary(pa.int8(), kind) for kind in (pa.string(), pa.int64(), pa.float32(), pa.date32(), pa.bool_(), pa.large_string())),
    *(pa.dictionary(pa.uint64(), pa.string()), pa.dictionary(pa.int32(), pa.string(), ordered=True), pa.run_end_encoded(pa.int32(), pa.int64())),
)


@dataclass(frozen=True)
class Target:
    """`suffix` of the file; `corpus(folder)`: valid files; `make(random, corpus)`: a hostile one; `run(path)`: parse it and use what was parsed."""

    suffix: str
    corpus: Callable[[Path], list[bytes]]
    make: Callable[[Random, Sequence[bytes]], bytes]
    run: Callable[[Path], bool]


def allowed(act: Callable[[], Any]) -> Any:
    """What `act` returns, or None where it refuses in one line; anything else that it raises goes on."""
    try:
        return act()
    except FmwemError as error:
        text = str(error)
        assert text and text.isprintable(), f"not one printable line: {text[:200]!r}"
        return None


# ---- tables


def run_table(path: Path) -> bool:
    """Open, fit, encode, decode and write every column under an attribute that the file's bytes pick; and profile it, as for a learnt domain."""
    random = Random(zlib.crc32(path.read_bytes()))
    table = allowed(lambda: open_table(path))
    if table is None:
        return False
    fitting = []
    for name in table.schema.names[:10]:
        attribute = random.choice(ATTRIBUTES).model_copy(update={"name": name})
        if allowed(lambda name=name, attribute=attribute: _encoded(table, name, attribute)):
            fitting.append(attribute)
        allowed(lambda name=name: profile(table, [name]))
    if fitting:
        _back(*fit_columns(Domain(fitting), table, [a.name for a in fitting]), path)
    return bool(fitting)


def _encoded(table: Table, name: str, attribute: Attribute) -> bool:
    domain, _ = fit_columns(Domain([attribute]), table, [name])
    (codes,) = encode_table(domain, table)
    assert int(codes.max()) < domain.shape[0]
    return True


def _back(domain: Domain, schema: pa.Schema, path: Path) -> None:
    """Every code as a value, written to a file: a release does this after its budget is spent, so here nothing may be refused."""
    try:
        rng = np.random.default_rng(0)
        most = min(max(domain.shape), 1000)
        columns = [decode(a, np.arange(most) % a.size, field, rng) for a, field in zip(domain, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        write_batches(path.with_name("back.parquet"), schema, [batch])
        write_batches(path.with_name("back.csv"), schema, [batch])
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
    data = gzip.compress(_make_csv(random, corpus), 1)
    return hostile.damaged(data, random, corpus) if random.random() < 0.7 else data + random.choice((b"", data, b"x"))


def any_table(random: Random) -> pa.Table:
    """A table whose columns are of any type, filled with bytes that come as they come."""
    columns = {}
    for field in random.sample(FIELDS, random.randrange(1, 6)):
        name = field["name"] if random.random() < 0.95 else random.choice([t for t in hostile.TEXTS if t.isprintable()])
        columns[name] = any_column(random.choice(TYPES), random)
    return pa.table(columns)


def any_column(kind: pa.DataType, random: Random, rows: int = 6) -> pa.Array:
    if pa.types.is_dictionary(kind):
        indices = pa.array([random.choice((0, 1, None)) for _ in range(rows)], kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, any_column(kind.value_type, random, 2), ordered=kind.ordered)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        texts = [*(t.encode() for t in hostile.TEXTS if "\ud800" not in t and "\udfff" not in t), b"\xff", b"ab\xc3", b"x", b"0311", None]
        large = pa.types.is_large_string(kind)
        column = pa.array([random.choice(texts) for _ in range(rows)], pa.large_binary() if large else pa.binary())
        return column.view(kind) if not pa.types.is_string_view(kind) else pa.array([random.choice(("x", None, "0311")) for _ in range(rows)], kind)
    if pa.types.is_primitive(kind) and kind.bit_width >= 8:
        raw = b"".join(
            random.choice((bytes(8), b"\xff" * 8, b"\x00" * 7 + b"\x80", b"\xff" * 7 + b"\x7f", random.randbytes(8))) for _ in range(4 * rows)
        )
        valid = pa.py_buffer(bytes([random.randrange(256)])) if random.random() < 0.5 else None
        return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(raw)])
    return pa.nulls(rows, kind)


def _bytes_of(table: pa.Table, kind: str, random: Random) -> bytes:
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(
            table, sink, compression=random.choice(("none", "snappy", "zstd", "gzip")), use_dictionary=random.random() < 0.5, row_group_size=4
        )
    else:
        pf.write_feather(table, sink, compression=random.choice(("uncompressed", "lz4", "zstd")), version=2)
    return sink.getvalue()


def _arrow_corpus(kind: str) -> Callable[[Path], list[bytes]]:
    def corpus(folder: Path) -> list[bytes]:
        columns = {"a": [1, 2, None] * 40, "b": ["x", "y", "z\u00e9"] * 40, "c": [0.5, None, -1e300] * 40, "f": [True, False, None] * 40}
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


# ---- domains, workloads, configurations


def run_domain(path: Path) -> bool:
    """A domain that is taken must encode any text, and give back a value for every code."""
    domain = allowed(lambda: Domain.load(path))
    if domain is None:
        return False
    assert Domain.from_dict(json.loads(json.dumps(domain.to_dict()))) == domain
    texts = pa.array([*(t for t in hostile.TEXTS if "\ud800" not in t and len(t) < 1000), *(v for row in ROWS for v in row), None])
    for attribute in domain.attributes[:12]:
        codes = encode(attribute, texts)
        assert int(codes.max()) < attribute.size
    few = Domain(domain.attributes[:12])
    _back(few, pa.schema([pa.field(a.name, OWN_TYPE[a.type], nullable=a.nullable) for a in few]), path)
    return True


def run_workload(path: Path) -> bool:
    """A workload that is taken must list its candidates over a small domain, and over a wide one, or refuse."""
    workload = allowed(lambda: Workload.load(path))
    if workload is None:
        return False
    assert Workload.from_dict(json.loads(json.dumps(workload.to_dict()))) == workload
    for domain in (Domain.from_dict({"fields": FIELDS}), Domain.from_dict({**dict.fromkeys("abcdef", 2), **{f"w{i}": 2 for i in range(60)}})):
        allowed(lambda domain=domain: (workload.candidates(domain), [asked.questions(domain) for asked in workload.asked]))
    return True


def run_config(path: Path) -> bool:
    settings = allowed(lambda: read_config(path))
    return bool(settings and allowed(lambda: (policy_from(settings), job.workload_from({**settings, "workload": None}))))


def run_specs(path: Path) -> bool:
    """What the command line takes for --cube and --ranges; the command line's own text is valid, with any character but NUL."""
    text = path.read_bytes().decode("utf-8", "surrogateescape").replace("\x00", "")
    taken = [allowed(lambda option=option: job.workload_from({option: [text]})) for option in ("cube", "ranges")]
    return any(taken)


def _make_tree(trees: Sequence[Any], write: Callable[[Any, Random], bytes]) -> Callable[[Random, Sequence[bytes]], bytes]:
    def make(random: Random, corpus: Sequence[bytes]) -> bytes:
        data = write(hostile.changed(random.choice(trees), random), random)
        return hostile.damaged(data, random, corpus) if random.random() < 0.2 else data

    return make


def _make_spec(random: Random, corpus: Sequence[bytes]) -> bytes:
    return hostile.damaged(random.choice(corpus), random, corpus)


# ---- models


def run_model(path: Path) -> bool:
    """A model that is taken must give rows, and a price for its entries."""
    made = allowed(lambda: Release.load(path))
    if made is None:
        return False
    for rows in (0, 40):
        assert sum(batch.num_rows for batch in made.batches(rows)) == rows
    allowed(made.manifest.recompute)
    write_batches(path.with_name("rows.parquet"), made.schema, made.batches(10), metadata=made.manifest.model_dump_json())
    return True


def _model_corpus(folder: Path) -> list[bytes]:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 40, 3000)
    table = pa.table({"a": a, "b": (a + rng.integers(0, 4, 3000)) % 30, "c": a // 14, "d": rng.integers(0, 2, 3000)})
    sizes, small = Domain.from_dict({"a": 40, "b": 30, "c": 3, "d": 2}), Domain.from_dict({"c": 3, "d": 2})
    made = [
        release(table, 2, Policy.of(epsilon=50.0, max_cells=400, rounds=6), domain=sizes),
        release(table.select(["c", "d"]), Workload.marginals(1) + Workload.ranges("c", count=3), domain=small),
        release(table, 2, Policy.of(engine="mwem", rounds=2, delta=0.0), domain=sizes),
    ]
    found = []
    for number, release_ in enumerate(made):
        path = folder / f"{number}.corpus"
        release_.save(path, overwrite=True)
        found.append(path.read_bytes())
    return found


def _make_model(random: Random, corpus: Sequence[bytes]) -> bytes:
    data = random.choice(corpus)
    if random.random() < 0.25:
        return hostile.damaged(data, random, corpus)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    for _ in range(random.choice((1, 1, 2))):
        with contextlib.suppress(ValueError, KeyError, EOFError, SyntaxError):  # an earlier change has left nothing to change here
            _change_member(members, random)
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as file:
        for name, content in members.items():
            file.writestr(name, content)
    found = sink.getvalue()
    return found if random.random() < 0.9 else hostile.damaged(found, random, corpus)


def _change_member(members: dict[str, bytes], random: Random) -> None:
    if random.random() < 0.6 and "header.npy" in members:
        content = members["header.npy"]
        start = content.index(b"\n") + 1
        members["header.npy"] = npy(np.frombuffer(hostile.as_json(hostile.changed(json.loads(content[start:]), random), random), dtype=np.uint8))
        return
    name = random.choice(list(members))
    kind = random.randrange(6)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[name] = random.choice(list(members.values()))
    elif kind == 2:
        members[name] = hostile.damaged(members[name], random)
    elif kind == 3:
        members[random.choice(("x.npy", "header", "../x", "header.npy", "beliefs_0.npy", "x" * 60_000))] = random.choice((b"", members[name]))
    else:
        members[name] = _strange_array(members[name], random)


def _strange_array(content: bytes, random: Random) -> bytes:
    """The array with other values, another type or shape, or a head that declares what is not there."""
    array = np.load(io.BytesIO(content)).copy()
    kind = random.randrange(5)
    if kind == 0:
        return npy(
            array,
            shape=random.choice(("(10**12,)", "(1000000000000,)", "(-1,)", "(0,)", "(2, 3)", "()", f"({len(array)},) * 9", "(" * 500 + ")" * 500)),
        )
    if kind == 1:
        return npy(array, descr=random.choice(("'|O'", "'<f8'", "'|S999999999'", "'<U1'", "[('x', '<f8')]", "'<M8[s]'", "'|V8'", "'>i8'", "5")))
    if kind == 2 and len(array):
        array[random.randrange(len(array))] = random.choice((0, 1, 77))
    if kind == 3:
        array = array[: random.randrange(len(array) + 1)]
    if kind == 4:
        array = array.astype(random.choice((np.float32, np.float64, np.int64, np.uint8)), casting="unsafe").reshape(-1, 1)[:, 0]
    return npy(array)


def npy(array: np.ndarray, *, shape: str | None = None, descr: str | None = None) -> bytes:
    """An array file whose head may lie."""
    head = f"{{'descr': {descr or repr(array.dtype.str)}, 'fortran_order': False, 'shape': {shape or f'({len(array)},)'}, }}"
    head = head + " " * (63 - (len(head) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + array.tobytes()


# ---- whole releases


def run_release(path: Path) -> bool:
    """A release of a hostile table: rows, or a refusal before anything is spent."""
    taken = False
    for domain in ({"fields": FIELDS}, None):
        try:
            made = release(path, 1, domain=domain, epsilon=5.0, rows=5, rounds=1)
            taken |= made.to_arrow().num_rows == 5
        except FmwemError as error:
            assert str(error).isprintable()
            assert not error.budget_spent, f"spent, then refused: {error}"
    return taken


def _make_release(random: Random, corpus: Sequence[bytes]) -> bytes:
    names = [field["name"] for field in FIELDS]
    data = hostile.csv_text(names, ROWS * random.choice((1, 5)), random)
    return hostile.damaged(data, random, corpus) if random.random() < 0.1 else data


TARGETS: dict[str, Target] = {
    "csv": Target(".csv", _csv_corpus, _make_csv, run_table),
    "gzip": Target(".csv.gz", _csv_corpus, _make_gz, run_table),
    "parquet": Target(".parquet", _arrow_corpus("parquet"), _make_arrow("parquet"), run_table),
    "feather": Target(".feather", _arrow_corpus("feather"), _make_arrow("feather"), run_table),
    "domain": Target(".json", lambda _: [json.dumps(d).encode() for d in DOMAINS], _make_tree(DOMAINS, hostile.as_json), run_domain),
    "workload": Target(".json", lambda _: [json.dumps(w).encode() for w in WORKLOADS], _make_tree(WORKLOADS, hostile.as_json), run_workload),
    "workload-toml": Target(
        ".toml", lambda _: [hostile.as_toml(w, Random(3)) for w in WORKLOADS], _make_tree(WORKLOADS, hostile.as_toml), run_workload
    ),
    "config": Target(".toml", lambda _: [hostile.as_toml(c, Random(3)) for c in CONFIGS], _make_tree(CONFIGS, hostile.as_toml), run_config),
    "specs": Target(".txt", lambda _: [spec.encode() for spec in SPECS], _make_spec, run_specs),
    "model": Target(".fmwem", _model_corpus, _make_model, run_model),
    "release": Target(".csv", _csv_corpus, _make_release, run_release),
}
