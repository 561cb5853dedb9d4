"""Files of processes that are stopped, and of disks that are full or read-only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from factored_mwem import Release
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.files import IfExists, check_target
from factored_mwem.tables import formats
from factored_mwem.tables.formats import write_batches


def test_a_read_only_folder(tmp_path: Path) -> None:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("this machine may not mount")
    try:
        with pytest.raises(InputError, match="read-only file system"):
            check_target(tmp_path / "t.parquet", IfExists.REFUSE)
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


WRITER = """
import os, resource, signal, sys, time
import pyarrow as pa
from pathlib import Path
from factored_mwem.tables import formats
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
    ("number", "code"),
    [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["kill", "ctrl-C", "terminate"],
)
def test_a_process_stopped_while_writing_leaves_no_output(tmp_path: Path, number: int, code: int) -> None:
    def listening() -> None:  # a child that was started by one that ignores a signal ignores it, too
        for heard in (signal.SIGINT, signal.SIGTERM):
            signal.signal(heard, signal.SIG_DFL)

    command = [sys.executable, "-c", WRITER, "wait", str(tmp_path / "t.parquet")]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=listening,  # noqa: PLW1509 - no threads here
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    assert names(tmp_path) != []  # it is in the middle: its temporary file is there
    time.sleep(0.1)
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert process.returncode == code
    assert "t.parquet" not in names(tmp_path)
    assert "Traceback" not in error
    if number != signal.SIGKILL:
        assert names(tmp_path) == []
    if number == signal.SIGINT:
        assert error == "fmwem: interrupted; nothing was left half-written\n"


@pytest.mark.parametrize("suffix", formats.FORMATS)
def test_a_file_that_grows_too_large_is_one_line_and_gone(tmp_path: Path, suffix: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITER, "limit", tmp_path / f"t{suffix}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    assert "no space left to write" in done.stderr
    assert done.stderr.count("\n") == 1
    assert names(tmp_path) == []


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, made: Release) -> None:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("this machine may not mount")
    try:
        schema = pa.schema([("n", pa.int64())])
        batch = pa.RecordBatch.from_arrays([pa.array(range(100_000))], schema=schema)
        for suffix in formats.FORMATS:
            with pytest.raises(ResourceError, match="no space left to write"):
                write_batches(tmp_path / f"t{suffix}", schema, [batch])
            assert names(tmp_path) == []
        (tmp_path / "ballast").write_bytes(b"x" * 65_536)
        with pytest.raises(ResourceError, match="no space left"):
            made.save(tmp_path / "model")
        assert names(tmp_path) == ["ballast"]
    finally:
        subprocess.run(["umount", tmp_path], check=True)
