"""Query kinds against their definitions: answers, steps and sensitivities by brute force over tiny tables,
and the exact audit of a whole round.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from support.fakes import FakeNoise
from support.goodness import gaussian, laplace, log_ratio, renyi
from support.marks import others_slow
from support.releases import BUDGET, CHOICE_PMF, both
from support.rows import private_answers
from support.tables import CELLS, UNITS, Table, every_unit, histogram, neighbours

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.model.dense import Factor, ProductModel, step
from factored_mwem.privacy.rows import SCORE_CUTOFF, SCORE_GRID, Rows
from factored_mwem.privacy.session import Eligible, Session, weighted
from factored_mwem.workload.queries.base import Questions
from factored_mwem.workload.queries.cuboids import Cuboids
from factored_mwem.workload.queries.parities import Parities
from factored_mwem.workload.queries.ranges import Ranges

SHAPE = (2, 3)
BOXES = [
    (a, b, c, d)
    for a, b in itertools.combinations_with_replacement(range(2), 2)
    for c, d in itertools.combinations_with_replacement(range(3), 2)
]
FEW = [0, 1, 5, 8, 11, 17]
LOW, HIGH = (np.array([[box[i], box[i + 2]] for box in BOXES]) for i in (0, 1))
KINDS: dict[str, Questions] = {
    "ranges": Ranges((0, 1), SHAPE, LOW, HIGH),
    "few ranges": Ranges((0, 1), SHAPE, LOW[FEW], HIGH[FEW]),
    "cuboids": Cuboids(((0,), (1,), (0, 1)), SHAPE),
    "parities": Parities.up_to([0], 1),
}
every_kind = pytest.mark.parametrize("name", list(KINDS))


def matrix(name: str) -> np.ndarray:
    """int[answer, 6]: the weight of each cell of the 2 x 3 domain in each answer, by definition."""
    cells = list(itertools.product(range(2), range(3)))
    if "ranges" in name:
        boxes = [BOXES[i] for i in FEW] if "few" in name else BOXES
        return np.array([[a <= x <= b and c <= y <= d for x, y in cells] for a, b, c, d in boxes]).astype(int)
    if name == "parities":
        return np.array([[1 - 2 * x for x, _ in cells]])
    rows = [[x == a for x, _ in cells] for a in range(2)] + [[y == b for _, y in cells] for b in range(3)]
    return np.array(rows + [[cell == own for own in cells] for cell in cells]).astype(int)


def codes_of(table: Table, shape: tuple[int, ...] = SHAPE) -> list[np.ndarray]:
    return [c.astype(np.uint8) for c in np.unravel_index(np.array(table, dtype=np.int64), shape)]


def rows_of(table: Table) -> Rows:
    return Rows.coded(codes_of(table), SHAPE)


# ---- answers and steps


@every_kind
def test_answers_on_rows_are_the_matrix_times_the_histogram(name: str) -> None:
    for table in [(0,), (0, 5), (1, 1, 2), (0, 1, 2, 3, 4, 5), (3,) * 70 + (1,) * 65]:
        found = KINDS[name].answers(rows_of(table))
        assert found.dtype == np.int64 and found.tolist() == (matrix(name) @ histogram(table)).tolist()


def test_parities_are_the_hadamard_matrix() -> None:
    """All 15 parities of four bits, of 1,000 rows and of models whose components cut through them."""
    rng, shape, cells = np.random.default_rng(1), (2, 2, 2, 2), list(itertools.product(range(2), repeat=4))
    kind = Parities.up_to(range(4), 4)
    sets = [kind.positions(q) for q in range(len(kind.cells))]
    hadamard = np.array([[(-1) ** sum(cell[p] for p in s) for cell in cells] for s in sets])
    assert sorted(sets) == sorted(s for k in range(1, 5) for s in itertools.combinations(range(4), k))
    table = tuple(rng.choice(16, size=1000, p=rng.dirichlet(np.ones(16))).tolist())
    rows = Rows.coded(codes_of(table, shape), shape)
    assert kind.answers(rows).tolist() == (hadamard @ np.bincount(table, minlength=16)).tolist()
    domain = Domain.from_dict(dict.fromkeys("abcd", 2))
    for blocks in ([(0,), (1,), (2,), (3,)], [(0, 2), (1, 3)], [(0, 1, 2, 3)], [(1, 2, 3), (0,)]):
        model = ProductModel(
            domain, [Factor(b, (2,) * len(b), rng.dirichlet(np.ones(2 ** len(b)))) for b in blocks], 37.5
        )
        dense = model.merge((0, 1, 2, 3)).weights
        assert np.allclose(kind.answers(model), 37.5 * hadamard @ dense, atol=1e-11)


def test_parities_of_a_model_with_other_attributes_leave_those_out() -> None:
    rng, domain = np.random.default_rng(2), Domain.from_dict({"a": 2, "x": 3, "b": 2})
    joined = Factor((0, 1, 2), (2, 3, 2), rng.dirichlet(np.ones(12)))
    found = Parities.up_to([0, 2], 2).answers(ProductModel(domain, [joined], 10.0))
    table = joined.weights.reshape(2, 3, 2).sum(axis=1)
    sign = np.array([1, -1])
    assert np.allclose(
        found, [10 * sign @ table.sum(axis=1), 10 * table.sum(axis=0) @ sign, 10 * sign @ table @ sign]
    )


@every_kind
@pytest.mark.parametrize("seed", range(5))
def test_a_step_is_the_papers_on_the_dense_table(name: str, seed: int) -> None:
    """Weights times exp(q(x) (m - q(A)) / (2 n)) for each answer, m clipped, normalised (HLM12 Fig. 1)."""
    rng = np.random.default_rng(seed)
    kind, rows, n = KINDS[name], matrix(name), 50.0
    for question in range(len(kind.cells)):
        part = Factor((0, 1), SHAPE, rng.dirichlet(np.ones(CELLS)))
        before = part.weights.copy()
        at = int(kind.cells[:question].sum())
        mine = rows[at : at + int(kind.cells[question])]
        noisy = np.rint(n * mine @ rng.dirichlet(np.ones(CELLS)) + rng.normal(0, 30, len(mine)))
        bounded = np.clip(noisy, -n if name == "parities" else 0, n)
        expected = before * np.exp(mine.T @ (bounded - n * mine @ before) / (2 * n))
        step(part, kind, question, noisy, n, guard=0.0)
        assert np.allclose(part.weights / part.weights.sum(), expected / expected.sum(), atol=1e-9)


@every_kind
def test_a_step_within_the_guard_changes_nothing(name: str) -> None:
    kind, part = KINDS[name], Factor.uniform((0, 1), SHAPE)
    truth = matrix(name) @ np.full(CELLS, 60 / CELLS)
    for question in range(len(kind.cells)):
        at = int(kind.cells[:question].sum())
        step(part, kind, question, truth[at : at + int(kind.cells[question])] + 2, 60.0, guard=2.5)
    assert np.array_equal(part.weights, np.full(CELLS, 1 / CELLS))


# ---- sensitivity


def check_sensitivity(name: str, unit: Unit) -> None:
    """The greatest change over all neighbours of at most 3 rows, in both norms, is what the kind says."""
    kind = KINDS[name]
    starts = np.cumsum(kind.cells) - kind.cells
    pairs = neighbours(unit.neighbours, unit.contributions)
    answers = {t: matrix(name) @ histogram(t) for t in {t for pair in pairs for t in pair}}
    change = np.array([answers[a] - answers[b] for a, b in pairs])
    assert np.add.reduceat(np.abs(change), starts, axis=1).max() == kind.l1(unit)
    assert np.add.reduceat(change**2, starts, axis=1).max() == kind.l2_squared(unit)


@every_unit
@every_kind
def test_sensitivity_is_the_greatest_change(name: str, unit: Unit) -> None:
    check_sensitivity(name, unit)


@pytest.mark.slow
@every_unit
def test_parities_of_two_bits_move_no_more_than_those_of_one(unit: Unit) -> None:
    kind = Parities.up_to([0, 1], 2)
    moved = 0
    for a, b in neighbours(unit.neighbours, unit.contributions):
        if a and b and max(a + b) < 4:  # the tables over 2 x 2 cells among them
            one, other = (kind.answers(Rows.coded(codes_of(t, (2, 2)), (2, 2))) for t in (a, b))
            moved = max(moved, int(np.abs(one - other).max()))
    assert moved == kind.l1(unit)


def test_the_sensitivity_check_sees_one_that_is_too_small_or_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: parities of 1 under replace, ranges of 2, cuboids of sqrt(k)."""
    replace = Unit(Neighbours.REPLACE, 1)
    for name, field, planted, unit in (
        ("parities", "of_parity", 1, replace),
        ("ranges", "of_counting_query", 2, replace),
        ("cuboids", "l2_squared_of_marginal", 2, Unit(Neighbours.ADD_REMOVE, 2)),
    ):
        check_sensitivity(name, unit)
        with monkeypatch.context() as patch:
            patch.setattr(Unit, field, property(lambda _, planted=planted: planted))
            with pytest.raises(AssertionError):
                check_sensitivity(name, unit)


