"""What rows of a release are good for: can a rare label be learnt from them, are groups of a rare flag what
they were, which correlations are lost, which columns were left alone? NOT PRIVATE: it reads the table.

    python scripts/bench labels --data census.csv --test census_test.csv --label label --marginals 2 3
    python scripts/bench labels --data flags.csv --label f6 --groups f5:c1 f15:c0
    python scripts/bench labels --data census.csv --label label --peers dpmm-mst --peer-python dpmm-mst=PY

A table is one of codes, as `bench accuracy` takes it; `bench tables` makes some. Every release is a process
of its own; ours come for each of `--marginals` without and with `--label` (COLUMN, or COLUMN@WEIGHT as
`fmwem release` takes it), peers as they are in peers.py. Rows to test on are a file of codes, or else a third
of the table that is held back before any release.

AUC and F1: whether the label has the code `--positive`, learnt by logistic regression (one-hot) and gradient
boosting (codes as numbers) from released rows, and tested on real ones; `real` learns from the real rows that
the releases got. Correlations are Cramer's V of codes, over all pairs of columns: the mean difference from
the real ones (the L1 distance of the matrices, over the number of pairs), and the largest. Lone columns have
no partner in the release's model, as its manifest says. `--groups FLAG:COLUMN` shows the mean code of COLUMN
in the rows of every code of FLAG. Needs scikit-learn.
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
from scipy.stats.contingency import association

from bench.case import Case, distance, prepare, read_codes
from bench.program import Beside, Job
from bench.runner import Benchmark, Row, need_sklearn

Columns = dict[str, np.ndarray]
"""int64[row] of codes by column; the label is a column like the others."""

MOST_GROUPS = 4
"""Most codes of a flag whose groups are shown."""
HELD_BACK = 3
"""One row in so many is tested on, where no file is."""


@dataclass(frozen=True, kw_only=True)
class Labels(Beside):
    data: str
    label: str
    positive: int = 1
    test: Path | None = None
    groups: tuple[str, ...] = ()
    marginals: tuple[int, ...] = (2,)
    epsilons: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class Learners:
    """Two classifiers of whether `label` has the code `positive`, judged on real rows that no release saw."""

    sizes: dict[str, int]
    label: str
    positive: int
    test: Columns

    def scores(self, train: Columns) -> dict[str, float]:
        """Area under the ROC curve, and F1 at the threshold .5, of both taught by these rows. A label with
        one value teaches nothing: .5, and F1 of that value.
        """
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import f1_score, roc_auc_score
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder
        from threadpoolctl import threadpool_limits

        codes = [np.arange(size) for name, size in self.sizes.items() if name != self.label]
        models = {
            "logistic": make_pipeline(OneHotEncoder(categories=codes), LogisticRegression(max_iter=1000)),
            "boosting": HistGradientBoostingClassifier(random_state=0),
        }
        taught, wanted = ((side[self.label] == self.positive).astype(int) for side in (train, self.test))
        rows, unseen = (  # int64[row, column]: boosting takes codes as numbers
            np.column_stack([side[name] for name in self.sizes if name != self.label])
            for side in (train, self.test)
        )
        found = {}
        for name, model in models.items():
            chance = np.full(len(wanted), float(taught[0]))
            if taught.min() < taught.max():
                with threadpool_limits(1), warnings.catch_warnings(action="ignore"):  # convergence
                    chance = model.fit(rows, taught).predict_proba(unseen)[:, 1]
            found[f"{name}_auc"] = float(roc_auc_score(wanted, chance))
            found[f"{name}_f1"] = float(f1_score(wanted, chance > 0.5, zero_division=0.0))
        return found


class Pairs:
    """The real table's marginals of two columns, and the strength of association in each."""

    def __init__(self, sizes: dict[str, int], real: Columns) -> None:
        self.sizes = sizes
        self.counts = list(self._counted(real))
        self.strengths = np.array([cramers_v(counts) for counts in self.counts])

    def _counted(self, columns: Columns) -> Iterator[np.ndarray]:
        for (a, size), (b, other) in itertools.combinations(self.sizes.items(), 2):
            flat = np.bincount(columns[a] * other + columns[b], minlength=size * other)
            yield flat.reshape(size, other).astype(np.int32)

    def errors(self, made: Columns) -> dict[str, float]:
        """L1 distance of the matrices of Cramer's V over the number of pairs, the largest difference of one
        pair, and the mean error of a marginal of two columns.
        """
        gaps, far = [], []
        for real, counts, strength in zip(self.counts, self._counted(made), self.strengths, strict=True):
            gaps.append(distance(real.ravel(), counts.ravel()))
            far.append(abs(cramers_v(counts) - strength))
        return {"v_mean": float(np.mean(far)), "v_worst": float(np.max(far)), "e2": float(np.mean(gaps))}


def cramers_v(counts: np.ndarray) -> float:
    """0 to 1; the codes that occur decide how much there could be, and a column of one code has none."""
    held = counts[np.ix_(counts.any(axis=1), counts.any(axis=0))]
    return float(association(held, method="cramer")) if min(held.shape) > 1 else 0.0


