"""discover: what a domain is made of, learnt from the private table inside the budget.

Per column: a noisy vote on what its values look like; of text how dates and numbers are written, and whether
many rows share any (text_votes.py); its popular values by thresholded counts; of what is left of numbers and
moments, noisy counts over a coarse public grid and, where those stand out, over a finer one. Of all columns
together: counts of single numbers and moments in those cells, and values that are rarer.
Every reading is charged first; a threshold's delta is charged too. Three passes over the rows serve all.
What follows from the answers, bins among it, is made by learn.py of the mechanisms, which also measures the
first marginals over them. Why it keeps the promise is said in `__init__.py` of this folder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from factored_mwem.accounting.accountant import Budget, Charge, Mechanism, scale_for
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.coarse_grids import TINY, coarse_grid
from factored_mwem.domain.grids import (
    CLEAR,
    MULTIPLES,
    PIECES,
    clear_span,
    near_zero_together,
    refine,
    rounded_to,
    seen_span,
    thinned_span,
    zoom,
)
from factored_mwem.errors import InputError
from factored_mwem.privacy.found_column import FoundColumn
from factored_mwem.privacy.glance import Glance, glances
from factored_mwem.privacy.popular import (
    CERTAIN,
    FINER,
    SHIFT,
    first_keys,
    popular_together,
    second_share,
    threshold_for,
    together_for,
    with_decimals,
)
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Session
from factored_mwem.privacy.single_values import AGAIN, single_values
from factored_mwem.privacy.text_votes import SHARED, TextVotes
from factored_mwem.privacy.votes import Votes
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.codes.kinds import KINDS, MOMENTS, NUMBERS, RESOLUTIONS, ZONES, kind_of, places_of
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.codes.rest import WEIGHT

VOTES = Fraction(1, 30)
"""The share of the whole budget that all votes get; at most a tenth of the most that discovery may cost."""
WORDS, VALUES, RANGE, DETAIL = 8, 3, 3, 2
"""How the other readings share the rest: popular values of a column of text, of one of numbers or moments,
and the two looks at what is left of those.
"""
RARE_WORDS = Fraction(2)
"""The same of a column of text of which it is known that hardly any row shares its own: the whole look."""
NARROW = (3,)
"""Cells of the first of those looks that are clear together, of which it is then known where they lie."""
CLOSER, CLOSEST = Fraction(1, 8), 4
"""Of the second of those looks, what one at crowded cells costs, and how many there may be before it."""
ROUNDING = Fraction(1, 4)
"""What the first look at whole numbers gives away for what they are rounded to."""
GLANCE = Fraction(1, 8)
"""Of what that look costs, what one costs at a column whose popular values seem to be all there is: learning
the 22 columns of BRFSS 2015 takes .18 of the budget, not .24.
"""
ZONE = Fraction(1, 4)
"""And what timestamps of a column of text say of their zone."""
AGREED = 0.9
"""The share of a column's moments that say a zone from which on all are written in it, not in UTC."""


