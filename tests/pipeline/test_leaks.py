"""A private value shows nowhere, and the search for one would find it: every check here is also shown a
planted leak, which it must see.

tests/slow/test_discover.py asks the same of a whole run; here are the ways by which a value could get out
of one: each format at each verbosity, errors of our own steps and of the libraries that read a frame, the
errors behind an error, diagnostics of the interpreter, and objects that print themselves.
"""

from __future__ import annotations

import contextlib
import copy
import csv
import dataclasses
import gzip
import io
import itertools
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from support.marks import others_slow

from factored_mwem import Domain, Workload, release
from factored_mwem.cli import main as cli
from factored_mwem.documents.guide import page
from factored_mwem.errors import FmwemError, InputError
from factored_mwem.mechanisms import course
from factored_mwem.mechanisms import tree as engine
from factored_mwem.privacy.counts import CandidateTables, PrivateCounts, PrivateRows
from factored_mwem.privacy.rows import Rows
from factored_mwem.tables.backends import codes as coding
from factored_mwem.tables.codes import codec
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.inputs import arrow_input, delimited
from factored_mwem.tables.inputs.source import Table, open_table
from factored_mwem.tables.outputs import formats

FORMATS = ("private.csv", "private.csv.gz", "private.tsv", "private.parquet", "private.feather")
"""Names of the table, one a format; all other files are looked into."""
INSIDE = 314159265358979
"""In the domain, in one row; a synthetic number is the same once in 10^14 times."""
CANARIES = ("CANARY", "718281828459045", "1699-03-09", "765432187654321", str(INSIDE)[1:])
"""Numbers below 2^53, so that floats hold them, without their first digit, after which a float's text may
have its point; and a day before all learnt bounds. Of so many digits that no synthetic score, of which every
row has 16 at random, holds them by chance: eight digits did, now and then.
"""
BOUNDED = {
    "pay": ("integer", 0, 800_000_000_000_000),
    "score": ("number", 0, 10),
    "born": ("date", "1950-01-01", "2009-12-31"),
    "seen": ("datetime", "2020-01-01", "2020-12-31"),
    "count": ("integer", 0, 99),
}
DOMAIN: dict[str, list[dict[str, Any]]] = {
    "fields": [
        {"name": "town", "categories": ["north", "south", "west"]},
        *(
            {"name": name, "type": kind, "bins": 6, "constraints": {"minimum": low, "maximum": high}}
            for name, (kind, low, high) in BOUNDED.items()
        ),
    ]
}
NAMES = [str(field["name"]) for field in DOMAIN["fields"]]
PLANTED = ["CANARY-4711", str(INSIDE), "2718281828459045.5"]
PLANTED += ["1699-03-09", "1699-03-09T11:22:33", "8765432187654321"]
TOWNS, MOMENT = ("north", "south"), "2020-06-15T12:00:00"
ROWS = [
    [TOWNS[i % 2], str(i * 10**12), f"{i % 10}.5", f"19{50 + i % 50}-06-15", MOMENT, str(i % 99)]
    for i in range(400)
]


def write_table(path: Path, *, broken: bool = False, planted: int = 1) -> None:
    """The table in the suffix's format, the planted row in its middle; `broken`: a quote too many there."""
    rows = [*ROWS[:200], *[PLANTED] * planted, *ROWS[200:]]
    if path.suffix in (".parquet", ".feather"):
        kinds = [pa.string(), pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.int64()]
        texts = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        table = pa.table(texts, NAMES).cast(pa.schema(zip(NAMES, kinds, strict=True)))
        (pq.write_table if path.suffix == ".parquet" else pf.write_feather)(table, path)
        return
    text = io.StringIO()
    csv.writer(text, delimiter="\t" if ".tsv" in path.name else ",").writerows([NAMES, *rows])
    said = text.getvalue().replace(PLANTED[0], '"' * broken + PLANTED[0]).encode()
    path.write_bytes(gzip.compress(said) if path.suffix == ".gz" else said)


def everything_in(path: Path) -> str:
    """All that a file says: its bytes, and what is packed in it."""
    said = path.read_bytes().decode("latin-1")
    with contextlib.suppress(safetensors.SafetensorError):
        for name, array in safetensors.numpy.load(path.read_bytes()).items():
            said += " ".join(map(str, array.tolist())) if "noisy" in name else ""
    if path.suffix in (".parquet", ".feather"):
        made = pq.read_table(path) if path.suffix == ".parquet" else pf.read_table(path)
        said += str(made.schema)
        said += " ".join(str(v) for column in made.columns for v in column.cast(pa.string()).to_pylist())
    return said


