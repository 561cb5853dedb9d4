"""Train on synthetic rows, test on real ones that no release saw: scikit-learn's logistic regression and
gradient boosting.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from features import boosting, tabulated
from frames import answer, is_number, plain, split, tables
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

RARE = 10
"""Categories of fewer training rows share one coefficient of the logistic regression."""


def logistic(table: pd.DataFrame) -> Any:
    measured = [name for name in table if is_number(table[name])]
    named = [name for name in table if not is_number(table[name])]
    return make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), measured),
            (OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=RARE), named),
        ),
        LogisticRegression(max_iter=1000),
    )


def scores(model: Any, train: Any, labels: np.ndarray, test: Any, truth: np.ndarray) -> tuple[float, float]:
    """AUC and F1; a label with one value in the training rows teaches nothing."""
    if labels.min() == labels.max():
        return 0.5, float(f1_score(truth, np.full(len(truth), labels[0]), zero_division=0.0))
    chance = model.fit(train, labels).predict_proba(test)[:, 1]
    return float(roc_auc_score(truth, chance)), float(f1_score(truth, chance > 0.5, zero_division=0.0))


def judge(task: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    target, sides = task["target"], tables(task, "training", "holdout")
    if target is None:
        raise SystemExit("no label to learn: name one with --target")
    labels, truth = ((plain(side[target]) == task["positive"]).to_numpy().astype(int) for side in sides)
    kinds = {name: kind for name, kind in task["kinds"].items() if name != target}
    train, test = split(*sides, kinds)
    taught = [name for name in train if train[name].notna().any()]
    train, test = train[taught], test[taught]
    found = {}
    found["logistic_auc"], found["logistic_f1"] = scores(logistic(train), train, labels, test, truth)
    train, test, named = tabulated(train, test)
    model = boosting(named, task["seed"])
    found["boosting_auc"], found["boosting_f1"] = scores(model, train, labels, test, truth)
    return found


if __name__ == "__main__":
    answer(judge)
