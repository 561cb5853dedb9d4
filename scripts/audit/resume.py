"""The checks of resumption: what dies at several places and goes on each time, and all that was ever on disk
beside what it ends with.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from audit.check import Check, Seen, facts_of, stage
from audit.draws import Call, Witness
from audit.releases import MWEM, VERSIONS, Case, seen_in
from audit.stages import ADD_REMOVE, BUDGET, ONE, PURE, coded, worst
from factored_mwem import Cap, LedgerFile, Release, Workload
from factored_mwem.accounting.accountant import Accountant
from factored_mwem.files import crashpoints as faults
from factored_mwem.ledger.journal import CODE_BYTES, HEAD, MAGIC, Journaled
from factored_mwem.ledger.journal_folder import JournalFile
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.pipeline.release import make, spending_of
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.noise import Noise
from factored_mwem.privacy.session import Session
from factored_mwem.request.request import Request

NAME, ID = "table", "audit"
CRASHES = (("after journal", "rows"), ("before journal", "choice"), *[("after journal", "table")] * 3)
"""Where each attempt dies: at a point of the run, when the last that was drawn is such; the attempt after the
last one ends well.

The draw that dies before it is journaled reaches no disk: nobody sees it, and it is made again. A run that
keeps its word draws its table once, so that the attempts after that end well, too, and must end in the same
release.
"""
NOTE = (
    "what is seen: every record of the journal after every crash, and the release; torn records, which are "
    "cut off, are not among it"
)


class Crash(BaseException):
    """The process ends here, or as near to that as one process can come."""


@cache
def shelf() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory where there is one: a run writes a ledger and a journal at every draw."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)


@cache
def pristine() -> Path:
    """A ledger with a dataset and nothing spent, to be copied for each run."""
    path = Path(shelf().name) / "pristine.fmwl"
    LedgerFile.create(path).add(NAME, Cap(Fraction(1000), Fraction(0)), ADD_REMOVE, 1)
    return path


def resume_checks() -> list[Check]:
    """measure under a journal, and a release under a run id."""
    case = Case("resumed after crashes", Workload.marginals(2), MWEM, share=0.4, note=NOTE)
    budget = BUDGET[PURE]
    return [
        stage("measure rows, resumed twice", budget, ONE, coded(worst(ONE)), journaled, share=0.25),
        case.check(resumed),
    ]


def resumed(request: Request, noise: Noise) -> Seen:
    """A release that dies at every place in CRASHES and goes on."""
    written: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=shelf().name) as folder, VERSIONS:
        ledger = Path(folder) / "ledger.fmwl"
        shutil.copyfile(pristine(), ledger)
        for attempt, place in enumerate((*CRASHES, None)):
            release = attempted(request, ledger, noise, place)
            (journal,) = ledger.with_name(f"{ledger.name}.journals").glob("*.journal")
            written |= {f"journal {attempt}.{i}": record for i, record in enumerate(records(journal))}
    assert release is not None
    seen = seen_in(release)
    look = seen.look
    seen.look = lambda: facts_of(written) | look()
    return seen


def journaled(rows: PrivateRows, session: Session) -> dict[str, Any]:
    """measure by a process that dies after it, twice; all records count as seen."""
    written: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=shelf().name) as folder:
        path = Path(folder) / "a.journal"
        for attempt in range(3):
            last = attempt == 2
            accountant = session.accountant if last else Accountant(session.accountant.budget)
            with closing(JournalFile(path, b"key")) as journal:
                if journal.header is None:
                    journal.begin({})
                noise = Journaled(session.noise, journal, accountant, complete=False)
                again = Session(accountant, session.unit, noise)
                noisy = again.measure(rows, (), cost=accountant.budget.amount).noisy
            if not last:
                written |= {f"record {attempt}.{i}": record for i, record in enumerate(records(path))}
    return {**written, "noisy": noisy}


def attempted(request: Request, ledger: Path, noise: Noise, place: tuple[str, str] | None) -> Release | None:
    """The release, or None where the attempt died."""
    try:
        with (
            dying(noise, place),
            Run.begin(spending_of(request), Booking(ledger, NAME, ID), version="audit") as run,
        ):
            release = make(request, run, noise=noise)
            run.finish()
        return release
    except Crash:
        return None


@contextmanager
def dying(noise: Noise, place: tuple[str, str] | None) -> Iterator[None]:
    """The run dies when it comes to this point right after such a draw; a draw that is then not journaled was
    seen by nobody.
    """
    assert isinstance(noise, Witness)
    calls = noise.calls

    def hook(point: str) -> None:
        if calls and (point, kind_of(calls[-1])) == place:
            if point == "before journal":
                calls[-1].seen = False
            raise Crash

    with mock.patch.object(faults, "hook", hook):
        yield


def kind_of(call: Call) -> str:
    """What a call draws: a choice, a number of rows, or a table."""
    return "choice" if call.method == "select" else "rows" if len(call.private) == 1 else "table"


def records(path: Path) -> list[np.ndarray]:
    """The numbers of every whole record in a journal, as its file holds them; room beyond them is empty."""
    data, at, drawn = path.read_bytes(), 0, []
    while data[at : at + len(MAGIC)] == MAGIC:
        length = HEAD.unpack_from(data, at)[2]
        line, _, numbers = data[at + HEAD.size : at + HEAD.size + length].partition(b"\n")
        if json.loads(line).get("draw"):
            drawn.append(np.frombuffer(numbers, dtype="<i8"))
        at += HEAD.size + length + CODE_BYTES
    return drawn