def leaks(said: dict[str, str]) -> list[str]:
    """Which canary is in which of these texts."""
    return [f"{canary} in {where}" for where, text in said.items() for canary in CANARIES if canary in text]


class Watch:
    """A folder to work in, one for temporary files beside it, and all that a command says and leaves."""

    def __init__(
        self,
        folder: Path,
        patch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
        log: pytest.LogCaptureFixture,
    ) -> None:
        self.folder, self.patch, self.capfd, self.log = folder / "here", patch, capfd, log
        self.temporary = folder / "temporary"
        self.folder.mkdir()
        self.temporary.mkdir()
        patch.chdir(self.folder)
        patch.setenv("TMPDIR", str(self.temporary))
        patch.setattr(tempfile, "tempdir", None)
        for name in [name for name in os.environ if name.startswith("FMWEM_")]:
            patch.delenv(name)
        (self.folder / "domain.json").write_text(json.dumps(DOMAIN))

    def said(self) -> dict[str, str]:
        out, err = self.capfd.readouterr()
        files = [p for folder in (self.folder, self.temporary) for p in folder.rglob("*") if p.is_file()]
        said = {str(p): everything_in(p) for p in files if p.name not in FORMATS}
        return {"stdout": out, "stderr": err, "log": self.log.text, **said}

    def run(self, *arguments: Any) -> tuple[Any, dict[str, str]]:
        """(exit code, all that was said) of a command, run in this process."""
        self.patch.setattr(sys, "argv", ["fmwem", *map(str, arguments)])
        handlers = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
        try:
            cli.main()
        except SystemExit as ended:
            return ended.code, self.said()
        finally:
            for s, handler in handlers.items():
                signal.signal(s, handler)
        raise AssertionError("a command ends with a code")


@pytest.fixture
def watch(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    parser: Any,
) -> Iterator[Watch]:
    monkeypatch.setattr(cli, "app", parser)
    with caplog.at_level(logging.DEBUG):
        yield Watch(tmp_path, monkeypatch, capfd, caplog)


SAYING = {"plain": [], "verbose": ["-v"], "quiet": ["-q"], "json": ["--json"]}
declared = ["--marginals", 2, "--domain", "domain.json"]


@pytest.mark.parametrize(
    ("name", "how"),
    others_slow(
        itertools.product(FORMATS, SAYING), lambda case: case[0] == "private.csv" or case[1] == "verbose"
    ),
)
def test_a_release_tells_no_value(watch: Watch, name: str, how: str) -> None:
    """Every format in, all that can be written out, at every verbosity."""
    write_table(watch.folder / name)
    out = {"verbose": "o.csv", "quiet": "o.feather"}.get(how, "o.parquet")
    code, said = watch.run("release", name, *declared, "--model", "o.fmwem", "-o", out, *SAYING[how])
    assert code == 0, said["stderr"]
    assert len([where for where in said if "/o." in where]) == 3
    assert not leaks(said)


@pytest.mark.parametrize("name", ["private.csv", "private.parquet"])
def test_a_learnt_domain_tells_no_value(watch: Watch, name: str) -> None:
    write_table(watch.folder / name)
    out = ["--model", "o.fmwem", "-o", "o.csv", "-v"]
    code, said = watch.run("release", name, "--marginals", 1, "--epsilon", 100, *out)
    assert code == 0 and "north" in said[str(watch.folder / "o.csv")], said["stderr"]
    assert not leaks(said)


def test_the_books_tell_no_value(watch: Watch) -> None:
    """The ledger, the journal of a run that died, and that run taken up again."""
    write_table(watch.folder / "private.csv")
    assert watch.run("ledger", "init", "b.ledger")[0] == 0
    assert watch.run("ledger", "add", "b.ledger", "--dataset", "d", "--epsilon", 5, "--delta", 1e-6)[0] == 0
    books = ["--ledger", "b.ledger", "--dataset", "d", "--run-id", "r"]
    again = ["release", "private.csv", *declared, *books, "-v"]
    with watch.patch.context() as patch:
        patch.setattr(formats, "_WRITERS", {".parquet": raising(MemoryError())})
        code, said = watch.run(*again)
    assert code == 4 and any("journal" in where for where in said), said["stderr"]
    assert not leaks(said)
    code, said = watch.run(*again)
    assert code == 0, said["stderr"]
    assert not leaks(said)


def raising(error: BaseException) -> Callable[..., Any]:
    def act(*_: Any, **__: Any) -> Any:
        raise error

    return act


