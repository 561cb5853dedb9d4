"""PrivateCounts: the rows as codes and the true counts of every candidate marginal. Nothing in it may be
printed, pickled or released.

Only `reveal` gives the numbers out, and only `Session._unseal` may call it, after charging the accountant,
for `discover`, `select`, `measure` and `measure_residuals`; tests/test_architecture.py walks the code and
holds that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.backends.codes import Codes
from factored_mwem.backends.counting import bytes_needed
from factored_mwem.backends.datavectors import Axis, Datavectors
from factored_mwem.backends.held import Held
from factored_mwem.backends.source import Source, Spill
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels, View, padded
from factored_mwem.errors import ResourceError
from factored_mwem.kernels.counting import MAX_COUNT
from factored_mwem.kernels.scoring import Answers, Coarser, Counts, distances
from factored_mwem.privacy.asked import Compared, Counted, Part
from factored_mwem.privacy.asked import sensitivity_of as sensitivity_of_questions
from factored_mwem.privacy.distances import SCORE_GRID, Distances, Reference, sensitivity_of
from factored_mwem.tables.source import Private
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.queries.base import Questions

if TYPE_CHECKING:
    from factored_mwem.privacy.blocks import OnBlocks, PrivateResults
    from factored_mwem.privacy.column import PrivateColumn
    from factored_mwem.privacy.hypotheses import PrivateScores

SCORE_CUTOFF = 2.0**40
"""A model's total and a penalty are cut off here before they become scores: beyond 2^42 they would overflow,
and the sensitivity with them.
"""
NO_COUNTS = np.zeros(0, dtype=np.int64)
FORESEEN_CELLS = 2**26
"""Cells of all candidates, as fine as they are, that are counted in one pass where a pass is dear: half a
gigabyte.
"""
AHEAD_CELLS = 2**26
"""Cells of questions' marginals that are counted in one pass: half a gigabyte."""
SMALL = 2**10
"""Candidates of at most this many cells are counted though they could be added up: larger ones are then
counted by bits, see counting.py.
"""


class Sealed(Private):
    """Base of what holds private numbers for others to ask: only `reveal` gives them out."""

    __slots__ = ("_contents",)

    def __init__(self, contents: Any) -> None:
        self._contents = contents

    def reveal(self) -> Any:
        """The private contents, for `Session._unseal` alone."""
        return self._contents


