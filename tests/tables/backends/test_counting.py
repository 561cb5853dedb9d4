"""Every path equals a plain count, whatever the threads and blocks, in no more memory than promised."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from support.naive import count

from factored_mwem.errors import ResourceError
from factored_mwem.kernels.counting import MAX_LOCAL_CELLS, MAX_SLICES
from factored_mwem.tables.backends import counting
from factored_mwem.tables.backends.counting import bytes_needed, count_all, facets_of

Shape = tuple[int, ...]

# name -> (sizes of the columns, order of the marginals, whether bits, rows or both must have counted them)
SHAPES: dict[str, tuple[Shape, int, set[bool]]] = {
    "one column": ((5,), 1, {True}),
    "one value": ((1,), 1, {True}),
    "one large column": ((70_000, 2), 1, {True, False}),
    "binary pairs": ((2,) * 16, 2, {True}),
    "binary, order 6": ((2,) * 7, 6, {True}),
    "binary, order 8": ((2,) * 8, 8, {True}),
    "size one everywhere": ((1, 1, 1), 3, {True}),
    "size one first, inside and last": ((1, 3, 1, 2, 1), 4, {True}),
    "two beside larger": ((2, 300, 2, 40, 2), 3, {True, False}),
    "small domains": ((5, 3, 4, 6), 3, {True}),
    "just under and over the slices": ((5, 17, 9, 18, 2), 3, {True, False}),
    "above the small tables": ((30, 21, 17, 2), 3, {True, False}),
}
named = pytest.mark.parametrize(("shape", "order", "by_bits"), SHAPES.values(), ids=SHAPES)
MIXED = (2, 2, 5, 40, 1, 3, 60, 9)


def members_of(columns: int, order: int) -> np.ndarray:
    """All candidates of up to `order` columns, the smaller ones padded."""
    listed = [
        m + (-1,) * (order - k)
        for k in range(1, order + 1)
        for m in itertools.combinations(range(columns), k)
    ]
    return np.array(listed, dtype=np.int32).reshape(-1, order)


def offsets_of(shape: Shape, members: np.ndarray) -> np.ndarray:
    return np.cumsum([0, *np.array([*shape, 1])[members].prod(axis=1)]).astype(np.int64)


def columns_of(shape: Shape, rows: int, *, skewed: bool = False, seed: int = 0) -> list[np.ndarray]:
    """Columns in the narrowest type; skewed: nine of ten rows have the last value."""
    rng = np.random.default_rng([seed, rows])
    dtypes = [np.uint8 if s <= 2**8 else np.uint16 if s <= 2**16 else np.uint32 for s in shape]
    often = rng.random((len(shape), rows)) < (0.9 if skewed else 0.0)
    return [
        np.where(o, s - 1, rng.integers(0, s, size=rows)).astype(d)
        for o, s, d in zip(often, shape, dtypes, strict=True)
    ]


def counted(columns: Sequence[np.ndarray], shape: Shape, members: np.ndarray) -> np.ndarray:
    return count_all(columns, np.array(shape, dtype=np.int64), members, offsets_of(shape, members))


def plain(columns: Sequence[np.ndarray], shape: Shape, members: np.ndarray) -> np.ndarray:
    """One np.bincount a candidate."""
    found = [np.zeros(0, dtype=np.int64)]
    for member in members.tolist():
        cell, cells = np.zeros(len(columns[0]), dtype=np.int64), 1
        for m in member:
            if m >= 0:
                cell, cells = cell * shape[m] + columns[m], cells * shape[m]
        found.append(np.bincount(cell, minlength=cells))
    return np.concatenate(found)


def by_bits_of(shape: Shape, members: np.ndarray) -> np.ndarray:
    return facets_of(np.array(shape, dtype=np.int64), members, offsets_of(shape, members))[:, 0] >= 0


def check_counts(columns: Sequence[np.ndarray], shape: Shape, members: np.ndarray) -> np.ndarray:
    """The counts, which are the plain ones."""
    found = counted(columns, shape, members)
    assert np.array_equal(found, plain(columns, shape, members))
    return found


@named
@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 2379])
@pytest.mark.parametrize("skewed", [False, True], ids=["flat", "skewed"])
def test_counts_are_plain(shape: Shape, order: int, by_bits: set[bool], rows: int, skewed: bool) -> None:
    members, columns = members_of(len(shape), order), columns_of(shape, rows, skewed=skewed)
    assert set(by_bits_of(shape, members).tolist()) == by_bits, "the shape no longer tests what its name says"
    assert check_counts(columns, shape, members).dtype == np.int32


def test_the_plain_count_is_the_oracles() -> None:
    columns = columns_of((2, 3, 4), 50)
    table = list(zip(*(c.tolist() for c in columns), strict=True))
    members = members_of(3, 3)
    expected = [n for m in members.tolist() for n in count(table, (2, 3, 4), tuple(p for p in m if p >= 0))]
    assert check_counts(columns, (2, 3, 4), members).tolist() == expected


@pytest.mark.parametrize("seed", range(20))
def test_any_list_of_candidates_in_any_order(seed: int) -> None:
    """Facets may be missing, listed later, or listed twice; columns may be unused."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.choice([1, 2, 3, 5, 8, 17, 18, 100], size=6).tolist())
    members = members_of(6, 3)
    members = members[rng.integers(len(members), size=rng.integers(0, 60))]
    check_counts(columns_of(shape, 500, seed=seed), shape, members)


