"""What is judged: releases of the program, their domains alone, and real rows for comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from factored_mwem import Domain, Release, Workload, draft, release
from factored_mwem.backends.codes import encode_table
from factored_mwem.tables.decode import decode
from factored_mwem.tables.source import open_table
from judges.case import Case
from judges.runners import frames


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


@dataclass(frozen=True)
class Promise:
    """What every release is asked for."""

    epsilon: float
    delta: float
    workload: Workload


def domains(case: Case, declared: Path | None) -> dict[str, Callable[[], Domain | None]]:
    """Ways to a domain; None: learnt inside the budget."""
    ways: dict[str, Callable[[], Domain | None]] = {
        "learnt": lambda: None,
        "drafted": lambda: draft(case.train, list(case.kinds)).reviewed(),
    }
    return ways if declared is None else {**ways, "declared": lambda: Domain.load(declared)}


def released(case: Case, domain: Domain | None, promise: Promise) -> Release:
    columns = list(case.kinds)
    return release(
        case.train, promise.workload, domain=domain, columns=columns, rows=case.rows,
        epsilon=promise.epsilon, delta=promise.delta,
    )  # fmt: skip


def ours(case: Case, folder: Path, way: str, domain: Domain | None, promise: Promise) -> Iterator[Contender]:
    """A release, and what its domain alone does to real rows."""
    made = released(case, domain, promise)
    out = folder / f"{way}.csv"
    made.write(out, overwrite=True)
    yield Contender(way, out, out)
    coded = [folder / f"{way}.codec.{part}.csv" for part in ("rows", "training")]
    for source, target in zip((case.holdout, case.train), coded, strict=True):
        through(made, source, target)
    yield Contender(f"{way}: encode, decode", *coded, codec=True)


def through(made: Release, source: Path, target: Path) -> None:
    """Rows encoded and decoded by a release's domain, without model or noise."""
    rng = np.random.default_rng()
    codes = encode_table(made.domain, open_table(source)).columns
    columns = [
        decode(attribute, column, field, rng)
        for attribute, column, field in zip(made.domain, codes, made.schema, strict=True)
    ]
    pyarrow.csv.write_csv(pa.Table.from_arrays(columns, schema=made.schema), target)


def anchors(case: Case, folder: Path, seed: int) -> Iterator[Contender]:
    """The two ends of the scale: other real rows, and every column by itself."""
    yield Contender("real hold-out", case.holdout, case.train)
    table, rng = frames.read(str(case.train)), np.random.default_rng(seed)
    shuffled = pd.DataFrame({name: rng.permutation(table[name].to_numpy()) for name in case.kinds})
    shuffled.to_csv(folder / "shuffled.csv", index=False)
    yield Contender("columns shuffled", folder / "shuffled.csv", folder / "shuffled.csv")


def task(case: Case, contender: Contender, **more: Any) -> dict[str, Any]:
    """What a judge's runner is told; see `environment`."""
    return {
        "real": str(case.train), "rows": str(contender.rows), "training": str(contender.training),
        "holdout": str(case.holdout), "kinds": case.kinds, "target": case.target, "positive": case.positive,
        "missing": case.missing,
        **more,
    }  # fmt: skip
