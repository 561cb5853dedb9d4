"""Single statistics: true values, charges, an audit of small tables, refusals and the books."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.drawing import drawing
from support.fakes import FakeNoise
from support.goodness import permute_and_flip

from factored_mwem import Cap, LedgerFile, Neighbours
from factored_mwem.accounting.accountant import Charge, Mechanism
from factored_mwem.accounting.admissible import Shape
from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import BudgetExceeded, InputError
from factored_mwem.ledger.run import Run
from factored_mwem.privacy.noise import spread_scale
from factored_mwem.privacy.other import smooth
from factored_mwem.privacy.other.order import Ordered
from factored_mwem.sessions.statistic import statistic
from factored_mwem.sessions.statistic.column_statistic import Statistic, StatisticRequest, make_statistic
from factored_mwem.sessions.statistic.grid import Grid
from factored_mwem.sessions.statistic.question import RANKED


def asked(
    values: Sequence[Any], what: str, noise: FakeNoise | None = None, *, policy: Any = (), **given: Any
) -> tuple[Statistic, FakeNoise]:
    """The statistic of values with bounds 0 and 6, without noise."""
    chosen = {"delta": 0.0, **dict(policy)}
    fake = noise if noise is not None else FakeNoise(Composition.PURE)
    grid = Grid.of(given.pop("lower", 0), given.pop("upper", 6), given.pop("grid", 1))
    smooth_ones = what in RANKED and not chosen["delta"]
    given["noise"] = given.pop("noise_of", "cauchy" if smooth_ones else None)
    table = pa.table({"x": pa.array(values, pa.float64())})
    request = StatisticRequest.of(table, "x", what, grid, given, **chosen)
    with drawing(fake):
        return make_statistic(request, Run()), fake


def test_true_values_without_noise() -> None:
    """Against numpy; what is missing is left out, what is out of bounds is brought to them."""
    values = [0.0, 2.0, 2.0, 5.0, None, 6.0, 99.0, math.nan]
    known = np.array([0, 2, 2, 5, 6, 6])
    expected = {"count": 6, "mean": known.mean(), "variance": known.var(), "median": 2, "min": 0, "max": 6}
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
    assert 0.4999 < made.statement.guarantee.spent_epsilon <= 0.5
    assert made.statement.recompute() == made.statement.guarantee.spent_epsilon
    laplace, _ = asked([1, 2, 3], "min", policy={"epsilon": 0.5, "delta": 1e-6})
    (charge,) = laplace.statement.ledger
    assert charge.mechanism is Mechanism.SMOOTH_LAPLACE and Fraction(charge.delta) == Fraction(1e-6)
    assert laplace.statement.recompute() == laplace.statement.guarantee.spent_epsilon <= 0.5


def test_nothing_private_is_in_what_is_released() -> None:
    """Two tables whose noisy answers are the same are the same to the last byte: the bound does not show."""
    told = set()
    for values in ([2, 2, 2], [0, 2, 6]):
        made, _ = asked(values, "median", rows=3)
        told.add((repr(made.facts), made.statement.model_dump_json(), repr(made)))
    assert len(told) == 1


def neighbours(one: tuple[int, ...], other: tuple[int, ...], relation: str) -> bool:
    gone, come = (Counter(a) - Counter(b) for a, b in ((one, other), (other, one)))
    apart = (gone.total(), come.total())
    return apart == (1, 1) if relation == "replace" else sum(apart) == 1


def all_neighbours(relation: str) -> list[tuple[Table, Table]]:
    found = [pair for pair in itertools.permutations(TABLES, 2) if neighbours(*pair, relation)]
    assert len(found) > 20
    return found


def loss(one: Any, other: Any, epsilon: float) -> float:
    """The largest log ratio (Cauchy), or the delta at `epsilon` (Laplace), of two noisy numbers."""
    (a, _, shape), (b, _, _) = one.values, other.values
    s, t = (float(spread_scale(call.values[1], call.scale)) for call in (one, other))
    if shape is Shape.CAUCHY:  # whose normaliser tanh(pi s) is 1 at such scales
        around = np.round(np.geomspace(1, 2.0**60, 4000))
        outputs = np.concatenate([center + sign * around for center in (a, b) for sign in (-1, 1)])
        logs = [math.log(scale) - np.log(scale**2 + (outputs - at) ** 2) for at, scale in ((a, s), (b, t))]
        return float(np.abs(logs[0] - logs[1]).max())
    near = np.round(max(s, t) * np.linspace(-40, 40, 40_001)).astype(np.int64)
    outputs = np.unique(near + (a + b) // 2)
    width = np.diff(outputs, append=outputs[-1])
    logs = [math.log(math.tanh(0.5 / scale)) - np.abs(outputs - at) / scale for at, scale in ((a, s), (b, t))]
    over = np.maximum(0, np.exp(logs[0]) - np.exp(np.minimum(epsilon + logs[1], 700)))
    return float((over * width).sum())


Table = tuple[int, ...]
TABLES = [t for n in range(4) for t in itertools.combinations_with_replacement((0, 1, 6), n)]


def is_kept(what: str, given: dict[str, Any], policy: dict[str, Any]) -> bool:
    """Whether no neighbours among tables of up to three rows lose more than was promised."""
    calls = {}
    for table in TABLES:
        _, fake = asked(table, what, policy=policy, **given)
        (calls[table],) = [call for call in fake.calls if call.method == "spread"]
    pairs = all_neighbours(policy.get("neighbours", "add-remove"))
    most = policy["delta"] * 1.001 if policy.get("delta") else policy["epsilon"]
    return all(loss(calls[a], calls[b], policy["epsilon"]) <= most for a, b in pairs)


def unsmoothed(self: Ordered, rank: int, beta: float, group: int = 1) -> float:
    """The local sensitivity itself."""
    left, here, right = self.at(np.array([rank - 1, rank, rank + 1])).tolist()
    return max(1.0, here - left, right - here)


CASES = [
    ("median", {"rows": 3}, {"epsilon": 1.0}),
    ("median", {"rows": 3}, {"epsilon": 1.0, "neighbours": "replace"}),
    ("min", {}, {"epsilon": 0.3}),
    ("max", {}, {"epsilon": 2.5, "neighbours": "replace"}),
    ("median", {"rows": 3}, {"epsilon": 1.0, "delta": 1e-3}),
    ("max", {}, {"epsilon": 0.5, "delta": 1e-2, "neighbours": "replace"}),
]


def halved(self: Ordered, *rest: Any, real: Callable[..., float] = Ordered.smooth) -> float:
    return real(self, *rest) / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "case"),
    [
        *((planted, case) for planted in (None, unsmoothed) for case in CASES),
        *((halved, case) for case in CASES[::2]),
    ],
)
def test_no_pair_of_small_tables_is_told_apart(
    planted: Any, case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the audit catches a forgotten beta and half of the scale."""
    if planted is not None:
        monkeypatch.setattr(Ordered, "smooth", planted)
    assert is_kept(*case) == (planted is None)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("what", ["count", "mean", "variance"])
