"""Do intervals hold what they promise? Shares of 95 % intervals that hold the table's own answer, over many
releases, and how wide they are. NOT PRIVATE: it reads the table.

    python scripts/bench coverage --data adult.csv nltcs.csv --epsilon 0.1 1 10 --releases 200
    python scripts/bench coverage --data adult.csv --epsilon 1 --releases 100 --replicates 100 --models FOLDER

A table is one of codes, as `bench accuracy` takes it. For every release the same kinds of counts are asked:
cells of marginals that were measured (groups of codes, where at a coarser level); sums over parts of them,
which follow linearly; cells of marginals over two and three columns that no measured one fixes (those of
random rows, so that large cells come up as often as rows lie in them); ranges of two columns; means and
medians of a column among the rows that have one code of another. `--replicates 0` leaves out whatever needs
them. `--models` keeps the releases, and uses those that are there.

`within` is the share of intervals that hold the truth, `bias` the mean of estimate less truth over the
standard error, `spread` the standard deviation of that quotient (1 is right), `width` the median width in
rows, `direct` the width, were the whole budget spent on that one count alone, `rows` the share of intervals
that hold the truth where the released rows are read as if they were a sample of people (a count's binomial
95 %).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from common.runner import Benchmark, Options, Row

from bench.case import Case, prepare
from factored_mwem import Domain, Release, release
from factored_mwem.accounting.accountant import Budget
from factored_mwem.answers.least_squares import least_squares
from factored_mwem.answers.projections import Noisy
from factored_mwem.answers.replicates import Bootstrap, Replicates
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.domain.levels import View
from factored_mwem.privacy.session import noise_for

CELLS, VIEWS = 4, 4
"""Of each kind: cells of a marginal, and marginals, of every release."""
DRAWN = 10
"""The rows of one release in so many are looked at."""
Z = 1.959964
Count = tuple[str, dict[int, np.ndarray]]
"""A kind of count, and which codes of each column it is of, bool[code]."""


@dataclass(frozen=True, kw_only=True)
class Covered(Options):
    data: Annotated[tuple[Path, ...], "paths of CSV files of codes"]
    epsilon: tuple[float, ...] = (1.0,)
    marginals: Annotated[int, "all marginals of this order"] = 2
    releases: int = 200
    replicates: int = 0
    models: Annotated[Path | None, "folder of releases, made where they are missing"] = None


def counts_of(made: Release, codes: np.ndarray, rng: np.random.Generator) -> Iterator[Count]:
    """What is asked of one release; `codes: int64[column, row]` of the table."""
    levels, shape = made.model.levels, made.domain.shape
    views = [m.positions for m in made.measurements if m.positions]
    wide = [view for view in views if len(view) > 1]
    if made.residuals:
        order = made.residuals[0].order
        wide = [tuple(sorted(rng.choice(len(shape), order, replace=False))) for _ in range(VIEWS)]
        views = [*wide, (int(rng.integers(len(shape))),)]

    def groups(view: View, row: np.ndarray) -> dict[int, np.ndarray]:
        """The cell of a view in which a row lies, as conditions."""
        places = [(int(levels.attribute[v]), levels.groups[v]) for v in view]
        return {a: group == group[row[a]] for a, group in places}

    def any_row() -> np.ndarray:
        return codes[:, rng.integers(codes.shape[1])]

    for i, _ in itertools.product(rng.permutation(len(views))[:VIEWS], range(CELLS)):
        cell = np.array([rng.integers(size) for size in shape])
        yield "measured", groups(views[i], any_row())
        yield "measured, any cell", groups(views[i], cell)
    for i, _ in itertools.product(rng.permutation(len(wide))[:VIEWS], range(CELLS)):
        conditions = groups(wide[i], any_row())
        a = sorted(conditions)[int(rng.integers(len(conditions)))]
        v = next(v for v in wide[i] if levels.attribute[v] == a)
        some = rng.random(int(levels.sizes[v])) < 0.5
        some[rng.integers(len(some))] = True
        yield "follows", {**conditions, a: some[levels.groups[v]]}
    for order, _ in itertools.product((2, 3), range(VIEWS)):
        view = rng.choice(len(shape), order, replace=False).tolist()
        for row in [any_row() for _ in range(CELLS)]:
            yield f"cells of {order}", {a: np.arange(shape[a]) == row[a] for a in view}
    many = [a for a, size in enumerate(shape) if size > 4] or list(range(len(shape)))
    for _ in range(VIEWS * CELLS):
        ranges = {}
        for a in rng.choice(many, min(2, len(many)), replace=False).tolist():
            low, high = sorted(rng.integers(shape[a], size=2).tolist())
            ranges[a] = (np.arange(shape[a]) >= low) & (np.arange(shape[a]) <= high)
        yield "ranges", ranges


class Judge:
    """One release, and what it says of counts: by least squares where noisy answers fix them, else by the
    model, with the errors of replicates. An outcome is one interval: `error` is estimate less truth, `hit`
    whether it holds the truth; `rows_hit` the same of released rows read as if they were people, where that
    is looked at.
    """

    def __init__(self, made: Release, codes: np.ndarray, replicates: int, *, rows: bool) -> None:
        """`rows`: whether the released rows are drawn, too, which takes longer than all else."""
        self.made, self.codes, self.evidence, self.count = made, codes, made.evidence, replicates
        self.noisy, self.replicates, self.rows = Noisy.of(self.evidence), None, None
        if replicates:
            self.replicates = Replicates(self.evidence, Bootstrap(self.evidence, 1, replicates).all())
        if rows:
            self.rows = np.array([column.to_numpy() for column in made.to_arrow().columns], dtype=np.int64)

    def outcomes(self, rng: np.random.Generator) -> Iterator[Row]:
        for kind, conditions in list(counts_of(self.made, self.codes, rng)):
            support = tuple(sorted(conditions))
            weights = tuple(conditions[a].astype(np.float64)[None] for a in support)
            if found := self._count(QueryTerms(support, weights, 1)):
                yield {"kind": kind, **found}
        yield from self._figures(rng)

    def _count(self, terms: QueryTerms) -> Row | None:
        truth, found = float(terms.of_rows(self.codes)[0]), least_squares(self.noisy, terms)
        if found is not None:
            one = np.zeros(1, dtype=np.int64)
            stderr = float(found.covariance(one, one)[0]) ** 0.5
            error, bias, basis = float(found.values[0]) - truth, 0.0, "measured"
        elif self.replicates is not None:
            errors = self.replicates.errors(terms, False)[:, 0]
            error, basis = float(terms.of_forest(self.evidence.model)[0]) - truth, "model"
            stderr, bias = float(errors.std(ddof=1)), float(errors.mean())
        else:
            return None
        row: Row = {"basis": basis, "error": error, "stderr": stderr, "width": 2 * Z * stderr}
        row["hit"] = abs(error - bias) <= Z * stderr
        if self.rows is not None:
            count, sizes = float(terms.of_rows(self.rows)[0]), (self.rows.shape[1], self.codes.shape[1])
            row["rows_hit"] = rows_as_people(count, sizes[0], truth, sizes[1])
        return row

    def _figures(self, rng: np.random.Generator) -> Iterator[Row]:
        """Means and medians of a column among the rows that have one code of another."""
        shape, names = self.made.domain.shape, self.made.domain.names
        many = [a for a, size in enumerate(shape) if size > 4]
        for _ in range(VIEWS if many else 0):
            a = int(rng.choice(many))
            b = int(rng.choice([c for c in range(len(shape)) if c != a]))
            code = int(self.codes[b, rng.integers(self.codes.shape[1])])
            true = self.codes[a][self.codes[b] == code]
            for kind, truth in (("mean", float(true.mean())), ("median", float(np.median(true)))):
                text = f"{kind} '{names[a]}' where '{names[b]}' = {code}"
                told = self.made.answer(text, replicates=max(self.count, 2))
                if told.basis == "model" and not self.count:
                    continue
                low, high, error = float(told.low[0]), float(told.high[0]), float(told.estimate[0]) - truth
                row: Row = {"kind": f"{kind}s", "basis": told.basis, "error": error, "width": high - low}
                yield {**row, "stderr": float(told.stderr[0]), "hit": low <= truth <= high}


def rows_as_people(count: float, rows: int, truth: float, total: int) -> bool:
    """Whether the binomial interval of a share of the released rows holds the table's."""
    share = count / rows
    return abs(share - truth / total) <= Z * (share * (1 - share) / rows) ** 0.5


