"""Workloads of ranges, cubes and parities from end to end, by both engines: what they spend, what they
publish, and what they are worth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.asked import request_of
from support.fakes import FakeNoise
from support.marks import others_slow
from support.releases import check_nothing_leaks, engines
from support.rows import private_answers
from support.tables import small_table

import factored_mwem
from factored_mwem.accounting.accountant import Accountant, Budget, Mechanism
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import BudgetExceeded
from factored_mwem.mechanisms.hierarchy import hierarchy, parts_of_a_range, range_error
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Plan, Scope
from factored_mwem.mechanisms.queries import Queries
from factored_mwem.pipeline.forecasts.forecast import forecast
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.privacy.answers import PrivateAnswers
from factored_mwem.privacy.rows import SCORE_GRID, Sealed
from factored_mwem.privacy.session import Eligible, Measurement, Session
from factored_mwem.request.policy import Policy
from factored_mwem.request.request import Request
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.workload.queries.cuboids import Cuboids
from factored_mwem.workload.queries.parities import Parities
from factored_mwem.workload.queries.ranges import Ranges
from factored_mwem.workload.workload import Workload

DOMAIN = Domain.from_dict(
    {
        "fields": [
            {"name": "age", "type": "integer", "bins": 62, "constraints": {"minimum": 18, "maximum": 79}},
            {"name": "colour", "type": "string", "categories": ["red", "green", "blue"]},
            {"name": "owns", "type": "boolean", "constraints": {"required": True}},
            {
                "name": "score",
                "type": "number",
                "bins": 700,
                "constraints": {"minimum": 0, "maximum": 10, "required": True},
            },
        ]
    }
)
MIXED = (
    Workload.ranges("age", count=40)
    + Workload.ranges("score", which="prefix", weight=0.5)
    + Workload.cube("age", "colour", "owns", order=2, weight=2.0)
    + Workload.parities(1)
)  # fmt: skip
PLAIN_TOO = MIXED + Workload.marginals(1)


def run(table: Any, policy: Policy, noise: Any, workload: Workload = MIXED) -> Release:
    return make(request_of(open_source(table), workload, policy, DOMAIN, sample_seed=1), noise=noise)


def of_the_right_size(seed: int = 3) -> Callable[[np.ndarray, float], np.ndarray]:
    """Noise of the right size with a seed."""
    rng = np.random.default_rng(seed)
    return lambda values, scale: values + np.rint(rng.normal(0, scale, len(values))).astype(np.int64)


def noisy(policy: Policy) -> FakeNoise:
    return FakeNoise(policy.budget(learn_domain=False).composition, offset=of_the_right_size())


# ---- replaying a transcript: equal noisy outputs fix everything


def check(folder: Path, relation: str, workload: Workload = MIXED, **choices: Any) -> None:
    check_nothing_leaks(folder, relation, DOMAIN, workload=workload, offset=of_the_right_size(), **choices)


CHOICES = [{}, {"delta": 0.0}, {"contributions": 2}, {"rounds": 5}]
OF_MWEM = [{"rounds": "adaptive"}, {"initial": "none"}, {"replay": False}]


@pytest.mark.parametrize("relation", others_slow(Neighbours, lambda relation: relation == "replace"))
@pytest.mark.parametrize(
    "choices",
    others_slow(CHOICES + [{"engine": "mwem", **c} for c in [*CHOICES, *OF_MWEM]], lambda c: len(c) < 2),
    ids=str,
)
def test_neighbours_with_the_same_noisy_answers_give_the_same_bytes(
    relation: str, choices: dict[str, Any], tmp_path: Path
) -> None:
    check(tmp_path, relation, **choices)


@pytest.mark.parametrize(
    "workload", [Workload.ranges("score", count=100), PLAIN_TOO], ids=["ranges", "with plain marginals"]
)
@engines
def test_other_workloads_leak_nothing_either(engine_: str, workload: Workload, tmp_path: Path) -> None:
    check(tmp_path, "add-remove", workload, engine=engine_)


@pytest.mark.parametrize(
    ("choices", "true"),
    [
        ({"engine": "mwem"}, lambda private, what: isinstance(private, PrivateAnswers)),
        ({"workload": Workload.ranges("score", count=100)}, lambda _, what: what and what[0] >= len(DOMAIN)),
    ],
    ids=["a step towards the true answer", "a hierarchy of true counts"],
)
def test_the_check_catches_true_answers(
    choices: dict[str, Any], true: Callable[..., bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: charged and noised as they should be, and then what was read is kept."""
    measure = Session.measure

    def peeking(self: Session, private: Any, what: Any, **rest: Any) -> Measurement:
        measured = measure(self, private, what, **rest)
        return replace(measured, noisy=private.reveal().exact(what)) if true(private, what) else measured

    monkeypatch.setattr(Session, "measure", peeking)
    with pytest.raises(AssertionError):
        check(tmp_path, "replace", **choices)


