"""Errors of ranges, cubes and mixed workloads on real tables, beside identity, hierarchical, independent and
uniform baselines. NOT PRIVATE.

    FMWEM_DATASETS=FOLDER python scripts/bench workloads [ranges|mixed] [--epsilons 0.1 1] [--runs 3]

`ranges`: the tables of the paper's Figure 2, 2,000 random ranges each, pure epsilon-DP, root of the mean
squared error in records. `ours` is a release by the default engine, its model and its rows; HB (Qardaji,
Yang, Li 2013) knows the number of rows, ours pays for it. `mixed`: real Adult (48,842 rows, the bundled
domain) at delta 1e-9, mean L1 error of shares by `fmwem evaluate`; identity measures every marginal that is
asked for with an equal share of the budget, independent measures single attributes alone.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
from replay import baselines, data

from factored_mwem import Domain, InputError, Workload, release
from factored_mwem.accounting.conversion import rho_of
from factored_mwem.backends.codes import encode_table
from factored_mwem.tables.codec import fit_columns
from factored_mwem.tables.source import open_table
from factored_mwem.workload.queries.ranges import Ranges

TABLES = ("capital loss", "age x hours", "recency x frequency", "monetary")
DELTA = 1e-9
MIXED = {
    "ranges": Workload.ranges("age", "hours-per-week", count=2000),
    "cube": Workload.cube("workclass", "education", "marital-status", "occupation", "sex", "race", order=3),
    "all three": Workload.ranges("age", "hours-per-week", count=2000)
    + Workload.cube("workclass", "education", "marital-status", "occupation", "sex", "race", order=3)
    + Workload.parities(2),
}


class Counted:
    """A table of all cells as a source of answers."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def marginal(self, positions: object) -> np.ndarray:
        return self.table.ravel()


def ranges(epsilons: list[float], runs: int) -> None:
    print(
        "| table | epsilon | ours, model | ours, rows | HB | identity | uniform "
        "|\n|---|---|---|---|---|---|---|"
    )
    for name, epsilon in itertools.product(TABLES, epsilons):
        table = data.ordered(name)
        asked = Workload.ranges(*table.domain.names, count=2000)
        boxes = Ranges.random(tuple(range(len(table.shape))), table.shape, 2000, seed=0)
        fields = [
            {
                "name": n,
                "type": "integer",
                "constraints": {"minimum": 0, "maximum": size - 1, "required": True},
                "bins": size,
            }
            for n, size in zip(table.domain.names, table.shape, strict=True)
        ]
        private = pa.table(dict(zip(table.domain.names, table.codes, strict=True)))
        counts, truth = table.histogram().reshape(table.shape), boxes.answers(table.rows)
        found: dict[str, list[float]] = {}
        for run in range(runs):
            rng = np.random.default_rng(run)
            made = release(
                private, asked, epsilon=epsilon, delta=0.0, domain={"fields": fields}, rows=table.total
            )
            rows = [np.asarray(column) for column in made.to_arrow().columns]
            answers = {
                "model": boxes.answers(made.model),
                "rows": boxes.answers(data.Exact(rows, table.shape)),
                "HB": boxes.answers(Counted(baselines.hierarchy(counts, epsilon, rng))),
                "identity": boxes.answers(Counted(baselines.identity(counts, epsilon, rng))),
                "uniform": boxes.answers(Counted(np.full(table.shape, table.total / table.cells))),
            }
            for method, answer in answers.items():
                found.setdefault(method, []).append(float(((answer - truth) ** 2).mean()))
        print(
            f"| {name} | {epsilon:g} | "
            + " | ".join(f"{np.sqrt(np.mean(errors)):,.1f}" for errors in found.values())
            + " |",
            flush=True,
        )


def mixed(epsilons: list[float], runs: int) -> None:
    print("| workload | epsilon | asked | ours | identity | independent |\n|---|---|---|---|---|---|")
    domain = Domain.load(Path(__file__).parents[2] / "datasets" / "adult.domain.json")
    path = data.folder() / "adult" / "adult.csv.gz"
    private = open_table(path)
    fit_columns(domain, private, None)
    codes = encode_table(domain, private).columns
    truth, rng = data.Exact(codes, domain.shape), np.random.default_rng(0)
    for (name, workload), epsilon in itertools.product(MIXED.items(), epsilons):
        sources: dict[str, list[object]] = {"ours": [], "identity": [], "independent": []}
        targets = {clique for asked in workload.asked for clique in asked.targets(domain)}
        sigma = float(np.sqrt(len(targets) / (2 * float(rho_of(epsilon, Fraction(DELTA))))))
        for _ in range(runs):
            for method, kept in (("ours", workload), ("independent", Workload.marginals(1))):
                made = release(path, kept, epsilon=epsilon, delta=DELTA, domain=domain).to_arrow()
                sources[method].append(
                    data.Exact(encode_table(domain, open_table(made)).columns, domain.shape)
                )
            sources["identity"].append(Noisy(truth, domain, targets, sigma, rng))
        for asked in workload.asked:
            questions = asked.questions(domain)
            starts, exact = (
                np.cumsum(questions.cells) - questions.cells,
                questions.answers(truth) / len(codes[0]),
            )
            errors = []
            for found in sources.values():
                gaps = [np.abs(questions.answers(source) / records(source) - exact) for source in found]
                errors.append(np.mean([np.add.reduceat(gap, starts).mean() for gap in gaps]))
            print(
                f"| {name} | {epsilon:g} | {asked.in_words()} | "
                + " | ".join(f"{e:.5f}" for e in errors)
                + " |",
                flush=True,
            )


class Noisy:
    """Marginals with Gaussian noise of their own; a smaller one is added up from the first that holds it."""

    def __init__(
        self,
        truth: data.Exact,
        domain: Domain,
        targets: set[tuple[str, ...]],
        sigma: float,
        rng: np.random.Generator,
    ) -> None:
        self.shape, self.tables, self.total = domain.shape, {}, len(truth.codes[0])
        for clique in sorted(targets):
            at = tuple(domain.index(n) for n in clique)
            table = truth.marginal(at)
            self.tables[at] = (table + rng.normal(scale=sigma, size=len(table))).reshape(
                [self.shape[p] for p in at]
            )

    def marginal(self, positions: tuple[int, ...]) -> np.ndarray:
        holder = next(at for at in self.tables if set(positions) <= set(at))
        return (
            self.tables[holder].sum(axis=tuple(i for i, p in enumerate(holder) if p not in positions)).ravel()
        )


def records(source: object) -> int:
    return source.total if isinstance(source, Noisy) else len(source.codes[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", nargs="?", choices=("ranges", "mixed"), default="ranges")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    try:
        (ranges if given.which == "ranges" else mixed)(given.epsilons, given.runs)
    except InputError as error:
        sys.exit(f"{error}; FMWEM_DATASETS names the folder of the tables")