def quoting(*arguments: Any, **_: Any) -> Any:
    """A step that fails with its private arguments in the text, as a library's assertion does."""
    raise RuntimeError(f"cannot handle {PLANTED}: {arguments!r}")


def full(path: Path, *_: Any) -> None:
    path.write_text("half of a file")
    raise OSError(28, "No space left on device")


FAILURES: dict[str, tuple[int, Any, str, Any]] = {
    "the disk is full": (4, formats, "_WRITERS", {".parquet": full}),
    "memory runs out at the coding": (4, coding, "encode", raising(MemoryError("CANARY"))),
    "memory runs out at the fit": (4, engine, "first_total", raising(MemoryError("CANARY"))),
    "the coder fails": (1, codec, "_binned_codes", quoting),
    "the engine fails": (1, engine, "find_levels", quoting),
    "the writer fails": (1, formats, "_WRITERS", {".parquet": quoting}),
    "somebody stops it": (130, engine, "first_total", raising(KeyboardInterrupt())),
}
"""Exit code, and what is put in the place of what."""


@pytest.mark.parametrize("how", others_slow(SAYING, lambda how: how in ("verbose", "json")))
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_tells_no_value(watch: Watch, failure: str, how: str) -> None:
    """Whatever breaks in the middle, and whatever its error says: one line of ours, and no file."""
    write_table(watch.folder / "private.csv")
    code, where, name, broken = FAILURES[failure]
    watch.patch.setattr(course, "one_shot_suits", lambda *_: False)
    with watch.patch.context() as patch:
        patch.setattr(where, name, broken)
        found, said = watch.run("release", "private.csv", *declared, *SAYING[how])
    err = said["stderr"]
    assert found == code, err
    assert set(said) == {"stdout", "stderr", "log", str(watch.folder / "domain.json")}
    lines = [line for line in err.splitlines() if not line.startswith("round ")]
    assert lines[-1].startswith("fmwem: ")
    assert not leaks(said)


@pytest.mark.parametrize("how", SAYING)
@pytest.mark.parametrize("name", ["private.csv", "private.csv.gz", "private.tsv"])
def test_a_broken_row_is_not_quoted(watch: Watch, name: str, how: str) -> None:
    write_table(watch.folder / name, broken=True)
    code, said = watch.run("release", name, *declared, *SAYING[how])
    assert code == 2 and "record 201: a quote is open where the line ends" in said["stderr"]
    assert not leaks(said)


# ---- what an exception in Python carries along


def _file(name: str, content: bytes) -> Path:
    Path(name).write_bytes(content)
    return Path(name)


def _typed(name: str) -> Path:
    """Text that is none, in a typed file."""
    column = pa.array([b"CANARY\xff"], pa.binary()).view(pa.string())
    write = pq.write_table if name.endswith(".parquet") else pf.write_feather
    write(pa.table({"a": column, "b": column}), name)
    return Path(name)


def _pandas(values: list[Any]) -> Any:
    column = pandas.Series(values, dtype=object)
    return pandas.DataFrame({"a": column, "b": column})


def _query() -> Any:
    """A query that is not run before the table is opened."""
    import polars

    frame = polars.LazyFrame({"a": ["CANARY"], "b": ["CANARY"]})
    return frame.with_columns(polars.col("a").cast(polars.Int64))


ODD: dict[str, Callable[[], Any]] = {
    "a row of another width": lambda: _file("private.csv", b"a,b\n1,2\nCANARY,2,3\n"),
    "another encoding": lambda: _file("private.csv", b"a,b\nCANARY\xe9,2\n"),
    "text that is none, in Parquet": lambda: _typed("private.parquet"),
    "text that is none, in Feather": lambda: _typed("private.feather"),
}
"""What is a record of nulls."""
UNREADABLE: dict[str, Callable[[], Any]] = {
    "a quote left open": lambda: _file("t.csv", b'a,b\n"CANARY,2\n3,4\n'),
    "a torn archive": lambda: _file("t.csv.gz", gzip.compress(b"a,b\nCANARY,2\n" * 99)[:-9]),
    "a frame of several types": lambda: _pandas(["CANARY", 1]),
    "a number too large": lambda: _pandas([8765432187654321 * 10**30]),
    "half a character": lambda: _pandas(["CANARY\ud800"]),
    "a query that fails": _query,
}


def told_by(error: BaseException) -> dict[str, str]:
    """What an exception says to whoever prints, logs or walks it: its own text, and all that it carries."""
    chain: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        if (one := waiting.pop()) is not None and one not in chain:
            chain.append(one)
            waiting += [one.__cause__, one.__context__]
    log = io.StringIO()
    logger = logging.Logger("one")
    logger.addHandler(logging.StreamHandler(log))
    logger.error("it failed", exc_info=error)
    texts = {
        f"{type(one).__name__} {i}": f"{one} {one!r} {one.args!r} {vars(one)!r}"
        for i, one in enumerate(chain)
    }
    return {"traceback": "".join(traceback.format_exception(error)), "log": log.getvalue(), **texts}


