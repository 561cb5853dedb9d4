"""What the command line's TABLE names, and what its files are called after."""

from __future__ import annotations

from pathlib import Path

import pytest

from factored_mwem.cli.inputs import addresses, domain_beside, local_paths, source_of, title

NAMED = {
    "adult.csv.gz": ("adult", [], ["adult.csv.gz"]),
    "s3://bucket/people/adult.parquet": ("adult", ["s3://bucket/people/adult.parquet"], []),
    "s3://bucket/people/*.parquet": ("people", [], []),
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
