"""Folders of parts: the same bytes by any number of workers, the manifest last, nothing left of a failure."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support.commands import Fmwem

from factored_mwem import Release, release
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.files import crashpoints as faults
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline import sampling, writing
from factored_mwem.tables.outputs.formats import METADATA_KEY, write_batches

ROWS = 1130
NAMES = [f"part-{number:05}.parquet" for number in range(6)]


@pytest.fixture(scope="module")
def model() -> Release:
    table = pa.table({"s": ["0311", "b", None] * 40, "n": [1, 2, 3] * 40})
    fields = [
        {"name": "s", "categories": ["0311", "b"]},
        {"name": "n", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}, "bins": 5},
    ]
    return replace(release(table, 2, domain={"fields": fields}, rows=50, sample_seed=1), rows=ROWS)


@pytest.fixture
def made(model: Release, monkeypatch: pytest.MonkeyPatch) -> Release:
    """Six parts of two batches of a hundred rows; the last part has one of 100 and one of 30."""
    monkeypatch.setattr(sampling, "MAX_BATCH_ROWS", 100)
    monkeypatch.setattr(writing, "PART_ROWS", 200)
    return model


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_texts_written_from_their_dictionaries_are_the_bytes_of_plain_texts(
    tmp_path: Path, made: Release
) -> None:
    rows, files = made.drawn(), [tmp_path / name for name in ("plain.parquet", "listed.parquet")]
    for path, batches in zip(files, (rows, rows.listed()), strict=True):
        write_batches(path, rows.schema, batches, metadata="{}")
    assert files[0].read_bytes() == files[1].read_bytes()
    assert pa.types.is_dictionary(rows.listed().batch(0).schema.field("s").type)
    assert pq.read_table(files[1]).schema.remove_metadata() == rows.schema


def test_parts_are_the_same_bytes_by_any_number_of_workers(tmp_path: Path, made: Release) -> None:
    """So is a single file; the folder's digest is what sha256sum would print."""
    for workers in (1, 2, 4):
        (tmp_path / str(workers)).mkdir()
        written = made.write(f"{tmp_path}/{workers}/people/", workers=workers)
        beside = json.loads((tmp_path / f"{workers}/people.manifest.json").read_text())
        assert beside == written.model_dump(mode="json") and beside["manifest_version"] == 1
        assert names(tmp_path / str(workers)) == ["people", "people.manifest.json"]
        found = content(tmp_path / f"{workers}/people")
        assert sorted(found) == NAMES
        digests = [hashlib.sha256(found[name]).hexdigest() for name in NAMES]
        assert beside["output"]["parts"] == [
            {"file": name, "rows": size, "sha256": digest}
            for name, size, digest in zip(NAMES, [200] * 5 + [130], digests, strict=True)
        ]
        lines = [f"{digest}  {name}\n" for digest, name in zip(digests, NAMES, strict=True)]
        whole = hashlib.sha256("".join(lines).encode()).hexdigest()
        assert {"file": "people/", "rows": ROWS, "sha256": whole}.items() <= beside["output"].items()
        made.write(tmp_path / str(workers) / "t.csv", workers=workers)
        for name in ("people", ""):
            files = [p for p in (tmp_path / str(workers) / name).iterdir() if p.is_file()]
            assert all(p.read_bytes() == (tmp_path / "1" / name / p.name).read_bytes() for p in files)
    assert len((tmp_path / "4/t.csv").read_bytes().splitlines()) == ROWS + 1
    whole_table = pa.concat_tables(pq.read_table(tmp_path / "4/people" / name) for name in NAMES)
    assert whole_table.replace_schema_metadata() == made.to_arrow()


def test_whoever_reads_folders_reads_it(tmp_path: Path, made: Release) -> None:
    made.write(f"{tmp_path}/people/")
    assert ds.dataset(tmp_path / "people").count_rows() == ROWS
    assert pl.read_parquet(tmp_path / "people").height == ROWS
    inside = json.loads(pq.read_schema(tmp_path / "people" / NAMES[3]).metadata[METADATA_KEY])
    assert inside["output"] == {"file": "people/", "rows": ROWS, "sha256": None, "parts": []}


