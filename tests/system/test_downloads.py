"""The shipped tables are the published ones, and the replay's `fetch` keeps nothing that it has not checked.
No network: a server on 127.0.0.1.
"""

from __future__ import annotations

import csv
import errno
import gzip
import hashlib
import json
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from replay import fetch
from replay.data import expand_counts
from replay.fetch import SOURCES, local

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import Busy, FmwemError, InputError

SHIPPED = Path(__file__).parents[2] / "datasets"

# Counts in the order of publication: first attribute fastest (mildew, czech) or last attribute fastest
# (rochdale).
MILDEW = (
    "0 0 0 0 3 0 1 0 0 1 0 0 0 1 0 0 1 0 1 0 7 1 4 0 0 0 0 2 1 3 0 11 16 1 4 0 1 0 0 0 1 4 1 4 0 0 0 1"
    + 16 * " 0"
)
CZECH = (
    "44 40 112 67 129 145 12 23 35 12 80 33 109 67 7 9 23 32 70 66 50 80 7 13 24 25 73 57 51 63 7 16 "
    "5 7 21 9 9 17 1 4 4 3 11 8 14 17 5 2 7 3 14 14 9 16 2 3 4 0 13 11 5 14 4 4"
)
ROCHDALE = """
5 0 2 1 5 1 0 0 4 1 0 0 6 0 2 0     8 0 11 0 13 0 1 0 3 0 1 0 26 0 1 0    5 0 2 0 0 0 0 0 0 0 0 0 0
0 1 0    4 0 8 2 6 0 1 0 1 0 1 0 0 0 1 0
17 10 1 1 16 7 0 0 0 2 0 0 10 6 0 0 1 0 2 0 0 0 0 0 1 0 0 0 0 0 0 0        4 7 3 1 1 1 2 0 1 0 0 0 1
0 0 0    0 0 3 0 0 0 0 0 0 0 0 0 0 0 0 0
18 3 2 0 23 4 0 0 22 2 0 0 57 3 0 0 5 1 0 0 11 0 1 0 11 0 0 0 29 2 1 1     3 0 0 0 4 0 0 0 1 0 0 0 0
0 0 0    1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0
41 25 0 1 37 26 0 0 15 10 0 0 43 22 0 0   0 0 0 0 2 0 0 0 0 0 0 0 3 0 0 0  2 4 0 0 2 1 0 0 0 1 0 0 2
1 0 0    0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
"""
TABLES = {"mildew": (6, 70, 22), "czech": (6, 1841, 63), "rochdale": (8, 665, 91)}

ADULT_DATA = (
    b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    b"2174, 0, 40, Cuba, <=50K\n\n"
)
ADULT_TEST = (
    b"|1x3 Cross validator\n"
    b"25, ?, 226802, 11th, 7, Never-married, ?, Own-child, Black, Male, 0, 0, 40, ?, >50K.\n\n"
)
ADULT_ROWS = [
    "39,State-gov,77516,Bachelors,13,Never-married,Adm-clerical,Not-in-family,White,Male,2174,0,40,Cuba,<=50K",
    "25,?,226802,11th,7,Never-married,?,Own-child,Black,Male,0,0,40,?,>50K",
]
TRANSFUSION = (
    b'Recency (months),Frequency (times),Monetary (c.c. blood),Time (months),"whether"\r\n'
    b"2 ,50,12500,98 ,1\r\n0 ,13,3250,28 ,0"
)


def read(name: str) -> tuple[list[str], list[list[str]]]:
    header, *rows = csv.reader((SHIPPED / f"{name}.csv").read_text(encoding="utf-8").splitlines())
    return header, rows


# ---- the tables in the repository


@pytest.mark.parametrize("name", TABLES)
def test_counts_sum_to_the_published_records(name: str) -> None:
    attributes, records, non_zero = TABLES[name]
    header, rows = read(name)
    counts = [int(row[-1]) for row in rows]
    assert header[-1] == "count" and len(header) == attributes + 1
    assert len({tuple(row[:-1]) for row in rows}) == len(rows) == 2**attributes
    assert (sum(counts), sum(c > 0 for c in counts)) == (records, non_zero)


@pytest.mark.parametrize(("name", "published"), [("mildew", MILDEW), ("czech", CZECH)])
def test_counts_are_the_published_vector(name: str, published: str) -> None:
    _, rows = read(name)
    assert [int(row[-1]) for row in rows] == [int(c) for c in published.split()]
    columns = list(zip(*(row[:-1] for row in rows), strict=True))
    for i, column in enumerate(columns):
        # First attribute fastest: column i changes every 2**i rows.
        assert [value != column[0] for value in column] == [bool(row >> i & 1) for row in range(len(rows))]


def test_rochdale_is_the_published_vector_under_other_labels() -> None:
    """The source of the vector has the same attributes in the same order; it writes 1 for yes, the older wife
    and the husband out of work.
    """
    _, rows = read("rochdale")
    one = ("yes", ">38", "no", "yes", "yes", "yes", "yes", "yes")
    ones = {
        "".join(str(int(value == o)) for value, o in zip(row[:-1], one, strict=True)): int(row[-1])
        for row in rows
    }
    assert [ones[f"{i:08b}"] for i in range(256)] == [int(c) for c in ROCHDALE.split()]


