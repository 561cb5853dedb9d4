"""Privacy, checked exhaustively on tiny tables and end to end, and every check is seen to fail on the bug
that it is there for.

The noise adapter is a fake that records what it is given, so output distributions are computed exactly
instead of sampled.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fakes import Call, FakeNoise
from goodness import exponential, gaussian, laplace, permute_and_flip
from test_neighbours import neighbours

from factored_mwem.accounting.accountant import Accountant, Budget, Charge, Mechanism, price
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.kernels.scoring import Answers
from factored_mwem.mechanisms import eligible as offer
from factored_mwem.mechanisms import mwem
from factored_mwem.mechanisms import tree as engine
from factored_mwem.model import estimation as estimate
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.dense import Factor, ProductModel
from factored_mwem.model.forest import Forest
from factored_mwem.pipeline import release as flow
from factored_mwem.pipeline.release import _release
from factored_mwem.pipeline.result import Release
from factored_mwem.policy import Policy
from factored_mwem.privacy import session as access_module
from factored_mwem.privacy.counts import PrivateCounts, PrivateRows
from factored_mwem.privacy.discover import discover
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.privacy.session import SCORE_GRID, Access, Measurement, measure, select
from factored_mwem.tables.profile import COARSE, KINDS, profile
from factored_mwem.tables.source import Table, open_table
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.workload import Workload

TINY = Domain(
    Attribute(name=n, categories=tuple("xyz"[:s]), constraints={"required": True})
    for n, s in (("a", 2), ("b", 3))
)
CANDIDATES = Workload.marginals(2).candidates(TINY)
UNITS = [Unit(relation, k) for relation in Neighbours for k in (1, 2)]
BUDGET = {Composition.ZCDP: Budget.of(1.0, 1e-9), Composition.PURE: Budget.of(1.0, 0.0)}
NOISE_PMF = {Composition.ZCDP: gaussian, Composition.PURE: laplace}
CHOICE_PMF = {Composition.ZCDP: exponential, Composition.PURE: permute_and_flip}
every_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda u: f"{u.neighbours}-{u.contributions}")
both = pytest.mark.parametrize("composition", list(Composition))


@cache
def counts_of(
    rows: tuple[int, ...], domain: Domain = TINY, candidates: Candidates = CANDIDATES
) -> PrivateCounts:
    codes = np.unravel_index(np.array(rows, dtype=np.int64), domain.shape)
    return PrivateCounts([c.astype(np.uint8) for c in codes], candidates)


def models() -> Iterator[ProductModel]:
    """Public models: uniform and skewed, apart and joined, whose answers are no whole numbers."""
    rng = np.random.default_rng(5)
    for total in (1.0, 2.7):
        yield ProductModel.uniform(TINY, total)
        a, b, ab = (rng.dirichlet(np.ones(n)) for n in (2, 3, 6))
        yield ProductModel(TINY, [Factor((0,), (2,), a), Factor((1,), (3,), b)], total)
        yield ProductModel(TINY, [Factor((0, 1), (2, 3), ab)], total)


# (a) --- exhaustive: every output's probability under every pair of neighbours ---


class Between:
    """A noise adapter that changes the scale on its way: what a bug between the ledger and the sampler would
    look like.
    """

    def __init__(self, real: FakeNoise, factor: float) -> None:
        self.real, self.factor, self.composition = real, factor, real.composition

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        return self.real.select(scores, scale=scale * self.factor)

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        return self.real.add(values, scale=scale * self.factor)

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        return self.real.threshold(counts, scale=scale * self.factor, threshold=threshold)


Action = Callable[[PrivateCounts, Access, Fraction], object]


def observed(
    rows: tuple[int, ...], unit: Unit, composition: Composition, act: Action, *, factor: float = 1.0
) -> tuple[Call, Fraction]:
    """What reached the sampler, and what the ledger charged, when `act` reads the table of `rows`."""
    ledger = Accountant(BUDGET[composition])
    fake = FakeNoise(composition)
    act(counts_of(rows), Access(ledger, unit, Between(fake, factor)), ledger.budget.amount / 3)
    (call,) = fake.calls
    return call, ledger.spent


def selecting_from(model: ProductModel) -> Action:
    answers = ModelAnswers(CANDIDATES).answers(model, np.arange(len(CANDIDATES)))
    penalty = np.array([0.31, 1.7, 2.9])

    def act(counts: PrivateCounts, access: Access, cost: Fraction) -> object:
        return select(counts, answers, np.arange(len(CANDIDATES)), penalty=penalty, cost=cost, access=access)

    return act


def check_selection(unit: Unit, composition: Composition, *, factor: float = 1.0) -> None:
    """Exact probabilities of every choice: log ratio within the mechanism's epsilon, Renyi divergence within
    alpha rho, scores within the stated sensitivity to the last unit; and the worst case comes near the bound,
    so that the check has something to say.
    """
    worst = 0.0
    for model in models():
        act = selecting_from(model)
        pairs = neighbours(*_relation(unit))
        tables = sorted({rows for pair in pairs for rows in pair})
        place = {rows: i for i, rows in enumerate(tables)}
        calls = [observed(rows, unit, composition, act, factor=factor) for rows in tables]
        scores = np.array([call.values for call, _ in calls])
        chance = np.array([CHOICE_PMF[composition](call.scale, call.values) for call, _ in calls])
        (charged,) = {cost for _, cost in calls}
        assert charged > 0
        epsilon = math.sqrt(8 * charged) if composition is Composition.ZCDP else float(charged)
        one, other = (np.array([place[pair[side]] for pair in pairs]) for side in (0, 1))
        assert np.abs(scores[one] - scores[other]).max() <= unit.l1_of_score * SCORE_GRID
        p, q = chance[one], chance[other]
        ratio = float(np.abs(np.log(p / q)).max())
        assert ratio <= epsilon * (1 + 1e-9)
        for alpha in (1.5, 2, 4, 16) if composition is Composition.ZCDP else ():
            divergence = np.log((p**alpha * q ** (1 - alpha)).sum(axis=1)) / (alpha - 1)
            assert divergence.max() <= alpha * float(charged) * (1 + 1e-9)
        worst = max(worst, ratio / epsilon)
    assert worst > 0.3


def check_measurement(unit: Unit, composition: Composition, *, factor: float = 1.0) -> None:
    """Exact noise of every cell: max log ratio within epsilon under Laplace, Renyi divergence within alpha
    rho under Gaussian noise.
    """
    worst = 0.0
    for positions in ((), (0,), (1,), (0, 1)):

        def act(
            counts: PrivateCounts, access: Access, cost: Fraction, positions: tuple[int, ...] = positions
        ) -> object:
            return measure(counts, positions, cost=cost, access=access)

        pairs = neighbours(*_relation(unit))
        seen = {
            rows: observed(rows, unit, composition, act, factor=factor)
            for rows in {rows for pair in pairs for rows in pair}
        }
        ((scale, charged),) = {(call.scale, cost) for call, cost in seen.values()}
        assert charged > 0
        for shift in {
            tuple(np.abs(seen[one][0].values - seen[other][0].values).tolist()) for one, other in pairs
        }:
            if composition is Composition.PURE:
                loss = sum(_log_ratio(scale, d) for d in shift) / float(charged)
            else:
                loss = max(
                    sum(_renyi(scale, d, alpha) for d in shift) / (alpha * float(charged))
                    for alpha in (1.5, 2, 8)
                )
            assert loss <= 1 + 1e-6
            worst = max(worst, loss)
    assert worst > 0.999  # the bound is reached: nobody pays for noise that is not needed


def _relation(unit: Unit) -> tuple[Neighbours, int]:
    return unit.neighbours, unit.contributions


@cache
def _log_ratio(scale: float, shift: int) -> float:
    x = np.arange(-60, 61)
    return float(np.abs(np.log(laplace(scale, x) / laplace(scale, x - shift))).max())


@cache
def _renyi(scale: float, shift: int, alpha: float) -> float:
    x = np.arange(-math.ceil(30 * scale), math.ceil(30 * scale) + 1)
    p, q = np.log(gaussian(scale, x)), np.log(gaussian(scale, x - shift))
    return float(np.log(np.exp(alpha * p + (1 - alpha) * q).sum()) / (alpha - 1))


@both
@every_unit
def test_selection_keeps_its_epsilon_on_all_neighbours(unit: Unit, composition: Composition) -> None:
    check_selection(unit, composition)


@both
@every_unit
def test_measurement_keeps_its_price_on_all_neighbours(unit: Unit, composition: Composition) -> None:
    check_measurement(unit, composition)


# (b) --- planted bugs: the very same checks fail ---

REPLACE = Unit(Neighbours.REPLACE)


@both
def test_half_the_noise_fails_both_checks(composition: Composition) -> None:
    with pytest.raises(AssertionError):
        check_measurement(REPLACE, composition, factor=0.5)
    with pytest.raises(AssertionError):
        check_selection(Unit(Neighbours.REPLACE, 2), composition, factor=0.3)
    with pytest.raises(AssertionError):
        check_measurement(REPLACE, composition, factor=1.1)  # and too much noise is noticed, too


@both
def test_sensitivity_one_under_replace_fails_both_checks(
    composition: Composition, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("l1_of_marginal", "l2_squared_of_marginal", "l1_of_score"):
        monkeypatch.setattr(Unit, name, property(lambda _: 1))
    with pytest.raises(AssertionError):
        check_measurement(REPLACE, composition)
    with pytest.raises(AssertionError):
        check_selection(REPLACE, composition)
    with pytest.raises(AssertionError):
        check_measurement(Unit(contributions=2), composition)  # and one contribution where there are two


@both
def test_an_uncharged_reading_fails_both_checks(
    composition: Composition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Access, "open", lambda self, sealed, entry: sealed.reveal())
    with pytest.raises(AssertionError):
        check_measurement(REPLACE, composition)
    with pytest.raises(AssertionError):
        check_selection(REPLACE, composition)


@both
def test_a_discount_in_the_price_fails_both_checks(
    composition: Composition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permute-and-flip charged like the exponential mechanism, or the factor 2 of a score that moves both
    ways forgotten.
    """
    monkeypatch.setattr(
        Charge, "cost", property(lambda e: price(e.mechanism, scale=e.scale, sensitivity=e.sensitivity) / 4)
    )
    with pytest.raises(AssertionError):
        check_measurement(REPLACE, composition)
    with pytest.raises(AssertionError):
        check_selection(Unit(Neighbours.REPLACE, 2), composition)


