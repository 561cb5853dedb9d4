"""Two judges that learn, by scikit-learn.

`utility`: train on synthetic rows, test on real ones that no release saw, by logistic regression and gradient
boosting. `twosample`: can gradient boosting tell the rows from real ones? AUC, cross-validated; 0.5: it
cannot; and the same without columns that a release does not tell. As many rows of both, and as many for every
release, because more rows teach more.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from frames import answer, is_number, plain, split, tables, told
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

RARE = 10
"""Categories of fewer training rows share one coefficient of the logistic regression."""
CATEGORIES = 250
"""A column's most frequent values; all others share one code, for a histogram has 255 bins."""
FOLDS = 5


def tabulated(first: pd.DataFrame, second: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """float64[row, column] of both as boosting takes them."""
    sides = first.copy(), second.copy()
    for name in [name for name in first if not is_number(first[name])]:
        known = pd.concat([first[name], second[name]]).value_counts().index[:CATEGORIES]
        for side in sides:
            codes = pd.Categorical(side[name], categories=known).codes
            side[name] = np.where(codes < 0, len(known), codes).astype(float)
    return sides[0].to_numpy(float), sides[1].to_numpy(float)


def logistic(table: pd.DataFrame) -> Any:
    measured = [name for name in table if is_number(table[name])]
    named = [name for name in table if not is_number(table[name])]
    scaled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    coded = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=RARE)
    columns = make_column_transformer((scaled, measured), (coded, named))
    return make_pipeline(columns, LogisticRegression(max_iter=1000))


def boosting(table: pd.DataFrame, seed: int) -> HistGradientBoostingClassifier:
    named = [not is_number(table[name]) for name in table]
    return HistGradientBoostingClassifier(categorical_features=named, random_state=seed)


def utility(task: dict[str, Any]) -> dict[str, float]:
    """AUC and F1; a label with one value in the training rows teaches nothing."""
    target, sides = task["target"], tables(task, "training", "holdout")
    if target is None:
        raise SystemExit("no label to learn: name one with --target")
    labels, truth = ((plain(side[target]) == task["positive"]).to_numpy().astype(int) for side in sides)
    train, test = split(*sides, {name: kind for name, kind in task["kinds"].items() if name != target})
    taught = [name for name in train if train[name].notna().any()]
    train, test = train[taught], test[taught]
    found = {}
    for name, model, (rows, unseen) in (
        ("logistic", logistic(train), (train, test)),
        ("boosting", boosting(train, task["seed"]), tabulated(train, test)),
    ):
        chance = np.full(len(truth), float(labels[0]))
        if labels.min() < labels.max():
            chance = model.fit(rows, labels).predict_proba(unseen)[:, 1]
        found[f"{name}_auc"] = float(roc_auc_score(truth, chance))
        found[f"{name}_f1"] = float(f1_score(truth, chance > 0.5, zero_division=0.0))
    return found


def twosample(task: dict[str, Any]) -> dict[str, float]:
    sides, kinds = tables(task, "real", "rows"), task["kinds"]
    some = told(sides[1], kinds) or kinds
    auc = _told_apart(task, sides, kinds)
    return {
        "two_sample_auc": auc,
        "two_sample_told": auc if some == kinds else _told_apart(task, sides, some),
    }


def _told_apart(task: dict[str, Any], sides: list[pd.DataFrame], kinds: dict[str, str]) -> float:
    size = min(task["size"], *map(len, sides))
    both = split(*(table.sample(size, random_state=task["seed"]) for table in sides), kinds)
    features, labels = np.concatenate(tabulated(*both)), np.repeat([0, 1], size)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=task["seed"])
    model = boosting(both[0], task["seed"])
    chance = cross_val_predict(model, features, labels, cv=folds, method="predict_proba")[:, 1]
    return float(roc_auc_score(labels, chance))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answer(lambda task: {"utility": utility, "twosample": twosample}[task["judge"]](task))
