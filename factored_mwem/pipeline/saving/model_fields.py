"""What a model file holds, and whether its parts fit together: a header in JSON and arrays of one dimension.

The file may come from a stranger: everything in it that the program relies on later is checked here.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import MOST_ROWS, Neighbours, grains_of
from factored_mwem.domain.agreement import groupings_in
from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.domain.companions import companions_of
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels, View
from factored_mwem.errors import ResourceError, must
from factored_mwem.mechanisms.limits import memory_limit
from factored_mwem.mechanisms.registry import ENGINES
from factored_mwem.mechanisms.sweep import MAX_CORRECTED
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.forest import Component, Forest
from factored_mwem.pipeline.record.manifest import Manifest, PeopleFacts
from factored_mwem.privacy.residuals import Residuals, over_subsets
from factored_mwem.privacy.session import Measurement, NoiseScale
from factored_mwem.tables.codes.codec import check_type
from factored_mwem.tables.codes.decode import own_type
from factored_mwem.tables.codes.derive import check_rules
from factored_mwem.workload.workload import Workload

VERSION = 1
"""The version that is written, and the only one that is read."""
MAX_BYTES = 2**30
"""Of a file's arrays together, as they declare themselves: 200 measurements of the default's 2^19 cells are
less. For what drawing rows lays out besides, the limit is that of a release, half of the machine's memory.
"""
MAX_HEADER_BYTES = 2**25
"""Largest header; the objects of its JSON take up to thirty times as much memory."""
MIN_SCALE, MAX_SCALE = 1e-12, 1e18
"""Range of scales of noise, in records: no possible promise needs others, and their squares are finite."""
MAX_PAIRS = 2**24
"""Cliques of a tree times its variables: paths between them are tabled."""
MIN_DELTA = Fraction(1, 10**250)
MAX_DELTA_BITS = 1100
"""Most bits of a delta's denominator, which for every float is a power of two; with others, exact sums would
become endless.
"""
_DELTA = re.compile(r"\d{1,340}(/[1-9]\d{0,339})?")

Read = Callable[[str, type["np.number[Any]"]], np.ndarray]
"""Gives an array by its name and type; ValueError or KeyError if there is none such."""


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """A model, the noisy measurements behind it and the manifest; `rows` and `seed` of its own table."""

    domain: Domain
    model: Forest
    schema: pa.Schema
    measurements: list[Measurement]
    residuals: Sequence[Residuals]
    manifest: Manifest
    rows: int
    seed: int


Kind = TypeVar("Kind", bound=Contents)


def check_size(path: Path, declared: int, header: int) -> None:
    """Raises ResourceError if the bytes of all arrays, or of the header, are more than a model may hold."""
    if declared > MAX_BYTES or header > MAX_HEADER_BYTES:
        raise ResourceError(
            f"{path} declares {declared / 1e6:,.0f} MB of arrays, more than a model of up to "
            f"{MAX_BYTES / 1e6:,.0f} MB may hold"
        )


def taken_apart(contents: Contents) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a model file."""
    model, levels = contents.model, contents.model.levels
    coarser = range(len(levels.shape), len(levels))
    header = {
        "fmwem_model": VERSION,
        "domain": contents.domain.to_dict(),
        "total": model.total,
        "rows": contents.rows,
        "seed": contents.seed,
        "levels": [int(levels.attribute[v]) for v in coarser],
        "trees": [{"cliques": part.tree.cliques, "edges": part.tree.edges} for part in model.components],
        "measurements": [
            {"positions": list(m.positions), "scale": m.scale.value, "composition": m.scale.composition}
            for m in contents.measurements
        ],
        "residuals": [
            {"order": r.order, "scale": r.scale.value, "composition": r.scale.composition}
            for r in contents.residuals
        ],
        "manifest": contents.manifest.model_dump(mode="json"),
    }
    arrays = {f"beliefs_{i}": part.beliefs.cliques for i, part in enumerate(model.components)}
    arrays |= {f"level_{v}": levels.groups[v] for v in coarser}
    arrays |= {f"noisy_{i}": m.noisy for i, m in enumerate(contents.measurements)}
    for i, r in enumerate(contents.residuals):
        arrays |= {f"residual_weights_{i}": r.weights, f"residual_noisy_{i}": r.noisy}
    return header, arrays | {"schema": np.frombuffer(contents.schema.serialize(), dtype=np.uint8)}


