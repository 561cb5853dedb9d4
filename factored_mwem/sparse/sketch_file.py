"""The sketch file: a header in JSON and arrays, framed and checked as a model file is.

The same sketch gives the same bytes. What is read may be a stranger's: all of it is checked.
"""

from __future__ import annotations

import json
import logging
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from factored_mwem.accounting.accountant import Mechanism
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import FmwemError, InputError
from factored_mwem.files import IfExists
from factored_mwem.pipeline.model_fields import MAX_SCALE, MIN_SCALE, Read
from factored_mwem.pipeline.model_file import BROKEN, packed, reader
from factored_mwem.pipeline.statement import Statement
from factored_mwem.privacy.session import NoiseScale
from factored_mwem.sparse.released import LEAST, Sketch
from factored_mwem.tables.targets import Target
from factored_mwem.workload.projection import MAX_BLOCKS, MAX_ROWS, Hashed, Listed, Projection, Stack

log = logging.getLogger("factored_mwem")
VERSION = 1
KINDS = {
    Mechanism.GAUSSIAN: Composition.ZCDP,
    Mechanism.LAPLACE: Composition.PURE,
    Mechanism.LAPLACE_IN_RHO: Composition.PURE,
}
"""How a sketch's noise is charged, and whose scale it has."""
MAX_SENSITIVITY = 2**90


def save(made: Sketch, target: Target, exists: IfExists) -> None:
    """Write the sketch file, whole or not at all."""
    target.check(exists)
    content = content_of(made)
    with target.replacing(exists) as temporary:
        temporary.write_bytes(content)
    log.info("wrote %r: the sketch", str(target))


def content_of(made: Sketch) -> bytes:
    """The file's bytes."""
    hashed = isinstance(made.universe, Hashed)
    header = {
        "fmwem_sketch": VERSION,
        "column": made.column,
        "hash_key": made.universe.key.hex() if isinstance(made.universe, Hashed) else None,
        "keys": None if hashed else list(made.universe.keys),  # type: ignore[union-attr]
        "size": made.projection.size,
        "blocks": len(made.projection.parts),
        "scale": made.scale.value,
        "composition": made.scale.composition,
        "statement": made.statement.model_dump(mode="json"),
    }
    words = np.concatenate([part.coefficients.ravel() for part in made.projection.parts])
    return packed(header, {"noisy": made.noisy, "coefficients": words})


def load(path: Path) -> Sketch:
    """What a sketch file holds. InputError where it is none, or damaged; ResourceError if it is too large."""
    try:
        with open(path, "rb") as file:
            read = reader(file, path)
            header = json.loads(read("header", np.uint8).tobytes())
            if header.get("fmwem_sketch") != VERSION:
                raise ValueError("another file, or of a newer program")
            return _put_together(header, read)
    except FileNotFoundError:
        raise InputError(f"no sketch file {path}") from None
    except FmwemError:
        raise
    except BROKEN:
        raise InputError(
            f"{path} is not a sketch file of this version, or is damaged; `fmwem sketch build` writes them"
        ) from None


def _put_together(header: dict[str, Any], read: Read) -> Sketch:
    noisy, words = read("noisy", np.int64), read("coefficients", np.uint64)
    size, column = header["size"], header["column"]
    if type(size) is not int or not 1 <= size <= MAX_ROWS or len(noisy) != size:
        raise ValueError("a sketch of another size")
    blocks = header["blocks"]
    if not isinstance(column, str) or not column:
        raise ValueError("a sketch of no column")
    if type(blocks) is not int or not 1 <= blocks <= MAX_BLOCKS or size % blocks or len(words) % (2 * blocks):
        raise ValueError("blocks that do not fit")
    universe = _universe(header)
    parts = np.split(words.reshape(-1, 2), blocks)
    projection = Stack([Projection(part, size // blocks, universe.bits) for part in parts])
    scale = NoiseScale(float(header["scale"]), Composition(header["composition"]))
    if not MIN_SCALE <= scale.value <= MAX_SCALE:
        raise ValueError("noise of no scale")
    if projection.independence < LEAST:
        raise ValueError("signs that no standard deviation is known of")
    statement = _sound(Statement.model_validate(header["statement"]), scale)
    return Sketch(column, universe, projection, noisy, scale, statement)


def _universe(header: dict[str, Any]) -> Hashed | Listed:
    code, keys = header["hash_key"], header["keys"]
    if (code is None) == (keys is None):
        raise ValueError("a universe is hashed or listed")
    if keys is not None:
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise ValueError("keys that are no text")
        return Listed(tuple(keys))
    if not isinstance(code, str) or not re.fullmatch("[0-9a-f]{32}", code):
        raise ValueError("no key of a hash")
    return Hashed(bytes.fromhex(code))


def _sound(stated: Statement, scale: NoiseScale) -> Statement:
    """The statement, and that its one entry is of this noise and has a price."""
    stated.model_dump_json()  # ValueError for half of a surrogate pair
    (entry,) = stated.ledger
    Neighbours(stated.promise.neighbours)
    in_rho = entry.mechanism is not Mechanism.LAPLACE
    if entry.delta != "0" or not 0 < entry.sensitivity <= MAX_SENSITIVITY or entry.scale != scale.value:
        raise ValueError("an entry of another measurement")
    if KINDS[entry.mechanism] is not scale.composition:
        raise ValueError("noise of another kind than is charged")
    delta, composition = stated.promise.delta, stated.promise.composition
    if in_rho != (composition is Composition.ZCDP) or in_rho != (1e-250 < delta < 1):
        raise ValueError("a promise that cannot be")
    if not in_rho and delta != 0:
        raise ValueError("a promise that cannot be")
    if not math.isfinite(stated.recompute()):
        raise ValueError("no price")
    return stated