def test_sums_move_by_no_more_than_they_are_charged_for(what: str, relation: str) -> None:
    """Over all neighbours of up to three rows; the sensitivity charged is reached."""
    sums, charged = {}, list[int]()
    for table in TABLES:
        made, fake = asked(table, what, policy={"neighbours": relation})
        sums[table] = [int(call.values[0]) for call in fake.calls]  # type: ignore[index]
        charged = [entry.sensitivity for entry in made.statement.ledger]
    moved = [np.abs(np.subtract(sums[a], sums[b])) for a, b in all_neighbours(relation)]
    most = np.max(moved, axis=0).tolist()
    assert all(m <= c for m, c in zip(most, charged, strict=True))
    if what != "variance" and relation == "add-remove":
        assert most == charged


def test_several_rows_of_a_person_are_protected_together() -> None:
    """At most k rows of each are kept, and the bound is for groups of k."""
    table = pa.table({"x": [0.0, 1.0, 6.0] * 20, "who": [i // 6 for i in range(60)]})
    grid = Grid.of(0, 6, 1)
    bounds = []
    for k in (1, 3):
        fake = FakeNoise(Composition.PURE)
        request = StatisticRequest.of(table, "x", "min", grid, {}, contributions=k, privacy_id="who")
        with drawing(fake):
            made = make_statistic(request, Run())
        (call,) = fake.calls
        bounds.append(call.values[1])  # type: ignore[index]
        assert f"at most {k} row" in made.statement.guarantee.unit
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
    choices = {t: rank_scores(t, at, relation)[:2] for t in TABLES}
    for factor in found:
        laws = {t: np.log(permute_and_flip(scale, scores * factor)) for t, (scores, scale) in choices.items()}
        found[factor] = max(float(np.abs(laws[a] - laws[b]).max()) for a, b in all_neighbours(relation))
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
    other = statistic(table, "x", "median", noise="cauchy", **{**given, "run_id": "c"}, epsilon=0.2)
    assert other.error is None
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
        ({"rows": 10**30, "what": "median"}, "rows=1000"),
        ({"rows": 5, "what": "min"}, "does not use"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"what": "max", "epsilon": 1e-8}, "too little"),
        ({"what": "max", "epsilon": 2e-7}, "too little"),  # for the ranks that memory holds
        ({"what": "median", "noise": "cauchy", "contributions": 10**8}, "lower --contributions"),
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
