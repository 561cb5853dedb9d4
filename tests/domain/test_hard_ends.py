"""Hard ends: what stops while it is full ends there; what thins out, or stands out further away, is left."""

from __future__ import annotations

import numpy as np
import pytest

from factored_mwem.domain.hard_ends import hard_end, within_hard_ends

EDGES = np.array([0, 20, 60, 100, 140, 180, 220, 260, 300, 340, 380, 460, 780])
NONE = np.zeros(0, dtype=np.int64)


def held(values: np.ndarray, edges: np.ndarray = EDGES, special: np.ndarray = NONE) -> np.ndarray:
    counts: np.ndarray = np.histogram(values[~np.isin(values, special)], edges)[0]
    return counts


def cut(counts: np.ndarray, edges: np.ndarray = EDGES, **facts: object) -> tuple[int, int, np.ndarray]:
    facts = {"step": 1, "special": NONE} | facts
    return within_hard_ends(edges, counts, np.full(len(counts), 25.0), **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(("end", "to"), [(281, 284), (300, 300), (318, 320), (339, 340)])
def test_bins_are_as_wide_as_they_are_full(end: int, to: int) -> None:
    """Ten rows of each number, and noise of 25, which may hide three more. Seen to fail: bins beyond were
    kept; the last one was cut where it is full; nothing more was left for what noise hides.
    """
    first, beyond, edges = cut(held(np.repeat(np.arange(end), 10)))
    assert (first, edges[0]) == (0, 0)
    assert edges[-1] == to
    assert beyond == len(edges) - 1
    mirrored = 780 - EDGES[::-1]
    first, beyond, edges = cut(held(779 - np.repeat(np.arange(end), 10), mirrored), mirrored)
    assert (edges[0], edges[-1]) == (780 - to, 780)
    assert beyond - first == len(edges) - 1


def test_steps_special_values_and_floats_count_as_they_are() -> None:
    """Seen to fail: as if special values filled a bin, too; steps of one for multiples of five; a bin of
    floats that noise made empty, as wide as nothing, which ended releases that were paid for.
    """
    values, special = np.repeat(np.arange(312), 10), np.array([150, 302, 305, 311, 9999])
    assert cut(held(values, special=special), special=special)[2][-1] == 315  # 311 is special itself
    many = np.arange(140, 300, 2)
    assert cut(held(values, special=many), special=many)[2][-1] == 314
    by_five = np.repeat(np.arange(0, 315, 5), 50)
    assert cut(held(by_five), step=5)[2][-1] == 320
    floats = EDGES / 100
    _, _, edges = cut(held(np.linspace(0, 3.1, 3000), floats), floats)
    assert 3.12 <= edges[-1] <= 3.13
    empty = np.array([165, 381, 442, 415, 384, 395, 422, 410, -18, 7, 2, 11])
    assert cut(empty, floats)[2][-3:].tolist() == [2.2, 2.6, 3.0]
    close = 1000 + np.arange(5) * np.spacing(1000.0)
    assert (np.diff(cut(np.array([400, 400, 400, 60]), close)[2]) > 0).all()


def test_what_thins_out_or_stands_out_further_away_is_no_hard_end() -> None:
    """Seen to fail: without the look at bins before the end, or with one at those near it alone (real numbers
    of flights, and what rises or is a hump, lost a twentieth of their rows), or where noise hides how full
    they are; without that at what lies beyond.
    """
    room = np.diff(EDGES).astype(float)
    falls = 400 * np.exp(-np.arange(len(room)) / 4)
    assert hard_end(room, falls, np.full(len(room), 10.0)) is None
    steps = np.repeat([400.0, 500.0, 350.0, 150.0], 3)
    assert hard_end(np.full(12, 40.0), steps, np.full(12, 25.0)) is None
    shelf = np.repeat([500.0, 500.0, 200.0, 200.0], 3)
    assert hard_end(np.full(12, 40.0), shelf, np.full(12, 25.0)) is None
    rises = np.array([*np.linspace(20, 680, 11), 350])
    hump = np.array([40, 160, 360, 600, 680, 700, 600, 260.0])
    for counts in (rises, rises[::-1], hump):
        assert hard_end(np.full(len(counts), 40.0), counts, np.full(len(counts), 25.0)) is None
    flights = np.array([298, 586, 928, 233, 579, 413, 225, 330, 690, 501, 4545, 777, 204, 981.0])
    wide = np.array([60, 160, 190, 30, 100, 90, 60, 120, 160, 100, 2190, 210, 40, 1600.0])
    assert hard_end(wide, flights, np.full(len(wide), 8.0)) is None
    unknown = np.array([500.0] * 4 + [0])
    assert hard_end(np.full(5, 40.0), unknown, np.full(5, 60.0)) is None
    stands = held(np.repeat(np.arange(300), 10))
    stands[-1] = 160  # of 25
    assert hard_end(room, stands, np.full(len(room), 25.0)) is None
    assert hard_end(room, np.zeros(len(room)), np.full(len(room), 25.0)) is None
    infinite = np.append(room[:-1], np.inf)
    assert hard_end(infinite, np.full(len(room), 300.0), np.full(len(room), 25.0)) is None


def test_noise_far_out_moves_no_end() -> None:
    """300 draws of fixed seeds. Seen to fail: the last bin, however far out, taken to be the end."""
    rng, real = np.random.default_rng(2), held(np.repeat(np.arange(300), 30))
    ends = [cut(real + np.rint(rng.normal(0, 25, len(real))).astype(int))[2][-1] for _ in range(300)]
    assert np.mean(np.array(ends) > 305) < 0.02 and np.mean(np.array(ends) < 295) < 0.02
