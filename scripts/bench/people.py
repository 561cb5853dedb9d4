"""Releases of a table whose people have several rows. NOT PRIVATE: it reads the table.

    python scripts/bench people visits.csv --person patient
    python scripts/bench people visits.parquet --person patient --runs 3 --epsilons 0.1 1 -o runs.csv
    python scripts/bench people visits.csv --person patient --order day

Four ways: `people` is `--people`; `rows` is `--privacy-id` with `--contributions` of 20, or of the most rows
that a person has; `one row` releases a random row of each person as a table of its own, whose rows weigh
afterwards as much as its column of how many rows the person has says: what can be had of single rows;
`shuffled` is `--people` where the ids are dealt out anew, so that no two rows of a person go together.

Errors are of rows: of a column of numbers with more than 30 values the Kolmogorov-Smirnov distance, of others
the total variation of values; the mean over all columns, and the worst. `sizes` is the total variation of how
many rows a person has, of up to 64. `two` is the total variation of the values of a column in two rows of a
person, each person of several rows weighing one, of numbers with many values by tenths of the real ones, the
mean over all columns; `agree` the mean distance of how often these are the same. CPU seconds are those of
making the rows.

With `--order` there are two ways more: `ordered` is `--people --order-by`, and `at random` the real rows of
all people given to them at random, nothing of which is private. `pairs` is the total variation of successive
values of a column, of numbers with many values by tenths of the real ones, the mean over the columns that
vary in a person; `gaps` the distance of what the ordering column grows from row to row, where it is a number.

`--dpsynth PYTHON` adds `dpsynth`: google/dpsynth's `relational`, in a Python 3.12 that has it (cf8075f, with
mbi and dp_accounting from their repositories); see linked_peer.py. Its domain is read off the table.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from common.runner import Benchmark, Options, Row

from bench import linked_peer
from factored_mwem import NothingLearnt, release

Way = Literal["people", "ordered", "rows", "one row", "shuffled", "at random", "dpsynth"]
NUMBERS, MOST, CONTRIBUTIONS, TENTHS = 30, 64, 20, 10
DELTA = 1e-9
SIZE = "rows of the person"


@dataclass(frozen=True, kw_only=True)
class PeopleOptions(Options):
    places = ("table",)
    table: Path
    person: str
    order: str | None = None
    dpsynth: Annotated[str | None, "the Python in which dpsynth is installed"] = None
    marginals: int = 2
    epsilons: tuple[float, ...] = (1.0,)
    runs: int = 1


def distance(real: pd.Series, made: pd.Series, weights: np.ndarray) -> float:
    """Of a column, where the made rows weigh `weights: float64[row]`."""
    if pd.api.types.is_numeric_dtype(real) and real.nunique() > NUMBERS:
        values = np.unique(np.concatenate([real.dropna(), pd.to_numeric(made, errors="coerce").dropna()]))
        return float(np.abs(_below(real, np.ones(len(real)), values) - _below(made, weights, values)).max())
    shares = [
        pd.Series(w, index=column.astype(str).to_numpy()).groupby(level=0).sum() / w.sum()
        for column, w in ((real, np.ones(len(real))), (made, weights))
    ]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


def _below(column: pd.Series, weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """float64[value]: the share of rows that are missing, or at most the value."""
    numbers = pd.to_numeric(column, errors="coerce").fillna(-np.inf).to_numpy(float)
    order = np.argsort(numbers)
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    return sums[np.searchsorted(numbers[order], values, side="right")] / weights.sum()


def sizes_apart(real: pd.Series, made: pd.Series) -> float:
    shares = [each.clip(upper=MOST).round().value_counts(normalize=True) for each in (real, made)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


def alike(real: pd.Series, made: pd.Series) -> list[np.ndarray]:
    """int64[row] of both: codes of the same values, of numbers with many by tenths of the real ones."""
    values = [real, made]
    if pd.api.types.is_numeric_dtype(real) and real.nunique() > NUMBERS:
        cuts = np.unique(real.quantile(np.linspace(0, 1, TENTHS + 1)))[1:-1]
        numbers = [pd.to_numeric(each, errors="coerce") for each in values]
        values = [
            pd.Series(np.searchsorted(cuts, each, side="right")).where(each.notna().to_numpy(), -1)
            for each in numbers
        ]
    known = pd.Index(pd.unique(pd.concat([each.astype(str) for each in values])))
    return [known.get_indexer(each.astype(str)) for each in values]


def two_rows(codes: np.ndarray, person: np.ndarray, size: int) -> np.ndarray:
    """float64[code, code]: two random rows of a person with several, each person weighing one."""
    rows = np.bincount(person)
    held, times = np.unique(person * size + codes, return_counts=True)
    who, code = np.divmod(held, size)
    weight = np.where(rows > 1, 1 / np.maximum(rows * (rows - 1.0), 1), 0) / max((rows > 1).sum(), 1)
    pairs = -np.diag(np.bincount(code, times * weight[who], minlength=size))
    for some in np.array_split(np.unique(who), max(1, len(rows) * size // 2**24)):
        own = np.isin(who, some)
        table = np.zeros((len(some), size))
        table[np.searchsorted(some, who[own]), code[own]] = times[own]
        pairs += table.T @ (table * weight[some][:, None])
    return pairs


def together_apart(real: pd.DataFrame, made: pd.DataFrame, by: str) -> Row:
    """How far apart two rows of a person are."""
    people = [pd.factorize(each[by])[0].astype(np.int64) for each in (real, made)]
    apart, agree = [], []
    for name in real.columns.drop(by):
        codes = alike(real[name], made[name])
        size = 1 + max(int(each.max()) for each in codes)
        pairs = [two_rows(c, who, size) for c, who in zip(codes, people, strict=True)]
        apart.append(float(np.abs(pairs[0] - pairs[1]).sum() / 2))
        agree.append(float(abs(np.trace(pairs[0]) - np.trace(pairs[1]))))
    return {"two": float(np.mean(apart)), "agree": float(np.mean(agree))}


def in_order_apart(real: pd.DataFrame, made: pd.DataFrame, by: str, order: str) -> Row:
    """How far apart successive values and gaps of people's rows are."""
    tables = [each.sort_values([by, order], kind="stable", na_position="last") for each in (real, made)]
    same = [each[by].to_numpy()[1:] == each[by].to_numpy()[:-1] for each in tables]
    varying = [name for name in real.columns if name != by and real.groupby(by)[name].nunique().max() > 1]
    pairs = []
    for name in varying:
        values = [each[name] for each in tables]
        if pd.api.types.is_numeric_dtype(real[name]) and real[name].nunique() > NUMBERS:
            cuts = np.unique(real[name].quantile(np.linspace(0, 1, TENTHS + 1)))[1:-1]
            values = [pd.Series(np.searchsorted(cuts, pd.to_numeric(each), side="right")) for each in values]
        texts = [each.astype(str).to_numpy() for each in values]
        shares = [
            pd.Series(list(zip(text[:-1][own], text[1:][own], strict=True))).value_counts(normalize=True)
            for text, own in zip(texts, same, strict=True)
        ]
        pairs.append(float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2))
    row: Row = {"pairs": float(np.mean(pairs))}
    if pd.api.types.is_numeric_dtype(real[order]):
        grown = [pd.Series(np.diff(each[order])[own]) for each, own in zip(tables, same, strict=True)]
        row["gaps"] = distance(grown[0], grown[1], np.ones(len(grown[1])))
    return row


