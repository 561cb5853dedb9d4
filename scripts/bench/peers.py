"""The programs that `python scripts/bench` measures: how one is run, and a driver for each peer. NOT PRIVATE:
the runs read the table.

    PEER_PYTHON scripts/bench/peers.py NAME in.csv sizes.json epsilon delta rows out.csv

Every column of in.csv holds codes 0..size-1 and sizes.json is {"column": size, ...}, so that every program
starts from the same public domain. Each driver calls the entry point that its program documents, with that
program's own defaults; where a workload can be given it is every 3-way marginal, because that is what the
benchmark judges. This file needs the standard library and the peer alone, because the peer's own Python runs
it. What must be installed there:

    mst, mwem+pgm, aim                    private-pgm, with its folder `mechanisms` on the module path
    swift, swift-1000, dps-mst, dps-aim   dpsynth; swift-1000 fits with a tenth of the default iterations
    dpmm-mst, dpmm-aim, dpmm-privbayes    dpmm
    smartnoise-mwem                       smartnoise-synth; pure epsilon, delta is not used
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

ORDER = 3
LAUNCH = "from factored_mwem.cli.main import main; main()"
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
used = {"wall": wall, "cpu": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / (1024 if sys.platform == "linux" else 2**20)}
print(json.dumps({"code": os.waitstatus_to_exitcode(status), **used}))
"""
"""Run by a bare interpreter between us and what is measured: a process inherits the peak memory of the one
that started it.
"""
PHASES = {
    "read": "table codec reading profile",
    "count": "counts",
    "score": "answers",
    "noise and selection": "privacy.access privacy.noise privacy.ledger",
    "loop": "mwem",
    "fit": "fit model",
    "sample": "sample",
    "write": "output manifest store",
    "other": "flow job cli console settings errors attribute domain plan check",
}
"""Which of our modules belong together where `scale` says where the time goes."""
SPLIT_CELLS = 10**6
"""Most cells of one histogram of SmartNoise's MWEM, which keeps every cell and draws each row from all of
them.
"""


@dataclass(frozen=True)
class Task:
    """What is asked of every program."""

    table: str
    sizes_file: str
    epsilon: float
    delta: float
    rows: int

    @property
    def sizes(self) -> dict[str, int]:
        return json.loads(Path(self.sizes_file).read_text(encoding="utf-8"))

    @property
    def workload(self) -> list[tuple[str, ...]]:
        return list(itertools.combinations(self.sizes, min(ORDER, len(self.sizes))))

    def frame(self) -> Any:
        return import_module("pandas").read_csv(self.table)


def pgm_data(task: Task) -> Any:
    return import_module("mbi").Dataset.load(task.table, task.sizes_file)


def pgm_frame(made: Any) -> Any:
    """The rows of one of private-pgm's data sets, which held a data frame up to its version 1.0 and a
    dictionary since.
    """
    return import_module("pandas").DataFrame(made.to_dict()) if hasattr(made, "to_dict") else made.df


def mst(task: Task) -> Any:
    return pgm_frame(import_module("mst").MST(pgm_data(task), task.epsilon, task.delta))


def mwem_pgm(task: Task) -> Any:
    return pgm_frame(
        import_module("mwem+pgm").mwem_pgm(pgm_data(task), task.epsilon, task.delta, workload=task.workload)
    )


def aim(task: Task) -> Any:
    """AIM with its default model of 80 MB; weight 1 for every marginal, as its own command line gives."""
    workload = [(clique, 1.0) for clique in task.workload]
    return pgm_frame(
        import_module("aim")
        .AIM(task.epsilon, task.delta)
        .run(pgm_data(task), workload, num_synth_rows=task.rows)[1]
    )


def dpsynth(config: str, *, workload: bool = False, **given: Any) -> Callable[[Task], Any]:
    """A driver for one of dpsynth's mechanisms, with fields of its config; codes are categories, not numbers
    to be cut into bins.
    """

    def run(task: Task) -> Any:
        import dpsynth as dps
        import numpy as np

        domains = {
            name: dps.CategoricalAttribute(possible_values=list(range(size)))
            for name, size in task.sizes.items()
        }
        mechanism = getattr(dps.discrete_mechanisms, config)(
            **given, **({"workload": task.workload} if workload else {})
        )
        release = dps.TabularSynthesizer(domains=domains, discrete_mechanism=mechanism).calibrate(
            epsilon=task.epsilon, delta=task.delta
        )
        return release(np.random.default_rng(), task.frame()).synthetic_data

    return run


def dpmm(pipeline: str) -> Callable[[Task], Any]:
    """A driver for one of dpmm's pipelines; its preprocessing is off, because the codes need none."""

    def run(task: Task) -> Any:
        made = getattr(import_module("dpmm.pipelines"), pipeline)(
            epsilon=task.epsilon, delta=task.delta, disable_processing=True
        )
        made.fit(task.frame(), task.sizes)
        return made.generate(n_records=task.rows)

    return run


def smartnoise_mwem(task: Task) -> Any:
    """MWEM on histograms of as many columns as surely stay below SPLIT_CELLS cells: the whole table rarely
    does.
    """
    synthesizer = import_module("snsynth").Synthesizer
    largest = sorted(task.sizes.values(), reverse=True)
    cells = list(itertools.accumulate(largest, lambda a, b: a * b))
    together = max(1, sum(c <= SPLIT_CELLS for c in cells))
    made = synthesizer.create("mwem", epsilon=task.epsilon, split_factor=together)
    made.fit(task.frame(), categorical_columns=list(task.sizes), preprocessor_eps=0.0)
    return made.sample(task.rows)


