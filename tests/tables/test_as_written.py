"""Files as strangers write them: markers of what is missing, blanks and commas, marks, names, an index.

What pandas' own reader makes of the same bytes is the oracle where there is one.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pandas._libs.parsers import STR_NA_VALUES
from pyarrow.feather import write_feather
from support.commands import Fmwem
from support.fakes import FakeNoise
from support.releases import run

from factored_mwem import Domain, Policy
from factored_mwem.domain.attribute import MARKERS
from factored_mwem.domain.dialect import Dialect
from factored_mwem.errors import InputError
from factored_mwem.owner.draft import draft
from factored_mwem.owner.evaluation.readings import ReadColumn, read_alike
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.kinds import KINDS, ZEROS, kinds_of
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.codes.spelling import respelt
from factored_mwem.tables.inputs.source import open_table

LEARNT = Policy.of(epsilon=10.0, delta=1e-9)


def cells(path: Path, dialect: Dialect | None = None, records: Any = "checked") -> dict[str, list[Any]]:
    """All columns of a text file, as everything else reads them."""
    table = respelt(open_table(path, records, dialect or Dialect()), dialect or Dialect(), None)
    whole = pa.Table.from_batches(list(table.batches(table.schema.names)))
    return {name: column.to_pylist() for name, column in zip(whole.column_names, whole.columns, strict=True)}


def file_of(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# --- what is missing ---


def test_markers_are_those_of_pandas() -> None:
    assert {"", *MARKERS} == set(STR_NA_VALUES)
    assert set(kinds_of(pa.array(MARKERS)).tolist()) == {KINDS.index("marker")}


def test_times_of_day_dates_and_amounts_that_nobody_declared_are_told_from_other_text() -> None:
    written = {
        "clock": ["11:38:36", "9:05", "23:59:59.250", "4:30 PM"],
        "dated": ["9/30/1990 0:00:00", "31.12.2024", "2024/1/31", "03-Feb-99 10:15", "May 5, 2020", "Aug-62"],
        "amount": ["$1,234", "(£5.00)", "12 %", "1,234,567.5", "EUR 3", "12,34", "5 km"],
        "string": [
            "1.2.3.4",
            "10:99",
            "Room 12",
            "5 stars",
            "kr",
            "rs1234",
            "12/2024",
            "a 11:38",
            "9/30/1990 to 1/1/1991",
            "555-1234",
        ],
    }
    for kind, texts in written.items():
        assert [KINDS[k] for k in kinds_of(pa.array(texts)).tolist()] == [kind] * len(texts)


TYPES = {
    "whole": (["3", "14", "15"], pa.int64()),
    "number": (["0.5", "1.25", "7.5"], pa.float64()),
    "day": (["2024-01-31", "1999-12-01", "2020-02-29"], pa.date32()),
    "truth": (["true", "FALSE", "true"], pa.bool_()),
    "word": (["red", "green", "blue"], pa.string()),
}


@pytest.mark.parametrize("marker", ["NA", "None", "#N/A"])
@pytest.mark.usefixtures("without_functions")
def test_a_marker_is_missing_but_in_a_column_of_text(tmp_path: Path, marker: str) -> None:
    """Learnt without noise; of a thousand cells of each column a fourth holds the marker. A count may be one
    off: rows come within one of the model's share, and the fit ends where it is near enough.
    """
    lines = [TYPES, *zip(*([*values, marker] for values, _ in TYPES.values()), strict=True)]
    table = file_of(tmp_path, "\n".join(map(",".join, [lines[0], *lines[1:] * 250])) + "\n")
    made = run(table, LEARNT, FakeNoise(), domain=None).to_arrow()
    for name, (_, own) in TYPES.items():
        column = made.column(name)
        assert column.type == own
        assert abs(column.null_count - 250) <= 1 if name != "word" else column.null_count == 0
    assert abs(made.column("word").to_pylist().count(marker) - 250) <= 1


FORMS = {
    "one zero": ["3.0", "14.0", "15400.0"],
    "with halves": ["3.0", "15400.5", "7.0"],
    "two digits": ["3.00", "12.50", "12.99", "7.00"],
    "plain": ["3", "14", "15400"],
    "some": ["3.5", "14", "15400"],
    "two forms": ["3", "14", "3.0"],
}


def formed(folder: Path, values: list[str], among: list[str]) -> pa.ChunkedArray:
    """A column as it comes out that was learnt without noise, of `values` and texts `among` them."""
    rng = np.random.default_rng(0)
    cells = [*rng.choice(values, 900 - 300 * len(among)), *(among * 300)]
    lines = [f"{cell},{'ab'[i % 2]}" for i, cell in enumerate(cells)]
    table = file_of(folder, "\n".join(["x,k", *lines]) + "\n")
    return run(table, LEARNT, FakeNoise(), domain=None).to_arrow().column("x")


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.usefixtures("without_functions")
def test_numbers_come_back_as_they_were_written(tmp_path: Path, name: str) -> None:
    """Among texts letter for letter; alone as floats, which every CSV file has with a point, where most whole
    numbers have zeros.
    """
    own = FORMS[name]
    floats = name not in ("plain", "two forms")
    alone = formed(tmp_path, own, [])
    assert alone.type == (pa.float64() if floats else pa.int64())
    assert {*alone.to_pylist()} <= {float(value) for value in own}
    texts = {*formed(tmp_path, own, ["N"]).to_pylist()}
    assert texts == ({*own, "N"} - ({"3.0"} if name == "two forms" else set()))


@pytest.mark.usefixtures("without_functions")
def test_a_planted_vote_that_hears_no_zeros_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ColumnProfile, "spelt_votes", lambda self: np.pad(self.votes(), (0, ZEROS)))
    assert "3.0" not in formed(tmp_path, FORMS["one zero"], ["N"]).to_pylist()


def test_a_declared_column_reads_markers_as_its_type_says() -> None:
    """A listed value is a value, and what the domain calls missing is all that is."""
    number = {"name": "x", "type": "integer", "constraints": {"minimum": 0, "maximum": 9}, "bins": 2}
    fields = [
        number,
        number | {"name": "listed", "specialValues": ["NA"]},
        number | {"name": "own", "missingValues": ["-"], "specialValues": ["?"], "other": "?"},
        {"name": "text", "categories": ["NA", "b"]},
        {"name": "truth", "type": "boolean", "falseValues": ["None"]},
        {"name": "rest", "categories": ["b", "other"], "other": "other"},
    ]
    domain = Domain.from_dict({"fields": fields})
    given = pa.array(["NA", "None", "-", "7"])
    null = {a.name: encode(a, given) == a.null_code for a in domain}
    assert null["x"].tolist() == [True, True, True, False]  # the third by the fallback, as ever
    assert null["listed"].tolist()[:2] == [False, True]
    assert null["own"].tolist() == [False, False, True, False]
    assert null["text"].tolist()[0] is False
    assert null["truth"].tolist()[:2] == [True, False]
    assert null["rest"].tolist() == [False] * 4


def test_what_is_said_to_be_missing_is_missing_in_text_too(tmp_path: Path) -> None:
    path = file_of(tmp_path, "name,n\nNA,1\n?,NA\nb,?\n,4\n")
    dialect = Dialect.of(missing="NA,?")
    assert cells(path, dialect) == {"name": [None, None, "b", ""], "n": ["1", None, None, "4"]}
    fields = [
        {"name": "name", "categories": ["?", "b"]},
        {"name": "n", "type": "integer", "categories": [1, 4]},
    ]
    domain = Domain.from_dict({"fields": fields})
    declared = respelt(open_table(path, "checked", dialect), dialect, domain)
    (batch,) = declared.batches(["name", "n"])
    assert batch.column("name").to_pylist() == [None, "?", "b", ""]  # a listed value is a value


def test_a_learnt_text_that_looks_like_a_number_is_respelt_like_any_other(tmp_path: Path) -> None:
    """Of a learnt domain nothing but markers and special values is taken as it is written."""
    path = file_of(tmp_path, 'w\n1.234\n"0,5"\n-\nNA\n')
    dialect = Dialect.of(decimal=",", missing="NA,-")
    field = {"name": "w", "categories": ["1.234", "1234", "-"], "learnt": True}
    table = respelt(open_table(path, "checked", dialect), dialect, Domain.from_dict({"fields": [field]}))
    (batch,) = table.batches(["w"])
    assert batch.column("w").to_pylist() == ["1234", "0.5", "-", None]


def test_a_draft_knows_what_is_missing(tmp_path: Path) -> None:
    text = "n,word\n" + "1,NA\n2,x\nNA,y\n" * 50
    plain = draft(file_of(tmp_path, text))
    assert plain["n"].type == "integer" and plain["n"].nullable and not plain["n"].sentinels
    assert plain["word"].categories == ("NA", "x", "y") and not plain["word"].nullable
    said = draft(tmp_path / "t.csv", dialect=Dialect.of(missing="NA"))
    assert said["word"].categories == ("x", "y") and said["word"].nullable
    assert said.dialect == Dialect.of(missing="NA")


def test_evaluation_takes_a_marker_for_null_where_a_release_would() -> None:
    """The real column is text, as of a CSV file; the synthetic one is typed, or text with empty cells."""
    real = ReadColumn(pa.array(["1", "2", "NA"]), np.array([0, 1, 2] * 10))
    for synthetic in (
        ReadColumn(pa.array([1, 2, None] * 10), None),
        ReadColumn(pa.array(["1", "2", ""]), np.array([0, 1, 2] * 10)),
    ):
        kind, _, ours, theirs = read_alike(real, synthetic)
        assert kind == "number"
        assert (ours.index == -1).all() and (theirs.index == -1).all()
    words = ReadColumn(pa.array(["a", "b", "NA"]), np.array([0, 1, 2] * 10))
    kind, _, ours, _ = read_alike(words, words)
    assert kind == "text" and (ours.index >= 0).all()


# --- between the cells ---


@pytest.mark.parametrize(
    "text",
    [
        "a, b, c\n1, x, 2\n3, y z, 4\n",
        'a, b, c\n1, "x, y", 2\n3, "he said, ""no""", 4\n',
        "a,  b,   c\r\n1,    x,2\r\n3,y , 4\r\n",
        'a, "b", c\n1, 5" pipe, 2\n3, , 4\n',
    ],
)
@pytest.mark.parametrize("records", ["checked", "lines"])
def test_blanks_behind_delimiters_belong_to_no_cell(tmp_path: Path, text: str, records: str) -> None:
    path = file_of(tmp_path, text)
    theirs = pd.read_csv(io.StringIO(text), skipinitialspace=True, dtype=str, keep_default_na=False)
    assert cells(path, records=records) == theirs.to_dict("list")
    assert cells(path, Dialect.of(delimiter=", "), records) == theirs.to_dict("list")


