"""Tables as scikit-learn's gradient boosting takes them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from frames import is_number
from sklearn.ensemble import HistGradientBoostingClassifier

CATEGORIES = 250
"""A column's most frequent values; all others share one code, for a histogram has 255 bins."""


def tabulated(first: pd.DataFrame, second: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, list[bool]]:
    """float64[row, column] of both, and which columns are categories."""
    named = [not is_number(first[name]) for name in first]
    columns: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for name, categorical in zip(first, named, strict=True):
        known = (
            pd.concat([first[name], second[name]]).value_counts().index[:CATEGORIES] if categorical else None
        )
        for column, table in zip(columns, (first, second), strict=True):
            values = table[name]
            if known is not None:
                codes = pd.Categorical(values, categories=known).codes.astype(float)
                column.append(np.where(codes < 0, len(known), codes))
            else:
                column.append(values.to_numpy())
    return np.column_stack(columns[0]), np.column_stack(columns[1]), named


def boosting(named: list[bool], seed: int) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(categorical_features=named, random_state=seed)