def test_the_check_catches_questions_offered_by_true_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: only questions whose true answer is even are offered."""
    fits = Queries.fits
    private: list[PrivateAnswers] = []
    made = PrivateAnswers.__init__
    monkeypatch.setattr(PrivateAnswers, "__init__", lambda self, *a: made(self, *a) or private.append(self))
    monkeypatch.setattr(
        Queries,
        "fits",
        lambda self, *a: fits(self, *a) & (private[-1].reveal().answers[private[-1].starts[:-1]] % 2 == 0),
    )
    with pytest.raises((AssertionError, IndexError)):  # other lists, or one too short for the recorded choice
        check(tmp_path, "replace", engine="mwem")


# ---- the ledger


@pytest.mark.parametrize("composition", list(Composition))
def test_nothing_is_read_or_drawn_before_it_is_paid(
    composition: Composition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unpaid, the answers stay sealed and the sampler untouched; paid, the entry precedes the noise."""
    domain = Domain.from_dict({"a": 2, "b": 3})
    kinds = [Ranges.every((1,), (3,)), Parities.up_to([0], 1), Cuboids(((0, 1),), (2, 3))]
    private = private_answers(
        [np.array([0, 1], dtype=np.uint8), np.array([2, 0], dtype=np.uint8)], domain, kinds
    )
    count = sum(len(kind.cells) for kind in kinds)
    budget = Budget.of(1.0, 0.0 if composition is Composition.PURE else 1e-9)
    ledger, entries = Accountant(budget), []

    def act(session: Session, cost: Fraction) -> None:
        session.select(
            private, np.zeros(13), Eligible(np.arange(count), np.zeros(count), np.ones(count)), cost=cost
        )
        for question in (0, 6, 7):
            session.measure(private, question, cost=cost)

    class Watching(FakeNoise):
        def select(self, scores: np.ndarray, *, scale: float) -> int:
            entries.append((len(ledger.entries), ledger.entries[-1].scale == scale))
            return super().select(scores, scale=scale)

        def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
            entries.append((len(ledger.entries), ledger.entries[-1].scale == scale))
            return super().add(values, scale=scale)

    act(Session(ledger, Unit(), Watching(composition)), budget.amount / 5)
    assert entries == [(1, True), (2, True), (3, True), (4, True)]
    opened: list[Any] = []
    monkeypatch.setattr(Sealed, "reveal", lambda self: opened.append(self) or self._contents)
    short = Accountant(budget)
    fake = FakeNoise(composition)
    with pytest.raises(BudgetExceeded):
        act(Session(short, Unit(), fake), budget.amount * 2)
    session = Session(short, Unit(), fake)
    for drawn in (0, 1):
        with pytest.raises(BudgetExceeded, match="budget") as caught:
            session.measure(private, 0, cost=budget.amount * Fraction(3 - drawn, 2))
        assert len(opened) == len(fake.calls) == drawn and (short.spent > 0) == bool(drawn)
        assert caught.value.asked > caught.value.left > 0
        if not drawn:
            session.measure(private, 0, cost=budget.amount / 3)


PROMISES = [
    {"neighbours": r, "contributions": k, "delta": delta}
    for r in ("add-remove", "replace")
    for k in (1, 3)
    for delta in (1e-9, 0.0)
]


