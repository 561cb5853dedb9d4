"""4. A dry run tells what a release would do, and reads no row: it costs nothing."""

from __future__ import annotations

from pathlib import Path

from support.commands import Fmwem


def test_check_tells_cells_memory_and_noise(town: Path, fmwem: Fmwem) -> None:
    facts = fmwem("check", "people.csv", "--marginals", 2, "--json").facts
    assert facts["attributes"] == {"age": 6, "colour": 4, "owns": 2, "score": 5}  # codes, null among them
    assert facts["cells"] == 6 * 4 * 2 * 5 and facts["memory_megabytes"] > 0
    assert not list(town.glob("people.synthetic.*"))


def test_what_does_not_fit_is_said_before_anything_is_spent(town: Path, fmwem: Fmwem) -> None:
    done = fmwem("release", "people.csv", "--marginals", 2, "--max-cells", 3, "--json")
    assert done.code == 4 and done.facts["budget_spent"] is False
    assert "Traceback" not in done.err and not list(town.glob("people.synthetic.*"))


def test_a_mistake_is_one_line(town: Path, fmwem: Fmwem) -> None:
    done = fmwem("release", "nobody.csv", "--marginals", 2)
    assert done.code == 2 and done.err.count("\n") == 1 and "nobody.csv" in done.err