def discover(
    session: Session,
    table: Source,
    columns: Sequence[str] | None,
    share: Callable[[float, int], Fraction],
    glanced: Callable[[Glance], tuple[bool, bool]] | None = None,
) -> list[FoundColumn]:
    """What `columns` of the private `table` hold. Cost: `share` of the whole budget, for a noisy number of
    rows and a number of columns, and all of the delta kept for it. `glanced` hears before all else what a
    glance at all columns together says, for as long as it has doubts, and may raise.

    Sensitivities, k rows a person: votes, thresholded counts and cells of a grid are marginals, L2 k
    (add-remove) or sqrt(2) k (replace). Source: Rogers 2023 (unknown domains). Raises InputError if delta is
    0.
    """
    check_delta(float(session.accountant.budget.delta))
    known = dict.fromkeys(table.schema.names)
    for name in columns or ():
        if name not in known:  # which takes a look at all of them
            table.check_column(name)
    chosen = known if columns is None else set(columns)
    names = [name for name in known if name in chosen]
    if not names:
        raise InputError("no columns are left to release; name at least one with --columns")
    profiles = {name: Sealed(found) for name, found in table.profile(names).items()}
    budget, before = session.accountant.budget, session.accountant.spent
    fields = [table.schema.field(name) for name in names]
    least = share(0.0, len(names))
    first = budget.amount * min(VOTES, least / 10)
    if glanced is not None:
        few, _ = value_thresholds(budget, session.unit, least, len(names))
        first -= glances(session, fields, [*profiles.values()], few, least / 100, glanced)
    votes = [read_votes(session, name, profiles[name], first / len(names)) for name in names]
    types = [type_of(field, seen) for field, seen in zip(fields, votes, strict=True)]
    rows = float(np.mean([seen.noisy.sum() for seen in votes]))
    each = {"boolean": 0, "string": WORDS}
    weights = Fraction(sum(each.get(kind, VALUES + RANGE + DETAIL) for kind in types))
    weights += sum(ZONE for pair in zip(fields, types, strict=True) if _zoned(*pair))
    asked = TextVotes.of(fields, votes, types, zoned=table.zone is not None)
    weights += asked.weight
    first = session.accountant.spent - before
    whole = budget.amount * share(rows, len(names)) - first
    part = whole / weights if weights else Fraction(0)
    few, _ = value_thresholds(budget, session.unit, share(rows, len(names)), len(names))
    told = asked.read(session, list(profiles.items()), part, few, rows)
    types, others = told.types, len(names) - len(told.rare)
    cheap = RARE_WORDS * len(told.rare) if others else Fraction(0)
    left = weights - asked.weight - WORDS * len(told.rare) + cheap
    if left and told.rare:  # what they save is for the others, as if they were not there
        own = budget.amount * share(rows, others) - first
        part = max(part, (own - part * asked.weight) / left)
    keyed = sum(kind != "boolean" for kind in types)
    second = second_share(keyed - len(told.rare))
    delta = budget.discovery_delta / max(keyed, 1) * (1 - second)
    found = []
    for at, (column, seen, kind) in enumerate(zip(fields, told.votes, types, strict=True)):
        start = _begun(column, kind, seen, rows, told.formats.get(at))
        sealed = profiles.pop(column.name)  # read for the last time: the second look needs the memory
        cost = part * each.get(kind, VALUES) * (1 - second)
        if at in told.rare:
            start, cost = replace(start, looks="rare"), part * RARE_WORDS if cheap else Fraction(0)
        found.append(_read(session, sealed, start, part, cost, delta))
    counted = part * second * sum(VALUES for one in found if one.kinds)
    before = session.accountant.spent
    most = budget.amount * min(AGAIN, least - share(rows, len(names)))
    found = single_values(session, table, found, counted, most)
    cost = part * second * (sum(each.get(kind, VALUES) for kind in types) - WORDS * len(told.rare))
    if session.accountant.spent > before:
        cost -= counted
    return popular_together(session, table, found, cost, budget.discovery_delta * second)


def _read(
    session: Session, sealed: Sealed, start: FoundColumn, part: Fraction, cost: Fraction, delta: Fraction
) -> FoundColumn:
    """The column with its popular values, at this `cost` and `delta`, and the cells of its other numbers."""
    if cost:
        start = ColumnDiscovery(session, sealed, start).popular(cost, delta)
    return ColumnDiscovery(session, sealed, start).beside_values(part) if start.kinds else start


def _begun(column: pa.Field, kind: str, seen: Votes, rows: float, written: str | None) -> FoundColumn:
    """What the votes on a column of this kind say, among so many noisy rows; nothing of its values.
    `written`: the format of its dates or numbers, where that was looked for.
    """
    text = kind_of(column) == "string"
    return FoundColumn(
        column,
        kind,
        rows,
        present=rows - float(seen.noisy[KINDS.index("null")]),
        numbers=seen.of(*(NUMBERS if kind in ("integer", "number") else MOMENTS)),
        vote_stddev=seen.stddev,
        enough=0.0 if kind == "boolean" else math.inf,
        decimals=_decimals(column, seen) if kind == "number" else None,
        zeros=seen.zeros if kind == "number" else 0,
        resolution=_resolution(seen, written) if kind == "datetime" else None,
        format=written if kind != "string" else None,
        looks=seen.looks() if text and kind == "string" else "",
        mixed=text and kind not in ("boolean", "string") and seen.mixed(),
    )


