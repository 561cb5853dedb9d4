"""Hostile input in bulk, for every parser: tables, domains, workloads, configurations, models, ledgers,
journals.

    python scripts/fuzz                            # 1,000 cases each
    python scripts/fuzz --cases 20000 csv model
    python scripts/fuzz --seconds 600 --seed 7
    python scripts/fuzz --again found/model-123.fmwem
    python scripts/fuzz --atheris domain           # coverage-guided, where atheris is installed

A case is well where the parser returns, or raises FmwemError in one line, within SECONDS and MORE bytes of
memory. Cases run in a process of their own, which is stopped and started again where it hangs or dies. What
is not well is written to a folder (`--found`), and its message printed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import pkgutil
import resource
import select
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random

SECONDS = 10.0
MORE = 2**30
"""Bytes that one case may take beside what the process had before."""
ALARM = 5.0
"""Seconds after SECONDS until a process that does not answer is killed."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--cases", type=int, default=1000, help="of each target")
    parser.add_argument("--seconds", type=float, help="of each target, instead of a number of cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"), help="folder for what is not well")
    parser.add_argument("--again", type=Path, help="run one file that was found")
    parser.add_argument("--atheris", action="store_true")
    parser.add_argument("--worker", nargs=3, metavar=("FOLDER", "FIRST", "LAST"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(
            options.targets[0],
            Path(options.worker[0]),
            int(options.worker[1]),
            int(options.worker[2]),
            options.seed,
        )
    elif options.atheris:
        guided(options.targets)
    elif options.again:
        again(options.again)
    else:
        from fuzz.targets import TARGETS

        unknown = set(options.targets) - set(TARGETS)
        if unknown:
            parser.error(f"no target {unknown.pop()!r}; there are {', '.join(TARGETS)}")
        print("target         cases  refused  seconds  slowest  memory  findings")
        found = sum(bulk(name, options) for name in options.targets or TARGETS)
        sys.exit(1 if found else 0)


def bulk(name: str, options: argparse.Namespace) -> int:
    """All cases of a target, in processes that are watched; the number of findings."""
    last = options.cases if options.seconds is None else 10**9
    begun, at, findings, slowest, memory, refused = time.monotonic(), 0, 0, 0.0, 0, 0
    until = begun + options.seconds if options.seconds is not None else float("inf")
    with tempfile.TemporaryDirectory() as folder:
        prepare(name, Path(folder))
        while at < last and time.monotonic() < until:
            with watched(name, Path(folder), at, last, options.seed) as (process, lines):
                for line in lines:
                    kind, number, *rest = line.split("\t")
                    if kind == "well":
                        slowest, memory, refused = (
                            max(slowest, float(rest[0])),
                            max(memory, int(rest[1])),
                            refused + int(rest[2]),
                        )
                    if kind != "begin":
                        findings += kind == "bad" and keep(
                            name, Path(folder), options.found, int(number), rest[0]
                        )
                        at = int(number) + 1
                    if time.monotonic() > until:
                        break
                else:
                    if at < last:  # it died or hung in the middle of a case
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            process.wait(1)
                        message = (
                            "hangs" if process.returncode is None else f"dies with code {process.returncode}"
                        )
                        findings += keep(name, Path(folder), options.found, at, message)
                        at += 1
    seconds = time.monotonic() - begun
    print(
        f"{name:14} {at:6,} {refused / max(at, 1):7.0%} {seconds:8.0f} {slowest:7.1f}s "
        f"{memory / 2**20:5.0f}MB {findings:9}",
        flush=True,
    )
    return findings


def prepare(name: str, folder: Path) -> None:
    """The valid files of a target, made once, so that all its processes start from the same."""
    from fuzz.targets import TARGETS

    (folder / "corpus").mkdir()
    for number, data in enumerate(TARGETS[name].corpus(folder)):
        (folder / "corpus" / str(number)).write_bytes(data)


@contextlib.contextmanager
def watched(name: str, folder: Path, first: int, last: int, seed: int):  # type: ignore[no-untyped-def]
    """A working process and the lines that it says, until it ends, or says nothing for too long; it is gone
    afterwards.
    """
    command = [
        sys.executable,
        str(Path(__file__).parent),
        name,
        "--seed",
        str(seed),
        "--worker",
        str(folder),
        str(first),
        str(last),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    handle = process.stdout.fileno()

    def lines():  # type: ignore[no-untyped-def]
        rest, patience = b"", 120.0  # it has to load everything first
        while select.select([handle], [], [], patience)[0] and (part := os.read(handle, 65536)):
            *whole, rest = (rest + part).split(b"\n")
            yield from (line.decode() for line in whole)
            patience = SECONDS + ALARM

    try:
        yield process, lines()
    finally:
        process.kill()
        process.wait()


def keep(name: str, folder: Path, found: Path, number: int, message: str) -> int:
    """Save the file of a finding, and say what it is."""
    from fuzz.targets import TARGETS

    found.mkdir(exist_ok=True)
    path = found / f"{name}-{number}{TARGETS[name].suffix}"
    with contextlib.suppress(OSError):
        path.write_bytes((folder / f"case{TARGETS[name].suffix}").read_bytes())
    print(f"{path}: {message}", flush=True)
    return 1


def work(name: str, folder: Path, first: int, last: int, seed: int) -> None:
    """Run cases and say of each how it went. A case is a function of seed, target and number."""
    from fuzz.targets import TARGETS

    target = TARGETS[name]
    corpus = [path.read_bytes() for path in sorted((folder / "corpus").iterdir())]
    path = folder / f"case{target.suffix}"
    path.write_bytes(corpus[0])
    with contextlib.suppress(Exception):
        target.run(path)  # compile, import and warm up before memory is measured
    cap_memory(4 * MORE)
    for number in range(first, last):
        path.write_bytes(target.make(Random(f"{seed} {name} {number}"), corpus))
        reset_peak()
        before, start = memory("VmRSS"), time.monotonic()
        taken, message = attempt(name, path)
        took, more = time.monotonic() - start, memory("VmHWM") - before
        if message is None and took > SECONDS:
            message = f"takes {took:.0f} s"
        if message is None and more > MORE:
            message = f"takes {more >> 20} MB"
        line = (
            f"well\t{number}\t{took:.3f}\t{more}\t{int(not taken)}"
            if message is None
            else f"bad\t{number}\t{message}"
        )
        os.write(1, line.encode("utf-8", "backslashreplace") + b"\n")


def attempt(name: str, path: Path) -> tuple[bool, str | None]:
    """Whether the file was taken, and None where the case is well, else what it raised, and where."""
    from fuzz.targets import TARGETS

    try:
        return TARGETS[name].run(path), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - finding out what is raised is what this is for
        at = [
            f"{Path(f.filename).name}:{f.lineno}"
            for f in traceback.extract_tb(error.__traceback__)
            if "fuzz" not in f.filename
        ]
        return False, " ".join(f"{type(error).__name__} at {' '.join(at[-3:])}: {error!s:.200}".split())


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
    from fuzz.targets import TARGETS

    target = TARGETS[
        path.name.split("-")[0] if path.name.split("-")[0] in TARGETS else path.name.rsplit("-", 1)[0]
    ]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"case{target.suffix}"
        copy.write_bytes(path.read_bytes())
        start = time.monotonic()
        target.run(copy)
    print(f"well, in {time.monotonic() - start:.1f} s")


def guided(names: list[str]) -> None:
    """Coverage-guided, until stopped: libFuzzer's own options go behind `--`, such as --
    -max_total_time=60.
    """
    import atheris  # type: ignore[import-not-found]

    from factored_mwem import kernels

    for kernel in pkgutil.iter_modules(kernels.__path__, "factored_mwem.kernels."):
        importlib.import_module(
            kernel.name
        )  # as they are: they could not be compiled with what is built in to see where a case goes
    with atheris.instrument_imports(include=["factored_mwem", "tomllib", "zipfile"]):
        from fuzz.targets import TARGETS
    target = TARGETS[names[0]]
    folder = Path(tempfile.mkdtemp())
    prepare(names[0], folder)
    corpus = [path.read_bytes() for path in sorted((folder / "corpus").iterdir())]
    path = folder / f"case{target.suffix}"

    def one(data: bytes) -> None:
        path.write_bytes(data)
        target.run(path)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.3:
            with contextlib.suppress(Exception):  # a maker may need whole files, and `data` be none
                return target.make(random, [*corpus, data])[:most]
        return atheris.Mutate(data, most)

    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    atheris.Setup(
        [
            sys.argv[0],
            str(folder / "corpus"),
            f"-timeout={SECONDS:.0f}",
            f"-rss_limit_mb={4 * MORE >> 20}",
            *sys.argv[at + 1 :],
        ],
        one,
        custom_mutator=mutate,
    )
    atheris.Fuzz()
