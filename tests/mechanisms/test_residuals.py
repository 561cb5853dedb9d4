"""One-shot residuals: their sensitivity on all neighbours, their charge, what noise makes of marginals, and
the fit against a reference.

Every check of privacy is also seen to fail on a planted bug.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy as np
import pytest
from scipy.optimize import minimize
from support.fakes import FakeNoise
from support.releases import BUDGET, both
from support.rows import private_counts
from support.tables import every_unit

from factored_mwem.accounting.accountant import Accountant, Budget, Charge, Mechanism, price
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import BudgetExceeded
from factored_mwem.mechanisms import residuals as residual
from factored_mwem.mechanisms.residuals import AtOnce, choose_weights, fit, one_shot, worth_one_shot
from factored_mwem.mechanisms.result import Total
from factored_mwem.privacy import residuals
from factored_mwem.privacy.counts import PrivateCounts
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.privacy.residuals import Residuals, measure_residuals, over_subsets, sensitivity
from factored_mwem.privacy.session import Session
from factored_mwem.workload.residual_basis import Transform, question
from factored_mwem.workload.workload import Workload

SHAPES = [(2,), (3,), (1, 2), (2, 2), (2, 3), (2, 1, 5), (3, 3), (2, 2, 2), (3, 2, 2)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
CHARGE = 0.5
"""Of the entropy in the fits that are compared with a reference."""
NOISY = partial(Total, stderr=math.inf)
"""A number of rows that was measured."""


def sealed(table: np.ndarray, shape: Sequence[int]) -> PrivateCounts:
    """The rows of `table: int64[cell]` as the mechanism gets them."""
    domain = Domain(
        Attribute(name=f"a{i}", categories=[f"v{c}" for c in range(k)], constraints={"required": True})
        for i, k in enumerate(shape)
    )
    codes = np.unravel_index(np.repeat(np.arange(len(table)), table), shape)
    return private_counts([c.astype(np.uint8) for c in codes], Workload.marginals(1).candidates(domain))


def session(composition: Composition, unit: Unit | None = None, noise: object = None) -> Session:
    return Session(Accountant(BUDGET[composition]), unit or Unit(), noise or FakeNoise(composition))  # type: ignore[arg-type]


def weights_of(shape: Sequence[int], order: int, *, total: bool, seed: int = 3) -> np.ndarray:
    """Uneven whole weights for every subset of at most `order` attributes; of none, if `total`."""
    sizes = [k for k in shape if k > 1]
    weights = np.random.default_rng(seed).integers(1, 6, 2 ** len(sizes))
    weights[np.bitwise_count(np.arange(len(weights))) > order] = 0
    weights[0] *= total
    return weights


def asked(
    door: Session, table: np.ndarray, shape: Sequence[int], order: int, weights: np.ndarray
) -> Residuals:
    """All residuals of the table, for all that the session has left."""
    return measure_residuals(door, sealed(table, shape), shape, order, weights, cost=door.accountant.left)


def persons(cells: int, rows: int, least: int) -> np.ndarray:
    """int64[person, cell]: everything that one person can have, from `least` to `rows` rows; all in one cell
    where that is all that matters.
    """
    found = [np.zeros(cells, dtype=np.int64)] if least == 0 else []
    for n in range(max(least, 1), rows + 1):
        for chosen in itertools.combinations_with_replacement(range(cells), n):
            found.append(np.bincount(chosen, minlength=cells))
    return np.array(found)


def kron_answers(
    table: np.ndarray, shape: Sequence[int], composition: Composition, order: int
) -> dict[int, np.ndarray]:
    """The answers of every subset by definition: the Kronecker product of questions times the marginal."""
    sizes = [k for k in shape if k > 1]
    found = {}
    for mask in range(2 ** len(sizes)):
        inside = [i for i in range(len(sizes)) if mask >> i & 1]
        if len(inside) <= order:
            others = tuple(i for i in range(len(sizes)) if i not in inside)
            questions = [question(sizes[i], gaussian=composition is Composition.ZCDP) for i in inside]
            whole = reduce(np.kron, questions, np.ones((1, 1), dtype=np.int64))
            found[mask] = whole @ table.reshape(sizes).sum(axis=others).ravel()
    return found


# --- the answers and their sensitivity ---


@both
@every_shape
def test_answers_are_the_kronecker_products(shape: Sequence[int], composition: Composition) -> None:
    order = min(2, sum(k > 1 for k in shape))
    table = np.random.default_rng(1).integers(0, 9, math.prod(shape))
    transform = Transform(shape, order, gaussian=composition is Composition.ZCDP)
    found = transform.forward(table)
    assert found.dtype == np.int64
    for mask, expected in kron_answers(table, shape, composition, order).items():
        assert (found[transform.masks == mask] == expected).all()
    dual = np.random.default_rng(2).normal(size=len(found))
    assert dual @ transform.forward(table.astype(float)) == pytest.approx(table @ transform.transpose(dual))


def greatest_change(shape: Sequence[int], weights: np.ndarray, unit: Unit, composition: Composition) -> int:
    """The greatest change that reaches the sampler, over all neighbours, through `measure_residuals`."""
    cells, order = math.prod(shape), sum(k > 1 for k in shape)
    small = persons(cells, unit.contributions, 1 if unit.neighbours is Neighbours.REPLACE else 0)
    if len(small) > 400:
        # every pair of people whose rows lie in one cell each, which has the extremes; tried in full on the
        # smaller shapes
        small = np.array([p for p in small if (p > 0).sum() <= 1])
    base = np.ones(cells, dtype=np.int64)
    seen = []
    for person in small:
        fake = FakeNoise(composition)
        door = session(composition, unit, fake)
        asked(door, base + person, shape, order, weights)
        seen.append(fake.calls[0].values)
    changes = np.array(seen)
    power = 2 if composition is Composition.ZCDP else 1
    if unit.neighbours is Neighbours.ADD_REMOVE:
        return int((np.abs(changes - changes[0]) ** power).sum(axis=1).max())  # the first person has no row
    return max(int((np.abs(changes - one) ** power).sum(axis=1).max()) for one in changes)


def check_sensitivity(shape: Sequence[int], unit: Unit, composition: Composition) -> None:
    """The stated bound is the greatest change: not smaller and, where the total is not asked, not larger."""
    for total in (False, True):
        weights = weights_of(shape, len(shape), total=total)
        stated = sensitivity(shape, weights, unit, composition)
        found = greatest_change(shape, weights, unit, composition)
        assert found <= stated
        assert found == stated or (total and unit.neighbours is Neighbours.REPLACE)


@both
@every_unit
@pytest.mark.parametrize(
    "shape",
    [shape if 2 < math.prod(shape) <= 6 else pytest.param(shape, marks=pytest.mark.slow) for shape in SHAPES],
    ids=map(str, SHAPES),
)
def test_sensitivity_is_the_greatest_change_over_all_neighbours(
    shape: Sequence[int], unit: Unit, composition: Composition
) -> None:
    check_sensitivity(shape, unit, composition)


@pytest.mark.parametrize("least", [0, 1])
def test_persons_of_uneven_rows_stay_within_the_bound(least: int) -> None:
    """0 or 1 to 3 rows on either side: the convexity argument in `sensitivity`, in full on one shape."""
    unit, shape = Unit(Neighbours.REPLACE, 3, by_id=True), (2, 3)
    weights = weights_of(shape, 2, total=True)
    transform = Transform(shape, 2, gaussian=True)
    answers = np.array([transform.forward(p) * weights[transform.masks] for p in persons(6, 3, least)])
    greatest = max(int(((answers - one) ** 2).sum(axis=1).max()) for one in answers)
    assert greatest <= sensitivity(shape, weights, unit, Composition.ZCDP)


@pytest.mark.slow
def test_planted_sensitivities_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual mistakes: relation, contributions or their square, weights forgotten; one unit more."""
    real = sensitivity
    planted = {
        "replace forgotten": lambda s, w, u, c: real(s, w, Unit(Neighbours.ADD_REMOVE, u.contributions), c),
        "contributions forgotten": lambda s, w, u, c: real(s, w, Unit(u.neighbours), c),
        "contributions not squared": lambda s, w, u, c: real(s, w, Unit(u.neighbours), c) * u.contributions,
        "too large": lambda s, w, u, c: real(s, w, u, c) + 1,
        "weights forgotten": lambda s, w, u, c: real(s, (w > 0).astype(np.int64), u, c),
    }
    for bug in planted.values():
        monkeypatch.setitem(globals(), "sensitivity", bug)
        with pytest.raises(AssertionError):
            check_sensitivity((2, 3), Unit(Neighbours.REPLACE, 3), Composition.ZCDP)
    monkeypatch.setitem(globals(), "sensitivity", real)
    check_sensitivity((2, 3), Unit(Neighbours.REPLACE, 3), Composition.ZCDP)


