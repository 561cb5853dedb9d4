"""Derive: whole rows from codes, as the rules of a domain say: columns that follow from others are computed,
and two columns in order keep it where both lie in the same bin. Public: it reads no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa

from factored_mwem.domain.conditions import code_of, intervals
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.functions import EQUAL
from factored_mwem.domain.rules import Arithmetic, Chain, Computed, Derivation, Lookup, Order
from factored_mwem.errors import InputError
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.decode import as_string, column_of, decode, from_units, replaced, typed
from factored_mwem.tables.codes.parsing import is_text, plain, read_units, spelt, value_type

MAX_TRIES = 16
"""How often two values out of order are drawn again, before they are put in order by hand."""
Columns = dict[str, pa.Array]


def check_rules(domain: Domain, schema: pa.Schema) -> None:
    """Raises InputError if the types of columns cannot keep what the rules say of them."""
    for rule in domain.rules:
        if isinstance(rule, Order):
            pair = [(domain[name], schema.field(name).type) for name in rule.order]
            (first, kind), (second, other) = pair
            fine = [(a.decimals, a.resolution) for a, _ in pair]
            if as_string(value_type(kind)) != as_string(value_type(other)) or fine[0] != fine[1]:
                what = "of one type, with the same decimals or resolution"
                names = f"{first.name!r} ({spelt(kind)}) and {second.name!r} ({spelt(other)})"
                raise InputError(f"columns {names} are in order, so they must be {what}")
            if is_text(value_type(kind)) and first.format != second.format:
                raise InputError(f"{first.name!r} and {second.name!r} are in order, but of two formats")
        elif isinstance(rule, Computed) and rule.as_ == EQUAL:
            copy, of = (schema.field(name).type for name in rule.columns)
            if copy != of:
                names = f"{rule.compute!r} ({spelt(copy)}) and {rule.of!r} ({spelt(of)})"
                raise InputError(f"columns {names} are copies, so they must be of one type")
    ordered = [name for rule in domain.rules if isinstance(rule, Order) for name in rule.order]
    for name in (*domain.cut_columns, *ordered):
        attribute, kind = domain[name], value_type(schema.field(name).type)
        whole = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
        if attribute.type == "number" and attribute.decimals is None and whole:
            raise InputError(f"column {name!r} is {spelt(kind)} and a rule bounds it: declare its decimals")
        coarse = pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"))
        if attribute.type == "datetime" and attribute.resolution is None and coarse:
            raise InputError(f"column {name!r} is {spelt(kind)} and a rule bounds it: declare its resolution")


def decode_table(
    domain: Domain,
    codes: Sequence[np.ndarray],
    schema: pa.Schema,
    rng: np.random.Generator,
    *,
    exchange: bool = True,
) -> list[pa.Array]:
    """Columns of the types in `schema`, in its order, from int[row] of each modelled attribute. `exchange`:
    whether rows may exchange values.
    """
    by_name = dict(zip(domain.modelled.names, codes, strict=True))
    made: Columns = {
        name: decode(domain[name], drawn, schema.field(name), rng) for name, drawn in by_name.items()
    }
    for chain in domain.chains:
        _put_in_order(chain, domain, by_name, made, rng)
    for chain in domain.exchanges if exchange else ():
        from factored_mwem.tables.codes.exchange import put_in_order

        put_in_order(chain, domain, made)
        by_name = {name: of for name, of in by_name.items() if name not in chain.names}
    for source, rules in domain.ties.items():
        from factored_mwem.tables.codes.tie import tie

        tie(domain, source, rules, by_name, made, rng)
    for name, of in domain.derived.items():
        if isinstance(of, Computed):
            made[name] = made[of.of]
        elif isinstance(of, Derivation | Lookup):
            cells = np.zeros(1, dtype=np.int64)
            for source in of.sources:
                drawn = by_name[source] if source in by_name else encode(domain[source], made[source])
                cells = cells * domain[source].size + drawn.astype(np.int64)
            made[name] = _values(domain, of, schema.field(name), rng).take(pa.array(cells))
        else:
            made[name] = _total(domain, of, made, schema.field(name))
    return [made[field.name] for field in schema]


def _values(domain: Domain, rule: Derivation | Lookup, field: pa.Field, rng: np.random.Generator) -> pa.Array:
    """The derived column's value for each code of its source, or combination of codes of its sources."""
    attribute = domain[rule.derive]
    if isinstance(rule, Lookup):
        places, values = domain.combinations[rule.derive]
    else:
        places, values = None, domain.values_of(rule)
    codes = np.array([code_of(attribute, value) for value in values], dtype=np.int64)
    if attribute.categorical:
        made = decode(attribute, codes, field, rng)  # listed values: nothing is drawn
        return made if places is None else made.take(pa.array(places))
    units = [0 if v is None or v in attribute.sentinels else attribute._scalar(v) for v in values]
    null = np.array([value is None for value in values])
    made = column_of(attribute, codes, np.array(units, dtype=attribute.cuts.dtype), null, field.type)
    return made if places is None else made.take(pa.array(places))


