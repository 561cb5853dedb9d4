"""The models under the replay: factored ones against the dense one and against explicit sums, incremental
scores against those of all questions, and adaptive rounds inside their budget.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay import ablation, adult27, data, figure5, figure6, figure7, paper
from replay.loglinear import cuboid_mwem
from replay.paper import Paper, Task, paper_mwem, run_rounds, update

from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.domain import Domain
from factored_mwem.kernels.linear import product_answer, product_step
from factored_mwem.mechanisms.queries import Queries
from factored_mwem.model.dense import AnsweredQuestion, Factor, ProductModel
from factored_mwem.privacy.answers import TrueAnswers
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Measurement, NoiseScale
from factored_mwem.workload.queries.cuboids import Cuboids
from factored_mwem.workload.queries.parities import Parities, parities_of
from factored_mwem.workload.queries.ranges import Ranges

SHAPE = (2, 3, 2, 4, 2)
"""Attributes 0, 2 and 4 are binary, 1 and 3 ordered."""
EVERY = tuple(range(len(SHAPE)))
KINDS = [
    Parities.up_to((0, 2, 4), 3),
    Ranges.random((1, 3), (3, 4), 6, seed=1),
    Ranges.random((3,), (4,), 4, seed=2),
    Cuboids(((1,), (0, 1), (2, 3), (4,), (1, 2, 4)), SHAPE),
]
"""Over one attribute, over several, and across."""
MIXED = [(kind, q) for kind in KINDS for q in range(len(kind.cells))]
needs_adult = pytest.mark.skipif(data.look_for("adult") is None, reason=data.ADULT)


def domain_of(shape: tuple[int, ...]) -> Domain:
    return Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)})


def rows_of(shape: tuple[int, ...], n: int, seed: int) -> data.Exact:
    rng = np.random.default_rng(seed)
    return data.Exact([rng.integers(0, size, n).astype(np.uint8) for size in shape], shape)


def random_model(blocks: list[tuple[int, ...]], total: float, seed: int) -> ProductModel:
    rng = np.random.default_rng(seed)
    shapes = [tuple(SHAPE[p] for p in block) for block in blocks]
    tables = [rng.dirichlet(np.ones(math.prod(shape))) for shape in shapes]
    return ProductModel(domain_of(SHAPE), map(Factor, blocks, shapes, tables), total)


def answered(question: tuple[Any, int], noisy: Any) -> AnsweredQuestion:
    """As if it was measured so, with noise of scale 1."""
    kind, q = question
    return kind, q, Measurement(kind.positions(q), np.array(noisy), NoiseScale(1.0, Composition.PURE))


def both_models() -> list[ProductModel]:
    """One that grows, and one that is joined from the start."""
    return [ProductModel.uniform(domain_of(SHAPE), 100.0, joined=joined) for joined in (False, True)]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, len(MIXED) - 1), st.integers(0, 2**31)), min_size=1, max_size=12),
    st.permutations(range(12)),
)
def test_a_growing_model_equals_the_dense_one(history: list[tuple[int, int]], order: list[int]) -> None:
    """Any history of any kinds, its components merged as it demands; then the same measurements once more in
    another order.
    """
    cells = [int(kind.cells[q]) for kind, q in MIXED]
    draws = {i: np.random.default_rng(seed) for i, seed in history}
    measured = [answered(MIXED[i], draws[i].normal(100 / cells[i], 33.0, cells[i])) for i, _ in history]
    growing, dense = both_models()
    for one in measured + [measured[i] for i in order if i < len(measured)]:
        for model in (growing, dense):
            update(model, [one], Paper(1.0, 1))
    np.testing.assert_allclose(growing.marginal(EVERY), dense.marginal(EVERY), rtol=1e-10, atol=1e-10)
    for kind in KINDS:
        np.testing.assert_allclose(kind.answers(growing), kind.answers(dense), rtol=1e-10, atol=1e-10)
    parts = {frozenset([p]) for p in EVERY}
    for one in (frozenset(m.positions) for _, _, m in measured):
        parts = {p for p in parts if not p & one} | {frozenset().union(*(p for p in parts if p & one))}
    assert {frozenset(part.positions) for part in growing.components} == parts


def test_replay_over_a_component_equals_replay_over_all() -> None:
    """Several sweeps over the measurements of one component; those of another one, though they are given,
    take no part.
    """
    growing, dense = both_models()
    far = answered(MIXED[17], [70.0, 20.0, 10.0])  # the cuboid of attribute 1
    bits = [answered(MIXED[i], [noisy]) for i, noisy in ((6, 20.0), (3, -30.0), (6, 25.0))]
    for model in (growing, dense):
        update(model, [far], Paper(1.0, 1))
        for i in range(len(bits)):
            update(model, [far] * (model is growing) + bits[: i + 1], Paper(1.0, 1, sweeps=7))
    assert sorted(len(part.positions) for part in growing.components) == [1, 1, 3]
    np.testing.assert_allclose(growing.marginal(EVERY), dense.marginal(EVERY), rtol=1e-10)


def test_an_update_elsewhere_leaves_components_as_they_are() -> None:
    model = random_model([(0, 1), (2, 4), (3,)], 100.0, 3)
    before = {part.positions: (part, part.weights.tobytes()) for part in model.components}
    update(model, [answered((Parities.up_to((0, 2), 1), 1), [40.0])], Paper(1.0, 1, sweeps=3))
    after = {part.positions: part for part in model.components}
    assert after[2, 4].weights.tobytes() != before[2, 4][1]
    for positions in ((0, 1), (3,)):
        assert after[positions] is before[positions][0]
        assert after[positions].weights.tobytes() == before[positions][1]


@pytest.mark.parametrize("attributes", [(3,), (1, 3), (0, 1, 3)])
@pytest.mark.parametrize("kind", ["random", "every", "prefixes"])
def test_ranges_of_models_in_pieces_are_sums_of_cells(attributes: tuple[int, ...], kind: str) -> None:
    sizes = tuple(SHAPE[p] for p in attributes)
    make = partial(Ranges.random, count=20, seed=1) if kind == "random" else getattr(Ranges, kind)
    questions, model = make(attributes, sizes), random_model([(0, 3), (1, 2), (4,)], 200.0, 9)
    table = model.marginal(EVERY).reshape(SHAPE)
    boxes = [
        dict(zip(attributes, map(slice, low, high + 1), strict=True))
        for low, high in zip(questions.low, questions.high, strict=True)
    ]
    sums = [table[tuple(box.get(p, slice(None)) for p in EVERY)].sum() for box in boxes]
    np.testing.assert_allclose(questions.answers(model), sums, atol=1e-10)
    if kind != "random":
        pairs = [size * (size + 1) // 2 for size in sizes]
        assert (
            len(boxes) == len({str(box) for box in boxes}) == math.prod(pairs if kind == "every" else sizes)
        )


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 128, 1001])
def test_parities_of_packed_rows_are_plain_sums(rows: int) -> None:
    """Also queries in no order, of no attribute, and padded."""
    rng = np.random.default_rng(rows)
    columns = list((rng.random((9, rows)) < 0.3).astype(np.uint8))
    sets = [sorted(rng.choice(9, rng.integers(0, 5), replace=False).tolist()) for _ in range(60)]
    members = np.array([own + [-1] * (4 - len(own)) for own in sets], dtype=np.int32)
    expected = [int((1 - 2 * (np.array(columns)[own].sum(axis=0) % 2) * np.ones(rows)).sum()) for own in sets]
    assert parities_of(columns, members).tolist() == expected


# ---- the update


def potential_drop(
    truth: np.ndarray, model: np.ndarray, signs: np.ndarray, measured: float, times: float
) -> Any:
    """(the fall of the relative entropy, what Lemma A.3 promises) for a step of so many times the paper's
    towards `measured`, unclipped; of shares.
    """
    weights, one = model.copy(), np.ones(1, dtype=np.int8)
    answer, exact = product_answer(weights, one, signs), float(signs @ truth)
    before = float((truth * np.log(truth / weights)).sum())
    product_step(weights, one, signs, times * (measured - answer) / 2)
    fell = before - float((truth * np.log(truth / weights)).sum())
    return fell, ((answer - exact) / 2) ** 2 - ((measured - exact) / 2) ** 2


@settings(deadline=None, max_examples=300, derandomize=True)
@given(st.integers(2, 12), st.integers(0, 2**32 - 1), st.floats(-1, 1))
def test_the_potential_drops_as_the_lemma_says(cells: int, seed: int, measured: float) -> None:
    rng = np.random.default_rng(seed)
    truth, model = (rng.dirichlet(np.ones(cells)) + 1e-6 for _ in range(2))
    signs = rng.choice(np.array([-1, 0, 1], dtype=np.int8), cells)
    fell, promised = potential_drop(truth / truth.sum(), model / model.sum(), signs, measured, 1)
    assert fell >= promised - 1e-9


def test_twice_the_step_breaks_the_promise() -> None:
    """The planted twin: Hoeffding's lemma leaves a factor of two to spare for any measurement, so twice the
    step is where the promise ends.
    """
    even, skewed = np.array([0.5, 0.5]), np.array([0.6, 0.4])
    fell, promised = potential_drop(even, skewed, np.array([1, -1], dtype=np.int8), -0.6, 2)
    assert fell < promised


# ---- figures 5, 6 and 7


@needs_adult
def test_adult_has_the_bits_of_the_authors_file() -> None:
    bits = adult27.bits()
    assert bits.shape == (27, 30163) and bits.sum(axis=1).tolist() == list(adult27.ONES)
    patterns, times = np.unique(bits, axis=1, return_counts=True)
    assert (patterns.shape[1], times.max()) == (7722, 803) and not bits[:, -1].any()
    domain, rows = adult27.codes()
    assert (domain.cells, len(rows.codes[0])) == (27_000_960, 30_162)
    assert (domain.names, domain.shape) == (tuple(adult27.BITS), (41, 2, 5, 6, 14, 7, 16, 7))


@needs_adult
def test_the_product_baseline_on_adult_by_another_way() -> None:
    """Each cuboid's mean |cell error| from its own counts and its own product, none added up from another;
    without noise the average is the known 32.5 within a record or so.
    """
    domain, rows = adult27.codes()
    n, everything = len(rows.codes[0]), range(len(domain))
    shares = [rows.marginal([p]) / n for p in everything]
    gaps = figure5.product_of([share * n for share in shares], n) - rows.marginal(everything)
    errors = figure5.cuboid_errors(gaps, domain.shape)
    wanted = []
    for kept in (
        s for k in range(6) for s in itertools.combinations(everything, k)
    ):  # others: too many cells
        cells = np.full(1, float(n))
        for p in kept:
            cells = np.outer(cells, shares[p]).ravel()
        wanted.append(np.abs(cells - rows.marginal(kept)).mean())
    assert len(errors) == 256 and errors.max() == pytest.approx(max(wanted))
    assert max(np.abs(errors - w).min() for w in wanted) < 1e-6
    assert errors.mean() == pytest.approx(32.5, abs=1.5)


def test_errors_of_all_cuboids_add_up() -> None:
    gaps = np.random.default_rng(13).normal(size=math.prod(SHAPE))
    sets = [s for k in range(6) for s in itertools.combinations(EVERY, k)]
    table = gaps.reshape(SHAPE)
    expected = [np.abs(table.sum(axis=tuple(p for p in EVERY if p not in s))).mean() for s in sets]
    np.testing.assert_allclose(np.sort(figure5.cuboid_errors(gaps, SHAPE)), np.sort(expected))


@pytest.mark.parametrize("noise_penalty", [False, True])
def test_the_product_of_measured_tables_is_the_dense_model(noise_penalty: bool) -> None:
    """The same choices from the same noise, and the same distribution, as the table of all cells has."""
    rng, shape = np.random.default_rng(0), (3, 4, 2, 5)
    columns = [rng.choice(size, size=500, p=rng.dirichlet(np.ones(size))) for size in shape]
    columns[1] = (columns[0] + columns[3] * (rng.random(500) < 0.7)) % 4
    sets = tuple(c for k in (1, 2, 3) for c in itertools.combinations(range(4), k))
    task = Task.of(Cuboids(sets, shape), domain_of(shape), data.Exact(columns, shape))
    for seed, rounds in itertools.product(range(4), (1, 3, 7)):
        variation = Paper(5.0, rounds, 20, 1.0, noise_penalty=noise_penalty)
        dense, largest = paper_mwem(task, variation, np.random.default_rng(seed)), list[int]()
        watch = partial(lambda to, now: to.append(max(now.cells())), largest)
        model, asked = cuboid_mwem(task, variation, np.random.default_rng(seed), watch=watch)
        assert asked == dense.asked
        for kept in ((0, 1, 2, 3), (1, 3), (2,)):
            assert model.marginal(kept) == pytest.approx(dense.model.marginal(kept), abs=1e-9)
        assert largest[-1] == max(len(part.weights) for part in dense.model.components)


def test_no_component_passes_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    cap = 12
    monkeypatch.setattr(paper, "UNLIMITED", cap)
    cuboids = Cuboids(tuple(s for k in (1, 2) for s in itertools.combinations(EVERY, k)), SHAPE)
    task = Task.of(cuboids, domain_of(SHAPE), rows_of(SHAPE, 400, 14))
    trace = paper_mwem(task, Paper(1.0, 8), np.random.default_rng(15))
    assert len(set(trace.asked)) == 8
    assert 2 < max(len(part.weights) for part in trace.model.components) <= cap
    grown = random_model([(0, 1), (2,), (3, 4)], 1.0, 16)
    pair = Queries.about([Cuboids(((0, 3),), SHAPE)], [1.0])
    assert [bool(pair.fits(grown, most)[0]) for most in (6 * 8 - 1, 6 * 8)] == [False, True]
    assert len(grown.merge((0, 3)).weights) == 6 * 8


@pytest.mark.parametrize(("attributes", "order"), [(10, 3), (20, 2)])
def test_independent_attributes_stay_alone(
    monkeypatch: pytest.MonkeyPatch, attributes: int, order: int
) -> None:
    monkeypatch.setattr(figure6, "RECORDS", 20_000)
    (row,) = figure6.run({"attributes": attributes, "order": order, "chance": figure6.CHANCE})
    assert row["largest_component"] == 1
    assert row["max_error"] < row["max_error_before"] / 5
    assert row["queries"] == sum(math.comb(attributes, k) for k in range(1, order + 1))


def started(d: int, rows: int, chance: float, seed: int) -> figure6.Incremental:
    rng = np.random.default_rng(seed)
    columns = [(rng.random(rows) < chance).astype(np.uint8) for _ in range(d)]
    questions, model = Parities.up_to(range(d), 3), ProductModel.uniform(domain_of((2,) * d), float(rows))
    return figure6.Incremental(model, questions, parities_of(columns, questions.members))


@pytest.mark.parametrize("epsilon", [0.001, 1000.0])
def test_kept_answers_are_the_model_s(epsilon: float) -> None:
    """With noise that ties attributes together, and without."""
    fit = started(8, 1000, 0.2, 11)
    fit.rounds(Paper(epsilon, 6, 3), np.random.default_rng(11))
    np.testing.assert_allclose(fit.answers, fit.questions.answers(fit.model), atol=1e-9)
    assert (max(len(part.positions) for part in fit.model.components) > 1) == (epsilon < 1)


def test_a_run_on_even_bits_ends_at_its_noise_or_is_given_up() -> None:
    """With ten times the noise of any answer it ends with one of the first rounds; with next to none, it does
    not, and no more than LATE rounds are run.
    """
    ended = {
        epsilon: [
            started(12, 2000, 0.5, 21).rounds(
                Paper(epsilon, 12, 3), np.random.default_rng(seed), early=figure6.LATE
            )
            for seed in range(20)
        ]
        for epsilon in (0.01, 1e6)
    }
    assert np.mean(ended[0.01]) < 2.5 and set(ended[1e6]) == {figure6.LATE}


def test_chances_are_the_exponential_mechanism_s() -> None:
    """Also after scores far from where they began, over several blocks, and never what may not be asked
    again.
    """
    chances, rng = figure6.Chances(np.full(3000, 5000.0)), np.random.default_rng(12)
    few = np.array([3, 1500, 2999])
    chances.put(np.arange(3000), np.full(3000, -np.inf))
    chances.put(few, np.log([1.0, 2.0, 5.0]))
    drawn = np.array([chances.draw(rng) for _ in range(8000)])
    for q, share in zip(few, (1 / 8, 2 / 8, 5 / 8), strict=True):
        assert abs((drawn == q).mean() - share) < 4 * math.sqrt(share / 8000)
    assert set(drawn.tolist()) == set(few.tolist())


def test_a_watched_run_ends_before_a_component_passes_its_limit() -> None:
    shape, limit = (2,) * 6, 8
    task = Task.of(Parities.up_to(range(6), 3), domain_of(shape), rows_of(shape, 300, 19))
    model, session = (
        ProductModel.uniform(task.domain, task.total),
        task.session(1.0, np.random.default_rng(20)),
    )
    learner = figure7.Watched(session, task, Paper(1.0, 60, 2), model, limit)
    with pytest.raises(figure7.TooLarge) as caught:
        run_rounds(learner, lambda: None)
    assert caught.value.cells > limit >= max(len(part.weights) for part in model.components)
    assert learner.seconds > 0


# ---- adaptive rounds


def adaptive(
    truth: np.ndarray, total: float, epsilon: float, first: Fraction, seed: int
) -> ablation.Adaptive:
    """On three bits with whatever answers, such as no rows have."""
    shape = (2, 2, 2)
    task = Task.of(Parities.up_to(range(3), 3), domain_of(shape), rows_of(shape, 1, 0))
    Sealed.__init__(task.answers, TrueAnswers(truth, task.answers.starts), task.domain.names)
    task = replace(task, truth=truth, total=total)
    return ablation.adaptive_mwem(task, Paper(epsilon, 1), np.random.default_rng(seed), first=first)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.floats(1e-3, 1e3), st.integers(1, 200), st.integers(0, 3), st.integers(0, 10**6))
def test_adaptive_rounds_never_pass_epsilon(epsilon: float, divisor: int, kind: int, seed: int) -> None:
    """Truths that the model can never meet, that it meets at once, and random ones; exactly, in fractions.
    Noise is at most a part in 10^11 larger than its price buys.
    """
    truths = [np.full(7, 10**6), np.zeros(7, dtype=np.int64), np.array([10**6, -(10**6)] * 3 + [0])]
    truth = [*truths, np.random.default_rng(seed).integers(-1000, 1000, 7)][kind]
    first = Fraction(epsilon) / divisor
    trace = adaptive(truth, 1000.0, epsilon, first, seed)
    charged = sum((2 * asked * first * 2**run for run, asked in enumerate(trace.asked)), Fraction(0))
    assert charged * (1 - Fraction(1, 10**11)) <= trace.spent <= charged <= Fraction(epsilon)
    assert (trace.spent == 0) == (divisor == 1)
    assert all(0 < asked <= 7 for asked in trace.asked)


def test_an_adaptive_run_ends_at_the_noise() -> None:
    """Where there is nothing to see, nearly every run asks one or two questions; where there is a lot, the
    first asks on.
    """
    nothing, much = (adaptive(np.full(7, n), 1e5, 1.0, Fraction(1, 64), 1).asked for n in (0, 10**5))
    assert much[0] == 7
    assert np.mean(nothing[:-1]) < 4 and len(nothing) >= 3
