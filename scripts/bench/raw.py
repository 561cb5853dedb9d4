"""Raw tables: how far off are releases whose domain was learnt, declared by hand or drafted? NOT PRIVATE.

    python scripts/bench raw --tables FOLDER                            # every table there, and Adult
    python scripts/bench raw --tables FOLDER --data adult hotel --epsilons 1 --domains learnt declared
    python scripts/bench raw --tables FOLDER --package OLD --two-sample -o runs.csv --keep FOLDER2

A table is a file NAME.csv, NAME.csv.gz or NAME.parquet as somebody published it; NAME.declared.json beside it
is a domain that a careful person wrote from its documentation. To those of `--tables` come adult of
FMWEM_DATASETS and the bundled rows of Adult (adult-sample), both under the bundled domain. Domains: `learnt`
(none is given), `declared`, and `drafted` (`fmwem domain draft`, not edited). Every release is a process of
its own that reads the file and asks for all marginals of three attributes; `--package` runs another checkout
beside this one.

Errors compare values, not codes of the domain: L1 distances (0 to 2) of marginals in which numbers and dates
are cut into 20 bins of equal real mass and texts stand as they are; `exact` is the mean distance of single
columns on exact values. Of columns of numbers: `impossible`, the share of their rows with a value that the
real column never has (of those with at most CODES values), `beyond`, the share below its least or above its
greatest, and `mean_off` and `sd_off`, how far mean and standard deviation are off, in parts of the real ones.
`independent` are the real columns shuffled one by one, `resampled` real rows drawn
anew. The two-sample test is that of `scripts/judges` (needs scikit-learn): a classifier's area under the
curve, of released rows and (in brackets) of real rows merely encoded and decoded under the release's domain.
`--keep` leaves the rows of all runs, for `fmwem evaluate`.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from judges.environment import RUNNERS, NotRun, answer
from judges.runners import frames

from bench.case import Marginals
from bench.peers import ORDER
from bench.program import ROOT, Job, Program, Releases, checkout_of
from bench.runner import Benchmark, Row, need_sklearn

BUNDLED = ROOT / "datasets"
INSIDE = str(Path(__file__).with_name("inside.py"))
ENDINGS = (".csv", ".csv.gz", ".parquet")
SAMPLED = 20_000
"""Most rows of each side in a two-sample test."""
BINS = 20
"""Bins of equal real mass of a number or moment."""
CODES = 500
"""Values of a column of numbers at most whose list is compared."""
POPULAR = 100
"""Texts that are told apart in a column; the others count as one."""
MARGINALS = 600
"""Most marginals of an order that are counted: a fixed choice of them, where there are more."""
MISSING = ("", "?", "N", "NA", "N/A", "NULL", "null", "nan", "NaN", "None", "NaT", "<NA>")
"""Words that tables write for what is missing: one value, whichever of them a program gives back."""


def read(path: Path) -> pd.DataFrame:
    """Every cell of a CSV or Parquet file as text, what is missing empty."""
    if path.suffix != ".parquet":
        return frames.read(str(path), MISSING)
    columns = pyarrow.parquet.read_table(path)
    texts = [pc.fill_null(column.cast(pa.string()), "") for column in columns.columns]
    table = pa.table(texts, columns.column_names).to_pandas()
    return table.mask(table.isin(MISSING), "")


class Column:
    """A real column, and how it is cut: numbers and moments into bins of equal real mass (a column of at most
    BINS values at each of them), whatever else stands in it as texts. It is of numbers, or of moments, where
    more than half of its cells that are not missing are.
    """

    def __init__(self, cells: pd.Series) -> None:
        filled = cells[cells != ""]
        kinds = (k for k in ("number", "date") if frames.numbers(filled, k).notna().sum() > len(filled) / 2)
        self.kind = next(kinds, "category")
        units, words = self.parts(cells)
        known = units[~np.isnan(units)]
        self.cuts, self.listed = np.zeros(0), None
        if self.kind != "category":
            distinct = np.unique(known)
            self.decimals = 9 if self.kind == "date" else _decimals(distinct)
            quantiles = np.quantile(known, np.linspace(0, 1, BINS + 1), method="inverted_cdf")
            self.cuts = np.unique(quantiles)[1:-1]
            if len(distinct) <= BINS:
                self.cuts, self.listed = distinct[:-1], distinct
        self.words = {word: i for i, word in enumerate(words.value_counts().index[:POPULAR])}
        # the last: a value that is not listed
        self.bins = len(self.cuts) + 2 if self.kind != "category" else 0
        self.size = self.bins + len(self.words) + 1
        self.real_shares = self.shares(cells)

    def parts(self, cells: pd.Series) -> tuple[np.ndarray, pd.Series]:
        """float64[row] of numbers or days, nan where there are none, and the texts of all other cells."""
        if self.kind == "category":
            return np.full(len(cells), np.nan), frames.plain(cells)
        units = frames.numbers(cells, self.kind).to_numpy()
        return units, frames.plain(cells[np.isnan(units)])

    def codes(self, cells: pd.Series) -> np.ndarray:
        """int64[row] below `size`."""
        units, words = self.parts(cells)
        found = ~np.isnan(units)
        codes = np.empty(len(cells), dtype=np.int64)
        if self.kind != "category":
            values = np.round(units[found], self.decimals)  # how finely a program writes is not judged here
            codes[found] = np.searchsorted(self.cuts, values)
            if self.listed is not None:
                codes[found] = np.where(np.isin(values, self.listed), codes[found], self.bins - 1)
        codes[~found] = self.bins + words.map(self.words).fillna(len(self.words)).to_numpy(int)
        return codes

    def shares(self, cells: pd.Series) -> pd.Series:
        """The share of every exact value."""
        units, words = self.parts(cells)
        values = pd.Series(np.round(units, 9), dtype=object)
        values[np.isnan(units)] = words.to_numpy()
        return values.value_counts(normalize=True)

    def exact(self, cells: pd.Series) -> float:
        """L1 distance of exact values, 0 to 2."""
        return float(self.real_shares.sub(self.shares(cells), fill_value=0).abs().sum())

    def numbers_off(self, cells: pd.Series) -> dict[str, float]:
        """How far its numbers are off in ways that people see; empty where it has none."""
        if self.kind != "number":
            return {}
        real = np.array([value for value in self.real_shares.index if isinstance(value, float)])
        weights = self.real_shares[real].to_numpy(float)
        units, _ = self.parts(cells)
        made = np.round(units[~np.isnan(units)], 9)
        if not len(made):
            return {}
        mean = np.average(real, weights=weights)
        sd = np.sqrt(np.average((real - mean) ** 2, weights=weights))
        off = {"beyond": float(np.mean((made < real.min()) | (made > real.max())))}
        off |= {"impossible": float(np.mean(~np.isin(made, real)))} if len(real) <= CODES else {}
        off |= {"mean_off": abs(made.mean() / mean - 1)} if mean else {}
        return off | ({"sd_off": abs(made.std() / sd - 1)} if sd else {})


def _decimals(distinct: np.ndarray) -> int:
    some = distinct[:: max(1, len(distinct) // 2000)]
    fits = (d for d in range(9) if np.allclose(np.round(some, d), some, rtol=0, atol=1e-9))
    return next(fits, 9)


class Judge:
    """The real table, and the errors of what is made of it."""

    def __init__(self, real: pd.DataFrame, order: int = 3) -> None:
        self.columns = {name: Column(real[name]) for name in real}
        self.marginals = Marginals(self._encoded(real), [column.size for column in self.columns.values()])
        self.cliques = [some(len(self.columns), k) for k in range(1, min(order, len(self.columns)) + 1)]

    def _encoded(self, table: pd.DataFrame) -> list[np.ndarray]:
        return [column.codes(table[name]) for name, column in self.columns.items()]

    def errors(self, table: pd.DataFrame) -> dict[str, float]:
        """Mean L1 error of every order, and of single columns on exact values; a table that lacks a column
        raises KeyError.
        """
        exact = [column.exact(table[name]) for name, column in self.columns.items()]
        off = pd.DataFrame([column.numbers_off(table[name]) for name, column in self.columns.items()])
        found = {**self._errors(self._encoded(table)), "exact": float(np.mean(exact))}
        return found | {name: float(off[name].mean()) for name in off}

    def baselines(self, rng: np.random.Generator) -> dict[str, dict[str, float]]:
        """Errors of columns shuffled one by one, and of rows drawn anew from the real ones."""
        codes = self.marginals.columns
        rows = rng.integers(0, len(codes[0]), len(codes[0]))
        return {
            "independent": self._errors([rng.permutation(column) for column in codes]),
            "resampled": self._errors([column[rows] for column in codes]),
        }

    def _errors(self, codes: Sequence[np.ndarray]) -> dict[str, float]:
        means = (float(np.mean(self.marginals.distances(codes, cliques))) for cliques in self.cliques)
        return {f"e{order}": mean for order, mean in enumerate(means, start=1)}


def some(columns: int, order: int) -> list[tuple[int, ...]]:
    """All column sets of that order, or MARGINALS of them, always the same."""
    cliques = list(itertools.combinations(range(columns), order))
    if len(cliques) <= MARGINALS:
        return cliques
    chosen = np.random.default_rng(20_260_101).choice(len(cliques), MARGINALS, replace=False)
    return [cliques[i] for i in sorted(chosen)]


@dataclass(frozen=True, kw_only=True)
class RawTables(Releases):
    tables: Path | None = None
    data: tuple[str, ...] = ()
    domains: tuple[Literal["learnt", "declared", "drafted"], ...] = ("learnt", "declared", "drafted")
    package: Path | None = None
    two_sample: bool = False


@dataclass(frozen=True)
class Raw:
    """A raw table, and the domain somebody declared for it."""

    name: str
    path: Path
    declared: Path | None


def tables(folder: Path | None, wanted: tuple[str, ...]) -> list[Raw]:
    """The tables of `folder`, then those that need none; SystemExit where a wanted one is missing."""
    adult = BUNDLED / "adult.domain.json"
    known = {"adult-sample": Raw("adult-sample", BUNDLED / "adult.csv", adult)}
    for path in sorted((Path(os.environ.get("FMWEM_DATASETS", ".")) / "adult").glob("adult.csv*")):
        known["adult"] = Raw("adult", path, adult)
    for path in sorted(folder.iterdir()) if folder else []:
        ending = next((e for e in ENDINGS if path.name.endswith(e)), None)
        if ending:
            name = path.name.removesuffix(ending)
            declared = path.with_name(f"{name}.declared.json")
            known[name] = Raw(name, path, declared if declared.exists() else None)
    for name in wanted:
        if name not in known:
            sys.exit(f"--data {name}: no such table; there are {', '.join(known)}")
    return [known[name] for name in wanted or sorted(known)]


def ask(program: Program, *what: Any) -> None:
    """Run inside.py with that program's package; SystemExit with its last line where it fails."""
    command = [program.python, "-P", INSIDE, *(str(part) for part in what)]
    environment = {**os.environ, "PYTHONPATH": str(program.checkout)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{program.name}, {what[0]} of {what[1]}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")


def measured(options: RawTables, folder: Path) -> Iterator[Row]:
    """The baselines of every table, then every release of it."""
    if options.two_sample:
        need_sklearn("--two-sample")
    programs, rng = [Program("now", checkout=ROOT)], np.random.default_rng()
    if options.package:
        programs.insert(0, Program("before", checkout=checkout_of(options.package, "package")))

    def auc(first: pd.DataFrame, second: pd.DataFrame) -> float:
        """Of the judge that learns to tell rows apart."""
        files = {role: str(folder / f"{role}.csv") for role in ("real", "rows")}
        for file, rows in zip(files.values(), (first, second), strict=True):
            rows.to_csv(file, index=False)
        kinds = {name: column.kind for name, column in judge.columns.items()}
        told = {"judge": "twosample", "kinds": kinds, "missing": [], "size": SAMPLED, "seed": 0}
        (folder / "task.json").write_text(json.dumps({**files, **told}), encoding="utf-8")
        try:
            return answer(sys.executable, RUNNERS / "learners.py", folder / "task.json")["two_sample_auc"]
        except NotRun as why:
            sys.exit(f"--two-sample: {why}")

    @cache
    def codec_auc(raw: Raw, program: Program, domain: str) -> float:
        """Of real rows, merely encoded and decoded under the release's domain. Each side gets other people:
        twins of which one is learnt from teach the wrong class for the other.
        """
        described, out = folder / "codec.json", folder / "codec.parquet"
        described.write_text(domain, encoding="utf-8")
        ask(program, "codec", raw.path, described, out)
        order = rng.permutation(len(real))
        half = len(order) // 2
        return auc(real.iloc[order[:half]], read(out).iloc[order[half:]])

    def judged(raw: Raw, program: Program, out: Path) -> Row:
        made = read(out)
        found = judge.errors(made)
        if options.two_sample and out.name.endswith(".0.parquet"):  # the first of a kind
            domain = json.loads(out.with_suffix(".manifest.json").read_text(encoding="utf-8"))["domain"]
            found |= {"auc": auc(real, made), "codec_auc": codec_auc(raw, program, json.dumps(domain))}
        return found

    def jobs(raw: Raw) -> Iterator[Job]:
        files: dict[tuple[Program, str], Path | None] = {}
        for program, kind in itertools.product(programs, options.domains):
            if kind != "declared" or raw.declared is not None:
                files[program, kind] = raw.declared if kind == "declared" else None
            if kind == "drafted":
                files[program, kind] = drafted = folder / f"{raw.name}.{program.name}.drafted.json"
                ask(program, "draft", raw.path, drafted)
        for epsilon, ((program, kind), domain) in itertools.product(options.epsilons, files.items()):
            about = {"data": raw.name, "epsilon": epsilon, "program": program.name, "domain": kind}
            asked = ("--marginals", ORDER, *(("--domain", domain) if domain else ()))
            command = partial(program.release, raw.path, epsilon, options.delta, *asked)
            yield Job(about, program, command, partial(judged, raw, program), ".parquet")

    for raw in tables(options.tables, options.data):
        real = read(raw.path)
        judge = Judge(real, ORDER)
        for name, errors in judge.baselines(rng).items():
            yield {"data": raw.name, "epsilon": "", "program": name, "domain": "", "status": "ok", **errors}
        yield from options.made(jobs(raw), folder)


ERRORS = "3-way mean (sd) = {e3:.4f~} | of declared = {e3/:.2f} | 2-way = {e2:.4f} | 1-way = {e1:.4f}"
MORE = "exact = {exact:.4f} | two-sample (codec) = {auc:.3f} ({codec_auc:.3f}) | CPU s = {cpu:.1f}"
KEY = "data epsilon program domain"
NUMBERS = (
    "impossible = {impossible:.4f} | beyond = {beyond:.4f} | mean, sd off = {mean_off:.3f}, {sd_off:.3f}"
)
raw = Benchmark(RawTables, measured, KEY, f"{ERRORS} | {NUMBERS} | {MORE}", base="declared")
