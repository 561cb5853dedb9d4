"""The private counts: equal to brute force on every path, sealed, and refused by public facts alone."""

from __future__ import annotations

import numpy as np
import pytest
from support.naive import count
from support.rows import tables_of

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.errors import ResourceError
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.dense import ProductModel
from factored_mwem.privacy.counts import PrivateCounts, PrivateRows, bytes_of, check_memory
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.workload import Workload


def candidates_of(shape: tuple[int, ...], order: int) -> Candidates:
    return Workload.marginals(order).candidates(
        Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)})
    )


def table_of(shape: tuple[int, ...], rows: int, seed: int) -> tuple[list[np.ndarray], list[tuple[int, ...]]]:
    rng = np.random.default_rng(seed)
    dtypes = [np.uint8 if s <= 2**8 else np.uint16 if s <= 2**16 else np.uint32 for s in shape]
    codes = [rng.integers(0, s, size=rows).astype(dtype) for s, dtype in zip(shape, dtypes, strict=True)]
    return codes, list(zip(*(c.tolist() for c in codes), strict=True))


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((2, 3, 4, 2), 3),
        ((2,) * 16, 2),
        ((2,) * 10, 4),
        ((2, 1) * 9, 2),  # an attribute of size 1 must not count as binary
        ((2,) * 14 + (3, 1, 300), 2),  # by bits and by rows in one list
        ((2,) * 8, 8),
        ((70_000, 2), 2),
        ((5,), 1),
        ((1,), 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 500])
def test_the_counts_are_brute_force(shape: tuple[int, ...], order: int, rows: int) -> None:
    codes, table = table_of(shape, rows, seed=rows)
    candidates = candidates_of(shape, order)
    offsets = candidates.offsets
    found = tables_of(codes, candidates).held
    assert found.dtype == np.int32 and len(found) == offsets[-1] == candidates.cells.sum()
    for c in range(0, len(candidates), 1 + len(candidates) // 150):
        if candidates.cells[c] < 10_000:
            assert found[offsets[c] : offsets[c + 1]].tolist() == count(table, shape, candidates.positions(c))
        else:
            assert found[offsets[c] : offsets[c + 1]].sum() == rows


@pytest.mark.parametrize("seed", range(6))
def test_the_counts_of_views_are_brute_force(seed: int) -> None:
    """At levels: every base, counted from the rows with their codes grouped by hand. What is added up from a
    base has no counts of its own.
    """
    rng = np.random.default_rng(seed)
    shape = (6, 4, 300, 2, 5)
    levels = Levels.of(
        shape,
        [
            [np.array([0, 0, 1, 2, 2, 1]), np.array([0, 0, 1, 0, 0, 1])],
            [],
            [rng.permutation(300) // 50],
            [],
            [[0, 1, 1, 1, 0]],
        ],
    )
    views = candidates_of(shape, 3).at(levels, float(rng.choice([30, 200, 4000, 1e9])))
    codes, table = table_of(shape, 400, seed=seed)
    tables = tables_of(codes, views)
    bases = np.flatnonzero(views.base_of == np.arange(len(views)))
    assert views.offsets[-1] == len(tables.held) == views.cells[bases].sum()
    for c in bases[:: 1 + len(bases) // 40].tolist():
        view = views.positions(c)
        grouped = [tuple(int(levels.groups[v][row[levels.attribute[v]]]) for v in view) for row in table]
        expected = count(grouped, [int(levels.sizes[v]) for v in view], tuple(range(len(view))))
        assert (
            tables.held[views.offsets[c] : views.offsets[c + 1]].tolist()
            == expected
            == tables.marginal(view).tolist()
        )


def test_rows_hand_their_codes_on_sealed() -> None:
    """PrivateRows gives any marginal and, once the candidates are known, their counts; it shows neither. A
    marginal may be of no attribute (the number of rows), and no candidate: a histogram start measures whole
    components.
    """
    codes, table = table_of((2, 3, 4), 50, seed=2)
    candidates = candidates_of((2, 3, 4), 1)
    rows = PrivateRows.coded(codes, candidates.domain)
    assert rows.names == ("a0", "a1", "a2")
    counts = rows.count(candidates)
    assert isinstance(counts, PrivateCounts)
    assert np.array_equal(counts.reveal().held, tables_of(codes, candidates).held)
    for positions in ((), (1,), (0, 2), (0, 1, 2)):
        for found in (rows.reveal().marginal(positions), counts.reveal().marginal(positions)):
            assert found.dtype == np.int64 and found.tolist() == count(table, (2, 3, 4), positions)


# ---- memory


def test_offsets_are_the_running_sum_of_cells() -> None:
    candidates = candidates_of((2, 3, 4), 2)
    assert candidates.offsets.tolist() == [0, 2, 5, 9, 15, 23, 35]


def test_memory_is_refused_from_public_facts() -> None:
    """The domain alone decides; the table has not been read yet. The message counts candidates and bytes,
    which are public. Where the counts are nearly all there is to it, they are four bytes a cell.
    """
    candidates = candidates_of((1000,) * 6, 3)
    assert bytes_of(candidates) > 4 * 20 * 1e9
    with pytest.raises(
        ResourceError,
        match=rf"41 candidate marginals need {bytes_of(candidates) / 1e9:.1f} GB, more than "
        r"the 16\.0 GB allowed; lower --marginals",
    ):
        check_memory(candidates, 16e9)
    check_memory(candidates, bytes_of(candidates))
    assert bytes_of(candidates) < 1.1 * 4 * candidates.cells.sum()


def test_memory_that_is_promised_is_enough() -> None:
    """What the counts and the layout of all answers take, at most what `bytes_of` says."""
    candidates = candidates_of((2,) * 300, 2)
    model, offsets = ProductModel.uniform(candidates.domain, 1.0), candidates.offsets
    answers = ModelAnswers(candidates).answers(model, np.arange(len(candidates)))
    arrays = [candidates.members, candidates.sizes, offsets, answers.which, answers.slots]
    used = sum(a.nbytes for a in [*arrays, answers.strides, answers.starts])
    used += 4 * offsets[-1] + 8 * len(candidates)  # and the kept distances
    assert used <= bytes_of(candidates)
