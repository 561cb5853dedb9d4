"""Crash matrix: `fmwem release` is killed at every named point and at random times, run again, and its books
are compared with what it drew.

    python scripts/crash [--quick|--full] [--random N] [--only WORDS] [-o FOLDER] [--plant NAME]
        [--ledger URI]

One process loads everything once; every trial is a fork of it that runs the real command line and ends as the
trial says: by SIGKILL, by abort (as native code would), by SIGTERM, ctrl-C, `MemoryError`, a full disk or an
unexpected error. After that, and after running it again, must hold:

- under the final names lies nothing, or a whole file; a manifest only beside the data whose sha256 it states;
- the ledger file says at least what was drawn (`truth`: every draw, noted by the trial before it is made),
  and its chain and its rows agree;
- the second run ends well, its manifest and the ledger agree on the cost to the last digit, and no draw but
  the last before the crash was made twice;
- a third run reuses the files and draws nothing.

`--ledger` keeps the books in that database, where the ledger is made anew for every trial. `--plant` breaks
the product on purpose (see PLANTS) and must end in violations. Exit code 1 where there are any.
"""

from __future__ import annotations

import argparse
import errno
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from crash.plants import PLANTS
from crash.trial import CASES, Hook, Trial
from factored_mwem import crashpoints as faults
from factored_mwem.accounting import conversion
from factored_mwem.kernels import warmup

ENDINGS = ("kill", "abort", "term", "ctrl-c", "memory", "disk", "unexpected")
QUICKLY = (
    ("declared", "kill", "after reserve", 1),
    ("declared", "kill", "half journalled", 3),
    ("declared", "kill", "after journal", 4),
    ("declared", "kill", "before manifest", 1),
    ("learnt", "kill", "before commit", 1),
    ("learnt", "kill", "before draw", 5),
    ("learnt", "kill", "sampling", 1),
    ("learnt", "kill", "after rename", 2),
    ("declared", "term", "before journal", 3),
    ("declared", "disk", "before rename", 2),
    ("declared", "memory", "before draw", 4),
    ("learnt", "abort", "before finish", 1),
)
"""The trials of a quick matrix."""
CODES = {"kill": -9, "abort": -6, "term": 143, "ctrl-c": 130, "memory": 4, "disk": 4, "unexpected": 1}


def end_as(ending: str) -> None:
    """End this process, or the run in it, as a crash would."""
    if ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "abort":
        os.abort()
    if ending in ("term", "ctrl-c"):
        os.kill(os.getpid(), signal.SIGTERM if ending == "term" else signal.SIGINT)
        time.sleep(0.2)  # the handler runs here
    if ending == "memory":
        raise MemoryError
    if ending == "disk":
        raise OSError(errno.ENOSPC, "No space left on device")
    raise RuntimeError("planted")


def at_point(point: str, nth: int, ending: str) -> Hook:
    """Ends the run when it comes to `point` for the nth time."""
    seen = Counter[str]()

    def hook(reached: str) -> None:
        seen[reached] += 1
        if reached == point and seen[reached] == nth:
            end_as(ending)

    return hook


@dataclass
class Result:
    """What a trial showed. `drawn`: before the crash; `twice`: draws made again; `extra`: what the books say
    beyond one release's cost.
    """

    struck: bool
    drawn: int
    twice: int = 0
    extra: float = 0.0
    violations: list[str] = field(default_factory=list)


class Setting(NamedTuple):
    """What all trials share: a planted bug, and the database of the ledger."""

    plant: str | None
    database: str | None


def try_out(
    folder: Path, case: str, hook: Hook, setting: Setting, *, expected: int, kill_after: float = 0.0
) -> Result:
    """A crash, the same command again, and again."""
    trial, plant = Trial.of(folder, case, setting.database), setting.plant
    code, line = trial.fork(hook, kill_after=kill_after, plant=plant)
    found = Result(code != 0, trial.draws, violations=trial.visible() + trial.booked())
    wrong = found.violations
    if code not in (0, expected):
        wrong.append(f"exit code {code} for {expected}")
    if code > 0:
        wrong += told_wrong(code, line, found.drawn)
    code, _ = trial.fork(plant=plant)
    if code != 0:
        wrong.append(f"the second run ends with {code}: {(folder / 'stderr').read_text()[-300:]}")
        return found
    found.twice, found.extra, more = trial.agreed()
    wrong += (
        trial.visible()
        + more
        + ([f"{found.twice} draws were made twice"] if found.twice > (found.drawn > 0) else [])
    )
    drawn = trial.draws
    code, line = trial.fork(plant=plant)
    wrong += (
        []
        if code == 0 and line.get("reused") is True and trial.draws == drawn
        else ["the third run was no reuse"]
    )
    return found


