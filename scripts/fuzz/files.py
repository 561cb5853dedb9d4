"""Files that a run leaves: models, which a stranger may send, and the ledger and journals of its owner, which
a disk may damage.
"""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import sqlite3
import zipfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import safetensors.numpy

from factored_mwem import Cap, Domain, LedgerFile, Neighbours, Policy, Release, Workload, release
from factored_mwem.accounting.cap import Cost
from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import Busy
from factored_mwem.files import IfExists
from factored_mwem.ledger import report as books
from factored_mwem.ledger.entries import Reservation
from factored_mwem.ledger.journal import code_of
from factored_mwem.ledger.journal_folder import JournalFile
from factored_mwem.pipeline import manifest_check
from factored_mwem.pipeline.model_file import digest_of
from factored_mwem.tables.formats import write_batches
from fuzz import hostile
from fuzz.target import Target, allowed


def run_model(path: Path) -> bool:
    """A model that is taken must give rows, and a price for its entries."""
    made = allowed(lambda: Release.load(path))
    if made is None:
        return False
    for rows in (0, 40):
        assert sum(batch.num_rows for batch in made.batches(rows)) == rows
    allowed(made.manifest.recompute)
    write_batches(
        path.with_name("rows.parquet"),
        made.schema,
        made.batches(10),
        metadata=made.manifest.model_dump_json(),
        exists=IfExists.REPLACE,
    )
    return True


