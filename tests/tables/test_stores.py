"""Outputs in a store: whole or not at all, never over what is there, refused before anything is spent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.commands import JOB, Fmwem

from factored_mwem import Release, release
from factored_mwem.errors import Busy, InputError
from factored_mwem.files import crashpoints as faults
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline import writing
from factored_mwem.tables.inputs import source, uris
from factored_mwem.tables.inputs.databases import shown_uri
from factored_mwem.tables.outputs.formats import output_of
from factored_mwem.tables.outputs.targets import target_of

fsspec = pytest.importorskip("fsspec", reason="the extra `remote` brings fsspec, whose memory is the store")
NAMES = ["/out/part-00000.parquet", "/out/part-00001.parquet", "/out/part-00002.parquet"]


@pytest.fixture(scope="module")
def model() -> Release:
    domain = {"fields": [{"name": "s", "categories": ["a", "b"]}]}
    return release(pa.table({"s": ["a", "b", None] * 40}), 1, domain=domain, rows=50, sample_seed=1)


@pytest.fixture
def made(model: Release, monkeypatch: pytest.MonkeyPatch) -> Release:
    """Three parts of twenty rows, of twenty and of ten."""
    monkeypatch.setattr("factored_mwem.pipeline.sampling.MAX_BATCH_ROWS", 20)
    monkeypatch.setattr(writing, "PART_ROWS", 20)
    return model


@pytest.fixture
def store() -> Iterator[Any]:
    """What is in memory, by its path."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    yield memory
    memory.store.clear()


def paths(store: Any) -> list[str]:
    return sorted(store.store)


def test_a_file_its_manifest_and_its_model(made: Release, store: Any) -> None:
    written = made.write("memory://t.parquet").output
    made.save("memory://t.fmwem")
    assert paths(store) == ["/t.fmwem", "/t.manifest.json", "/t.parquet"]
    assert json.loads(store.cat("/t.manifest.json"))["output"] == written.model_dump(mode="json")
    assert hashlib.sha256(store.cat("/t.parquet")).hexdigest() == written.sha256
    assert pq.read_table(pa.BufferReader(store.cat("/t.parquet"))).to_pylist() == made.to_arrow().to_pylist()


def test_parts_are_those_of_a_folder_on_this_disk(made: Release, store: Any, tmp_path: Path) -> None:
    there = made.write("memory://out/", workers=2)
    here = made.write(f"{tmp_path}/out/")
    assert there == here and paths(store) == ["/out.manifest.json", *NAMES]
    assert all(store.cat(path) == (tmp_path / path[1:]).read_bytes() for path in NAMES)
    again = output_of("memory://out/")
    assert again.sha256() == there.output.sha256 and again.name == "out/"


def test_what_is_there_stays_unless_told(made: Release, store: Any) -> None:
    made.write("memory://out/")
    made.write("memory://t.csv")
    before = {path: store.cat(path) for path in paths(store)}
    for where in ("memory://out/", "memory://t.csv", "memory://out.parquet"):
        with pytest.raises(InputError, match="use --overwrite or another -o"):
            made.write(where)
    assert {path: store.cat(path) for path in paths(store)} == before
    other = replace(made, rows=15, seed=8)
    other.write("memory://out/", overwrite=True)
    assert paths(store) == ["/out.manifest.json", NAMES[0], "/t.csv", "/t.manifest.json"]


def test_verifying_sends_what_is_missing_and_refuses_what_differs(made: Release, store: Any) -> None:
    made.write("memory://out/")
    kept, whole = store.modified(NAMES[0]), store.cat(NAMES[1])
    store.rm(NAMES[1])
    made.write("memory://out/", overwrite=IfExists.VERIFY)
    assert store.cat(NAMES[1]) == whole and store.modified(NAMES[0]) == kept
    store.pipe(NAMES[1], b"other")
    with pytest.raises(InputError, match="is not what this run would write"):
        made.write("memory://out/", overwrite=IfExists.VERIFY)


@pytest.mark.parametrize("where", ["memory://t.parquet", "memory://out/"])
@pytest.mark.parametrize("breaks", [True, False])
def test_half_a_file_is_never_under_its_name(
    made: Release, store: Any, monkeypatch: pytest.MonkeyPatch, where: str, breaks: bool
) -> None:
    """The connection breaks at the second file that is sent, after half of it; or a file arrives short."""
    sent, send = [], pa.fs.copy_files

    def broken(source: str, path: str, **how: Any) -> None:
        sent.append(path)
        if len(sent) < 2:
            send(source, path, **how)
            return
        with how["destination_filesystem"].open_output_stream(path) as stream:
            stream.write(Path(source).read_bytes()[:-1])
        if breaks:
            raise OSError("a key and a password")

    monkeypatch.setattr(pa.fs, "copy_files", broken)
    with pytest.raises(Busy, match=r"cannot write memory://") as caught:
        made.write(where, workers=1)
    if breaks:
        assert "does not answer" in str(caught.value) and "password" not in str(caught.value)
        assert caught.value.retryable
    assert all(path.rpartition("/")[2].startswith(".") for path in sent)  # as long as they are half
    assert paths(store) == []