def _total(domain: Domain, rule: Arithmetic, made: Mapping[str, pa.Array], field: pa.Field) -> pa.Array:
    """The sum or product of what the rows hold in the parts."""
    attribute = domain[rule.columns[0]]
    parts = [read_units(domain[name], plain(made[name])) for name in rule.of]
    null = reduce(np.logical_or, (np.ma.getmaskarray(part) for part in parts))
    kind = np.int64 if attribute.type == "integer" and rule.plain else np.float64
    total = rule.total([part.filled(0).astype(kind) for part in parts])
    if attribute.type == "integer":
        total = np.rint(total).astype(np.int64)
    elif attribute.decimals is not None:
        total = np.round(total, attribute.decimals)
    values = from_units(attribute, total, null if attribute.nullable else None)
    return typed(attribute, values, field.type, safe=False)


def _put_in_order(
    chain: Chain, domain: Domain, codes: Mapping[str, np.ndarray], made: Columns, rng: np.random.Generator
) -> None:
    """Draw the values of a row again, in their bins, until none is above one that it is at most; in place."""
    wrong = np.arange(len(codes[chain.names[0]]))
    for tries in range(MAX_TRIES + 1):
        units = {
            name: read_units(domain[name], plain(made[name].take(pa.array(wrong)))) for name in chain.names
        }
        out = np.zeros(len(wrong), dtype=bool)
        for low, high in chain.pairs:
            out |= np.asarray((units[low] > units[high]).filled(False))
        wrong = wrong[out]
        if not len(wrong):
            return
        if tries == MAX_TRIES:
            break
        for name in chain.names:
            field = pa.field(name, made[name].type)
            fresh = decode(domain[name], codes[name][wrong], field, rng)
            made[name] = replaced(made[name], wrong, fresh)
    drawn = {name: of[out] for name, of in units.items()}
    for name, put in _squeezed(chain, domain, {n: codes[n][wrong] for n in chain.names}, drawn).items():
        rows = np.flatnonzero(~np.ma.getmaskarray(drawn[name]))
        fixed = typed(domain[name], from_units(domain[name], put[rows]), made[name].type, safe=False)
        made[name] = replaced(made[name], wrong[rows], fixed)


def _squeezed(
    chain: Chain, domain: Domain, codes: Mapping[str, np.ndarray], units: Mapping[str, np.ma.MaskedArray]
) -> dict[str, np.ndarray]:
    """Values in their bins and in order, as near to the drawn `units` as that allows; any where masked."""
    most: dict[str, np.ndarray] = {}
    for name in reversed(chain.names):
        most[name] = intervals(domain[name])[1][codes[name]]
        for above in (b for a, b in chain.pairs if a == name):
            free = np.ma.getmaskarray(units[above])
            most[name] = np.where(free, most[name], np.minimum(most[name], most[above]))
    put: dict[str, np.ndarray] = {}
    for name in chain.names:
        least = intervals(domain[name])[0][codes[name]]
        put[name] = np.maximum(np.minimum(units[name].filled(0), most[name]), least)
        for below in (a for a, b in chain.pairs if b == name):
            free = np.ma.getmaskarray(units[below])
            put[name] = np.where(free, put[name], np.maximum(put[name], put[below]))
    return put
