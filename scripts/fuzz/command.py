"""Hostile input in bulk, for every parser: tables, domains, workloads, configurations, models, ledgers,
journals.

    python scripts/fuzz                            # 1,000 cases each
    python scripts/fuzz --cases 20000 csv model
    python scripts/fuzz --seconds 600 --seed 7
    python scripts/fuzz --again found/model-123.fmwem

A case is well where the parser returns, or raises FmwemError in one line, within SECONDS and MORE bytes of
memory. Cases run in a process of their own, which is stopped and started again where it hangs or dies. What
is not well is written to a folder (`--found`), and its message printed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Annotated, Any, ClassVar

from common.runner import parse, printed, refuse

from fuzz.target import Target
from fuzz.targets import TARGETS

SECONDS = 10.0
MORE = 2**30
"""Bytes that one case may take beside what the process had before."""
ALARM = 5.0
"""Seconds after SECONDS until a process that does not answer is killed."""
LOADING = 120.0
"""The same for its first case: it has to load everything before."""


@dataclass(frozen=True, kw_only=True)
class Bulk:
    places: ClassVar[tuple[str, ...]] = ("targets",)
    targets: tuple[str, ...] | None = None
    cases: Annotated[int, "of each target"] = 1000
    seconds: Annotated[float | None, "of each target, instead of a number of cases"] = None
    seed: int = 0
    found: Annotated[Path, "folder for what is not well"] = Path("fuzz-found")
    again: Annotated[Path | None, "run one file that was found"] = None


def main() -> None:
    options = parse(Bulk, __doc__, "fuzz")
    if options.again:
        return again(options.again)
    unknown = set(options.targets or ()) - set(TARGETS)
    if unknown:
        refuse(f"no target {unknown.pop()!r}; there are {', '.join(TARGETS)}")
    results = (bulk(name, options) for name in options.targets or TARGETS)
    head = "target | cases | refused | seconds | slowest | memory | findings"
    sys.exit(any(line[-1] for line in printed(head, results, lambda line: line)))


def bulk(name: str, options: Bulk) -> tuple[Any, ...]:
    """All cases of a target, in processes that are watched; its line of the table."""
    last = options.cases if options.seconds is None else 10**9
    begun, at, findings, slowest, memory, refused = time.monotonic(), 0, 0, 0.0, 0, 0
    until = begun + (options.seconds or float("inf"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "corpus").mkdir()  # made once, so that all processes start from the same
        for number, data in enumerate(TARGETS[name].corpus(folder)):
            (folder / "corpus" / f"{number:03}").write_bytes(data)
        while at < last and time.monotonic() < until:
            for message, took, more, taken in watched(name, folder, range(at, last), options.seed):
                slowest, memory = max(slowest, took), max(memory, more)
                refused += message is None and not taken
                if message is not None:
                    findings += keep(name, folder, options.found, at, message)
                at += 1
                if time.monotonic() > until:
                    break
    seconds = time.monotonic() - begun
    shares = f"{at:,}", f"{refused / max(at, 1):.0%}", f"{seconds:.0f}"
    return name, *shares, f"{slowest:.1f} s", f"{memory / 2**20:.0f} MB", findings


Result = tuple[str | None, float, int, bool]
"""What is wrong with a case (None where it is well), its seconds and bytes, whether the file was taken."""


def watched(name: str, folder: Path, cases: range, seed: int) -> Iterator[Result]:
    """The results of a process of its own, in order. Where it dies or says nothing for too long, the case
    that it was at is the last one; it is gone afterwards.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(name, folder, cases, seed, theirs), daemon=True)
    process.start()
    theirs.close()
    patience = LOADING
    try:
        for _ in cases:
            try:
                if not ours.poll(patience):
                    yield "hangs", 0.0, 0, True
                    return
                yield ours.recv()
            except EOFError:
                process.join(1)
                yield f"dies with code {process.exitcode}", 0.0, 0, True
                return
            patience = SECONDS + ALARM
    finally:
        process.kill()
        process.join()


def keep(name: str, folder: Path, found: Path, number: int, message: str) -> int:
    """Save the file of a finding, and print what it is."""
    found.mkdir(exist_ok=True)
    path = found / f"{name}-{number}{TARGETS[name].suffix}"
    with contextlib.suppress(OSError):
        path.write_bytes((folder / f"case{TARGETS[name].suffix}").read_bytes())
    print(f"{path}: {message}", flush=True)
    return 1


def work(name: str, folder: Path, cases: range, seed: int, results: Connection) -> None:
    """Run cases and send of each how it went. A case is a function of seed, target and number."""
    for output in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    target = TARGETS[name]
    corpus = [path.read_bytes() for path in sorted((folder / "corpus").iterdir())]
    path = folder / f"case{target.suffix}"
    path.write_bytes(corpus[0])
    with contextlib.suppress(Exception):
        target.run(path)  # compile, import and warm up before memory is measured
    cap_memory(4 * MORE)
    for number in cases:
        path.write_bytes(target.make(Random(f"{seed} {name} {number}"), corpus))
        reset_peak()
        before, start = memory("VmRSS"), time.monotonic()
        taken, message = attempt(target, path)
        took, more = time.monotonic() - start, memory("VmHWM") - before
        if message is None and took > SECONDS:
            message = f"takes {took:.0f} s"
        if message is None and more > MORE:
            message = f"takes {more >> 20} MB"
        results.send((message, took, more, taken))


def attempt(target: Target, path: Path) -> tuple[bool, str | None]:
    """Whether the file was taken, and None where the case is well, else what it raised, and where."""
    try:
        return target.run(path), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - finding out what is raised is what this is for
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "fuzz" not in f.filename]
        at = " ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[-3:])
        text = f"{type(error).__name__} at {at}: {error!s:.200}"
        return False, " ".join(text.encode("utf-8", "backslashreplace").decode().split())


def cap_memory(more: int) -> None:
    """Let an absurd allocation fail at once rather than fill the machine."""
    used = memory("VmSize")
    if used:
        resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))


def reset_peak() -> None:
    """Begin to measure peak memory anew (Linux; elsewhere the peak is that of the process)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def memory(field: str) -> int:
    """Bytes of this process, by the kernel's own name; 0 where it tells nothing."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def again(path: Path) -> None:
    """One file once more, with its traceback."""
    target = TARGETS[path.name.rsplit("-", 1)[0]]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"case{target.suffix}"
        copy.write_bytes(path.read_bytes())
        start = time.monotonic()
        target.run(copy)
    print(f"well, in {time.monotonic() - start:.1f} s")
