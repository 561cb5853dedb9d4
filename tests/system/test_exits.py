"""How a process ends whose streams take nothing or are closed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import FMWEM, JOB, Fmwem
from support.processes import ended


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_takes_nothing_is_one_line(command_books: Path, fmwem: Fmwem, unbuffered: str) -> None:
    command = ("sh", "-c", 'exec "$@" > /dev/full', "sh", FMWEM, *JOB, "--run-id", "r", "--json")
    done = ended(*command, env={"PYTHONUNBUFFERED": unbuffered})
    assert done.returncode == 4 and done.stderr.count("\n") == 1
    assert "standard output" in done.stderr and "the release is complete" in done.stderr
    assert fmwem(*JOB, "--run-id", "r", "--json").facts["reused"] is True


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_stream_that_is_closed_is_as_good_as_none(command_books: Path, fmwem: Fmwem, closed: str) -> None:
    """The next file that is opened would take its number, and be printed into: a ledger or journal."""
    done = ended("sh", "-c", f'exec "$@" {closed}', "sh", FMWEM, *JOB, "--run-id", "r")
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert fmwem(*JOB, "--run-id", "r", "--json").facts["reused"] is True
