"""Tie: a column and its functions, made to agree in every row. Public: it reads no rows.

A row has a code of the column, a bin of times say, and a code of each function, an hour of the day. Its
value is one of the bin's that has these functions; where the bin has none, one that has the first of them,
or any, and if no value of the bin has functions that are listed, one of a bin near by. The functions are
then those of the value that the row really holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.functions import MOST_DRAWN, applied, has_values, some_points
from factored_mwem.domain.rules import Computed
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.decode import column_of, from_units, typed
from factored_mwem.tables.codes.parsing import plain, read_units


def tie(
    domain: Domain,
    source: str,
    rules: Sequence[Computed],
    codes: dict[str, np.ndarray],
    made: dict[str, pa.Array],
    rng: np.random.Generator,
) -> None:
    """Put values of `source` and of its functions in place of those in `made`, and their codes in `codes`."""
    attribute, drawn = domain[source], codes[source].astype(np.int64)
    wanted = [codes[rule.compute].astype(np.int64) for rule in rules]
    units = _drawn(attribute, rules, [domain[rule.compute] for rule in rules], (drawn, wanted), rng)
    null = drawn == attribute.null_code if attribute.nullable else None
    kind = made[source].type
    if attribute.categorical:
        made[source] = typed(attribute, from_units(attribute, units, null), kind, safe=False)
    else:
        made[source] = column_of(attribute, drawn, units, null, kind)
    held = read_units(attribute, plain(made[source]))
    codes[source] = encode(attribute, made[source])
    for rule in rules:
        target, values = domain[rule.compute], applied(rule.as_, attribute.type, held.filled(0))
        whole = from_units(target, values, np.ma.getmaskarray(held))
        made[rule.compute] = typed(target, whole, made[rule.compute].type, safe=False)
        codes[rule.compute] = encode(target, whole)


def _drawn(
    attribute: Attribute,
    rules: Sequence[Computed],
    targets: Sequence[Attribute],
    codes: tuple[np.ndarray, list[np.ndarray]],
    rng: np.random.Generator,
) -> np.ndarray:
    """int64[row]: a unit in each row's bin, with the functions that its codes want as far as there is one."""
    drawn, wanted = codes
    points, units = some_points(attribute, MOST_DRAWN, rng.random()), np.zeros(len(drawn), dtype=np.int64)
    whole = np.concatenate(points)
    at = np.repeat(np.arange(len(points)), [len(own) for own in points])
    values = [applied(rule.as_, attribute.type, whole) for rule in rules]
    listed = np.all([has_values(*pair) for pair in zip(targets, values, strict=True)], axis=0)
    whole, at = whole[listed], at[listed]
    of_points = [
        encode(target, from_units(target, own[listed])).astype(np.int64)
        for target, own in zip(targets, values, strict=True)
    ]
    left = np.flatnonzero(drawn != attribute.null_code) if attribute.nullable else np.arange(len(drawn))
    for used in range(len(rules), -1, -1):
        key, want = at, drawn[left]
        for target, own, code in zip(targets[:used], of_points, wanted, strict=False):
            key, want = key * target.size + own, want * target.size + code[left]
        order = np.argsort(key, kind="stable")
        first, last = (np.searchsorted(key[order], want, side=side) for side in ("left", "right"))
        fits = last > first
        place = first[fits] + rng.integers(0, (last - first)[fits])
        units[left[fits]] = whole[order[place]]
        left = left[~fits]
    units[left] = whole[np.minimum(np.searchsorted(at, drawn[left]), len(at) - 1)]
    return units