class Rows(Private):
    """What PrivateRows reveals: exact marginals of the rows, each counted in as few passes as can be.

    `columns[a]` is the number of attribute a among the encoded columns, and `lookups[a]: uint32[code as
    encoded]` its codes, where those are others.
    """

    __slots__ = ("_singles", "columns", "data", "levels", "lookups")

    def __init__(
        self,
        data: Datavectors,
        levels: Levels,
        columns: Sequence[int] | None = None,
        lookups: Sequence[np.ndarray | None] | None = None,
    ) -> None:
        self.data, self.levels = data, levels
        self.columns = tuple(range(len(levels.shape)) if columns is None else columns)
        self.lookups = (None,) * len(levels.shape) if lookups is None else tuple(lookups)
        self._singles: list[np.ndarray] | None = None

    @classmethod
    def coded(cls, codes: Sequence[np.ndarray], shape: Sequence[int]) -> Rows:
        """Rows that are codes already: one unsigned array[row] per attribute, each below its size."""
        return cls(Codes(codes, shape), Levels.fine(shape))

    def axis(self, variable: int) -> Axis:
        """Where a variable lies among the encoded columns."""
        a = int(self.levels.attribute[variable])
        lookup, size = self.lookups[a], int(self.levels.sizes[variable])
        if variable >= len(self.levels.shape):
            group = self.levels.groups[variable]
            lookup = group.astype(np.uint32) if lookup is None else group[lookup].astype(np.uint32)
        return Axis(self.columns[a], lookup, size)

    def counts(self, members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """int32 or int64[all cells]: see `Datavectors.exact_counts`, of variables. One pass."""
        axes = [self.axis(v) for v in range(len(self.levels))]
        return self.data.exact_counts(axes, members, offsets)

    @property
    def singles(self) -> list[np.ndarray]:
        """int64[code] of each attribute: all one-way marginals, counted together when the first is asked."""
        if self._singles is None:
            ends = np.cumsum(self.levels.sizes[: len(self.levels.shape)])
            members = np.arange(len(ends), dtype=np.int32)[:, None]
            counts = self.counts(members, np.concatenate([[0], ends]).astype(np.int64))
            self._singles = np.split(counts.astype(np.int64), ends[:-1])
        return self._singles

    def marginal(self, variables: Sequence[int]) -> np.ndarray:
        """int64[cells]: the counts over `variables`; over none, the number of rows."""
        if not len(variables):
            return self.singles[0].sum(keepdims=True)
        if len(variables) == 1:
            a = int(self.levels.attribute[variables[0]])
            return added_up(self.levels, (a,), tuple(variables), self.singles[a])
        cells = self.levels.cells(variables)
        return self.counts(np.array([variables], np.int32), np.array([0, cells])).astype(np.int64)

    exact = marginal
    """What `Session.measure` adds noise to."""

    def classed(self, positions: Sequence[int], classes: Sequence[np.ndarray]) -> np.ndarray:
        """int64[cells]: the counts over some attributes by classes of their codes, `int64[code]` each, from 0
        on. One pass.
        """
        lookups = [
            own.astype(np.uint32)[... if self.lookups[a] is None else self.lookups[a]]
            for a, own in zip(positions, classes, strict=True)
        ]
        shape = [int(own.max()) + 1 for own in classes]
        rows = Rows(self.data, Levels.fine(shape), [self.columns[a] for a in positions], lookups)
        return rows.marginal(range(len(shape)))


def added_up(levels: Levels, axes: View, view: View, counts: np.ndarray) -> np.ndarray:
    """int64[cells of `view`]: its counts, from those over `axes`, which fix it. Exact below 2^53 rows."""
    if axes == view:
        return counts.astype(np.int64)
    cell = np.zeros((1,) * len(axes), dtype=np.int64)
    for j, step in enumerate(levels.steps(axes, view)):
        cell = cell + step.reshape([-1 if i == j else 1 for i in range(len(axes))])
    summed = np.bincount(cell.ravel(), counts, minlength=levels.cells(view))
    return np.rint(summed).astype(np.int64)


class Ahead(Private):
    """The marginals over `cliques`, asked for in about that order: each pass counts as many as fit."""

    __slots__ = ("_cliques", "_held", "_place", "_rows")

    def __init__(self, rows: Rows, cliques: Sequence[View]) -> None:
        self._rows, self._cliques = rows, list(dict.fromkeys(cliques))
        self._place = {clique: at for at, clique in enumerate(self._cliques)}
        self._held: dict[View, np.ndarray] = {}

    def marginal(self, variables: Sequence[int]) -> np.ndarray:
        """int64[cells]: see Rows."""
        wanted = tuple(variables)
        if len(wanted) < 2 or wanted not in self._place:
            return self._rows.marginal(wanted)
        if wanted not in self._held:
            self._held = self._count(self._cliques[self._place[wanted] :])
        return self._held[wanted]

    def _count(self, cliques: Sequence[View]) -> dict[View, np.ndarray]:
        levels = self._rows.levels
        ends = np.cumsum([levels.cells(clique) for clique in cliques])
        some = max(1, int(np.searchsorted(ends, AHEAD_CELLS, side="right")))
        counts = self._rows.counts(
            padded(cliques[:some]), np.concatenate([[0], ends[:some]]).astype(np.int64)
        )
        parts = np.split(counts.astype(np.int64), ends[: some - 1])
        return dict(zip(cliques[:some], parts, strict=True))


class Tables(Rows):
    """What PrivateCounts reveals: the rows, the counts of all bases among the candidates, and each
    candidate's last distance to the model.
    """

    __slots__ = ("also", "candidates", "distances", "held")

    def __init__(self, rows: Rows, candidates: Candidates, also: Sequence[View] = ()) -> None:
        super().__init__(rows.data, candidates.levels, rows.columns, rows.lookups)
        self._singles = rows.singles  # at other levels, too, they are over the attributes themselves
        self.candidates = candidates
        more = _beyond(candidates, [view for view in dict.fromkeys(also) if len(view) > 1])
        members, offsets = _to_count(candidates, more)
        if (members >= 0).sum(axis=1).max(initial=0) > 1:
            counts = self.counts(members, offsets)
        else:
            counts = np.concatenate([NO_COUNTS, *(Rows.marginal(self, m[:1]) for m in members)])
        ends = int(candidates.offsets[-1]) + np.cumsum([0, *map(candidates.levels.cells, more)])
        parts = zip(more, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        self.also = {view: counts[begin:end].astype(np.int64) for view, begin, end in parts}
        counts = counts[: int(candidates.offsets[-1])]
        # 32 bits are enough for a score, and one row moves what is cut off by no more than before
        self.held = counts if counts.dtype == np.int32 else np.minimum(counts, MAX_COUNT).astype(np.int32)
        self.distances = np.zeros(len(candidates), dtype=np.int64)

    def marginal(self, variables: Sequence[int]) -> np.ndarray:
        """int64[cells]: of a candidate, added up from its base, and of a view that was counted with them
        without a pass; else see Rows.
        """
        if (view := tuple(variables)) in self.also:
            return self.also[view]
        candidate = self._find(variables) if len(variables) > 1 else None
        if candidate is None:
            return super().marginal(variables)
        base = int(self.candidates.base_of[candidate])
        counts = self.held[self.candidates.offsets[base] : self.candidates.offsets[base + 1]]
        view = self.candidates.positions(candidate)
        return added_up(self.levels, self.candidates.positions(base), view, counts)

    exact = marginal
    """What `Session.measure` adds noise to."""

    def _find(self, variables: Sequence[int]) -> int | None:
        """The number of the candidate over these variables, if there is one."""
        members = self.candidates.members
        if len(variables) > members.shape[1]:
            return None
        padded = np.array([*variables, *(-1,) * (members.shape[1] - len(variables))])
        found = np.flatnonzero(members[:, 0] == padded[0])
        found = found[(members[found] == padded).all(axis=1)]
        return int(found[0]) if len(found) else None

    def scores(self, answers: Answers) -> np.ndarray:
        """int64[candidate]: the L1 distance (SCORE_GRID a record) of each true marginal to the model's.

        `answers` holds the bases whose distance may have changed since the last call; the others' are kept.
        """
        halves = [half for half in np.array_split(np.arange(len(answers.which)), 2) if len(half)]
        with ThreadPoolExecutor(max_workers=2) as pool:
            for job in [pool.submit(self._score, answers.part(half)) for half in halves]:
                job.result()
        return self.distances

    def _score(self, answers: Answers) -> None:
        """Bring the distances of the bases in `answers`, and of what is added up from them, up to date."""
        candidates = self.candidates
        capped = answers._replace(total=float(min(answers.total, SCORE_CUTOFF)))
        sizes, counts = candidates.sizes[answers.which], Counts(self.held, candidates.offsets)
        distances(capped, sizes, counts, float(SCORE_GRID), Coarser(*candidates.coarse), self.distances)


class TrueAnswers(Private):
    """What PrivateAnswers reveals: the answers to all questions, `int64[answer]`; question q has those from
    `starts[q]` to `starts[q + 1]`.
    """

    __slots__ = ("answers", "starts")

    def __init__(self, answers: np.ndarray, starts: np.ndarray) -> None:
        self.answers, self.starts = answers, starts

    def exact(self, question: int) -> np.ndarray:
        """int64: the answers to one question."""
        return self.answers[self.starts[question] : self.starts[question + 1]]

    def scores(self, answers: np.ndarray) -> np.ndarray:
        """int64[question]: the sum over its answers of |model - truth| (SCORE_GRID a record).

        `answers: float64` are the model's; they are rounded to the grid before the truth is taken off, so a
        score moves by no more than the question's answers do together.
        """
        kept = np.clip(np.nan_to_num(answers), -SCORE_CUTOFF, SCORE_CUTOFF)
        # a score adds up all cells of a table
        most = np.maximum(np.add.reduceat(np.abs(kept), self.starts[:-1]), SCORE_CUTOFF)
        scaled = kept * np.repeat(SCORE_CUTOFF / most, np.diff(self.starts)) * SCORE_GRID
        grid = np.rint(scaled).astype(np.int64)
        return np.add.reduceat(np.abs(grid - self.answers * SCORE_GRID), self.starts[:-1])


class PrivateRows(Sealed):
    """The private table: its marginals, through `Session.measure` alone."""

    __slots__ = ("names",)

    def __init__(self, data: Datavectors, domain: Domain) -> None:
        """`data`: the rows of the domain's attributes, in its order and codes."""
        super().__init__(Rows(data, Levels.fine(domain.shape)))
        self.names = domain.names

    @classmethod
    def coded(cls, codes: Sequence[np.ndarray], domain: Domain) -> PrivateRows:
        """Rows that are codes already: one unsigned array[row] per attribute, each below its size."""
        return cls(Codes(codes, domain.shape), domain)

    @classmethod
    def of(cls, domain: Domain, table: Source, spill: Spill) -> PrivateRows:
        """The rows of a table, encoded and sealed at once."""
        return cls(table.encoded(domain, spill), domain)

    def recode(self, domain: Domain, codes: Mapping[str, np.ndarray]) -> PrivateRows:
        """The same rows, still sealed, in another domain, of some of the columns: `codes[name]: int64[old
        code]` are the new ones. A public function of each row.
        """
        rows, at = self._contents, [self.names.index(name) for name in domain.names]
        lookups = [
            codes[name].astype(np.uint32)[... if rows.lookups[a] is None else rows.lookups[a]]
            for name, a in zip(domain.names, at, strict=True)
        ]
        recoded = PrivateRows.__new__(PrivateRows)
        columns = [rows.columns[a] for a in at]
        Sealed.__init__(recoded, Rows(rows.data, Levels.fine(domain.shape), columns, lookups))
        recoded.names = domain.names
        return recoded

    def foresee(self, candidates: Candidates) -> PrivateRows:
        """The same rows, still sealed, where a pass is dear and all `candidates` together are small: their
        next pass counts all of them as fine as they are, and whatever follows is added up from that.
        """
        rows: Rows = self._contents
        if not rows.data.dear or candidates.cells.sum() > FORESEEN_CELLS:
            return self
        axes = [rows.axis(a) for a in range(len(rows.levels.shape))]
        foreseen = PrivateRows.__new__(PrivateRows)
        Sealed.__init__(foreseen, Rows(Held(rows.data, axes, candidates.members), rows.levels))
        foreseen.names = self.names
        return foreseen

    def count(self, candidates: Candidates, also: Sequence[View] = ()) -> PrivateCounts:
        """The same rows, still sealed, with the counts of `candidates`, and of the views `also` of the same
        levels; together they must fit `check_memory`. One pass.
        """
        return PrivateCounts(Tables(self._contents, candidates, also))

    def answer(self, domain: Domain, kinds: Sequence[Questions]) -> PrivateAnswers:
        """The same rows' answers to all questions of these kinds, still sealed."""
        return PrivateAnswers(self._contents, domain, kinds)

    def asked(self) -> PrivateQuestions:
        """The same rows, still sealed, for questions one by one."""
        return PrivateQuestions(Counted(self._contents), self.names)

    def compare(self, reference: Reference) -> PrivateErrors:
        """The distances of the same rows to public tables over the levels of the domain itself, still
        sealed. At most one pass.
        """
        return PrivateErrors(Distances(self._contents, reference), self.names, reference)

    def values(self, cells: int) -> PrivateColumn:
        """The values of the first attribute, whose codes below `cells` are a grid, still sealed. One pass."""
        from factored_mwem.privacy.column import PrivateColumn  # which is made of what is here

        return PrivateColumn(self._contents, self.names[0], cells)

    def judge(self, predictions: np.ndarray, unit: Unit) -> PrivateScores:
        """How many rows each hypothesis is right about, still sealed: `predictions: int64[hypothesis,
        cell]` are codes of the last attribute, for every cell of the others. One pass.
        """
        from factored_mwem.privacy.hypotheses import PrivateScores

        return PrivateScores(self._contents, self.names, predictions, unit)

    def blocks(self, task: OnBlocks) -> PrivateResults:
        """What a function says to blocks of rows, still sealed. Runs it."""
        from factored_mwem.privacy.blocks import PrivateResults

        return PrivateResults(self._contents, self.names, task)

    def public_total(self, unit: Unit) -> int | None:
        """The number of rows where all neighbouring tables share it; else None."""
        return int(self._contents.marginal(())[0]) if unit.total_is_public else None

    def positions(self, variables: Sequence[int]) -> tuple[int, ...]:
        """What a measurement is about: the variables themselves."""
        return tuple(variables)

    def subject(self, variables: Sequence[int]) -> tuple[str, ...]:
        """The names of what a measurement is about."""
        return tuple(self.names[v] for v in variables)

    def sensitivity(self, variables: Sequence[int], unit: Unit, composition: Composition) -> int:
        """Squared L2 norm (pure: L1 norm) of what one person changes in a marginal, whatever its number of
        cells: they are disjoint in rows.
        """
        return unit.of_marginal(composition)


class PrivateCounts(PrivateRows):
    """The private table with the counts of candidates, for `Session.select` and `Session.measure`."""

    __slots__ = ()

    def __init__(self, tables: Tables) -> None:
        Sealed.__init__(self, tables)
        self.names = tables.candidates.names

    def score_sensitivity(self, unit: Unit) -> int:
        """How far a score moves (records) between neighbours: the model's side of it is public."""
        return unit.l1_of_score


class PrivateErrors(Sealed):
    """The distances of the private marginals to public tables, see distances.py.

    What can be measured: ("columns", 0), the distance of every column; ("mean", k), the mean over the
    candidates of k attributes; ("set", i), the distance of what `scores` lists at i. Answers are in grains.
    """

    __slots__ = ("_asked", "_candidates", "names")

    def __init__(self, distances: Distances, names: Sequence[str], reference: Reference) -> None:
        super().__init__(distances)
        self.names = tuple(names)
        self._candidates, self._asked = reference.candidates, reference.asked

    def positions(self, what: tuple[str, int]) -> tuple[int, ...]:
        """The attributes that a measurement is about."""
        kind, number = what
        if kind != "set":
            return tuple(range(len(self.names)))
        sets = len(self._candidates)
        return self._candidates.positions(number) if number < sets else (self._asked[number - sets],)

    def subject(self, what: tuple[str, int]) -> tuple[str, ...]:
        """The names of the attributes that a measurement is about."""
        return tuple(self.names[a] for a in self.positions(what))

    def sensitivity(self, what: tuple[str, int], unit: Unit, composition: Composition) -> int:
        """Squared L2 norm (pure: L1 norm) of what one person changes, see distances.py."""
        return sensitivity_of(len(self.names) if what[0] == "columns" else 1, unit, composition)

    def score_sensitivity(self, unit: Unit) -> int:
        """How far a distance moves (records) between neighbours: the other side of it is public."""
        return unit.l1_of_score


class PrivateAnswers(Sealed):
    """The true answers to questions of several kinds, one after the other; which question begins where is
    public.
    """

    __slots__ = ("kinds", "names", "starts")

    def __init__(self, rows: Rows, domain: Domain, kinds: Sequence[Questions]) -> None:
        self.kinds, self.names = tuple(kinds), domain.names
        cells = np.concatenate([kind.cells for kind in kinds])
        self.starts = np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)
        ahead = Ahead(rows, [kind.positions(q) for kind in kinds for q in range(len(kind.cells))])
        answers = np.concatenate([kind.answers(ahead) for kind in kinds]).astype(np.int64)
        super().__init__(TrueAnswers(answers, self.starts))

    def kind_of(self, question: int) -> tuple[Questions, int]:
        """The kind of a question and its number within it."""
        for kind in self.kinds:
            if question < len(kind.cells):
                return kind, question
            question -= len(kind.cells)
        raise IndexError(question)

    def positions(self, question: int) -> tuple[int, ...]:
        """The attributes that a question is about, ascending."""
        kind, number = self.kind_of(question)
        return kind.positions(number)

    def subject(self, question: int) -> tuple[str, ...]:
        """The names of the attributes that a question is about."""
        return tuple(self.names[a] for a in self.positions(question))

    def sensitivity(self, question: int, unit: Unit, composition: Composition) -> int:
        """Squared L2 norm (pure: L1 norm) of what one person changes in a question's answers, as its kind
        says.
        """
        kind, _ = self.kind_of(question)
        return kind.l2_squared(unit) if composition is Composition.ZCDP else kind.l1(unit)

    def score_sensitivity(self, unit: Unit) -> int:
        """The largest among the kinds counts for all: questions of several kinds compete."""
        return max(kind.l1(unit) for kind in self.kinds)


class PrivateQuestions(Sealed):
    """The private rows, for questions one by one: `Session.measure` takes a Part, `Session.exceeds` what is
    Compared.
    """

    __slots__ = ("names",)

    def __init__(self, counted: Counted, names: Sequence[str]) -> None:
        super().__init__(counted)
        self.names = tuple(names)

    def positions(self, what: Part | Compared) -> tuple[int, ...]:
        """The attributes that a question is about, ascending."""
        return what.cut.positions

    def subject(self, what: Part | Compared) -> tuple[str, ...]:
        """The names of the attributes that a question is about."""
        return tuple(self.names[a] for a in what.cut.positions)

    def sensitivity(self, what: Part | Compared, unit: Unit, composition: Composition) -> int:
        """See `asked.sensitivity_of`."""
        return sensitivity_of_questions(what, unit, composition)


def _beyond(candidates: Candidates, views: Sequence[View]) -> list[View]:
    """The views that are no candidates."""
    if not views:
        return []
    rows = _below(candidates.members, padded(views))
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    known = np.isin(keys[len(candidates) :], keys[: len(candidates)])
    return [view for view, listed in zip(views, known.tolist(), strict=True) if not listed]


def _below(*parts: np.ndarray) -> np.ndarray:
    """int32[marginal, slot]: the marginals of all parts, padded alike."""
    width = max(part.shape[1] for part in parts)
    wide = [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=-1) for part in parts]
    return np.ascontiguousarray(np.concatenate(wide), dtype=np.int32)


