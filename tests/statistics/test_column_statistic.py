"""Single statistics: true values without noise, the charge of each, an audit of small tables by density
ratios, refusals and the books.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise
from support.goodness import permute_and_flip

from factored_mwem import Cap, LedgerFile, Neighbours
from factored_mwem.accounting.accountant import Charge, Mechanism
from factored_mwem.accounting.admissible import Shape
from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import BudgetExceeded, InputError
from factored_mwem.ledger.run import Booking
from factored_mwem.policy import Policy
from factored_mwem.privacy import smooth
from factored_mwem.privacy.noise import spread_scale
from factored_mwem.privacy.order import Ordered
from factored_mwem.statistics import statistic
from factored_mwem.statistics.column_statistic import Statistic, ask
from factored_mwem.statistics.grid import Grid
from factored_mwem.statistics.question import RANKED, Question


def asked(
    values: Sequence[Any], what: str, noise: FakeNoise | None = None, *, policy: Any = (), **given: Any
) -> tuple[Statistic, FakeNoise]:
    """The statistic of values with bounds 0 and 6, without noise."""
    chosen = {"delta": 0.0, **dict(policy)}
    fake = noise if noise is not None else FakeNoise(Composition.PURE)
    grid = Grid.of(given.pop("lower", 0), given.pop("upper", 6), given.pop("grid", None))
    smooth_ones = what in RANKED and not chosen["delta"]
    given["noise"] = given.pop("noise_of", "cauchy" if smooth_ones else None)
    question = Question.of("x", what, grid, chosen["delta"], **given)
    table = pa.table({"x": pa.array(values, pa.float64())})
    return ask(table, question, Policy.of(**chosen), Booking(), noise=fake), fake


def test_true_values_without_noise() -> None:
    """Against numpy; what is missing is left out, what is out of bounds is brought to them."""
    values = [0.0, 2.0, 2.0, 5.0, None, 6.0, 99.0, math.nan]
    known = np.array([0, 2, 2, 5, 6, 6])
    expected = {
        "count": 6,
        "mean": known.mean(),
        "variance": known.var(),
        "median": 2,
        "min": 0,
        "max": 6,
    }
    for what, right in expected.items():
        assert asked(values, what)[0].value == pytest.approx(right), what
    for share, right in ((0.1, 0), (0.5, 2), (0.6, 5), (0.99, 6)):
        assert asked(values, "quantile", at=share)[0].value == right
    assert asked(values, "median", complete=True, rows=8)[0].value == 2  # 0 0 0 2 2 5 6 6


@pytest.mark.parametrize("step", [1, 0.25, None])
def test_a_finer_grid_tells_more_apart(step: float | None) -> None:
    values = [0.31, 0.33, 0.7, 0.9, 1.1]
    found = asked(values, "median", upper=1.5 if step != 1 else 6, grid=step)[0].value
    assert abs(found - 0.7) <= Grid.of(0, 1.5, step).step / 2 if step != 1 else found == 1


def test_charges_say_what_was_drawn_and_recompute_to_what_was_promised() -> None:
    made, fake = asked([1, 2, 3], "median", policy={"epsilon": 0.5})
    count, spread = made.statement.ledger
    assert (count.mechanism, spread.mechanism) == (Mechanism.LAPLACE, Mechanism.SMOOTH_CAUCHY)
    assert [call.method for call in fake.calls] == ["add", "spread"]
    assert fake.scales("spread") == [spread.scale]
    assert 0.4999 < made.statement.promise.spent_epsilon <= 0.5
    assert made.statement.recompute() == made.statement.promise.spent_epsilon
    laplace, _ = asked([1, 2, 3], "min", policy={"epsilon": 0.5, "delta": 1e-6})
    (charge,) = laplace.statement.ledger
    assert charge.mechanism is Mechanism.SMOOTH_LAPLACE and Fraction(charge.delta) == Fraction(1e-6)
    assert laplace.statement.recompute() == laplace.statement.promise.spent_epsilon <= 0.5


def test_nothing_private_is_in_what_is_released() -> None:
    """Two tables whose noisy answers are the same are the same to the last byte: the bound does not show."""
    told = set()
    for values in ([2, 2, 2], [0, 2, 6]):
        made, _ = asked(values, "median", rows=3)
        told.add((repr(made.facts), made.statement.model_dump_json(), repr(made)))
    assert len(told) == 1


def neighbours(one: tuple[int, ...], other: tuple[int, ...], relation: str) -> bool:
    left = list(other)
    common = sum(1 for value in one if value in left and not left.remove(value))  # type: ignore[func-returns-value]
    gone, come = len(one) - common, len(other) - common
    return (gone, come) == (1, 1) if relation == "replace" else gone + come == 1


def log_density(shape: Shape, value: int, scale: Fraction, outputs: np.ndarray) -> np.ndarray:
    z, s = np.abs(outputs.astype(float) - value), float(scale)
    if shape is Shape.CAUCHY:
        return math.log(s / math.pi) - np.log(s * s + z * z)  # tanh(pi s) is 1 at such scales
    return math.log(math.tanh(0.5 / s)) - z / s


def loss(one: Any, other: Any, epsilon: float) -> float:
    """The largest log ratio (Cauchy), or the delta at `epsilon` (Laplace), of two noisy numbers."""
    (a, bound, shape), m = one.values, one.scale
    b, other_bound, _ = other.values
    s, t = spread_scale(bound, m), spread_scale(other_bound, other.scale)
    around = np.round(np.geomspace(1, 2.0**60, 4000)).astype(np.int64)
    near = np.round(max(float(s), float(t)) * np.linspace(-40, 40, 40_001)).astype(np.int64)
    if shape is Shape.CAUCHY:
        outputs = np.concatenate([center + sign * around for center in (a, b) for sign in (-1, 1)])
        here, there = log_density(shape, a, s, outputs), log_density(shape, b, t, outputs)
        return float(np.abs(here - there).max())
    outputs = np.unique(near + (a + b) // 2)
    width = np.diff(outputs, append=outputs[-1])
    here, there = log_density(shape, a, s, outputs), log_density(shape, b, t, outputs)
    over = np.maximum(0, np.exp(here) - np.exp(np.minimum(epsilon + there, 700)))
    return float((over * width).sum())


TABLES = [t for n in range(4) for t in itertools.combinations_with_replacement((0, 1, 6), n)]


def worst(what: str, policy: dict[str, Any], **given: Any) -> float:
    """The largest loss over all neighbours among tables of up to three rows."""
    calls = {}
    for table in TABLES:
        _, fake = asked(table, what, policy=policy, **given)
        (calls[table],) = [call for call in fake.calls if call.method == "spread"]
    relation = policy.get("neighbours", "add-remove")
    pairs = [(a, b) for a, b in itertools.permutations(TABLES, 2) if neighbours(a, b, relation)]
    assert len(pairs) > 20
    return max(loss(calls[a], calls[b], policy["epsilon"]) for a, b in pairs)


CASES = [
    ("median", {"rows": 3}, {"epsilon": 1.0}),
    ("median", {"rows": 3}, {"epsilon": 1.0, "neighbours": "replace"}),
    ("min", {}, {"epsilon": 0.3}),
    ("max", {}, {"epsilon": 2.5, "neighbours": "replace"}),
    ("median", {"rows": 3}, {"epsilon": 1.0, "delta": 1e-3}),
    ("max", {}, {"epsilon": 0.5, "delta": 1e-2, "neighbours": "replace"}),
]


@pytest.mark.parametrize(("what", "given", "policy"), CASES)
def test_no_pair_of_small_tables_is_told_apart(what: str, given: Any, policy: Any) -> None:
    found, delta = worst(what, policy, **given), policy.get("delta", 0)
    assert found <= (delta * 1.001 if delta else policy["epsilon"])


def unsmoothed(self: Ordered, rank: int, beta: float, group: int = 1) -> float:
    """A planted bug: beta is forgotten, and the local sensitivity itself is taken."""
    left, here, right = self.at(np.array([rank - 1, rank, rank + 1])).tolist()
    return max(1.0, here - left, right - here)


@pytest.mark.parametrize(("what", "given", "policy"), CASES)
def test_the_audit_catches_a_forgotten_beta(
    what: str, given: Any, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ordered, "smooth", unsmoothed)
    found, delta = worst(what, policy, **given), policy.get("delta", 0)
    assert found > (delta * 1.001 if delta else policy["epsilon"])


@pytest.mark.parametrize(("what", "given", "policy"), CASES[::2])
def test_the_audit_catches_half_of_the_scale(
    what: str, given: Any, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Ordered.smooth
    monkeypatch.setattr(Ordered, "smooth", lambda self, *rest: real(self, *rest) / 2)
    found, delta = worst(what, policy, **given), policy.get("delta", 0)
    assert found > (delta * 1.001 if delta else policy["epsilon"])


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("what", ["count", "mean", "variance"])
def test_sums_move_by_no_more_than_they_are_charged_for(what: str, relation: str) -> None:
    """Over all neighbours of up to three rows; the sensitivity charged is reached."""
    sums, charged = {}, list[int]()
    for table in TABLES:
        made, fake = asked(table, what, policy={"neighbours": relation})
        sums[table] = [int(call.values[0]) for call in fake.calls]  # type: ignore[index]
        charged = [entry.sensitivity for entry in made.statement.ledger]
    moved = [
        [abs(x - y) for x, y in zip(sums[a], sums[b], strict=True)]
        for a, b in itertools.permutations(TABLES, 2)
        if neighbours(a, b, relation)
    ]
    most = np.array(moved).max(axis=0).tolist()
    assert all(m <= c for m, c in zip(most, charged, strict=True))
    if what != "variance" and relation == "add-remove":
        assert most == charged


def test_several_rows_of_a_person_are_protected_together() -> None:
    """At most k rows of each are kept, and the bound is for groups of k."""
    table = pa.table({"x": [0.0, 1.0, 6.0] * 20, "who": [i // 6 for i in range(60)]})
    grid = Grid.of(0, 6)
    bounds = []
    for k in (1, 3):
        policy = Policy.of(delta=0, contributions=k, privacy_id="who")
        fake = FakeNoise(Composition.PURE)
        made = ask(table, Question.of("x", "min", grid, 0), policy, Booking(), noise=fake)
        (call,) = fake.calls
        bounds.append(call.values[1])  # type: ignore[index]
        assert f"at most {k} row" in made.statement.promise.unit
    assert bounds[1] >= bounds[0]


def rank_scores(
    values: Sequence[float], at: float, relation: str = "add-remove"
) -> tuple[np.ndarray, float, float]:
    """The scores of the exponential mechanism, its scale, and the value that it chooses without noise."""
    made, fake = asked(values, "quantile", at=at, noise_of="exponential", policy={"neighbours": relation})
    (call,) = fake.calls
    return np.asarray(call.values), call.scale, made.value


def test_the_exponential_mechanism_finds_the_quantile() -> None:
    values = np.random.default_rng(2).integers(0, 7, 501)
    for at in (0.1, 0.5, 0.9):
        scores, _, value = rank_scores(values.tolist(), at)
        assert value == np.quantile(values, at, method="inverted_cdf")
        ranks = [((values < c).sum(), (values <= c).sum()) for c in range(7)]
        by_hand = [-max(first - at * 501, at * 501 - last, 0) / max(at, 1 - at) for first, last in ranks]
        assert scores / 2**20 == pytest.approx(by_hand, abs=0.01)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("at", [0.2, 0.5, 0.9])
def test_the_loss_of_the_exponential_mechanism(relation: str, at: float) -> None:
    """Its exact law on all neighbours of up to three rows; a quarter of the scale is seen."""
    found = {1.0: 0.0, 4.0: 0.0}
    laws = {t: rank_scores(t, at, relation)[:2] for t in TABLES}
    for a, b in itertools.permutations(TABLES, 2):
        if neighbours(a, b, relation):
            for factor in found:
                p, q = (permute_and_flip(laws[t][1], laws[t][0] * factor) for t in (a, b))
                found[factor] = max(found[factor], float(np.abs(np.log(p / q)).max()))
    assert found[1.0] <= 1 + 1e-9 < found[4.0]


def test_intervals_hold_the_truth() -> None:
    """Where both sums are off by just as much as the interval allows for."""
    rng = np.random.default_rng(1)
    values = rng.integers(0, 7, 500)
    for sign in itertools.product((-1, 1), repeat=2):
        signs = list(sign)

        def off(exact: np.ndarray, scale: float, signs: list[int] = signs) -> np.ndarray:
            return exact + int(signs.pop() * scale * math.log(2 / 0.05))

        made, _ = asked(values.tolist(), "mean", FakeNoise(Composition.PURE, offset=off))
        assert made.error is not None and abs(made.value - values.mean()) <= made.error < 6


def test_a_run_that_goes_on_pays_once(tmp_path: Path) -> None:
    ledger = tmp_path / "books.ledger"
    LedgerFile.create(ledger).add("people", Cap.of(3.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    table = pa.table({"x": [1.0, 2.0, 3.0]})
    given: dict[str, Any] = {"lower": 0, "upper": 6, "ledger": ledger, "dataset": "people", "run_id": "one"}
    first = statistic(table, "x", "median", **given)
    assert statistic(table, "x", "median", **given).value == first.value
    assert (
        statistic(table, "x", "median", noise="cauchy", **{**given, "run_id": "c"}, epsilon=0.2).error is None
    )
    statistic(table, "x", "max", **{**given, "run_id": "two"}, delta=1e-10)
    with pytest.raises(BudgetExceeded):
        statistic(table, "x", "min", **{**given, "run_id": "three"}, epsilon=1.5)
    assert len(LedgerFile(ledger).entries("people")) == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"what": "mode"}, "what='mode'"),
        ({"column": "y"}, "'y'"),
        ({"column": "name"}, None),
        ({"column": "day"}, "statistics are of numbers"),
        ({"lower": 6, "upper": 0}, "less than"),
        ({"lower": math.nan}, "must be numbers"),
        ({"grid": 4}, "does not divide"),
        ({"grid": 1e-9}, "at most 65,536"),
        ({"at": 0.5}, "takes no share"),
        ({"what": "quantile"}, "needs a share"),
        ({"what": "quantile", "at": 1}, "between 0 and 1"),
        ({"what": "median", "noise": "laplace"}, "needs a delta"),
        ({"what": "median", "noise": "cauchy", "delta": 1e-6}, "is pure"),
        ({"what": "median", "noise": "gaussian"}, "must be cauchy"),
        ({"noise": "cauchy"}, "needs no delta"),
        ({"what": "min", "noise": "exponential"}, "for medians and quantiles"),
        ({"what": "median", "rows": 3}, "is for noise=cauchy"),
        ({"delta": 1e-6}, "needs no delta"),
        ({"rows": 0, "what": "median"}, "rows=0"),
        ({"rows": 5, "what": "min"}, "does not use"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"what": "max", "epsilon": 1e-8}, "too little"),
    ],
)
def test_refusals_before_anything_is_spent(given: dict[str, Any], words: str | None) -> None:
    table = pa.table({"x": [1.0], "name": ["Ann"], "day": pa.array([0], pa.date32())})
    asked_for = {"column": "x", "what": "mean", "lower": 0, "upper": 6, **given}
    if words is None:
        assert statistic(table, **asked_for).value >= 0  # text that is no number is a missing one
        return
    with pytest.raises(InputError, match=words) as error:
        statistic(table, **asked_for)
    assert not getattr(error.value, "budget_spent", False)


def test_constants_follow_from_cost_alone() -> None:
    made = smooth.constants(Shape.CAUCHY, Fraction(1), Fraction(0))
    charge = Charge("measure", Mechanism.SMOOTH_CAUCHY, (), made.multiplier, math.floor(made.beta * 2**60))
    assert 0.999 < charge.cost <= 1