def told_wrong(code: int, line: dict[str, object], drawn: int) -> list[str]:
    """What the JSON line of a failure says against the truth."""
    goes_on = line.get("retryable") is True or "same run id goes on" in str(
        line.get("advice")
    )  # where memory was too little: with less to do
    right = line.get("exit_code") == code and (not drawn or (line.get("budget_spent") is True and goes_on))
    return [] if right else [f"the line says {line}"]


class Death(NamedTuple):
    """How a trial's first run ends: when it reaches `point` for the nth time."""

    case: str
    ending: str
    point: str
    nth: int


def deaths(quick: bool) -> Iterator[Death]:
    """All trials at named points."""
    if quick:
        yield from itertools.starmap(Death, QUICKLY)
        return
    for case in CASES:
        for point in faults.POINTS:
            yield from (Death(case, "kill", point, nth) for nth in (1, 2, 3, 7))
            yield from (Death(case, ending, point, 1) for ending in ENDINGS[1:])


def duration(folder: Path, case: str, setting: Setting) -> float:
    """Seconds of an undisturbed run, for random moments to be drawn from."""
    trial, start = Trial.of(folder, case, setting.database), time.monotonic()
    code, _ = trial.fork()
    assert code == 0, (folder / "stderr").read_text()
    return time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="twelve trials")
    parser.add_argument("--full", action="store_true", help="every point, every ending, 200 random moments")
    parser.add_argument("--random", type=int, help="trials at random moments")
    parser.add_argument("--only", default="", help="trials whose name holds this")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="break the product on purpose")
    parser.add_argument("-o", "--output", type=Path, help="folder for crash.json")
    parser.add_argument("--ledger", metavar="URI", help="a database for the ledger")
    given = parser.parse_args()
    setting = Setting(given.plant, given.ledger)
    conversion.load_opendp()
    warmup.warm_up()
    warmup.compile_all(name for half in warmup.HALVES for name in half)
    moments = given.random if given.random is not None else 0 if given.quick else 200
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory() as root:
        for number, (case, ending, point, nth) in enumerate(deaths(given.quick)):
            name = f"{case}, {ending}, {point} #{nth}"
            if given.only in name:
                (folder := Path(root, str(number))).mkdir()
                results[name] = try_out(
                    folder, case, at_point(point, nth, ending), setting, expected=CODES[ending]
                )
        for case in CASES if moments else ():
            (folder := Path(root, f"{case}-time")).mkdir()
            whole = duration(folder, case, setting)
            for number in range(moments // len(CASES)):
                (folder := Path(root, f"{case}-{number}")).mkdir()
                moment = random.uniform(0.005, whole)
                results[f"{case}, kill, random #{number}"] = try_out(
                    folder, case, lambda _: None, setting, expected=-9, kill_after=moment
                )
    report(results, given.output)


def report(results: dict[str, Result], folder: Path | None) -> None:
    """Print the violations, a table by point and a line of JSON; write all of it; end with 1 where there are
    violations.
    """
    for name, result in results.items():
        if result.violations:
            print(f"{name}: {'; '.join(result.violations)}")
    rows: dict[str, list[Result]] = {}
    for name, result in results.items():
        rows.setdefault(name.split(", ")[2].split(" #")[0], []).append(result)
    lines = [
        "| died at | trials | struck | draws before | drawn twice, at most | extra spend | violations |",
        "|---|---|---|---|---|---|---|",
    ]
    for point, group in rows.items():
        drawn = f"{min(r.drawn for r in group)} to {max(r.drawn for r in group)}"
        bad, struck = sum(bool(r.violations) for r in group), sum(r.struck for r in group)
        lines.append(
            f"| {point} | {len(group)} | {struck} | {drawn} | {max(r.twice for r in group)} | "
            f"{max(r.extra for r in group):g} | {bad} |"
        )
    facts = {
        "trials": len(results),
        "struck": sum(r.struck for r in results.values()),
        "violations": sum(bool(r.violations) for r in results.values()),
        "by_ending": Counter(name.split(", ")[1] for name in results),
    }
    print("\n".join([*lines, json.dumps(facts)]))
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "crash.md").write_text("\n".join(lines) + "\n")
        (folder / "crash.json").write_text(
            json.dumps({**facts, "results": {name: asdict(r) for name, r in results.items()}}, indent=1)
        )
    sys.exit(1 if facts["violations"] else 0)
