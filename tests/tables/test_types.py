"""The types of a release are those that pandas and DuckDB read the same bytes as.

Both readers are told what stands for nothing. Where they disagree, or the release with both, EXCEPTIONS says
what it does instead, and why.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pandas._libs.parsers import STR_NA_VALUES

from factored_mwem import Workload, release

pytestmark = pytest.mark.usefixtures("quiet")
ROOT = Path(__file__).resolve().parents[2]
PLENTY = 1000.0
"""An epsilon so large that no type is lost in noise: what is tested is how values are read."""
MOST = 1000
"""Rows that are read of a large file."""
YES = "DuckDB takes Yes and No for booleans; the release keeps the words that people wrote, as pandas does"
PLUS = "DuckDB reads +2 as text"
SIGN = "5% is the number 5, and a note says so; the readers take it for text"
ZERO = "digits after a zero are a code, of which 01234 would not be left if it were a number"
EXCEPTIONS = {
    "yes": ("string", YES),
    "signed": ("integer", PLUS),
    "percent": ("integer", SIGN),
    "codes": ("string", ZERO),
}
"""Column of HOSTILE: the type that a release gives it, and why one of the readers gives it another."""
HOSTILE = {
    "markers": ["NA", "1", "2", "NaN", "17"],
    "decimals": ["NA", "1.5", "2.25", "", "17"],
    "zoned": ["2024-01-31T10:20:30Z", "2023-02-01T00:00:00Z", "2024-06-05T23:59:59Z"],
    "moments": ["2024-01-31 10:20:30", "2023-02-01 00:00:00", "2024-06-05 23:59:59"],
    "days": ["2024-01-31", "2023-02-01", "NA", "2024-06-05"],
    "truths": ["true", "false", "NA", "true"],
    "loud": ["TRUE", "FALSE", "TRUE"],
    "codes": ["01234", "00501", "10001", "94110"],
    "big": ["360810443021005", "360050051001005", "9007199254740993"],
    "signed": ["-1", "+2", "0", "30"],
    "tiny": ["1e-3", "2.5e10", "7"],
    "words": ["red", "NA", "null", "green"],
    "mixed": ["1", "2", "?", "4"],
    "percent": ["5%", "10%", "7%"],
    "points": ["1.0", "0.0", "15400.0"],
    "dots": [".5", "1.", "2.75"],
    "yes": ["Yes", "No", "No"],
    "slashes": ["2016/01/31", "2017/12/01", "2018/05/17"],
}


def type_of_arrow(kind: pa.DataType) -> str:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    names = {
        "boolean": pa.types.is_boolean,
        "integer": pa.types.is_integer,
        "number": pa.types.is_floating,
        "date": pa.types.is_date,
        "datetime": pa.types.is_timestamp,
    }
    return next((name for name, fits in names.items() if fits(kind)), "string")


OF_PANDAS = {"Int64": "integer", "Float64": "number", "boolean": "boolean"}
OF_DUCKDB = {
    "BIGINT": "integer", "DOUBLE": "number", "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "datetime",
    "TIMESTAMP WITH TIME ZONE": "datetime", "VARCHAR": "string",
}  # fmt: skip


def read_by_others(path: Path) -> dict[str, tuple[str, str]]:
    """(pandas' type, DuckDB's) of each column. pandas reads no moments by itself: there DuckDB's is both."""
    frame = pd.read_csv(path, dtype_backend="numpy_nullable")
    words = sorted(STR_NA_VALUES)
    rows = duckdb.read_csv(str(path), na_values=words, sample_size=-1, header=True)
    types = {}
    for name, own, other in zip(frame.columns, frame.dtypes, rows.types, strict=True):
        read = OF_PANDAS.get(str(own), "string"), OF_DUCKDB[str(other)]
        types[name] = (read[1],) * 2 if read[1] in ("date", "datetime") else read
    return types


def released(path: Path, folder: Path) -> dict[str, str]:
    """The type of each column in the Parquet file of a release whose domain is learnt."""
    made = release(path, Workload.marginals(1), epsilon=PLENTY, delta=1e-9)
    made.write(folder / "out.parquet", overwrite=True)
    return {field.name: type_of_arrow(field.type) for field in pq.read_schema(folder / "out.parquet")}


def write(path: Path, columns: dict[str, list[str]], sign: str = ",", encoding: str = "utf-8") -> Path:
    """600 rows, over and over the same."""
    lines = [sign.join(columns)]
    lines += [sign.join(cells[i % len(cells)] for cells in columns.values()) for i in range(600)]
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return path


def raw_files() -> list[Path]:
    folder = Path(os.environ.get("FMWEM_DATASETS", "."))
    known = [path for path in sorted(folder.glob("*/*.csv*")) if path.is_file()]
    bundled = sorted((ROOT / "datasets").glob("*.csv"))
    return [*{path.name: path for path in (*bundled, *known)}.values()]


@pytest.mark.slow
@pytest.mark.parametrize("path", raw_files(), ids=lambda path: path.name)
def test_public_tables_come_back_in_the_types_that_others_read(path: Path, tmp_path: Path) -> None:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = content.decode().splitlines()[: MOST + 1]
    again = -(-300 // len(lines))  # of a small table several times
    copy = tmp_path / "t.csv"
    copy.write_text("\n".join([lines[0], *lines[1:] * again]) + "\n")
    theirs = read_by_others(copy)
    for name, kind in released(copy, tmp_path).items():
        others = set(theirs[name])
        yes = others == {"boolean", "string"}
        assert {kind} == ({"string"} if yes else others), name


def test_hostile_columns_come_back_in_the_types_that_others_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", HOSTILE)
    mine, others = released(path, tmp_path), read_by_others(path)
    assert list(mine) == list(HOSTILE)
    for name, kind in mine.items():
        if name in EXCEPTIONS:
            assert kind == EXCEPTIONS[name][0]
            assert others[name] != (kind, kind), f"{name} is no exception any more"
        else:
            assert others[name] == (kind, kind), name


def test_wide_text_and_decimal_commas_come_back_in_the_types_that_others_read(tmp_path: Path) -> None:
    """UTF-16 with its mark, as spreadsheets write it; and commas for decimals where semicolons part cells."""
    columns = {"name": ["é", "ß"], "n": ["1", "2", "NA"], "day": ["2024-01-31", "2024-02-01"]}
    wide = write(tmp_path / "wide.csv", columns, encoding="utf-16")
    others = read_by_others(write(tmp_path / "narrow.csv", columns))  # DuckDB reads no UTF-16 as it comes
    assert {name: (kind,) * 2 for name, kind in released(wide, tmp_path).items()} == others
    commas = write(tmp_path / "commas.csv", {"x": ["1,5", "2,25", "3"], "n": ["7", "8"]}, sign=";")
    frame = pd.read_csv(commas, sep=";", decimal=",", dtype_backend="numpy_nullable")
    rows = duckdb.read_csv(str(commas), sep=";", decimal=",")
    mine = released(commas, tmp_path)
    assert mine == {name: OF_PANDAS[str(kind)] for name, kind in frame.dtypes.items()}
    assert list(mine.values()) == [OF_DUCKDB[str(kind)] for kind in rows.types]


def test_the_index_of_pandas_and_of_r_is_no_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3] * 200, "b": ["x", "y", "z"] * 200})
    frame.to_csv(tmp_path / "index.csv")
    assert released(tmp_path / "index.csv", tmp_path) == {"a": "integer", "b": "string"}
    frame[frame["a"] > 1].to_parquet(tmp_path / "index.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "index.parquet").names
    assert released(tmp_path / "index.parquet", tmp_path) == {"a": "integer", "b": "string"}
