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

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from factored_mwem import Domain, Release, release
from factored_mwem.accounting.accountant import Budget
from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.least_squares import least_squares
from factored_mwem.answers.looks import Noisy
from factored_mwem.answers.replicates import Bootstrap, Replicates
from factored_mwem.answers.terms import Terms
from factored_mwem.domain.levels import View
from factored_mwem.privacy.session import noise_for

CELLS, VIEWS = 4, 4
"""Of each kind: cells of a marginal, and marginals, of every release."""
DRAWN = 10
"""The rows of one release in so many are looked at."""
Z = 1.959964


@dataclass(frozen=True)
class Table:
    """A table of codes: `codes: int64[column, row]`."""

    name: str
    arrow: pa.Table
    domain: Domain
    codes: np.ndarray

    @classmethod
    def read(cls, path: Path) -> Table:
        sizes = json.loads(path.with_suffix("").with_suffix(".domain.json").read_text())
        arrow = pyarrow.csv.read_csv(path).select(list(sizes))
        codes = np.array([column.to_numpy() for column in arrow.columns], dtype=np.int64)
        return cls(path.name.split(".")[0], arrow, Domain.from_dict(sizes), codes)


@dataclass(frozen=True)
class Asked:
    """A count of one `kind`: the product of 0 and 1 over the columns of its terms."""

    kind: str
    terms: Terms


def terms_of(conditions: dict[int, np.ndarray]) -> Terms:
    """One count: `conditions[a]: bool[code]`."""
    support = tuple(sorted(conditions))
    return Terms(support, tuple(conditions[a].astype(np.float64)[None] for a in support), 1)


def counts_of(made: Release, table: Table, rng: np.random.Generator) -> Iterator[Asked]:
    """What is asked of one release."""
    levels, names = made.model.levels, range(len(table.domain))
    views = [m.positions for m in made.measurements if m.positions]
    wide = [view for view in views if len(view) > 1]
    if made.residuals:
        order = made.residuals[0].order
        wide = [tuple(sorted(rng.choice(len(table.domain), order, replace=False))) for _ in range(VIEWS)]
        views = [*wide, (int(rng.integers(len(table.domain))),)]

    def groups(view: View, row: np.ndarray) -> dict[int, np.ndarray]:
        """The cell of a view in which a row lies, as conditions."""
        found = {}
        for v in view:
            a, group = int(levels.attribute[v]), levels.groups[v]
            found[a] = group == group[row[a]]
        return found

    def any_row() -> np.ndarray:
        return table.codes[:, rng.integers(table.codes.shape[1])]

    for view in [views[i] for i in rng.permutation(len(views))[:VIEWS]]:
        for _ in range(CELLS):
            cell = np.array([rng.integers(s) for s in table.domain.shape])
            for row, kind in ((any_row(), "measured"), (cell, "measured, any cell")):
                yield Asked(kind, terms_of(groups(view, row)))
    for view in [wide[i] for i in rng.permutation(len(wide))[:VIEWS]]:
        for _ in range(CELLS):
            conditions = groups(view, any_row())
            a = sorted(conditions)[int(rng.integers(len(conditions)))]
            v = next(v for v in view if levels.attribute[v] == a)
            some = rng.random(int(levels.sizes[v])) < 0.5
            some[rng.integers(len(some))] = True
            conditions[a] = some[levels.groups[v]]
            yield Asked("follows", terms_of(conditions))
    for order in (2, 3):
        for _ in range(VIEWS):
            view = tuple(sorted(rng.choice(len(names), order, replace=False).tolist()))
            for _ in range(CELLS):
                row = any_row()
                cell = {a: np.arange(table.domain.shape[a]) == row[a] for a in view}
                yield Asked(f"cells of {order}", terms_of(cell))
    many = [a for a in names if table.domain.shape[a] > 4] or list(names)
    for _ in range(VIEWS * CELLS):
        ranges = {}
        for a in rng.choice(many, min(2, len(many)), replace=False).tolist():
            low, high = sorted(rng.integers(table.domain.shape[a], size=2).tolist())
            ranges[a] = (np.arange(table.domain.shape[a]) >= low) & (np.arange(table.domain.shape[a]) <= high)
        yield Asked("ranges", terms_of(ranges))


@dataclass(frozen=True)
class Outcome:
    """One interval: `error` is estimate less truth, `hit` whether it holds the truth; `rows_hit` the same of
    released rows read as if they were people, where that was looked at.
    """

    kind: str
    basis: str
    error: float
    stderr: float
    hit: bool
    width: float
    rows_hit: bool | None = None


