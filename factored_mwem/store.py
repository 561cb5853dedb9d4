"""The model file: a zip of plain arrays and JSON, versioned, with no pickle in it. It holds the noisy answers of every measurement."""

from __future__ import annotations

import itertools
import json
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from factored_mwem.domain import Domain
from factored_mwem.errors import FmwemError, InputError
from factored_mwem.forest import Component, Forest
from factored_mwem.levels import Levels
from factored_mwem.manifest import Manifest
from factored_mwem.output import check_target, replacing
from factored_mwem.privacy.access import Measurement
from factored_mwem.privacy.noise import Composition
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.tree import CliqueTree

if TYPE_CHECKING:
    from factored_mwem.flow import Release

VERSION = 2
BROKEN = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, IndexError, AttributeError, RuntimeError),  # RuntimeError: an unknown compression
    *(zipfile.BadZipFile, zlib.error, struct.error, pa.ArrowException, ValidationError),
    *(SyntaxError, tokenize.TokenError, ArithmeticError),  # numpy reads the heads of arrays as Python literals
)
"""What reading a damaged or foreign file can raise."""


def save(release: Release, path: Path, *, overwrite: bool, before: Callable[[], None] = lambda: None) -> None:
    """Write the model file, whole or not at all. `before` runs when all is written, just before the rename."""
    check_target(path, overwrite=overwrite)
    model = release.model
    header = {
        "fmwem_model": VERSION,
        "domain": release.domain.to_dict(),
        "total": model.total,
        "rows": release.rows,
        "seed": release.seed,
        "levels": [int(model.levels.attribute[v]) for v in range(len(release.domain), len(model.levels))],
        "trees": [{"cliques": part.tree.cliques, "edges": part.tree.edges} for part in model.components],
        "measurements": [{"positions": list(m.positions), "scale": m.scale, "composition": m.composition} for m in release.measurements],
        "residuals": [{"order": r.order, "scale": r.scale, "composition": r.composition} for r in release.residuals],
        "manifest": release.manifest.model_dump(mode="json"),
    }
    arrays = {f"beliefs_{i}": part.beliefs for i, part in enumerate(model.components)}
    arrays |= {f"level_{v}": model.levels.groups[v] for v in range(len(release.domain), len(model.levels))}
    arrays |= {f"noisy_{i}": m.noisy for i, m in enumerate(release.measurements)}
    for i, r in enumerate(release.residuals):
        arrays |= {f"residual_weights_{i}": r.weights, f"residual_noisy_{i}": r.noisy}
    arrays |= {"header": _bytes(json.dumps(header).encode()), "schema": _bytes(release.schema.serialize().to_pybytes())}
    with replacing(path, before) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _bytes(content: bytes) -> np.ndarray:
    return np.frombuffer(content, dtype=np.uint8)


def load(path: Path) -> dict[str, Any]:
    """The fields of a Release. InputError where the file is not a model file of this version, or is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(file["header"].tobytes())
            if header.get("fmwem_model") != VERSION:
                raise InputError(f"{path} is a model file of version {header.get('fmwem_model')}, this program reads version {VERSION}; update it")
            return _fields(header, file)
    except FileNotFoundError:
        raise InputError(f"no model file {path}") from None
    except FmwemError:
        raise
    except BROKEN:
        raise InputError(f"{path} is not a model file, or is damaged; `fmwem release --model` writes them") from None


def _fields(header: dict[str, Any], file: Any) -> dict[str, Any]:
    domain = Domain.from_dict(header["domain"])
    coarser: list[list[np.ndarray]] = [[] for _ in domain]
    for i, a in enumerate(header["levels"]):
        group = file[f"level_{len(domain) + i}"]
        if group.shape != (domain.shape[a],) or group.dtype != np.int64 or group.min() < 0 or group.max() >= domain.shape[a]:
            raise ValueError("a level does not fit its attribute")
        coarser[a].append(group)
    levels = Levels.of(domain.shape, coarser)
    parts = [_component(levels, tree, file[f"beliefs_{i}"]) for i, tree in enumerate(header["trees"])]
    if not (1.0 <= float(header["total"]) < 1e15 and 0 <= int(header["rows"]) <= 1e12 and 0 <= int(header["seed"]) < 2**64):
        raise ValueError("a number is out of range")
    if sorted(a for part in parts for a in part.attributes) != list(range(len(domain))):
        raise ValueError("trees do not cover the domain")
    return {
        "domain": domain,
        "model": Forest(levels, parts, float(header["total"])),
        "schema": pa.ipc.read_schema(pa.py_buffer(file["schema"].tobytes())),
        "measurements": [
            Measurement(tuple(m["positions"]), file[f"noisy_{i}"], float(m["scale"]), Composition(m["composition"]))
            for i, m in enumerate(header["measurements"])
        ],
        "residuals": [
            Residuals(int(r["order"]), file[f"residual_weights_{i}"], file[f"residual_noisy_{i}"], float(r["scale"]), Composition(r["composition"]))
            for i, r in enumerate(header["residuals"])
        ],
        "manifest": Manifest.model_validate(header["manifest"]),
        "rows": int(header["rows"]),
        "seed": int(header["seed"]),
    }


def _component(levels: Levels, tree: dict[str, Any], beliefs: np.ndarray) -> Component:
    """One tree; ValueError where the file's parts do not fit together."""
    cliques = tuple(tuple(int(v) for v in clique) for clique in tree["cliques"])
    edges = tuple((int(child), int(parent), tuple(int(v) for v in separator)) for child, parent, separator in tree["edges"])
    known = [v for clique in cliques for v in clique]
    if not known or min(known) < 0 or max(known) >= len(levels) or [child for child, _, _ in edges] != list(range(1, len(cliques))):
        raise ValueError("a tree is damaged")
    found = CliqueTree(levels, cliques, edges)
    if any(not 0 <= p < c or not (found.fixes(c, s) and found.fixes(p, s)) for c, p, s in edges) or beliefs.shape != (sum(found.cells),):
        raise ValueError("a tree is damaged")
    ends = np.cumsum([0, *found.cells])
    masses = [beliefs[a:b].sum() for a, b in itertools.pairwise(ends)]
    if beliefs.dtype != np.float64 or not (beliefs >= 0).all() or not np.allclose(masses, 1.0, rtol=1e-6):
        raise ValueError("a tree's tables are no distribution")
    return Component.of(found, beliefs)
