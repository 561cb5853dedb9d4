"""How a process ends whose streams take nothing or are closed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.commands import FMWEM, JOB, Fmwem


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_takes_nothing_is_one_line(command_books: Path, fmwem: Fmwem, unbuffered: str) -> None:
    command = [str(FMWEM), *map(str, JOB), "--run-id", "r", "--json"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment
        )
    assert ended.returncode == 4 and ended.stderr.count("\n") == 1
    assert "standard output" in ended.stderr and "the release is complete" in ended.stderr
    assert fmwem(*JOB, "--run-id", "r", "--json").facts["reused"] is True


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_stream_that_is_closed_is_as_good_as_none(command_books: Path, fmwem: Fmwem, closed: str) -> None:
    """The next file that is opened would take its number, and be printed into: here the ledger or a
    journal.
    """
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", str(FMWEM), *map(str, JOB), "--run-id", "r"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0 and "Traceback" not in ended.stderr
    assert fmwem(*JOB, "--run-id", "r", "--json").facts["reused"] is True