def test_float_scores_fail_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores summed as floats and rounded at the end move by a unit more than the sensitivity: the grid must
    come first.
    """

    def floating(answers: Any, sizes: Any, counted: Any, grid: float, coarser: Any, out: Any) -> None:
        which, total, slots, strides, starts, parts = answers
        counts, offsets = counted
        for c, candidate in enumerate(which):
            found, cells = np.float32(0), offsets[candidate + 1] - offsets[candidate]
            for cell in range(cells):
                digits = np.unravel_index(cell, sizes[c])
                place = dict.fromkeys(slots[c].tolist(), 0)
                for j, digit in enumerate(digits):
                    place[slots[c, j]] += digit * strides[c, j]
                answer = total * math.prod(
                    parts[starts[c, s] + at] for s, at in place.items() if sizes[c, s] > 1
                )
                found += np.float32(abs(answer - counts[offsets[candidate] + cell]))
            out[c] = round(float(found) * grid)

    check_selection(Unit(contributions=2), Composition.ZCDP)
    monkeypatch.setattr(access_module, "distances", floating)
    with pytest.raises(AssertionError):
        check_selection(Unit(contributions=2), Composition.ZCDP)


# --- extremes ---


@pytest.mark.parametrize("total", [2.0**43 + 0.5, 1e15])
def test_huge_totals_and_penalties_do_not_overflow_a_score(total: float) -> None:
    """At tiny epsilon the noisy total can be 2^43 rows: a distance then wraps round 64 bits, and one record
    moves it by 2^64 units, not 2^20.
    """
    model = ProductModel.uniform(TINY, total)
    answers = ModelAnswers(CANDIDATES).answers(model, np.arange(len(CANDIDATES)))
    for penalty in (np.zeros(3), np.full(3, 1e30)):
        found = []
        for rows in ((), (0,), (0, 3)):
            fake, ledger = FakeNoise(), Accountant(BUDGET[Composition.ZCDP])
            access = Access(ledger, Unit(), fake)
            select(
                counts_of(rows), answers, np.arange(3), penalty=penalty, cost=ledger.left / 2, access=access
            )
            found.append(fake.calls[0].values)
        assert np.abs(np.diff(np.array(found, dtype=object), axis=0)).max() <= SCORE_GRID


# (c) --- each stage: what was charged is what the sampler was given ---


def small_table(rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(11)
    age, colour = rng.integers(18, 80, rows), rng.choice(["red", "green", "blue"], rows, p=[0.5, 0.3, 0.2])
    return pa.table(
        {
            "age": age,
            "colour": colour,
            "owns": (age + rng.integers(0, 40, rows)) > 60,
            "score": rng.normal(5, 2, rows),
        }
    )


SMALL = Domain.from_dict(
    {
        "fields": [
            {
                "name": "age",
                "type": "integer",
                "bins": 6,
                "constraints": {"minimum": 18, "maximum": 79, "required": True},
            },
            {"name": "colour", "type": "string", "categories": ["red", "green", "blue"]},
            {"name": "owns", "type": "boolean", "constraints": {"required": True}},
            {"name": "score", "type": "number", "bins": 4, "constraints": {"minimum": 0, "maximum": 10}},
        ]
    }
)


WIDE = Domain.from_dict(
    {
        "fields": [
            {
                "name": "age",
                "type": "integer",
                "bins": 31,
                "constraints": {"minimum": 18, "maximum": 79, "required": True},
            },
            {"name": "colour", "type": "string", "categories": ["red", "green", "blue"]},
            {"name": "owns", "type": "boolean", "constraints": {"required": True}},
            {"name": "score", "type": "number", "bins": 40, "constraints": {"minimum": 0, "maximum": 10}},
        ]
    }
)
"""The same with so many bins that attributes get coarser levels."""
engines = pytest.mark.parametrize("engine_", ["tree", "mwem"])


@pytest.fixture
def in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small domains are measured in rounds, too, as larger ones are."""
    monkeypatch.setattr(engine, "one_shot_suits", lambda *_: False)