def test_answers_with_one_row_more_stay_within_64_bits() -> None:
    """No answer moves by more than 2^26, so 2^36 rows in one cell cannot wrap round."""
    for shape in ((512, 512), (2,) * 18, (2**17, 2), (64, 64, 64)):
        for composition in Composition:
            chosen = choose_weights(AtOnce(shape, 2), 0.01, NOISY(1e6), Unit(), composition)
            most = over_subsets([max(k - 1, 1) for k in shape])
            assert (chosen.weights * most).max() <= residual.MAX_CHANGE


# --- the charge ---


def check_charge(unit: Unit, composition: Composition) -> None:
    """One entry, made before the numbers are read; the sampler's scale is the entry's; what it cost follows
    from the entry and fits the budget.
    """
    shape = (2, 3, 2)
    order_of_events: list[str] = []

    class Watched(FakeNoise):
        def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
            order_of_events.append(f"noise after {len(door.accountant.entries)}")
            return super().add(values, scale=scale)

    fake = Watched(composition)
    door = session(composition, unit, fake)
    one_shot(replace(door, _rows=sealed(np.full(12, 9), shape)), shape, 2, Total(108.0, 4.0))
    assert order_of_events == ["noise after 1"]
    ((entry,), (call,)) = door.accountant.entries, fake.calls
    amount = float(door.accountant.budget.amount)
    chosen = choose_weights(AtOnce(shape, 2), amount, Total(108.0, 4.0), unit, composition)
    assert entry.scale == call.scale
    assert entry.sensitivity >= greatest_change(shape, chosen.weights, unit, composition)
    recomputed = price(entry.mechanism, scale=entry.scale, sensitivity=entry.sensitivity)
    assert entry.mechanism == (Mechanism.GAUSSIAN if composition is Composition.ZCDP else Mechanism.LAPLACE)
    assert recomputed == door.accountant.spent <= door.accountant.budget.amount
    assert recomputed > door.accountant.budget.amount * 999 / 1000


