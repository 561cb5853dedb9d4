"""Files of processes that are stopped, and of disks that are full or read-only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.commands import program
from support.processes import PYTHON, ended, line, started

from factored_mwem import Release
from factored_mwem.accounting.cap import Cap
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.files.files import IfExists, check_target
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.tables.outputs import formats
from factored_mwem.tables.outputs.formats import write_batches


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """The folder, once a disk with these options is mounted on it."""

    def mounted(options: str) -> Path:
        if ended("mount", "-t", "tmpfs", "-o", options, "tmpfs", tmp_path).returncode:
            pytest.skip("this machine may not mount")
        return tmp_path

    yield mounted
    ended("umount", tmp_path)


def test_a_read_only_folder(disk: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match="read-only file system"):
        check_target(disk("ro") / "t.parquet", IfExists.REFUSE)


def test_a_full_disk_is_seen_before_anything_is_spent(disk: Callable[[str], Path], tmp_path: Path) -> None:
    """Without a run id all of it would be lost when the files are written."""
    books = tmp_path.with_name(f"{tmp_path.name}.books")
    LedgerFile.create(books).add("t", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    pq.write_table(pa.table({"a": [0, 1] * 50}), table := books.with_suffix(".parquet"))
    (domain := books.with_suffix(".json")).write_text('{"a": 2}')
    given = [table, "--marginals", 1, "--domain", domain, "--ledger", books, "--dataset", "t"]
    done = ended(*program("release", *given, "-o", disk("size=4k") / "t.parquet"))
    assert done.returncode == 4 and "no space left" in done.stderr and "spent" not in done.stderr
    assert LedgerFile(books).entries("t") == []


WRITER = """
import os, resource, signal, sys, time
import pyarrow as pa
from pathlib import Path
from factored_mwem.tables.outputs import formats
from factored_mwem.cli import main as cli

schema = pa.schema([("n", pa.float64())])
def batches():
    import random
    for i in range(400):
        yield pa.RecordBatch.from_arrays([pa.array([random.random() for _ in range(1000)])], schema=schema)
        if i == 2 and sys.argv[1] == "wait":
            print("writing", flush=True)
            time.sleep(60)

def write(**_):
    formats.write_batches(Path(sys.argv[2]), schema, batches())

if sys.argv[1] == "limit":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
cli.app = write
cli.main()
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_process_stopped_while_writing_leaves_no_output(tmp_path: Path, number: int, code: int) -> None:
    process = started(*PYTHON, WRITER, "wait", tmp_path / "t.parquet")
    assert line(process) == "writing\n"
    assert os.listdir(tmp_path) != []  # it is in the middle: its temporary file is there
    time.sleep(0.1)
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert process.returncode == code and "Traceback" not in error
    assert "t.parquet" not in os.listdir(tmp_path)
    assert number == signal.SIGKILL or os.listdir(tmp_path) == []
    if number == signal.SIGINT:
        assert error == "fmwem: interrupted; nothing was left half-written\n"


@pytest.mark.parametrize("suffix", formats.FORMATS)
def test_a_file_that_grows_too_large_is_one_line_and_gone(tmp_path: Path, suffix: str) -> None:
    done = ended(*PYTHON, WRITER, "limit", tmp_path / f"t{suffix}")
    assert done.returncode == 4, done.stderr
    assert "no space left to write" in done.stderr and done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_one_line_and_leaves_nothing(disk: Callable[[str], Path], made: Release) -> None:
    folder = disk("size=64k")
    batch = pa.record_batch({"n": pa.array(range(100_000))})
    for suffix in formats.FORMATS:
        with pytest.raises(ResourceError, match="no space left to write"):
            write_batches(folder / f"t{suffix}", batch.schema, [batch])
        assert os.listdir(folder) == []
    (folder / "ballast").write_bytes(b"x" * 65_536)
    with pytest.raises(ResourceError, match="no space left"):
        made.save(folder / "model")
    assert os.listdir(folder) == ["ballast"]
