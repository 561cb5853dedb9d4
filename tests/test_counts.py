"""The private counts: equal to brute force on every path, sealed, and refused by public facts alone."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from naive import count

from factored_mwem import counts
from factored_mwem.counts import PrivateCounts, Tables, bytes_of, check_memory, count_all
from factored_mwem.domain import Domain
from factored_mwem.errors import ResourceError
from factored_mwem.workload import Candidates, Workload


def candidates_of(shape: tuple[int, ...], order: int) -> Candidates:
    return Workload.marginals(order).candidates(Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)}))


def table_of(shape: tuple[int, ...], rows: int, seed: int) -> tuple[list[np.ndarray], list[tuple[int, ...]]]:
    rng = np.random.default_rng(seed)
    dtypes = [np.uint8 if s <= 2**8 else np.uint16 if s <= 2**16 else np.uint32 for s in shape]
    codes = [rng.integers(0, s, size=rows).astype(dtype) for s, dtype in zip(shape, dtypes, strict=True)]
    return codes, list(zip(*(c.tolist() for c in codes), strict=True))


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((2, 3, 4, 2), 3),
        ((2,) * 5, 3),  # few binary candidates
        ((2,) * 16, 2),  # more than 100: bits
        ((2,) * 10, 4),  # bits, several orders
        ((2, 1) * 9, 2),  # an attribute of size 1 must not count as binary
        ((2,) * 14 + (3, 1, 300), 2),  # both paths in one list
        ((2,) * 8, 8),  # beyond 6 attributes bits cost more than rows
        ((70_000, 2), 2),
        ((5,), 1),
        ((1,), 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 500])
def test_count_all_is_brute_force(shape: tuple[int, ...], order: int, rows: int) -> None:
    codes, table = table_of(shape, rows, seed=rows)
    candidates = candidates_of(shape, order)
    offsets = candidates.offsets
    found = count_all(codes, candidates)
    assert found.dtype == np.int32 and len(found) == offsets[-1] == candidates.cells.sum()
    for c in range(0, len(candidates), 1 + len(candidates) // 150):
        if candidates.cells[c] < 10_000:
            assert found[offsets[c] : offsets[c + 1]].tolist() == count(table, shape, candidates.positions(c))
        else:
            assert found[offsets[c] : offsets[c + 1]].sum() == rows


def test_both_paths_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 100 binary candidates are counted by bits, up to 6 attributes; the same list by rows gives the same."""
    shape = (2,) * 11
    codes, _ = table_of(shape, 3000, seed=5)
    candidates = candidates_of(shape, 7)
    by_bits = count_all(codes, candidates)
    monkeypatch.setattr(counts, "_count_binary", lambda *_: None)
    assert not np.array_equal(count_all(codes, candidates), by_bits), "the bits were not used"
    by_rows = np.zeros_like(by_bits)
    counts._count_other(codes, candidates, candidates.offsets, np.arange(len(candidates)), by_rows)
    assert np.array_equal(by_bits, by_rows)


@pytest.mark.parametrize("rows", [7, 8, 9, 24, 25])
def test_blocks_of_rows_add_up(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "BLOCK", 8)
    codes, table = table_of((3, 2, 4), rows, seed=1)
    candidates = candidates_of((3, 2, 4), 3)
    offsets = candidates.offsets
    found = count_all(codes, candidates)
    assert found.tolist() == [n for c in range(len(candidates)) for n in count(table, (3, 2, 4), candidates.positions(c))]


def test_any_marginal_on_demand() -> None:
    """Also of no attribute (the number of rows), and of what is no candidate: a histogram start measures whole components."""
    codes, table = table_of((2, 3, 4), 50, seed=2)
    tables = Tables(codes, candidates_of((2, 3, 4), 1))
    for positions in ((), (1,), (0, 2), (0, 1, 2)):
        found = tables.marginal(positions)
        assert found.dtype == np.int64 and found.tolist() == count(table, (2, 3, 4), positions)


def test_nothing_shows_prints_or_leaves() -> None:
    codes, _ = table_of((2, 3), 50, seed=3)
    sealed = PrivateCounts(codes, candidates_of((2, 3), 2))
    assert repr(sealed) == str(sealed) == "<PrivateCounts: private>" and sealed.names == ("a0", "a1")
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            leave(sealed)
    with pytest.raises(AttributeError):
        sealed.counts  # noqa: B018


# ---- memory


def test_offsets_are_the_running_sum_of_cells() -> None:
    candidates = candidates_of((2, 3, 4), 2)
    assert candidates.offsets.tolist() == [0, 2, 5, 9, 15, 23, 35]


def test_memory_is_refused_from_public_facts() -> None:
    """The domain alone decides; the table has not been read yet. The message counts candidates and bytes, which are public."""
    candidates = candidates_of((1000,) * 6, 3)
    assert bytes_of(candidates) > 4 * 20 * 1e9
    with pytest.raises(ResourceError, match=r"41 candidate marginals need 80\.1 GB, more than the 16\.0 GB allowed; lower --marginals"):
        check_memory(candidates, 16e9)
    check_memory(candidates, bytes_of(candidates))


def test_memory_that_is_promised_is_enough() -> None:
    """What the counts and the layout of all answers take, at most what `bytes_of` says."""
    from factored_mwem.answers import Answerer
    from factored_mwem.model import ProductModel

    candidates = candidates_of((2,) * 300, 2)
    answers = Answerer(candidates).answers(ProductModel.uniform(candidates.domain, 1.0), np.arange(len(candidates)))
    offsets = candidates.offsets
    arrays = [candidates.members, candidates.sizes, offsets, answers.which, answers.slots, answers.strides, answers.starts]
    used = sum(a.nbytes for a in arrays) + 4 * offsets[-1] + 8 * len(candidates)  # and the kept distances
    assert used <= bytes_of(candidates)