def test_no_facet_no_bits() -> None:
    """Facets are found wherever in the list they are."""
    members = np.array([[0, 1], [2, -1], [0, -1], [1, 2], [0, 2]], dtype=np.int32)
    assert by_bits_of((2, 2, 2), members).tolist() == [False, True, True, False, True]


def test_no_candidates() -> None:
    assert counted(columns_of((2, 3), 9), (2, 3), np.empty((0, 2), dtype=np.int32)).tolist() == []


def test_tables_at_the_bound_of_the_small_ones() -> None:
    for size in (MAX_LOCAL_CELLS - 1, MAX_LOCAL_CELLS, MAX_LOCAL_CELLS + 1):
        check_counts(columns_of((size,), 5001, skewed=True), (size,), np.array([[0]], dtype=np.int32))


def test_candidates_at_the_bound_of_the_slices() -> None:
    """Every prefix must fit the kernel's buffer: 1 * 1 * 16 * 8 slices at most, in any order of columns."""
    for shape in itertools.permutations((1, 2, 17, MAX_SLICES // 16 + 1)):
        members = members_of(4, 4)
        assert by_bits_of(shape, members).all()
        check_counts(columns_of(shape, 700), shape, members)
    # a column of size 1 has no slice, what comes before it may have
    for shape in ((17, MAX_SLICES // 16 + 2), (17, 17, 1), (1, 17, 17)):
        assert not by_bits_of(shape, members_of(len(shape), len(shape)))[-1]


@pytest.mark.parametrize("rows", [7, 64, 127, 128, 129, 1000])
def test_blocks_of_rows_add_up(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MAX_WORDS", 2)
    monkeypatch.setattr(counting, "MIN_BLOCK_ROWS", 32)
    monkeypatch.setattr(counting, "MAX_BLOCK_BYTES", 1)
    check_counts(columns_of(MIXED, rows), MIXED, members_of(len(MIXED), 3))


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("shares", [1, 3])
def test_threads_change_nothing(workers: int, shares: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a part begins within a shared prefix, and where there are more threads than candidates."""
    monkeypatch.setattr(counting, "WORKERS", workers)
    monkeypatch.setattr(counting, "SHARES", shares)
    for order in (1, 3):
        check_counts(columns_of(MIXED, 3000), MIXED, members_of(len(MIXED), order))


def test_columns_are_left_as_they_are_and_may_be_read_only_or_strided() -> None:
    whole = np.array(columns_of((200,) * 3, 300)).T.copy()
    whole.flags.writeable = False
    check_counts([whole[:, i] for i in range(3)], (200,) * 3, members_of(3, 2))


@pytest.mark.parametrize("rows", [49, 50, 51, 100, 101, 420])
@pytest.mark.parametrize("shape", [(2, 2, 3), (20, 30, 40)], ids=["bits", "rows"])
def test_rows_beyond_32_bits_are_counted(rows: int, shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 2^31 - 1 rows in earnest: no count wraps round."""
    assert counting.MAX_COUNT == 2**31 - 1  # and one block more fits 32 bits
    monkeypatch.setattr(counting, "MAX_COUNT", 50)
    found = check_counts(columns_of(shape, rows, skewed=True), shape, members_of(3, 3))
    assert found.dtype == (np.int32 if rows <= 50 else np.int64)


# ---- memory


@pytest.mark.parametrize(
    ("shape", "order", "rows"),
    [
        ((2,) * 300, 2, 70_000),
        ((5,) * 30, 3, 70_000),
        ((200, 2, 50, 9) * 4, 2, 400_000),
        ((18,) * 300, 1, 20_000),
        pytest.param((17,) * 900, 1, 40_000, marks=pytest.mark.slow),
        ((3,), 1, 10),
    ],
    ids=["binary", "small domains", "mixed", "wide", "many slices", "tiny"],
)
def test_memory_that_is_promised_is_enough(shape: Shape, order: int, rows: int) -> None:
    """tracemalloc sees what numpy allocates, and the kernels too."""
    members, columns = members_of(len(shape), order), columns_of(shape, rows)
    offsets, sizes = offsets_of(shape, members), np.array(shape, dtype=np.int64)
    count_all([c[:1] for c in columns], sizes, members, offsets)  # compiled
    tracemalloc.start()
    count_all(columns, sizes, members, offsets)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    bound = bytes_needed(members, sizes, offsets, rows)
    assert peak <= bound
    assert bound <= bytes_needed(members, sizes, offsets, np.inf)
    assert bound < 10 * peak + 2**20 * 8 * counting.WORKERS, "a bound that says nothing"


def test_a_table_as_a_whole_is_never_copied() -> None:
    """A hundred columns of a hundred million rows: the bound does not know them."""
    members, sizes = members_of(100, 2), np.full(100, 20)
    offsets = offsets_of((20,) * 100, members)
    assert bytes_needed(members, sizes, offsets, 1e8) < 4 * offsets[-1] + 100e6


def test_a_marginal_beyond_32_bits_is_refused() -> None:
    members = np.array([[0, 1]], dtype=np.int32)
    with pytest.raises(ResourceError, match=r"more than 2\^32 cells; lower --max-cells"):
        count_all(columns_of((2, 2), 1), np.array([2**16, 2**16]), members, np.array([0, 2**32]))
