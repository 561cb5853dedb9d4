"""Releases of tables that belong together. NOT PRIVATE: it reads the tables.

    python scripts/bench linked datapackage.json
    python scripts/bench linked town/datapackage.json --runs 3 --epsilons 1 3 -o runs.csv
    python scripts/bench linked town/datapackage.json --sdmetrics --dpsynth PYTHON

Three ways: `linked` is `fmwem release` of the package; `apart` releases each table on its own, with the same
unit and an equal part of the budget, and deals the children out to parents by lot; `alone` releases each
child by itself, with the same unit and all of the budget: what can be had of its own columns.

`own` is the mean over the columns of all children of how far apart they are: of numbers with more than 30
values the Kolmogorov-Smirnov distance, of others the total variation of values. `numbers` is the total
variation of how many rows hang on each parent, of up to 64; `ties` that of a column of what a row hangs on,
near or far, with a column of its own, of numbers with many values by tenths of the real ones, the mean over
all such pairs. `far` is the mean, and `worst` the largest, distance of Cramer's V between columns of
grandparents and grandchildren. `whole` says whether all keys are. CPU seconds are those of making the rows.

`--sdmetrics` adds the quality report for several tables of SDMetrics, 0 to 1, and two of its parts:
`cardinality`, of how many rows hang on a row, and `intertable`, of columns beside those of parents; pip makes
its environment at first use. `--dpsynth PYTHON` adds `dpsynth` to a package of two tables; see bench people.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from common.runner import Benchmark, Options, Row
from judges.command import CACHE
from judges.environment import JUDGES, RUNNERS

from bench.people import DELTA, alike, by_dpsynth, distance, sizes_apart
from factored_mwem import NothingLearnt, Package, release, release_tables
from factored_mwem.request.data_package import read_package

Way = Literal["linked", "apart", "alone", "dpsynth"]
Tables = Mapping[str, pd.DataFrame]
LIMIT = 600.0
"""Seconds after which a judge did not finish."""
ROOT = "root of the row"
SDMETRICS = replace(
    next(judge for judge in JUDGES if judge.name == "sdmetrics"),
    runner=RUNNERS / "packages.py",
    figures={name: name for name in ("quality", "cardinality", "intertable trends")},
)


@dataclass(frozen=True, kw_only=True)
class LinkedOptions(Options):
    places = ("package",)
    package: Path
    marginals: int = 2
    epsilons: tuple[float, ...] = (1.0,)
    runs: int = 1
    sdmetrics: bool = False
    dpsynth: Annotated[str | None, "the Python in which dpsynth is installed"] = None


def read(package: Package) -> Tables:
    def table(path: Any) -> pd.DataFrame:
        return pd.read_parquet(path) if str(path).endswith(".parquet") else pd.read_csv(path)

    return {each.name: table(each.source) for each in package.private}


def beside(package: Package, tables: Tables, name: str) -> tuple[pd.DataFrame, list[str], list[str]]:
    """(the rows of a table beside what they hang on and ROOT, its own columns, those of what it hangs on)."""
    table = next(each for each in package.private if each.name == name)
    hidden = {table.key, table.parent.column if table.parent else None}
    own = [column for column in tables[name].columns if column not in hidden]
    if table.parent is None:
        return tables[name].assign(**{ROOT: tables[name][table.key]}), own, []
    parent = next(each for each in package.private if each.name == table.parent.of)
    above, near, far = beside(package, tables, parent.name)
    renamed = above.rename(columns={c: f"{parent.name}.{c}" for c in above.columns if c != ROOT})
    whole = tables[name].merge(renamed, left_on=table.parent.column, right_on=f"{parent.name}.{parent.key}")
    return whole, own, [f"{parent.name}.{column}" for column in (*near, *far)]


def numbers(package: Package, tables: Tables, name: str) -> pd.Series:
    table = next(each for each in package.private if each.name == name)
    parent = next(each for each in package.private if each.name == table.parent.of)
    counted = tables[name][table.parent.column].value_counts()
    return tables[parent.name][parent.key].map(counted).fillna(0)


def cramers_v(pairs: np.ndarray) -> float:
    """Of a table of counts."""
    pairs = pairs[pairs.sum(axis=1) > 0][:, pairs.sum(axis=0) > 0]
    if min(pairs.shape) < 2:
        return 0.0
    shares = pairs / pairs.sum()
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    return float(np.sqrt((((shares - expected) ** 2) / expected).sum() / (min(pairs.shape) - 1)))


def ties_apart(package: Package, real: Tables, made: Tables) -> Row:
    """How far apart are columns beside those of what rows hang on."""
    apart, far = [], [0.0]
    for table in package.private[1:]:
        (r, own, above), (m, _, _) = (beside(package, each, table.name) for each in (real, made))
        for column in own:
            for other in above:
                codes = [alike(r[name], m[name]) for name in (column, other)]
                size = 1 + max(int(each.max()) for each in codes[1])
                cells = [a * size + b for a, b in zip(*codes, strict=True)]
                counts = [np.bincount(c, minlength=size * (1 + max(map(np.max, codes[0])))) for c in cells]
                shares = [each / max(each.sum(), 1) for each in counts]
                apart.append(float(np.abs(shares[0] - shares[1]).sum() / 2))
                if not other.startswith(f"{table.parent.of}.{table.parent.of}") and other.count(".") > 1:
                    values = [cramers_v(each.reshape(-1, size)) for each in counts]
                    far.append(abs(values[0] - values[1]))
    row: Row = {"ties": float(np.mean(apart)) if apart else 0.0}
    return row | ({"far": float(np.mean(far[1:])), "worst": max(far)} if len(far) > 1 else {})


def made_apart(package: Package, real: Tables, options: LinkedOptions, share: float, run: int) -> Tables:
    """Each table on its own, with `share` of epsilon; children are dealt out to parents by lot."""
    rng, made = np.random.default_rng(run), dict[str, pd.DataFrame]()
    for table in package.private:
        whole, own, _ = beside(package, real, table.name)
        people = {} if table.parent is None else {"people": True}
        rows = whole[[ROOT, *own]].astype({ROOT: str})
        drawn = release(
            rows, min(options.marginals, len(own)), epsilon=share, delta=DELTA, privacy_id=ROOT, **people
        ).to_pandas()
        if table.parent is not None:
            keys = made[table.parent.of][next(t.key for t in package.private if t.name == table.parent.of)]
            whose, people_of = pd.factorize(drawn.pop(ROOT))
            lots = rng.choice(len(keys), len(people_of), replace=len(people_of) > len(keys))
            drawn[table.parent.column] = keys.to_numpy()[lots[whose]]
        if table.key is not None:
            drawn[table.key] = np.arange(len(drawn))
        made[table.name] = drawn
    return made


def made_by_dpsynth(package: Package, real: Tables, python: str, epsilon: float) -> tuple[Tables, float]:
    """(tables, CPU seconds), of a package of two."""
    root, child = package.private
    rows = real[child.name].rename(columns={child.parent.column: root.key})
    rows = rows[rows[root.key].isin(real[root.name][root.key])].drop(columns=child.key or [])
    people, made, cpu = by_dpsynth(python, real[root.name], rows, root.key, epsilon)
    made = made.rename(columns={root.key: child.parent.column})
    if child.key:
        made = made.assign(**{child.key: range(len(made))})
    return {root.name: people, child.name: made}, cpu


def by_sdmetrics(package: Package, real: Tables, made: Tables) -> Row:
    """Its quality report, in an environment of its own."""
    SDMETRICS.make(CACHE)
    with TemporaryDirectory() as folder:
        files = {}
        for role, tables in (("real", real), ("rows", made)):
            files[role] = {each.name: f"{folder}/{each.name}.{role}.csv" for each in package.private}
            for name, path in files[role].items():
                tables[name][list(real[name])].to_csv(path, index=False)
        keys = {each.name: each.key for each in package.private}
        links = [(each.parent.of, each.name, each.parent.column) for each in package.private if each.parent]
        task = Path(folder) / "task.json"
        task.write_text(json.dumps({**files, "keys": keys, "links": links}))
        found = SDMETRICS.ask(CACHE, task, LIMIT)
    return {name.split()[0]: found[name] for name in SDMETRICS.figures}


def is_whole(package: Package, made: Tables) -> bool:
    keys = {each.name: each.key for each in package.private}
    unique = all(made[name][key].is_unique for name, key in keys.items() if key is not None)
    links = [each for each in package.private if each.parent is not None]
    return unique and all(
        made[each.name][each.parent.column].isin(made[each.parent.of][keys[each.parent.of]]).all()
        for each in links
    )


def made_by(way: Way, package: Package, options: LinkedOptions, epsilon: float, run: int) -> Row:
    real, began, cpu = read(package), time.process_time(), 0.0
    made: Tables
    try:
        if way == "dpsynth":
            made, cpu = made_by_dpsynth(package, real, str(options.dpsynth), epsilon)
        elif way == "linked":
            release_ = release_tables(package, options.marginals, epsilon=epsilon, delta=DELTA)
            made = {name: table.to_pandas() for name, table in release_.tables().items()}
        else:
            share = epsilon / len(package.private) if way == "apart" else epsilon
            made = made_apart(package, real, options, share, run)
    except NothingLearnt:
        return {"status": "refused: too few rows to learn a domain"}
    except subprocess.CalledProcessError as failed:
        return {"status": failed.stderr.decode().strip().splitlines()[-1]}
    cpu, own = cpu or time.process_time() - began, []
    for table in package.private[1:]:
        columns = beside(package, real, table.name)[1]
        ones = np.ones(len(made[table.name]))
        own += [distance(real[table.name][c], made[table.name][c], ones) for c in columns]
    row: Row = {"own": float(np.mean(own)), "cpu": cpu, "status": "ok"}
    if way == "alone":
        return row
    apart = [
        sizes_apart(numbers(package, real, t.name), numbers(package, made, t.name))
        for t in package.private[1:]
    ]
    row |= {"numbers": max(apart), "whole": float(is_whole(package, made))}
    row |= by_sdmetrics(package, real, made) if options.sdmetrics else {}
    return row | ties_apart(package, real, made)


def measured(options: LinkedOptions, folder: Path) -> Iterator[Row]:
    package = read_package(options.package)
    if options.dpsynth and len(package.private) != 2:
        sys.exit("--dpsynth: takes a package of two private tables")
    ways: tuple[Way, ...] = ("linked", "apart", "alone", *(("dpsynth",) if options.dpsynth else ()))
    for epsilon in options.epsilons:
        for run in range(options.runs):
            for way in ways:
                about = {"package": options.package.parent.name, "epsilon": epsilon, "way": way, "run": run}
                yield about | made_by(way, package, options, epsilon, run)


COLUMNS = (
    "own = {own:.4f~} | to alone = {own/:.2f} | numbers = {numbers:.4f} | ties = {ties:.4f} "
    "| far = {far:.3f} | worst = {worst:.3f} | whole = {whole:.0f} | quality = {quality:.3f} "
    "| cardinality = {cardinality:.3f} | intertable = {intertable:.3f} | CPU s = {cpu:.1f}"
)
linked = Benchmark(LinkedOptions, measured, "package epsilon way", COLUMNS, base="alone")
