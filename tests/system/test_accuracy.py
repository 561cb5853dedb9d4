"""`bench accuracy` with AIM's rules beside fmwem: which noise is drawn when, and the whole command on a tiny
table.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from bench import aim_rule
from support.fakes import FakeNoise

from factored_mwem import Domain
from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.unit import Unit
from factored_mwem.backends.source import open_source
from factored_mwem.privacy.session import Session

ROOT = Path(__file__).parents[2]
SIZES = {"a": 2, "b": 3, "c": 2, "d": 4}
ROWS = 600


def codes() -> dict[str, np.ndarray]:
    """Four attributes: b and d follow a nine times in ten, c nothing."""
    rng = np.random.default_rng(0)
    a, c = rng.integers(0, 2, ROWS), rng.integers(0, 2, ROWS)
    b, d = (np.where(rng.random(ROWS) < 0.9, a, rng.integers(0, SIZES[name], ROWS)) for name in "bd")
    return {"a": a, "b": b, "c": c, "d": d}


def fitted(noise: FakeNoise) -> Session:
    """The session after a fit on the tiny table."""
    domain = Domain.from_dict(SIZES)
    session = Session(Accountant(Budget.of(1.0, 1e-9)), Unit(), noise)
    session = session.encode(domain, open_source(pa.table(codes())))
    aim_rule.fit(session, domain, 3)
    return session


def test_rounds_start_at_a_sixteenth_of_an_attributes_share_and_quadruple_when_nothing_is_new() -> None:
    """Without noise the first marginals change the model, later ones do not: half the noise each time."""
    noise = FakeNoise()
    session = fitted(noise)
    entries, budget = session.accountant.entries, float(session.accountant.budget.amount)
    rounds = entries[len(SIZES) :]
    assert [entry.target for entry in entries[: len(SIZES)]] == [(name,) for name in SIZES]
    selected, measured = (rounds[at::2] for at in (0, 1))
    assert {entry.stage for entry in selected} == {"select"} and len(selected) == len(measured)
    first = (2 * 0.9 * budget / (16 * len(SIZES))) ** -0.5  # the paper's sigma_0
    assert noise.scales("add")[: len(SIZES)] == pytest.approx([first] * len(SIZES))
    ratios = np.array(noise.scales("add")[:-1]) / first
    assert set(np.round(ratios, 6)) > {1.0, 0.5} and np.all(np.isin(np.round(ratios, 6), 0.5 ** np.arange(6)))
    for choice, answer in zip(selected, measured, strict=True):
        assert float(choice.cost / (choice.cost + answer.cost)) == pytest.approx(0.1)
    assert session.accountant.left < session.accountant.budget.amount / 10**6  # the last round takes the rest


def test_a_choice_weighs_errors_by_order_and_stays_within_the_share_of_cells_that_is_spent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """11 cells of single attributes, 70 of all four: with 100 in all, triples come late."""
    monkeypatch.setattr(aim_rule, "TUNED", aim_rule.TUNED.__class__(cells=100))
    offered: list[np.ndarray] = []
    eligible = aim_rule.AimLearner.eligible

    def seen(learner: aim_rule.AimLearner, step: aim_rule.Round) -> aim_rule.Eligible:
        found = eligible(learner, step)
        orders = learner._views.orders[found.which]
        assert found.weights is not None and np.allclose(found.weights, orders / orders.max())
        offered.append(orders)
        return found

    monkeypatch.setattr(aim_rule.AimLearner, "eligible", seen)
    fitted(FakeNoise())
    assert offered[0].max() < 3 == offered[-1].max()


def bench(folder: Path, *options: str | Path) -> list[dict[str, str]]:
    """The rows of the CSV that the command leaves."""
    out = folder / "runs.csv"
    command = [sys.executable, ROOT / "scripts" / "bench", "accuracy", "-o", out, *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FMWEM_")}
    done = subprocess.run(
        [str(part) for part in command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with open(out, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_the_command_runs_aims_rules_without_a_python_of_their_own(tmp_path: Path) -> None:
    """Codes out of range would be a failed run; the error falls with epsilon."""
    table = codes()
    lines = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    (tmp_path / "tiny.csv").write_text(",".join(table) + "\n" + "\n".join(lines) + "\n")
    (tmp_path / "tiny.domain.json").write_text(json.dumps(SIZES))
    chosen = ("--runs", "1", "--peers", "aim-rule", "--keep", tmp_path / "kept")
    runs = bench(tmp_path, "--data", tmp_path / "tiny.csv", "--epsilons", "0.02", "20", *chosen)
    assert [run["program"] for run in runs] == ["fmwem", "aim-rule"] * 2
    assert {run["status"] for run in runs} == {"ok"}
    noisy, exact = (float(run["e3"]) for run in runs if run["program"] == "aim-rule")
    assert exact < 0.1 and noisy > 0.3
    made = (tmp_path / "kept" / "tiny.aim-rule.20.0.csv").read_text().splitlines()
    assert made[0] == "a,b,c,d" and len(made) == 1 + ROWS
