"""Maps: columns that follow by a table from one other, a region from a state, or from two together, a
distance from two places, found inside the budget. One charged vector says how many rows such a table would
get wrong; where hardly any, the noisy marginal of its columns makes it, and what follows is not modelled any
more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from factored_mwem.domain.attribute import OTHER, Attribute, Scalar
from factored_mwem.domain.derived import single_valued
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.functions import points_of
from factored_mwem.domain.grids import level
from factored_mwem.domain.rules import Arithmetic, Derivation, Implication, Lookup, Order
from factored_mwem.mechanisms.functions import (
    MOST_LOOKS,
    SHARE,
    SURE,
    Relation,
    compatible,
    keeps_zeros,
    pays,
    revalidated,
    sifted,
    wanted,
)
from factored_mwem.mechanisms.prune import Pruned
from factored_mwem.privacy.functions import Dependency, PrivateUndetermined
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Measurement, Session
from factored_mwem.request.policy import Policy
from factored_mwem.tables.codes.decode import Label, labels_of

TABLES = Fraction(1, 100)
"""Of the whole budget, for the marginals that tables are made of, all together."""
MOST_CODES = 512
"""Of a column that is looked at."""
MOST_CELLS = 2**24
"""Of the marginals of all pairs that are looked at, and of all that two columns are looked at for."""
OF_TWO = SHARE / 2
"""Of the whole budget, for the looks at what follows from two columns."""
MOST_DOUBLES = 64
"""Columns that are looked at for whether they follow from two others."""
TELLING = 0.7
"""At least this share of what two columns say, if they have nothing to do with each other, a third one says
that is looked at: one that says less follows from one of them, or by chance.
"""
ROWS_A_CELL = 20
"""At least so many rows there are to a combination of two columns: of fewer each says anything by chance."""
WIDE = 0.1
"""At most this share of the rows lie in bins of several values in a column that follows from two."""
REST = 0.02
"""Where more of the rows hold `other` in a column, another may follow from its listed values alone: then it
is modelled, and the model holds no other pairs.
"""
TOLD = 0.9
"""At least this share of the rows has a combination whose value stands out from the noise in the table of a
column that follows from two; else the table would be made of noise, and is not used.
"""


def maps_share(policy: Policy) -> Fraction:
    """Of the whole budget, what maps may cost."""
    return (SHARE + OF_TWO) * MOST_LOOKS + TABLES if wanted(policy) else Fraction(0)


class Unpruned(NamedTuple):
    """What was there before pruning: a session over the rows in the `domain` of then and, by attribute, what
    became of it and the marginal that says so.
    """

    session: Session
    domain: Domain
    seen: Mapping[str, tuple[Pruned, Measurement]]

    def undetermined(
        self, names: Sequence[str], asked: Sequence[Dependency], rest: Mapping[int, int]
    ) -> PrivateUndetermined:
        """Of attributes by their numbers among `names` after pruning. Left out are rows whose value was
        pruned, as it is not told any more, or is one of the `rest`.
        """
        at = {a: self.domain.names.index(names[a]) for of, b in asked for a in (*of, b)}
        left_out = {}
        for a in {a for of, _ in asked for a in of}:
            pruned, _ = self.seen[names[a]]
            left_out[at[a]] = np.flatnonzero(~pruned.kept | (pruned.codes == rest.get(a, -1)))
        of_then = [(tuple(at[a] for a in of), at[b]) for of, b in asked]
        return PrivateUndetermined.of(self.session.rows, of_then, left_out)


def maps_in(
    session: Session,
    domain: Domain,
    measured: Sequence[Measurement],
    before: Unpruned,
    policy: Policy,
    rows: float,
    public: Collection[str] = (),
) -> tuple[list[Relation], list[Attribute]]:
    """Which of the attributes that are modelled follow from one or two others by a table, and these; and what
    becomes of an attribute where a table says that it has more values than were seen. `measured`: the
    marginals of each, in the session's rows; `rows`: noisy, of the table; `public` ones do not follow. Cost:
    up to `maps_share` of the budget, nothing where none may be one, or less is left.
    """
    if not wanted(policy) or not pays(session, maps_share(policy)):
        return [], []
    budget, counts = session.accountant.budget.amount, [_scaled(m.noisy, rows) for m in measured]
    modelled, rest = domain.modelled, _rest(domain.modelled)
    few = {a: code for a, code in rest.items() if counts[a][code] <= REST * rows}
    left_out = rest if keeps_zeros(policy) else few
    hidden = {a for a, name in enumerate(modelled.names) if name in public}

    def about(asked: Dependency) -> float:
        return rows - max((counts[a][left_out[a]] for a in asked[0] if a in left_out), default=0.0)

    def looked(
        listed: Sequence[Dependency],
        share: Fraction,
        seal: Callable[[Sequence[Dependency]], Sealed],
        shape: Sequence[int],
    ) -> list[_Kept]:
        asked = [each for each in _small(shape, listed) if each[1] not in hidden]
        kept = sifted(session, budget * share, asked, seal, about, lambda e: about(e) - counts[e[1]].max())
        finest = sorted(kept, key=lambda each: (-math.prod(modelled.shape[a] for a in each[0][0]), each[0]))
        return compatible(finest, lambda asked: (asked[1], *asked[0]))

    def of_two(asked: Sequence[Dependency]) -> Sealed:
        return PrivateUndetermined.of(session.rows, asked, few)

    single = looked(
        _pairs(domain, counts, [m.stddev for m in measured], left_out),
        SHARE,
        lambda asked: before.undetermined(modelled.names, asked, left_out),
        [before.domain[name].size for name in modelled.names],
    )
    partly = left_out.keys() - few.keys()
    taken = [asked for asked, *_ in single]
    double = looked(_doubles(domain, counts, taken, rows, partly), OF_TWO, of_two, modelled.shape)
    cost = budget * TABLES / max(len(single) + len(double), 1)
    found: list[Relation] = []
    fuller: list[Attribute] = []
    for each in single:
        (source,), target = each[0]
        if source in partly:
            found += _implications(modelled, each, before, (cost, rest[source]))
            continue
        attribute = modelled.attributes[target]
        if attribute.categorical and (attribute.type == "integer" or _unlisted(attribute.name, before)):
            attribute, told = _with_lost(modelled, each[0], before, cost)
            fuller.append(attribute)
        else:
            told = _told(modelled, each[0], session, cost)
        found.append(_relation(modelled.attributes[source], attribute, told, each))
    tables = (_relation_of_two(modelled, each, session, (cost, rows)) for each in double)
    return [*found, *(table for table in tables if table is not None)], fuller


_Kept = tuple[Dependency, int, float]
"""Attributes of which the last follows from the others, but for a noisy number of rows, and the noise of
that.
"""


def _scaled(noisy: np.ndarray, rows: float) -> np.ndarray:
    """float64[code]: the counts, none below 0, as shares of so many rows."""
    counts = np.maximum(noisy, 0).astype(np.float64)
    return counts * (rows / max(counts.sum(), 1.0))


def _rest(domain: Domain) -> dict[int, int]:
    """By attribute the code of values that are not listed."""
    return {a: each.fallback_code for a, each in enumerate(domain) if each.other == OTHER}


def exact(attribute: Attribute) -> bool:
    """Whether each code is one value, of a number that can be listed."""
    if not 2 <= attribute.size <= MOST_CODES or not single_valued(attribute):
        return False
    return attribute.categorical or attribute.type in ("integer", "number")


def _follows(domain: Domain) -> list[int]:
    """The attributes that may follow from others: no rule computes with them."""
    held = {rule.compute for rules in domain.ties.values() for rule in rules} | set(domain.ties)
    held |= {name for rule in domain.rules if isinstance(rule, Arithmetic) for name in rule.of}
    held |= {name for rule in domain.rules if isinstance(rule, Order) for name in rule.order}
    return [b for b, name in enumerate(domain.modelled.names) if name not in held]


def _pairs(
    domain: Domain, counts: Sequence[np.ndarray], stddev: Sequence[float], rest: Mapping[int, int]
) -> list[Dependency]:
    """The pairs whose marginals allow it, those first that leave the most to be said. The counts of a column
    that follows are sums of counts of the other, but for what is left out: so its largest k hold at least as
    much as the other's.
    """
    listed = [np.delete(own, rest[a]) if a in rest else own for a, own in enumerate(counts)]
    able = [a for a, attribute in enumerate(domain.modelled) if exact(attribute)]
    entropies = {a: _entropy(counts[a]) for a in able}
    targets = {*_follows(domain)}
    return [
        ((a,), b)
        for b in sorted(able, key=lambda b: -entropies[b])
        if b in targets
        for a in able
        if a != b and _coarser(listed[a], counts[b], SURE * (stddev[a] + stddev[b]))
    ]


def _doubles(
    domain: Domain,
    counts: Sequence[np.ndarray],
    taken: Sequence[Dependency],
    rows: float,
    partly: Collection[int],
) -> list[Dependency]:
    """Which attribute may follow from which two others, those first that say most of what both do. Beside
    those that are `taken`; from none of which values are left out `partly`.
    """
    modelled, entropies = domain.modelled, [_entropy(own) for own in counts]
    gone, used = {b for _, b in taken}, {a for of, _ in taken for a in of}
    able = [a for a, each in enumerate(modelled) if exact(each) and a not in gone and a not in partly]
    targets = [
        b for b in _follows(domain) if b not in gone | used and _narrow(modelled.attributes[b], counts[b])
    ]
    listed: list[tuple[float, Dependency]] = []
    for b in targets:
        for pair in itertools.combinations([a for a in able if a != b], 2):
            both = entropies[pair[0]] + entropies[pair[1]]
            few = math.prod(modelled.shape[a] for a in pair) * ROWS_A_CELL <= rows
            if few and TELLING * both <= entropies[b] <= both:
                listed.append((entropies[b] / both, (pair, b)))
    return [asked for _, asked in sorted(listed, reverse=True)][:MOST_DOUBLES]


def _narrow(attribute: Attribute, counts: np.ndarray) -> bool:
    """Whether nearly each row's code is one value."""
    if single_valued(attribute):
        return 2 < attribute.size <= MOST_CODES
    if attribute.type not in ("integer", "number") or not 2 < attribute.size <= MOST_CODES:
        return False
    held = np.histogram(attribute.drawn[0], attribute.cuts)[0]
    wide = held > 1 if attribute.bin_values else np.ones(len(attribute.bin_codes), dtype=bool)
    if attribute.type == "integer":
        wide &= np.diff(attribute.cuts) > 1
    return bool(counts[attribute.bin_codes][wide].sum() <= WIDE * counts.sum())


