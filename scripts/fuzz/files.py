"""Files that a run leaves: models, which a stranger may send, and the ledger and journals of its owner, which
a disk may damage.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import sqlite3
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import safetensors.numpy

from factored_mwem import Cap, Domain, LedgerFile, Neighbours, Policy, Release, Workload, release
from factored_mwem.accounting.cap import Cost
from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import Busy
from factored_mwem.files.files import IfExists
from factored_mwem.ledger import report as books
from factored_mwem.ledger.entries import Reservation
from factored_mwem.ledger.journal import code_of
from factored_mwem.ledger.journal_folder import JournalFile
from factored_mwem.pipeline.record import manifest_check
from factored_mwem.pipeline.saving.model_file import digest_of
from factored_mwem.tables.outputs.formats import write_batches
from fuzz import hostile
from fuzz.target import Target, allowed

NAMES = ("x", "", "../x", "header", "beliefs_0", "__metadata__", "x" * 60_000)
DTYPES = (np.float16, np.float32, np.float64, np.int64, np.uint64, np.uint8, np.bool_)
LISTED: dict[str, tuple[Any, ...]] = {
    "shape": ([10**12], [-1], [0], [2, 3], [], [2**63] * 3, [0, 10**15], [1] * 70, [1.5], "x", None),
    "dtype": ("F64", "I64", "U8", "BF16", "F8_E4M3", "BOOL", "C64", "O", 5, "f8"),
    "data_offsets": ([0, 10**12], [0], [0, 2**64], [0, 0]),
    "__metadata__": ({}, {"x": "y"}, {"x": 1}, [], "x" * 10**5),
}
"""What the list of arrays may declare that is not there."""
LISTS = (b"[" * 10**5, b'{"a":' * 10**5, b"", b"{}", b"null", b" " * 2**23)


def run_model(path: Path) -> bool:
    """A model that is taken must give rows, and a price for its entries."""
    model = allowed(Release.load, path)
    if model is None:
        return False
    for rows in (0, 40):
        assert sum(batch.num_rows for batch in model.batches(rows)) == rows
    allowed(model.manifest.recompute)
    rows, text = path.with_name("rows.parquet"), model.manifest.model_dump_json()
    write_batches(rows, model.schema, model.batches(10), metadata=text, exists=IfExists.REPLACE)
    return True


def model_corpus(folder: Path) -> list[bytes]:
    rng = np.random.default_rng(1)
    a, d = rng.integers(0, 40, 3000), rng.integers(0, 2, 3000)
    table = pa.table({"a": a, "b": (a + rng.integers(0, 4, 3000)) % 30, "c": a // 14, "d": d})
    sizes, small = {"a": 40, "b": 30, "c": 3, "d": 2}, Domain.from_dict({"c": 3, "d": 2})
    two, corpus = Workload.marginals(1) + Workload.ranges("c", count=3), []
    for number, model in enumerate(
        (
            release(table, 2, Policy.of(epsilon=50.0, max_cells=400, rounds=6), domain=sizes),
            release(table.select(["c", "d"]), two, domain=small),
            release(table, 2, Policy.of(engine="mwem", rounds=2, delta=0.0), domain=sizes),
        )
    ):
        model.save(folder / f"{number}.corpus", overwrite=True)
        corpus.append((folder / f"{number}.corpus").read_bytes())
    return corpus


def _make_model(random: Random, corpus: Sequence[bytes]) -> bytes:
    """A file damaged; or its parts changed, or its list of arrays, and a digest that fits."""
    data = random.choice(corpus)
    if random.random() < 0.2:
        return hostile.damaged(data, random, corpus)
    arrays = safetensors.numpy.load(data)
    change_arrays(arrays, random, random.choice((0, 1, 1, 2)))
    arrays.pop("sha256", None)
    changed = safetensors.numpy.save({**arrays, "sha256": digest_of(arrays)})
    if random.random() < 0.3:
        changed = _strange_list(changed, random)
    return changed if random.random() < 0.9 else hostile.damaged(changed, random, corpus)


def change_arrays(arrays: dict[str, np.ndarray], random: Random, times: int) -> None:
    """The header changed, or an array gone, damaged, twice, under a strange name, or of other content."""
    for _ in range(times):
        with contextlib.suppress(Exception):  # an earlier change has left nothing to change here
            name, kind = random.choice(sorted(arrays)), random.randrange(15)
            array = arrays[name]
            if kind < 9:
                header = hostile.changed(json.loads(arrays["header"].tobytes()), random)
                arrays["header"] = np.frombuffer(hostile.as_json(header, random), dtype=np.uint8)
            elif kind == 9:
                del arrays[name]
            elif kind == 10:
                arrays[name] = random.choice(list(arrays.values()))
            elif kind == 11:
                content = hostile.damaged(array.tobytes(), random)
                whole = content[: len(content) // array.itemsize * array.itemsize]
                arrays[name] = np.frombuffer(whole, dtype=array.dtype)
            elif kind == 12:
                arrays[random.choice(NAMES)] = random.choice((np.zeros(0), array))
            else:
                arrays[name] = _strange_array(array.copy(), random)


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
        array = array.astype(random.choice(DTYPES), casting="unsafe")
        array = array.reshape(random.choice(((-1,), (-1, 1), (1, -1, 1))))
    return array


def _strange_list(data: bytes, random: Random) -> bytes:
    """The file whose list of arrays declares what is not there, or is no list."""
    end = 8 + int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:end])
    entry = entries[random.choice([name for name in entries if name != "__metadata__"])]
    kind = random.choice((*LISTED, "changed", "no list"))
    if kind == "data_offsets":  # moved, turned round, or of nothing
        start, stop = entry[kind]
        entry[kind] = random.choice(
            (*LISTED[kind], [stop, start], [start + 1, stop + 1], [-1, stop], [start])
        )
    elif kind in LISTED:
        (entries if kind == "__metadata__" else entry)[kind] = random.choice(LISTED[kind])
    text = json.dumps(hostile.changed(entries, random) if kind == "changed" else entries).encode()
    if kind == "no list":
        text = random.choice((*LISTS, text[:-1]))
    length = random.choice((len(text),) * 9 + (0, 2**22, 2**40, 2**64 - 1))
    return length.to_bytes(8, "little") + text + data[end:]


# ---- ledgers and journals

KEY = bytes(range(32))
COST = Cost(Composition.ZCDP, Fraction(1, 1000), Fraction(1, 10**12))
CELLS = (b"", KEY, b"\xff", '{"a": [1]}', "[{}]", "1/3", "7/0", "2", -1)
STATEMENTS = (
    *("CREATE TABLE x (a)", "DROP TABLE secret", "CREATE VIEW v AS SELECT 1", "PRAGMA user_version = 9"),
    *("DELETE FROM secret", "DELETE FROM datasets", "DELETE FROM releases"),
)


def run_ledger(path: Path) -> bool:
    """A ledger that is taken must give what is in it, and whether one more release fits."""
    file = allowed(LedgerFile, path)
    if file is None:
        return False
    for read in (books.books, books.export, manifest_check.check_books):
        json.dumps(allowed(read, path))
    for name in ("people", "others"):
        reservation = Reservation(name, COST, None, {}, None, "0", secrets.token_hex(16))
        number = allowed(file.reserve, reservation)
        if number is not None:
            allowed(lambda n=number: file.change(n, "finished", spent=COST, files=[{"output": "0"}]))
        allowed(file.find, name, "r1")
    return True


def _ledger_corpus(folder: Path) -> list[bytes]:
    path = folder / "corpus.ledger"
    path.unlink(missing_ok=True)
    file = LedgerFile.create(path)
    empty = path.read_bytes()
    file.add("people", Cap.of(5.0, 1e-6), Neighbours.ADD_REMOVE, 1)
    file.add("others", Cap.of(None, 1e-9, 0.5), Neighbours.REPLACE, 3)
    for i, state in enumerate(("spent", "finished", "failed")):
        reservation = Reservation(
            "people", COST, f"r{i}", {"epsilon": 1.0}, KEY, "0.1", secrets.token_hex(16)
        )
        file.change(file.reserve(reservation), state, spent=COST, files=[{"output": "00"}])
    return [empty, path.read_bytes()]


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
    if random.random() < 0.1:
        db.execute(random.choice(STATEMENTS))
        return
    table = random.choice(("secret", "datasets", "releases", "releases"))
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    if columns:  # else the change before dropped the table
        kinds = (random.choice(hostile.NUMBERS), random.choice(hostile.TEXTS))
        value = random.choice((*kinds, *CELLS))
        value = value.encode() if isinstance(value, str) and random.random() < 0.1 else value
        db.execute(f"UPDATE {table} SET {random.choice(columns)} = ?", (value,))


def run_journal(path: Path) -> bool:
    """Whatever a journal has gone through, its whole records come back or it is given up; then it can be
    written on.
    """
    place = path.parent / "x.journals" / "r.journal"
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(path.read_bytes())
    opened = allowed(JournalFile, place, KEY)
    if opened is None:
        return False
    with contextlib.closing(opened) as journal:
        taken = journal.header is not None
        while journal.waiting:
            facts, numbers = journal.replay() or ({}, np.zeros(0))
            assert isinstance(facts, dict) and numbers.dtype == np.int64
        journal.append({"x": 1}, np.arange(3))
        return taken


def _journal_corpus(folder: Path) -> list[bytes]:
    place, corpus = folder / "made.journals" / "r.journal", []
    for draws in (0, 1, 4):
        place.unlink(missing_ok=True)
        with contextlib.suppress(Busy), contextlib.closing(JournalFile(place, KEY)) as journal:
            journal.begin({"machine": [1.0, 2.0], "seed": 3})
            for i in range(draws):
                journal.append({"method": "add", "scale": 0.5 + i}, np.arange(20 * i))
        corpus.append(place.read_bytes())
    return corpus


def _make_journal(random: Random, corpus: Sequence[bytes]) -> bytes:
    """Bytes damaged; or records with a right code and strange content, out of order or twice."""
    data = random.choice(corpus)
    if random.random() < 0.5:
        return hostile.damaged(data, random, corpus)
    records = b""
    for number in range(random.randrange(4)):
        numbers, strange = random.randbytes(random.choice((0, 8, 12))), hostile.value(random)
        body = random.choice((b"", b"{}", b"[]\n", b"{}\n" + numbers, hostile.as_json(strange, random)))
        place = random.choice((number, number, 0, 2**63))
        head = b"fmwj" + place.to_bytes(8, "little") + len(body).to_bytes(8, "little")
        records += head + body + code_of(KEY, head, body)
    return random.choice((b"", data)) + records


TARGETS = {
    "model": Target(".fmwem", model_corpus, _make_model, run_model),
    "ledger": Target(".ledger", _ledger_corpus, _make_ledger, run_ledger),
    "journal": Target(".journal", _journal_corpus, _make_journal, run_journal),
}
