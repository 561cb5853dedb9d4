"""`fmwem statistic`: one line for scripts, refusals in one line, and the books."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Fmwem

TABLE = Path(__file__).parents[2] / "datasets" / "adult.csv"
AGE = ("--column", "age", "--lower", "0", "--upper", "120")


def test_a_line_for_scripts(fmwem: Fmwem) -> None:
    done = fmwem("statistic", TABLE, *AGE, "--what", "mean", "--epsilon", "2", "--json")
    facts = json.loads(done.out)
    assert abs(facts["value"] - 38.7) < 2 and 0 < facts["error"] < 1
    assert facts["unit"] == "one person with at most 1 row added or removed"
    assert (facts["epsilon"], facts["delta"], facts["spent_epsilon"]) == (2.0, 0.0, 2.0)
    assert set(facts) == {
        *("what", "column", "value", "error", "unit", "epsilon", "delta", "spent_epsilon"),
    }


def test_a_quantile_tells_no_error(fmwem: Fmwem) -> None:
    asked = ("--what", "quantile", "--at", "0.9", "--delta", "1e-6", "--neighbours", "replace")
    facts = json.loads(fmwem("statistic", TABLE, *AGE, *asked).out)
    assert facts["error"] is None and facts["at"] == 0.9 and facts["delta"] == 1e-6
    assert facts["unit"].endswith("exchanged for another")


def test_the_cost_is_in_the_books_and_paid_once(fmwem: Fmwem, tmp_path: Path) -> None:
    books = str(tmp_path / "books.ledger")
    fmwem("ledger", "init", books)
    fmwem("ledger", "add", books, "--dataset", "adult", "--epsilon", "1.5", "--delta", "1e-9")
    asked = ("statistic", TABLE, *AGE, "--what", "median", "--ledger", books, "--dataset", "adult")
    first = fmwem(*asked, "--run-id", "one")
    again = fmwem(*asked, "--run-id", "one")
    assert first.code == 0 and first.out == again.out
    refused = fmwem(*asked, "--run-id", "two")
    assert refused.code == 3 and not refused.out.startswith('{"what"')


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--what", "quantile"), "needs a share"),
        (("--what", "mode"), "must be one of"),
        (("--what", "median", "--noise", "laplace"), "needs a delta"),
        (("--what", "mean", "--columns", "age"), "--column"),
        (("--what", "mean", "--column", "nothing"), "nothing"),
        (("--what", "mean", "--lower", "200"), "less than"),
    ],
)
def test_refusals_are_one_line(fmwem: Fmwem, options: tuple[str, ...], words: str) -> None:
    done = fmwem("statistic", TABLE, *AGE, *options)
    assert done.code == 2 and words in done.err and "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1
