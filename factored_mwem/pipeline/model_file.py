"""The model file: a zip of plain arrays and JSON, versioned, with no pickle in it. It holds the noisy answers
of every measurement.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels, View
from factored_mwem.errors import FmwemError, InputError, ResourceError
from factored_mwem.files import IfExists, check_target, replacing
from factored_mwem.mechanisms.limits import memory_limit
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.forest import Component, Forest
from factored_mwem.pipeline.manifest import Manifest
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement, NoiseScale
from factored_mwem.tables.codec import OWN_TYPE, check_type
from factored_mwem.workload.workload import Workload

if TYPE_CHECKING:
    from factored_mwem.pipeline.result import Release

VERSION = 3
READABLE = (2, 3)
"""Versions that are read: 3 has the manifest's newer fields."""
MOST_BYTES = 2**30
"""Of a file's arrays together, as they declare themselves: 200 measurements of the default's 2^19 cells are
less. For what drawing rows lays out besides, the limit is that of a release, half of the machine's memory.
"""
MOST_HEADER = 2**25
"""Bytes of the header: JSON, whose objects take up to thirty times as much memory."""
MOST_DIRECTORY = 2**22
"""Bytes of the list of arrays, some 60,000 of them."""
MOST_PAIRS = 2**24
"""Cliques of a tree times its variables: paths between them are tabled."""
BROKEN = (
    *(
        OSError,
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        IndexError,
        AttributeError,
        RuntimeError,
    ),  # RuntimeError: also nested too deep
    *(
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        pa.ArrowException,
        ValidationError,
        ArithmeticError,
        AssertionError,
    ),
)
"""What reading a damaged or foreign file can raise."""
_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|](?:f8|i8|u1))', 'fortran_order': False, 'shape': \((\d{1,12}),\), \} *\n",
    re.DOTALL,
)
"""The beginning of an array as we write them: of one dimension and plain numbers, so that nothing has to be
evaluated to read it.
"""
LEAST_DELTA = Fraction(1, 10**250)
_DELTA = re.compile(r"\d{1,1000}(/[1-9]\d{0,999})?")


def save(
    release: Release,
    path: Path,
    exists: IfExists,
    before: Callable[[], None] = lambda: None,
) -> None:
    """Write the model file, whole or not at all. `exists`, `before`: see `replacing`."""
    check_target(path, exists)
    model = release.model
    header = {
        "fmwem_model": VERSION,
        "domain": release.domain.to_dict(),
        "total": model.total,
        "rows": release.rows,
        "seed": release.seed,
        "levels": [int(model.levels.attribute[v]) for v in range(len(release.domain), len(model.levels))],
        "trees": [{"cliques": part.tree.cliques, "edges": part.tree.edges} for part in model.components],
        "measurements": [
            {"positions": list(m.positions), "scale": m.scale.value, "composition": m.scale.composition}
            for m in release.measurements
        ],
        "residuals": [
            {"order": r.order, "scale": r.scale.value, "composition": r.scale.composition}
            for r in release.residuals
        ],
        "manifest": release.manifest.model_dump(mode="json"),
    }
    arrays = {f"beliefs_{i}": part.beliefs.cliques for i, part in enumerate(model.components)}
    arrays |= {f"level_{v}": model.levels.groups[v] for v in range(len(release.domain), len(model.levels))}
    arrays |= {f"noisy_{i}": m.noisy for i, m in enumerate(release.measurements)}
    for i, r in enumerate(release.residuals):
        arrays |= {f"residual_weights_{i}": r.weights, f"residual_noisy_{i}": r.noisy}
    arrays |= {
        "header": _bytes(json.dumps(header).encode()),
        "schema": _bytes(release.schema.serialize().to_pybytes()),
    }
    with replacing(path, exists, before) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _bytes(content: bytes) -> np.ndarray:
    return np.frombuffer(content, dtype=np.uint8)


def load(path: Path) -> dict[str, Any]:
    """The fields of a Release. InputError where the file is not a model file of this version, or is damaged;
    ResourceError where it is too large.

    The file may be a stranger's: sizes are checked before anything of that size is made, numbers before
    anything follows them, no code is run.
    """
    try:
        with open(path, "rb") as file:
            _check_directory(file)
            with zipfile.ZipFile(file) as archive:
                _check_members(archive, path)
                header = json.loads(_array(archive, "header", np.uint8).tobytes())
                if header.get("fmwem_model") not in READABLE:
                    version = ascii(header.get("fmwem_model"))[:20]
                    raise InputError(
                        f"{path} is a model file of version {version}, this program reads version {VERSION}; "
                        "update it"
                    )
                return _fields(header, partial(_array, archive))
    except FileNotFoundError:
        raise InputError(f"no model file {path}") from None
    except FmwemError:
        raise
    except BROKEN:
        raise InputError(
            f"{path} is not a model file, or is damaged; `fmwem release --model` writes them"
        ) from None


