"""What rows of codes are good for: a label learnt from them, means of groups, correlations. NOT PRIVATE."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.case import distance

Columns = dict[str, np.ndarray]
"""int64[row] of codes by column; the label is a column like the others."""

MOST_GROUPS = 4
"""Most codes of a flag whose groups are shown."""


def need_learners() -> None:
    """SystemExit before anything has run, where there is no scikit-learn."""
    try:
        import sklearn  # noqa: F401
    except ModuleNotFoundError:
        sys.exit("bench labels needs scikit-learn; pip install scikit-learn")


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
        rows, unseen = self._features(train), self._features(self.test)
        found = {}
        for name, model in models.items():
            chance = np.full(len(wanted), float(taught[0]))
            if taught.min() < taught.max():
                with threadpool_limits(1), warnings.catch_warnings(action="ignore"):  # convergence
                    chance = model.fit(rows, taught).predict_proba(unseen)[:, 1]
            found[f"{name}_auc"] = float(roc_auc_score(wanted, chance))
            found[f"{name}_f1"] = float(f1_score(wanted, chance > 0.5, zero_division=0.0))
        return found

    def _features(self, columns: Columns) -> np.ndarray:
        """int64[row, column]: codes, which boosting takes as numbers and logistic regression one-hot."""
        return np.column_stack([columns[name] for name in self.sizes if name != self.label])


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
    held = counts[np.ix_(counts.any(axis=1), counts.any(axis=0))].astype(float)
    least = min(held.shape) - 1
    if least < 1:
        return 0.0
    rows = held.sum()
    expected = held.sum(axis=1, keepdims=True) * held.sum(axis=0) / rows
    return float(np.sqrt(((held - expected) ** 2 / expected).sum() / (rows * least)))


def means(columns: Columns, flag: str, column: str, codes: int) -> list[float]:
    """Mean code of `column` among the rows of every code of `flag`; nan where there are none."""
    rows = np.bincount(columns[flag], minlength=codes)
    sums = np.bincount(columns[flag], weights=columns[column], minlength=codes)
    return [float(s / n) if n else float("nan") for s, n in zip(sums, rows, strict=True)]