# ---- the exact audit of a whole round (selection and measurement together)


def a_round(
    tables: Sequence[Table], kinds: Sequence[Questions], unit: Unit, composition: Composition
) -> tuple[np.ndarray, float, list[float], float]:
    """(scores of all questions: int64[table, question], selection scale, measurement scale of each question,
    cost), as they reach the sampler; every question is measured on every fifth table.
    """
    domain = Domain.from_dict({"a": 2, "b": 3})
    model = ProductModel(
        domain,
        [Factor((0,), (2,), np.array([0.55, 0.45])), Factor((1,), (3,), np.array([0.2, 0.3, 0.5]))],
        2.7,
    )
    answers = np.concatenate([kind.answers(model) for kind in kinds])
    count = sum(len(kind.cells) for kind in kinds)
    offered, weights = np.arange(count), np.linspace(1.0, 0.3, count)
    seen, selecting, scales, costs = [], set(), set(), set()
    for at, table in enumerate(tables):
        private, fake = private_answers(codes_of(table), domain, kinds), FakeNoise(composition)
        ledger = Accountant(BUDGET[composition])
        session, half = Session(ledger, unit, fake), ledger.budget.amount / 2
        session.select(private, answers, Eligible(offered, np.full(count, 0.3), weights), cost=half)
        seen.append(fake.calls[0].values)
        selecting.add(fake.calls[0].scale)
        if at % 5:
            continue
        first = ledger.spent
        measuring, spent = [], set()
        for question in range(count):
            before = ledger.spent
            ledger.spent = first  # each question as the one that was chosen
            session.measure(private, question, cost=half)
            measuring.append(fake.calls[-1].scale)
            spent.add(ledger.spent)
            ledger.spent = max(before, ledger.spent)
        assert [fake.calls[0].scale, *measuring] == [e.scale for e in ledger.entries]
        scales.add(tuple(measuring))
        costs.add(float(max(spent)))
    (selecting_scale,), (measuring_scales,), (cost,) = selecting, scales, costs
    return np.array(seen), selecting_scale, list(measuring_scales), cost


