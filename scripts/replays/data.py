"""The paper's data sets. Three small tables are constants here; the others are read from the folder FMWEM_DATASETS, or say where to get them."""

from __future__ import annotations

import csv
import gzip
import math
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from factored_mwem.counts import Rows
from factored_mwem.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.levels import Levels

MILDEW = "0 0 0 0 3 0 1 0 0 1 0 0 0 1 0 0 1 0 1 0 7 1 4 0 0 0 0 2 1 3 0 11 16 1 4 0 1 0 0 0 1 4 1 4 0 0 0 1" + 16 * " 0"
"""Barley mildew, Christiansen and Giese 1991: la10, locc, mp58, c365, p53a, a367, the first changing fastest."""
CZECH = (
    "44 40 112 67 129 145 12 23 35 12 80 33 109 67 7 9 23 32 70 66 50 80 7 13 24 25 73 57 51 63 7 16 "
    "5 7 21 9 9 17 1 4 4 3 11 8 14 17 5 2 7 3 14 14 9 16 2 3 4 0 13 11 5 14 4 4"
)
"""Czech autoworkers, Edwards and Havranek 1985: smoke, mental, phys, systol, protein, family, the first changing fastest."""
ROCHDALE = """
 5 0 2 1 5 1 0 0 4 1 0 0 6 0 2 0   8 0 11 0 13 0 1 0 3 0 1 0 26 0 1 0   5 0 2 0 0 0 0 0 0 0 0 0 0 0 1 0   4 0 8 2 6 0 1 0 1 0 1 0 0 0 1 0
 17 10 1 1 16 7 0 0 0 2 0 0 10 6 0 0   1 0 2 0 0 0 0 0 1 0 0 0 0 0 0 0   4 7 3 1 1 1 2 0 1 0 0 0 1 0 0 0   0 0 3 0 0 0 0 0 0 0 0 0 0 0 0 0
 18 3 2 0 23 4 0 0 22 2 0 0 57 3 0 0   5 1 0 0 11 0 1 0 11 0 0 0 29 2 1 1   3 0 0 0 4 0 0 0 1 0 0 0 0 0 0 0   1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 41 25 0 1 37 26 0 0 15 10 0 0 43 22 0 0   0 0 0 0 2 0 0 0 0 0 0 0 3 0 0 0   2 4 0 0 2 1 0 0 0 1 0 0 2 1 0 0   0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
"""
"""Rochdale households, Whittaker 1990, the last attribute changing fastest."""

STAND_IN = "stand-in for nltcs"
ADULT = "no adult/adult.csv.gz in FMWEM_DATASETS: get UCI Adult (doi.org/10.24432/C5XW20), adult.data then adult.test under one header line"
TRANSFUSION = "no transfusion/transfusion.csv in FMWEM_DATASETS: get UCI Blood Transfusion (doi.org/10.24432/C5GS39)"
NLTCS = (
    "nltcs is not here: get it from StatLib or github.com/UCLA-StarAI/Density-Estimation-Datasets (train, valid and test together, 21,574 rows "
    "of 16 bits), write it as FMWEM_DATASETS/nltcs/nltcs.csv or name it in FMWEM_NLTCS; a made-up stand-in is drawn instead"
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


def of_cells(name: str, shape: tuple[int, ...], counts: np.ndarray) -> Table:
    """The rows behind row-major counts of all cells."""
    cells = np.repeat(np.arange(len(counts)), counts)
    return Table(name, shape, tuple(np.stack(np.unravel_index(cells, shape)).astype(np.int64)))


def small(name: str) -> Table:
    """mildew, czech or rochdale."""
    text = {"mildew": MILDEW, "czech": CZECH, "rochdale": ROCHDALE}[name]
    counts = np.array(text.split(), dtype=np.int64)
    shape = (2,) * (len(counts).bit_length() - 1)
    return of_cells(name, shape, counts if name == "rochdale" else counts.reshape(shape, order="F").ravel())


def nltcs_path() -> Path | None:
    found = Path(os.environ.get("FMWEM_NLTCS") or folder() / "nltcs" / "nltcs.csv")
    return found if found.is_file() else None


def nltcs_name() -> str:
    """What a figure calls the table it gets: `nltcs`, or the stand-in, whose rows no claim may rest on."""
    return "nltcs" if nltcs_path() else STAND_IN


@cache
def nltcs(name: str) -> Table:
    """The National Long-Term Care Survey; or as many rows of 16 bits from six made-up classes of people with more and fewer disabilities."""
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
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8") as lines:
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
    table = read(path, ADULT if adult else TRANSFUSION, 32_561 if adult else None)  # the paper's Adult is adult.data, the first part of the file
    return Table(name, shape, tuple(np.array(table[column], dtype=np.int64) for column in columns))