def _decimals(column: pa.Field, seen: Votes) -> int | None:
    """The decimals that all but few numbers do with, or fewer where the type holds no more; None if many need
    more.
    """
    found = seen.decimals()
    return found if found is None else min(found, places_of(column))


def _resolution(seen: Votes, written: str | None) -> str | None:
    """The unit of which all but few timestamps are multiples; that of what is `written`, where that is
    coarser.
    """
    found = seen.resolution()
    if written is None:
        return found
    most = "second" if "%S" in written else "minute" if "%M" in written else "day"
    return min(found or most, most, key=RESOLUTIONS.index)


def check_delta(delta: float) -> None:
    """Raises InputError where a domain cannot be learnt under this delta."""
    if delta == 0:
        raise InputError(
            "no domain is declared and --delta is 0: categories can only be learnt with delta > 0; write one "
            "with `fmwem domain draft`"
        )


def type_of(field: pa.Field, votes: Votes) -> str:
    """The type of a typed column, which is public, unless it is text: there the votes say."""
    kind = kind_of(field)
    if kind == "string":
        return votes.type()
    return "integer" if kind == "number" and votes.type() == "integer" else kind


def read_votes(session: Session, name: str, sealed: Sealed, cost: Fraction) -> Votes:
    """A row votes once, for its kind or, of a whole number with zeros behind a point, for how many: so the
    votes are a marginal, L2 k (add-remove) or sqrt(2) k (replace).
    """
    sensitivity = session.unit.l2_squared_of_marginal
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
    charge = Charge("discover", Mechanism.GAUSSIAN, (name, "kind"), scale, sensitivity)
    column: ColumnProfile = session._unseal(sealed, charge)
    return Votes.spelt(session.noise.add(column.spelt_votes(), scale=scale).astype(np.float64), scale)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnDiscovery:
    """The readings of one column after its vote."""

    session: Session
    sealed: Sealed
    found: FoundColumn

    def beside_values(self, part: Fraction) -> FoundColumn:
        """With cells of the numbers or moments that are not popular, unless most values are texts. Cost:
        `part` for each of their weights, and less where a glance is enough: what noisy answers say.
        """
        found = self.found
        if found.mostly_text:
            plain = replace(found, decimals=None, zeros=0, resolution=None, format=None)
            return replace(plain, type="string", values={})
        first = part * GLANCE if found.all_popular else part
        if _zoned(found.column, found.type) and found.format is None:
            found = self.zone(part * ZONE)
        if found.type != "integer":
            return replace(self, found=found).cells(first * RANGE, part * DETAIL)
        found = self.rounded(first * ROUNDING)
        return replace(self, found=found).cells(first * (RANGE - ROUNDING), part * DETAIL)

    def popular(self, cost: Fraction, delta: Fraction) -> FoundColumn:
        """Every value whose noisy count passes the threshold.

        Sensitivity: squared L2 k^2 or 2 k^2; l0 k or 2 k keys, linf k. A row has one key at most: its number
        or moment, if it is of the type's kinds, else its text; but a number that needs decimals, in a column
        voted whole, has a key of FINER alone. Those are public and have counts in any case, so they need no
        threshold: `popular_together` shows why such keys beside others cost nothing. Of the others counted is
        c -> max(c - m, 0), m a fourth of the noise's scale: a public function that never moves further than c
        itself and keeps 0 at 0, so the sensitivities are those of the counts, and the threshold's delta holds
        as it stands: a key that only one of two neighbours hands to the noise has a count of at most k. The
        many values that come a few times need no noise then; m is added to what is kept.
        """
        session, found, unit = self.session, self.found, self.session.unit
        sensitivity = unit.l2_squared_of_marginal
        scale = scale_for(Mechanism.THRESHOLD, cost, sensitivity=sensitivity)
        threshold, charged = threshold_for(scale, delta, l0=unit.l0_of_marginal, linf=unit.linf_of_marginal)
        name, least = found.column.name, int(scale / SHIFT)
        column: ColumnProfile = session._unseal(
            self.sealed,
            Charge("discover", Mechanism.THRESHOLD, (name, "values"), scale, sensitivity, charged),
        )
        column.read_as(found.format)
        counts, listed = first_keys(found, column, least)
        kept = session.noise.threshold(counts, scale=scale, threshold=threshold, listed=listed)
        values = {float(key[1:]): n + least for key, n in kept.items() if key[0] == "v"}
        texts = {key[1:]: n + least for key, n in kept.items() if key[0] == "t"}
        enough = threshold + least
        certain = enough + CERTAIN * scale
        found = replace(found, values=values, texts=texts, stddev=scale, threshold=enough, enough=certain)
        return with_decimals(found, [kept[key] for key in FINER], scale) if listed else found

    def rounded(self, cost: Fraction) -> FoundColumn:
        """What the whole numbers are rounded to that are not popular.

        Sensitivity: L2 k (add-remove) or sqrt(2) k (replace). A row has one number at most and is counted
        once, at the last of the public MULTIPLES that divides it, a function of that number alone. Left out
        are the values that were found popular, as in `histogram`.
        """
        session, found = self.session, self.found
        sensitivity = session.unit.l2_squared_of_marginal
        scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
        charge = Charge("discover", Mechanism.GAUSSIAN, (found.column.name, "multiples"), scale, sensitivity)
        column: ColumnProfile = session._unseal(self.sealed, charge)
        special = np.array(list(found.values), dtype=np.int64)
        counts = column.multiples(found.kinds, found.unit, found.scale, MULTIPLES, special)
        return replace(found, multiple_of=rounded_to(session.noise.add(counts, scale=scale), scale))

    def zone(self, cost: Fraction) -> FoundColumn:
        """The zone that most moments say: none, UTC, or an offset if nearly all say the same one. A row says
        one at most. Sensitivity: L2 k (add-remove) or sqrt(2) k (replace).
        """
        session, found = self.session, self.found
        sensitivity = session.unit.l2_squared_of_marginal
        scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
        charge = Charge("discover", Mechanism.GAUSSIAN, (found.column.name, "zone"), scale, sensitivity)
        column: ColumnProfile = session._unseal(self.sealed, charge)
        noisy = session.noise.add(column.zones(), scale=scale)
        if noisy[0] >= found.numbers / 2:
            return found
        most = int(np.argmax(noisy[1:])) + 1
        return replace(found, zone=ZONES[most] if noisy[most] >= AGREED * found.numbers else "UTC")

    def cells(self, coarse: Fraction, fine: Fraction) -> FoundColumn:
        """Where the numbers or moments lie that are not popular: a look over the whole public grid, and some
        at what stands out there, each over cells that follow from the noisy counts of the one before. As
        long as much lies in few cells, a look that costs little says where in them; the last has what is left
        of `fine`. Cost: at most `coarse` + `fine`, for each charges a part of those before its noise is
        drawn, and which looks there are follows from noisy answers.
        """
        grid = coarse_grid(self.found.unit)
        noisy, stddev = self.histogram("range", grid, coarse)
        found = replace(self.found, coarse=noisy, coarse_stddev=stddev)
        span = clear_span(noisy, stddev)
        if span is None:
            return found
        low, high = thinned_span(noisy, stddev, grid, span)
        sure = clear_span(noisy, stddev, widths=NARROW)
        edges, inside = grid[low : high + 1], noisy[low:high]
        step = max(self.found.tick, self.found.multiple_of)
        if found.unit not in MOMENTS:
            edges, inside = near_zero_together(edges, inside, stddev)
        edges = refine(edges, inside, stddev, pieces=PIECES, step=step)
        left = fine
        for _ in range(CLOSEST):
            if edges.dtype == np.int64 and np.diff(edges).max() <= step:
                break  # a cell each
            noisy, stddev = self.histogram("closer", edges, fine * CLOSER)
            left -= fine * CLOSER
            before, edges = len(edges), zoom(edges, noisy, stddev, pieces=PIECES, step=step)
            if len(edges) == before:
                break
        noisy, stddev = self.histogram("detail", edges, left)
        if found.unit == "number":
            found, noisy = zero_apart(found, edges, noisy, stddev)
        seen = seen_span(noisy, stddev)
        if sure is not None:  # what was seen at either end is there, though finer cells do not show it
            before, beyond = np.searchsorted(edges, grid[list(sure)]).tolist()
            first, last = seen or (before, beyond)
            first = first if edges[first] < grid[sure[0] + 1] else before
            seen = first, last if edges[last] > grid[sure[1] - 1] else beyond
        if seen is None:
            return found  # something is there, but neither look says where
        first, last = seen
        return replace(found, edges=edges[first : last + 1], noisy=noisy[first:last], cell_stddev=stddev)

    def histogram(self, what: str, edges: np.ndarray, cost: Fraction) -> tuple[np.ndarray, float]:
        """(noisy counts of the cells: int64, their standard deviation). A row lies in one cell at most, of
        edges that are public; left out are the values that were found popular, not those that are. Of cells
        that the column's type does not reach, which is public, nothing is believed.

        Sensitivity: L2 k (add-remove) or sqrt(2) k (replace).
        """
        session, found = self.session, self.found
        sensitivity = session.unit.l2_squared_of_marginal
        scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
        charge = Charge("discover", Mechanism.GAUSSIAN, (found.column.name, what), scale, sensitivity)
        column: ColumnProfile = session._unseal(self.sealed, charge)
        column.read_as(found.format)
        special = np.array(list(found.values), dtype=edges.dtype)
        counts = column.histogram(found.kinds, found.unit, found.scale, edges, special)
        return np.where(found.reaches(edges), session.noise.add(counts, scale=scale), 0), scale


