"""The paper's data sets. Three small tables are constants here; the others are read from the folder
FMWEM_DATASETS, or say where to get them.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from factored_mwem.datasets import expand_counts
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.errors import InputError
from factored_mwem.privacy.counts import Rows
from factored_mwem.tables.codec import encode_table
from factored_mwem.tables.source import open_table

SHIPPED = Path(__file__).parents[2] / "datasets"
"""Contingency tables that come with the project: mildew, czech and rochdale."""
STAND_IN = "stand-in for nltcs"
ADULT = "no adult/adult.csv.gz in FMWEM_DATASETS: get UCI Adult (doi.org/10.24432/C5XW20), adult.data then adult.test under one header line"
TRANSFUSION = (
    "no transfusion/transfusion.csv in FMWEM_DATASETS: get UCI Blood Transfusion (doi.org/10.24432/C5GS39)"
)
NLTCS = (
    "nltcs is not here: get it from StatLib or github.com/UCLA-StarAI/Density-Estimation-Datasets (train, "
    "valid and test together, 21,574 rows "
    "of 16 bits), write it as FMWEM_DATASETS/nltcs/nltcs.csv or name it in FMWEM_NLTCS; a made-up stand-in "
    "is drawn instead"
)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of codes, and the sizes of their attributes."""

    name: str
    shape: tuple[int, ...]
    codes: tuple[np.ndarray, ...]

    @property
    def total(self) -> int:
        return len(self.codes[0])

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    @property
    def domain(self) -> Domain:
        return Domain.from_dict({f"a{i}": size for i, size in enumerate(self.shape)})

    @property
    def rows(self) -> Rows:
        """What exact answers are counted on."""
        return Rows(self.codes, Levels.fine(self.shape))

    def histogram(self) -> np.ndarray:
        """int64[cells], row-major."""
        return self.rows.marginal(range(len(self.shape)))


@cache
def small(name: str) -> Table:
    """mildew, czech or rochdale."""
    domain, private = (
        Domain.load(SHIPPED / f"{name}.domain.json"),
        open_table(expand_counts(SHIPPED / f"{name}.csv")),
    )
    return Table(name, domain.shape, tuple(codes.astype(np.int64) for codes in encode_table(domain, private)))


def nltcs_path() -> Path | None:
    found = Path(os.environ.get("FMWEM_NLTCS") or folder() / "nltcs" / "nltcs.csv")
    return found if found.is_file() else None


def nltcs_name() -> str:
    """What a figure calls the table it gets: `nltcs`, or the stand-in, whose rows no claim may rest on."""
    return "nltcs" if nltcs_path() else STAND_IN


@cache
def nltcs(name: str) -> Table:
    """The National Long-Term Care Survey; or as many rows of 16 bits from six made-up classes of people with
    more and fewer disabilities.
    """
    if name != STAND_IN:
        path = nltcs_path()
        if path is None:
            raise InputError(NLTCS)
        bits = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64)
        return Table("nltcs", (2,) * 16, tuple(bits.T.copy()))
    rng = np.random.default_rng(16)
    share, odds = np.array([0.4, 0.2, 0.15, 0.1, 0.1, 0.05]), rng.beta(0.5, 0.8, size=(6, 16))
    odds[0] /= 12  # most people have none of the disabilities
    bits = rng.random((21_574, 16)) < odds[rng.choice(6, size=21_574, p=share)]
    return Table(STAND_IN, (2,) * 16, tuple(bits.T.astype(np.int64)))


def folder() -> Path:
    return Path(os.environ.get("FMWEM_DATASETS", "."))


@cache
def read(path: Path, where: str, limit: int | None = None) -> dict[str, list[str]]:
    """The columns of a CSV file as text, of its first `limit` rows."""
    if not path.is_file():
        raise InputError(where)
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else open(path, encoding="utf-8") as lines
    ):
        reader = csv.reader(lines)
        header = next(reader)
        rows = [row for row, _ in zip(reader, range(limit or 10**9), strict=False)]
    return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))


def ordered(name: str) -> Table:
    """The tables of Figure 2. Each domain begins at 0 and ends where the values end: the paper names none."""
    wanted = {
        "capital loss": (("capital-loss",), (4357,)),
        "age x hours": (("age", "hours-per-week"), (91, 100)),
        "recency x frequency": (("Recency", "Frequency"), (75, 51)),
        "monetary": (("Monetary",), (12_501,)),
    }
    columns, shape = wanted[name]
    adult = name in ("capital loss", "age x hours")
    path = folder() / ("adult/adult.csv.gz" if adult else "transfusion/transfusion.csv")
    table = read(
        path, ADULT if adult else TRANSFUSION, 32_561 if adult else None
    )  # the paper's Adult is adult.data, the first part of the file
    return Table(name, shape, tuple(np.array(table[column], dtype=np.int64) for column in columns))