def _entropy(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def _coarser(fine: np.ndarray, coarse: np.ndarray, noise: float) -> bool:
    """Whether the `coarse` counts may be sums of the `fine` ones."""
    size = max(len(fine), len(coarse))
    tops = [np.cumsum(np.sort(np.pad(own, (0, size - len(own))))[::-1]) for own in (fine, coarse)]
    return bool((tops[1] >= tops[0] - noise * np.sqrt(np.arange(1, size + 1))).all())


def _small(shape: Sequence[int], asked: Sequence[Dependency]) -> list[Dependency]:
    """The first of them, as many as there is room for."""
    cells = np.cumsum([math.prod(shape[a] for a in (*of, b)) for of, b in asked])
    return list(asked[: int(np.searchsorted(cells, MOST_CELLS, side="right"))])


def _measured(
    domain: Domain, asked: Dependency, session: Session, cost: Fraction
) -> tuple[np.ndarray, float]:
    """(int64[codes of what it follows from, codes of what follows], noise) of their marginal."""
    of, b = asked
    clique = tuple(sorted((*of, b)))
    taken = session.measure(session.rows, clique, cost=cost, stage="discover")
    shape = [domain.shape[a] for a in clique]
    return np.moveaxis(taken.noisy.reshape(shape), clique.index(b), -1), taken.stddev


def _relation(source: Attribute, target: Attribute, told: Sequence[Label], kept: _Kept) -> Relation:
    """The table of a pair: what is `told` of the second, by code of the first."""
    _, broken, stddev = kept
    pairs = list(zip(labels_of(source), told, strict=True))
    given: Mapping[str, object] = {"derive": target.name, "from": source.name, "map": pairs}
    return Relation(Derivation.model_validate(given), broken, stddev)


def _told(domain: Domain, asked: Dependency, session: Session, cost: Fraction) -> list[Label]:
    """By code of the first the most frequent label of the second, by the marginal of both."""
    table, noise = _measured(domain, asked, session, cost)
    most, target = np.argmax(table, axis=1), domain.attributes[asked[1]]
    if target.other is not None:  # what cannot be told from noise is most likely rare
        clear = table.max(axis=1) > level(table.shape[1]) * noise
        most = np.where(clear, most, target.fallback_code)
    return [labels_of(target)[code] for code in most.tolist()]


def _unlisted(name: str, before: Unpruned) -> bool:
    """Whether an attribute of text had a code for values that are not listed, before pruning."""
    return before.domain[name].type == "string" and before.domain[name].other == OTHER


def _then(domain: Domain, asked: Dependency, before: Unpruned, cost: Fraction) -> tuple[np.ndarray, float]:
    """(int64[code of the first attribute of a pair, code that the second had before pruning], noise) of their
    marginal.
    """
    (a,), b = asked
    of, _ = before.seen[domain.names[a]]
    places = [before.domain.names.index(domain.names[at]) for at in (a, b)]
    table, noise = _measured(before.domain, ((places[0],), places[1]), before.session, cost)
    return table[np.flatnonzero(of.kept)[np.argsort(of.codes[of.kept])]], noise


def _with_lost(
    domain: Domain, asked: Dependency, before: Unpruned, cost: Fraction
) -> tuple[Attribute, list[Label]]:
    """(the second attribute of a pair, of listed whole numbers or texts, and by code of the first its most
    frequent label) by the marginal of both before pruning. A value was not seen where too few rows have it; a
    number is listed now where those rows have one value of the first, and they and the marginal of the second
    alone, less what other values of the first account for, make it clear. A text is `other` then, and where
    nothing is clear: it is more likely rare than the most frequent.
    """
    target, text = domain.attributes[asked[1]], _unlisted(domain.names[asked[1]], before)
    (own, alone), first, now = before.seen[target.name], before.domain[target.name], labels_of(target)
    labels: dict[int, Label] = {first.fallback_code: OTHER}
    if not text:
        labels = {code: int(units[0]) for code, units in enumerate(points_of(first)) if len(units) == 1}
    labels |= {code: now[own.codes[code]] for code in np.flatnonzero(own.kept).tolist()}
    able = np.array(sorted(labels))
    table, noise = _then(domain, asked, before, cost)
    table, least = table[:, able], level(len(able))
    most, clear = np.argmax(table, axis=1), table.max(axis=1) > least * noise
    left = alone.noisy[able] - np.bincount(most[clear], table.max(axis=1)[clear], minlength=len(able))
    unsure = alone.stddev**2 + np.bincount(most[clear], minlength=len(able)) * noise**2
    both = (table / noise**2 + left / unsure) / np.sqrt(noise**-2 + 1 / unsure)
    better = ~clear & (both.max(axis=1) > least)
    most = able[np.where(better, np.argmax(both, axis=1), most)]
    rest = OTHER if text else now[target.fallback_code]
    sure = (clear | better).tolist()
    told = [labels[code] if known else rest for code, known in zip(most.tolist(), sure, strict=True)]
    listed = {v: None for v in (*target.values, *told) if v is not None}
    if not text:
        return revalidated(target, categories=np.unique([*listed]).tolist()), told
    return revalidated(target, categories=[*listed], **({"other": OTHER} if OTHER in listed else {})), told


def _implications(
    domain: Domain, kept: _Kept, before: Unpruned, cost_and_rest: tuple[Fraction, int]
) -> list[Relation]:
    """A pair of which the second follows only from the listed values of the first: for each of its values the
    rule that says of which it does, as far as the marginal of both before pruning is clear. A value that was
    not seen has none.
    """
    asked, broken, stddev = kept
    cost, rest = cost_and_rest
    source, target = domain.attributes[asked[0][0]], domain.attributes[asked[1]]
    table, noise = _then(domain, asked, before, cost)
    own, _ = before.seen[target.name]
    most = np.argmax(table, axis=1)
    clear = (table.max(axis=1) > level(table.shape[1]) * noise) & own.kept[most]
    clear[rest] = False
    codes, names, relations = own.codes[most], labels_of(source), []
    for code in np.unique(codes[clear]).tolist():
        values = [names[a] for a in np.flatnonzero(clear & (codes == code))]
        given = {"if": {source.name: values}, "then": {target.name: labels_of(target)[code]}}
        relations.append(Relation(Implication.model_validate(given), broken, stddev))
    return relations


def _relation_of_two(
    domain: Domain, kept: _Kept, session: Session, cost_and_rows: tuple[Fraction, float]
) -> Relation | None:
    """The table of an attribute that follows from two, made of the marginal of all three: by combination the
    most frequent value that stands out from the noise; where none does, that of one of both columns alone,
    first of the one that tells more rows; and where that does not either, the most frequent of all. None if
    too few rows have a combination of which a value stands out.
    """
    (of, b), broken, stddev = kept
    cost, rows = cost_and_rows
    table, noise = _measured(domain, (of, b), session, cost)
    least = level(table.shape[2])
    clear, most = table.max(axis=2) > least * noise, np.argmax(table, axis=2)
    if float(table.max(axis=2)[clear].sum()) < TOLD * rows:
        return None
    alone = [(table.sum(axis=axis), noise * table.shape[axis] ** 0.5, axis) for axis in (0, 1)]
    for sums, deviation, axis in sorted(alone, key=lambda each: -float(each[0].max(axis=1).sum())):
        seen = np.expand_dims(sums.max(axis=1) > least * deviation, axis)
        most = np.where(~clear & seen, np.expand_dims(np.argmax(sums, axis=1), axis), most)
        clear = clear | seen
    rest = int(np.argmax(table.sum(axis=(0, 1))))
    most = np.where(clear, most, rest)
    first, second, target = (domain.attributes[a] for a in (*of, b))
    values, labels = one_of_each(target), itertools.product(labels_of(first), labels_of(second))
    listed = [
        (pair, values[code]) for pair, code in zip(labels, most.ravel().tolist(), strict=True) if code != rest
    ]
    given = {"derive": target.name, "from": (first.name, second.name), "map": listed}
    return Relation(Lookup.model_validate({**given, "otherwise": values[rest]}), broken, stddev)


def one_of_each(attribute: Attribute) -> list[Scalar | None]:
    """A value of each code: of a bin its most frequent bin value, else one in its middle."""
    values = list(labels_of(attribute))
    if single_valued(attribute):
        return values
    units, weights = attribute.drawn
    held = np.searchsorted(attribute.cuts, units, side="right") - 1
    points = points_of(attribute) if attribute.type == "integer" else []
    for place, code in enumerate(attribute.bin_codes.tolist()):
        low, high = attribute.cuts[place : place + 2].tolist()
        own, middle = held == place, low / 2 + high / 2
        if own.any():
            values[code] = units[own][np.argmax(weights[own])].item()
        elif attribute.type == "integer":
            values[code] = points[code][np.argmin(np.abs(points[code] - middle))].item()
        else:
            near = middle if attribute.decimals is None else round(middle, attribute.decimals)
            values[code] = near if low <= near < high else low
    return values