def zero_apart(
    found: FoundColumn, edges: np.ndarray, noisy: np.ndarray, stddev: float
) -> tuple[FoundColumn, np.ndarray]:
    """With 0 as a value of its own, where the cell between it and numbers that are hardly more than it holds
    something, and the counts without it: from this cell 1e-102 was drawn for 0.
    """
    tiny = (edges[:-1] == 0) & (edges[1:] <= TINY[0])
    rows = int(noisy[tiny].sum())
    if rows <= CLEAR * stddev or 0.0 in found.values:
        return found, noisy
    found = replace(found, values=found.values | {0.0: rows}, rare=found.rare | {0.0})
    return found, np.where(tiny, 0, noisy)


def _zoned(column: pa.Field, kind: str) -> bool:
    """Whether cells may say their zone, which a typed column's own type does else."""
    return kind == "datetime" and kind_of(column) == "string"


def value_thresholds(budget: Budget, unit: Unit, share: Fraction, columns: int) -> tuple[float, float]:
    """How many rows a text needs to be found, about, where a `share` of the budget learns `columns` columns
    of text: where its rows hold no other rare value, and whatever they hold. Public facts, nothing is spent.
    """
    left, second = budget.amount * (share - min(VOTES, share / 10)), second_share(columns)
    left *= WORDS / (WORDS + SHARED)
    scale = scale_for(
        Mechanism.THRESHOLD, left * (1 - second) / columns, sensitivity=unit.l2_squared_of_marginal
    )
    delta = budget.discovery_delta * (1 - second) / columns
    most = threshold_for(scale, delta, l0=unit.l0_of_marginal, linf=unit.linf_of_marginal)[0] + scale / SHIFT
    if not second:
        return most, most
    scale, threshold, _ = together_for(unit, columns, left * second, budget.discovery_delta * second)
    return min(most, (threshold + scale / SHIFT) / WEIGHT), most