def summed_up(outcomes: pd.DataFrame) -> Row:
    off = outcomes.error / outcomes.stderr.clip(lower=1e-9)
    sums: dict[str, Any] = {"within": outcomes.hit.mean(), "bias": off.mean(), "spread": off.std(ddof=0)}
    sums |= {"width": outcomes.width.median(), "rows": outcomes.rows_hit.astype(float).mean()}
    return {"asked": len(outcomes), **{name: float(value) for name, value in sums.items()}}


def one_release(case: Case, epsilon: float, order: int, number: int, folder: Path | None) -> Release:
    """Release `number`, from the folder where it is there."""
    path = None if folder is None else folder / f"{case.name}_{epsilon:g}" / f"{number}.fmwem"
    if path is not None and path.exists():
        return Release.load(path)
    table = pa.table(dict(zip(case.sizes, case.columns, strict=True)))
    made = release(table, order, domain=Domain.from_dict(case.sizes), epsilon=epsilon)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        made.save(path)
    return made


def covered(options: Covered, folder: Path) -> Iterator[Row]:
    """A row for every kind of count, of all releases of a table at an epsilon."""
    for path, epsilon in itertools.product(options.data, options.epsilon):
        case, outcomes, direct = prepare(str(path), folder), [], 0.0
        codes = np.array(case.columns)
        for number in range(options.releases):
            made = one_release(case, epsilon, options.marginals, number, options.models)
            guarantee = made.manifest.guarantee
            amount = Budget.of(epsilon, guarantee.delta).amount
            direct = 2 * Z * noise_for(amount, 1, guarantee.composition).stddev
            judge = Judge(made, codes, options.replicates, rows=number % DRAWN == 0)
            outcomes += judge.outcomes(np.random.default_rng([number, 7]))
        about = {"data": case.name, "epsilon": epsilon, "releases": options.releases, "direct": direct}
        for (kind, basis), found in pd.DataFrame(outcomes).groupby(["kind", "basis"]):
            yield {**about, "kind": kind, "basis": basis, **summed_up(found)}


FIGURES = ("within", "bias", "spread", "width", "direct", "rows")
COLUMNS = " | ".join(["asked = {asked:,}", *(f"{name} = {{{name}:.4g}}" for name in FIGURES)])
coverage = Benchmark(Covered, covered, "data epsilon releases kind basis", COLUMNS)