def test_a_folder_that_is_there_becomes_parts_without_a_slash(tmp_path: Path, made: Release) -> None:
    (tmp_path / "people").mkdir()
    made.write(tmp_path / "people")
    assert names(tmp_path / "people") == NAMES


def test_no_rows_are_one_part_with_the_columns(tmp_path: Path, made: Release) -> None:
    replace(made, rows=0).write(f"{tmp_path}/people/")
    assert names(tmp_path / "people") == NAMES[:1]
    assert pq.read_table(tmp_path / "people").schema.remove_metadata() == made.schema


def test_what_is_there_stays_unless_told(tmp_path: Path, made: Release) -> None:
    (tmp_path / "other.manifest.json").write_text("precious")
    with pytest.raises(InputError, match=r"other.manifest.json exists"):
        made.write(f"{tmp_path}/other/")
    assert names(tmp_path) == ["other.manifest.json"]
    made.write(f"{tmp_path}/people/")
    before = content(tmp_path / "people")
    with pytest.raises(InputError, match="people/ is not empty; use --overwrite or another -o"):
        made.write(f"{tmp_path}/people/")
    replace(made, rows=300, seed=5).write(f"{tmp_path}/people/", overwrite=True)
    assert names(tmp_path / "people") == NAMES[:2]  # none of the six others stays
    assert content(tmp_path / "people").items().isdisjoint(before.items())
    (tmp_path / "people" / "notes.txt").write_text("precious")
    with pytest.raises(InputError, match=r"holds 'notes.txt', which a reader would take for rows"):
        made.write(f"{tmp_path}/people/", overwrite=True)
    assert names(tmp_path / "people") == ["notes.txt", *NAMES[:2]]


@pytest.mark.parametrize("workers", [1, 3])
def test_nothing_is_left_of_a_failure(
    tmp_path: Path, made: Release, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Wherever it strikes: in a worker at its seventh batch, or at the manifest."""
    drawn, seen = threading.Lock(), []

    def full(point: str) -> None:
        with drawn:
            seen.append(point)
            if seen.count("sampling") == 7:
                raise ResourceError("no space left")

    monkeypatch.setattr(faults, "hook", full)
    monkeypatch.setattr(writing, "PART_ROWS", 20_000)
    with pytest.raises(ResourceError):
        replace(made, rows=60_000).write(f"{tmp_path}/people/", workers=workers)
    assert names(tmp_path) == []
    assert seen.count("sampling") < 300  # of 600 in three parts: the others stop at their next batch
    monkeypatch.undo()

    def crash(*_: Any) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr("factored_mwem.pipeline.publication.write_text", crash)
    for where in ("people/", "people.parquet"):
        with pytest.raises(RuntimeError, match="power cut"):
            made.write(f"{tmp_path}/{where}", workers=workers)
        assert names(tmp_path) == []


def test_the_old_manifest_goes_before_the_first_new_part(
    tmp_path: Path, made: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so do the old parts: those of two tables in one folder would look like one."""
    made.write(f"{tmp_path}/people/")
    seen = []

    def look(point: str) -> None:
        if point == "before rename":
            seen.append([name for name in [*names(tmp_path), *names(tmp_path / "people")] if name[0] != "."])

    monkeypatch.setattr(faults, "hook", look)
    replace(made, seed=9).write(f"{tmp_path}/people/", overwrite=True, workers=1)
    assert seen[:2] == [["people"], ["people", NAMES[0]]]


def test_verifying_keeps_what_is_right_and_makes_what_is_missing(tmp_path: Path, made: Release) -> None:
    made.write(f"{tmp_path}/people/")
    before = content(tmp_path / "people")
    (tmp_path / "people" / NAMES[2]).unlink()
    (tmp_path / "people.manifest.json").unlink()
    stays = (tmp_path / "people" / NAMES[1]).stat().st_ino
    made.write(f"{tmp_path}/people/", overwrite=IfExists.VERIFY, workers=2)
    assert content(tmp_path / "people") == before and names(tmp_path) == ["people", "people.manifest.json"]
    assert (tmp_path / "people" / NAMES[1]).stat().st_ino == stays
    (tmp_path / "people" / NAMES[2]).write_bytes(before[NAMES[1]])
    with pytest.raises(InputError, match="is not what this run would write"):
        made.write(f"{tmp_path}/people/", overwrite=IfExists.VERIFY)
    assert names(tmp_path / "people") == NAMES  # what an earlier attempt wrote is not ours to remove
    with pytest.raises(InputError, match="holds more than this run would write"):
        replace(made, rows=300).write(f"{tmp_path}/people/", overwrite=IfExists.VERIFY)


def test_impossible_folders_are_one_line(tmp_path: Path, made: Release) -> None:
    (tmp_path / "file").write_text("")
    for where, options, words in (
        (f"{tmp_path}/file/", {}, "file is a file; name a folder"),
        (f"{tmp_path}/none/people/", {}, r"no folder .*none; create it first"),
        ("/", {"overwrite": True}, "root of this disk"),
        (f"{tmp_path}/people/", {"workers": 0}, "workers=0"),
    ):
        with pytest.raises(InputError, match=words):
            made.write(where, **options)


def test_the_umask_is_read_by_one_thread_at_a_time(tmp_path: Path, made: Release) -> None:
    """It can only be read by setting it: two threads at once would leave it at 0."""
    before = os.umask(0o027)
    try:
        made.write(f"{tmp_path}/people/", workers=4)
        assert os.umask(0o027) == 0o027
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / "people").iterdir()} == {0o640}
    finally:
        os.umask(before)