@pytest.mark.parametrize("where", ["memory://out/part-00000.parquet", "memory://out/"])
def test_a_file_that_came_in_between_stays(
    made: Release, store: Any, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Another job wrote it while this one drew: that is refused, were it the same file, and it stays."""
    made.write(where)
    same = store.cat(NAMES[0])
    store.rm("/", recursive=True)
    monkeypatch.setattr(faults, "hook", lambda point: point == "sampling" and store.pipe(NAMES[0], same))
    with pytest.raises(InputError, match=r"part-00000.parquet exists; use --overwrite or another -o"):
        made.write(where)
    assert paths(store) == NAMES[:1] and store.cat(NAMES[0]) == same


def test_the_first_failure_is_told_of_two(made: Release, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that goes away while the manifest is sent: what is left there lacks its manifest."""

    def gone(*_: Any, **__: Any) -> None:
        raise OSError("gone")

    def strike(point: str) -> None:
        if point == "before manifest":
            monkeypatch.setattr(type(store), "_open", gone)
            monkeypatch.setattr(type(store), "rm_file", gone)

    monkeypatch.setattr(faults, "hook", strike)
    with pytest.raises(Busy, match=r"cannot write memory://out.manifest.json"):
        made.write("memory://out/")
    assert paths(store) == NAMES


def test_a_digest_is_fetched_again_once_the_file_changed(made: Release, store: Any) -> None:
    target = target_of("memory://t.json")
    with target.replacing() as temporary:
        temporary.write_text("one")
    assert target.sha256() == hashlib.sha256(b"one").hexdigest()
    store.pipe("/t.json", b"three")
    assert target.sha256() == hashlib.sha256(b"three").hexdigest()


def test_a_file_uri_is_a_file_on_this_disk(made: Release, tmp_path: Path) -> None:
    made.write(f"file://{tmp_path}/t.parquet")
    made.write(f"file://{tmp_path}/out/")
    names = ["out", "out.manifest.json", "t.manifest.json", "t.parquet"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_no_output_lies_among_the_files_of_the_table(here: Path, fmwem: Fmwem, store: Any) -> None:
    """The next release of the folder would take it for rows."""
    store.pipe("/people/t.csv", Path("t.csv").read_bytes())
    job = ["--domain", "t.domain.json", "--marginals", 1, "--json", "-o"]
    for table in ("memory://people", "memory://people/", "memory://people/*.csv"):
        for where in ("memory://people/o.parquet", "memory://people/more/"):
            done = fmwem("release", table, *job, where)
            assert done.code == 2 and "lies in the folder that is the table" in done.facts["error"]
    assert paths(store) == ["/people/t.csv"]


def test_nothing_is_spent_where_nothing_can_be_written(
    command_books: Path, fmwem: Fmwem, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that lists its files but takes none; a scheme nobody knows; a file where a folder should be."""
    job = [*JOB, "--rows", 20, "--run-id", "one", "--json"]

    def refused(where: str, words: str) -> None:
        done = fmwem(*job, "-o", where)
        assert (done.code, done.facts["budget_spent"]) == (2, False)
        assert words in done.facts["error"] and "AKIA" not in done.out + done.err

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("AKIA1234")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "_open", refuse)
        for where in ("memory://t.parquet", "memory://out/"):
            refused(where, "access is denied; see that its credentials")
    refused("nosuch://bucket/t.parquet", "no package knows nosuch://")
    refused("memory://t.xlsx", "unknown output format")
    store.pipe("/out", b"a file")
    refused("memory://out/", "memory://out/ is a file; name a folder")
    store.rm("/out")
    job += ["-o", "memory://out/", "--model", "memory://m.fmwem"]
    first = fmwem(*job)
    assert first.facts["output"] == "memory://out/" and not first.facts["reused"]
    assert fmwem(*job).facts["reused"]
    store.rm(NAMES[0])
    again = fmwem(*job)
    assert again.code == 0 and not again.facts["reused"] and again.facts["resumed"]
    assert paths(store) == ["/m.fmwem", "/out.manifest.json", NAMES[0]]


@pytest.mark.parametrize(
    ("uri", "public"),
    [
        ("s3://bucket/a//b/t.parquet", "s3://bucket/a//b/t.parquet"),
        ("s3://AKIA:secret@bucket/out/?endpoint_override=host", "s3://bucket/out/"),
        ("abfs://box:secret@account.host/t.csv?sas_token=secret", "abfs://box@account.host/t.csv"),
        ("abfss://:secret@account.host/t.csv", "abfss://account.host/t.csv"),
        ("s3://AKIA:sec/ret@bucket/t.csv", "s3://bucket/t.csv"),
        ("s3://AKIA:sec@ret@bucket/t.csv", "s3://bucket/t.csv"),
        ("s3://bucket/a@b.csv", "s3://bucket/a@b.csv"),
        ("s3://AKIA@bucket/a@b.csv", "s3://bucket/a@b.csv"),
        ("https://me:sec?ret@host/t.csv", "https://..."),
        ("https://host/t.csv?sig=a@secret", "https://host/t.csv"),
    ],
)
def test_secrets_in_a_uri_are_not_shown(uri: str, public: str) -> None:
    assert uris.shown(uri) == public


@pytest.mark.parametrize("password", ["secret", "sec/ret", "sec?ret", "sec#ret", "sec[ret", "sec@ret"])
def test_secrets_in_a_database_s_address_are_not_shown(password: str) -> None:
    shown = shown_uri(f"postgresql://ana:{password}@db.example/shop#sales.people")
    assert "sec" not in shown and "ret" not in shown
    assert password in ("sec?ret", "sec#ret") or shown == "postgresql://db.example/shop#sales.people"


def test_a_store_that_refuses_its_list_is_named_without_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_: Any) -> Any:
        raise PermissionError("AKIA:secret may not list")

    monkeypatch.setattr(source, "places_of", refuses)
    with pytest.raises(InputError) as refused:
        source.open_table("s3://AKIA:secret@bucket/people/")
    assert str(refused.value) == "cannot read s3://bucket/people/: permission denied"
