"""Verify: NOT PRIVATE. Whether one person's rows move what a release shows by more than was charged.

The real mechanism runs on the owner's own table with real noise; its transcript is replayed on neighbours of
the table (`edits.py`), and what reached the sampler is compared draw by draw with what was charged
(`watch.py`, `comparison.py`). It is a search for mistakes, not a proof: everything it finds is a mistake, but
there may be others. Nothing of it may be published.

Neighbours of a table that is a file are files, too: copies of it, in a private folder that goes at the end;
what a killed run leaves, the next one removes.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.random import Generator

from factored_mwem.errors import Ambiguous, FmwemError, InputError, NothingLearnt
from factored_mwem.ledger.run import Run
from factored_mwem.owner.verifier.comparison import Finding
from factored_mwem.owner.verifier.edits import Base, Edit, Editing, based, edited
from factored_mwem.owner.verifier.sheet import Sheet, sheet_of
from factored_mwem.owner.verifier.tap import Tap, tapped
from factored_mwem.owner.verifier.watch import Parted, WatchedRelease
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.request.policy import Policy
from factored_mwem.request.promise import Terms
from factored_mwem.request.request import Options, Request
from factored_mwem.request.table import PrivateTable
from factored_mwem.tables.inputs.source import Private
from factored_mwem.workload.workload import Workload

SLACK = 2.0**-30
"""Losses and distances are sums of rounded floats: what uses up all of a charge may seem to use more."""
PAIRS_OF_A_BASE = 25
"""Neighbours of a base before another is drawn: its noise decides what is asked, so there should be many."""
FOLDER = "fmwem-verify-"
"""How the name of the folder of the neighbours begins; the process's number follows."""
MAX_FAILURES = 10
MAX_COMPARED_ROWS = 100
"""Synthetic rows."""


@dataclass(frozen=True, slots=True)
class VerifiedStage:
    """The draws of one stage."""

    name: str
    compared: int
    worst: float
    """The largest share of what was charged for one that was used up."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure: at which stage, for which neighbour of the table, and why."""

    stage: str
    neighbour: str
    why: str


@dataclass(frozen=True, slots=True)
class Verified:
    """NOT PRIVATE. The result of a verification: whether the promise held for the tested neighbours.

    >>> import pyarrow as pa
    >>> from factored_mwem import verify
    >>> verified = verify(pa.table({"age": [0, 1, 1] * 9}), 1, domain={"age": 2}, pairs=3)
    >>> verified.pairs, verified.failed, verified.worst < 1.001  # of what was charged
    (3, 0, True)
    """

    pairs: int
    draws: int
    stages: tuple[VerifiedStage, ...]
    refused: int
    """Neighbours of a text file refused before anything was drawn, as a record's end was not clear."""
    failed: int
    """All tables with a failure, that of a base run among them."""
    failures: tuple[Failure, ...]
    """The first of them."""

    @property
    def holds(self) -> bool:
        return not self.failed

    @property
    def worst(self) -> float:
        """The worst ratio of all stages; 1 is all that was charged."""
        return max((stage.worst for stage in self.stages), default=0.0)

    @property
    def facts(self) -> dict[str, Any]:
        """The same as JSON; null for a ratio that is infinite."""
        facts = asdict(self)
        for stage in facts["stages"]:
            stage["worst"] = stage["worst"] if math.isfinite(stage["worst"]) else None
        return {"private": False, "holds": self.holds, **facts, "stages": list(facts["stages"])}


def verify(
    table: Any,
    workload: Workload | int,
    policy: Policy | None = None,
    *,
    pairs: int = 100,
    seed: int | None = None,
    report: Callable[[int], None] = lambda _: None,
    **options: Unpack[Options],
) -> Verified:
    """NOT PRIVATE. Whether `pairs` neighbours of the table, one person apart, keep a release's promise.

    The arguments are those of `release`. `seed` decides which neighbours, not the noise, which has none.
    While it runs, no other thread should release anything. `report` is called after every pair. Raises the
    same errors as a release of the table itself.
    Copies of a table that is a file go to a private folder in TMPDIR, removed at the end; a killed run leaves
    it, and the next one removes it.

    >>> import pyarrow as pa
    >>> from factored_mwem import verify
    >>> verify(pa.table({"age": [0, 1, 1] * 9}), 1, domain={"age": 2}, pairs=3).holds
    True
    """
    request = Request.of(table, workload, policy, **options)
    # criteria depend on noise, not on the draws: one try is checked, at its own price
    request = replace(request, promise=request.policy.model_copy(update={"accept": ()}))
    kept = ("domain", "columns", "rows", "public_columns", "public")
    own: dict[str, Any] = {name: value for name, value in options.items() if name in kept}

    def made(source: Any, run: Run) -> dict[str, Any]:
        again = request.sample_seed
        asked = Request.of(source, request.workload, request.policy, sample_seed=again, **own)
        return public(make(asked, run, lambda _: None))

    # Refuse what a release refuses, with the same message, before any neighbour is made.
    return searched(table, request, made, Search(pairs, seed, report))


class Search(NamedTuple):
    """How many neighbours are looked at, what `seed` decides which, and what hears of each."""

    pairs: int
    seed: int | None
    report: Callable[[int], None]


def searched(
    table: Any,
    request: PrivateTable,
    made: Callable[[Any, Run], dict[str, Any]],
    search: Search,
    edit: Editing = edited,
) -> Verified:
    """What replays on neighbours find. `made`: everything that is published of a table, made within a run;
    `edit` makes a neighbour.
    """
    if search.pairs < 1:
        raise InputError(f"pairs={search.pairs}: must be a whole number, 1 or more")
    rng = np.random.default_rng(search.seed)
    sweep()
    with tempfile.TemporaryDirectory(prefix=f"{FOLDER}{os.getpid()}-") as folder, tapped() as tap:
        made(table, WatchedRelease(tap, request.promise))
        sheet = sheet_of(table, request, Path(folder))
        rows = len(sheet.owners)
        if rows <= request.promise.contributions:
            raise InputError("the table has too few rows to have a neighbour")
        finder = _Comparison(request.promise, made, edit, sheet, rows, tap, rng)
        return finder.run(search.pairs, search.report)


