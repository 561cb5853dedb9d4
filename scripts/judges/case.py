"""A table as it is judged: what the releases see, what they do not, and how its columns are compared."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from judges.runners import frames

FEW = 20
"""A column of at most as many different values is a column of categories, numbers or not."""
MAJORITY = 0.5
"""Share of its filled cells that must be numbers, or dates, in a column of numbers or dates."""


@dataclass(frozen=True)
class Case:
    """NOT PRIVATE: real rows, split by chance."""

    name: str
    folder: Path
    kinds: dict[str, str]
    rows: int
    unseen: int
    target: str | None
    positive: str
    missing: tuple[str, ...]

    @property
    def train(self) -> Path:
        return self.folder / "train.csv"

    @property
    def holdout(self) -> Path:
        return self.folder / "holdout.csv"


@dataclass(frozen=True)
class Asked:
    """Which columns are judged, and how they are read."""

    columns: tuple[str, ...]
    categories: tuple[str, ...]
    target: str | None
    missing: tuple[str, ...]
    seed: int

    def label(self, data: pd.DataFrame) -> tuple[str | None, str]:
        """The column to learn, and the value that was named, if any."""
        if self.target is None or self.target in data.columns or "=" not in self.target:
            return self.target, ""
        name, _, value = self.target.rpartition("=")
        return name, value


def kind_of(column: pd.Series) -> str:
    """category, number or date: see `frames`."""
    filled = column[column.str.strip() != ""]
    if filled.nunique() <= FEW:
        return "category"
    for kind in ("number", "date"):
        read = frames.numbers(filled, kind)
        if read.notna().mean() >= MAJORITY:
            return kind if read.nunique() > FEW else "category"
    return "category"


def prepare(table: Path, folder: Path, asked: Asked, *, share: float, most: int | None) -> Case:
    """Split the table into what is released from and a hold-out of that share, of at most `most` rows."""
    data = frames.read(str(table))
    label, positive = asked.label(data)
    for name in (*asked.columns, *asked.categories, *([label] if label else [])):
        if name not in data.columns:
            sys.exit(f"{table} has no column {name!r}; it has {', '.join(data.columns)}")
    data = data[list(asked.columns)] if asked.columns else data
    known = frames.read(str(table), asked.missing)[list(data)]
    kinds = {
        name: "category" if name in (*asked.categories, label) else kind_of(known[name]) for name in data
    }
    if label is not None:
        values = frames.plain(known[label]).value_counts()
        if positive not in values.index if positive else len(values) != 2:
            sys.exit(f"--target {asked.target}: name one of its {len(values)} values as {label}=VALUE")
        positive = positive or str(values.index[-1])
    order = np.random.default_rng(asked.seed).permutation(len(data))[:most]
    cut = round(len(order) * share)
    for name, part in (("holdout", order[:cut]), ("train", order[cut:])):
        data.iloc[part].to_csv(folder / f"{name}.csv", index=False)
    title = table.name.split(".csv")[0]
    return Case(title, folder, kinds, len(order) - cut, cut, label, positive, asked.missing)
