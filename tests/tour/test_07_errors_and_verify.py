"""7. For the owner's eyes: how far the rows are off, and whether one person moves more than was charged."""

from __future__ import annotations

from pathlib import Path

from support.commands import Fmwem

from factored_mwem import evaluate, release, verify


def test_evaluate_compares_with_the_real_table(town: Path, fmwem: Fmwem) -> None:
    release("people.csv", 2, epsilon=5.0, domain="people.domain.json").write("out.parquet")
    errors = evaluate("people.csv", "out.parquet", 1, domain="people.domain.json")  # NOT PRIVATE
    mean, worst = errors.by_order[1]
    assert 0 <= mean <= worst <= 2  # L1 distances of shares
    assert "NOT PRIVATE" in fmwem("evaluate", "people.csv", "out.parquet", "--marginals", 1).out


def test_verify_replays_the_release_on_neighbours(town: Path) -> None:
    found = verify("people.csv", 1, pairs=3, seed=1, domain="people.domain.json", rounds=1)  # NOT PRIVATE
    assert found.holds and found.pairs == 3
    assert all(stage.worst <= 1 + 1e-9 for stage in found.stages)
