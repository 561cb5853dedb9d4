"""Ties: which columns were measured together, so that their dependence is kept, and which stand alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from factored_mwem.documents.charts import ChartMark
from factored_mwem.documents.material import Material
from factored_mwem.documents.page import figure, listed, plain
from factored_mwem.pipeline.record.manifest import Manifest

NAMED = 40
"""Most columns whose names fit into a picture; beyond, it shows their numbers."""
DRAWN = 1_000
"""Columns up to which there is a picture."""
MOST_SETS = 60
"""Measured sets that are listed."""
APART, THROUGH, TOGETHER = 0, 1, 2


def ties_of(material: Material) -> dict[str, Any]:
    """The ties of a release, from what it measured: `of`, every column with those it was measured with;
    `pairs` measured together, and all pairs; `left_out`: measured sets that are not listed.
    """
    manifest, names = material.manifest, material.domain.modelled.names
    sets = [*_measured(manifest, names), *_at_once(material)]
    if manifest.public is not None:
        sets.append(tuple(name for name in manifest.public.columns if name in names))  # known together
    known = {name: at for at, name in enumerate(names)}
    kinds = np.zeros((len(names), len(names)), dtype=np.int8)
    parts = [[known[name] for name in part if name in known] for part in manifest.components]
    for members in parts:
        kinds[np.ix_(members, members)] = THROUGH
    for group in sets:
        for a, b in itertools.combinations(sorted({known[name] for name in group}), 2):
            kinds[a, b] = kinds[b, a] = TOGETHER
    np.fill_diagonal(kinds, APART)
    together = kinds == TOGETHER
    order = [at for members in sorted(parts, key=len, reverse=True) for at in sorted(members)]
    order += [at for at in range(len(names)) if at not in set(order)]
    by_name = [names[at] for at in order]
    rows = tuple(
        (plain(names[at]), f"{together[at].sum():,}", listed([names[b] for b in order if together[at, b]]))
        for at in order
    )
    measured = _table(manifest)
    return {
        "picture": _picture(kinds[np.ix_(order, order)], by_name) if 1 < len(names) <= DRAWN else None,
        "of": rows,
        "sets": measured[:MOST_SETS],
        "left_out": max(len(measured) - MOST_SETS, 0),
        "alone": [plain(names[at]) for at in order if not together[at].any()],
        "derived": [plain(name) for name in material.domain.derived],
        "components": [
            listed([names[at] for at in sorted(p)])
            for p in sorted(parts, key=len, reverse=True)
            if len(p) > 1
        ],
        "cliques": _cliques(manifest),
        "pairs": (int(together.sum()) // 2, len(names) * (len(names) - 1) // 2),
    }


def base_of(variable: str, names: Iterable[str]) -> str | None:
    """The column of a variable: "age in 8" is age in 8 groups."""
    known = set(names)
    coarse = variable.rpartition(" in ")[0]
    return variable if variable in known else coarse if coarse in known else None


def _measured(manifest: Manifest, names: Sequence[str]) -> list[tuple[str, ...]]:
    known, cliques = set(names), []
    for measured in manifest.measurements:
        bases = (base_of(variable, known) for variable in measured.attributes)
        cliques.append(tuple(name for name in bases if name is not None))
    return cliques


def _at_once(material: Material) -> list[tuple[str, ...]]:
    """The sets of columns whose residuals were measured, which only the model file lists."""
    if material.release is None:
        return []
    wide = [a.name for a in material.domain.modelled if a.size > 1]
    cliques = set()
    for residuals in material.release.residuals:
        for mask in np.flatnonzero(residuals.weights > 0).tolist():
            cliques.add(tuple(name for i, name in enumerate(wide) if mask >> i & 1))
    return sorted(cliques)


def _table(manifest: Manifest) -> list[tuple[str, ...]]:
    """Measured sets of two columns or more: their columns, their cells, the scale of their noise."""
    sets = [m for m in manifest.measurements if len(m.attributes) > 1]
    sets.sort(key=lambda m: (len(m.attributes), m.scale))
    return [
        (" x ".join(plain(name, 40) for name in m.attributes), f"{m.cells:,}", figure(m.scale)) for m in sets
    ]


def _cliques(manifest: Manifest) -> tuple[str, ...]:
    """The tables of the model that are over two columns or more."""
    joint = [" x ".join(plain(name, 40) for name in c[:12]) for c in manifest.cliques if len(c) > 1]
    more = len(joint) - MOST_SETS
    return (*joint[:MOST_SETS], *([f"and {more:,} more, in the manifest"] if more > 0 else []))


def _picture(kinds: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """A triangle of squares, a row and a column of it for each column of the table: the lower one, a path for
    each kind; neighbours of a kind are one rectangle. `size`: of the texts.
    """
    count, few = len(kinds), len(names) <= NAMED
    step = 16.0 if count <= 20 else 11.0 if few else round(max(560 / count, 2.5), 2)
    left, edge = 118.0 if few else 26.0, round(step * count, 2)
    paths = {TOGETHER: "", THROUGH: ""}
    for i in range(1, count):
        for kind, run in itertools.groupby(range(i), key=lambda j: int(kinds[i, j])):
            cells = list(run)
            if kind in paths:
                x, width = round(left + step * cells[0], 2), round(step * len(cells) - 0.6, 2)
                paths[kind] += f"M{x} {round(step * i, 2)}h{width}v{round(step - 0.6, 2)}h-{width}z"
    frame = f"M{left} 0L{round(left + edge, 2)} {edge}H{left}z" if not few else ""
    lines = range(1, count) if few else range(10, count, 10)
    frame += "".join(f"M{left} {round(step * i, 2)}h{round(step * i, 2)}v{step}" for i in lines)
    if few:
        named, apart, low = {i: plain(name, 20) for i, name in enumerate(names)}, 5, 0.78
    else:
        named, apart, low = {i: str(i + 1) for i in (0, *range(9, count, 10))}, 4, 0.8
    return {
        "width": round(left + edge + 2, 2),
        "height": edge + 2,
        "together": paths[TOGETHER],
        "through": paths[THROUGH],
        "frame": frame,
        "texts": [
            ChartMark(left - apart, round(step * (i + low), 2), name, "end") for i, name in named.items()
        ],
        "size": min(step - 1.5, 11.0) if few else 11.0,
    }
