"""Rows exchange values: none is lost, and none is left too low where there is a way."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from factored_mwem.tables.codes.exchange import exchanged

PAIRS = st.lists(st.tuples(st.integers(-3, 8), st.integers(0, 9)), min_size=1, max_size=12)


@given(PAIRS)
def test_rows_exchange_values_until_each_has_enough(pairs: list[tuple[int, int]]) -> None:
    """There is a way if, and only if, the values from the least to the greatest are enough for what is needed
    from the least to the greatest.

    Seen to fail: with one pass; without exchanges that leave a row less short; with values of a third row.
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
