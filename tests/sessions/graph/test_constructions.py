"""Frieze and Kannan's construction and multiplicative weights over pairs, by hand. Their bounds are held in
`online/test_constructions.py`, beside those of the others.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.graphs import adjacency, coefficients, packed, random_cut

from factored_mwem.errors import InputError, ResourceError
from factored_mwem.sessions.graph.constructions import CutFriezeKannan, PairWeights
from factored_mwem.workload.cuts import Cut


def test_steps_of_two_and_a_half_are_seen() -> None:
    """Planted: a step too long overshoots, and the potential no longer falls."""
    graph, made = adjacency(5, [(0, 1)]), CutFriezeKannan(5, 2.5, 1.0)
    cut = Cut(*np.eye(5, dtype=bool)[:2])
    before = packed((graph - made.hypothesis.dense()) ** 2).sum()
    made.update(cut, 1.0)
    assert packed((graph - made.hypothesis.dense()) ** 2).sum() > before


def test_frieze_kannan_by_hand() -> None:
    """THEORY: D and q the same two of |X| elements, alpha 1: with |X| = 6 pairs the paper's steps of 1/6 are
    made until 2 - 2 t / 6 < 1: four, of B = 12; the sharper ones, of 1/2, once more: 2, 1, then 0 is below 1.
    """
    cut = Cut(np.array([1, 0, 0, 0], bool), np.array([0, 0, 1, 1], bool))
    for step, count in (("paper", 4), ("sharp", 2)):
        made = CutFriezeKannan(4, 1.0, 2.0, step=step)  # type: ignore[arg-type]
        assert made.bound(1.0) == 12
        updates = 0
        while abs(2 - made.answer(cut)) >= 1 - 1e-12:
            made.update(cut, 2.0)
            updates += 1
        assert updates == count


def test_weights_are_the_dense_rule_with_one_more_element() -> None:
    """exp(-eta r), r = q or 1 - q, normalised (THEORY D.3), on |X| + 1 elements."""
    rng = np.random.default_rng(9)
    n, alpha, edges = 6, 1.5, 9.0
    made, dense = PairWeights(n, alpha, edges), np.full(16, 1 / 16)
    for _ in range(80):
        cut = random_cut(rng, n)
        q = np.append(packed(coefficients(cut)), 0.0)
        assert made.answer(cut) == pytest.approx(edges * q @ dense)
        low = rng.random() < 0.5
        r = q if low else 1 - q
        dense = dense * np.exp(-alpha / (2 * edges) * r)
        dense /= dense.sum()
        made.update(cut, made.answer(cut) + (-1 if low else 1))
    assert np.allclose(made.weights(), edges * dense[:-1])
    assert made.bound(alpha) == 4 * edges**2 * math.log(16) / alpha**2


def test_weights_that_grow_without_end_stay_numbers() -> None:
    made, cut = PairWeights(3, 1.9, 1.0), Cut(*np.eye(3, dtype=bool)[:2])
    for value in (2.0, -1.0):
        for _ in range(3000):
            made.update(cut, value)
        assert 0 <= made.answer(cut) <= 1 and np.isfinite(made.weights()).all()
    assert made.answer(cut) < 1e-6


def test_what_makes_no_sense_is_refused() -> None:
    for kind in (CutFriezeKannan, PairWeights):
        for alpha, edges in ((0.0, 1.0), (1.0, 0.0), (math.nan, 1.0)):
            with pytest.raises(InputError):
                kind(3, alpha, edges)
    with pytest.raises(ResourceError):
        PairWeights(20_000, 1.0, 1.0)
    empty = Cut(np.zeros(3, bool), np.zeros(3, bool))
    made = CutFriezeKannan(3, 1.0, 1.0)
    made.update(empty, 1.0)
    assert made.hypothesis.terms == 0 and made.answer(empty) == 0.0