def _to_count(candidates: Candidates, also: Sequence[View] = ()) -> tuple[np.ndarray, np.ndarray]:
    """(members, offsets) of what is counted: the bases, the views `also` and, after them, small candidates
    that make counting the others cheaper.
    """
    bases = candidates.base_of == np.arange(len(candidates))
    small = ~bases & (candidates.cells <= SMALL)
    listed = _below(candidates.members[bases], padded(also), candidates.members[small])
    cells = np.append(candidates.levels.sizes, 1)[listed].astype(np.int64).prod(axis=1)
    return listed, np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)


def bytes_of(candidates: Candidates) -> float:
    """Memory of the counts, their index and the model's working tables, from public facts: any number of rows
    will do.
    """
    members, offsets = _to_count(candidates)
    return bytes_needed(members, candidates.levels.sizes, offsets, MAX_COUNT) + 64.0 * candidates.members.size


def check_memory(candidates: Candidates, limit: float) -> None:
    """ResourceError where the candidates' counts would take more than `limit` bytes."""
    need = bytes_of(candidates)
    if need > limit:
        raise ResourceError(
            f"the counts of {len(candidates):,} candidate marginals need {need / 1e9:.1f} GB, more than the "
            f"{limit / 1e9:.1f} GB allowed; "
            "lower --marginals, --max-cells or the bins of the domain, or use --columns"
        )
