"""Rows exchange values: none is lost, and none is left too low where there is a way."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from factored_mwem.tables.codes.exchange import exchanged

PAIRS = st.lists(st.tuples(st.integers(-3, 8), st.integers(0, 9)), min_size=1, max_size=12)


@given(PAIRS)
@example([(4, 3), (3, 1), (0, 7), (7, 4)])
@example([(5, 3), (3, 0), (9, 6), (1, 9), (0, 2), (2, 4)])
def test_rows_exchange_values_until_each_has_enough(pairs: list[tuple[int, int]]) -> None:
    """There is a way if, and only if, the values from the least to the greatest are enough for what is needed
    from the least to the greatest.

    Seen to fail: without exchanges by steps; where a row that got more than it needs gives none of it to
    others; where a row gets the least that is more, not the most; with values of a third row.
    """
    least, values = np.array(pairs, dtype=np.int64).T
    place = exchanged(least, values)
    assert sorted(place.tolist()) == list(range(len(pairs)))
    short = values[place] < least
    if (np.sort(values) >= np.sort(least)).all():
        assert not short.any()
    assert short.sum() <= (values < least).sum()
    if (values >= least).all():  # who needs nothing keeps what is theirs
        assert place.tolist() == list(range(len(pairs)))