def put_together(kind: type[Kind], header: dict[str, Any], read: Read) -> Kind:
    """The contents that the parts stand for. Raises ValueError, or another error that `BROKEN` lists, if they
    do not fit together.
    """
    whole = Domain.from_dict(header["domain"])
    domain = whole.modelled
    levels = _levels(domain, header["levels"], read)
    parts = [
        _component(levels, tree, read(f"beliefs_{i}", np.float64)) for i, tree in enumerate(header["trees"])
    ]
    total, rows, seed = float(header["total"]), int(header["rows"]), int(header["seed"])
    must(1.0 <= total < 1e15 and 0 <= rows <= 1e12 and 0 <= seed < 2**64, "a number is out of range")
    covered = sorted(a for part in parts for a in part.attributes)
    must(covered == list(range(len(domain))), "trees do not cover the domain")
    measurements = [
        _measurement(levels, m, read(f"noisy_{i}", np.int64)) for i, m in enumerate(header["measurements"])
    ]
    model = Forest(levels, parts, total)
    held = all(len(m.positions) <= MAX_CORRECTED or model.holds(m.positions) for m in measurements)
    must(held, "a measurement that lies in no tree, of more attributes than a sweep has")
    model.correct(measurements)
    manifest = sound_manifest(whole, header["manifest"])
    no_columns = manifest.people.companions if manifest.people is not None else ()
    own = whole.project([name for name in whole.names if name not in no_columns])
    return kind(
        domain=whole,
        model=model,
        schema=_schema(own, read("schema", np.uint8)),
        measurements=measurements,
        residuals=[
            _residuals(
                domain, r, read(f"residual_weights_{i}", np.int64), read(f"residual_noisy_{i}", np.int64)
            )
            for i, r in enumerate(header["residuals"])
        ],
        manifest=manifest,
        rows=rows,
        seed=seed,
    )


def _levels(domain: Domain, attributes: Sequence[int], read: Read) -> Levels:
    """The coarser levels, each a numbering of the groups of the one before it."""
    coarser: list[list[np.ndarray]] = [[] for _ in domain]
    known = all(type(a) is int and 0 <= a < len(domain) for a in attributes)
    must(known and list(attributes) == sorted(attributes), "levels of no attribute")
    for i, a in enumerate(attributes):
        group, size = read(f"level_{len(domain) + i}", np.int64), domain.shape[a]
        fits = len(group) == size and group.min() >= 0 and group.max() < size and np.bincount(group).all()
        must(fits, "a level does not fit its attribute")
        finer = coarser[a][-1] if coarser[a] else group
        of_finer = np.zeros(int(finer.max()) + 1, dtype=np.int64)
        of_finer[finer] = group
        must((of_finer[finer] == group).all(), "a level does not lie within a coarser one")
        coarser[a].append(group)
    return Levels.of(domain.shape, coarser)


def _component(levels: Levels, tree: dict[str, Any], beliefs: np.ndarray) -> Component:
    """One tree; raises ValueError if the file's parts do not fit together."""
    must(0 < len(tree["cliques"]) <= len(levels), "a tree is damaged")
    cliques = tuple(_view(levels, clique) for clique in tree["cliques"])
    edges = tuple(
        (int(child), int(parent), _view(levels, separator)) for child, parent, separator in tree["edges"]
    )
    must([child for child, _, _ in edges] == list(range(1, len(cliques))), "a tree is damaged")
    component = CliqueTree(levels, cliques, edges)
    joined = all(0 <= p < c and component.fixes(c, s) and component.fixes(p, s) for c, p, s in edges)
    must(joined and len(beliefs) == sum(component.cells), "a tree is damaged")
    whole = {*component.attributes} <= {v for clique in cliques for v in clique}
    must(whole and _hangs_together(levels, component), "a tree lacks a variable, or has it in two places")
    codes = sum(int(levels.sizes[v]) for a in component.attributes for v in levels.chains[a])
    if (
        len(cliques) * len(levels) > MAX_PAIRS
        or 8 * codes * sum(levels.cells(s) for _, _, s in edges) > memory_limit()
    ):
        raise ResourceError("drawing rows from this model may take more than half of the machine's memory")
    ends = np.cumsum([0, *component.cells])
    masses = [beliefs[a:b].sum() for a, b in itertools.pairwise(ends)]
    must((beliefs >= 0).all() and np.allclose(masses, 1.0, rtol=1e-6), "a tree's tables are no distribution")
    return Component.of(component, beliefs)


def _view(levels: Levels, variables: Sequence[Any]) -> View:
    """Variables of different attributes, in their order; raises ValueError if they are not."""
    view = tuple(int(v) for v in variables)
    must(view and min(view) >= 0 and max(view) < len(levels), "an unknown variable")
    owners = [levels.attribute[v] for v in view]
    must(all(a < b for a, b in itertools.pairwise(owners)), "variables out of order")
    return view


def _hangs_together(levels: Levels, tree: CliqueTree) -> bool:
    """Whether each clique shares with those before it nothing but what its separator says."""
    seen = {int(levels.attribute[v]) for v in tree.cliques[0]}
    for child, _, separator in tree.edges:
        own = {int(levels.attribute[v]) for v in tree.cliques[child]}
        if own & seen != {int(levels.attribute[v]) for v in separator}:
            return False
        seen |= own
    return True


