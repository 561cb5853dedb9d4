"""`fmwem verify` as a process: what a killed one leaves is swept by the next."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from audit.verify.matrix import Configuration


@pytest.mark.parametrize("signal_sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_run_is_swept_by_the_next(signal_sent: signal.Signals, tmp_path: Path) -> None:
    table = Configuration("", "csv").table(tmp_path)
    folder = tmp_path / "temporary"
    folder.mkdir()
    command = [
        sys.executable,
        "-c",
        "from factored_mwem.cli.main import main; main()",
        "verify",
        str(table),
        "--marginals",
        "1",
        "--rounds",
        "1",
        "--epsilon",
        "60",
    ]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        [*command, "--pairs", "1000000"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        try:
            while not list(folder.glob("fmwem-verify-*/neighbour.csv")):
                assert running.poll() is None
                time.sleep(0.05)
            (made,) = folder.iterdir()
            assert (
                made.name.startswith(f"fmwem-verify-{running.pid}-") and made.stat().st_mode & 0o777 == 0o700
            )
            # one that falls into a destructor of the library is lost; the next one ends the run
            for _ in range(3):
                running.send_signal(signal_sent)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(30)
                    break
            assert running.poll() is not None
        finally:
            running.kill()
    assert list(folder.iterdir()) == ([made] if signal_sent == signal.SIGKILL else [])
    subprocess.run([*command, "--pairs", "1"], env=environment, check=True, capture_output=True)
    assert list(folder.iterdir()) == []
