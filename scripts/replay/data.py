"""The paper's data sets. Three small tables are constants here; the others are read from the folder
FMWEM_DATASETS, or say how to get them.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from factored_mwem import Domain, InputError, ResourceError

SHIPPED = Path(__file__).parents[2] / "datasets"
"""Contingency tables that come with the project: mildew, czech and rochdale."""
MAX_RECORDS = 10_000_000
"""Most records that `expand_counts` makes."""
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


class Exact:
    """Rows of codes, and exact answers about them: what a query kind asks."""

    def __init__(self, codes: Sequence[np.ndarray], shape: Sequence[int]) -> None:
        self.codes, self.shape = codes, shape

    def column(self, position: int) -> np.ndarray:
        return self.codes[position]

    def marginal(self, positions: Sequence[int]) -> np.ndarray:
        """int64[cells]: the counts over these attributes; over none, the number of rows."""
        cell, cells = np.zeros(len(self.codes[0]), dtype=np.int64), 1
        for position in positions:
            cell *= self.shape[position]
            cell += self.codes[position]
            cells *= self.shape[position]
        return np.bincount(cell, minlength=cells).astype(np.int64)


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
    def rows(self) -> Exact:
        """What exact answers are counted on."""
        return Exact(self.codes, self.shape)

    def histogram(self) -> np.ndarray:
        """int64[cells], row-major."""
        return self.rows.marginal(range(len(self.shape)))


@cache
def small(name: str) -> Table:
    """mildew, czech or rochdale."""
    domain, table = Domain.load(SHIPPED / f"{name}.domain.json"), expand_counts(SHIPPED / f"{name}.csv")
    columns = []
    for attribute, column in zip(domain, table.columns, strict=True):
        code = {value: code for code, value in enumerate(attribute.values)}
        columns.append(np.array([code[value] for value in column.to_pylist()], dtype=np.int64))
    return Table(name, domain.shape, tuple(columns))


def expand_counts(path: Path) -> pa.Table:
    """A contingency table as records: each row of the CSV as often as its last column, `count`, says; that
    column dropped.

    Values are strings, or int64 where the domain file beside the CSV declares the type integer.
    """
    header, cells, counts = _read_counts(path)
    beside = path.with_suffix(".domain.json")
    integers = {a.name for a in Domain.load(beside) if a.type == "integer"} if beside.is_file() else set()
    columns: list[pa.Array] = []
    for i, name in enumerate(header):
        texts = [cell[i] for cell in cells]
        if name in integers:
            where = f"{path} line {{}}: column {name!r} is not an integer"
            columns.append(pa.array(_integers(texts, where), type=pa.int64()))
        else:
            columns.append(pa.array(texts, type=pa.string()))
    rows = np.repeat(np.arange(len(counts)), counts)
    return pa.table(columns, names=header).take(pa.array(rows, type=pa.int64()))


def _read_counts(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """Names, cells and counts of a contingency CSV; InputError where it is not one."""
    try:
        with open(path, encoding="utf-8", newline="") as lines:
            header, *rows = list(csv.reader(lines)) or [[]]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(header) < 2 or header[-1] != "count":
        raise InputError(f"{path} is not a table of counts; its last column must be `count`")
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InputError(f"{path} line {line} has {len(row)} fields, the header has {len(header)}")
    where = f"{path} line {{}}: column 'count' is not a count"
    counts = _integers([row[-1] for row in rows], where, least=0)
    if sum(counts) > MAX_RECORDS:
        raise ResourceError(
            f"{path} stands for {sum(counts)} records, more than the {MAX_RECORDS} that are expanded"
        )
    return header[:-1], [row[:-1] for row in rows], counts


def _integers(texts: Sequence[str], wrong: str, *, least: int = -(2**63)) -> list[int]:
    """The numbers of a column; InputError, `wrong` with its line, at the first that is none."""
    found = []
    for line, text in enumerate(texts, start=2):
        try:
            found.append(int(text))
        except ValueError:
            found.append(least - 1)
        if not least <= found[-1] < 2**63:
            raise InputError(f"{wrong.format(line)}: {text!r}")
    return found


def nltcs_path() -> Path | None:
    """The file that FMWEM_NLTCS names, which must be there, or FMWEM_DATASETS/nltcs/nltcs.csv."""
    named = os.environ.get("FMWEM_NLTCS")
    found = Path(named or folder() / "nltcs" / "nltcs.csv")
    if named and not found.is_file():
        raise InputError(f"FMWEM_NLTCS names no file: {found}; correct it, or unset it for a stand-in")
    return found if found.is_file() else None


def nltcs_name() -> str:
    """What a figure calls the table it gets: `nltcs`, once its file is known to be the survey, or the
    stand-in, whose rows no claim may rest on.
    """
    return nltcs("nltcs").name if nltcs_path() else STAND_IN


def nltcs(name: str) -> Table:
    """The National Long-Term Care Survey; or as many rows of 16 bits from six made-up classes of people with
    more and fewer disabilities.
    """
    if name == STAND_IN:
        return stand_in()
    path = nltcs_path()
    if path is None:
        raise InputError(NLTCS)
    return survey(path)


@cache
def survey(path: Path) -> Table:
    """A CSV of bits under a header; InputError unless its counts are the survey's."""
    try:
        bits = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64, ndmin=2)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no table of bits under a header: {error}") from None
    found = {
        "rows": len(bits),
        "attributes": bits.shape[1],
        "different rows": len(np.unique(bits, axis=0)),
        "rows without a 1": int((~bits.any(axis=1)).sum()),
    }
    off = [f"{found[of]:,} {of}, not {known:,}" for of, known in NLTCS_COUNTS.items() if found[of] != known]
    if len(bits) and not np.isin(bits, (0, 1)).all():
        off.append("other values than 0 and 1")
    if off:
        raise InputError(f"{path} is not the National Long-Term Care Survey: it has {'; '.join(off)}")
    return Table("nltcs", (2,) * 16, tuple(bits.T.copy()))


@cache
def stand_in() -> Table:
    rng = np.random.default_rng(16)
    share, odds = np.array([0.4, 0.2, 0.15, 0.1, 0.1, 0.05]), rng.beta(0.5, 0.8, size=(6, 16))
    odds[0] /= 12  # most people have none of the disabilities
    bits = rng.random((21_574, 16)) < odds[rng.choice(6, size=21_574, p=share)]
    return Table(STAND_IN, (2,) * 16, tuple(bits.T.astype(np.int64)))


def folder() -> Path:
    return Path(os.environ.get("FMWEM_DATASETS", "."))


@cache
def read(name: str, missing: str, limit: int | None = None) -> dict[str, list[str]]:
    """The columns of NAME/NAME.csv[.gz] as text, its first `limit` rows; InputError where it is not here."""
    places = (folder() / name / f"{name}{end}" for end in (".csv", ".csv.gz"))
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise InputError(missing)
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
    if name in ("capital loss", "age x hours"):
        table = read("adult", ADULT, 32_561)  # the paper's Adult is adult.data, the first part of the file
    else:
        table = read("transfusion", TRANSFUSION)
    return Table(name, shape, tuple(np.array(table[column], dtype=np.int64) for column in columns))
