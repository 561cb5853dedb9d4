"""The marks of the MWEM paper's figures: each holds on rows planted for it and falls on a row planted against
it; and the numbers under them, computed a second time.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replay import (
    barak,
    baselines,
    contrasts,
    cubes,
    data,
    figure2,
    figure3,
    figure4,
    figure5,
    gains,
    interval,
    theorem,
)
from replay.adult27 import codes
from replay.figure import FAILS, HOLDS, OPEN, PAPER, PROJECT, Claim
from replay.loglinear import cuboid_mwem
from replay.paper import Paper, Task, paper_mwem
from support.planted import planted2, planted3, planted4, planted5, planted_theorem

from factored_mwem import Domain
from factored_mwem.workload.queries.cuboids import Cuboids
from factored_mwem.workload.queries.parities import Parities
from factored_mwem.workload.queries.ranges import Ranges

needs_files = pytest.mark.skipif(
    "FMWEM_DATASETS" not in os.environ, reason="FMWEM_DATASETS names no folder of data sets"
)
Change = Callable[..., Any]


def fallen(claims: list[Claim]) -> set[int]:
    return {i for i, claim in enumerate(claims) if claim.verdict == FAILS}


def still_open(claims: list[Claim]) -> set[int]:
    return {i for i, claim in enumerate(claims) if claim.verdict == OPEN}


# ---- figure 2


def errors(**new: float) -> Change:
    """These errors instead, everywhere."""
    return lambda name, epsilon, found: found | new


AGAINST_2: list[tuple[Change, set[int], set[int]]] = [
    (lambda n, e, f: f | ({"best": 2e7, "fixed": 2e7} if e == 0.001 and n == "monetary" else {}), {0}, set()),
    (errors(best=1.1e4, fixed=1.1e4), {2}, set()),  # 909 times is not a thousand
    (errors(uniform=1e2), {1, 5}, {2}),  # the uniform answer beats both: no feat
    (errors(best=8e6, fixed=9e6), {1, 2, 5, 6}, set()),
    (
        lambda n, e, f: f | ({"best": 2e7, "fixed": 2e7} if e == 0.0125 and n == "monetary" else {}),
        {3, 4},
        set(),
    ),
    (errors(best=1e4, fixed=1e4), set(), set()),  # a thousand is
    (errors(fixed=2e7), {4}, set()),
    (errors(hb=9e5), {7}, set()),
    (
        lambda n, e, f: f | ({"best": 2e6, "fixed": 2e6} if n != "capital loss" else {}),
        {1, 5, 6},
        set(),
    ),  # 10 on one set
    (errors(best=5.1e6, fixed=7e6, uniform=7e6, spread=0.8), {2}, {0, 1, 3, 4, 5, 6}),
]


def test_the_marks_of_figure_2_follow_its_rows() -> None:
    """The last of the changes: all means are below the bound, and none of them by more than they scatter."""
    claims = figure2.judge(planted2())
    assert {claim.verdict for claim in claims} == {HOLDS}
    assert [claim.whose for claim in claims] == [PAPER] * 3 + [PROJECT] * 5
    assert {claim.verdict for claim in figure2.judge([])} == {OPEN}
    for change, fell, unknown in AGAINST_2:
        judged = figure2.judge(planted2(change))
        assert (fallen(judged), still_open(judged)) == (fell, unknown), fell
    assert set.union(*(fell for _, fell, _ in AGAINST_2)) == set(range(len(claims)))


def test_a_thousand_beyond_the_published_epsilons_cannot_be_compared() -> None:
    """The paper's epsilons are not legible; within those recalled it is 500 times."""

    def only_below(name: str, epsilon: float, found: dict[str, float]) -> dict[str, float]:
        return found | ({} if epsilon < 0.0125 else {"best": 2e4, "fixed": 2e4})

    judged = figure2.judge(planted2(only_below))
    assert (fallen(judged), still_open(judged)) == (set(), {2})


