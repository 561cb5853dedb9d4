"""What is measured, as a command, and what a run of it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import peers, rooms
from bench.peers import ORDER, Task

LAUNCH = """
try:
    from factored_mwem.cli.main import main
except ModuleNotFoundError:
    from factored_mwem.cli import main  # a checkout without rooms
main()
"""
METER = """
import json, os, signal, subprocess, sys, threading, time
start = time.perf_counter()
child = subprocess.Popen(sys.argv[2:], stdout=2, start_new_session=True)
timer = threading.Timer(float(sys.argv[1]), os.killpg, (child.pid, signal.SIGKILL))
timer.daemon = True
timer.start()
try:
    _, status, used = os.wait4(child.pid, 0)
except BaseException:
    os.killpg(child.pid, signal.SIGKILL)
    raise
wall = time.perf_counter() - start
timer.cancel()
cost = {"wall": wall, "cpu": used.ru_utime + used.ru_stime}
cost["peak_mb"] = used.ru_maxrss / (1024 if sys.platform == "linux" else 2**20)
print(json.dumps({"code": os.waitstatus_to_exitcode(status), **cost}))
"""
"""Run by a bare interpreter between us and what is measured: a process inherits the peak memory of the one
that started it.
"""


@dataclass(frozen=True)
class Program:
    """What is measured: the installed fmwem, one of its checkouts, or a peer."""

    name: str
    python: str
    checkout: str | None = None
    ours: bool = True

    def command(self, task: Task, out: Path, *, order: int = ORDER, seconds: Path | None = None) -> list[str]:
        """The run as a command; with `seconds`, one of ours that leaves its rooms' seconds in that file."""
        if not self.ours:
            return [
                self.python,
                peers.__file__,
                self.name,
                task.table,
                task.sizes_file,
                f"{task.epsilon:g}",
                f"{task.delta:g}",
                str(task.rows),
                str(out),
            ]
        start = ["-P", "-c", LAUNCH] if seconds is None else ["-P", rooms.__file__, str(seconds)]
        shape = [
            "--marginals",
            str(order),
            "--domain",
            task.sizes_file,
            "--rows",
            str(task.rows),
            "--epsilon",
            f"{task.epsilon:g}",
        ]
        say = ["--delta", f"{task.delta:g}", "-o", str(out), "--overwrite", "--quiet", "--no-progress"]
        return [self.python, *start, "release", task.table, *shape, *say]

    def run(self, command: list[str], limit: float) -> dict[str, Any]:
        """The cost of a run, and `status`: ok, did not finish, or the last line it said."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("FMWEM_")}
        if self.ours and self.checkout:
            env["PYTHONPATH"] = self.checkout
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", METER, str(limit), *command],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return {"status": "not started: " + (done.stderr.strip().splitlines() or ["?"])[-1]}
        used = json.loads(done.stdout)
        code = used.pop("code")
        if code == -9 and used["wall"] >= limit:
            return {**used, "status": "did not finish"}
        said = (
            f"signal {-code}"
            if code < 0
            else (done.stderr.strip().splitlines() or [f"exit code {code}"])[-1][:150]
        )
        return {**used, "status": f"failed: {said}" if code else "ok"}
