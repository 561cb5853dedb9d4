"""5. The model is public: draw as many rows from it as you like, at no cost, today or from its file."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from support.commands import Fmwem

from factored_mwem import Release, release


def test_more_rows_are_free(town: Path) -> None:
    made = release("people.csv", 2, epsilon=1.0, domain="people.domain.json")
    assert made.sample(10).num_rows == 10
    assert made.sample(10, seed=7).equals(made.sample(10, seed=7))
    assert made.to_arrow().num_rows == made.rows  # the noisy count of the table


def test_a_model_file_keeps_everything(town: Path) -> None:
    made = release("people.csv", 2, epsilon=1.0, domain="people.domain.json")
    made.save("people.fmwem")
    again = Release.load("people.fmwem")
    assert again.manifest == made.manifest and again.to_arrow().equals(made.to_arrow())


def test_rows_on_the_command_line(town: Path, fmwem: Fmwem) -> None:
    assert fmwem("release", "people.csv", "--marginals", 2, "--model", "people.fmwem").code == 0
    assert fmwem("sample", "people.fmwem", "-n", 25, "-o", "more.parquet").code == 0
    assert pq.read_table("more.parquet").num_rows == 25
