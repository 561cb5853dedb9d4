"""A file appears whole or not at all, and a data file without its matching manifest is not a release."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from factored_mwem import Release, release
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.files import files as output
from factored_mwem.files.files import IfExists, check_target, replacing
from factored_mwem.tables.outputs import formats
from factored_mwem.tables.outputs.formats import METADATA_KEY, output_of, write_batches
from factored_mwem.tables.outputs.release_files import manifest_of
from factored_mwem.tables.outputs.targets import LocalFile, write_text

TABLE = pa.table({"s": ["0311", "b", None] * 40, "n": [1, 2, 3] * 40})
FIELDS = [
    {"name": "s", "categories": ["0311", "b"]},
    {"name": "n", "type": "integer", "categories": [1, 2, 3]},
]


@pytest.fixture(scope="module")
def made() -> Release:
    return release(TABLE, 2, domain={"fields": FIELDS}, rows=50, sample_seed=1)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_the_manifest_names_the_very_file_beside_it(tmp_path: Path, made: Release) -> None:
    written = made.write(tmp_path / "t.parquet")
    beside = json.loads((tmp_path / "t.manifest.json").read_text())
    assert beside == written.model_dump(mode="json")
    assert beside["output"] == {
        "file": "t.parquet",
        "rows": 50,
        "sha256": hashlib.sha256((tmp_path / "t.parquet").read_bytes()).hexdigest(),
        "parts": [],
    }
    inside = json.loads(pq.read_schema(tmp_path / "t.parquet").metadata[METADATA_KEY])
    assert inside["output"].pop("sha256") is None  # a file cannot hold its own hash
    del beside["output"]["sha256"]
    assert inside == beside
    assert names(tmp_path) == ["t.manifest.json", "t.parquet"]


@pytest.mark.parametrize("suffix", formats.FORMATS)
def test_every_format_holds_the_same_rows(tmp_path: Path, made: Release, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    made.write(path)
    if suffix == ".csv":
        lines = path.read_text().splitlines()
        assert lines[0] == "s,n"
        assert [line.split(",")[0] or None for line in lines[1:]] == made.to_arrow()["s"].to_pylist()
        return
    found = pq.read_table(path) if suffix == ".parquet" else pf.read_table(path)
    assert found.to_pylist() == made.to_arrow().to_pylist()
    assert found.schema.remove_metadata() == made.schema


def test_columns_whose_values_repeat_have_dictionaries(tmp_path: Path) -> None:
    """Others do not, for theirs would only cost. The values are the same either way."""
    numbers = np.random.default_rng(0).random(10_000)
    columns = {"few": np.round(numbers, 2), "many": numbers, "text": numbers.astype(str)}
    batch = pa.RecordBatch.from_pydict(columns)
    write_batches(tmp_path / "t.parquet", batch.schema, [batch, batch])
    group = pq.ParquetFile(tmp_path / "t.parquet").metadata.row_group(0)
    found = {group.column(i).path_in_schema: group.column(i).encodings for i in range(3)}
    assert {name for name, encodings in found.items() if "RLE_DICTIONARY" in encodings} == {"few", "text"}
    assert pq.read_table(tmp_path / "t.parquet") == pa.Table.from_batches([batch, batch])
    write_batches(tmp_path / "none.parquet", batch.schema, [])
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_dictionaries_that_differ_between_batches_fit_an_arrow_file(tmp_path: Path) -> None:
    schema = pa.schema([("c", pa.dictionary(pa.int32(), pa.int64()))])
    batches = [
        pa.RecordBatch.from_arrays([pa.array(values).dictionary_encode()], schema=schema)
        for values in ([1, 2], [3, 2])
    ]
    write_batches(tmp_path / "t.feather", schema, iter(batches))
    assert pf.read_table(tmp_path / "t.feather")["c"].to_pylist() == [1, 2, 3, 2]


def test_existing_outputs_are_kept(tmp_path: Path, made: Release) -> None:
    (tmp_path / "t.parquet").write_text("precious")
    with pytest.raises(InputError, match="exists; use --overwrite or another -o"):
        made.write(tmp_path / "t.parquet")
    (tmp_path / "u.manifest.json").write_text("precious")  # a manifest alone is somebody's file too
    with pytest.raises(InputError, match="exists; use --overwrite"):
        made.write(tmp_path / "u.parquet")
    assert (tmp_path / "t.parquet").read_text() == (tmp_path / "u.manifest.json").read_text() == "precious"
    assert names(tmp_path) == ["t.parquet", "u.manifest.json"]


@pytest.mark.parametrize(
    ("step", "left"),
    [
        ("pyarrow.parquet.ParquetWriter", ["t.manifest.json", "t.parquet"]),
        ("os.replace", ["t.parquet"]),
        ("factored_mwem.pipeline.publication.write_text", []),
    ],
    ids=["writing", "renaming", "manifest"],
)
def test_the_old_manifest_goes_just_before_the_new_data_comes(
    tmp_path: Path, made: Release, monkeypatch: pytest.MonkeyPatch, step: str, left: list[str]
) -> None:
    """A crash while the new data is written must leave the old release whole; one at the rename, or between
    data and manifest, no manifest, for the old one would vouch for the new data.
    """
    made.write(tmp_path / "t.parquet")
    seen: list[list[str]] = []

    def crash(*_: Any, **__: Any) -> None:
        seen.append(names(tmp_path))
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="power cut"):
        patch.setattr(step, crash)
        made.write(tmp_path / "t.parquet", overwrite=True)
    assert names(tmp_path) == left and len(seen) == 1
    if step.endswith("write_text"):
        assert seen == [["t.parquet"]]


def test_a_failing_write_leaves_nothing(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])

    def batches() -> Any:
        yield pa.RecordBatch.from_pylist([{"n": 1}], schema=schema)
        raise KeyboardInterrupt

    for suffix in formats.FORMATS:
        with pytest.raises(KeyboardInterrupt):
            write_batches(tmp_path / f"t{suffix}", schema, batches())
    assert names(tmp_path) == []


def test_replacing_keeps_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "t.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), replacing(target, IfExists.REPLACE) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    with replacing(target, IfExists.REPLACE) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert (
        target.stat().st_mode & 0o777 == 0o666 & ~output._umask()
    )  # not the private mode of a temporary file
    assert names(tmp_path) == ["t.txt"]


def test_targets_are_judged_before_anything_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_target(tmp_path / "new.parquet", IfExists.REFUSE)
    assert names(tmp_path) == []
    with pytest.raises(InputError, match=r"no folder .*; create it first"):
        check_target(tmp_path / "none" / "t.parquet", IfExists.REFUSE)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="permission denied"):
        check_target(tmp_path / "file" / "t.parquet", IfExists.REFUSE)
    with pytest.raises(InputError, match="is a folder"):
        check_target(tmp_path, IfExists.REPLACE)
    with pytest.raises(InputError, match=r"unknown output format; use one of \.parquet"):
        output_of(Path("t.xlsx"))
    for number, expected, words in (
        (errno.EACCES, InputError, "permission denied"),
        (errno.EROFS, InputError, "read-only file system"),
        (errno.ENOSPC, ResourceError, "no space left"),
    ):

        def refuse(*_: Any, number: int = number, **__: Any) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(output.tempfile, "mkstemp", refuse)  # root may write everywhere
        with pytest.raises(expected, match=words):
            check_target(tmp_path / "t.parquet", IfExists.REFUSE)


def test_a_file_reaches_the_disk_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Renamed first, a file may be empty after a power cut; and the folder is synced for the name."""
    steps: list[str] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (steps.append("sync"), sync(handle))[1])
    for name in ("replace", "link"):
        change = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda old, new, change=change: (steps.append("name"), change(old, new))[1]
        )
    for overwrite in (False, True):
        write_text(LocalFile(tmp_path / "t.txt"), "x", IfExists(overwrite))
    assert steps == ["sync", "name", "sync"] * 2


def test_names_of_manifests() -> None:
    assert str(manifest_of(output_of("a/adult.synthetic.parquet"))) == "a/adult.synthetic.manifest.json"
    assert str(manifest_of(output_of("a/adult/"))) == "a/adult.manifest.json"