@pytest.mark.parametrize("name", TABLES)
def test_domain_lists_exactly_the_values_of_the_table(name: str) -> None:
    domain, (header, rows) = Domain.load(SHIPPED / f"{name}.domain.json"), read(name)
    assert list(domain.names) == header[:-1]
    for i, attribute in enumerate(domain):
        assert [str(value) for value in attribute.values] == list(dict.fromkeys(row[i] for row in rows))
        assert not attribute.nullable and attribute.type == ("integer" if name == "mildew" else "string")


def test_adult_domain_declares_the_documented_columns() -> None:
    domain = Domain.load(SHIPPED / "adult.domain.json")
    assert list(domain.names) == SOURCES["adult"]["columns"]
    assert domain.shape == (15, 9, 16, 16, 16, 7, 15, 6, 5, 2, 8, 7, 13, 42, 2)
    assert {a.name for a in domain if a.nullable} == {"workclass", "occupation", "native-country"}
    assert all(a.missing_values == ("", "?") for a in domain)
    assert domain["age"].cuts[[0, -1]].tolist() == [17, 91]  # 90 is inside
    for name, own in {"capital-gain": 0, "capital-loss": 0, "hours-per-week": 40}.items():
        cuts = domain[name].cuts.tolist()
        assert cuts[cuts.index(own) + 1] == own + 1  # a bin of its own


# ---- counts to records


@pytest.mark.parametrize("name", TABLES)
def test_expand_counts_gives_each_row_as_often_as_its_count(name: str) -> None:
    import pyarrow as pa

    header, rows = read(name)
    table = expand_counts(SHIPPED / f"{name}.csv")
    assert table.column_names == header[:-1]
    assert set(table.schema.types) == {pa.int64() if name == "mildew" else pa.string()}
    records = Counter(tuple(str(v) for v in record.values()) for record in table.to_pylist())
    assert records == {tuple(row[:-1]): int(row[-1]) for row in rows if row[-1] != "0"}


# ---- downloads


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[str]:
    """The address of a server that has these files and answers 404 to all else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = files.get(self.path.removeprefix("/"))
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _no_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the machine's own copies nor a proxy take part."""
    monkeypatch.delenv("FMWEM_DATASETS", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def expect(monkeypatch: pytest.MonkeyPatch, name: str, files: dict[str, bytes]) -> None:
    """Let the made-up files be the published ones."""
    hashes = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    monkeypatch.setitem(SOURCES, name, SOURCES[name] | {"files": hashes})


ADULT = {"adult.data": ADULT_DATA, "adult.test": ADULT_TEST}


def test_fetch_writes_one_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expect(monkeypatch, "adult", ADULT)
    with serving(ADULT) as url:
        path = fetch.fetch("adult", tmp_path, base_url=url)
    assert path == tmp_path / "adult.csv" and list(tmp_path.iterdir()) == [path]
    assert path.read_bytes().decode() == "\n".join([",".join(SOURCES["adult"]["columns"]), *ADULT_ROWS, ""])


def test_fetch_drops_the_padding_and_header_of_transfusion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(monkeypatch, "transfusion", {"transfusion.data": TRANSFUSION})
    with serving({"sub/transfusion.data": TRANSFUSION}) as url:
        path = fetch.fetch("transfusion", tmp_path, base_url=url + "/sub/")
    assert path.read_text() == "Recency,Frequency,Monetary,Time,donated\n2,50,12500,98,1\n0,13,3250,28,0\n"


def refused(
    folder: Path, error: type[FmwemError], message: str, *, base_url: str, name: str = "adult"
) -> None:
    """`fetch` raises one line of this text and leaves the folder as it was."""
    before = sorted(folder.iterdir()) if folder.is_dir() else None
    with pytest.raises(error, match=message) as caught:
        fetch.fetch(name, folder, base_url=base_url)
    assert type(caught.value) is error and "\n" not in str(caught.value)
    assert (sorted(folder.iterdir()) if folder.is_dir() else None) == before


def test_fetch_refuses_a_file_with_another_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expect(monkeypatch, "adult", ADULT)
    # The first file is right: it must not be kept on its own.
    with serving({**ADULT, "adult.test": ADULT_TEST.replace(b"25", b"26")}) as url:
        refused(tmp_path, InputError, "adult.test is not the published file", base_url=url)


def test_fetch_reports_what_the_network_does(tmp_path: Path) -> None:
    with serving({}) as url:
        refused(tmp_path, InputError, "404 Client Error", base_url=url)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refused(tmp_path, InputError, "refused", base_url=f"http://127.0.0.1:{unused.getsockname()[1]}")


def test_fetch_gives_up_on_a_server_that_stalls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "STALL_SECONDS", 0.05)
    start = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        refused(tmp_path, InputError, "timed out", base_url=f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert time.monotonic() - start < 20  # without the limit above it would be 30


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [(errno.ENOSPC, Busy, "no space left to write"), (errno.EIO, InputError, "cannot write")],
)
def test_fetch_leaves_nothing_when_the_disk_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, error: type[FmwemError], message: str
) -> None:
    def fail(_: int) -> None:
        raise OSError(code, os.strerror(code))

    expect(monkeypatch, "adult", ADULT)
    monkeypatch.setattr(os, "fsync", fail)
    with serving(ADULT) as url:
        refused(tmp_path, error, message, base_url=url)


