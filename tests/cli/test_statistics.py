"""`fmwem statistic`: one line for scripts, refusals in one line, and the books."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import Fmwem, refused

pytestmark = pytest.mark.usefixtures("adult")
AGE = "statistic adult.csv --column age --lower 0 --upper 120"


@pytest.fixture
def adult(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of one test is in no other's way."""
    monkeypatch.chdir(tmp_path)
    Path("adult.csv").symlink_to(Path(__file__).parents[2] / "datasets" / "adult.csv")


def test_a_line_for_scripts(fmwem: Fmwem) -> None:
    facts = fmwem(f"{AGE} --what mean --epsilon 2 --json").facts
    assert abs(facts["value"] - 38.7) < 2 and 0 < facts["error"] < 1
    assert facts["unit"] == "one person with at most 1 row added or removed"
    assert (facts["epsilon"], facts["delta"], facts["spent_epsilon"]) == (2.0, 0.0, 2.0)
    assert set(facts) == {
        *("what", "column", "value", "error", "step", "rows", "rows_error", "unit"),
        *("epsilon", "delta", "spent_epsilon", "manifest"),
    }


def test_the_mean_of_a_rate_is_no_whole_step(fmwem: Fmwem) -> None:
    """A column of rates near .03, between public bounds 0 and 1: its mean, and the step beside it."""
    Path("rates.csv").write_text("rate\n" + "0.0295\n" * 20_000)
    line = "statistic rates.csv --column rate --what mean --lower 0 --upper 1 --epsilon 2 --json"
    facts = fmwem(line).facts
    assert abs(facts["value"] - 0.0295) <= 2e-3 and facts["step"] == 2.0**-15


@pytest.mark.usefixtures("quiet")
def test_a_mean_of_no_number_says_so(fmwem: Fmwem) -> None:
    """A column of text; beside it one of numbers, of which the paid number of rows is said, and no more. At
    its own scale noise alone passes for rows once in 80 runs.
    """
    Path("mixed.csv").write_text("name,age\n" + "".join(f"x{i},{i % 90}\n" for i in range(3000)))
    line = "statistic mixed.csv --lower 0 --upper 100 --what mean --epsilon 1 --column"
    text, numbers = fmwem(f"{line} name"), fmwem(f"{line} age")
    assert "no row holds a number" in text.err and text.facts["rows"] <= text.facts["rows_error"]
    assert "no row holds a number" not in numbers.err
    assert abs(numbers.facts["rows"] - 3000) < 20 * numbers.facts["rows_error"]
    fmwem("ledger init books")
    fmwem("ledger add books --dataset mixed --epsilon 9 --delta 1e-9")
    booked = f"{line} name --overwrite --run-id a --ledger books --dataset mixed"
    assert fmwem(booked).facts["rows"] == fmwem(booked).facts["rows"]  # the second is the record's


def test_a_quantile_tells_no_error(fmwem: Fmwem) -> None:
    facts = fmwem(f"{AGE} --what quantile --at 0.9 --delta 1e-6 --neighbours replace").facts
    assert facts["error"] is None and facts["at"] == 0.9 and facts["delta"] == 1e-6
    assert facts["unit"].endswith("exchanged for another")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--what quantile", "needs a share"),
        ("--what mode", "must be one of"),
        ("--what median --noise laplace", "needs a delta"),
        ("--what mean --columns age", "--column"),
        ("--what mean --column nothing", "nothing"),
        ("--what mean --lower 200", "less than"),
    ],
)
def test_refusals_are_one_line(fmwem: Fmwem, options: str, words: str) -> None:
    refused(fmwem, f"{AGE} {options}", words)
