"""Can gradient boosting tell the rows from real ones? AUC of scikit-learn's, cross-validated; 0.5: it cannot.

As many rows of both, and as many for every release, because more rows teach more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from features import boosting, tabulated
from frames import answer, split, tables
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

FOLDS = 5


def judge(task: dict[str, Any]) -> dict[str, Any]:
    real, rows = tables(task, "real", "rows")
    size = min(task["size"], len(real), len(rows))
    real, rows = (table.sample(size, random_state=task["seed"]) for table in (real, rows))
    first, second, named = tabulated(*split(real, rows, task["kinds"]))
    features, labels = np.concatenate([first, second]), np.repeat([0, 1], size)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=task["seed"])
    model = boosting(named, task["seed"])
    chance = cross_val_predict(model, features, labels, cv=folds, method="predict_proba")[:, 1]
    return {"two_sample_auc": float(roc_auc_score(labels, chance))}


if __name__ == "__main__":
    answer(judge)
