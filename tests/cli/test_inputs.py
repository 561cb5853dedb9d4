"""What the command line's TABLE names, and what its files are called after."""

from __future__ import annotations

from pathlib import Path

import pytest

from factored_mwem.cli.inputs import (
    addresses,
    domain_beside,
    local_paths,
    patterns,
    read_paths,
    source_of,
    title,
)
from factored_mwem.cli.jobs import check_paths
from factored_mwem.errors import InputError
from factored_mwem.tables.outputs.formats import output_of

NAMED = {
    "adult.csv.gz": ("adult", [], ["adult.csv.gz"]),
    "s3://bucket/people/adult.parquet": ("adult", ["s3://bucket/people/adult.parquet"], []),
    "s3://bucket/people/*.parquet": ("people", ["s3://bucket/people"], []),
    "duckdb:///shop.db#main.people": ("people", [], []),
    "spark:lake.shop.people": ("people", [], []),
    "spark:people": ("people", [], []),
    "-": ("stdin", [], ["-"]),
}


@pytest.mark.parametrize("text", NAMED)
def test_a_table_s_name_and_its_places(text: str) -> None:
    given = source_of([text])
    name, uris, paths = NAMED[text]
    assert (title(given), addresses(given)) == (name, uris)
    assert [str(path) for path in local_paths(given)] == paths


def test_several_are_named_after_the_first_and_described_by_none(tmp_path: Path) -> None:
    given = source_of([str(tmp_path / "a.csv"), "s3://bucket/b.csv"])
    assert title(given) == "a" and domain_beside(given) is None
    assert addresses(given) == ["s3://bucket/b.csv"] and local_paths(given) == [tmp_path / "a.csv"]


def test_a_glob_may_have_its_output_beside_its_files_but_not_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").touch()
    (tmp_path / "parts").mkdir()
    given = source_of(["*.csv"])
    assert read_paths(given) == [tmp_path / "a.csv"] and patterns(given) == [str(tmp_path / "*.csv")]
    check_paths([output_of("a.synthetic.parquet")], read_paths(given), patterns(given))
    with pytest.raises(InputError, match="fits the table's pattern"):
        check_paths([output_of("b.csv")], read_paths(given), patterns(given))
    with pytest.raises(InputError, match="is an input"):
        check_paths([output_of("a.csv")], read_paths(given), patterns(given))
    everything = source_of(["*"])
    with pytest.raises(InputError, match="lies in the folder"):
        check_paths([output_of("parts/b.csv")], read_paths(everything), ())
    assert read_paths(source_of(["none*.csv"])) == []