def check_round(names: Sequence[str], unit: Unit, composition: Composition) -> float:
    """The worst loss of (choice, noisy answers) over all neighbours, as a share of what was charged;
    AssertionError where it is more than 1.
    """
    kinds, rows = [KINDS[name] for name in names], np.concatenate([matrix(name) for name in names])
    pairs = neighbours(unit.neighbours, unit.contributions)
    tables = sorted({t for pair in pairs for t in pair} - {()})
    place = {t: i for i, t in enumerate(tables)}
    scores, selecting, scales, cost = a_round(tables, kinds, unit, composition)
    chance = np.array([CHOICE_PMF[composition](selecting, s) for s in scores])
    truth = np.array([rows @ histogram(t) for t in tables])
    of = np.repeat(np.arange(len(scales)), np.concatenate([kind.cells for kind in kinds]))
    one, other = np.array([(place[a], place[b]) for a, b in pairs if a and b]).T
    moved, which = np.unique(np.abs(truth[one] - truth[other]), axis=0, return_inverse=True)

    def of_answers(loss: Callable[[float, float], float]) -> np.ndarray:
        """float64[pair, question]: the loss by the noisy answers, from that of a scale and a shift."""
        each = [[loss(scales[q], shift) for q, shift in zip(of, m, strict=True)] for m in moved.tolist()]
        return np.array([np.bincount(of, losses) for losses in each])[which.ravel()]

    if composition is Composition.PURE:
        whole = np.log(chance[one] / chance[other]) + of_answers(partial(log_ratio, laplace))
        worst = float(whole.max()) / cost
    else:
        worst = 0.0
        for alpha in (1.5, 2.0, 8.0):
            inside = of_answers(lambda scale, shift, alpha=alpha: renyi(gaussian, scale, shift, alpha))
            ratios = chance[one] ** alpha * chance[other] ** (1 - alpha) * np.exp((alpha - 1) * inside)
            worst = max(worst, float(np.log(ratios.sum(axis=1).max())) / (alpha - 1) / (alpha * cost))
    assert worst <= 1 + 1e-6, worst
    return worst