def run(
    table: Any, policy: Policy, noise: Any, *, domain: Domain | None = SMALL, columns: list[str] | None = None
) -> Release:
    return _release(
        open_table(table),
        Workload.marginals(2),
        policy,
        domain,
        columns,
        None,
        1,
        lambda _: None,
        noise=noise,
    )


def check_stages(release: Release, fake: FakeNoise) -> None:
    """One ledger entry for each call to the sampler, in order: the same mechanism, the same scale, the
    sensitivity of its unit.
    """
    policy, entries = release.manifest.policy, release.manifest.ledger
    unit = Unit(Neighbours(policy["neighbours"]), policy["contributions"])
    assert len(entries) == len(fake.calls) > 8
    for entry, call in zip(entries, fake.calls, strict=True):
        assert entry.scale == call.scale
        expected = {
            Mechanism.GAUSSIAN: ("add", unit.l2_squared_of_marginal),
            Mechanism.LAPLACE: ("add", unit.l1_of_marginal),
            Mechanism.THRESHOLD: ("threshold", unit.l2_squared_of_marginal),
            Mechanism.EXPONENTIAL: (
                "select",
                unit.of_counting_query * 1000 if entry.stage == "discover" else unit.l1_of_score * SCORE_GRID,
            ),
            Mechanism.PERMUTE_AND_FLIP: ("select", unit.l1_of_score * SCORE_GRID),
        }[entry.mechanism]
        assert (call.method, entry.sensitivity) == expected
        assert (entry.mechanism in (Mechanism.LAPLACE, Mechanism.PERMUTE_AND_FLIP)) == (policy["delta"] == 0)
    charged = {stage.stage: stage.cost for stage in release.manifest.stages}
    for stage, cost in charged.items():
        own = [
            price(e.mechanism, scale=c.scale, sensitivity=e.sensitivity)
            for e, c in zip(entries, fake.calls, strict=True)
            if e.stage == stage
        ]
        assert float(sum(own)) == cost
    assert sum(s.share for s in release.manifest.stages) <= 1 + 1e-12
    assert sum(s.share for s in release.manifest.stages) > 0.98


POLICIES = [
    {},
    {"neighbours": "replace"},
    {"neighbours": "replace", "contributions": 3},
    {"delta": 0.0, "contributions": 2},
    {"delta": 0.0, "neighbours": "replace"},
    {"rounds": 7},
    {"engine": "mwem"},
    {"engine": "mwem", "neighbours": "replace", "contributions": 3},
    {"engine": "mwem", "delta": 0.0, "neighbours": "replace", "rounds": "adaptive"},
    {"engine": "mwem", "rounds": "adaptive"},
    {"engine": "mwem", "initial": "histogram"},
    {
        "engine": "mwem",
        "components": "one",
        "iterate": "average",
        "step": "paper",
        "initial": "none",
        "rounds": 5,
    },
]


@pytest.mark.usefixtures("in_rounds")
@pytest.mark.parametrize("choices", POLICIES, ids=str)
def test_each_stage_charges_what_its_noise_costs(choices: dict[str, Any]) -> None:
    policy = Policy.of(**choices)
    fake = FakeNoise(policy.budget(learn_domain=False).composition)
    check_stages(run(small_table(), policy, fake), fake)


