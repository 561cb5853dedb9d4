"""Coarser levels: nested, of about equal mass, contiguous where order means something, and found from noisy
counts alone.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from factored_mwem.domain.levels import Levels, coarsen, padded

GROUPS = [(16,), (16, 4), (8, 3), (5,), (2,)]


def counts_of(kind: str, size: int, rng: np.random.Generator) -> np.ndarray:
    return {
        "flat": np.full(size, 100),
        "lumpy": np.rint(rng.pareto(1.0, size) * 50).astype(np.int64),
        "noisy": np.rint(rng.normal(5, 30, size)).astype(np.int64),
        "one giant": np.where(np.arange(size) == size // 2, 10**6, 1),
        "zeros": np.zeros(size, dtype=np.int64),
        "negative": -rng.integers(1, 99, size),
    }[kind]


def mapping(fine: np.ndarray, coarse: np.ndarray) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for f, c in zip(fine.tolist(), coarse.tolist(), strict=True):
        found.setdefault(f, set()).add(c)
    return found


@pytest.mark.parametrize("kind", ["flat", "lumpy", "noisy", "one giant", "zeros", "negative"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 21, 40, 300])
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_levels_are_nested_and_each_is_coarser(kind: str, size: int, ordered: bool) -> None:
    """Groups are numbered from 0 without gaps; a level has fewer groups than the one before it, and more than
    one: of one or two codes there is none.
    """
    rng = np.random.default_rng([size, len(kind)])
    for groups in GROUPS:
        for rare in (0.0, 2.0):
            noisy = counts_of(kind, size, rng)
            levels = coarsen(noisy, 10.0, ordered=ordered, groups=groups, rare=rare)
            chain = [np.arange(size), *levels]
            for before, after in itertools.pairwise(chain):
                assert all(len(found) == 1 for found in mapping(before, after).values())
                assert 1 < len(set(after.tolist())) < len(set(before.tolist()))
            for level in levels:
                assert level.dtype == np.int64 and level.shape == (size,)
                assert set(level.tolist()) == set(range(int(level.max()) + 1))
            assert len(levels) <= len(groups) + 1


@pytest.mark.parametrize("kind", ["flat", "lumpy", "noisy", "zeros", "negative"])
@pytest.mark.parametrize("size", [25, 80, 500])
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_groups_have_about_equal_mass(kind: str, size: int, ordered: bool) -> None:
    """A group's codes have their middles within one share of the whole mass, so it weighs at most that and
    its own largest code.

    They are neighbours: in the order of the codes where that means something, else by falling count.
    """
    rng = np.random.default_rng([size, len(kind), ordered])
    noisy = counts_of(kind, size, rng)
    for count in (16, 4):
        found = coarsen(noisy, 10.0, ordered=ordered, groups=(count,), rare=0.0)
        if not found:
            assert kind in ("lumpy", "noisy"), "only where nearly all mass is in few codes"
            continue
        level = found[-1]
        mass = np.maximum(noisy, 0) + 1e-9
        assert level.max() + 1 <= count
        for group in range(int(level.max()) + 1):
            inside = mass[level == group]
            assert inside.sum() <= mass.sum() / count + inside.max() + 1e-9
        along = level if ordered else level[np.argsort(-noisy, kind="stable")]
        assert (np.diff(along) >= 0).all()


def test_flat_counts_are_cut_evenly() -> None:
    (level,) = coarsen(np.full(64, 100), 1.0, ordered=True, groups=(16,), rare=2.0)
    assert level.tolist() == [c // 4 for c in range(64)]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_only_rare_codes_of_one_group_are_merged(seed: int, ordered: bool) -> None:
    """The level before the groups: frequent codes stay alone, rare ones are together exactly where the first
    groups hold them together.
    """
    rng = np.random.default_rng(seed)
    noisy = np.where(rng.random(60) < 0.5, rng.integers(-20, 20, 60), rng.integers(20, 500, 60))
    plain = coarsen(noisy, 10.0, ordered=ordered, groups=(8,), rare=0.0)
    merged, *rest = coarsen(noisy, 10.0, ordered=ordered, groups=(8,), rare=2.0)
    assert [r.tolist() for r in rest] == [plain[-1].tolist()], (
        "the groups themselves do not depend on what is rare"
    )
    first, rare = rest[0], noisy < 2.0 * 10.0
    for a, b in itertools.combinations(range(60), 2):
        assert (merged[a] == merged[b]) == (rare[a] and rare[b] and first[a] == first[b])


def test_rare_codes_of_few_are_merged_without_groups() -> None:
    """Too few codes for groups: the rare ones become one."""
    (level,) = coarsen(np.array([500, 3, 400, -2, 1]), 10.0, ordered=False, groups=(16,), rare=2.0)
    assert len(set(level[[1, 3, 4]].tolist())) == 1 and len(set(level.tolist())) == 3


# ---- what a set of levels knows


LEVELS = Levels.of((6, 3, 1), [[[0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1]], [], []])


def test_variables_and_their_neighbours() -> None:
    assert len(LEVELS) == 5 and LEVELS.attribute.tolist() == [0, 1, 2, 0, 0]
    assert LEVELS.sizes.tolist() == [6, 3, 1, 3, 2]
    assert LEVELS.chains == ((0, 3, 4), (1,), (2,))
    assert LEVELS.coarser.tolist() == [3, -1, -1, 4, -1] and LEVELS.finer.tolist() == [-1, -1, -1, 0, 3]
    assert LEVELS.names(("age", "sex", "one")) == ("age", "sex", "one", "age in 3", "age in 2")
    assert LEVELS.view({4, 1}) == (4, 1) and LEVELS.view([2, 3]) == (3, 2)
    assert LEVELS.cells((3, 1)) == 9 and LEVELS.cells(()) == 1
    assert LEVELS.between(3, 4).tolist() == [0, 0, 1] and LEVELS.between(0, 0).tolist() == list(range(6))


def test_a_finer_variable_holds_a_coarser_one() -> None:
    assert LEVELS.holds((0, 1), 4) == 0 and LEVELS.holds((3, 1), 4) == 3 and LEVELS.holds((4,), 4) == 4
    assert LEVELS.holds((4, 1), 3) is None and LEVELS.holds((1, 2), 0) is None


def test_fine_levels_are_the_attributes() -> None:
    fine = Levels.fine((4, 2))
    assert len(fine) == 2 and fine.chains == ((0,), (1,)) and fine.names(("a", "b")) == ("a", "b")


def test_all_views_at_once_get_as_coarse_as_each_alone() -> None:
    levels = Levels.of(
        (40, 6, 90, 2), [[np.arange(40) // 4], [], [np.arange(90) // 9, np.arange(90) // 45], []]
    )
    views = [(0, 2), (0, 1, 2), (1, 2, 3), (0, 1, 3), (3,), (1, 3)]
    for most in (5000, 900, 300, 100, 12, 3):
        alone = [found for view in views if (found := levels.coarse_enough(view, most))]
        together = levels.all_coarse_enough(padded(views).astype(np.int64), most)
        assert [tuple(v for v in row if v >= 0) for row in together.tolist()] == alone