@pytest.mark.parametrize("piece", ['"', ', "', ',""y', ',"x, ', ',"""x'])
def test_one_line_of_quotes_costs_no_more_than_others(tmp_path: Path, piece: str) -> None:
    """What one person wrote must not hold up a run: a search that starts anew at each quote takes days."""
    path = file_of(tmp_path, f"a, b\n1, {piece * 300_000}\n2, x\n")
    assert cells(path, records="lines")["b"][-1] == "x"


def test_a_blank_is_a_part_of_the_cell_where_one_name_has_none(tmp_path: Path) -> None:
    assert cells(file_of(tmp_path, "a, b,c\n1, x, 2\n")) == {"a": ["1"], " b": [" x"], "c": [" 2"]}
    with pytest.raises(InputError, match="blanks follow the delimiters, which --multiline does not take"):
        cells(file_of(tmp_path, "a, b\n1, x\n"), records="multiline")


def test_a_file_without_a_header_may_have_blanks(tmp_path: Path) -> None:
    path = file_of(tmp_path, "39, State-gov\n50, Private\n", "adult.data")
    dialect = Dialect.of(header="none", names="age,work", delimiter=", ")
    assert cells(path, dialect) == {"age": ["39", "50"], "work": ["State-gov", "Private"]}


def test_semicolons_between_cells_let_commas_stand_before_decimals(tmp_path: Path) -> None:
    """Both notations side by side; what only might be a number stays text."""
    given = ["1,5", "-0,25", "1.234,5", "1 234,5", "2.5", "1.234", "1,234", "7", "a,b", "1,2,3", "12,", "1e3"]
    path = file_of(tmp_path, "x;y\n" + "".join(f"{cell};z\n" for cell in given))
    read = cells(path)["x"]
    assert read == [
        *("1.5", "-0.25", "1234.5", "1234.5", "2.5", "1.234", "1.234", "7", "a,b", "1,2,3", "12,", "1e3")
    ]
    assert cells(path, Dialect.of(decimal="."))["x"][0] == "1,5"
    commas = file_of(tmp_path, 'x,y\n"1,5",z\n')
    assert cells(commas)["x"] == ["1,5"]


