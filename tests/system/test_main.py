"""Progress, on a terminal only."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

from support.commands import FMWEM


def _on_a_terminal(*arguments: str, **environment: str) -> str:
    """What the command shows on a terminal, control codes and all."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", **environment}
    process = subprocess.Popen([FMWEM, *arguments], stdout=subprocess.DEVNULL, stderr=theirs, env=env)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait() == 0
    return shown.decode()


def test_progress_shows_on_a_terminal_only(here: Path) -> None:
    arguments = ["release", "t.csv", "--marginals", "2", "--overwrite"]
    bar = _on_a_terminal(*arguments)
    assert "measured" in bar
    assert "\x1b[" in bar
    colours = [code for code in ("\x1b[3", "\x1b[1;3", "\x1b[38") if code in bar]
    assert colours
    plain = _on_a_terminal(*arguments, NO_COLOR="1")
    assert "differential privacy" in plain
    assert "\x1b[38" not in plain
    assert "\x1b[32m" not in plain
    for quiet in (
        _on_a_terminal(*arguments, "--no-progress"),
        _on_a_terminal(*arguments, FMWEM_NO_PROGRESS="1"),
    ):
        assert "measured " not in quiet.replace("noisy measurements", "")
        assert "differential privacy" in quiet
    piped = subprocess.run([FMWEM, *arguments], capture_output=True, text=True, check=True)
    assert "\x1b" not in piped.stderr
    assert json.loads(piped.stdout)["output"] == "t.synthetic.parquet"
