"""Maps: columns of few values that follow from another by a table, a region from a state, found inside the
budget. One charged vector says for pairs of columns how many rows a table would get wrong; where hardly
any, the noisy marginal of the two makes it, and the second column is not modelled any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.grids import level
from factored_mwem.domain.rules import Derivation, Sum
from factored_mwem.mechanisms.functions import SHARE, SURE, Relation, compatible, sifted, wanted
from factored_mwem.privacy.functions import Pair, PrivateUndetermined
from factored_mwem.privacy.session import Measurement, Session
from factored_mwem.request.policy import Policy
from factored_mwem.tables.codes.decode import labels_of

TABLES = Fraction(1, 100)
"""Of the whole budget, for the marginals that tables are made of, all together."""
MOST_CODES = 512
"""Of a column that is looked at."""
MOST_CELLS = 2**24
"""Of the marginals of all pairs that are looked at."""


def maps_share(policy: Policy) -> Fraction:
    """Of the whole budget, what maps may cost."""
    return SHARE + TABLES if wanted(policy) else Fraction(0)


def maps_in(
    session: Session, domain: Domain, measured: Sequence[Measurement], policy: Policy, rows: float
) -> list[Relation]:
    """Which of the attributes that are modelled follow from another by a table, and these. `measured`: the
    marginals of each, in the session's rows; `rows`: noisy, of the table. Cost: up to `maps_share` of the
    budget, nothing where no pair may be one.
    """
    if not wanted(policy):
        return []
    budget, counts = session.accountant.budget.amount, [_scaled(m.noisy, rows) for m in measured]
    pairs = _small(domain.modelled.shape, _pairs(domain, counts, [m.stddev for m in measured]))

    def seal(asked: Sequence[Pair]) -> PrivateUndetermined:
        return PrivateUndetermined.of(session.rows, asked)

    sure = sifted(session, budget * SHARE, pairs, seal, rows, lambda pair: rows - counts[pair[1]].max())
    kept = _compatible(sure, domain.modelled.shape)
    return [_relation(domain.modelled, each, session, budget * TABLES / len(kept)) for each in kept]


_Kept = tuple[Pair, int, float]
"""A pair of which the second follows from the first, but for a noisy number of rows, and the noise of that.
"""


def _scaled(noisy: np.ndarray, rows: float) -> np.ndarray:
    """float64[code]: the counts, none below 0, as shares of so many rows."""
    counts = np.maximum(noisy, 0).astype(np.float64)
    return counts * (rows / max(counts.sum(), 1.0))


def exact(attribute: Attribute) -> bool:
    """Whether each code is one value, of a number that can be listed."""
    if not 2 <= attribute.size <= MOST_CODES:
        return False
    if attribute.categorical:
        return True
    single = attribute.type == "integer" and bool((np.diff(attribute.cuts) == 1).all())
    return single or (not len(attribute.bin_codes) and attribute.type in ("integer", "number"))


def _pairs(domain: Domain, counts: Sequence[np.ndarray], stddev: Sequence[float]) -> list[Pair]:
    """The pairs whose marginals allow it, those first that leave the most to be said. The counts of a column
    that follows are sums of counts of the other: so its largest k hold at least as much as the other's.
    """
    modelled = domain.modelled
    tied = {rule.compute for rules in domain.ties.values() for rule in rules} | set(domain.ties)
    parts = {name for rule in domain.rules if isinstance(rule, Sum) for name in rule.of}
    able = [a for a, attribute in enumerate(modelled) if exact(attribute)]
    entropies = {a: _entropy(counts[a]) for a in able}
    return [
        (a, b)
        for b in sorted(able, key=lambda b: -entropies[b])
        if not {modelled.names[b]} & (tied | parts)
        for a in able
        if a != b and _coarser(counts[a], counts[b], SURE * (stddev[a] + stddev[b]))
    ]


def _entropy(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def _coarser(fine: np.ndarray, coarse: np.ndarray, noise: float) -> bool:
    """Whether the `coarse` counts may be sums of the `fine` ones."""
    size = max(len(fine), len(coarse))
    tops = [np.cumsum(np.sort(np.pad(own, (0, size - len(own))))[::-1]) for own in (fine, coarse)]
    return bool((tops[1] >= tops[0] - noise * np.sqrt(np.arange(1, size + 1))).all())


def _small(shape: Sequence[int], pairs: Sequence[Pair]) -> list[Pair]:
    """The first pairs, as many as there is room for."""
    cells = np.cumsum([shape[a] * shape[b] for a, b in pairs])
    return list(pairs[: int(np.searchsorted(cells, MOST_CELLS, side="right"))])


def _compatible(kept: Sequence[_Kept], shape: Sequence[int]) -> list[_Kept]:
    """Each column from one other at most, which follows from none; from finer ones, and then earlier ones."""
    finest = sorted(kept, key=lambda each: (-shape[each[0][0]], each[0]))
    return compatible(finest, lambda pair: pair[::-1])


def _relation(domain: Domain, kept: _Kept, session: Session, cost: Fraction) -> Relation:
    """The table of a pair, made of its marginal: by code of the first the most frequent of the second."""
    (a, b), broken, stddev = kept
    first, second = min(a, b), max(a, b)
    taken = session.measure(session.rows, (first, second), cost=cost, stage="discover")
    table = taken.noisy.reshape(domain.shape[first], domain.shape[second])
    table = table if a < b else table.T
    source, target = domain.attributes[a], domain.attributes[b]
    most = np.argmax(table, axis=1)
    if target.other is not None:  # what cannot be told from noise is most likely rare
        clear = table.max(axis=1) > level(table.shape[1]) * taken.stddev
        most = np.where(clear, most, target.fallback_code)
    pairs: list[tuple[object, object]] = [
        (value, labels_of(target)[code]) for value, code in zip(labels_of(source), most.tolist(), strict=True)
    ]
    given: Mapping[str, object] = {"derive": target.name, "from": source.name, "map": pairs}
    return Relation(Derivation.model_validate(given), broken, stddev)