def means(columns: Columns, flag: str, column: str, codes: int) -> list[float]:
    """Mean code of `column` among the rows of every code of `flag`; nan where there are none."""
    return pd.Series(columns[column]).groupby(columns[flag]).mean().reindex(range(codes)).tolist()


def split(case: Case, test: Path | None) -> tuple[Columns, Columns]:
    """The real rows that releases get, and those to test on. Without a file for these, the table that
    programs read is written anew, without a third of its rows.
    """
    real = dict(zip(case.sizes, case.columns, strict=True))
    if test is not None:
        return real, dict(zip(case.sizes, read_codes(test, case.sizes), strict=True))
    order = np.random.default_rng(0).permutation(len(case.columns[0]))
    cut = len(order) // HELD_BACK
    parts = (np.sort(order[cut:]), np.sort(order[:cut]))
    given, held = ({name: column[rows] for name, column in real.items()} for rows in parts)
    pyarrow.csv.write_csv(pa.table(given), case.table)
    return given, held


def asked_groups(given: Iterable[str], sizes: dict[str, int]) -> list[tuple[str, str]]:
    found = [tuple(entry.rpartition(":")[::2]) for entry in given]
    for flag, column in found:
        if flag not in sizes or column not in sizes or sizes[flag] > MOST_GROUPS:
            sys.exit(f"--groups {flag}:{column}: name two columns, the first of at most {MOST_GROUPS} codes")
    return found


def measured(options: Labels, folder: Path) -> Iterator[Row]:
    """The real rows' scores, then every run asked for, one at a time."""
    need_sklearn("bench labels")
    case = prepare(options.data, folder)
    sizes, label = case.sizes, options.label.partition("@")[0]
    if not 0 <= options.positive < sizes.get(label, 0):
        sys.exit(f"--label {options.label}: no column that has the code {options.positive}")
    groups = asked_groups(options.groups, sizes)
    real, test = split(case, options.test)
    if len(np.unique(test[label] == options.positive)) < 2:
        sys.exit(f"--label {options.label}: all rows to test on have it, or none; --positive names its code")
    learners, pairs = Learners(sizes, label, options.positive, test), Pairs(sizes, real)

    def scores(rows: Columns) -> Row:
        shown = {f"{flag}:{column}": means(rows, flag, column, sizes[flag]) for flag, column in groups}
        return {**learners.scores(rows), **pairs.errors(rows), "groups": json.dumps(shown)}

    def scores_of(out: Path) -> Row:
        found = scores(dict(zip(sizes, read_codes(out, sizes), strict=True)))
        manifest = out.with_suffix(".manifest.json")
        if manifest.exists():  # of ours
            components = json.loads(manifest.read_text(encoding="utf-8"))["components"]
            found["lone"] = sum(len(names) == 1 for names in components)
        return found

    def jobs() -> Iterator[Job]:
        for epsilon, program in itertools.product(options.epsilons, options.programs()):
            about: Row = {"data": case.name, "epsilon": epsilon, "program": program.name}
            command = partial(program.command, case.task(epsilon, options.delta, len(real[label])))
            if not program.ours:
                yield Job({**about, "marginals": "", "label": ""}, program, command, scores_of)
                continue
            for order, asked in itertools.product(options.marginals, ("", options.label)):
                more = ("--marginals", order, *(("--label", asked) if asked else ()))
                kind = {**about, "marginals": order, "label": asked}
                yield Job(kind, program, partial(command, *more), scores_of)

    yield {"data": case.name, "program": "real", **scores(real), "status": "ok"}
    yield from options.made(jobs(), folder)


class WithGroups(Benchmark):
    def table(self, rows: Iterable[Row]) -> Iterator[str]:
        """And a table of the mean codes in every group of a flag; nan in a group without rows."""
        rows = list(rows)
        yield from super().table(rows)
        means = [
            {**run, "group": f"{name} = {code}", "mean": mean}
            for run in rows
            for name, codes in json.loads(run.get("groups", "{}")).items()
            for code, mean in enumerate(codes)
        ]
        if means:
            yield from ("", "Mean code of the second column in the rows of every code of the first:", "")
            yield from Benchmark(Labels, measured, f"{self.key} group", "mean = {mean:.2f}").table(means)


LEARNT = "logistic AUC = {logistic_auc:.3f~} | F1 = {logistic_f1:.3f~} | boosting AUC = {boosting_auc:.3f~}"
LEARNT += " | boosting F1 = {boosting_f1:.3f~}"
PAIRS = "correlations off = {v_mean:.4f~} | worst = {v_worst:.3f~} | 2-way error = {e2:.4f~}"
MORE = "lone columns = {lone:.1f} | CPU s = {cpu:.1f}"
KEY = "data epsilon program marginals label"
labels = WithGroups(Labels, measured, KEY, f"{LEARNT} | {PAIRS} | {MORE}", also=("groups",))