@both
@every_unit
@pytest.mark.parametrize(
    "names",
    others_slow(
        [["few ranges"], ["cuboids"], ["parities"], ["parities", "few ranges"], ["few ranges", "cuboids"]],
        lambda names: names in (["cuboids"], ["parities", "few ranges"]),
    ),
    ids="+".join,
)
def test_a_round_keeps_what_it_is_charged(names: list[str], unit: Unit, composition: Composition) -> None:
    """Charged from the ledger's own entries; the bound is neared, so that the audit has something to say: by
    half where one kind is asked, less where kinds of other sensitivities share the noise of the selection.
    """
    assert check_round(names, unit, composition) > (0.4 if len(names) == 1 else 0.2)


@pytest.mark.slow
@both
def test_the_audit_sees_sensitivity_one_of_parities_under_replace(
    composition: Composition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unit, "of_parity", property(lambda _: 1))
    with pytest.raises(AssertionError):
        check_round(["parities", "few ranges"], Unit(Neighbours.REPLACE), composition)
    check_round(["parities", "few ranges"], Unit(), composition)  # under add-remove 1 is right


def test_the_audit_sees_the_smallest_sensitivity_taken_for_all_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of several kinds compete: the largest counts. Planted: half of it for a cuboid."""
    monkeypatch.setattr(Cuboids, "l1", lambda self, unit: 1)
    with pytest.raises(AssertionError):
        check_round(["parities", "cuboids"], Unit(Neighbours.REPLACE, 2), Composition.PURE)


def test_the_audit_sees_an_uncharged_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    charge = Accountant.charge
    monkeypatch.setattr(
        Accountant,
        "charge",
        lambda self, e: self.entries.append(e) if e.stage == "select" else charge(self, e),
    )
    with pytest.raises(AssertionError):
        check_round(["cuboids"], Unit(Neighbours.REPLACE), Composition.PURE)


def loss_of_the_paper(queries: np.ndarray, *, sensitivity: int, epsilon: float = 1.0) -> float:
    """The worst loss of one round as the paper idealises it, from (3, 1) to (2, 2) or back, the model
    uniform: the exponential mechanism with half of epsilon, then Laplace noise with the other half.
    """
    before, after, model = np.array([3, 1]), np.array([2, 2]), np.array([2, 2])
    chance = []
    for table in (before, after):
        weights = np.exp(epsilon / 2 * np.abs(queries @ (table - model)) / (2 * sensitivity))
        chance.append(weights / weights.sum())
    measured = np.abs(queries @ (before - after)) * (epsilon / 2) / sensitivity
    return float((np.abs(np.log(chance[0] / chance[1])) + measured).max())


def test_the_published_audit_of_parities_under_replace() -> None:
    """With sensitivity 1 a round charged 1 loses 1.1172, counting queries .5; with ours neither is over."""
    parity, counting = np.array([[1, -1], [1, 0]]), np.array([[1, 0], [0, 1]])
    assert loss_of_the_paper(parity, sensitivity=1) == pytest.approx(1.1172, abs=1e-4)
    assert loss_of_the_paper(counting, sensitivity=1) == pytest.approx(0.5, abs=1e-9)
    replace = Unit(Neighbours.REPLACE)
    ours = max(KINDS[name].l1(replace) for name in ("parities", "ranges"))
    assert loss_of_the_paper(parity, sensitivity=ours) <= 1 < loss_of_the_paper(parity, sensitivity=ours - 1)
    assert loss_of_the_paper(counting, sensitivity=KINDS["ranges"].l1(replace)) <= 1


# ---- the two functions that read


@both
@every_unit
def test_the_scale_of_a_question_is_known_beforehand(unit: Unit, composition: Composition) -> None:
    kinds = list(KINDS.values())
    private = private_answers(codes_of((0, 1, 5)), Domain.from_dict({"a": 2, "b": 3}), kinds)
    ledger = Accountant(BUDGET[composition])
    session, cost = Session(ledger, unit, FakeNoise(composition)), ledger.budget.amount / 10
    at = 0
    for kind in kinds:
        spent, predicted = ledger.spent, session.noise_of(private, at, cost)
        assert ledger.spent == spent
        measured = session.measure(private, at, cost=cost)
        assert measured.scale == predicted and len(measured.noisy) == kind.cells[0]
        at += len(kind.cells)


@pytest.mark.parametrize("total", [2.0**43 + 0.5, 1e15, 1e300, math.inf, math.nan])
def test_huge_answers_and_penalties_do_not_overflow_a_score(total: float) -> None:
    """At tiny epsilon the model's number of rows may be anything: a score over 64 cells must not wrap round,
    or one row moves it by 2^64.
    """
    domain = Domain.from_dict({"a": 8, "b": 8})
    kind = Cuboids(((0,), (1,), (0, 1)), (8, 8))
    answers = np.concatenate([np.full(8, total / 8), np.full(8, total / 8), np.full(64, total / 64)])
    for penalty in (np.zeros(3), np.full(3, 1e30)):
        found = []
        for table in ((0,), (0, 9), (0, 9, 63)):
            fake, ledger = FakeNoise(), Accountant(BUDGET[Composition.ZCDP])
            private = private_answers(codes_of(table, (8, 8)), domain, [kind])
            session = Session(ledger, Unit(), fake)
            session.select(
                private, answers, Eligible(np.arange(3), penalty, np.ones(3)), cost=ledger.left / 2
            )
            found.append(fake.calls[0].values.astype(object))
        assert np.abs(np.diff(np.array(found), axis=0)).max() <= SCORE_GRID
        if math.isfinite(total) and not penalty.any():
            assert (
                min(found[0]) > SCORE_CUTOFF / 2 * SCORE_GRID
            )  # and it still says that the model is far off


# ---- weights


def check_weighting(weigh: object) -> None:
    """From one whole score to the next the result rises by 0 or 1, for each of the 256 weights there are: so
    scores d apart end at most d apart, and their order holds. Two periods of 256 around 0 show it for all
    scores; far out it is compared with exact fractions.
    """
    assert callable(weigh)
    near = np.arange(-512, 513)
    for part in range(1, 257):
        found = weigh(near, np.full(len(near), part / 256))
        assert set(np.diff(found).tolist()) <= {0, 1}
        assert found.tolist() == [x * part // 256 if x >= 0 else x for x in near.tolist()]
    rng = np.random.default_rng(1)
    far = rng.integers(-(2**62), 2**62, 2000)
    for weight in (1e-300, 1 / 256, 0.3, 0.5, 0.999, 1.0):
        part = max(1, math.floor(weight * 256))
        assert weigh(far, np.full(len(far), weight)).tolist() == [
            x * part // 256 if x >= 0 else x for x in far.tolist()
        ]


def test_weighting_moves_no_score_by_more_than_before() -> None:
    """Planted: floats, which round towards 0, and to 53 bits; weights above one."""
    check_weighting(weighted)
    for wrong in (
        lambda scores, weights: (scores * weights).astype(np.int64),
        lambda scores, weights: weighted(scores, weights) * 2,
    ):
        with pytest.raises(AssertionError):
            check_weighting(wrong)


@pytest.mark.parametrize("seed", range(20))
def test_weighted_vectors_stay_as_near_as_they_were(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, size = int(rng.integers(0, 2**24)), int(rng.integers(1, 50))
    one = rng.integers(-(2 ** int(rng.integers(10, 61))), 2 ** int(rng.integers(10, 61)), size)
    other = one + rng.integers(-d, d + 1, size)
    weights = 1 - rng.random(size)
    assert np.abs(weighted(one, weights) - weighted(other, weights)).max() <= d
    equal = np.full(size, weights[0])
    order = np.argsort(one, kind="stable")
    assert (np.diff(weighted(one, equal)[order]) >= 0).all()


def test_units_are_those_of_the_audit() -> None:
    """Both relations, one and two rows a person: nothing above is skipped."""
    assert {(u.neighbours, u.contributions) for u in UNITS} == set(itertools.product(Neighbours, (1, 2)))
