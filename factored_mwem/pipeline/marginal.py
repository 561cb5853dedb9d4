"""Marginal: the counts of a release's model over some columns, with a label for each code of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.model.forest import Forest
from factored_mwem.tables.codes.decode import Label, labels_of

MAX_MARGINAL_CELLS = 2**26
"""Half a gigabyte of counts."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Marginal:
    """Records by the values of some columns, as estimated by a model: `counts: float64[codes, ...]`.

    The axes of `counts` stand for `names`, in that order; `labels` says what their positions stand for.

    >>> import numpy as np
    >>> from factored_mwem import Marginal
    >>> counts = Marginal(("sex", "age"), (("F", "M"), ("0..49", "50..99")), np.array([[3.0, 4], [2, 1]]))
    >>> counts.counts[counts.labels[0].index("M")].sum()
    np.float64(3.0)
    >>> counts.to_pandas()["F", "50..99"]
    np.float64(4.0)
    """

    names: tuple[str, ...]
    labels: tuple[tuple[Label, ...], ...]
    counts: np.ndarray

    def __repr__(self) -> str:
        axes = " x ".join(
            f"{name!r:.40} ({len(of)})" for name, of in zip(self.names, self.labels, strict=True)
        )
        return f"Marginal({axes}: {self.counts.sum():,.1f} records)"

    def to_pandas(self) -> Any:
        """A pandas series of counts, indexed by the labels of all columns."""
        import pandas as pd

        index = pd.MultiIndex.from_product(self.labels, names=self.names)
        return pd.Series(self.counts.ravel(), index=index, name="records")


def marginal_of(model: Forest, domain: Domain, names: tuple[str, ...]) -> Marginal:
    """The marginal over columns in the order of `names`; raises InputError in one line if it cannot be."""
    if not names or len(set(names)) != len(names):
        raise InputError("a marginal is over one column or more, each named once")
    try:  # a column that follows from another is an axis of that one
        sources = [domain.source_of(name) for name in names]
    except ValueError as error:
        raise InputError(f"no marginal of this model: {error}") from None
    modelled, shape = domain.modelled, tuple(domain[name].size for name in names)
    view = tuple(sorted({modelled.index(source) for source, _ in sources}))
    for axes in (shape, [modelled.shape[p] for p in view]):
        if (cells := math.prod(axes)) > MAX_MARGINAL_CELLS:
            most = f"{MAX_MARGINAL_CELLS:,} is the most"
            raise ResourceError(f"a marginal of {cells:,} cells is too large; {most}")
    known = model.marginal(view).reshape([modelled.shape[p] for p in view])
    counts, place = np.zeros(shape), np.indices(known.shape, sparse=True)
    cells_of = tuple(codes[place[view.index(modelled.index(source))]] for source, codes in sources)
    np.add.at(counts, cells_of, known)
    return Marginal(names, tuple(labels_of(domain[name]) for name in names), counts)