# --- marks and names of files ---


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_mark_at_the_start_says_the_encoding(tmp_path: Path, encoding: str) -> None:
    path = file_of(tmp_path, "näme,b\nß,1\n".encode(encoding))
    assert cells(path) == {"näme": ["ß"], "b": ["1"]}


@pytest.mark.parametrize("name", ["t.txt", "t.dat", "t.data", "t.TXT", "t.data.gz"])
def test_text_by_other_names_is_read(tmp_path: Path, name: str) -> None:
    import gzip

    text = b"a|b\n1|2\n"
    path = file_of(tmp_path, gzip.compress(text) if name.endswith("gz") else text, name)
    assert cells(path) == {"a": ["1"], "b": ["2"]}


def test_an_index_that_pandas_wrote_is_no_column(tmp_path: Path) -> None:
    """Only where its metadata say so, and it has no name of its own; of a frame, whatever it is called."""
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "b": ["x", "y", "z", "z"]}).drop(1)
    frame.to_parquet(tmp_path / "t.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "t.parquet").names
    table = pq.read_table(tmp_path / "t.parquet")
    for source in (tmp_path / "t.parquet", table, frame):
        assert open_table(source).schema.names == ["a", "b"]
    bare = table.replace_schema_metadata(None)
    assert open_table(bare).schema.names == ["a", "b", "__index_level_0__"]
    frame.set_index("a").to_parquet(tmp_path / "t.parquet")
    assert sorted(open_table(tmp_path / "t.parquet").schema.names) == ["a", "b"]
    for names, kept in (
        (["g", "n"], ["a", "b", "g", "n"]),
        (["g", None], ["a", "b", "g"]),
        ([None] * 2, ["a", "b"]),
    ):
        several = frame.set_index([["p", "q", "p"], [1.5, 2.5, 3.5]]).rename_axis(names)
        several.to_parquet(tmp_path / "m.parquet")
        opened = open_table(tmp_path / "m.parquet")
        assert opened.schema.names == kept
        (batch,) = opened.batches(kept)
        assert batch.to_pylist() == several.reset_index()[kept].to_dict("records")
        assert open_table(several).schema.names == ["a", "b"]
    feather = tmp_path / "t.feather"
    write_feather(table, feather)
    assert open_table(feather).schema.names == ["a", "b"]


# --- what is said first ---


def test_a_misspelt_input_is_named_before_an_output_that_is_there(here: Path, fmwem: Fmwem) -> None:
    (here / "typo.synthetic.parquet").write_text("")
    ended = fmwem("release", "typo.csv", "--marginals", 2)
    assert ended.code == 2 and "no file typo.csv" in ended.err and "exists" not in ended.err


def test_missing_values_are_said_on_the_command_line(here: Path, fmwem: Fmwem) -> None:
    (here / "w.csv").write_text("w,n\n" + "NA,1\nx,2\ny,3\n" * 400)
    done = fmwem("release w.csv --marginals 2 --missing NA,? --epsilon 20 -o w.parquet")
    assert done.code == 0, done.err
    column = pq.read_table(here / "w.parquet").column("w")
    assert column.null_count > 200 and "NA" not in column.to_pylist()