def test_the_best_t_is_chosen_on_one_half_and_reported_on_the_other() -> None:
    """The error of T = 10 is least on the even repetitions alone, which then say nothing about it."""
    found = {10: (1.0, 8.0, 1.0, 10.0), 12: (2.0, 2.0, 2.0, 2.0)}
    rows = [
        {"rounds": t, "repetition": i, "error": error}
        for t, es in found.items()
        for i, error in enumerate(es)
    ]
    best = gains.best(rows)
    assert (best.mean, best.error) == (9.0, pytest.approx(1.0))
    assert best.high == pytest.approx(9 + 12.706, abs=1e-2)  # Student's t, one degree of freedom, 95 %
    assert best.low == 0.0
    assert math.isnan(gains.best([]).mean)


def test_three_values() -> None:
    """An interval that straddles a limit decides nothing; nor does one run."""
    sure, alone = interval.Interval.of([1.0, 1.1, 0.9, 1.0]), interval.Interval.of([1.0])
    assert (sure.below(2.0), sure.below(0.5), sure.below(1.0)) == (True, False, None)
    assert (alone.mean, alone.below(1e9)) == (1.0, None)
    assert (interval.both(True, None), interval.both(None, False)) == (None, False)
    assert (interval.some([False, None]), interval.some([None, True]), interval.some([False])) == (
        None,
        True,
        False,
    )
    counted = [[True, True], [True, None], [True, False]]
    assert [interval.at_least(2, found) for found in counted] == [True, None, False]


def test_the_bound_of_ranges_is_the_singular_values_of_their_matrix() -> None:
    """By numpy's singular values of the matrix itself, and the value of 2,000 ranges over 4,357 cells that
    was computed without this code: 13.24 a query, within what another draw of ranges changes.
    """
    boxes = Ranges.random((0, 1), (5, 7), 60, seed=2)
    matrix = np.zeros((60, 35))
    for q, (x, y) in itertools.product(range(60), np.ndindex(5, 7)):
        matrix[q, 7 * x + y] = np.all((boxes.low[q] <= (x, y)) & ((x, y) <= boxes.high[q]))
    wanted = np.linalg.svd(matrix, compute_uv=False).sum() ** 2 / 35
    assert baselines.svd_bound(baselines.gram_of_ranges(boxes), 35) == pytest.approx(wanted)
    many = Ranges.random((0,), (4357,), 2000, seed=0)
    a_query = baselines.svd_bound(baselines.gram_of_ranges(many), 4357) / 2000
    assert a_query == pytest.approx(13.24, rel=0.03)
    noise = baselines.noise_of_matrix_mechanism(0.0125, 1 / 32_561)
    assert noise == pytest.approx(2 * math.log(2 * 32_561) / 0.0125**2)
    assert a_query * noise == pytest.approx(1.88e6, rel=0.03)
    assert baselines.noise_of_matrix_mechanism(0.5, 0.0) == pytest.approx(2 / 0.5**2)


# ---- Barak et al., and figure 3


def popcounts(mask: int, cells: int) -> np.ndarray:
    """(-1)^(bits in common) of each cell's number, by Python's own integers."""
    return np.array([(-1) ** bin(mask & x).count("1") for x in range(cells)], dtype=np.float64)


