"""Learning: a domain for a table that nobody described, and the first marginals over it.

Discovery is the first measurement: what it found makes a first domain with many bins; its one-way marginals
are measured; what those show to be empty is taken out again. The same noisy counts, together with those that
the popular values were found by, are what the mechanism begins from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.mechanisms.first_domain import OTHER, First
from factored_mwem.mechanisms.settle import Settled, settle
from factored_mwem.mechanisms.shares import discovery_share, initial_shares, one_way_share
from factored_mwem.policy import Policy
from factored_mwem.privacy.discover import Found, discover
from factored_mwem.privacy.session import Measurement, Session
from factored_mwem.tables.source import Table


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """A learnt domain, the session with the rows encoded in it, and its measured one-way marginals."""

    domain: Domain
    session: Session
    measured: tuple[Measurement, ...]


def learn(session: Session, table: Table, columns: Sequence[str] | None, policy: Policy) -> Learnt:
    """Learn a domain, and measure its one-way marginals. Cost: up to the policy's domain budget, and the
    share of the rest that the first measurements get.
    """
    found = discover(session, table, columns, partial(discovery_share, policy, session.accountant.budget))
    firsts = [First.of(column) for column in found]
    first = Domain(one.attribute for one in firsts)
    session = session.encode(first, table)
    rows = max(float(np.mean([column.rows for column in found])), 1.0)
    cost = session.left * one_way_share(first, policy, session.accountant.budget, rows)
    settled, measured = [], []
    for a, (column, part) in enumerate(zip(found, initial_shares(first.shape), strict=True)):
        taken = session.measure(session.rows, (a,), cost=cost * part)
        made = settle(firsts[a], taken.noisy, taken.stddev)
        settled.append(made)
        measured.append(replace(taken, noisy=with_popular(column, made, taken.stddev)))
    domain = Domain(made.attribute for made in settled)
    return Learnt(domain, session.recode(domain, [made.codes for made in settled]), tuple(measured))


def with_popular(found: Found, made: Settled, stddev: float) -> np.ndarray:
    """int64[code]: the noisy counts, those of popular values averaged with the counts they were found by, in
    proportion to their precisions.

    A count that was found is one that passed a threshold, so by itself it is too high on average. It takes
    part only where the other count, whose noise is its own, says that the truth lies far above the threshold:
    hardly any noise is cut off there.
    """
    noisy, attribute = made.noisy.copy(), made.attribute
    if not found.stddev:
        return noisy
    counts = popular_counts(found, attribute)
    weight = stddev**2 / (stddev**2 + found.stddev**2)
    for code, count in counts.items():
        if made.noisy[code] > found.threshold + 2 * (stddev + found.stddev):
            noisy[code] = round(weight * count + (1 - weight) * made.noisy[code])
    return noisy


def popular_counts(found: Found, attribute: Attribute) -> dict[int, int]:
    """The noisy count that each popular value was found by, by its code."""
    if found.type == "string":
        at = {value: code for code, value in enumerate(attribute.values)}
        return {at[text]: n for text, n in found.texts.items() if text in at and text != OTHER}
    if attribute.categorical:
        units, codes = attribute.units, np.arange(len(attribute.values))
    else:
        units, codes = attribute.specials, attribute.special_codes
    if found.type == "number" and found.unit != "number":
        units = np.rint(units * found.scale)
    by_code = {
        int(code): found.values[float(u)]
        for u, code in zip(units, codes, strict=True)
        if float(u) in found.values
    }
    begin = attribute.size - attribute.nullable - len(attribute.sentinels)
    return by_code | {begin + i: found.texts[text] for i, text in enumerate(attribute.sentinels)}
