"""Questions behind the door: counts and distances against rows, and how far one person moves them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.other.cuts import CutCells, CutGap, PrivateQuestions, TableCut
from factored_mwem.privacy.rows import SCORE_GRID

DOMAIN = Domain.from_dict({"a": 3, "b": 2})
CUT = TableCut((0, 1), (np.array([0, 1, 1]), np.array([1, 0])))
ALONE = TableCut((0,), (np.array([1, 0, 1]),))
CELLS = list(itertools.product(range(3), range(2)))


def asked(rows: list[tuple[int, int]]) -> PrivateQuestions:
    codes = np.array(rows, dtype=np.uint8).reshape(-1, 2)
    return PrivateQuestions.of(PrivateRows.coded([codes[:, 0].copy(), codes[:, 1].copy()], DOMAIN))


def by_hand(rows: list[tuple[int, int]], cut: TableCut) -> list[int]:
    found = [0] * cut.cells
    for row in rows:
        cell = 0
        for a, classes, size in zip(cut.positions, cut.classes, cut.sizes, strict=True):
            cell = cell * size + int(classes[row[a]])
        found[cell] += 1
    return found


ROWS = [(0, 0), (0, 1), (1, 1), (2, 1), (2, 1), (2, 0)]


@pytest.mark.parametrize("cut", [CUT, ALONE, TableCut((), ())])
def test_cells_are_counted_exactly(cut: TableCut) -> None:
    contents = asked(ROWS).reveal()
    assert contents.exact(CutCells(cut)).tolist() == by_hand(ROWS, cut)
    for cell in range(cut.cells):
        assert contents.exact(CutCells(cut, cell)).tolist() == [by_hand(ROWS, cut)[cell]]


def test_recoded_rows_are_cut_by_their_new_codes() -> None:
    coarser = Domain.from_dict({"a": 2, "b": 2})
    rows = PrivateRows.coded([np.array([r[i] for r in ROWS], dtype=np.uint8) for i in (0, 1)], DOMAIN)
    recoded = rows.recode(coarser, {"a": np.array([0, 1, 1]), "b": np.array([0, 1])})
    cut = TableCut((0,), (np.array([1, 0]),))
    assert PrivateQuestions.of(recoded).reveal().exact(CutCells(cut)).tolist() == [4, 2]


def test_the_gap_is_the_greatest_distance_in_grains() -> None:
    contents, counts = asked(ROWS).reveal(), by_hand(ROWS, CUT)
    grains = tuple(round(x * SCORE_GRID) for x in (1.25, 0.0, 7.5))
    what = CutGap(CUT, (0, 1, 3), grains)
    expected = max(abs(counts[c] * SCORE_GRID - g) for c, g in zip((0, 1, 3), grains, strict=True))
    assert contents.gap(what, 0) == expected
    lifted = max(abs(counts[c] * SCORE_GRID - g - 9) for c, g in zip((0, 1, 3), grains, strict=True))
    assert contents.gap(what, 9) == lifted


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("k", [1, 2])
def test_no_neighbour_moves_a_count_or_a_gap_by_more_than_is_charged(relation: Neighbours, k: int) -> None:
    """Every neighbour of a table, of a person with up to k rows; and some neighbour moves it by just that."""
    unit = Unit(relation, k)
    grains = tuple(round(x * SCORE_GRID) for x in (1.25, 0.0, 7.5, 2.0))
    parts = [CutCells(CUT), CutCells(CUT, 2), CutCells(ALONE), CutCells(TableCut((), ()))]
    compared = [CutGap(CUT, (0, 1, 2, 3), grains), CutGap(CUT, (1,), (0,))]
    # a person's rows come (to a table that has them elsewhere), or are exchanged for as many others
    person = [
        list(rows) for size in range(k + 1) for rows in itertools.combinations_with_replacement(CELLS, size)
    ]
    seen = []
    for rows in person:
        contents = asked([*ROWS, *rows]).reveal()
        seen.append(([contents.exact(part) for part in parts], [contents.gap(what, 0) for what in compared]))
    moved: dict[tuple[int, str], int] = {}
    for left in seen:
        for right in seen if relation is Neighbours.REPLACE else seen[:1]:  # the first: nobody came
            for i, (one, other) in enumerate(zip(left[0], right[0], strict=True)):
                change = np.abs(one - other)
                for name, norm in (("pure", change.sum()), ("zcdp", (change**2).sum())):
                    moved[i, name] = max(moved.get((i, name), 0), int(norm))
            for i, (one, other) in enumerate(zip(left[1], right[1], strict=True), start=len(parts)):
                moved[i, "pure"] = max(moved.get((i, "pure"), 0), abs(one - other))
    sealed = asked(ROWS)
    for i, part in enumerate(parts):
        for composition in Composition:
            charged = sealed.sensitivity(part, unit, composition)
            worst = moved[i, composition.value]
            assert worst <= charged
            if part.cut.positions:
                assert worst == charged
    for i, what in enumerate(compared, start=len(parts)):
        assert moved[i, "pure"] == sealed.sensitivity(what, unit, Composition.PURE) * SCORE_GRID


def test_what_a_question_is_about_is_public() -> None:
    sealed = asked(ROWS)
    assert sealed.query(CutCells(CUT), Unit()).subject == ("a", "b")
    assert sealed.query(CutGap(ALONE, (0,), (0,)), Unit()).positions == (0,)
    assert repr(sealed) == "<PrivateQuestions: private>"