@pytest.mark.slow
@both
@every_unit
def test_the_ledger_pays_for_what_the_sampler_adds(unit: Unit, composition: Composition) -> None:
    check_charge(unit, composition)


@pytest.mark.slow
@both
@pytest.mark.parametrize("plant", ["sensitivity", "unpaid", "scale", "price"])
def test_planted_discounts_fail(
    plant: str, composition: Composition, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = residuals.scale_for
    half = property(lambda e: price(e.mechanism, scale=e.scale, sensitivity=e.sensitivity) / 2)
    where, name, planted = {
        "sensitivity": (residuals, "sensitivity", lambda shape, weights, unit, composition: 1),
        "unpaid": (Session, "_unseal", lambda self, sealed, entry: sealed.reveal()),
        "scale": (residuals, "scale_for", lambda *a, **k: real(*a, **k) / 1.01),
        "price": (Charge, "cost", half),
    }[plant]
    monkeypatch.setattr(where, name, planted)
    with pytest.raises(BudgetExceeded if plant == "scale" else AssertionError):
        check_charge(Unit(Neighbours.REPLACE, 3), composition)


def test_nothing_is_read_where_the_budget_does_not_pay() -> None:
    door = session(Composition.ZCDP)
    with pytest.raises(BudgetExceeded):
        measure_residuals(
            door, sealed(np.array([3, 4]), (2,)), (2,), 1, np.array([0, 1]), cost=door.accountant.left * 2
        )
    assert not door.accountant.entries
    assert not door.noise.calls  # type: ignore[attr-defined]


def test_the_plan_reads_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables of the same total: the same weights, scale and entry, by public facts alone."""
    seen = []
    for table in (np.array([20, 0, 0, 0, 0, 0]), np.array([3, 3, 4, 3, 3, 4])):
        door = session(Composition.ZCDP)
        _, (measured,), _ = one_shot(replace(door, _rows=sealed(table, (2, 3))), (2, 3), 2, Total(20.0))
        seen.append((measured.weights.tolist(), measured.scale, door.accountant.entries))
    assert seen[0] == seen[1]


# --- what noise makes of the marginals ---


def reconstruct(shape: Sequence[int], measured: Residuals) -> np.ndarray:
    """The table of least norm that explains the noisy answers, from the matrix of all questions."""
    transform = Transform(shape, measured.order, gaussian=measured.scale.composition is Composition.ZCDP)
    per_answer = measured.weights[transform.masks]
    matrix = np.array([transform.forward(row) for row in np.eye(math.prod(shape))]).T * per_answer[:, None]
    return np.linalg.lstsq(matrix[per_answer > 0], measured.noisy.astype(float), rcond=None)[0]


def marginals(table: np.ndarray, shape: Sequence[int], order: int) -> Iterator[np.ndarray]:
    for kept in itertools.combinations(range(len(shape)), order):
        yield table.reshape(shape).sum(axis=tuple(i for i in range(len(shape)) if i not in kept)).ravel()


@both
def test_without_noise_the_marginals_come_back_exactly(composition: Composition) -> None:
    for shape in ((2, 3, 4), (2, 2, 2, 2), (5, 1, 3)):
        order = min(2, sum(k > 1 for k in shape))
        table = np.random.default_rng(0).integers(0, 40, math.prod(shape))
        door = session(composition)
        measured = asked(door, table, shape, order, weights_of(shape, order, total=True))
        for ours, true in zip(
            marginals(reconstruct(shape, measured), shape, order), marginals(table, shape, order), strict=True
        ):
            assert ours == pytest.approx(true, abs=1e-8)


def simulated(
    composition: Composition, shape: Sequence[int], order: int, runs: int
) -> tuple[np.ndarray, float]:
    """(errors: float64[run, cells of all marginals], predicted mean L1 error) under seeded noise."""
    rng = np.random.default_rng(7)
    table = rng.integers(30, 60, math.prod(shape))
    budget = BUDGET[composition]
    chosen = choose_weights(AtOnce(shape, order), float(budget.amount), NOISY(1e9), Unit(), composition)
    true = np.concatenate(list(marginals(table, shape, order)))

    def noisy(values: np.ndarray, scale: float) -> np.ndarray:
        return values + np.rint(
            rng.normal(0, scale, len(values))
            if composition is Composition.ZCDP
            else rng.laplace(0, scale, len(values))
        )

    found = []
    for _ in range(runs):
        door = session(composition, noise=FakeNoise(composition, offset=noisy))
        measured = asked(door, table, shape, order, chosen.weights)
        found.append(np.concatenate(list(marginals(reconstruct(shape, measured), shape, order))) - true)
    return np.array(found), chosen.error * 1e9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "composition"),
    [((2, 3, 4), Composition.ZCDP), ((2, 2, 2, 2), Composition.ZCDP), ((2, 2, 2), Composition.PURE)],
)
def test_marginals_are_unbiased_and_err_as_predicted(shape: Sequence[int], composition: Composition) -> None:
    runs, order = 400, 2
    errors, predicted = simulated(composition, shape, order, runs)
    assert (np.abs(errors.mean(axis=0)) < 5 * errors.std(axis=0) / math.sqrt(runs)).all()
    seen = np.abs(errors).sum(axis=1).mean() / math.comb(len(shape), order)
    assert seen == pytest.approx(
        predicted, rel=0.08
    )  # the sum of several Laplace variables is taken for a Gaussian


@both
@pytest.mark.parametrize("unit", [Unit(), Unit(contributions=3)], ids=str)
def test_the_weights_are_the_best_of_their_kind(unit: Unit, composition: Composition) -> None:
    """Any residual's weight 20 % up or down, at the same cost: the predicted error does not fall (add-remove
    is what the form minimises).
    """
    gaussian = composition is Composition.ZCDP
    shape, order, amount = (2, 2, 3, 4) if gaussian else (2, 2, 2, 2), 2, 1.0
    sizes = np.array(shape)
    spread = over_subsets([1 if k == 2 else k * (k - 1) for k in sizes])
    gain = over_subsets([1 if k == 2 else k for k in sizes])

    def error(weights: np.ndarray) -> float:
        bound = float((weights**2 * spread).sum() if gaussian else weights.sum())
        variance = bound / (2 * amount) if gaussian else 2 * (bound / amount) ** 2
        noise = np.where(weights > 0, variance * spread / np.maximum(gain * weights, 1e-9) ** 2, 0)
        masks = np.arange(len(weights))
        return sum(
            math.sqrt(noise[(masks & w) == masks].sum()) for w in masks[np.bitwise_count(masks) == order]
        )

    best = choose_weights(AtOnce(shape, order), amount, NOISY(1e9), unit, composition).weights.astype(float)
    for mask in np.flatnonzero(best):
        for factor in (0.8, 1.2):
            other = best.copy()
            other[mask] *= factor
            assert error(other) > error(best) * (1 - 1e-4)


# --- the fit ---


@both
@pytest.mark.parametrize("shape", [(2, 3), (2, 2, 2), (3, 4)], ids=str)
def test_the_fit_reaches_the_optimum(
    shape: Sequence[int], composition: Composition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loss against scipy's, from answers so noisy that some cells want to be negative."""
    monkeypatch.setattr(residual, "MAX_STEPS", 3000)
    rng, cells = np.random.default_rng(4), math.prod(shape)
    table, order = rng.integers(0, 9, cells), 2
    noise = FakeNoise(
        composition, offset=lambda values, scale: values + np.rint(rng.normal(0, scale, len(values)))
    )
    door = session(composition, noise=noise)
    measured = asked(door, table, shape, order, weights_of(shape, order, total=False))
    total = float(table.sum())
    transform = Transform(shape, order, gaussian=composition is Composition.ZCDP)
    used = measured.weights[transform.masks] > 0
    scaled = measured.weights[transform.masks][used] / measured.stddev

    def loss(shares: np.ndarray) -> float:
        gap = scaled * transform.forward(shares)[used] * total - measured.noisy / measured.stddev
        return float(gap @ gap / 2 + CHARGE * (shares @ np.log(np.maximum(shares, 1e-60)) + math.log(cells)))

    def of_logs(logs: np.ndarray) -> float:
        shares = np.exp(logs - logs.max())
        return loss(shares / shares.sum())

    found = fit(AtOnce(shape, measured.order), measured, total, charge=CHARGE)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    reference = min(
        minimize(of_logs, np.log(found + 1e-9) + rng.normal(0, s, cells), options={"maxiter": 2000}).fun
        for s in (0.0, 0.5)
    )
    assert loss(found) <= reference + 1e-3 * max(abs(reference), 1.0)
    assert loss(np.full(cells, 1 / cells)) > loss(found)


