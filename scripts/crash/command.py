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

import errno
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from common.runner import markdown, parse

from crash.trial import CASES, Hook, Trial
from factored_mwem.accounting import conversion
from factored_mwem.files import crashpoints as faults
from factored_mwem.kernels import warmup

CODES = {"kill": -9, "abort": -6, "term": 143, "ctrl-c": 130, "memory": 4, "disk": 4, "unexpected": 1}
"""Exit codes, or minus the signal, by what ends a run."""


class Death(NamedTuple):
    """How a trial's first run ends: when it reaches `point` for the nth time."""

    case: str
    ending: str
    point: str
    nth: int = 1


QUICKLY = (
    Death("declared", "kill", "after reserve"),
    Death("declared", "kill", "half journalled", 3),
    Death("declared", "kill", "after journal", 4),
    Death("declared", "kill", "before manifest"),
    Death("learnt", "kill", "before commit"),
    Death("learnt", "kill", "before draw", 5),
    Death("learnt", "kill", "sampling"),
    Death("learnt", "kill", "after rename", 2),
    Death("declared", "term", "before journal", 3),
    Death("declared", "disk", "before rename", 2),
    Death("declared", "memory", "before draw", 4),
    Death("learnt", "abort", "before finish"),
)
FULLY = tuple(
    Death(case, ending, point, nth)
    for case in CASES
    for point in faults.POINTS
    for ending in CODES
    for nth in ((1, 2, 3, 7) if ending == "kill" else (1,))
)


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


def at_point(death: Death) -> Hook:
    """Ends the run when it comes to the point for the nth time."""
    seen = Counter[str]()

    def hook(reached: str) -> None:
        seen[reached] += 1
        if reached == death.point and seen[reached] == death.nth:
            end_as(death.ending)

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


def try_out(trial: Trial, hook: Hook, plant: str | None, *, expected: int, kill_after: float = 0.0) -> Result:
    """A crash, the same command again, and again."""
    code, line = trial.fork(hook, kill_after=kill_after, plant=plant)
    result = Result(code != 0, trial.draws, violations=trial.visible() + trial.booked())
    wrong = result.violations
    if code not in (0, expected):
        wrong.append(f"exit code {code} for {expected}")
    if code > 0 and not line_is_right(code, line, result.drawn):
        wrong.append(f"the line says {line}")
    code, _ = trial.fork(plant=plant)
    if code != 0:
        wrong.append(f"the second run ends with {code}: {(trial.folder / 'stderr').read_text()[-300:]}")
        return result
    result.twice, result.extra, more = trial.agreed()
    wrong += trial.visible() + more
    if result.twice > (result.drawn > 0):
        wrong.append(f"{result.twice} draws were made twice")
    drawn = trial.draws
    code, line = trial.fork(plant=plant)
    if code != 0 or line.get("reused") is not True or trial.draws != drawn:
        wrong.append("the third run was no reuse")
    return result


def line_is_right(code: int, line: dict[str, object], drawn: int) -> bool:
    """Whether the JSON line of a failure says what is true."""
    # where memory was too little, the run goes on with less to do
    goes_on = line.get("retryable") is True or "same run id goes on" in str(line.get("advice"))
    return line.get("exit_code") == code and (not drawn or (line.get("budget_spent") is True and goes_on))


@dataclass(frozen=True, kw_only=True)
class Crash:
    quick: Annotated[bool, "twelve trials"] = False
    full: Annotated[bool, "every point, every ending, 200 random moments"] = False
    random: Annotated[int | None, "trials at random moments"] = None
    only: Annotated[str, "trials whose name holds this"] = ""
    plant: Literal["uncommitted", "no-journal", "refund", "late-books", "in-place"] | None = None
    output: Annotated[Path | None, "folder for crash.json"] = None
    ledger: Annotated[str | None, "a database for the ledger"] = None


def main() -> None:
    options = parse(Crash, __doc__, "crash")
    conversion.load_opendp()
    warmup.warm_up()
    warmup.compile_all(name for half in warmup.HALVES for name in half)
    moments = options.random if options.random is not None else 0 if options.quick else 200
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory() as root:
        for death in QUICKLY if options.quick else FULLY:
            name = f"{death.case}, {death.ending}, {death.point} #{death.nth}"
            if options.only in name:
                trial = Trial.of(Path(root, str(len(results))), death.case, options.ledger)
                results[name] = try_out(trial, at_point(death), options.plant, expected=CODES[death.ending])
        for case in CASES if moments else ():
            trial, start = Trial.of(Path(root, f"{case}-time"), case, options.ledger), time.monotonic()
            assert trial.fork()[0] == 0, (trial.folder / "stderr").read_text()
            whole = time.monotonic() - start
            for number in range(moments // len(CASES)):
                trial, moment = (
                    Trial.of(Path(root, f"{case}-{number}"), case, options.ledger),
                    random.uniform(0.005, whole),
                )
                results[f"{case}, kill, random #{number}"] = try_out(
                    trial, lambda _: None, options.plant, expected=-9, kill_after=moment
                )
    report(results, options.output)


def report(results: dict[str, Result], folder: Path | None) -> None:
    """Print the violations, a table by point and a line of JSON; write all of it; end with 1 where there are
    violations.
    """
    rows: dict[str, list[Result]] = {}
    for name, result in results.items():
        rows.setdefault(name.split(", ")[2].split(" #")[0], []).append(result)
        if result.violations:
            print(f"{name}: {'; '.join(result.violations)}")
    lines = []
    for point, group in rows.items():
        drawn, struck = sorted(r.drawn for r in group), sum(r.struck for r in group)
        twice, extra = (max(getattr(r, name) for r in group) for name in ("twice", "extra"))
        bad = sum(bool(r.violations) for r in group)
        lines.append((point, len(group), struck, f"{drawn[0]} to {drawn[-1]}", twice, f"{extra:g}", bad))
    facts = {
        "trials": len(results),
        "struck": sum(r.struck for r in results.values()),
        "violations": sum(bool(r.violations) for r in results.values()),
        "by_ending": Counter(name.split(", ")[1] for name in results),
    }
    head = "died at | trials | struck | draws before | drawn twice, at most | extra spend | violations"
    table = markdown(lines, head)
    print(table, json.dumps(facts), sep="\n")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "crash.md").write_text(f"{table}\n")
        every = {name: asdict(result) for name, result in results.items()}
        (folder / "crash.json").write_text(json.dumps({**facts, "results": every}, indent=1))
    sys.exit(1 if facts["violations"] else 0)