@pytest.mark.parametrize("bits", [3, 6])
@pytest.mark.parametrize("near", [0.0, 0.05])
def test_sweeps_of_multiplicative_weights_are_the_formula(bits: int, near: float) -> None:
    """A(x) times exp(q(x) (m - q(A)) / 2), one parity after the other, on plain arrays."""
    rng, cells = np.random.default_rng(bits), 2**bits
    masks = np.arange(1, cells)
    noisy = rng.uniform(-1, 1, len(masks))
    weights = np.full((2 ** (bits - bits // 2), 2 ** (bits // 2)), 1 / cells)
    barak.sweep_parities(weights, masks, noisy, 3, near)
    wanted = np.full(cells, 1 / cells)
    for _ in range(3):
        for mask, m in zip(masks, noisy, strict=True):
            signs = popcounts(int(mask), cells)
            gap = m - signs @ wanted
            if abs(gap) > near:
                wanted = wanted * np.exp(signs * gap / 2)
                wanted /= wanted.sum()
    assert weights.ravel() / weights.sum() == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize(("name", "fit"), [("mildew", 0.01735), ("czech", 0.00587), ("rochdale", 0.04715)])
def test_without_noise_barak_swept_to_convergence_is_the_fit_of_all_triples(name: str, fit: float) -> None:
    """The most entropy with these parities: the log-linear fit, whose relative entropy is known."""
    table = data.small(name)
    task = Task.of(Parities.up_to(range(len(table.shape)), 3), table.domain, table.rows)
    found = {
        sweeps: baselines.relative_entropy(
            table.histogram(), barak.barak(task, 1e9, np.random.default_rng(1), sweeps=sweeps, guard=0.0)
        )
        for sweeps in (1, 10, 100, barak.CONVERGED)
    }
    assert found[barak.CONVERGED] == pytest.approx(fit, abs=2e-3)
    assert found[1] > found[10] > found[100] > fit - 1e-4


def test_what_rests_on_the_floor_counts_as_infinite() -> None:
    """A populated cell of no weight is told; an empty one costs nothing."""
    counts = np.array([5, 0, 5])
    assert baselines.floored(counts, np.array([0.5, 1e-300, 0.5])) == 0
    assert baselines.floored(counts, np.array([1e-300, 0.0, 1.0])) == 1
    rows = [{"method": "Barak, 1 sweep", "entropy": 2.0, "floored": 0}]
    rows += [{"method": "Barak, converged", "entropy": 0.1, "floored": f} for f in (0, 1)]
    assert math.isinf(barak.entropy_of(rows[1:])) and barak.best_way(rows) == (2.0, "Barak, 1 sweep")
    assert "converged 1 of 2" in barak.resting_on_floor(rows)


def entropies(**new: float) -> Change:
    return lambda name, epsilon, found: found | {k.replace("_", " "): v for k, v in new.items()}


def at_most(epsilon: float, **new: float) -> Change:
    return lambda name, e, found: found | (new if e <= epsilon else {})


AGAINST_3: list[tuple[Change, set[int], set[int]]] = [
    (entropies(optimised=0.9), {0, 2, 6, 7}, {5}),
    (at_most(10.0, optimised=0.45), set(), {5}),
    (lambda n, e, f: f | {"optimised": 0.85} if 0.5 <= e <= 20 else f, {0}, {5}),  # 1.25 up to 0.2 alone
    (entropies(plain=0.95), {1}, {5}),
    (lambda n, e, f: f | {"optimised": 0.3} if e == 50.0 else f, {7}, {5}),
    (lambda n, e, f: f | {"Barak, 10 sweeps": 9.0} if e == 50.0 and n == "czech" else f, set(), {3, 5}),
    (lambda n, e, f: f | {"Barak, 10 sweeps": 0.05} if e == 20.0 and n == "mildew" else f, {6}, {5}),
    (lambda n, e, f: f | {"Barak, linear program": 0.9} if e == 0.5 and n == "czech" else f, {4}, {5}),
]


def test_the_marks_of_figure_3_follow_its_rows() -> None:
    claims = figure3.judge(planted3())
    assert fallen(claims) == set() and still_open(claims) == {5}
    assert [claim.whose for claim in claims] == [PAPER] * 6 + [PROJECT] * 2
    assert {claim.verdict for claim in figure3.judge([])} == {OPEN}
    for change, fell, unknown in AGAINST_3:
        judged = figure3.judge(planted3(change))
        assert (fallen(judged), still_open(judged)) == (fell, unknown), fell


def test_the_linear_program_misses_no_parity_by_more_than_it_must() -> None:
    """Exact parities: missed by nothing. A parity that no table has (1.5, of shares): by the half that is
    over, whatever the other parities are, on a domain of two cells.
    """
    table = data.small("mildew")
    task = Task.of(Parities.up_to(range(6), 3), table.domain, table.rows)
    masks = barak.masks_of(task.questions.members, 6)
    exact = task.truth / task.total
    shares = barak.linear_program(exact, masks, 6)
    answers = np.array([popcounts(int(mask), 64) @ shares for mask in masks])
    assert (
        shares.sum() == pytest.approx(1) and shares.min() >= 0 and answers == pytest.approx(exact, abs=1e-7)
    )
    assert barak.linear_program(np.array([1.5]), np.array([1]), 1) == pytest.approx([1.0, 0.0])
    assert barak.linear_program(np.array([0.5]), np.array([1]), 1) == pytest.approx([0.75, 0.25])


def test_the_page_says_where_the_uniform_answer_does_as_well() -> None:
    change = at_most(0.2, optimised=2.5)
    why = figure3.judge(planted3(lambda n, e, f: change(n, e, f) | {"Barak, 10 sweeps": 1.99}))[0].why
    assert "Barak et al. are the uniform answer at 0.1, 0.2, 0.5" in why
    assert "MWEM is worse than the uniform answer at 0.1, 0.2)" in why
    assert "uniform answer" not in figure3.judge(planted3())[0].why


def test_plain_mwem_may_ask_again_and_listed_mwem_may_not() -> None:
    """64 rounds of 41 parities; without repeats they are refused."""
    table = data.small("mildew")
    task = Task.of(Parities.up_to(range(6), 3), table.domain, table.rows)
    again = paper_mwem(task, Paper(1.0, 64, joined=True, repeats=True), np.random.default_rng(0))
    assert len(again.asked) == 64 > len(set(again.asked))
    with pytest.raises(ValueError, match="64 rounds ask more"):
        paper_mwem(task, Paper(1.0, 64, joined=True), np.random.default_rng(0))
    once = paper_mwem(task, Paper(1.0, 30, joined=True), np.random.default_rng(0)).asked
    assert len(once) == len(set(once)) == 30


def test_a_range_of_epsilon_is_unbroken() -> None:
    """A gain at 0.1 and at 10 alone spans nothing; the widest of two runs counts."""
    found = {0.1: 2.0, 0.2: 2.0, 0.5: 1.0, 1.0: 1.5, 2.0: 1.3, 5.0: 1.26, 10.0: 1.2}
    assert contrasts.widest(found, 1.25) == (1.0, 5.0)
    assert contrasts.widest(found | {1.0: 1.0, 5.0: 1.0}, 1.25) == (0.1, 0.2)
    assert all(math.isnan(end) for end in contrasts.widest(found, 3.0))


# ---- figure 4

AGAINST_4: list[tuple[Change, set[int]]] = [
    (lambda o, e, f: f | ({"Barak, 1 sweep": 0.8} if o == 3 and e >= 0.5 else {}), {0, 5}),
    (lambda o, e, f: f | ({"Barak, 1 sweep": 0.77} if o == 3 and e == 2.0 else {}), {5}),
    (lambda o, e, f: f | ({"Barak, 1 sweep": 4.0} if o == 2 else {}), {1, 2, 3}),
    (lambda o, e, f: f | ({"Barak, 1 sweep": 0.3} if o == 2 else {}), {2, 3}),
    (lambda o, e, f: f | ({"30": 0.5} if o == 2 and e == 0.5 else {}), {4}),
]


def test_the_marks_of_figure_4_follow_its_rows() -> None:
    claims = figure4.judge(planted4())
    assert {claim.verdict for claim in claims} == {HOLDS}
    assert [claim.whose for claim in claims] == [PAPER] * 5 + [PROJECT]
    assert {claim.verdict for claim in figure4.judge([])} == {OPEN}
    for change, expected in AGAINST_4:
        assert fallen(figure4.judge(planted4(change))) == expected, expected


# ---- figure 5


def of(a_cell: str, **new: Any) -> Change:
    """These numbers instead in the runs whose cells cost this."""
    return lambda row: row | (new if row["a_cell"] == a_cell else {})


AGAINST_5: list[tuple[Change, set[int]]] = [
    (of(figure5.ONE, higher=1), {0}),
    (of(figure5.ONE, three_way=2), {1}),
    (of(figure5.ONE, three_way=0), {1}),
    (of(figure5.ONE, conflated_at=0), {4}),
    (of(figure5.NOISE, higher=2), {5}),
    (of(figure5.NOISE, three_way=3), {6}),
    (lambda r: r | ({"average_error": 9.0} if r["method"] == figure5.PRODUCT else {}), {7}),
    (lambda r: r | ({"max_error": 29.0} if r["method"] == figure5.UNIFORM else {}), {8}),
]


def test_the_marks_of_figure_5_follow_its_rows() -> None:
    claims = figure5.judge(planted5())
    assert fallen(claims) == set() and still_open(claims) == {2, 3}
    assert [claim.whose for claim in claims] == [PAPER] * 5 + [PROJECT] * 4
    alone = [row for row in planted5() if row["seed"] == 0]
    assert still_open(figure5.judge(alone)) == {2, 3, 7, 8}  # one seed decides nothing about errors
    assert "four times lower" in claims[3].text and "not offered" in claims[0].why + claims[1].why
    for change, expected in AGAINST_5:
        assert fallen(figure5.judge(planted5(change))) == expected, expected


@pytest.mark.parametrize("noise_penalty", [False, True])
def test_the_product_of_measured_tables_is_the_dense_model(noise_penalty: bool) -> None:
    """The same choices from the same noise, and the same distribution, as the table of all cells has."""
    rng, shape = np.random.default_rng(0), (3, 4, 2, 5)
    columns = [rng.choice(size, size=500, p=rng.dirichlet(np.ones(size))) for size in shape]
    columns[1] = (columns[0] + columns[3] * (rng.random(500) < 0.7)) % 4
    domain = Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)})
    sets = tuple(c for k in (1, 2, 3) for c in itertools.combinations(range(4), k))
    task = Task.of(Cuboids(sets, shape), domain, data.Exact(columns, shape))
    for seed, rounds in itertools.product(range(4), (1, 3, 7)):
        paper = Paper(5.0, rounds, 20, 1.0, noise_penalty=noise_penalty)
        dense = paper_mwem(task, paper, np.random.default_rng(seed))
        largest: list[int] = []
        model, asked = cuboid_mwem(
            task, paper, np.random.default_rng(seed), watch=lambda m, to=largest: to.append(max(m.cells()))
        )
        assert asked == dense.asked
        for kept in ((0, 1, 2, 3), (1, 3), (2,)):
            assert model.marginal(kept) == pytest.approx(dense.model.marginal(kept), abs=1e-9)
        assert largest[-1] == max(len(part.weights) for part in dense.model.components)