def _model_corpus(folder: Path) -> list[bytes]:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 40, 3000)
    table = pa.table(
        {"a": a, "b": (a + rng.integers(0, 4, 3000)) % 30, "c": a // 14, "d": rng.integers(0, 2, 3000)}
    )
    sizes, small = Domain.from_dict({"a": 40, "b": 30, "c": 3, "d": 2}), Domain.from_dict({"c": 3, "d": 2})
    made = [
        release(table, 2, Policy.of(epsilon=50.0, max_cells=400, rounds=6), domain=sizes),
        release(
            table.select(["c", "d"]), Workload.marginals(1) + Workload.ranges("c", count=3), domain=small
        ),
        release(table, 2, Policy.of(engine="mwem", rounds=2, delta=0.0), domain=sizes),
    ]
    found = []
    for number, release_ in enumerate(made):
        path = folder / f"{number}.corpus"
        release_.save(path, overwrite=True)
        found.append(path.read_bytes())
    return found


def _make_model(random: Random, corpus: Sequence[bytes]) -> bytes:
    """A file damaged; or its parts changed, or its list of arrays, and a digest that fits."""
    data = random.choice(corpus)
    if random.random() < 0.2:
        return hostile.damaged(data, random, corpus)
    arrays = safetensors.numpy.load(data)
    for _ in range(random.choice((0, 1, 1, 2))):
        with contextlib.suppress(Exception):  # an earlier change has left nothing to change here
            _change_array(arrays, random)
    arrays.pop("sha256", None)
    made = safetensors.numpy.save({**arrays, "sha256": digest_of(arrays)})
    if random.random() < 0.3:
        made = _strange_list(made, random)
    return made if random.random() < 0.9 else hostile.damaged(made, random, corpus)


def _change_array(arrays: dict[str, np.ndarray], random: Random) -> None:
    if random.random() < 0.6:
        header = hostile.changed(json.loads(arrays["header"].tobytes()), random)
        arrays["header"] = np.frombuffer(hostile.as_json(header, random), dtype=np.uint8)
        return
    name = random.choice(sorted(arrays))
    kind = random.randrange(6)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = random.choice(list(arrays.values()))
    elif kind == 2:
        content = hostile.damaged(arrays[name].tobytes(), random)
        width = arrays[name].itemsize
        arrays[name] = np.frombuffer(content[: len(content) // width * width], dtype=arrays[name].dtype)
    elif kind == 3:
        arrays[random.choice(("x", "", "../x", "header", "beliefs_0", "__metadata__", "x" * 60_000))] = (
            random.choice((np.zeros(0), arrays[name]))
        )
    else:
        arrays[name] = _strange_array(arrays[name].copy(), random)


def _strange_array(array: np.ndarray, random: Random) -> np.ndarray:
    """The array with other values, another type or shape."""
    kind = random.randrange(4)
    if kind == 0 and len(array):
        array[random.randrange(len(array))] = random.choice((0, 1, 77, -1))
    if kind == 1 and len(array) and array.dtype.kind == "f":
        array[random.randrange(len(array))] = random.choice((np.nan, np.inf, -0.5, 1e300))
    if kind == 2:
        array = array[: random.randrange(len(array) + 1)]
    if kind == 3:
        kinds = (np.float16, np.float32, np.float64, np.int64, np.uint64, np.uint8, np.bool_)
        array = array.astype(random.choice(kinds), casting="unsafe").reshape(
            random.choice(((-1,), (-1, 1), (1, -1, 1)))
        )
    return array


def _strange_list(data: bytes, random: Random) -> bytes:
    """The file whose list of arrays declares what is not there, or is no list."""
    length = int.from_bytes(data[:8], "little")
    entries = json.loads(data[8 : 8 + length])
    entry = entries[random.choice([name for name in entries if name != "__metadata__"])]
    kind = random.randrange(6)
    if kind == 0:
        shape = ([10**12], [-1], [0], [2, 3], [], [2**63] * 3, [0, 10**15], [1] * 70, [1.5], "x", None)
        entry["shape"] = random.choice(shape)
    elif kind == 1:
        entry["dtype"] = random.choice(("F64", "I64", "U8", "BF16", "F8_E4M3", "BOOL", "C64", "O", 5, "f8"))
    elif kind == 2:
        start, end = entry["data_offsets"]
        offsets = ([0, 10**12], [end, start], [start + 1, end + 1], [-1, end], [start], [0, 2**64], [0, 0])
        entry["data_offsets"] = random.choice(offsets)
    elif kind == 3:
        entries["__metadata__"] = random.choice(({}, {"x": "y"}, {"x": 1}, [], "x" * 10**5))
    text = json.dumps(hostile.changed(entries, random) if kind == 4 else entries).encode()
    if kind == 5:
        text = random.choice((b"[" * 10**5, b'{"a":' * 10**5, b"", b"{}", b"null", text[:-1], b" " * 2**23))
    length = random.choice((len(text),) * 9 + (0, 2**22, 2**40, 2**64 - 1))
    return length.to_bytes(8, "little") + text + data[8 + int.from_bytes(data[:8], "little") :]


# ---- models of the versions before, zip files: the reader stays, and so do its hostile files


def _old_corpus(folder: Path) -> list[bytes]:
    """The models of today in the old form."""
    found = []
    for data in _model_corpus(folder):
        arrays = safetensors.numpy.load(data)
        header = {**json.loads(arrays.pop("header").tobytes()), "fmwem_model": 3}
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        del arrays["sha256"]
        sink = io.BytesIO()
        np.savez_compressed(sink, **arrays)
        found.append(sink.getvalue())
    return found


def _make_old_model(random: Random, corpus: Sequence[bytes]) -> bytes:
    data = random.choice(corpus)
    if random.random() < 0.25:
        return hostile.damaged(data, random, corpus)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    for _ in range(random.choice((1, 1, 2))):
        with contextlib.suppress(Exception):  # an earlier change has left nothing to change here
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
        members["header.npy"] = npy(
            np.frombuffer(
                hostile.as_json(hostile.changed(json.loads(content[start:]), random), random), dtype=np.uint8
            )
        )
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
        members[random.choice(("x.npy", "header", "../x", "header.npy", "beliefs_0.npy", "x" * 60_000))] = (
            random.choice((b"", members[name]))
        )
    else:
        members[name] = _strange_member(members[name], random)


def _strange_member(content: bytes, random: Random) -> bytes:
    """The array with other values, another type or shape, or a head that declares what is not there."""
    array = np.load(io.BytesIO(content)).copy()
    kind = random.randrange(5)
    if kind == 0:
        return npy(
            array,
            shape=random.choice(
                (
                    "(10**12,)",
                    "(1000000000000,)",
                    "(-1,)",
                    "(0,)",
                    "(2, 3)",
                    "()",
                    f"({len(array)},) * 9",
                    "(" * 500 + ")" * 500,
                )
            ),
        )
    if kind == 1:
        return npy(
            array,
            descr=random.choice(
                (
                    "'|O'",
                    "'<f8'",
                    "'|S999999999'",
                    "'<U1'",
                    "[('x', '<f8')]",
                    "'<M8[s]'",
                    "'|V8'",
                    "'>i8'",
                    "5",
                )
            ),
        )
    if kind == 2 and len(array):
        array[random.randrange(len(array))] = random.choice((0, 1, 77))
    if kind == 3:
        array = array[: random.randrange(len(array) + 1)]
    if kind == 4:
        array = array.astype(
            random.choice((np.float32, np.float64, np.int64, np.uint8)), casting="unsafe"
        ).reshape(-1, 1)[:, 0]
    return npy(array)


def npy(array: np.ndarray, *, shape: str | None = None, descr: str | None = None) -> bytes:
    """An array file whose head may lie."""
    descr, shape = descr or repr(array.dtype.str), shape or f"({len(array)},)"
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    head = head + " " * (63 - (len(head) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + array.tobytes()


# ---- ledgers and journals

KEY = bytes(range(32))
COST = Cost(Composition.ZCDP, Fraction(1, 1000), Fraction(1, 10**12))


def run_ledger(path: Path) -> bool:
    """A ledger that is taken must say what is in it, and whether one more release fits."""
    file = allowed(lambda: LedgerFile(path))
    if file is None:
        return False
    for say in (books.books, books.export, manifest_check.check_books):
        said = allowed(lambda say=say: say(path))
        json.dumps(said)
    for name in ("people", "others"):
        number = allowed(
            lambda name=name: file.reserve(
                Reservation(name, COST, None, {}, None, "0", secrets.token_hex(16))
            )
        )
        if number is not None:
            allowed(
                lambda number=number: file.change(number, "finished", spent=COST, files=[{"output": "0"}])
            )
        allowed(lambda name=name: file.find(name, "r1"))
    return True


def _ledger_corpus(folder: Path) -> list[bytes]:
    path = folder / "corpus.ledger"
    path.unlink(missing_ok=True)
    file = LedgerFile.create(path)
    found = [path.read_bytes()]
    file.add("people", Cap.of(5.0, 1e-6), Neighbours.ADD_REMOVE, 1)
    file.add("others", Cap.of(None, 1e-9, 0.5), Neighbours.REPLACE, 3)
    for i in range(3):
        number = file.reserve(
            Reservation("people", COST, f"r{i}", {"epsilon": 1.0}, KEY, "0.1", secrets.token_hex(16))
        )
        file.change(number, ("spent", "finished", "failed")[i], spent=COST, files=[{"output": "00"}])
    return [*found, path.read_bytes()]


def _make_ledger(random: Random, corpus: Sequence[bytes]) -> bytes:
    """Bytes damaged, or a cell with another value of any type, or a table more."""
    data = random.choice(corpus)
    if random.random() < 0.4:
        return hostile.damaged(data, random, corpus)
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(data)
        for _ in range(random.choice((1, 1, 2))):
            with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeError):
                _change_cell(db, random)
        db.commit()
        return db.serialize()


def _change_cell(db: sqlite3.Connection, random: Random) -> None:
    table = random.choice(("secret", "datasets", "releases", "releases"))
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    if not columns:  # the change before dropped the table
        return
    column = random.choice(columns)
    value = random.choice(
        (
            random.choice(hostile.NUMBERS),
            random.choice(hostile.TEXTS),
            b"",
            KEY,
            b"\xff",
            '{"a": [1]}',
            "[{}]",
            "1/3",
            "7/0",
            "2",
            -1,
        )
    )
    if random.random() < 0.1:
        other = random.choice(
            (
                "CREATE TABLE x (a)",
                "DROP TABLE secret",
                "CREATE VIEW v AS SELECT 1",
                "PRAGMA user_version = 9",
                f"DELETE FROM {table}",
            )
        )
        db.execute(other)
        return
    db.execute(
        f"UPDATE {table} SET {column} = ?",
        (bytes(value, "utf-8") if random.random() < 0.1 and isinstance(value, str) else value,),
    )


def run_journal(path: Path) -> bool:
    """Whatever a journal has gone through, its whole records come back or it is given up; then it can be
    written on.
    """
    place = path.parent / "x.journals" / "r.journal"
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(path.read_bytes())
    journal = allowed(lambda: JournalFile(place, KEY))
    if journal is None:
        return False
    try:
        taken = journal.header is not None
        while journal.waiting:
            facts, numbers = journal.replay() or ({}, np.zeros(0))
            assert isinstance(facts, dict) and numbers.dtype == np.int64
        journal.append({"x": 1}, np.arange(3))
        return taken
    finally:
        journal.close()


def _journal_corpus(folder: Path) -> list[bytes]:
    place = folder / "made.journals" / "r.journal"
    found = []
    for draws in (0, 1, 4):
        place.unlink(missing_ok=True)
        with contextlib.suppress(Busy), contextlib.closing(JournalFile(place, KEY)) as journal:
            journal.begin({"machine": [1.0, 2.0], "seed": 3})
            for i in range(draws):
                journal.append({"method": "add", "scale": 0.5 + i}, np.arange(20 * i))
        found.append(place.read_bytes())
    return found


def _make_journal(random: Random, corpus: Sequence[bytes]) -> bytes:
    """Bytes damaged; or records with a right code and strange content, out of order or twice."""
    data = random.choice(corpus)
    if random.random() < 0.5:
        return hostile.damaged(data, random, corpus)
    records = []
    for number in range(random.randrange(4)):
        body = random.choice(
            (
                b"",
                b"{}",
                b"[]\n",
                b"{}\n" + random.randbytes(random.choice((0, 8, 12))),
                hostile.as_json(hostile.value(random), random),
            )
        )
        head = (
            b"fmwj"
            + random.choice((number, number, 0, 2**63)).to_bytes(8, "little")
            + len(body).to_bytes(8, "little")
        )
        records.append(head + body + code_of(KEY, head, body))
    return random.choice((b"", data)) + b"".join(records)


TARGETS = {
    "model": Target(".fmwem", _model_corpus, _make_model, run_model),
    "old model": Target(".fmwem", _old_corpus, _make_old_model, run_model),
    "ledger": Target(".ledger", _ledger_corpus, _make_ledger, run_ledger),
    "journal": Target(".journal", _journal_corpus, _make_journal, run_journal),
}
