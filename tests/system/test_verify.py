"""`fmwem verify` as a process: what a killed one leaves is swept by the next."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from pathlib import Path

import pytest
from audit.matrix import Configuration
from support.commands import program
from support.processes import printed, serving


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_run_is_swept_by_the_next(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Configuration("", "csv").table(tmp_path)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    command = program("verify", table, "--marginals", 1, "--rounds", 1, "--epsilon", 60, "--pairs")
    with serving(*command, 1_000_000) as running:
        while not list(folder.glob("fmwem-verify-*/neighbour.csv")):
            assert running.poll() is None
            time.sleep(0.05)
        (made,) = folder.iterdir()
        assert made.name.startswith(f"fmwem-verify-{running.pid}-") and made.stat().st_mode & 0o777 == 0o700
        # one that falls into a destructor of the library is lost; the next one ends the run
        for _ in range(3):
            running.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(30)
                break
        assert running.poll() is not None
    assert list(folder.iterdir()) == ([made] if number == signal.SIGKILL else [])
    printed(*command, 1)
    assert list(folder.iterdir()) == []