def test_the_command_writes_folders(here: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MAX_BATCH_ROWS", 10)
    monkeypatch.setattr(writing, "PART_ROWS", 20)
    done = fmwem("release", "t.csv", "--marginals", 1, "--rows", 50, "-o", "out/", "--model", "m", "-q")
    assert (done.code, done.facts["output"], done.facts["manifest"]) == (0, "out/", "out.manifest.json")
    assert names(here / "out") == NAMES[:3]
    drawn = fmwem("sample", "m", "-n", 30, "-o", "more/", "--sample-seed", 7, "--workers", 2)
    assert drawn.facts["manifest"] == "more.manifest.json" and drawn.facts["rows"] == 30
    stated = json.loads((here / "more.manifest.json").read_text())
    assert stated["sample_seed"] == 7 and [part["rows"] for part in stated["output"]["parts"]] == [20, 10]
    one = fmwem("sample", "m", "-n", 30, "-o", "more.parquet", "--sample-seed", 7)
    assert one.code == 0 and pl.read_parquet("more/").equals(pl.read_parquet("more.parquet"))
    inside = fmwem("release", "t.csv", "--marginals", 1, "-o", "new/", "--model", "new/model")
    assert inside.code == 2 and "the model would lie among the parts" in inside.err
    (here / "in").mkdir()
    (here / "in" / "part-00000.csv").write_bytes((here / "t.csv").read_bytes())
    over = fmwem("release", "in/part-00000.csv", "--marginals", 1, "-o", "in/", "--overwrite")
    assert over.code == 2 and "in/ holds an input; choose another path" in over.err
    assert fmwem("sample", "m", "-n", 3, "-o", "x/", "--workers", 0).code == 2


def test_other_rows_have_no_certificate(here: Path, fmwem: Fmwem) -> None:
    done = fmwem("release", "t.csv", "--marginals", 1, "--certificate", 0.1, "-o", "out/", "--model", "m")
    assert done.code == 0 and json.loads((here / "out.manifest.json").read_text())["certificate"]
    drawn = fmwem("sample", "m", "-n", 30, "-o", "more/")
    assert drawn.code == 0 and json.loads((here / "more.manifest.json").read_text())["certificate"] is None
