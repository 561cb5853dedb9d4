"""`fmwem attack`: honest releases show nothing, a planted generator is caught, bounds are what they say, and
an attack that was stopped goes on.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import special
from support.commands import Fmwem
from support.fakes import FakeNoise
from support.marks import others_slow

from factored_mwem import Attack, Effort, InputError, Package, attack, release
from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.domain import Domain
from factored_mwem.owner.attack.bounds import limits, one_run
from factored_mwem.owner.attack.result import FAILURE, Score
from factored_mwem.owner.attack.scores import SCORES, Aim, AttackedRelease, Pool
from factored_mwem.owner.evaluation.readings import read_columns
from factored_mwem.pipeline import spending
from factored_mwem.pipeline.record.statement import charges_of
from factored_mwem.tables.inputs.source import open_table

DOMAIN = {"a": 4, "b": 5, "c": 3}
SMALL = Effort(releases=32, targets=1, canaries=40)
PUBLIC = pa.table({"a": [0, 1, 2, 3] * 9, "c": [0, 1, 2] * 12})
CASES: dict[str, dict[str, Any]] = {
    "in rounds": {"rounds": 2},
    "at once": {},
    "exchanged": {"rounds": 2, "neighbours": "replace"},
    "three rows each": {"rounds": 2, "contributions": 3},
    "the paper's": {"engine": "mwem"},
    "by id": {"privacy_id": "id", "contributions": 3},
    "people": {"privacy_id": "id", "people": True, "contributions": 3},
    "public columns": {"public_columns": ["a", "c"], "public": PUBLIC},
}
"""Kinds of noisy answers, of neighbours and of people."""


def table(people: int, rows: int = 1) -> pa.Table:
    rng = np.random.default_rng(people)
    columns = {name: rng.integers(0, size, people * rows) for name, size in DOMAIN.items()}
    return pa.table(columns | ({"id": np.arange(people * rows) // rows} if rows > 1 else {}))


@contextlib.contextmanager
def without_noise(composition: Composition = Composition.ZCDP) -> Iterator[None]:
    """A planted generator: all is exact."""
    planted = spending.FAKE_NOISE.set(FakeNoise(composition))
    try:
        yield
    finally:
        spending.FAKE_NOISE.reset(planted)


def attacked(effort: Effort = SMALL, **choices: Any) -> Attack:
    rows = 3 if "privacy_id" in choices else 1
    return attack(table(100, rows), 2, effort=effort, domain=DOMAIN, seed=1, **choices)


@pytest.mark.parametrize("choices", others_slow(CASES.values(), lambda one: one == {"rounds": 2}), ids=CASES)
def test_a_generator_without_noise_is_caught(choices: dict[str, Any]) -> None:
    with without_noise():
        found = attacked(**choices)
    told = {(one.target, one.name): one for one in found.scores}
    assert not found.holds and found.least_advantage > found.advantage
    assert told[0, "likelihood"].advantage == 1


@pytest.mark.parametrize("choices", others_slow(CASES.values(), lambda one: one == {}), ids=CASES)
def test_every_kind_of_release_can_be_attacked(choices: dict[str, Any]) -> None:
    """So few releases show nothing, whatever they are."""
    found = attacked(Effort(releases=8, targets=1, canaries=8), **choices)
    assert found.holds and (found.least_epsilon, found.least_advantage) == (0, 0)
    assert {one.name for one in found.scores} == set(SCORES)


@pytest.mark.parametrize(
    "choices",
    [
        {"rounds": 3},
        {},
        {"rounds": 3, "delta": 0.0},
        {"delta": 0.0},
        {"rounds": 3, "neighbours": "replace"},
        {"neighbours": "replace"},
        {"engine": "mwem"},
    ],
    ids=str,
)
def test_the_likelihood_ratio_of_exact_answers_is_what_they_cost(choices: dict[str, Any]) -> None:
    """Of answers without noise the log likelihood ratio is, with the person and without, as far above 0 as
    below: by the sum of the charges, for one person moves each answer by all of its sensitivity.
    """
    swap = "neighbours" in choices
    full = pa.table({"a": [3, 0, 1, 2] * 9, "b": [4, 1, 2, 3] * 9, "c": [2, 0, 1, 1] * 9})
    pool = Pool(read_columns(open_table(full), list(DOMAIN)), np.ones(36), "c")
    aim, composition = Aim("average", (0,), (1,) * swap), Composition.PURE if "delta" in choices else None
    with without_noise(composition or Composition.ZCDP):
        for inside in (True, False):
            present = np.arange(36) if not swap else np.array([0, *range(2, 36)])
            rows = present if inside else [*([1] if swap else []), *range(1 + swap, 36)]
            made = release(full.take(pa.array(rows)), 2, domain=DOMAIN, **choices)
            (scores,) = AttackedRelease(made, pool, present).scores([aim])
            counted = len(made.measurements) and not any(m.positions == () for m in made.measurements)
            charges = charges_of(e for e in made.manifest.ledger if e.stage == "measure")
            cost = sum(float(c.cost) for c in charges if c.target or not counted)
            assert scores[0] == pytest.approx(cost if inside else -cost, rel=1e-6)


def test_limits_are_clopper_and_pearsons() -> None:
    for runs, failure in ((1, 0.05), (50, 1e-3), (400, 1e-7)):
        counts = np.arange(1, runs + 1)
        low, high = limits(np.arange(runs + 1), runs, failure)
        assert low[1:] == pytest.approx(special.betaincinv(counts, runs - counts + 1, failure), rel=1e-7)
        assert (low[0], high[-1]) == (0, 1) and high == pytest.approx(1 - low[::-1])


def test_one_run_gives_the_published_figures() -> None:
    """Those that arXiv 2305.08846 prints: in its appendix D, and in section 7."""
    assert one_run(1000, 100, 75, 1e-4, 0.05) == pytest.approx(0.673, abs=1e-3)
    assert one_run(100_000, 1510, 1439, 1e-5, 0.05) == pytest.approx(2.675, abs=1e-3)
    assert one_run(100, 50, 0, 0.0, 0.05) == 0


def test_canaries_without_noise_are_told_apart() -> None:
    """Few of them over many cells: the answers then have one solution."""
    full = pa.table({name: np.arange(60) % size for name, size in (("a", 30), ("b", 4), ("c", 5))})
    domain = Domain.from_dict({"a": 30, "b": 4, "c": 5})
    pool = Pool(read_columns(open_table(full), ["a", "b", "c"]), np.ones(60), "c")
    aims = [Aim("canary", (row,), ()) for row in range(16)]
    inside = [row for row in range(16) if row % 3]
    with without_noise():
        made = release(full.take([*inside, *range(16, 60)]), 2, domain=domain, epsilon=20.0, rounds=6)
    likely = AttackedRelease(made, pool, np.arange(16, 60)).canaries(aims)
    assert sorted(np.argsort(likely)[-len(inside) :].tolist()) == inside
    assert likely.min() < -0.1 and 0.2 < likely.max() < 0.5  # 1/2 and -1/2, drawn to the mean of the coins


def test_what_so_many_releases_can_show() -> None:
    """40 with each of two targets and without: a threshold is judged by half of them."""
    scores = tuple(Score(target, "average", name, 0.1, 0.0, 0.2) for target in (0, 1) for name in SCORES)
    found = Attack(1.0, 0.0, 0.46, 100, 120, scores, (0, 0, 0), 0.0)
    low = (FAILURE / (2 * len(SCORES) * 2 + 1) / 2) ** (1 / 20)
    assert found.shown_at_most == pytest.approx(math.log(low / (1 - low)), rel=1e-6)
    assert found.facts["private"] is False and (found.holds, found.least_epsilon) == (True, 0.2)


def test_an_attack_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    kept, few = tmp_path / "kept", Effort(releases=8, targets=1, canaries=8)
    whole: dict[str, Any] = {"domain": DOMAIN, "kept": kept}
    first = attack(table(60), 1, effort=few, **whole)
    lines = kept.read_text().splitlines()
    assert len(lines) == 2 + 16 + 2 and "NOT PRIVATE" in lines[0] and kept.stat().st_mode & 0o77 == 0
    kept.write_text("\n".join(lines[:9]) + "\n" + lines[9][:20])  # killed in the middle of a line
    steps: list[tuple[int, int]] = []
    attack(table(60), 1, effort=few, **whole, report=lambda *step: steps.append(step))
    again = kept.read_text().splitlines()
    assert again[:9] == lines[:9] and len(again) == len(lines) and steps[0] == (8, 17)
    assert attack(table(60), 1, effort=few, **whole).facts == json.loads(again[-1])["result"] != first
    with pytest.raises(InputError, match="another attack"):
        attack(table(60), 1, effort=few, epsilon=2.0, **whole)


def test_the_command(here: Path, fmwem: Fmwem) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(table(80), here / "t.csv")
    (here / "t.domain.json").write_text(json.dumps(DOMAIN))
    line = "attack t.csv --marginals 1 --releases 8 --targets 1 --canaries 8 --among 60"
    done = fmwem(line)
    assert done.code == 0 and done.out.startswith("NOT PRIVATE") and "holds: no attack" in done.out
    assert (here / "t.attack.NOT-PRIVATE.jsonl").exists()
    facts = fmwem(line, "--json").facts
    assert facts["people"] == 60 and facts["releases"] == 17 and facts["holds"]
    with without_noise():
        broken = fmwem(line.replace("--releases 8", "--releases 24"), "--overwrite")
    assert broken.code == 1 and "BROKEN" in broken.out
    for wrong, why in (
        ("attack - --marginals 1", "write them to a file"),
        ("attack t.csv --marginals 1 --guess z -o z", "--guess z"),
        ("attack t.csv --marginals 1 --among 9 -o z --overwrite", "too few"),
        ("attack t.csv --marginals 1 -o t.csv", "is an input"),
        (line.replace("marginals 1", "marginals 2"), "another attack"),
    ):
        refused = fmwem(wrong)
        assert refused.code == 2 and why in refused.err, refused.err
    for several in ("datapackage.json", Package(())):
        with pytest.raises(InputError, match="attack takes one table; fmwem attack takes a package"):
            attack(several, 1)