@engines
@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_charges_add_up_to_the_budget(engine_: str, promise: dict[str, Any]) -> None:
    """Entries and calls of the sampler agree one by one; a third party's sum is the budget, to one part in
    10^9, and not a hair above; the manifest lists every scale, under the names of what was measured.
    """
    policy = Policy.of(engine=engine_, **promise)
    fake = noisy(policy)
    made = run(small_table(), policy, fake)
    manifest, unit, pure = made.manifest, policy.unit, policy.delta == 0
    assert [e.scale for e in manifest.ledger] == [c.scale for c in fake.calls]
    assert [e.stage == "select" for e in manifest.ledger] == [c.method == "select" for c in fake.calls]
    spent = sum((Fraction(stage.share) for stage in manifest.stages), Fraction(0))
    assert abs(spent - 1) < Fraction(1, 10**9)
    assert manifest.recompute() == manifest.guarantee.spent_epsilon <= policy.epsilon
    l1, l2 = unit.l1_of_marginal, unit.l2_squared_of_marginal
    allowed = {l1 if pure else l2}
    if engine_ == "mwem":
        allowed.add(unit.of_counting_query if pure else unit.of_counting_query**2)
    for e in manifest.ledger:
        assert e.sensitivity == l1 * SCORE_GRID if e.stage == "select" else e.sensitivity in allowed
        assert (e.mechanism in (Mechanism.LAPLACE, Mechanism.PERMUTE_AND_FLIP)) == pure
    named = [e for e in manifest.ledger if e.stage == "measure" and e.target]
    assert len({e.target for e in named}) > 3
    if engine_ == "tree":
        assert [(m.attributes, m.scale) for m in manifest.measurements] == [
            (e.target, e.scale) for e in named
        ]
        assert [m.scale for m in manifest.measurements] == [m.scale.value for m in made.measurements]
        assert any(name.startswith("score in ") for e in named for name in e.target)
        assert {name for clique in manifest.cliques for name in clique} >= set(DOMAIN.names)


@engines
@pytest.mark.parametrize("delta", [1e-9, 0.0])
def test_a_release_with_real_noise_spends_its_epsilon(engine_: str, delta: float) -> None:
    release = factored_mwem.release(small_table(), PLAIN_TOO, domain=DOMAIN, engine=engine_, delta=delta)
    guarantee = release.manifest.guarantee
    assert 0.99 < release.manifest.recompute() == guarantee.spent_epsilon <= 1.0
    assert release.to_arrow().num_rows == release.rows
    told = release.manifest.questions if engine_ == "mwem" else release.manifest.measurements
    assert len(told) >= release.manifest.rounds >= 1


def test_no_more_rounds_than_questions() -> None:
    """Of three questions and a hundred rounds each is measured once, and they leave nothing."""
    policy = Policy.of(engine="mwem", rounds=100)
    manifest = run(small_table(), policy, noisy(policy), Workload.cube("colour", "owns")).manifest
    assert manifest.rounds == 3 and sorted(q.question for q in manifest.questions) == [
        "colour",
        "colour x owns",
        "owns",
    ]
    assert abs(sum(stage.share for stage in manifest.stages) - 1) < 1e-9


def test_weights_decide_what_is_asked_first() -> None:
    """Two boxes equally wrong: the heavier is chosen, whichever it is."""
    policy = Policy.of(engine="mwem", rounds=1, epsilon=50.0, initial="none")
    for heavy, light in (("age", "score"), ("score", "age")):
        both = Workload.ranges(heavy, count=1, seed=5, weight=8.0) + Workload.ranges(light, count=1, seed=5)
        manifest = run(small_table(), policy, FakeNoise(), both).manifest
        assert [q.question.split()[0] for q in manifest.questions] == [heavy]


# ---- hierarchies


def ordered(values: int, *, nullable: bool = False) -> Attribute:
    constraints: dict[str, Any] = {"minimum": 0, "maximum": values - 1, "required": not nullable}
    return Attribute(name="x", type="integer", bins=values, constraints=constraints)


def parts(low: int, high: int, levels: Sequence[np.ndarray]) -> int:
    """How many groups, from coarse to fine, make up the codes low .. high, by looking at each code: an oracle
    without any formula.
    """
    inside = set(range(low, high + 1))
    found = 0
    for level in reversed(levels):
        for group in range(int(level.max()) + 1):
            members = set(np.flatnonzero(level == group).tolist())
            if members <= inside:
                inside -= members
                found += 1
    assert not inside
    return found


def mean_parts(values: int, levels: Sequence[np.ndarray]) -> float:
    ranges = list(itertools.combinations_with_replacement(range(values), 2))
    return sum(parts(low, high, levels) for low, high in ranges) / len(ranges)