def _schema(domain: Domain, content: np.ndarray) -> pa.Schema:
    """The types that rows come back in: names and nulls are the domain's, and nothing else is the file's."""
    read = pa.ipc.read_schema(pa.py_buffer(content))
    must(tuple(read.names) == domain.names, "columns of another table")
    for attribute, kind in zip(domain, read.types, strict=True):
        if kind != own_type(attribute):
            check_type(attribute, kind)
    schema = pa.schema(
        [pa.field(a.name, kind, nullable=a.nullable) for a, kind in zip(domain, read.types, strict=True)]
    )
    check_rules(domain, schema)
    return schema


def _measurement(levels: Levels, facts: dict[str, Any], noisy: np.ndarray) -> Measurement:
    view = _view(levels, facts["positions"]) if facts["positions"] else ()
    must(len(noisy) == levels.cells(view), "a measurement of another marginal")
    return Measurement(view, noisy, _scale(facts))


def _residuals(domain: Domain, facts: dict[str, Any], weights: np.ndarray, noisy: np.ndarray) -> Residuals:
    wide = sum(size > 1 for size in domain.shape)  # without any, only the total was measured: order 0
    fits = min(wide, 1) <= facts["order"] <= len(domain) and len(weights) == 2**wide
    must(fits, "residuals of another domain")
    answers = over_subsets([1 if size == 2 else size for size in domain.shape if size > 1])
    measured = (weights > 0) & (np.bitwise_count(np.arange(len(weights))) <= facts["order"])
    must(answers[measured].sum() == len(noisy), "not as many residuals as their weights say")
    return Residuals(int(facts["order"]), weights, noisy, _scale(facts))


def _scale(facts: dict[str, Any]) -> NoiseScale:
    must(MIN_SCALE <= float(facts["scale"]) <= MAX_SCALE, "noise of no scale")
    return NoiseScale(float(facts["scale"]), Composition(facts["composition"]))


def sound_manifest(domain: Domain, facts: Any) -> Manifest:
    """The statement, where its price and the marginals that rows are refined towards can be had."""
    manifest = Manifest.model_validate(facts)
    manifest.model_dump_json()  # ValueError for half of a surrogate pair
    short = all(_DELTA.fullmatch(charge.delta) for charge in manifest.ledger)
    must(short, "a fraction that takes for ever to read")
    g, deltas = manifest.guarantee, [Fraction(charge.delta) for charge in manifest.ledger]
    bottoms = [delta.denominator for delta in deltas]
    floats = all(n & (n - 1) == 0 and n.bit_length() <= MAX_DELTA_BITS for n in bottoms)
    must(floats, "a fraction that is no float")
    Neighbours(g.neighbours)
    sound = not g.delta or MIN_DELTA < Fraction(g.delta) - sum(deltas) < 1
    must(sound and (g.delta != 0) == (g.composition is Composition.ZCDP), "a promise that cannot be")
    must(math.isfinite(manifest.recompute()), "no price")
    limit = manifest.policy["max_memory"]
    known = manifest.policy["engine"] in ENGINES and (limit is None or float(limit) > 0)
    must(known, "a manifest of another program")
    must(manifest.people is None or _sound_people(domain, manifest), "people that cannot be")
    workload = Workload.from_dict(manifest.workload)
    workload.check(domain.names)
    for request in workload.asked:
        request.spans(domain)
    return manifest


def _sound_people(domain: Domain, manifest: Manifest) -> bool:
    """Whether rows can be drawn as the people that a manifest tells of."""
    people, g = manifest.people, manifest.guarantee
    assert people is not None
    known = ROWS_OF_PERSON in domain.modelled and domain[ROWS_OF_PERSON].type == "integer"
    sizes = 1 <= people.most_rows <= g.contributions <= MOST_ROWS
    return (
        known
        and sizes
        and people.grains == grains_of(g.contributions)
        and manifest.policy.get("privacy_id") == people.column
        and people.column not in domain
        and {*people.constant, *people.shared} <= {*domain.names} - {ROWS_OF_PERSON}
        and _sound_order(domain, people)
        and _sound_agreement(domain, people)
    )


def _sound_agreement(domain: Domain, people: PeopleFacts) -> bool:
    """Whether it is that of the columns that vary in a person, if it is known."""
    if not people.agreement:
        return True
    numbers = {
        name: len(each) for name, each in groupings_in(domain, {*people.constant, *people.shared}).items()
    }
    return people.order_by is None and numbers == {name: len(own) for name, own in people.agreement.items()}


def _sound_order(domain: Domain, people: PeopleFacts) -> bool:
    """Whether the last attributes are the companions of the others, by the column that orders rows."""
    if people.order_by is None:
        return not people.companions
    own = domain.project([name for name in domain.names if name not in people.companions])
    expected = [each.attribute for each in companions_of(own, people.order_by, people.constant)]
    names = [a.name for a in expected]
    sound = people.order_by in own and names == [*people.companions] == [*domain.names[len(own) :]]
    return sound and domain.to_dict() == Domain([*own, *expected], dialect=domain.dialect).to_dict()