def sweep() -> None:
    """Remove the copies of tables that killed runs of this user left in TMPDIR, by the process they name."""
    for left in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        process = re.fullmatch(rf"{FOLDER}([0-9]{{1,9}})-.*", left.name)
        if process is None:
            continue
        try:
            facts = os.lstat(left)
            os.kill(int(process[1]), 0)
        except ProcessLookupError:
            if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid():
                shutil.rmtree(left, ignore_errors=True)
        except OSError:
            continue


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Transcript(Private):
    """A base run, and what it would have published."""

    run: WatchedRelease
    public: dict[str, Any]


@dataclass(slots=True, eq=False, repr=False)
class Comparing(Private):
    """The pairs so far, and what was found."""

    stages: dict[str, list[float]] = field(default_factory=dict, kw_only=True)
    failures: list[Failure] = field(default_factory=list, kw_only=True)
    pairs: int = field(default=0, kw_only=True)
    draws: int = field(default=0, kw_only=True)
    refused: int = field(default=0, kw_only=True)
    failed: int = field(default=0, kw_only=True)

    @property
    def verified(self) -> Verified:
        stages = tuple(
            VerifiedStage(name, int(count), worst) for name, (count, worst) in sorted(self.stages.items())
        )
        return Verified(self.pairs, self.draws, stages, self.refused, self.failed, tuple(self.failures))

    def _note(self, findings: Sequence[Finding], words: str, more: Sequence[Failure] = ()) -> None:
        """Count the findings of a run; those beyond what was charged are failures."""
        wrong = []
        for finding in findings:
            tally = self.stages.setdefault(finding.stage, [0, 0.0])
            tally[0] += 1
            tally[1] = max(tally[1], finding.ratio)
            if not finding.ratio <= 1 + SLACK:
                why = finding.wrong or f"moved by {finding.ratio:.6g} times what was charged"
                wrong.append(Failure(finding.stage, words, why))
        self.draws += len(findings)
        self._fail([*wrong, *more])

    def _fail(self, failures: Sequence[Failure]) -> None:
        if failures:
            self.failed += 1
            if len(self.failures) < MAX_FAILURES:
                self.failures.append(failures[0])


@dataclass(slots=True, eq=False, repr=False)
class _Comparison(Comparing):
    """Of a single table."""

    promise: Terms
    made: Callable[[Any, Run], dict[str, Any]]
    edit: Editing
    sheet: Sheet
    rows: int
    tap: Tap
    rng: Generator

    def run(self, pairs: int, report: Callable[[int], None]) -> Verified:
        primed = False
        while self.pairs < pairs:
            base = based(self.sheet, self.rows, self.promise, self.rng, primed=primed)
            try:
                transcript = self._begin(base, primed)
            except NothingLearnt:  # the table holds rows of ours: noise hides most of it
                if not primed:
                    raise
                primed = False
                continue
            for _ in range(min(PAIRS_OF_A_BASE, pairs - self.pairs)):
                if transcript is not None:
                    self._compare(transcript, base.sheet, self.edit(base, self.rng))
                self.pairs += 1
                report(self.pairs)
            primed = not primed
        return self.verified

    def _begin(self, base: Base, primed: bool) -> _Transcript | None:
        """The base run. None if a primed table cannot be released: a failure, for the table itself can."""
        run, source = WatchedRelease(self.tap, self.promise), base.sheet.source(base.order)
        try:
            shown = self.made(source, run)
        except Exception as error:
            if not primed or isinstance(error, MemoryError | NothingLearnt):
                raise
            self._fail([Failure("reading", "the table with hostile rows in it", _refusal(error))])
            return None
        self._note(run.findings, "the table itself")
        return _Transcript(run, shown)

    def _compare(self, base: _Transcript, sheet: Sheet, edit: Edit) -> None:
        """One pair: the neighbour goes the base run's way to its end, or the pair fails."""
        run, source = WatchedRelease(self.tap, self.promise, base.run), sheet.source(edit.order)
        try:
            shown = self.made(source, run)
        except Parted:
            self._note(run.findings, edit.words)
        except Ambiguous as error:
            if run.draws or self.promise.records != "checked":
                self._fail([Failure("reading", edit.words, _refusal(error))])
            else:
                self.refused += 1
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it did not happen on the base
            self._note(run.findings, edit.words, [Failure("release", edit.words, _refusal(error))])
        else:
            different = [name for name, value in base.public.items() if shown[name] != value]
            why = [f"the released {name} depends on one person's rows" for name in different]
            self._note(run.findings, edit.words, [Failure("release", edit.words, w) for w in why])


def public(release: Release) -> dict[str, Any]:
    """Everything that a release publishes, by name, and some rows drawn from it."""
    rows = min(release.rows, MAX_COMPARED_ROWS)
    return {
        "schema": release.schema.serialize().to_pybytes(),
        "domain": release.domain.to_dict(),
        "manifest": release.manifest.model_dump_json(),
        "number of rows": release.rows,
        "synthetic rows": repr(release.sample(rows, seed=0).to_pylist()),
    }


def _refusal(error: Exception) -> str:
    text = f"an unexpected {type(error).__name__}"
    if isinstance(error, FmwemError):
        text = re.sub(rf"\S*{FOLDER}[^/]*/", "", str(error))
    return f"one person's row decides whether there is a release: {text}"
