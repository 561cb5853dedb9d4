"""Neighbours as Hypothesis draws them: the rows of two tables that differ in one person, and the unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from support.tables import UNITS

from factored_mwem.accounting.unit import Neighbours, Unit


@st.composite
def neighbours(
    draw: st.DrawFn, row: st.SearchStrategy[Any], times: Sequence[int]
) -> tuple[list[Any], list[Any], Unit]:
    """Up to three rows, or so many `times` as many, of others; and one person's, or one's and another's."""
    unit = draw(st.sampled_from(UNITS))
    others, k = draw(st.lists(row, max_size=3)) * draw(st.sampled_from(times)), unit.contributions
    one, other = (draw(st.lists(row, max_size=k)) for _ in range(2))
    return others + one, others + other * (unit.neighbours is Neighbours.REPLACE), unit