class Judge:
    """One release, and what it says of counts: by least squares where noisy answers fix them, else by the
    model, with the errors of replicates.
    """

    def __init__(self, made: Release, table: Table, replicates: int, *, rows: bool) -> None:
        """`rows`: whether the released rows are drawn, too, which takes longer than all else."""
        self.made, self.table, self.evidence, self.count = made, table, made.evidence, replicates
        self.noisy = Noisy.of(self.evidence)
        self.replicates = replicates_of(self.evidence, replicates) if replicates else None
        self.rows = table_codes(made.to_arrow(), table.domain) if rows else None

    def outcomes(self, asked: Sequence[Asked]) -> Iterator[Outcome]:
        for each in asked:
            if (outcome := self._outcome(each)) is not None:
                yield outcome

    def _outcome(self, asked: Asked) -> Outcome | None:
        truth = float(asked.terms.of_rows(self.table.codes)[0])
        hit = None
        if self.rows is not None:
            count, rows = float(asked.terms.of_rows(self.rows)[0]), self.rows.shape[1]
            hit = rows_as_people(count, rows, truth, self.table.codes.shape[1])
        found = least_squares(self.noisy, asked.terms)
        if found is not None:
            one = np.zeros(1, dtype=np.int64)
            stderr = float(found.covariance(one, one)[0]) ** 0.5
            error, bias, basis = float(found.values[0]) - truth, 0.0, "measured"
        elif self.replicates is not None:
            errors = self.replicates.errors(asked.terms, False)[:, 0]
            error, basis = float(asked.terms.of_forest(self.evidence.model)[0]) - truth, "model"
            stderr, bias = float(errors.std(ddof=1)), float(errors.mean())
        else:
            return None
        held = abs(error - bias) <= Z * stderr
        return Outcome(asked.kind, basis, error, stderr, held, 2 * Z * stderr, hit)

    def figures(self, rng: np.random.Generator) -> Iterator[Outcome]:
        """Means and medians of a column among the rows that have one code of another."""
        shape, names = self.table.domain.shape, self.table.domain.names
        many = [a for a, size in enumerate(shape) if size > 4]
        for _ in range(VIEWS if many else 0):
            a = int(rng.choice(many))
            b = int(rng.choice([c for c in range(len(shape)) if c != a]))
            code = int(self.table.codes[b, rng.integers(self.table.codes.shape[1])])
            true = self.table.codes[a][self.table.codes[b] == code]
            for kind, truth in (("mean", float(true.mean())), ("median", float(np.median(true)))):
                text = f"{kind} '{names[a]}' where '{names[b]}' = {code}"
                told = self.made.answer(text, replicates=max(self.count, 2))
                if told.basis == "model" and not self.count:
                    continue
                low, high, stderr = float(told.low[0]), float(told.high[0]), float(told.stderr[0])
                error = float(told.estimate[0]) - truth
                yield Outcome(f"{kind}s", told.basis, error, stderr, low <= truth <= high, high - low)


def replicates_of(evidence: Evidence, count: int) -> Replicates:
    return Replicates(evidence, Bootstrap(evidence, 1, count).all())


def table_codes(rows: pa.Table, domain: Domain) -> np.ndarray:
    return np.array([rows.column(name).to_numpy() for name in domain.names], dtype=np.int64)


def rows_as_people(count: float, rows: int, truth: float, total: int) -> bool:
    """Whether the binomial interval of a share of the released rows holds the table's."""
    share = count / rows
    return abs(share - truth / total) <= Z * (share * (1 - share) / rows) ** 0.5


def summed_up(outcomes: Sequence[Outcome], direct: float) -> dict[str, float]:
    error = np.array([each.error for each in outcomes])
    stderr = np.maximum([each.stderr for each in outcomes], 1e-9)
    rows = [each.rows_hit for each in outcomes if each.rows_hit is not None]
    return {
        "asked": len(outcomes),
        "within": float(np.mean([each.hit for each in outcomes])),
        "bias": float((error / stderr).mean()),
        "spread": float((error / stderr).std()),
        "width": float(np.median([each.width for each in outcomes])),
        "direct": direct,
        "rows": float(np.mean(rows)) if rows else float("nan"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", type=Path, required=True)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--marginals", type=int, default=2)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--replicates", type=int, default=0)
    parser.add_argument("--models", type=Path, help="folder of releases, made where they are missing")
    given = parser.parse_args()
    out = csv.writer(sys.stdout)
    head = ("asked", "within", "bias", "spread", "width", "direct", "rows")
    out.writerow(["data", "epsilon", "releases", "kind", "basis", *head])
    for path in given.data:
        table = Table.read(path)
        for epsilon in given.epsilon:
            found: dict[tuple[str, str], list[Outcome]] = {}
            direct = 0.0
            for number in range(given.releases):
                made = one_release(table, epsilon, given.marginals, number, given.models)
                amount = Budget.of(epsilon, made.manifest.guarantee.delta).amount
                direct = 2 * Z * noise_for(amount, 1, made.manifest.guarantee.composition).stddev
                rng = np.random.default_rng([number, 7])
                judge = Judge(made, table, given.replicates, rows=number % DRAWN == 0)
                told = [*judge.outcomes(list(counts_of(made, table, rng))), *judge.figures(rng)]
                for outcome in told:
                    found.setdefault((outcome.kind, outcome.basis), []).append(outcome)
            for (kind, basis), outcomes in sorted(found.items()):
                facts = summed_up(outcomes, direct)
                shown = [f"{facts[name]:.4g}" for name in head]
                out.writerow([table.name, epsilon, given.releases, kind, basis, *shown])
                sys.stdout.flush()
    return 0


def one_release(table: Table, epsilon: float, order: int, number: int, folder: Path | None) -> Release:
    """Release `number`, from the folder where it is there."""
    path = None if folder is None else folder / f"{table.name}_{epsilon:g}" / f"{number}.fmwem"
    if path is not None and path.exists():
        return Release.load(path)
    made = release(table.arrow, order, domain=table.domain, epsilon=epsilon)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        made.save(path)
    return made


if __name__ == "__main__":
    sys.exit(main())
