"""Sample and aggregate: blocks, hostile functions, the centre of attention against enumeration."""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.drawing import drawing
from support.fakes import FakeNoise

from factored_mwem.accounting.admissible import Shape
from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import InputError
from factored_mwem.privacy.other import blocks
from factored_mwem.privacy.other.blocks import OnBlocks, block_of, majority, middle
from factored_mwem.sessions.statistic import sample_and_aggregate, smooth
from factored_mwem.sessions.statistic.grid import Grid
from factored_mwem.sessions.statistic.sample import Blocks

WIDTH, UNIT = 6, 2


def changed(one: tuple[int, ...], group: int, values: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All results that differ from these in so many blocks at most."""
    for places in itertools.combinations(range(len(one)), group):
        for new in itertools.product(values, repeat=group):
            other = dict(enumerate(one)) | dict(zip(places, new, strict=True))
            yield tuple(other.values())


@pytest.mark.parametrize(("count", "group"), [(3, 1), (4, 1), (5, 1), (5, 2), (6, 2), (2, 1)])
@pytest.mark.parametrize("beta", [0.1, 0.7])
def test_the_bound_of_an_interval_holds_for_all_neighbours(count: int, group: int, beta: float) -> None:
    """All results on a small grid: the centre moves by no more than either bound, the bounds by beta."""
    values = range(0, WIDTH + 1, UNIT)
    tables = list(itertools.product(values, repeat=count))
    center, bound = {}, {}
    for t in tables:
        ordered = np.sort(np.array(t))
        center[t] = middle(ordered, majority(count, group))
        bound[t] = blocks.attention_bound(ordered, WIDTH, beta, group)
    for one in tables[:: 1 if count < 5 else 7]:
        for other in changed(one, group, values):
            assert abs(center[one] - center[other]) <= min(bound[one], bound[other])
            assert bound[other] <= math.exp(beta) * bound[one] * (1 + 1e-9)


def test_all_equal_results_have_a_small_bound() -> None:
    """A constant function: the width of the bounds at the distance at which no majority is left."""
    for count in (11, 100):
        steps = count - majority(count, 1)
        bound = blocks.attention_bound(np.full(count, 2), 1000, 0.3, 1)
        assert bound == pytest.approx(1000 * math.exp(-0.3 * steps))


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("count", [3, 4, 5])
def test_attention_in_a_metric_holds_for_all_neighbours(group: int, count: int) -> None:
    """Points of a plane under the L1 metric."""
    spots = np.array([[0, 0], [0, 3], [2, 0], [5, 5]])
    between = np.abs(spots[:, None, :] - spots[None, :, :]).sum(axis=2).astype(float)
    beta, width = 0.4, float(between.max())
    tables, found = list(itertools.product(range(4), repeat=count)), {}
    for t in tables:
        apart = between[np.ix_(t, t)]
        center = t[smooth.center_of_attention(apart, group)]
        found[t] = center, smooth.attention_bound(apart, beta, width, group)
    for one in tables[:: 1 if count < 5 else 5]:
        for other in changed(one, group, range(4)):
            (a, s), (b, t) = found[one], found[other]
            assert between[a, b] <= min(s, t) + 1e-12
            assert t <= math.exp(beta) * s * (1 + 1e-12)


def test_the_printed_bound_fails_where_the_centre_itself_goes() -> None:
    """2 max rho(t + (k + 1) s) e^{-beta k} of the best centre alone is not smooth: a star's hub goes."""

    def printed(apart: np.ndarray) -> float:
        radius = np.append(np.sort(apart, axis=1).min(axis=0), width)
        return max(2 * radius[min(t + k, m)] * math.exp(-beta * k) for k in range(m))

    m, beta, width = 9, 0.1, 2.0
    t = m // 2 + 1
    star = np.full((m + 1, m + 1), 2.0)
    star[0, :] = star[:, 0] = 1.0
    np.fill_diagonal(star, 0.0)
    with_hub, without = star[:m, :m], star[1:, 1:]  # a tip in the place of the hub
    assert printed(without) > math.exp(beta) * 1.2 * printed(with_hub)
    ours = [smooth.attention_bound(apart, beta, width) for apart in (with_hub, without)]
    assert ours[1] <= math.exp(beta) * ours[0] * (1 + 1e-12)


def run(function: Any, values: Any, how: Blocks, **policy: Any) -> tuple[Any, FakeNoise]:
    fake = FakeNoise(Composition.PURE)
    table = pa.table({"x": pa.array(values, pa.float64())})
    asked = {"lower": how.grid.lower, "upper": how.grid.upper, "blocks": how.count, "by": how.by, **policy}
    with drawing(fake):
        return sample_and_aggregate(table, function, {"x": (0, 10)}, **asked), fake


CENTER = Blocks(20, "center", Grid.of(0, 10), 1, Shape.CAUCHY)
AVERAGE = Blocks(20, "average", Grid.of(0, 10), 1, None)


def test_what_most_blocks_say_comes_out() -> None:
    values = [3.0, 7.0] * 500
    found, fake = run(lambda rows: np.nanmax(rows[:, 0]), values, CENTER)
    assert found.value == pytest.approx([7.0])
    assert fake.calls[0].values[1] < 0.2 * (Grid.of(0, 10).cells - 1) * 2**20  # type: ignore[index]
    average, _ = run(lambda rows: np.nanmax(rows[:, 0]), values, AVERAGE)
    assert average.value == pytest.approx([7.0])
    told = found.statement.guarantee.assumptions.values()
    assert any("that block alone" in each.statement for each in told)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_each_dimension_has_its_own_centre_for_an_equal_part(delta: float) -> None:
    """All parts together cost what was promised; what blocks disagree on has noise of its own."""
    both = Blocks(200, "center", Grid.of(0, 10), 2, Shape.LAPLACE if delta else Shape.CAUCHY)
    values = np.random.default_rng(1).uniform(0, 10, 4000)
    found, fake = run(lambda rows: [7.0, rows[0, 0]], values, both, dimensions=2, epsilon=4.0, delta=delta)
    assert found.value[0] == pytest.approx(7.0) and len(found.value) == 2
    first, second = found.statement.ledger
    assert first.scale == pytest.approx(second.scale)
    assert Fraction(first.delta) == Fraction(second.delta) == Fraction(delta) / 2
    assert 3.999 < found.statement.recompute() <= 4.0
    assert fake.calls[1].values[1] > 3 * fake.calls[0].values[1]  # type: ignore[index]


def test_the_bound_of_each_dimension_holds_for_all_neighbours() -> None:
    """Results of two numbers: a block that changes may change both. A centre of the one dimension beside the
    bound of the other is the planted bug.
    """
    spots, beta = [(0, 0), (8, 0), (4, 2)], 0.5
    tables = list(itertools.product(range(3), repeat=7))
    found, broken = {}, 0
    for t in tables:
        held = blocks.BlockResults(np.array([spots[i] for i in t]), 9)
        asked = [blocks.Centre(1, dimension) for dimension in (0, 1)]
        found[t] = [(held.value(what), held.smooth(what, beta, 1)) for what in asked]
    for one in tables[::3]:
        for other in changed(one, 1, range(3)):
            for (a, s), (b, t) in zip(found[one], found[other], strict=True):
                assert abs(a - b) <= min(s, t) and t <= math.exp(beta) * s * (1 + 1e-9)
            broken += abs(found[one][0][0] - found[other][0][0]) > found[one][1][1]
    assert broken


def crash(rows: np.ndarray) -> float:
    raise ValueError(f"CANARY {rows}")


def leave(rows: np.ndarray) -> float:
    print("CANARY")
    print("CANARY", file=sys.stderr)
    raise SystemExit("CANARY")


def warn(rows: np.ndarray) -> float:
    warnings.warn("CANARY", stacklevel=1)
    return float(np.log(-1.0))


HOSTILE = [crash, leave, warn, lambda r: None, lambda r: "CANARY", lambda r: [1, 2], lambda r: math.inf]


def test_a_result_too_large_for_its_bounds_is_not_warned_of(recwarn: pytest.WarningsRecorder) -> None:
    """A warning would tell that some block's result was so large; where warnings are errors, the run too."""
    how = Blocks(20, "average", Grid.of(0, 1e-20), 1, None)
    found, _ = run(lambda rows: 1e300, [1.0, 2.0, 3.0] * 30, how)
    assert found.value == pytest.approx([1e-20]) and not len(recwarn)


@pytest.mark.parametrize("how", [CENTER, AVERAGE], ids=["center", "average"])
@pytest.mark.parametrize("function", HOSTILE)
def test_a_function_that_fails_says_nothing(
    function: Any, how: Blocks, capfd: Any, recwarn: pytest.WarningsRecorder
) -> None:
    """A block on which it fails counts as the middle, and nothing of it is shown."""
    found, _ = run(function, [1.0, 2.0, 3.0] * 30, how)
    assert found.value == pytest.approx([5.0])
    assert "CANARY" not in "".join(capfd.readouterr()) and not len(recwarn)


def test_a_function_cannot_change_the_rows_of_another_block() -> None:
    def spoil(rows: np.ndarray) -> float:
        found = float(np.nanmax(rows))
        rows[:] = 0
        return found

    assert run(spoil, [7.0] * 200, CENTER)[0].value == pytest.approx([7.0])


def test_blocks_depend_on_the_key_alone_and_are_even() -> None:
    """Rows have independent uniform blocks; a longer table has the same at the same places."""
    first, other = block_of(300_000, 7, b"a" * 32), block_of(300_000, 7, b"b" * 32)
    assert (block_of(1_000, 7, b"a" * 32) == first[:1_000]).all()
    counts = np.bincount(first, minlength=7)
    assert abs(counts - 300_000 / 7).max() < 1_500  # 7.8 standard deviations
    assert abs((first == other).mean() - 1 / 7) < 0.005
    assert abs((first[1:] == first[:-1]).mean() - 1 / 7) < 0.005


def test_one_row_touches_one_block() -> None:
    """The results of neighbours under one key differ in one block, and in two or more for a rule by
    position in a sorted table, which is the planted bug.
    """
    rng = np.random.default_rng(5)
    values = rng.integers(0, 10, 400).astype(float)
    said = []
    for x in (values, np.where(np.arange(400) == 17, 9 - values, values)):
        key = block_of(400, 10, b"k" * 32)
        work = OnBlocks(lambda rows: rows.mean(), [], 10, 0.0, 10.0, 2**16, 1, b"k")
        said.append([int(work.result(x[key == b][:, None])[0]) for b in range(10)])
    assert sum(a != b for a, b in zip(*said, strict=True)) == 1
    ordered = np.sort(values), np.sort(np.where(np.arange(400) == 17, 9 - values, values))
    assert sum(a.mean() != b.mean() for a, b in zip(*(np.split(o, 10) for o in ordered), strict=True)) > 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"function": 3}, "must be a function"),
        ({"bounds": {}}, "must name columns"),
        ({"bounds": {"x": 3}}, "bounds of column 'x'"),
        ({"bounds": {"y": (0, 1)}}, "'y'"),
        ({"blocks": 0}, "blocks=0"),
        ({"by": "median"}, "by='median'"),
        ({"dimensions": 0}, "dimensions=0"),
        ({"by": "average", "delta": 1e-6}, "needs no delta"),
        ({"lower": 3, "upper": 3}, "less than"),
    ],
)
def test_refusals(given: dict[str, Any], words: str) -> None:
    asked: dict[str, Any] = {"function": len, "bounds": {"x": (0, 1)}, "lower": 0, "upper": 1, "blocks": 3}
    asked.update(given)
    with pytest.raises(InputError, match=words):
        sample_and_aggregate(pa.table({"x": [1.0]}), asked.pop("function"), asked.pop("bounds"), **asked)