@needs_files
def test_the_product_baseline_on_adult_by_another_way() -> None:
    """Each cuboid's mean |cell error| from its own counts and its own product, none added up from another;
    without noise the average is the known 32.5 within a record or so.
    """
    domain, rows = codes()
    shape, n, everything = domain.shape, len(rows.codes[0]), range(len(domain))
    one_ways = [rows.marginal([p]) for p in everything]
    product = cubes.product_of([c.astype(np.float64) for c in one_ways], n)
    found = cubes.cuboid_errors(product - rows.marginal(everything), shape)
    wanted = []
    for k in range(6):  # up to order 5: the others have too many cells for a test
        for kept in itertools.combinations(everything, k):
            cells = np.full(1, float(n))
            for p in kept:
                cells = np.outer(cells, one_ways[p] / n).ravel()
            wanted.append(np.abs(cells - rows.marginal(kept)).mean())
    assert len(found) == 256 and found.max() == pytest.approx(max(wanted))
    close = [np.abs(found - w).min() for w in wanted]
    assert max(close) < 1e-6
    assert found.mean() == pytest.approx(32.5, abs=1.5)


# ---- Theorem 2.3


@pytest.mark.parametrize(("epsilon", "wanted"), [(1.0, 33_396), (0.1, 71_950)])
def test_the_calculator_has_the_known_values(epsilon: float, wanted: float) -> None:
    """n = 30,162, |X| = 2^27, |Q| = 3,303, at the best T; no T of a fine grid is better."""
    at = theorem.Setting("", 30_162, 2**27, 3303, epsilon)
    assert theorem.closed_form(at) == pytest.approx(wanted, abs=1)
    assert theorem.bound(at, theorem.best_rounds(at)) == pytest.approx(wanted, abs=1)
    grid = np.geomspace(0.1, 1e4, 20_000)
    assert min(theorem.bound(at, t) for t in grid) == pytest.approx(wanted, abs=1)
    t, least = theorem.whole_rounds(at)
    assert least == min(theorem.bound(at, t) for t in range(1, 2000)) == theorem.bound(at, t)