@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize("values", others_slow([2, 3, 4, 5, 7, 16, 40, 64], lambda values: values <= 16))
def test_the_predicted_error_is_the_mean_over_all_ranges(values: int, composition: Composition) -> None:
    """In units of one measurement with the whole budget: parts of a range times what splitting the budget
    among the levels costs each.
    """
    for branches in sorted({2, 3, 4, 8, values - 1, values} - {0, 1}):
        widths = [1]
        while widths[-1] * branches < values:
            widths.append(widths[-1] * branches)
        levels = [np.arange(values) // width for width in widths]
        exact = mean_parts(values, levels)
        assert parts_of_a_range(values, branches, widths) == pytest.approx(exact)
        split = len(levels) if composition is Composition.ZCDP else len(levels) ** 2
        assert range_error(values, branches, composition) == pytest.approx(exact * split)


@pytest.mark.slow
@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize("values", [64, 150])
def test_the_gain_is_what_is_delivered(values: int, composition: Composition) -> None:
    """Noise drawn for each level, ranges added up from the fewest groups: the mean squared error, over that
    of single values, within 5 percent.
    """
    found = hierarchy(ordered(values), composition)
    levels = [np.arange(values), *found.groups]
    delivered = ((values + 2) / 3) / (
        mean_parts(values, levels) * (len(levels) if composition is Composition.ZCDP else len(levels) ** 2)
    )
    assert found.gain == pytest.approx(delivered if found.groups else 1.0)
    rng = np.random.default_rng(1)
    draws, scale = 400, math.sqrt(len(levels)) if composition is Composition.ZCDP else float(len(levels))
    ranges = list(itertools.combinations_with_replacement(range(values), 2))[:: values // 16]
    error = [rng.normal(0, scale, (draws, int(level.max()) + 1)) for level in levels]
    total = np.zeros((draws, len(ranges)))
    for i, (low, high) in enumerate(ranges):
        left = set(range(low, high + 1))
        for level, noise in zip(reversed(levels), reversed(error), strict=True):
            for group in sorted(set(level[list(left)].tolist())) if left else ():
                members = set(np.flatnonzero(level == group).tolist())
                if members <= left:
                    left -= members
                    total[:, i] += noise[:, group]
    alone = np.mean([high - low + 1 for low, high in ranges])
    claimed = alone / (total**2).mean()
    assert claimed == pytest.approx(found.gain, rel=0.25)


@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize("nullable", [False, True])
def test_groups_are_nested_neighbours_and_missing_values_alone(
    composition: Composition, nullable: bool
) -> None:
    deepest = 0
    for values in [*range(2, 60), 97, 1000, 12_501]:
        attribute = ordered(values, nullable=nullable)
        found = hierarchy(attribute, composition)
        levels = [np.arange(attribute.size), *found.groups]
        deepest = max(deepest, found.depth)
        assert found.depth == len(levels) and found.gain >= 1 and (found.gain > 1) == bool(found.groups)
        for fine, coarse in itertools.pairwise(levels):
            assert len(coarse) == attribute.size and set(np.diff(coarse).tolist()) <= {0, 1}
            assert 2 <= coarse.max() + 1 < fine.max() + 1
            assert len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == fine.max() + 1
            if nullable:
                assert (coarse == coarse[-1]).sum() == 1
    assert deepest > 2


@pytest.mark.parametrize("composition", list(Composition))
def test_small_domains_are_measured_as_they_are(composition: Composition) -> None:
    """No hierarchy of any number of branches is better there, by exact count; where one is, the best is
    taken. The gain is never made up.
    """
    for values in range(1, 41):
        attribute = (
            ordered(values)
            if values > 1
            else Attribute(name="x", categories=("a",), constraints={"required": True})
        )
        best = min((range_error(values, b, composition) for b in range(2, values)), default=math.inf)
        found = hierarchy(attribute, composition)
        assert found.gain == pytest.approx(max(1.0, range_error(values, values, composition) / best))
    assert not hierarchy(ordered(12), composition).groups and hierarchy(ordered(1000), composition).groups


# ---- what it is worth


def chernoff(eigenvalues: np.ndarray, threshold: float) -> float:
    """A bound on the natural log of P[sum of eigenvalues times squared normals is beyond `threshold`], on the
    side away from the mean.
    """
    sign = 1.0 if threshold > eigenvalues.sum() else -1.0
    top = 0.499 / eigenvalues.max() if sign > 0 else 1e6 / eigenvalues.sum()
    return min(
        float(-sign * s * threshold - 0.5 * np.log1p(-2 * sign * s * eigenvalues).sum())
        for s in np.geomspace(top / 1e6, top, 200)
    )


def of_all_ranges(values: int) -> np.ndarray:
    """M with x' M x the mean over all ranges of the squared sum of x inside."""
    code = np.arange(values)
    low, high = np.minimum.outer(code, code), np.maximum.outer(code, code)
    return (low + 1) * (values - high) / (values * (values + 1) / 2)


@pytest.mark.slow
def test_asking_for_ranges_makes_them_better() -> None:
    """A 1,000-value attribute at epsilon 1, the number of rows public, against the one-way marginal alone at
    the same price. The mean squared error over all ranges is a quadratic form in Gaussians, for single values
    and for the least-squares fit to all levels. Chernoff's bound finds a threshold that the mean of ten
    releases is above in one case and below in the other, but with probability 1e-9 together; both are
    compared.
    """
    values, repeats = 1000, 10
    domain, x = Domain([ordered(values)]), np.repeat(np.arange(values), 200 + np.arange(values) % 97)
    table, true, weigh = pa.table({"x": x}), np.bincount(x, minlength=values), of_all_ranges(values)
    asked = Workload.ranges("x", count=2000)
    releases = [
        factored_mwem.release(table, asked, domain=domain, neighbours="replace") for _ in range(repeats)
    ]
    precision, amount = np.zeros((values, values)), 0.0
    for m in releases[0].measurements:
        level = releases[0].model.levels.groups[m.positions[0]]
        precision += (level[:, None] == level[None, :]) / m.stddev**2
        amount += 1 / m.stddev**2
    root = np.linalg.cholesky(np.linalg.inv(precision))
    ours = np.repeat(np.linalg.eigvalsh(root.T @ weigh @ root).clip(1e-12), repeats) / repeats
    alone = np.repeat(np.linalg.eigvalsh(weigh).clip(1e-12) / amount, repeats) / repeats
    risk, threshold = min(
        (max(chernoff(ours, t), chernoff(alone, t)), t)
        for t in np.geomspace(ours.sum(), alone.sum(), 40)[1:-1]
    )
    assert 2 * math.exp(risk) < 1e-9
    assert np.mean([_error(release, true, weigh) for release in releases]) < threshold
    plain = [factored_mwem.release(table, 1, domain=domain, neighbours="replace") for _ in range(repeats)]
    assert np.mean([_error(release, true, weigh) for release in plain]) > threshold
    assert "measured as single values and in" in releases[0].manifest.notes[0] and not plain[0].manifest.notes


def _error(release: Release, true: np.ndarray, weigh: np.ndarray) -> float:
    gap = release.model.marginal((0,)) - true
    return float(gap @ weigh @ gap)


def test_the_number_of_rows_is_learnt_from_the_groups_too() -> None:
    """Ranges add up shares of the number of rows, so its error goes into all of them: few groups say it
    better than 1,000 single values.

    Noise of +2 on every single value and of nothing else puts the sum of those 2,000 off; the
    inverse-variance mean gives it its due and no more.
    """
    values = 1000
    domain, x = Domain([ordered(values)]), np.repeat(np.arange(values), 50)
    fake = FakeNoise(Composition.PURE, offset=lambda v, scale: v + 2 * (len(v) == values))
    policy = Policy.of(delta=0.0)
    found = make(Request.of(pa.table({"x": x}), Workload.ranges("x"), policy, domain=domain), noise=fake)
    calls = [c for c in fake.calls if c.method == "add"]
    sizes = np.array([len(c.values) for c in calls])  # type: ignore[arg-type]
    precision = 1 / (sizes * np.array([c.scale for c in calls]) ** 2)
    off = 2 * values * precision[sizes == values].sum() / precision.sum()
    assert found.model.total == pytest.approx(len(x) + off) and off < 0.1 * 2 * values


# ---- plans from public facts


def single_scales(made: Release, name: str) -> list[float]:
    """The noise scales of a column's own marginals, at all levels."""
    return [
        m.scale
        for m in made.manifest.measurements
        if len(m.attributes) == 1 and m.attributes[0].split(" in ")[0] == name
    ]


def test_a_weight_buys_a_range_more_of_the_budget() -> None:
    """Equal shapes but for the weight: noise falls, in proportion to weight^(-1/3) against the other column's
    (cost goes with weight^(2/3)).
    """
    domain = {"x": 400, "y": 400}
    table = pa.table({name: np.arange(1000) % 400 for name in domain})
    for weight, ratio in ((1.0, 1.0), (8.0, 8 ** (-1 / 3))):
        workload = Workload.ranges("x", weight=weight) + Workload.ranges("y")
        made = factored_mwem.release(table, workload, epsilon=1.0, domain=domain)
        ours, theirs = single_scales(made, "x"), single_scales(made, "y")
        assert len(ours) == len(theirs) > 1
        assert np.array(ours) / np.array(theirs) == pytest.approx(ratio, rel=0.01)


def test_check_forecasts_the_noise_that_a_hierarchy_gets() -> None:
    """The mean noise of the first measurements is that of a release with the same number of rows."""
    domain = DOMAIN.project(["score"])
    workload, policy = Workload.ranges("score"), Policy.of(epsilon=1.0, delta=0.0)
    table = pa.table({"score": np.linspace(0, 9.9, 3000)})
    scope = Scope.of(Request.of(table, workload, policy, domain=domain), Machine(1e9, 0.0))
    found = forecast(Plan.of(scope, domain), 3000)
    made = factored_mwem.release(table, workload, policy, domain=domain)
    assert found.initial_noise == pytest.approx(single_scales(made, "score")[0], rel=0.02)


@pytest.mark.parametrize(
    ("workload", "choices", "message"),
    [
        (Workload.parities(9), {}, "the table has only 4 columns"),
        (Workload.cube("age", "owns", order=3), {}, "no marginals of 3"),
    ],
)
def test_what_names_alone_rule_out_is_refused_before_a_domain_is_learnt(
    workload: Workload, choices: dict[str, Any], message: str
) -> None:
    with pytest.raises(factored_mwem.InputError, match=message) as refusal:
        factored_mwem.release(small_table(200), workload, Policy.of(epsilon=1.0, **choices))
    assert not refusal.value.budget_spent


def test_figure_1_of_the_paper_runs_as_it_is_printed() -> None:
    """Single linear queries, half of each round for selecting, one step a round from the uniform table, and
    the average of the iterates before each round.
    """
    domain, bits = Domain.from_dict(dict.fromkeys("abc", 2)), np.random.default_rng(1).random((3, 500))
    columns = zip("abc", bits, strict=True)
    table = pa.table({name: (row < 0.3 + 0.5 * bits[0]).astype(int) for name, row in columns})

    def released(rounds: int, iterate: str) -> np.ndarray:
        printed = {"initial": "none", "replay": False, "components": "one", "select_share": 0.5}
        policy = Policy.of(epsilon=9.0, engine="mwem", rounds=rounds, iterate=iterate, **printed)
        asked = request_of(open_source(table), Workload.parities(2), policy, domain, sample_seed=1)
        made = make(asked, noise=FakeNoise(policy.budget(learn_domain=False).composition))
        assert made.manifest.rounds == rounds
        return np.asarray(made.marginal("a", "b", "c").counts) / 500

    np.testing.assert_allclose(released(1, "average"), 1 / 8)
    lasts = [np.full((2, 2, 2), 1 / 8), released(1, "last"), released(2, "last")]
    assert np.abs(lasts[2] - lasts[1]).max() > 0.001 and np.abs(lasts[1] - 1 / 8).max() > 0.001
    np.testing.assert_allclose(released(3, "average"), np.mean(lasts, axis=0), rtol=1e-9)


@pytest.mark.parametrize("make", [Workload.ranges, Workload.cube])
def test_a_request_names_each_attribute_once(make: Any) -> None:
    with pytest.raises(factored_mwem.InputError, match="name each attribute once"):
        make("age", "age")


def test_evaluation_reports_the_marginals_and_questions_of_a_workload() -> None:
    table = small_table(500)
    found = factored_mwem.evaluate(
        table, table, 1, domain=DOMAIN, workload=Workload.of([("age", "owns")]) + MIXED
    )
    assert found.asked[0][0] == "marginal over age, owns" and len(found.asked) == 1 + len(MIXED.asked)
    assert all(mean == worst == 0 for _, _, mean, worst in found.asked)
    moved, pair = table.set_column(0, "age", pa.array([*table["age"].to_pylist()[1:], 18])), ("age", "owns")
    (asked,) = factored_mwem.evaluate(table, moved, 1, domain=DOMAIN, workload=Workload.of([pair])).asked
    assert asked[2] > 0
    with pytest.raises(factored_mwem.InputError, match="not among the columns"):
        factored_mwem.evaluate(table, table, 1, domain=DOMAIN, workload=Workload.of([("age", "wages")]))
