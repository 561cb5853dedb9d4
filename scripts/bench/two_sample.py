"""Can a classifier tell made rows from real ones? NOT PRIVATE."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np
import pandas as pd

from bench.values import Cells, Column

ROWS = 20_000
"""Most rows of each side."""
FOLDS = 5


def auc(
    columns: dict[str, Column], made: dict[str, Cells], rng: np.random.Generator, *, same_rows: bool = False
) -> float:
    """Area under the ROC curve of gradient boosting, cross-validated; 0.5 where nothing tells the sides
    apart. Words for what is missing are one value; digits after the decimal point are as they are.

    `same_rows`: row i of both is the same person. Then each side gets other people: twins of which one is
    learnt from teach the wrong class for the other, and push the area below 0.5.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.metrics import roc_auc_score
        from sklearn.model_selection import StratifiedKFold, cross_val_predict
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        sys.exit("--two-sample needs scikit-learn; pip install scikit-learn")
    real = {name: column.cells for name, column in columns.items()}
    orders = [rng.permutation(len(next(iter(side.values())))) for side in (real, made)]
    if same_rows:
        half = len(orders[0]) // 2
        orders = [orders[0][:half], orders[0][half:]]
    rows = min(ROWS, *(len(order) for order in orders))
    sides = [
        _features(columns, {name: side[name][order[:rows]] for name in columns})
        for side, order in zip((real, made), orders, strict=True)
    ]
    shared = [c for c in sides[0] if any(len(np.unique(side[c])) > 1 for side in sides)]
    data = pd.concat([side[shared] for side in sides])
    classes = np.repeat([0, 1], rows)
    model = HistGradientBoostingClassifier(categorical_features=[c.endswith(" text") for c in shared])
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=int(rng.integers(2**31)))
    with threadpool_limits(1):  # on a busy machine its threads wait for each other, spinning
        found = cross_val_predict(model, data, classes, cv=folds, method="predict_proba")[:, 1]
    return float(roc_auc_score(classes, found))


def _features(columns: dict[str, Column], table: dict[str, Cells]) -> pd.DataFrame:
    """A number and a code of the text for every column."""
    found: dict[str, Iterable[float]] = {}
    for name, column in columns.items():
        units, words = column.parts(table[name])
        texts = np.full(len(units), len(column.words) + 1)
        texts[np.isnan(units)] = pd.Series(words).map(column.words).fillna(len(column.words)).to_numpy(int)
        found |= {f"{name} number": units, f"{name} text": texts}
    return pd.DataFrame(found)
