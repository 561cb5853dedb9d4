"""Maps: columns of few values that follow from another by a table, a region from a state, found inside the
budget. One charged vector says for pairs of columns how many rows a table would get wrong; where hardly any, the
noisy marginal of the two makes it, and the second column is not modelled any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.rules import Derivation, Sum
from factored_mwem.mechanisms.functions import SHARE, SURE, Relation, sifted, wanted
from factored_mwem.privacy.functions import Pair, PrivateUndetermined
from factored_mwem.privacy.session import Session
from factored_mwem.request.policy import Policy
from factored_mwem.tables.codes.decode import labels_of

if TYPE_CHECKING:
    from factored_mwem.mechanisms.learn import Learning

TABLES = Fraction(1, 100)
"""Of the whole budget, for the marginals that tables are made of, all together."""
MOST_CODES = 512
"""Of a column that is looked at."""
MOST_CELLS = 2**24
"""Of the marginals of all pairs that are looked at."""


def maps_share(policy: Policy) -> Fraction:
    """Of the whole budget, what maps may cost."""
    return SHARE + TABLES if wanted(policy) else Fraction(0)


def with_maps(learning: Learning, policy: Policy, rows: float) -> Learning:
    """The same with the columns that follow from others by a table. Cost: up to `maps_share` of the budget,
    nothing where no pair may be one. `rows`: noisy, of the table.
    """
    domain, session = learning.domain, learning.session
    if not wanted(policy):
        return learning
    budget, counts = session.accountant.budget.amount, _shares_of(learning, rows)
    pairs = _small(domain.modelled.shape, _pairs(domain, counts, learning))

    def seal(asked: Sequence[Pair]) -> PrivateUndetermined:
        return PrivateUndetermined.of(session.rows, asked)

    sure = sifted(session, budget * SHARE, pairs, seal, rows, lambda pair: rows - counts[pair[1]].max())
    kept = _compatible(sure, domain.modelled.shape)
    if not kept:
        return learning
    more = [_relation(domain.modelled, each, session, budget * TABLES / len(kept)) for each in kept]
    rules = [relation.rule for relation in more]
    domain = Domain(domain.attributes, rules=[*domain.rules, *rules])
    left = [i for i, name in enumerate(learning.domain.modelled.names) if name not in domain.derived]
    same = {a.name: np.arange(a.size) for a in domain.modelled}
    measured = tuple(replace(learning.measured[i], positions=(at,)) for at, i in enumerate(left))
    return replace(
        learning,
        domain=domain,
        session=session.recode(domain.modelled, same),
        measured=measured,
        relations=(*learning.relations, *more),
    )


_Kept = tuple[Pair, int, float]
"""A pair of which the second follows from the first, but for a noisy number of rows, and the noise of that."""


def _shares_of(learning: Learning, rows: float) -> list[np.ndarray]:
    """float64[code] of each modelled attribute: noisy counts, none below 0, that add up to `rows`."""
    counts = [np.maximum(m.noisy, 0).astype(np.float64) for m in learning.measured]
    return [own * (rows / max(own.sum(), 1.0)) for own in counts]


def exact(attribute: Attribute) -> bool:
    """Whether each code is one value, of a number that can be listed."""
    if not 2 <= attribute.size <= MOST_CODES:
        return False
    if attribute.categorical:
        return True
    single = attribute.type == "integer" and bool((np.diff(attribute.cuts) == 1).all())
    return single or (not len(attribute.bin_codes) and attribute.type in ("integer", "number"))


def _pairs(domain: Domain, counts: Sequence[np.ndarray], learning: Learning) -> list[Pair]:
    """The pairs whose marginals allow it, those first that leave the most to be said. The counts of a column
    that follows are sums of counts of the other: so its largest k hold at least as much as the other's.
    """
    modelled = domain.modelled
    tied = {rule.compute for rules in domain.ties.values() for rule in rules} | set(domain.ties)
    parts = {name for rule in domain.rules if isinstance(rule, Sum) for name in rule.of}
    able = [a for a, attribute in enumerate(modelled) if exact(attribute)]
    stddev = [m.stddev for m in learning.measured]
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
    chosen: list[_Kept] = []
    targets, sources = set[int](), set[int]()
    for each in sorted(kept, key=lambda each: (-shape[each[0][0]], each[0])):
        a, b = each[0]
        if b in targets | sources or a in targets:
            continue
        chosen.append(each)
        targets.add(b)
        sources.add(a)
    return chosen


def _relation(domain: Domain, kept: _Kept, session: Session, cost: Fraction) -> Relation:
    """The table of a pair, made of its marginal: of each code of the first the most frequent of the second."""
    (a, b), broken, stddev = kept
    first, second = min(a, b), max(a, b)
    taken = session.measure(session.rows, (first, second), cost=cost, stage="discover")
    table = taken.noisy.reshape(domain.shape[first], domain.shape[second])
    most = np.argmax(table if a < b else table.T, axis=1)
    source, target = domain.attributes[a], domain.attributes[b]
    pairs: list[tuple[object, object]] = [
        (value, labels_of(target)[code]) for value, code in zip(labels_of(source), most.tolist(), strict=True)
    ]
    given: Mapping[str, object] = {"derive": target.name, "from": source.name, "map": pairs}
    return Relation(Derivation.model_validate(given), broken, stddev)