def test_the_marks_of_the_theorem_follow_its_rows() -> None:
    """The theorem allows 2 T / |Q| of the runs: three of ten at T = 8 (39 %) are not too many, four are, and
    at T = 16 (78 %) eight are. Runs that cannot contradict it, whatever they do, are not counted.
    """
    judged = theorem.judge(planted_theorem())
    assert [claim.verdict for claim in judged] == [HOLDS, HOLDS, FAILS]
    assert "only 20 of 40 could have" in judged[0].why and "below n at 1 of 10" in judged[2].why
    assert fallen(theorem.judge(planted_theorem(1.1))) == {0, 2}
    for rounds, over, expected in (
        (8, 3, HOLDS),
        (8, 4, FAILS),
        (16, 7, HOLDS),
        (16, 8, FAILS),
        (32, 9, HOLDS),
    ):
        few = [
            row | {"max_error_average": 2 * row["bound"]}
            if (row["rounds"], row["run"] < over) == (rounds, True)
            else row
            for row in planted_theorem()
        ]
        assert theorem.judge(few)[0].verdict == expected, (rounds, over)
    idle = [row for row in planted_theorem() if row["rounds"] in (1, 32)]
    assert theorem.judge([])[0].verdict == theorem.judge(idle)[0].verdict == OPEN