PEERS: dict[str, Callable[[Task], Any]] = {
    "mst": mst,
    "mwem+pgm": mwem_pgm,
    "aim": aim,
    "swift": dpsynth("SWIFTConfig", workload=True),
    "swift-1000": dpsynth("SWIFTConfig", workload=True, pgm_iters=1000),
    "dps-mst": dpsynth("MSTConfig"),
    "dps-aim": dpsynth("AIMConfig", workload=True),
    "dpmm-mst": dpmm("MSTPipeline"),
    "dpmm-aim": dpmm("AIMPipeline"),
    "dpmm-privbayes": dpmm("PrivBayesPipeline"),
    "smartnoise-mwem": smartnoise_mwem,
}


@dataclass(frozen=True)
class Program:
    """What is measured: the installed fmwem, one of its checkouts, or a peer."""

    name: str
    python: str
    checkout: str | None = None
    ours: bool = True

    def command(self, task: Task, out: Path, *, order: int = ORDER, phases: Path | None = None) -> list[str]:
        """The run as a command; with `phases`, one of ours that also leaves the seconds of its phases in that
        file.
        """
        if not self.ours:
            return [
                self.python,
                __file__,
                self.name,
                task.table,
                task.sizes_file,
                f"{task.epsilon:g}",
                f"{task.delta:g}",
                str(task.rows),
                str(out),
            ]
        start = ["-P", "-c", LAUNCH] if phases is None else [__file__, "phases", str(phases)]
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


class Clock:
    """Seconds of each phase; what runs inside another phase's function counts for the inner one alone."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._inside, self._since, self._thread = ["other"], time.perf_counter(), threading.get_ident()

    def turn(self, phase: str | None) -> None:
        """A phase begins, or, with None, the one that began last ends."""
        now = time.perf_counter()
        self.spent[self._inside[-1]] = self.spent.get(self._inside[-1], 0.0) + now - self._since
        self._since = now
        if phase is None:
            self._inside.pop()
        else:
            self._inside.append(phase)

    def timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return function(*args, **kwargs)
            self.turn(phase)
            try:
                made = function(*args, **kwargs)
            finally:
                self.turn(None)
            return self._pulled(phase, made) if inspect.isgeneratorfunction(function) else made

        return call

    def _pulled(self, phase: str, made: Iterator[Any]) -> Iterator[Any]:
        """A generator works when it is asked for the next value, not when it is called."""
        while True:
            self.turn(phase)
            try:
                value = next(made)
            except StopIteration:
                return
            finally:
                self.turn(None)
            yield value


def hook(clock: Clock) -> None:
    """Time every public function and method of every module of ours that is loaded, wherever it was imported
    to.

    By module, because modules outlive the names in them; a module that PHASES does not know is a phase of its
    own name. Compiled code is left alone, it counts for its caller.
    """
    phase_of = {module: phase for phase, modules in PHASES.items() for module in modules.split()}
    loaded = {
        n.removeprefix("factored_mwem."): m
        for n, m in sys.modules.items()
        if n.startswith("factored_mwem.") and ".kernels" not in n
    }
    wrapped: dict[Any, Any] = {}
    for name, module in loaded.items():
        phase = phase_of.get(name, name)
        own = [
            (key, value)
            for key, value in vars(module).items()
            if getattr(value, "__module__", "") == module.__name__
        ]
        for key, value in own if phase != "other" else []:
            if isinstance(value, FunctionType) and not key.startswith("_"):
                wrapped[value] = clock.timed(phase, value)
            elif (
                isinstance(value, type)
                and not issubclass(value, (Enum, BaseException))
                and not hasattr(value, "model_fields")
            ):
                for method, function in list(vars(value).items()):
                    if isinstance(function, FunctionType) and (
                        method == "__init__" or not method.startswith("_")
                    ):
                        setattr(value, method, clock.timed(phase, function))
    for module in loaded.values():
        for key, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value in wrapped:
                setattr(module, key, wrapped[value])


def release_by_phases(out: Path, arguments: list[str]) -> None:
    """`fmwem` with these arguments; the seconds of its phases as JSON in `out`."""
    cli = import_module("factored_mwem.cli.main")
    for name in ("job", "console"):  # what the command would import later, so that it can be timed
        with contextlib.suppress(ImportError):
            import_module(f"factored_mwem.{name}")
    clock = Clock()
    hook(clock)
    sys.argv = ["fmwem", *arguments]
    try:
        cli.main()
    finally:
        clock.turn(None)
        out.write_text(
            json.dumps({phase: round(seconds, 4) for phase, seconds in clock.spent.items()}), encoding="utf-8"
        )


def main() -> None:
    if sys.argv[1:2] == ["phases"]:
        return release_by_phases(Path(sys.argv[2]), sys.argv[3:])
    if len(sys.argv) != 8 or sys.argv[1] not in PEERS:
        sys.exit(f"{__doc__}\nnames: {', '.join(PEERS)}")
    name, table, sizes_file, epsilon, delta, rows, out = sys.argv[1:]
    task = Task(table, sizes_file, float(epsilon), float(delta), int(rows))
    PEERS[name](task)[list(task.sizes)].to_csv(out, index=False)


if __name__ == "__main__":
    main()