def test_a_fit_of_exact_answers_has_the_marginals_of_the_table() -> None:
    table = np.random.default_rng(9).integers(0, 5000, 36)
    door = session(Composition.ZCDP)
    measured = asked(door, table, (3, 3, 4), 2, weights_of((3, 3, 4), 2, total=True))
    found = fit(AtOnce((3, 3, 4), measured.order), measured, float(table.sum()), charge=1.0) * table.sum()
    for ours, true in zip(marginals(found, (3, 3, 4), 2), marginals(table, (3, 3, 4), 2), strict=True):
        assert np.abs(ours - true).sum() < 0.02 * table.sum()


def test_the_total_is_measured_again_only_where_it_is_private() -> None:
    for error, expected in ((0.0, 40.0), (1e6, 50.0)):
        door = session(Composition.ZCDP)
        weights, measured, total = one_shot(
            replace(door, _rows=sealed(np.array([20, 30]), (2,))), (2,), 1, Total(40.0, error)
        )
        assert total == pytest.approx(expected, rel=1e-3)
        assert (measured[0].weights[0] > 0) == (error > 0)
        assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (2, 1)])
def test_attributes_of_one_code(shape: Sequence[int]) -> None:
    door = session(Composition.ZCDP)
    weights, _, total = one_shot(
        replace(door, _rows=sealed(np.full(math.prod(shape), 8), shape)),
        shape,
        1,
        Total(8.0 * math.prod(shape)),
    )
    assert weights == pytest.approx(np.full(math.prod(shape), 1 / math.prod(shape)), abs=1e-3)
    assert total == 8.0 * math.prod(shape)