@pytest.mark.parametrize(
    "choices", [c for c in POLICIES if not c.get("engine") and "rounds" not in c], ids=str
)
def test_measuring_at_once_charges_what_its_noise_costs(
    choices: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small domain in one reading of all residuals, beside a count of rows where that is private: entries
    and calls agree, and all is spent.

    That the sensitivity of the residuals is what it is said to be, tests/test_residual.py shows by brute
    force.
    """
    monkeypatch.setattr(engine, "one_shot_suits", lambda *_: True)
    policy = Policy.of(**choices)
    fake = FakeNoise(policy.budget(learn_domain=False).composition)
    manifest = run(small_table(), policy, fake).manifest
    assert [e.scale for e in manifest.ledger] == [c.scale for c in fake.calls] and {
        c.method for c in fake.calls
    } == {"add"}
    assert len(manifest.ledger) == 1 + (not policy.unit.total_is_public)
    own = sum(
        price(e.mechanism, scale=c.scale, sensitivity=e.sensitivity)
        for e, c in zip(manifest.ledger, fake.calls, strict=True)
    )
    amount = policy.budget(learn_domain=False).amount
    assert amount * Fraction(999_999, 10**6) < own <= amount
    assert manifest.recompute() == manifest.guarantee.spent_epsilon <= policy.epsilon


@pytest.mark.parametrize("choices", [*POLICIES[:3], *POLICIES[6:8]], ids=str)
def test_discovery_charges_what_its_noise_costs(choices: dict[str, Any]) -> None:
    policy, fake = Policy.of(**choices), FakeNoise()
    release = run(small_table(), policy, fake, domain=None)
    check_stages(release, fake)
    first = release.manifest.stages[0]
    assert first.stage == "discover" and first.share <= policy.domain_budget
    assert 0 < first.delta <= policy.delta * policy.domain_budget


@pytest.mark.usefixtures("in_rounds")
def test_stage_check_catches_half_the_noise_and_an_uncharged_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = Policy.of(epsilon=1.0)
    fake = FakeNoise()
    with pytest.raises(AssertionError):
        check_stages(run(small_table(), policy, Between(fake, 0.5)), fake)
    charge = Accountant.charge
    monkeypatch.setattr(
        Accountant, "charge", lambda self, entry: None if entry.target == ("age",) else charge(self, entry)
    )
    fake = FakeNoise()
    with pytest.raises(AssertionError):
        check_stages(run(small_table(), policy, fake), fake)


# (d) --- end to end: with every noisy answer forced equal, neighbours give identical bytes ---


def script(fake: FakeNoise) -> FakeNoise:
    """A fake that repeats the noisy answers of another run, whatever the table says."""
    picked = iter([c for c in fake.calls if c.method == "select"])
    kept = iter([c for c in fake.calls if c.method == "threshold"])
    return FakeNoise(
        fake.composition,
        winner=lambda scores, scale: int(np.argmax(next(picked).values)),
        answers=[c.values for c in fake.calls if c.method == "add"],
        kept=lambda counts, scale, threshold: {k: n for k, n in next(kept).values.items() if n >= threshold},
    )


def published(release: Release, folder: Path, name: str) -> dict[str, bytes]:
    """Every byte that a release gives out; the day it was made is the same for both."""
    release = replace(
        release, manifest=release.manifest.model_copy(update={"created": datetime.date(2000, 1, 1)})
    )
    (folder / name).mkdir(parents=True)
    for file in ("out.parquet", "out.csv"):
        release.write(folder / name / file, overwrite=True)
    release.save(folder / name / "model.fmwem")
    found = {p.name: p.read_bytes() for p in sorted((folder / name).iterdir())}
    with np.load(folder / name / "model.fmwem") as model:  # a zip holds the time of day
        found["model.fmwem"] = b"".join(key.encode() + model[key].tobytes() for key in model.files)
    return found


def neighbour(table: pa.Table, relation: str) -> pa.Table:
    """One row less, or one row exchanged for a strange one: out of every range, unlisted, null."""
    if relation == "add-remove":
        return table.slice(1)
    strange = pa.table({"age": [10**9], "colour": ["CANARY-mauve"], "owns": [True], "score": [-1e300]}).cast(
        table.schema
    )
    return pa.concat_tables([strange, table.slice(1)])


def check_nothing_leaks(folder: Path, relation: str, domain: Domain | None, **choices: Any) -> None:
    policy = Policy.of(neighbours=relation, **choices)
    table = small_table(2000)
    first = FakeNoise(policy.budget(learn_domain=domain is None).composition)
    ours = published(run(table, policy, first, domain=domain), folder, "ours")
    second = script(first)
    theirs = published(run(neighbour(table, relation), policy, second, domain=domain), folder, "theirs")
    assert len(ours) == 4 or len(ours) == 5
    same = (
        ours == theirs
        # not in the assert: under CI=true pytest would explain the difference of two files byte by byte, for
        # hours
    )
    assert same
    assert any(
        not np.array_equal(a.values, b.values)
        for a, b in zip(first.calls, second.calls, strict=True)
        if a.method == "add"
    )


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("domain", [SMALL, None], ids=["declared", "learnt"])
@pytest.mark.parametrize(
    "choices",
    [{}, {"rounds": 5}, {"contributions": 2}, {"delta": 0.0}]
    + [
        {"engine": "mwem", **more}
        for more in ({}, {"rounds": "adaptive"}, {"contributions": 2}, {"delta": 0.0})
    ],
    ids=str,
)
def test_neighbours_with_the_same_noisy_answers_give_the_same_bytes(
    relation: str, domain: Domain | None, choices: dict[str, Any], tmp_path: Path
) -> None:
    """Model, manifest, measurements, Parquet with its metadata and statistics, CSV: nothing reaches them but
    through the noise.
    """
    if domain is None and choices.get("delta") == 0:
        pytest.skip("refused")
    check_nothing_leaks(tmp_path, relation, domain, **choices)


def as_text(table: pa.Table) -> Table:
    """The table as a CSV file would give it: every column text, nulls empty."""
    rows = pa.table(
        {n: [("" if v is None else str(v).lower()) for v in table[n].to_pylist()] for n in table.schema.names}
    )
    return Table(rows.schema, True, lambda columns: iter(rows.select(list(columns)).to_batches()))


@pytest.mark.parametrize("relation", list(Neighbours))
def test_text_neighbours_give_the_same_bytes(relation: str, tmp_path: Path) -> None:
    """Text has more to learn: kinds and nulls by vote. The row that comes or goes holds the only gaps and the
    only odd values.
    """
    rows = small_table(2000)
    odd = pa.table({"age": [None], "colour": [None], "owns": [None], "score": [1e300]}).cast(rows.schema)
    with_odd = pa.concat_tables([odd, rows.slice(1 if relation == "replace" else 0)])
    policy, first = Policy.of(neighbours=relation), FakeNoise()
    ours = published(run(as_text(rows), policy, first, domain=None), tmp_path, "ours")
    assert ours == published(run(as_text(with_odd), policy, script(first), domain=None), tmp_path, "theirs")


def test_typed_input_with_metadata_of_its_own_leaks_nothing(tmp_path: Path) -> None:
    """pandas writes the number of rows into the schema's metadata; users write more. None of it may come
    out.
    """
    table = small_table(50)
    noted = table.replace_schema_metadata(
        {b"pandas": b'{"index_columns": [{"kind": "range", "stop": 50}]}', b"note": b"CANARY"}
    )
    noted = noted.cast(
        pa.schema([f.with_metadata({b"k": b"CANARY"}) for f in noted.schema], metadata=noted.schema.metadata)
    )
    release = run(noted, Policy.of(), FakeNoise())
    assert set(release.schema.metadata or {}) == set() and all(not f.metadata for f in release.schema)
    assert all(b"CANARY" not in content for content in published(release, tmp_path, "out").values())


@engines
def test_the_end_to_end_check_catches_true_n_for_noisy_n(
    engine_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unit, "total_is_public", property(lambda _: True))
    with pytest.raises(AssertionError):
        check_nothing_leaks(tmp_path, "add-remove", SMALL, engine=engine_)


def test_the_end_to_end_check_catches_true_n_in_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    encode, describe = flow.encode_table, flow.describe

    def counting(domain: Domain, table: Table) -> list[np.ndarray]:
        codes = encode(domain, table)
        rows.append(len(codes[0]))
        return codes

    monkeypatch.setattr(flow, "encode_table", counting)
    monkeypatch.setattr(
        flow, "describe", lambda *a, **k: describe(*a, **k).model_copy(update={"estimated_rows": rows[-1]})
    )
    with pytest.raises(AssertionError):
        check_nothing_leaks(tmp_path, "add-remove", SMALL)
    rows.clear()
    check_nothing_leaks(tmp_path / "public", "replace", SMALL)  # there n is public: the plant is none


@pytest.mark.usefixtures("in_rounds")
@engines
def test_the_end_to_end_check_catches_bounds_read_off_the_data(
    engine_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the model starts from the true one-way marginals."""
    start = mwem.from_histogram
    true: list[np.ndarray] = []

    def peeking(
        counts: PrivateCounts | PrivateRows, positions: tuple[int, ...], *, cost: Fraction, access: Access
    ) -> Measurement:
        true.append(counts.reveal().marginal(positions))
        return measure(counts, positions, cost=cost, access=access)

    def from_truth(factor: Factor, noisy: np.ndarray, _: float) -> Factor:
        return start(factor, next(t for t in reversed(true) if len(t) == len(noisy)), 1.0)

    monkeypatch.setattr(mwem if engine_ == "mwem" else engine, "measure", peeking)
    monkeypatch.setattr(mwem if engine_ == "mwem" else estimate, "from_histogram", from_truth)
    with pytest.raises(AssertionError):
        check_nothing_leaks(tmp_path, "replace", SMALL, engine=engine_)


@pytest.mark.usefixtures("in_rounds")
def test_the_end_to_end_check_catches_levels_read_off_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: groups of equal mass from the true counts in place of the noisy ones. One row moves a cut
    where it lies on one.
    """
    found = engine.measure_singles

    def peeking(rows: PrivateRows, *rest: Any) -> Any:
        singles, *others = found(rows, *rest)
        true.append([rows.reveal().marginal(m.positions) for m in singles])
        return singles, *others

    def with_truth(noisy: np.ndarray, *rest: Any, **named: Any) -> Any:
        return engine_coarsen(next(t for t in true[-1] if len(t) == len(noisy)) % 7, *rest, **named)

    true: list[list[np.ndarray]] = []
    engine_coarsen = engine.coarsen
    monkeypatch.setattr(engine, "measure_singles", peeking)
    monkeypatch.setattr(engine, "coarsen", with_truth)
    with pytest.raises(AssertionError):
        check_nothing_leaks(tmp_path, "replace", WIDE)
    monkeypatch.undo()
    check_nothing_leaks(tmp_path / "sound", "replace", WIDE)


# (e) --- cached distances ---


def check_cache(
    monkeypatch: pytest.MonkeyPatch, *, domain: Domain = SMALL, **choices: Any
) -> tuple[int, int]:
    """Run a release and compare every cached distance that a round chooses by with a full recomputation;
    (rounds, rescored in part).
    """
    models: list[ProductModel | Forest] = []
    rounds, partial = 0, 0
    answer = ModelAnswers.answers
    loop = mwem if choices.get("engine") == "mwem" else engine

    def remember(self: ModelAnswers, model: ProductModel | Forest, which: np.ndarray) -> Answers:
        models.append(model)
        return answer(self, model, which)

    def checking(counts: PrivateCounts, answers: Answers, offered: np.ndarray, **rest: Any) -> int:
        nonlocal rounds, partial
        chosen = select(counts, answers, offered, **rest)
        tables, model = counts.reveal(), models[-1]
        for c in offered:
            positions = tables.candidates.positions(int(c))
            exact = np.abs(
                np.floor(model.marginal(positions) * SCORE_GRID + 0.5)
                - tables.marginal(positions) * float(SCORE_GRID)
            ).sum()
            rounded = float(
                tables.candidates.cells[tables.candidates.base_of[c]]
            )  # a view's cells are sums of its base's, rounded one by one
            slack = rounded * (
                1 + model.total * 1e-9
            )  # a unit of the grid a cell, for another order of products
            assert abs(tables.distances[c] - exact) <= slack
        rounds, partial = (
            rounds + 1,
            partial + (not set(tables.candidates.base_of[offered].tolist()) <= set(answers.which.tolist())),
        )
        return chosen

    with monkeypatch.context() as patch:
        patch.setattr(ModelAnswers, "answers", remember)
        patch.setattr(loop, "select", checking)
        rng = np.random.default_rng(2)
        policy = Policy.of(epsilon=5.0, **choices)
        composition = policy.budget(learn_domain=False).composition
        fake = FakeNoise(
            composition,
            offset=lambda values, scale: values + np.rint(rng.normal(0, scale, len(values))).astype(np.int64),
        )
        run(small_table(), policy, fake, domain=domain)
    return rounds, partial


@pytest.mark.usefixtures("in_rounds")
@pytest.mark.parametrize(
    "choices",
    [{"engine": "mwem", **c} for c in (
        {"rounds": 9}, {"rounds": 9, "neighbours": "replace"}, {"rounds": 9, "initial": "none"},
        {"rounds": "adaptive", "delta": 0}, {"max_cells": 40},
    )]
    + [{}, {"rounds": 9}, {"rounds": 9, "neighbours": "replace"}, {"delta": 0}, {"max_cells": 300}],
    ids=str,
)  # fmt: skip
def test_cached_distances_are_those_of_the_model_now(
    choices: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what a measurement touched is scored again; with n estimated, everything is when the estimate
    moves.
    """
    rounds, partial = check_cache(monkeypatch, domain=SMALL if "engine" in choices else WIDE, **choices)
    assert rounds >= 4
    if choices.get("neighbours") == "replace" or choices.get("engine") != "mwem":
        assert partial  # the cache is in use: otherwise this test would hold for nothing


@pytest.mark.usefixtures("in_rounds")
def test_the_cache_check_sees_scores_that_stay_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the total moves and only the measured component is scored again; or nothing ever is."""
    measured = mwem.Offer.measured
    with monkeypatch.context() as patch, pytest.raises(AssertionError):
        patch.setattr(
            mwem.Offer,
            "measured",
            lambda self, c, model, *, everything: measured(self, c, model, everything=False),
        )
        check_cache(monkeypatch, engine="mwem", rounds=9, initial="none")
    with monkeypatch.context() as patch, pytest.raises(AssertionError):
        patch.setattr(
            mwem.Offer, "measured", lambda self, c, model, *, everything: self._measured.__setitem__(c, True)
        )
        check_cache(monkeypatch, engine="mwem", rounds=9, neighbours="replace")
    with monkeypatch.context() as patch, pytest.raises(AssertionError):
        patch.setattr(offer.Offer, "measured", lambda self, view, forest: None)
        check_cache(monkeypatch, rounds=9, domain=WIDE)


# (f) --- discovery ---

CLEAR = {
    "whole": "integer", "decimal": "number", "day": "date", "moment": "datetime", "flag": "boolean", "zip": "string", "gap": "integer",
}  # fmt: skip


def clear_csv(path: Path, rows: int = 20_000, canary: bool = True) -> Path:
    """A made-up table with a column of every kind, codes with leading zeros, gaps, and in the last row values
    that occur once.
    """
    rng = np.random.default_rng(3)
    start = datetime.date(1990, 1, 1)
    days = rng.integers(0, 9000, rows)
    zips = np.array(["0311", "0312", "9021", "1012"])[rng.integers(0, 4, rows)]
    lines = ["whole,decimal,day,moment,flag,zip,gap"]
    for i in range(rows):
        day = start + datetime.timedelta(days=int(days[i]))
        clock = f"{day.isoformat()}T{days[i] % 24:02d}:{days[i] % 60:02d}:00"
        gap = "" if i % 4 == 0 else str(i % 50)
        lines.append(
            f"{rng.integers(18, 90)},{rng.gamma(3, 2):.3f},{day.isoformat()},{clock},{'true' if i % 3 else 'false'},{zips[i]},{gap}"
        )
    if canary:
        lines.append(
            "8765432187654321,3141592653589793.5,1699-07-13,1699-07-13T07:07:07,CANARYflag,CANARY-zip,CANARYgap"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Neighbours))
def test_kinds_and_categories_are_found_right_on_a_clear_table(
    relation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real noise at epsilon 5: a wrong kind would make a column useless. Zip codes stay text with their zero;
    only `gap` has nulls.

    A vote nobody cast stands out of the noise one time in 700, and so does one of 400 empty buckets of a
    histogram: of eleven domains each column must be right in six, which chance alone denies with probability
    1e-10.
    """
    table = open_table(clear_csv(tmp_path / "clear.csv"))
    counted = profile(table, list(CLEAR))  # once; each domain draws its own noise
    monkeypatch.setattr("factored_mwem.privacy.discover.profile", lambda *_: counted)
    policy = Policy.of(epsilon=5.0, neighbours=relation)
    right = dict.fromkeys(CLEAR, 0)
    for _ in range(11):
        ledger = Accountant(policy.budget(learn_domain=True))
        domain = discover(
            table, None, policy=policy, access=Access(ledger, policy.unit, OpenDPNoise(Composition.ZCDP))
        )
        for name, kind in CLEAR.items():
            right[name] += (
                domain[name].type == kind
                and domain[name].nullable == (name == "gap")
                and as_clear(domain[name])
            )
        assert float(ledger.spent / ledger.budget.amount) <= policy.domain_budget
        assert 0 < ledger.spent_delta <= Fraction(policy.delta) * Fraction(policy.domain_budget)
    assert min(right.values()) >= 6, right


def as_clear(column: Attribute) -> bool:
    """Whether a column of the clear table, of the right kind, has the categories or about the bounds that it
    should.
    """
    if column.name == "zip":
        return set(column.values) == {"0311", "0312", "9021", "1012", "other"} and column.other == "other"
    if column.name == "day":
        year = column.cuts / 365.25 + 1970
        return bool(1988 < year[0] < 1992 and 2013 < year[-1] < 2018)
    least, most = {"whole": (80, 120), "decimal": (0, 60), "gap": (0, 70)}.get(
        column.name, (-math.inf, math.inf)
    )
    return column.type == "boolean" or bool(
        least <= column.cuts[-1] <= most and (column.name != "whole" or 0 <= column.cuts[0] <= 20)
    )


@pytest.mark.slow
def test_no_canary_leaves_the_building(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A value that occurs once is in no output: data, manifest, model, domain, progress, log. Its neighbours'
    common values are.

    Its digits are so many that none of 20,000 synthetic decimals, of 16 random ones each, holds them by
    chance; its day is before all learnt bounds.
    """
    told: list[Any] = []
    with caplog.at_level("DEBUG"):
        release = flow.release(
            clear_csv(tmp_path / "clear.csv"), 2, Policy.of(epsilon=5.0), report=told.append
        )
        found = published(release, tmp_path, "out")
    texts = [
        *found.values(),
        json.dumps(release.domain.to_dict()).encode(),
        repr(told).encode(),
        repr(release).encode(),
    ]
    texts += [caplog.text.encode(), *(stream.encode() for stream in capfd.readouterr())]
    for canary in (b"CANARY", b"765432187654321", b"141592653589793", b"1699-07-13"):
        assert not [i for i, text in enumerate(texts) if canary in text]
    assert b"0311" in found["out.csv"] and told


def test_the_canary_check_would_see_one(tmp_path: Path) -> None:
    """Negative control: a threshold that keeps everything lets the canary through to the files."""
    fake = FakeNoise(kept=lambda counts, scale, threshold: dict(counts))
    release = run(clear_csv(tmp_path / "c.csv", 400), Policy.of(), fake, domain=None)
    assert "CANARY-zip" in release.domain["zip"].values
    assert any(b"CANARY-zip" in content for content in published(release, tmp_path, "out").values())


def test_thresholded_categories_see_the_fake_threshold_and_other(tmp_path: Path) -> None:
    """Without noise: what reaches the threshold is kept and nothing else is; `other` in the data is not
    listed twice.
    """
    table = pa.table({"c": ["common"] * 500 + ["other"] * 500 + ["rare"]})
    fake = FakeNoise()
    policy = Policy.of()
    domain = discover(
        open_table(table),
        None,
        policy=policy,
        access=Access(Accountant(policy.budget(learn_domain=True)), policy.unit, fake),
    )
    assert domain["c"].values == ("common", "other")
    (call,) = [c for c in fake.calls if c.method == "threshold"]
    assert call.threshold is not None and call.threshold > 1 + 5 * call.scale


def unreadable(schema: pa.Schema, *, text: bool = True) -> Table:
    def read(columns: Any) -> Any:
        raise AssertionError("a row was read")

    return Table(schema, text, read)


def test_pure_dp_without_a_domain_is_refused_and_nothing_is_read() -> None:
    table = unreadable(pa.schema([("a", pa.string()), ("b", pa.string())]))
    fake = FakeNoise(Composition.PURE)
    with pytest.raises(InputError, match=r"--delta is 0.*fmwem domain draft") as caught:
        run(table, Policy.of(delta=0.0), fake, domain=None)
    assert not fake.calls and not caught.value.budget_spent


def test_other_refusals_come_before_the_first_row_too() -> None:
    table = unreadable(
        pa.schema([("a", pa.string()), ("b", pa.list_(pa.int8())), ("c", pa.string())]), text=False
    )
    policy = Policy.of()
    with pytest.raises(InputError, match="no columns"):
        discover(
            table,
            [],
            policy=policy,
            access=Access(Accountant(policy.budget(learn_domain=True)), policy.unit, FakeNoise()),
        )
    for columns, message in ((["a", "c", "nope"], "no column 'nope'"), (["a", "b"], "cannot release")):
        with pytest.raises(InputError, match=message):
            run(table, Policy.of(), FakeNoise(), domain=None, columns=columns)


@pytest.mark.parametrize(
    ("arrow", "value", "limits"),
    [
        (pa.uint8(), 255, (0, 255)),
        (pa.int8(), 127, (-128, 127)),
        (pa.int8(), -128, (-128, 127)),
        (pa.uint16(), 65535, (0, 65535)),
    ],
    ids=str,
)
def test_learnt_bounds_stay_inside_the_columns_type(
    arrow: pa.DataType, value: int, limits: tuple[int, int]
) -> None:
    """A quantile's grid point beyond the type once ended the release after its budget was spent."""
    for values in ([value] * 3000, np.linspace(*limits, 3000).round().astype(int)):
        table = pa.table({"x": pa.array(values, arrow), "y": pa.array(values, arrow)})
        release = flow.release(table, 1, Policy.of(epsilon=3.0, delta=1e-6))
        cuts = release.domain["x"].cuts
        assert limits[0] <= cuts[0] < cuts[-1] <= limits[1] + 1
        assert release.to_arrow().schema.field("x").type == arrow


HOSTILE = [
    "1e999", "-1e999", "9" * 300, "9999-99-99", "2020-02-31", "9999-12-31T99:99:99", "9999-12-31 23:59:59.999999999+99:99", "nan", "inf", "-0",
    "+", "\x00", "0x10", "1_0", "1" * 18, "9007199254740993", "true ", "2020-01-01Z", "\u0661\u0662", "\U0001f600", '"', "NULL",
]  # fmt: skip


def test_no_value_of_one_row_decides_whether_the_release_succeeds() -> None:
    """Hostile text in every column, with declared and learnt domains, and alone among good rows or not: no
    error.
    """
    base = pa.table({c: ["1", "2.5", "2001-01-01", "true"] * 5 for c in "abcd"})
    spec = [
        ("a", "integer", 0, 9),
        ("b", "number", 0, 9),
        ("c", "date", "2000-01-01", "2010-01-01"),
        ("d", "datetime", "2000-01-01", "2010-01-01"),
    ]
    declared = Domain.from_dict(
        {
            "fields": [
                {"name": n, "type": t, "constraints": {"minimum": lo, "maximum": hi}} for n, t, lo, hi in spec
            ]
        }
    )
    for values in (HOSTILE, HOSTILE[:1], HOSTILE[5:6]):
        rows = pa.concat_tables([base, pa.table(dict.fromkeys("abcd", values))])
        table = Table(
            rows.schema, True, lambda columns, rows=rows: iter(rows.select(list(columns)).to_batches())
        )
        for domain in (declared, None):
            assert run(table, Policy.of(rounds=1), FakeNoise(), domain=domain).rows >= 0


# --- people: whose rows are kept ---


def _person_pairs(k: int) -> Iterator[tuple[list[tuple[str, int]], list[tuple[str, int]]]]:
    """Tables of (person, row value) with and without one person, whose rows are mixed among the others'."""
    others = [("p", 0), ("q", 1), ("p", 2), ("p", 3), ("q", 4)]
    for rows in range(1, k + 4):
        for places in itertools.combinations(range(len(others) + rows), rows):
            table: list[tuple[str, int]] = []
            rest = iter(others)
            for i in range(len(others) + rows):
                table.append(("victim", 100 + i) if i in places else next(rest))
            yield table, others


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_person_moves_at_most_k_rows_whatever_the_order(k: int, encoded: bool) -> None:
    """Brute force over all interleavings: with and without one person, the kept rows differ by that person's
    k rows, nobody else's change.
    """
    from factored_mwem.tables.contributions import bound_contributions

    def kept(table: list[tuple[str, int]]) -> list[int]:
        people = pa.array([p for p, _ in table])
        source = pa.table(
            {"id": people.dictionary_encode() if encoded else people, "v": [v for _, v in table]}
        )
        bounded = bound_contributions(open_table(source), "id", k)
        return [v for batch in bounded.batches(["v"]) for v in batch.column(0).to_pylist()]

    for number, (with_person, without) in enumerate(_person_pairs(k)):
        if number % 5 == 0:
            more, fewer = kept(with_person), kept(without)
            assert [v for v in more if v < 100] == fewer
            assert len(more) - len(fewer) <= k


@every_unit
def test_the_threshold_pays_for_the_whole_unit(unit: Unit) -> None:
    """A person's rows may hold 2 k categories nobody else has, k rows in one: with l0 or linf taken for 1 the
    delta is understated.
    """
    policy = Policy.of(neighbours=unit.neighbours, contributions=unit.contributions)
    fake, ledger = FakeNoise(), Accountant(policy.budget(learn_domain=True))
    discover(open_table(pa.table({"c": ["x"] * 500})), None, policy=policy, access=Access(ledger, unit, fake))
    (call,) = [c for c in fake.calls if c.method == "threshold"]
    assert call.threshold is not None
    k, people = unit.contributions, 2 if unit.neighbours is Neighbours.REPLACE else 1
    tail = 0.5 * math.erfc((call.threshold - k - 1) / (call.scale * math.sqrt(2)))
    assert ledger.budget.discovery_delta >= ledger.spent_delta >= people * k * tail > 0


def test_a_range_without_a_whole_number_is_widened() -> None:
    """Seen to fail after the budget was spent: only the bucket from 0.2 to 0.5 stood out of the noise of an
    integer column.
    """
    bucket = int(np.searchsorted(COARSE["number"], 0.2))

    def only_one(values: np.ndarray, scale: float) -> np.ndarray:
        return (
            np.where(np.arange(len(values)) == bucket, 10**9, 0)
            if len(values) == len(COARSE["number"]) - 1
            else values
        )

    policy = Policy.of()
    access = Access(Accountant(policy.budget(learn_domain=True)), policy.unit, FakeNoise(offset=only_one))
    domain = discover(open_table(pa.table({"c": [1, 2, 3] * 200})), None, policy=policy, access=access)
    assert domain["c"].type == "integer"


@pytest.mark.parametrize(("high", "believed"), [(5.0, False), (6.0, True)])
def test_noise_alone_makes_no_bounds(high: float, believed: bool) -> None:
    """Of 461 empty buckets one gets above 4.5 standard deviations once in 700 columns: bounds of 10^300 would
    make a column of ratings useless.
    """

    def offset(values: np.ndarray, scale: float) -> np.ndarray:
        return (
            values + (np.arange(len(values)) == len(values) - 1) * math.ceil(high * scale)
            if len(values) > 100
            else values
        )

    policy, fake = (
        Policy.of(epsilon=5.0),
        FakeNoise(offset=offset, winner=lambda scores, _: len(scores) - 1),
    )  # the largest point that is looked at
    access = Access(Accountant(policy.budget(learn_domain=True)), policy.unit, fake)
    (found,) = discover(
        open_table(pa.table({"c": [1.5, 2.5, 3.5] * 5000})), None, policy=policy, access=access
    )
    assert found.edges is not None
    assert (found.edges[-1] > 1e6) is believed


@pytest.mark.parametrize(("high", "believed"), [(3.5, False), (4.5, True)])
def test_noise_alone_makes_no_gaps_and_no_codes(high: float, believed: bool) -> None:
    """A column of numbers must not become text, nor get missing values, because noise on a vote that nobody
    gave was unlucky once in 700 columns.
    """

    def offset(values: np.ndarray, scale: float) -> np.ndarray:
        return np.where(values == 0, math.ceil(high * scale), values) if len(values) < 100 else values

    policy = Policy.of(epsilon=5.0)
    for kind, at in (("null", 0), ("code", KINDS.index("code"))):
        fake = FakeNoise(
            offset=lambda values, scale, at=at: np.where(
                np.arange(len(values)) == at, offset(values, scale), values
            )
        )
        access = Access(Accountant(policy.budget(learn_domain=True)), policy.unit, fake)
        (found,) = discover(as_text(pa.table({"c": [1, 2, 3] * 5000})), None, policy=policy, access=access)
        assert (found.nullable if kind == "null" else found.type == "string") is believed