def test_fetch_refuses_before_it_downloads(tmp_path: Path) -> None:
    """Nothing listens at the address, so a download would say so."""
    nobody = "http://127.0.0.1:9"
    refused(
        tmp_path,
        InputError,
        "no data set 'iris' to fetch; there are adult, nltcs, transfusion",
        base_url=nobody,
        name="iris",
    )
    refused(tmp_path / "none", InputError, "no folder .*none; create it first", base_url=nobody)
    (tmp_path / "adult.csv").write_text("mine")
    refused(tmp_path, InputError, "exists and is not overwritten", base_url=nobody)
    refused(tmp_path / "adult.csv", InputError, "cannot write in", base_url=nobody)
    assert (tmp_path / "adult.csv").read_text() == "mine"


def test_fetch_does_not_overwrite_what_appears_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interfere(*given: object, **more: object) -> Iterator[list[str]]:
        (tmp_path / "adult.csv").write_text("theirs")
        return iter([])

    expect(monkeypatch, "adult", ADULT)
    with serving(ADULT) as url, pytest.raises(InputError, match="exists"):
        monkeypatch.setattr(fetch, "rows", interfere)
        fetch.fetch("adult", tmp_path, base_url=url)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["theirs"]


# ---- copies that are already here


@pytest.mark.parametrize("place", ["adult/adult.csv", "adult/adult.csv.gz", "adult.csv", "adult.csv.gz"])
def test_fetch_returns_the_local_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("FMWEM_DATASETS", str(tmp_path))
    assert local("adult") is None
    copy = tmp_path / place
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(b"x")
    assert local("adult") == copy == fetch.fetch("adult", tmp_path / "none", base_url="http://127.0.0.1:9")


def test_fetch_downloads_what_the_local_folder_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FMWEM_DATASETS", str(tmp_path / "empty"))
    expect(monkeypatch, "adult", ADULT)
    with serving(ADULT) as url:
        assert fetch.fetch("adult", tmp_path, base_url=url) == tmp_path / "adult.csv"


def test_local_takes_names_not_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.csv").write_text("x")
    monkeypatch.setenv("FMWEM_DATASETS", str(tmp_path / "inside"))
    assert [local(name) for name in ("../secret", str(tmp_path / "secret"), "..", "")] == [None] * 4


# Read before the fixture hides it. These two bring the published bytes back from the copies and so check the
# pinned hashes.
COPIES = {name: local(name) for name in SOURCES}


def published(name: str) -> dict[str, bytes]:
    """The files as UCI has them, rebuilt from the local CSV."""
    path = COPIES[name]
    if path is None:
        pytest.skip(f"FMWEM_DATASETS has no {name}")
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else open(path, newline="") as lines:
        _, *rows = csv.reader(lines)
    if name == "adult":
        data = "".join(", ".join(row) + "\n" for row in rows[:32561]) + "\n"
        test = "|1x3 Cross validator\n" + "".join(", ".join(row) + ".\n" for row in rows[32561:]) + "\n"
        return {"adult.data": data.encode(), "adult.test": test.encode()}
    header = (
        "Recency (months),Frequency (times),Monetary (c.c. blood),Time (months),"
        '"whether he/she donated blood in March 2007"'
    )
    return {
        "transfusion.data": "\r\n".join(
            [header, *(f"{r} ,{f},{m},{t} ,{d}" for r, f, m, t, d in rows)]
        ).encode()
    }


@pytest.mark.parametrize(("name", "rows"), [("adult", 48842), ("transfusion", 748)])
def test_pinned_hashes_are_those_of_the_published_files(tmp_path: Path, name: str, rows: int) -> None:
    with serving(published(name)) as url:
        path = fetch.fetch(name, tmp_path, base_url=url)
    copy = COPIES[name]
    assert copy is not None
    original = gzip.decompress(copy.read_bytes()) if copy.suffix == ".gz" else copy.read_bytes()
    assert path.read_bytes() == original
    assert original.count(b"\n") == rows + 1


def test_the_command_prints_the_path_or_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FMWEM_DATASETS", str(tmp_path))
    (tmp_path / "adult.csv").write_text("x")
    monkeypatch.setattr(sys, "argv", ["replay fetch", "adult"])
    fetch.main()
    assert json.loads(capsys.readouterr().out) == {"file": str(tmp_path / "adult.csv")}
    monkeypatch.setattr(sys, "argv", ["replay fetch", "iris"])
    with pytest.raises(SystemExit, match=r"^error: no data set 'iris'"):
        fetch.main()


def test_without_pooch_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    refused(tmp_path, InputError, r"factored-mwem\[scripts\]", base_url="http://127.0.0.1:9")