def test_the_theorem_is_run_where_it_says_something() -> None:
    """Never with T of half the questions or more; and some runs have a bound below n."""
    cases = theorem.cases(False)
    assert all(2 * case["rounds"] < theorem.QUESTIONS[case["data"]] for case in cases)
    at = theorem.Setting("rochdale", 665, 256, 92, 100.0)
    assert {"data": "rochdale", "epsilon": 100.0, "rounds": 32, "runs": 5} in cases
    assert theorem.bound(at, 32) < 665 and theorem.probability(92, 32) > 0.3
    for name, queries in theorem.QUESTIONS.items():
        assert sum(math.comb(len(data.small(name).shape), k) for k in (1, 2, 3)) == queries


def test_runs_keep_the_bound_of_the_theorem() -> None:
    """A setting where it says something, below n: and the average is over the iterates before each round."""
    rows = theorem.run({"data": "czech", "epsilon": 10.0, "rounds": 32, "runs": 3})
    assert all(row["max_error_average"] <= row["bound"] < 1841 for row in rows)
    one = theorem.run({"data": "czech", "epsilon": 10.0, "rounds": 1, "runs": 1})[0]
    table = data.small("czech")
    task = Task.of(Parities.up_to(range(6), 3), table.domain, table.rows)
    assert one["max_error_average"] == np.abs(task.truth).max()  # A_0 is uniform: every parity 0


@pytest.mark.parametrize(
    ("figure", "made"),
    [(figure2, planted2), (figure3, planted3), (figure4, planted4), (figure5, planted5)],
    ids=["2", "3", "4", "5"],
)
def test_figures_and_their_tables_are_drawn_from_rows(figure: Any, made: Change, tmp_path: Path) -> None:
    """Each table is as wide as its header; a run on the floor leaves a gap and no error."""
    rows = made()
    rows += [row | {"floored": 1} for row in rows if "floored" in row][:50]
    figure.plot(rows, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    for table in figure.tables(rows):
        assert table.rows and {len(row) for row in table.rows} == {len(table.header)}