def _check_directory(file: IO[bytes]) -> None:
    """ValueError where the list of arrays at the end is none of ours, or long: the library makes an object
    for each before we can count them.
    """
    file.seek(-42, os.SEEK_END)
    before, end = file.read(20), file.read(22)
    longer = before[:4] == b"PK\x06\x07"  # the list may then be of any length
    if (
        end[:4] != b"PK\x05\x06"
        or end[-2:] != b"\x00\x00"
        or longer
        or int.from_bytes(end[12:16], "little") > MOST_DIRECTORY
    ):
        raise ValueError("not a zip file of ours")


def _check_members(archive: zipfile.ZipFile, path: Path) -> None:
    """ResourceError where the arrays declare more than a model may hold, ValueError where they are packed in
    ways that we do not write.
    """
    members = archive.infolist()
    declared = sum(member.file_size for member in members)
    if (
        declared > MOST_BYTES
        or sum(member.file_size for member in members if member.filename == "header.npy") > MOST_HEADER
    ):
        raise ResourceError(
            f"{path} declares {declared / 1e6:,.0f} MB of arrays, more than a model of up to "
            f"{MOST_BYTES / 1e6:,.0f} MB may hold"
        )
    if any(
        member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1
        for member in members
    ):
        raise ValueError("packed in an unknown way")


def _array(archive: zipfile.ZipFile, name: str, kind: type[np.number[Any]]) -> np.ndarray:
    """One array of the file, of one dimension and type `kind`; ValueError where its head, its declared size
    and its content disagree.
    """
    declared = archive.getinfo(f"{name}.npy").file_size
    with archive.open(f"{name}.npy") as member:
        start = member.read(10)
        start += member.read(int.from_bytes(start[8:10], "little"))
        head = _HEAD.fullmatch(start)
        if head is None or np.dtype(head[1].decode()) != kind:
            raise ValueError("an array of another kind")
        count, width = int(head[2]), np.dtype(kind).itemsize
        if len(start) + count * width != declared:
            raise ValueError("an array of another length than declared")
        found = np.empty(count, dtype=kind)
        content, at = found.view(np.uint8), 0
        while at < len(content):
            part = member.read(min(2**20, len(content) - at))
            if not part:
                raise ValueError("an array cut short")
            content[at : at + len(part)] = np.frombuffer(part, dtype=np.uint8)
            at += len(part)
        return found


Read = Callable[[str, type["np.number[Any]"]], np.ndarray]


def _fields(header: dict[str, Any], read: Read) -> dict[str, Any]:
    domain = Domain.from_dict(header["domain"])
    levels = _levels(domain, header["levels"], read)
    parts = [
        _component(levels, tree, read(f"beliefs_{i}", np.float64)) for i, tree in enumerate(header["trees"])
    ]
    if not (
        1.0 <= float(header["total"]) < 1e15
        and 0 <= int(header["rows"]) <= 1e12
        and 0 <= int(header["seed"]) < 2**64
    ):
        raise ValueError("a number is out of range")
    if sorted(a for part in parts for a in part.attributes) != list(range(len(domain))):
        raise ValueError("trees do not cover the domain")
    return {
        "domain": domain,
        "model": Forest(levels, parts, float(header["total"])),
        "schema": _schema(domain, read("schema", np.uint8)),
        "measurements": [
            _measurement(levels, m, read(f"noisy_{i}", np.int64))
            for i, m in enumerate(header["measurements"])
        ],
        "residuals": [
            _residuals(
                domain, r, read(f"residual_weights_{i}", np.int64), read(f"residual_noisy_{i}", np.int64)
            )
            for i, r in enumerate(header["residuals"])
        ],
        "manifest": _manifest(domain, header["manifest"]),
        "rows": int(header["rows"]),
        "seed": int(header["seed"]),
    }


def _levels(domain: Domain, attributes: Sequence[int], read: Read) -> Levels:
    """The coarser levels, each a numbering of the groups of the one before it."""
    coarser: list[list[np.ndarray]] = [[] for _ in domain]
    if list(attributes) != sorted(attributes) or any(
        type(a) is not int or not 0 <= a < len(domain) for a in attributes
    ):
        raise ValueError("levels of no attribute")
    for i, a in enumerate(attributes):
        group, size = read(f"level_{len(domain) + i}", np.int64), domain.shape[a]
        if len(group) != size or group.min() < 0 or group.max() >= size or not np.bincount(group).all():
            raise ValueError("a level does not fit its attribute")
        finer = coarser[a][-1] if coarser[a] else group
        of_finer = np.zeros(int(finer.max()) + 1, dtype=np.int64)
        of_finer[finer] = group
        if (of_finer[finer] != group).any():
            raise ValueError("a level does not lie within a coarser one")
        coarser[a].append(group)
    return Levels.of(domain.shape, coarser)


