"""The paper's data sets. Three small tables come with the project; the others are read from the folder
FMWEM_DATASETS, or say how to get them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from common import tables
from common.tables import BUNDLED, look_for
from pyarrow.csv import read_csv

from factored_mwem import Domain, InputError

SMALL = ("mildew", "czech", "rochdale")
"""Contingency tables that come with the project."""
STAND_IN = "stand-in for nltcs"
ADULT, TRANSFUSION = (
    f"no {name}/{name}.csv in FMWEM_DATASETS: `python scripts/replay fetch {name} -o "
    f"FMWEM_DATASETS/{name}` gets it"
    for name in ("adult", "transfusion")
)
NLTCS = (
    "nltcs is not here: `python scripts/replay fetch nltcs -o FMWEM_DATASETS/nltcs` gets it, or FMWEM_NLTCS "
    "names a CSV of its 21,574 rows of 16 bits under a header; a made-up stand-in is drawn instead"
)
NLTCS_COUNTS = {"rows": 21_574, "attributes": 16, "different rows": 3152, "rows without a 1": 3853}
"""The survey as StatLib has it: the first three are Table 1's, the last that of the papers about it. None
depends on the order of rows or columns.
"""
ROWS_OF_ADULT_DATA = 32_561
"""The table is adult.data followed by adult.test; the paper's is adult.data alone."""
ORDERED = {
    "capital loss": ("adult", {"capital-loss": 4357}),
    "age x hours": ("adult", {"age": 91, "hours-per-week": 100}),
    "recency x frequency": ("transfusion", {"Recency": 75, "Frequency": 51}),
    "monetary": ("transfusion", {"Monetary": 12_501}),
}
"""The tables of Figure 2: where from, and column -> values. Each domain begins at 0 and ends where the values
end: the paper names none.
"""


@dataclass(frozen=True, eq=False)
class Exact:
    """Rows of codes, the sizes of their attributes, and exact answers about them: what a query kind asks."""

    codes: Sequence[np.ndarray]
    shape: Sequence[int]
    name: str = ""

    @property
    def total(self) -> int:
        return len(self.codes[0])

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    @property
    def domain(self) -> Domain:
        return Domain.from_dict({f"a{i}": size for i, size in enumerate(self.shape)})

    def column(self, position: int) -> np.ndarray:
        return self.codes[position]

    def marginal(self, positions: Sequence[int]) -> np.ndarray:
        """int64[cells]: the counts over these attributes; over none, the number of rows."""
        sizes = tuple(self.shape[p] for p in positions)
        columns = tuple(np.asarray(self.codes[p], dtype=np.int64) for p in positions)
        cell = np.ravel_multi_index(columns, sizes) if sizes else np.zeros(self.total, dtype=np.int64)
        return np.bincount(cell, minlength=math.prod(sizes)).astype(np.int64)

    def histogram(self) -> np.ndarray:
        """int64[cells], row-major."""
        return self.marginal(range(len(self.shape)))


def named(name: str) -> Exact:
    """One of SMALL, the survey, or its stand-in."""
    return small(name) if name in SMALL else nltcs(name)


@cache
def small(name: str) -> Exact:
    """mildew, czech or rochdale."""
    domain, table = Domain.load(BUNDLED / f"{name}.domain.json"), expand_counts(BUNDLED / f"{name}.csv")
    columns = [
        pd.Index(attribute.values).get_indexer(column.to_pylist()).astype(np.int64)
        for attribute, column in zip(domain, table.columns, strict=True)
    ]
    return Exact(columns, domain.shape, name)


def expand_counts(path: Path) -> pa.Table:
    """A contingency table that comes with the project as records: each row as often as its last column,
    `count`, says; that column dropped.
    """
    table = read_csv(path)
    return table.drop_columns("count").take(pa.array(np.repeat(np.arange(len(table)), table["count"])))


def nltcs_path() -> Path | None:
    """The file that FMWEM_NLTCS names, which must be there, or FMWEM_DATASETS/nltcs/nltcs.csv."""
    given = os.environ.get("FMWEM_NLTCS")
    path = Path(given or tables.folder() / "nltcs" / "nltcs.csv")
    if given and not path.is_file():
        raise InputError(f"FMWEM_NLTCS names no file: {path}; correct it, or unset it for a stand-in")
    return path if path.is_file() else None


def nltcs_name() -> str:
    """What a figure calls the table it gets: `nltcs`, once its file is known to be the survey, or the
    stand-in, whose rows no claim may rest on.
    """
    return nltcs("nltcs").name if nltcs_path() else STAND_IN


def nltcs(name: str) -> Exact:
    """The National Long-Term Care Survey, or its stand-in."""
    if name != STAND_IN:
        return survey(nltcs_path())
    # as many rows of 16 bits from six made-up classes of people with more and fewer disabilities
    rng = np.random.default_rng(16)
    share, odds = np.array([0.4, 0.2, 0.15, 0.1, 0.1, 0.05]), rng.beta(0.5, 0.8, size=(6, 16))
    odds[0] /= 12  # most people have none of the disabilities
    bits = rng.random((21_574, 16)) < odds[rng.choice(6, size=21_574, p=share)]
    return Exact(tuple(bits.T.astype(np.int64)), (2,) * 16, STAND_IN)


@cache
def survey(path: Path | None) -> Exact:
    """A CSV of bits under a header; InputError unless its counts are the survey's."""
    if path is None:
        raise InputError(NLTCS)
    try:
        bits = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64, ndmin=2)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no table of bits under a header: {error}") from None
    different, empty = len(np.unique(bits, axis=0)), int((~bits.any(axis=1)).sum())
    counts = dict(zip(NLTCS_COUNTS, (*bits.shape, different, empty), strict=True))
    off = [f"{counts[of]:,} {of}, not {known:,}" for of, known in NLTCS_COUNTS.items() if counts[of] != known]
    if len(bits) and not np.isin(bits, (0, 1)).all():
        off.append("other values than 0 and 1")
    if off:
        raise InputError(f"{path} is not the National Long-Term Care Survey: it has {'; '.join(off)}")
    return Exact(tuple(bits.T.copy()), (2,) * 16, "nltcs")


@cache
def read(name: str, missing: str, limit: int | None = None) -> pd.DataFrame:
    """The columns of a table as text, its first `limit` rows; InputError where it is not here."""
    path = look_for(name)
    if path is None:
        raise InputError(missing)
    return pd.read_csv(path, dtype=str, keep_default_na=False, nrows=limit)


def ordered(name: str) -> Exact:
    """One of ORDERED."""
    source, sizes = ORDERED[name]
    table = read("adult", ADULT, ROWS_OF_ADULT_DATA) if source == "adult" else read(source, TRANSFUSION)
    return Exact([table[c].to_numpy(np.int64) for c in sizes], tuple(sizes.values()), name)
