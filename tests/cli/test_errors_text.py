"""What `fmwem evaluate` prints: every figure in its place, whatever names and values the tables hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem import Workload, evaluate
from factored_mwem.cli.errors_text import LONGEST, NARROWEST, errors_text

RNG = np.random.default_rng(2)
REAL = pa.table(
    {
        "gain": [0] * 90 + [99_999] * 10,
        "price": RNG.normal(1e6, 1e5, 100),
        "[/b] :smile:\n" + "x" * 40: ["[red]a\nb"] * 60 + ["y" * 50] * 40,
        "day": pa.array([18_262] * 50 + [None] * 50, pa.int32()).cast(pa.date32()),
        "gone": [1] * 100,
    }
)
SYNTHETIC = REAL.select(REAL.column_names[:4]).slice(40, 60)


@pytest.fixture(scope="module")
def text() -> str:
    return errors_text(evaluate(REAL, SYNTHETIC, 2, workload=Workload.of([("gain", "price")])))


def test_the_lines_of_a_column(text: str) -> None:
    lines = text.splitlines()
    (at,) = (i for i, line in enumerate(lines) if line.startswith("gain "))
    assert lines[at].split() == ["gain", "number", "0.133", "0.067", "0.222", "0.0", "0.0/0.0"]
    assert lines[at + 1 : at + 4] == [
        "  real       mean 10000; 0 | 0 0 0 0 99999 | 99999",
        "  synthetic  mean 16666; 0 | 0 0 0 0 99999 | 99999",
        "  popular    0: 90.0/83.3, 99999: 10.0/16.7",
    ]
    (day,) = (line for line in lines if line.startswith("day "))
    assert day.split() == ["day", "moment", "0.667", "0.000", "-", "0.0", "50.0/83.3"]


def test_all_parts_are_there_and_the_worst_last(text: str) -> None:
    assert text.startswith("NOT PRIVATE")
    assert "note: only in the real table, and not compared: 'gone'" in text
    assert "  gain x price" in text.split("furthest apart:")[1].split("marginals over")[0]
    assert "marginals over bins with equal shares of the real rows" in text
    assert "marginal over gain, price (1): mean" in text
    worst = text.split("worst marginals:\n")[1].splitlines()
    errors = [float(line.split()[0]) for line in worst]
    assert len(errors) == 10 and errors == sorted(errors, reverse=True)


def test_names_and_values_are_text_on_a_line_of_ours(text: str) -> None:
    assert "[/b] :smile:\\n" in text and "[red]a\\nb: 60.0/33.3" in text
    assert f"{'y' * (LONGEST - 2)}..: 40.0/66.7" in text
    assert all(line == line.rstrip() and len(line) <= 120 for line in text.splitlines())


def test_nothing_is_lost_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal
    narrow = errors_text(evaluate(REAL, SYNTHETIC, 1))
    assert "\x1b" not in narrow
    table = narrow.split("\ncolumn ")[1].split("\n\n")[0]
    assert max(map(len, table.splitlines())) <= NARROWEST
    assert "  popular    0: 90.0/83.3, 99999: 10.0/16.7" in table
    assert table.count("2020-01-01") == 2 * 8 + 1


def test_a_value_and_its_share_stay_on_a_line() -> None:
    table = pa.table({"job": [f"a job of kind {i}" for i in range(5)] * 9})
    lines = errors_text(evaluate(table, table, 1)).splitlines()
    assert [sum(f"a job of kind {i}: 20.0/20.0" in line for line in lines) for i in range(5)] == [1] * 5
    assert sum("a job" in line for line in lines) == 2