def _component(levels: Levels, tree: dict[str, Any], beliefs: np.ndarray) -> Component:
    """One tree; ValueError where the file's parts do not fit together."""
    cliques = tuple(_view(levels, clique) for clique in tree["cliques"])
    edges = tuple(
        (int(child), int(parent), _view(levels, separator)) for child, parent, separator in tree["edges"]
    )
    if not 0 < len(cliques) <= len(levels) or [child for child, _, _ in edges] != list(
        range(1, len(cliques))
    ):
        raise ValueError("a tree is damaged")
    found = CliqueTree(levels, cliques, edges)
    if any(not 0 <= p < c or not (found.fixes(c, s) and found.fixes(p, s)) for c, p, s in edges) or len(
        beliefs
    ) != sum(found.cells):
        raise ValueError("a tree is damaged")
    if not {*found.attributes} <= {v for clique in cliques for v in clique} or not _hangs_together(
        levels, found
    ):
        raise ValueError("a tree lacks a variable, or has it in two places")
    codes = sum(int(levels.sizes[v]) for a in found.attributes for v in levels.chains[a])
    if (
        len(cliques) * len(levels) > MOST_PAIRS
        or 8 * codes * sum(levels.cells(s) for _, _, s in edges) > memory_limit()
    ):
        raise ResourceError("drawing rows from this model may take more than half of the machine's memory")
    ends = np.cumsum([0, *found.cells])
    masses = [beliefs[a:b].sum() for a, b in itertools.pairwise(ends)]
    if not (beliefs >= 0).all() or not np.allclose(masses, 1.0, rtol=1e-6):
        raise ValueError("a tree's tables are no distribution")
    return Component.of(found, beliefs)


def _view(levels: Levels, variables: Sequence[Any]) -> View:
    """Variables of different attributes, in their order; ValueError where they are not."""
    found = tuple(int(v) for v in variables)
    if not found or min(found) < 0 or max(found) >= len(levels):
        raise ValueError("an unknown variable")
    if any(levels.attribute[u] >= levels.attribute[v] for u, v in itertools.pairwise(found)):
        raise ValueError("variables out of order")
    return found


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
    """The types that rows come back in: names and nulls are the domain's, and what else the file says of them
    is left out.
    """
    found = pa.ipc.read_schema(pa.py_buffer(content))
    if tuple(found.names) != domain.names:
        raise ValueError("columns of another table")
    for attribute, kind in zip(domain, found.types, strict=True):
        if kind != OWN_TYPE[attribute.type]:
            check_type(attribute, kind)
    return pa.schema(
        [pa.field(a.name, kind, nullable=a.nullable) for a, kind in zip(domain, found.types, strict=True)]
    )


def _measurement(levels: Levels, facts: dict[str, Any], noisy: np.ndarray) -> Measurement:
    view = _view(levels, facts["positions"]) if facts["positions"] else ()
    if len(noisy) != levels.cells(view):
        raise ValueError("a measurement of another marginal")
    return Measurement(view, noisy, _scale(facts))


def _residuals(domain: Domain, facts: dict[str, Any], weights: np.ndarray, noisy: np.ndarray) -> Residuals:
    wide = sum(size > 1 for size in domain.shape)  # where none is, the total alone was measured: order 0
    if not min(wide, 1) <= facts["order"] <= len(domain) or len(weights) != 2**wide:
        raise ValueError("residuals of another domain")
    return Residuals(int(facts["order"]), weights, noisy, _scale(facts))


def _scale(facts: dict[str, Any]) -> NoiseScale:
    if not 0 < float(facts["scale"]) < math.inf:
        raise ValueError("noise of no scale")
    return NoiseScale(float(facts["scale"]), Composition(facts["composition"]))


def _manifest(domain: Domain, facts: Any) -> Manifest:
    """The statement, and that what is asked of it later has an answer: its price, and the marginals that rows
    are refined towards.
    """
    found = Manifest.model_validate(facts)
    found.model_dump_json()  # ValueError for half of a surrogate pair
    if not all(_DELTA.fullmatch(charge.delta) for charge in found.ledger):
        raise ValueError("a fraction that takes for ever to read")
    g, spent = found.guarantee, sum(Fraction(charge.delta) for charge in found.ledger)
    if (g.delta != 0) != (g.composition is Composition.ZCDP) or (
        g.delta and not LEAST_DELTA < Fraction(g.delta) - spent < 1
    ):
        raise ValueError("a promise that cannot be")
    if not math.isfinite(found.recompute()):
        raise ValueError("no price")
    limit = found.policy["max_memory"]
    if found.policy["engine"] not in ("tree", "mwem") or not (limit is None or float(limit) > 0):
        raise ValueError("a manifest of another program")
    workload = Workload.from_dict(found.workload)
    workload.check(domain.names)
    for asked in workload.asked:
        asked.spans(domain)
    return found