def dealt_anew(real: pd.DataFrame, person: str, run: int) -> pd.DataFrame:
    """The same rows and the same ids, as often, in another order of the ids."""
    order = np.random.default_rng(run).permutation(len(real))
    return real.assign(**{person: real[person].iloc[order].set_axis(real.index)})


def by_dpsynth(
    python: str, people: pd.DataFrame, rows: pd.DataFrame, by: str, epsilon: float
) -> tuple[pd.DataFrame, pd.DataFrame, float]:
    """(its people, their rows, CPU seconds). Raises CalledProcessError where it fails."""
    with TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / f"{name}.parquet") for name in ("people", "rows")}
        for table, path in zip((people, rows), files.values(), strict=True):
            table.to_parquet(path)
        task, out = Path(folder) / "task.json", [f"{path}.csv" for path in files.values()]
        asked = {**files, "person": by, "out": out, "most": CONTRIBUTIONS, "epsilon": epsilon, "delta": DELTA}
        task.write_text(json.dumps(asked))
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        before = os.times()
        subprocess.run([python, linked_peer.__file__, str(task)], env=env, check=True, capture_output=True)
        used = os.times()
        cpu = used.children_user + used.children_system - before.children_user - before.children_system
        return pd.read_csv(out[0]), pd.read_csv(out[1]), cpu