def test_real_noise_end_to_end() -> None:
    """OpenDP's noise on a table with one strong pair: the pair survives."""
    table = np.array([900, 100, 100, 900])
    for composition in Composition:
        door = session(composition, noise=OpenDPNoise(composition))
        weights, _, _ = one_shot(replace(door, _rows=sealed(table, (2, 2))), (2, 2), 2, Total(2000.0))
        assert weights == pytest.approx(table / 2000, abs=0.1)


def test_the_choice_follows_from_public_facts() -> None:
    budget, unit = BUDGET[Composition.ZCDP], Unit()
    assert worth_one_shot(AtOnce((2,) * 16, 3), budget, unit, 20_000, 2**20)
    assert not worth_one_shot(AtOnce((2,) * 16, 3), budget, unit, 20_000, 2**15)
    assert not worth_one_shot(AtOnce((2,) * 19, 3), budget, unit, 20_000, 2**20)
    assert worth_one_shot(AtOnce((9, 7, 6, 5, 2, 2), 3), budget, unit, 48_842, 2**20)
    assert not worth_one_shot(
        AtOnce((8, 8, 8, 2), 3), budget, unit, 748, 2**20
    )  # half of the pairs would drown
    assert not worth_one_shot(AtOnce((16, 15, 6, 5, 2), 3), Budget.of(0.1, 1e-9), unit, 48_842, 2**20)
    assert worth_one_shot(AtOnce((2, 1, 2), 1), budget, unit, 1.0, 2**20)


def test_loud_residuals_are_left_out() -> None:
    """Triples only where their noise is small; all of one kind together; single attributes always."""
    for epsilon, orders in ((0.1, [1, 16, 120]), (1.0, [1, 16, 120, 560])):
        amount = float(Budget.of(epsilon, 1e-9).amount)
        weights = choose_weights(
            AtOnce((2,) * 16, 3), amount, NOISY(21_574), Unit(), Composition.ZCDP
        ).weights
        assert np.bincount(np.bitwise_count(np.flatnonzero(weights))).tolist() == orders
    weights = choose_weights(AtOnce((100, 100), 2), 1e-4, Total(50), Unit(), Composition.ZCDP).weights
    assert (weights > 0).tolist() == [False, True, True, False]
