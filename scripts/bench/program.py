"""What is measured, as a command, and what a run of it costs."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from common.runner import Options, Row
from common.tables import ROOT

from bench import peers
from bench.peers import PEERS, Task

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
    python: str = sys.executable
    checkout: Path | None = None
    ours: bool = True

    def fmwem(self, *words: object) -> list[str]:
        """Our command with these words."""
        facts = tomllib.loads(((self.checkout or ROOT) / "pyproject.toml").read_text(encoding="utf-8"))
        module, _, name = facts["project"]["scripts"]["fmwem"].partition(":")
        return [self.python, "-P", "-c", f"from {module} import {name}; {name}()", *map(str, words)]

    def release(
        self, table: object, order: int, epsilon: float, delta: float, *more: object, out: Path
    ) -> list[str]:
        """Our command line, for all marginals of an order."""
        asked = ("--marginals", order, "--epsilon", f"{epsilon:g}", "--delta", f"{delta:g}", *more, "-o", out)
        return self.fmwem("release", table, *asked, "--overwrite", "--quiet", "--no-progress")

    def command(self, task: Task, *more: object, out: Path) -> list[str]:
        """A release of a table of codes; `more` is told our own programs alone."""
        budget = (task.epsilon, task.delta)
        if self.ours:
            asked = ("--domain", task.sizes_file, "--rows", task.rows, *more)
            return self.release(task.table, task.order, *budget, *asked, out=out)
        given = (self.name, task.table, task.sizes_file, *(f"{part:g}" for part in budget))
        return [self.python, peers.__file__, *given, str(task.rows), str(task.order), str(out)]

    def run(self, command: list[str], limit: float) -> Row:
        """The cost of a run, and `status`: ok, did not finish, or the last line it said."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("FMWEM_")}
        env |= {"PYTHONPATH": str(self.checkout)} if self.ours and self.checkout else {}
        meter = [sys.executable, "-I", "-S", "-c", METER, str(limit)]
        done = subprocess.run([*meter, *command], env=env, capture_output=True, text=True, check=False)
        last = (done.stderr.strip().splitlines() or [""])[-1]
        if done.returncode:
            return {"status": f"not started: {last or '?'}"}
        used = json.loads(done.stdout)
        code = used.pop("code")
        if code == -9 and used["wall"] >= limit:
            return {**used, "status": "did not finish"}
        why = f"signal {-code}" if code < 0 else last[:150] or f"exit code {code}"
        return {**used, "status": f"failed: {why}" if code else "ok"}


@dataclass(frozen=True)
class Job:
    """A command to be run and judged. `about`: the fields that say which it is; `command` of the file it is
    to write; `judge`: figures of what was written; `cold`: of those that share this word our programs run the
    first once unmeasured, because numba compiles once per installation, not per run.
    """

    about: Row
    program: Program
    command: Callable[..., list[str]]
    judge: Callable[[Path], Row]
    ending: str = ".csv"
    cold: str = "cold"


def checkout_of(path: str | Path, option: str) -> Path:
    """That folder; SystemExit where it holds no package."""
    if not (Path(path) / "factored_mwem").is_dir():
        sys.exit(f"--{option}: {path} holds no factored_mwem")
    return Path(path).resolve()


@dataclass(frozen=True, kw_only=True)
class Releases(Options):
    """Of those that run programs as processes, again and again, beside others: NAME=PATH of checkouts and of
    the peers' Pythons.
    """

    epsilons: tuple[float, ...] = (0.1, 1.0, 10.0)
    delta: float = 1e-9
    runs: int = 5
    limit: Annotated[float, "seconds after which a run did not finish"] = 1800.0
    keep: Annotated[Path | None, "folder for all files; default: a temporary one"] = None
    checkout: Annotated[tuple[str, ...], "folders that hold factored_mwem; default: this one"] = ()
    peers: Annotated[
        tuple[str, ...] | None, "programs of peers.py; without names, all that have a Python"
    ] = None
    peer_python: tuple[str, ...] = ()
    peers_only: bool = False
    beside: Annotated[tuple[Path, ...], "also show the rows of these CSV files, written earlier with -o"] = ()

    def made(self, jobs: Iterable[Job], folder: Path) -> Iterator[Row]:
        """Every job, as often as it is to run, one at a time and programs in turn: what it is, its cost and
        its figures.
        """
        warm = set()
        for _, alike in itertools.groupby(jobs, lambda job: {**job.about, "program": ""}):
            group = list(alike)
            for run, job in itertools.product(range(self.runs), group):
                about = {**job.about, "run": run}
                name = ".".join(_said(value) for value in about.values())
                out, cold = folder / f"{name}{job.ending}", f"{job.cold}.{job.program.name}"
                used: Row = {}
                try:
                    if job.cold and job.program.ours and cold not in warm:
                        job.program.run(job.command(out=folder / f"{cold}{job.ending}"), self.limit)
                        warm.add(cold)
                    used = job.program.run(job.command(out=out), self.limit)
                    used |= job.judge(out) if used["status"] == "ok" else {}
                except (ValueError, KeyError, OSError) as error:  # a program may leave anything, or nothing
                    used["status"] = f"failed: {error}"
                yield {**about, **used}

    def programs(self) -> list[Program]:
        named = [entry.split("=", 1) for entry in self.checkout]
        ours = [Program(name, checkout=checkout_of(path, "checkout")) for name, path in named]
        pythons = dict(entry.split("=", 1) for entry in self.peer_python)
        wanted = list(pythons if self.peers == () else self.peers or ())
        for name in wanted:
            if name not in pythons or name not in PEERS:
                known = f"name one of {', '.join(PEERS)}, and its Python with --peer-python {name}=PATH"
                sys.exit(f"--peers {name}: {known}")
        others = [Program(name, pythons[name], ours=False) for name in wanted]
        return others if self.peers_only else [*(ours or [Program("fmwem")]), *others]


def _said(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
