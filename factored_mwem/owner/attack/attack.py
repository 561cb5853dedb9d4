"""Attack: NOT PRIVATE. How much releases like this one tell about single people, by attacking them.

Shadow releases: for each of a few people, an outlier or about average, the table is released again and again
with that person and without, with real noise, and every score (`scores.py`) that an attacker who knows all
others can compute is compared between the two (leave-one-out). Canaries in one run: many people are put in or
left out by coins of their own, all at once, and guessed from one release. A search is no proof: what it finds
was promised not to be there, but more may be there. Nothing of it may be published.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Unpack

import numpy as np
from numpy.random import Generator

from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.membership import advantage_of_budget
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import InputError
from factored_mwem.owner.attack.bounds import judge, one_run, search
from factored_mwem.owner.attack.result import FAILURE, KINDS, Attack, Effort, Score
from factored_mwem.owner.attack.scores import SCORES, Aim, AttackedRelease, Pool
from factored_mwem.owner.attack.seen import SeenScores
from factored_mwem.owner.evaluation.readings import read_columns
from factored_mwem.owner.verifier.sheet import Sheet, sheet_of
from factored_mwem.owner.verifier.verify import FOLDER, sweep
from factored_mwem.pipeline.release import make
from factored_mwem.request.data_package import is_descriptor
from factored_mwem.request.package import Package
from factored_mwem.request.policy import Policy
from factored_mwem.request.request import Options, Request
from factored_mwem.tables.inputs.source import Private
from factored_mwem.workload.workload import Workload

ONE_TABLE = "attack takes one table; fmwem attack takes a package of tables too"
CHOOSING = 0.9
"""The failure of the bounds by which a threshold is chosen, and which nobody sees."""


def attack(
    table: Any,
    workload: Workload | int,
    policy: Policy | None = None,
    *,
    effort: Effort | None = None,
    kept: Path | None = None,
    seed: int | None = None,
    report: Callable[[int, int], None] = lambda done, of: None,
    **options: Unpack[Options],
) -> Attack:
    """NOT PRIVATE. Attack releases of the table, and compare what that shows with what was promised.

    Arguments beside these are those of `release`. `kept`: a file to which every release's scores are added,
    from which an attack that was stopped goes on; it holds private facts. `seed` decides who is a target, not
    the noise, which has none. `report(done, of)` is called after every release. Nothing is entered in a
    ledger. Raises the same errors as a release of the table itself.

    >>> import pyarrow as pa
    >>> from factored_mwem import Effort, attack
    >>> ages = pa.table({"age": [0, 1, 1, 1] * 9})
    >>> attack(ages, 1, effort=Effort(releases=8, targets=1, canaries=8), domain={"age": 2}).holds
    True
    """
    effort = effort or Effort()
    if isinstance(table, Package) or is_descriptor(table):
        raise InputError(ONE_TABLE)
    request = Request.of(table, workload, policy, **options)
    # criteria depend on noise, not on the draws: one try is attacked, at its own price
    request = replace(request, promise=request.policy.model_copy(update={"accept": ()}))
    sweep()
    with tempfile.TemporaryDirectory(prefix=f"{FOLDER}{os.getpid()}-") as folder:
        sheet = sheet_of(table, request, Path(folder))
        seen = SeenScores.open(kept, request, effort, np.random.default_rng(seed).integers(2**62).item())
        rng = np.random.default_rng(seen.about("seed"))
        persons = taking_part(_persons(sheet, request.policy), effort, rng)
        order = sorted(row for person in persons for row in person)
        place = {row: at for at, row in enumerate(order)}
        persons = [tuple(place[row] for row in person) for person in persons]
        pool = _pool(_request_of(request, sheet.source(order)), effort, persons)
        shadow = _TableShadow(request, sheet, order, pool)
        attacker = Attacker(request.policy, request.budget, shadow, effort, seen, persons, rng)
        return attacker.run(report)


def taking_part(everybody: list[Any], effort: Effort, rng: Generator) -> list[Any]:
    """Those of `everybody` who take part, drawn at random. Raises InputError if they are too few."""
    some = everybody
    if effort.people and len(everybody) > effort.people:
        some = [everybody[i] for i in sorted(rng.choice(len(everybody), effort.people, replace=False))]
    if len(some) < 8 + 2 * effort.targets:
        raise InputError(f"{len(some)} people are too few for an attack on {effort.targets} of them")
    return some


class Attacked(Protocol):
    """A release before an attacker: what `AttackedRelease` says of rows, by number."""

    @property
    def own(self) -> np.ndarray: ...

    @property
    def rarity(self) -> np.ndarray: ...

    def scores(self, aims: Sequence[Aim]) -> list[list[float]]: ...

    def canaries(self, aims: Sequence[Aim]) -> np.ndarray: ...


class Shadow(Protocol):
    """What is released again and again."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the scores."""

    def attacked(self, rows: np.ndarray, present: np.ndarray) -> Attacked:
        """A release of `rows: int64`, by number, before one who takes those `present` to be there."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _TableShadow(Private):
    """`order`: the rows of the sheet that take part, by number."""

    request: Request
    sheet: Sheet
    order: list[int]
    pool: Pool
    names: tuple[str, ...] = SCORES

    def attacked(self, rows: np.ndarray, present: np.ndarray) -> AttackedRelease:
        source = self.sheet.source([self.order[row] for row in rows.tolist()])
        return AttackedRelease(make(_request_of(self.request, source)), self.pool, present)


@dataclass(slots=True, eq=False, repr=False)
class Attacker(Private):
    """`persons`: the numbers of each one's rows, from 0 on; `spare`: rows that are in no table but instead of
    others.
    """

    policy: Policy
    budget: Budget
    shadow: Shadow
    effort: Effort
    seen: SeenScores
    persons: list[tuple[int, ...]]
    rng: Generator
    aims: list[Aim] = field(default_factory=list)
    spare: set[int] = field(default_factory=set)

    def choose(self) -> None:
        """The targets: half of them the greatest outliers, the others nearest to the median."""
        if (known := self.seen.about("targets")) is None:
            everybody = self.shadow.attacked(np.arange(self.rows), np.arange(0))
            strange = everybody.rarity
            by_person = np.array([strange[list(rows)].mean() for rows in self.persons])
            ranked = np.argsort(-by_person)
            usual = np.argsort(np.abs(by_person - np.median(by_person)))
            first = [int(i) for i in ranked[: -(-self.effort.targets // 2)]]
            more = [int(i) for i in usual if i not in first][: self.effort.targets - len(first)]
            others = [i for i in self.rng.permutation(len(self.persons)).tolist() if i not in first + more]
            known = []
            for kind, some in (("outlier", first), ("average", more)):
                for i in some:
                    instead = self.persons[others.pop()] if self._exchanged else ()
                    known.append([kind, self._rows(i, everybody), instead])
            self.seen.add({"targets": known})
        self.aims = [Aim(kind, tuple(rows), tuple(instead)) for kind, rows, instead in known]
        self.spare = {row for aim in self.aims for row in aim.instead}

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(map(len, self.persons))

    @property
    def _exchanged(self) -> bool:
        return self.policy.neighbours is Neighbours.REPLACE

    def _rows(self, person: int, attacked: Attacked) -> tuple[int, ...]:
        """The rows of a target. Where nothing says whose rows are whose, the `contributions` most alike."""
        k, own = self.policy.contributions, self.persons[person]
        if self.policy.privacy_id is not None or k == 1 or self._exchanged:
            return own
        alike = (attacked.own != attacked.own[own[0]]).sum(axis=1)
        alike[own[0]] = -1
        return tuple(np.argsort(alike, kind="stable")[:k].tolist())

    def run(self, report: Callable[[int, int], None]) -> Attack:
        """Choose the targets, attack, and say what was found."""
        self.choose()
        worlds = [-1, *range(len(self.aims))]
        wanted = [(number, world) for number in range(self.effort.releases) for world in worlds]
        done = {world: len(self.seen.of_world(world)) for world in worlds}
        left = [world for number, world in wanted if number >= done[world]]
        steps = len(wanted) + (self.effort.canaries > 0)
        for at, world in enumerate(left):
            self.seen.add({"world": world, "scores": self._scores(world)})
            report(len(wanted) - len(left) + at + 1, steps)
        if self.effort.canaries and self.seen.about("canaries") is None:
            self.seen.add({"canaries": self._canaries()})
        report(steps, steps)
        found = self._found()
        self.seen.end(found.facts)
        return found

    def _all_in(self) -> np.ndarray:
        """The rows of the table in which all targets are."""
        return np.array([row for row in range(self.rows) if row not in self.spare], dtype=np.int64)

    def _scores(self, world: int) -> list[list[float]]:
        """The scores of all targets where all are in the table (world -1), else of the one that is out."""
        present = self._all_in()
        if world < 0:
            return self.shadow.attacked(present, present).scores(self.aims)
        aim = self.aims[world]
        others = [*np.setdiff1d(present, aim.rows).tolist(), *aim.instead]
        return self.shadow.attacked(np.array(sorted(others)), present).scores([aim])

    def _canaries(self) -> list[int]:
        """How many canaries there were, how many were guessed about, and how many rightly: of the half of
        them of whom an estimate says most, those with the highest are taken to be in, the lowest out.
        """
        size = 2 if self._exchanged else 1
        rng = np.random.default_rng()
        drawn = rng.permutation(len(self.persons)).tolist()
        many = min(self.effort.canaries, len(drawn) // (2 * size)) // 4 * 4
        sure, more = drawn[:many], drawn[many : size * many]
        rows = [self.persons[i] for i in more] or [()] * many
        aims = [Aim("canary", self.persons[i], instead) for i, instead in zip(sure, rows, strict=True)]
        undecided = [row for aim in aims for row in aim.rows + aim.instead]
        fixed = np.setdiff1d(np.arange(self.rows), undecided)
        inside = rng.random(many) < 0.5
        chosen = [aim.rows if isin else aim.instead for aim, isin in zip(aims, inside, strict=True)]
        table = np.array(sorted([*fixed.tolist(), *(row for rows in chosen for row in rows)]))
        ranked = np.argsort(self.shadow.attacked(table, fixed).canaries(aims))
        quarter = many // 4
        right = inside[ranked[many - quarter :]].sum() + (~inside[ranked[:quarter]]).sum()
        return [many, 2 * quarter, int(right)]

    def _found(self) -> Attack:
        import pandas as pd

        names, policy = self.shadow.names, self.policy
        many, guesses, right = self.seen.about("canaries") or (0, 0, 0)
        failure = FAILURE / (len(self.aims) * len(names) * len(KINDS) + 1)
        scores = []
        releases = self.effort.releases
        for i, aim in enumerate(self.aims):
            sides = (
                [line[0] for line in self.seen.of_world(i)],
                [line[i] for line in self.seen.of_world(-1)],
            )
            out, into = (pd.DataFrame(side[:releases], columns=[*names], dtype=float) for side in sides)
            for name in names:
                scores.append(_score(i, aim.kind, out[[name]], into[[name]], policy.delta, failure))
        bound = one_run(many, guesses, right, policy.delta, failure) if guesses else 0.0
        return Attack(
            policy.epsilon,
            policy.delta,
            advantage_of_budget(self.budget),
            len(self.persons),
            releases * (len(self.aims) + 1) + bool(many),
            tuple(scores),
            (many, guesses, right),
            bound,
        )


def _score(target: int, kind: str, out: Any, into: Any, delta: float, failure: float) -> Score:
    """A threshold is chosen by the releases of even numbers, and judged by the others."""
    chosen, judged = (out[::2], into[::2]), (out[1::2], into[1::2])
    events = {what: search(*chosen, what, delta, CHOOSING) for what in KINDS}
    epsilon, least = (judge(events[what], *judged, what, delta, failure) for what in KINDS)
    event = events["advantage"]
    shares = [event.happened(side[event.feature].to_numpy()) / len(side) for side in judged]
    advantage = (shares[1] - shares[0]) * (1 if event.forward else -1)
    return Score(target, kind, str(out.columns[0]), float(advantage), least, epsilon)


def _request_of(r: Request, source: Any) -> Request:
    """The same request of another table."""
    options: Any = {"domain": r.declared, "columns": r.columns, "rows": r.rows, "sample_seed": r.sample_seed}
    return replace(Request.of(source, r.workload, r.policy, **options), known=r.known, public=r.public)


def _persons(sheet: Sheet, policy: Policy) -> list[tuple[int, ...]]:
    """The rows of each person, by number; without an id nobody has any."""
    if policy.privacy_id is None:
        return [(row,) for row in range(len(sheet.owners))]
    found: dict[Any, list[int]] = {}
    for row, owner in enumerate(sheet.owners):
        if owner is not None:
            found.setdefault(owner, []).append(row)
    return [tuple(rows) for rows in found.values()]


def _pool(request: Request, effort: Effort, persons: Sequence[tuple[int, ...]]) -> Pool:
    why = "attack changes rows of a table on this machine; give it a file or a data frame"
    by, names = request.policy.privacy_id, request.columns or request.private.schema.names
    names = [name for name in names if name != by]
    if effort.guessed is not None and effort.guessed not in names:
        raise InputError(f"--guess {effort.guessed}: is not a column that is released")
    policy, weights = request.policy, np.ones(sum(map(len, persons)))
    for rows in persons:
        most = 1 if policy.people else policy.contributions
        weights[list(rows)] = min(1.0, most / len(rows))
    columns = read_columns(request.private.read_here(why), names)
    return Pool(columns, weights, effort.guessed or names[-1])