def refusal_of(source: Any) -> FmwemError:
    with pytest.raises(FmwemError) as refused:
        release(source, 1, domain={"fields": [{"name": n, "categories": ["x"]} for n in "ab"]})
    assert not refused.value.budget_spent
    return refused.value


@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_exception_quotes_no_row(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even by the library's error behind it, which `from None` hides and leaves for whoever looks."""
    monkeypatch.chdir(tmp_path)
    assert not leaks(told_by(refusal_of(UNREADABLE[kind]())))


@pytest.mark.parametrize("kind", ODD)
def test_a_record_that_cannot_be_read_is_not_quoted(watch: Watch, kind: str) -> None:
    """It is one of nulls, and no reason to say anything but that nothing else is there."""
    code, said = watch.run("release", ODD[kind](), "--marginals", 1, "-v", "--epsilon", "1e6")
    few = ("nearly every value of every column is too rare", "rows are too few")
    assert code == 0 or any(words in said["stderr"] for words in few), said["stderr"]
    assert not leaks(said)


def test_the_check_sees_an_exception_that_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the library's own words, and the library's error as a hidden context."""
    monkeypatch.chdir(tmp_path)
    source = UNREADABLE["a quote left open"]()

    def failing(*_: Any) -> Iterator[pa.RecordBatch]:
        raise pa.ArrowInvalid("row #2: CANARY-4711,2")
        yield

    monkeypatch.setattr(delimited, "read_delimited", failing)
    assert not leaks(told_by(refusal_of(source)))
    with monkeypatch.context() as patch:
        patch.setattr(arrow_input, "reason", lambda error, *_: str(error))
        assert leaks(told_by(refusal_of(source)))

    def carrying(path: Any, start: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        try:
            yield from start()
        except arrow_input.UNREADABLE:
            raise InputError("cannot read it") from None

    monkeypatch.setattr(delimited, "readable", carrying)
    found = told_by(refusal_of(source))
    assert leaks(found) and "CANARY" not in found["traceback"]


# ---- the search sees a leak

LEAKS: dict[str, Callable[[str], Any]] = {
    "stdout": print,
    "stderr": lambda text: os.write(2, text.encode()),
    "a log": lambda text: logging.getLogger("some.library").debug(text),
    "a temporary file": lambda text: Path(tempfile.mkstemp()[1]).write_text(text),
    "a hidden file beside": lambda text: Path(".o.parquet.tmp").write_text(text),
    "a warning": lambda text: warnings.warn(text, stacklevel=1),
}


@pytest.mark.parametrize("where", LEAKS)
def test_the_search_sees_a_leak(watch: Watch, where: str) -> None:
    """Planted: the coder tells what it reads."""
    real = codec._listed_codes

    def whispering(attribute: Any, column: Any) -> Any:
        LEAKS[where](str(column.to_pylist()))
        return real(attribute, column)

    write_table(watch.folder / "private.csv")
    watch.patch.setattr(codec, "_listed_codes", whispering)
    watch.patch.setattr(warnings, "showwarning", lambda message, *_: os.write(2, str(message).encode()))
    assert leaks(watch.run("release", "private.csv", *declared, "-q")[1])


def test_the_search_sees_a_value_that_comes_out(watch: Watch) -> None:
    """Planted: a domain that lists the category and gives the number a bin of its own puts both out."""
    fields = [{**field} for field in DOMAIN["fields"]]
    fields[0]["categories"] = ["north", "south", "CANARY-4711"]
    fields[1] = {"name": "pay", "type": "integer", "edges": [INSIDE, INSIDE + 1, INSIDE + 2]}
    (watch.folder / "domain.json").write_text(json.dumps({"fields": fields}))
    write_table(watch.folder / "private.csv", planted=100)  # so often that no noise hides it
    much = ["release", "private.csv", *declared, "-q", "--epsilon", 50, "--rounds", 2]
    for out in ("o.parquet", "o.csv", "o.feather"):
        code, said = watch.run(*much, "-o", out, "--model", f"{out}.fmwem")
        assert code == 0, said["stderr"]
        for where in (out, f"{out}.fmwem", "o.manifest.json"):
            found = leaks({where: said[str(watch.folder / where)]})
            assert {f"{canary} in {where}" for canary in (CANARIES[0], CANARIES[-1])} <= set(found)
        (watch.folder / "o.manifest.json").unlink()


def test_the_search_sees_a_message_that_quotes(watch: Watch) -> None:
    write_table(watch.folder / "private.csv", broken=True)

    def quoting_the_row(*_: Any) -> None:
        raise InputError(f"cannot read {PLANTED}")

    watch.patch.setattr(delimited, "_refuse", quoting_the_row)
    for how in SAYING.values():
        assert leaks(watch.run("release", "private.csv", *declared, *how)[1])


def test_chance_does_not_bring_the_planted_number_back() -> None:
    """It lies in the domain, in a bin of 10^14 numbers."""
    attribute = Domain.from_dict(DOMAIN)["pay"]
    assert attribute.cuts[0] <= INSIDE < attribute.cuts[-1] and min(np.diff(attribute.cuts)) > 9 * 10**13


# ---- with the interpreter's own diagnostics on

CHATTY = """
import logging, warnings, faulthandler
logging.basicConfig(level=logging.DEBUG)
logging.captureWarnings(True)
faulthandler.enable()
warnings.simplefilter("always")
from factored_mwem.cli.main import main
main()
"""


@pytest.mark.system
@pytest.mark.parametrize("broken", [False, True])
def test_diagnostics_of_the_interpreter_tell_no_value(watch: Watch, broken: bool) -> None:
    """Development mode, every logger at its loudest: resource warnings, the libraries' own debugging."""
    write_table(watch.folder / "private.csv", broken=broken)
    command = [sys.executable, "-X", "dev", "-c", CHATTY, "release", "private.csv", *map(str, declared), "-v"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if broken else 0), done.stderr
    assert not leaks({"stdout": done.stdout, "stderr": done.stderr, **watch.said()})


# ---- objects


def private_objects() -> list[Any]:
    """One of each class that holds private rows or counts."""
    domain = Domain.from_dict({"a": 2, "b": 3})
    codes = [np.array([0, 1, 1], dtype=np.uint8), np.array([2, 0, 1], dtype=np.uint8)]
    rows = PrivateRows.coded(codes, domain)
    counts = rows.count(Workload.marginals(2).candidates(domain))
    noted = open_table(pa.table({"a": ["CANARY"]}, metadata={"note": "CANARY"}))
    profile = ColumnProfile()
    profile.add(pa.array(["CANARY", str(INSIDE)]))
    return [rows, counts, rows.reveal(), counts.reveal(), noted, profile]


def shows_nothing(thing: Any) -> bool:
    """Whether its text is its class's name alone, and no pickle or copy of it can be made."""
    acts: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy]
    acts += [lambda t, p=p: pickle.dumps([t], protocol=p) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    for act in acts:
        try:
            act(thing)
        except TypeError as error:
            if "private" not in str(error):
                return False
        else:
            return False
    return {repr(thing), str(thing), f"{thing}"} == {f"<{type(thing).__name__}: private>"}


def test_what_holds_private_rows_shows_nothing() -> None:
    found = private_objects()
    kinds = {PrivateRows, PrivateCounts, Rows, CandidateTables, Table, ColumnProfile}
    assert {type(thing) for thing in found} == kinds
    for thing in found:
        assert shows_nothing(thing), type(thing)


def test_the_check_sees_an_object_that_shows_its_rows() -> None:
    @dataclasses.dataclass
    class Plain:
        rows: list[str]

    assert not shows_nothing(Plain(["CANARY"]))
    assert not shows_nothing(type("Picklable", (), {"__repr__": lambda self: "<Picklable: private>"})())
    assert not shows_nothing(object())


# ---- text that a spreadsheet would take for a formula

FORMULAS = ["=1+1", "+1", "-1+1", "@SUM(A1)", "=cmd|' /C calc'!A0", "\t=1", "plain"]


def test_formulas_come_back_as_they_were(tmp_path: Path) -> None:
    """Text is data: a quote before it would be another value. The search is shown that very quote."""
    harmless = ["'" + text if text[0] in "=+-@" else text for text in FORMULAS]
    for texts in (FORMULAS, harmless):
        domain = {"fields": [{"name": "c", "categories": texts, "constraints": {"required": True}}]}
        made = release(pa.table({"c": texts * 100}), 1, domain=domain, epsilon=9.0)
        made.write(tmp_path / "o.parquet", overwrite=True)
        back = set(pq.read_table(tmp_path / "o.parquet")["c"].to_pylist())
        assert (back == set(FORMULAS)) == (texts is FORMULAS)
    assert "may read `=1+1` as a formula" in page("python")
