"""What is judged: releases of the program, their domains alone, and real rows for comparison, of a table of
which some rows are held out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from factored_mwem import Domain, Workload, draft, release
from factored_mwem.tables.backends.codes import encode_table
from factored_mwem.tables.codes.decode import decode
from factored_mwem.tables.inputs.source import open_table
from judges.runners import frames

LABELLED = "learnt, label"
"""The release that is also asked for the marginals of the label."""
FEW = 20
"""A column of at most as many different values is a column of categories, numbers or not."""
NO_NAME = "Unnamed: 0"
"""What pandas calls a first column without a name."""
MAJORITY = 0.5
"""Share of its filled cells that must be numbers, or dates, in a column of numbers or dates."""


@dataclass(frozen=True)
class Contender:
    """Rows to be judged. A judge of rows sets `rows` beside the released-from table; a judge of learning
    trains on `training`. Both are the same file for a release; real rows, or real rows encoded and decoded,
    are others than those they are set beside. `codec`: real rows that a domain alone has changed.
    """

    name: str
    rows: Path
    training: Path
    codec: bool = False
    cpu: float | None = None
    """Seconds that the release took."""


@dataclass(frozen=True)
class Case:
    """NOT PRIVATE: real rows, split by chance, in train.csv and holdout.csv of a folder."""

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

    def task(self, contender: Contender) -> dict[str, Any]:
        """What a judge's runner is told; see `environment`."""
        files = {"real": self.train, "holdout": self.holdout, "rows": contender.rows}
        files["training"] = contender.training
        facts = {name: getattr(self, name) for name in ("kinds", "target", "positive", "missing")}
        return {**{role: str(path) for role, path in files.items()}, **facts}


def kind_of(column: pd.Series) -> str:
    """category, number or date: see `frames`."""
    filled = column[column.str.strip() != ""]
    for kind in ("number", "date") if filled.nunique() > FEW else ():
        read = frames.numbers(filled, kind)
        if read.notna().mean() >= MAJORITY:
            return kind if read.nunique() > FEW else "category"
    return "category"


def prepare(options: Any, path: Path, folder: Path, most: int | None) -> Case:
    """Split a table into what is released from and a hold-out, of at most `most` rows. The index that pandas
    or R wrote is no column, and a line break in a cell is a blank.
    """
    data = frames.read(str(path)).replace(r"[\r\n]+", " ", regex=True)
    data = data.drop(columns=[name for name in data.columns[:1] if name == NO_NAME])
    label, positive = options.target, ""
    if label is not None and label not in data.columns and "=" in label:
        label, _, positive = label.rpartition("=")
    for name in (*options.columns, *options.categories, *([label] if label else [])):
        if name not in data.columns:
            sys.exit(f"{path} has no column {name!r}; it has {', '.join(data.columns)}")
    data = data[list(options.columns)] if options.columns else data
    known = frames.read(str(path), options.missing)[list(data)]
    codes = (*options.categories, label)
    kinds = {name: "category" if name in codes else kind_of(known[name]) for name in data}
    if label is not None:
        values = frames.plain(known[label]).value_counts()
        if positive not in values.index if positive else len(values) != 2:
            sys.exit(f"--target {options.target}: name one of its {len(values)} values as {label}=VALUE")
        positive = positive or str(values.index[-1])
    order = np.random.default_rng(options.seed).permutation(len(data))[:most]
    cut = round(len(order) * options.holdout)
    case = Case(folder, kinds, len(order) - cut, cut, label, positive, options.missing)
    data.iloc[order[:cut]].to_csv(case.holdout, index=False)
    data.iloc[order[cut:]].to_csv(case.train, index=False)
    return case


def ways(case: Case, declared: Path | None, *, label: bool) -> dict[str, Callable[[], Domain | None]]:
    """Ways to a domain, None where it is learnt inside the budget; one of them also for rows that keep what
    there is about the label.
    """
    known: dict[str, Callable[[], Domain | None]] = {
        "learnt": lambda: None,
        **({LABELLED: lambda: None} if label and case.target else {}),
        "drafted": lambda: draft(case.train, list(case.kinds)).reviewed(),
    }
    return known if declared is None else {**known, "declared": lambda: Domain.load(declared)}


def ours(case: Case, way: str, domain: Domain | None, epsilon: float, options: Any) -> Iterator[Contender]:
    """A release, and what its domain alone does to real rows."""
    told = {"epsilon": epsilon, "delta": options.delta, "columns": list(case.kinds)}
    workload = Workload.marginals(options.marginals)
    if way == LABELLED:
        workload += Workload.label(case.target)
    start, out = time.process_time(), case.folder / f"{way}.csv"
    made = release(case.train, workload, domain=domain, rows=case.rows, **told)
    made.write(out, overwrite=True)
    yield Contender(way, out, out, cpu=time.process_time() - start)
    if options.releases:
        return
    coded = [case.folder / f"{way}.codec.{part}.csv" for part in ("rows", "training")]
    rng = np.random.default_rng()
    for source, target in zip((case.holdout, case.train), coded, strict=True):
        codes = encode_table(made.domain, open_table(source)).columns
        columns = [decode(a, c, f, rng) for a, c, f in zip(made.domain, codes, made.schema, strict=True)]
        pyarrow.csv.write_csv(pa.Table.from_arrays(columns, schema=made.schema), target)
    yield Contender(f"{way}: encode, decode", *coded, codec=True)


def anchors(case: Case, seed: int) -> Iterator[Contender]:
    """The two ends of the scale: other real rows, and every column by itself."""
    yield Contender("real hold-out", case.holdout, case.train)
    rng, out = np.random.default_rng(seed), case.folder / "shuffled.csv"
    frames.read(str(case.train)).apply(rng.permutation).to_csv(out, index=False)
    yield Contender("columns shuffled", out, out)