def in_two_tables(real: pd.DataFrame, by: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(people, with what is the same in all rows of each; rows)."""
    varying = real.groupby(by).nunique(dropna=False).max() > 1
    constant = [name for name in real.columns if name != by and not varying[name]]
    return real.groupby(by)[constant].first().reset_index(), real.drop(columns=constant)


def made_by(way: Way, real: pd.DataFrame, options: PeopleOptions, epsilon: float, run: int) -> Row:
    """The errors of a release of `real`."""
    by, sizes, began = options.person, real.groupby(options.person).size(), time.process_time()
    if way == "one row":
        table = real.groupby(by).sample(1, random_state=run)
        table = table.assign(**{SIZE: table[by].map(sizes).clip(upper=MOST)}).drop(columns=by)
        choices: dict[str, Any] = {}
    elif way == "shuffled":
        table, choices = dealt_anew(real, by, run), {"privacy_id": by, "people": True}
    elif way != "dpsynth":
        most = {"contributions": min(int(sizes.max()), CONTRIBUTIONS)}
        table, choices = real, {"privacy_id": by, **(most if way == "rows" else {"people": True})}
        choices |= {"order_by": options.order} if way == "ordered" else {}
    cpu = 0.0
    try:
        if way == "dpsynth":
            people, rows, cpu = by_dpsynth(str(options.dpsynth), *in_two_tables(real, by), by, epsilon)
            made = rows.merge(people, on=by)
        elif way == "at random":
            made = dealt_anew(real, by, run)
        else:
            made = release(table, options.marginals, epsilon=epsilon, delta=DELTA, **choices).to_pandas()
    except NothingLearnt:
        return {"status": "refused: too few rows to learn a domain"}
    except subprocess.CalledProcessError as failed:
        return {"status": failed.stderr.decode().strip().splitlines()[-1]}
    cpu = cpu or time.process_time() - began
    weights = made[SIZE].clip(1, MOST).to_numpy(float) if way == "one row" else np.ones(len(made))
    apart = [distance(real[name], made[name], weights) for name in real.columns if name != by]
    row: Row = {"mean": float(np.mean(apart)), "worst": max(apart), "cpu": cpu, "status": "ok"}
    if by in made:
        row |= together_apart(real, made, by)
    if options.order is not None and by in made:
        row |= in_order_apart(real, made, by, options.order)
    own = made.groupby(by).size() if by in made else made[SIZE] if way == "one row" else None
    return row if own is None else row | {"sizes": sizes_apart(sizes, own)}


def measured(options: PeopleOptions, folder: Path) -> Iterator[Row]:
    table = options.table
    real = pd.read_parquet(table) if table.suffix == ".parquet" else pd.read_csv(table)
    ways: tuple[Way, ...] = ("people", "rows", "one row", "shuffled")
    if options.order is not None:
        ways = (*ways, "ordered", "at random")
    if options.dpsynth is not None:
        ways = (*ways, "dpsynth")
    for epsilon in options.epsilons:
        for run in range(options.runs):
            for way in ways:
                about = {"table": table.name, "epsilon": epsilon, "way": way, "run": run}
                yield about | made_by(way, real, options, epsilon, run)


COLUMNS = (
    "mean = {mean:.4f~} | to rows = {mean/:.2f} | worst = {worst:.3f} | sizes = {sizes:.4f} | "
    "two = {two:.3f} | agree = {agree:.3f} | pairs = {pairs:.3f} | gaps = {gaps:.3f}"
)
people = Benchmark(
    PeopleOptions, measured, "table epsilon way", COLUMNS + " | CPU s = {cpu:.1f}", base="rows"
)
