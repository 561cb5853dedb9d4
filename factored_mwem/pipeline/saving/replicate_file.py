"""The replicates' file: a cache beside a model file, in the same format. Public as the model is, and free.

The file may come from a stranger, or from another model: it is checked, and replicates that do not fit are
made anew.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from factored_mwem.answers.bootstrap_fit import BootstrapFits
from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.replicates import Drawn
from factored_mwem.errors import FmwemError
from factored_mwem.files.files import IfExists, replacing, sha256
from factored_mwem.pipeline.saving.model_fields import MAX_BYTES, Read
from factored_mwem.pipeline.saving.model_file import BROKEN, packed, reader

VERSION = 1
"""Version of the file, and of how replicates are made; those of an older program are made anew."""
MAX_HEADER_BYTES, MAX_REPLICATES = 2**16, 10_000
MOST = 2_000.0
"""No parameter of a fit is beyond: its steps are limited, see kernels/tree.py."""


def beside(model: Path) -> Path:
    """Where the replicates of a model file are kept."""
    return model.with_name(model.name + ".replicates")


def keep(model: Path, drawn: Drawn) -> None:
    """Write the replicates beside their model, whole or not at all; if the folder cannot be written, nothing
    happens.
    """
    with contextlib.suppress(OSError, FmwemError):
        header = {
            "fmwem_replicates": VERSION,
            "model": sha256(model),
            "seed": drawn.seed,
            "count": len(drawn.totals),
        }
        arrays = {"totals": drawn.totals}
        arrays |= {f"theta_{i}": theta.ravel() for i, theta in enumerate(drawn.thetas)}
        arrays |= {f"codes_{a}": codes.ravel() for a, codes in enumerate(drawn.codes)}
        content = packed(header, arrays)
        if len(content) <= MAX_BYTES:
            with replacing(beside(model), IfExists.REPLACE) as temporary:
                temporary.write_bytes(content)


def kept(model: Path, evidence: Evidence, seed: int, count: int) -> Drawn | None:
    """The replicates of this `seed` beside a model file, `count` or more; None if there are none sound."""
    try:
        with open(beside(model), "rb") as file:
            read = reader(file, beside(model))
        header = json.loads(read("header", np.uint8)[:MAX_HEADER_BYTES].tobytes())
        stated = (header["fmwem_replicates"], header["model"], header["seed"])
        if stated != (VERSION, sha256(model), seed) or not count <= header["count"] <= MAX_REPLICATES:
            return None
        return _checked(evidence, seed, int(header["count"]), read)
    except (*BROKEN, FmwemError):
        return None


def _checked(evidence: Evidence, seed: int, count: int, read: Read) -> Drawn | None:
    """What the arrays stand for; None, or what `BROKEN` lists, where they do not fit the evidence."""
    sizes, parts = evidence.model.levels.shape, BootstrapFits(evidence).parts
    totals = read("totals", np.float64)
    thetas = [read(f"theta_{i}", np.float32) for i in range(len(parts))]
    codes = [read(f"codes_{a}", np.min_scalar_type(size - 1).type) for a, size in enumerate(sizes)]
    rows = codes[0].size // count
    sound = count >= 2 and rows > 0 and len(totals) == count and _inside(totals, 1.0, 1e16)
    for part, theta in zip(parts, thetas, strict=True):
        sound = sound and len(theta) == count * part.parameters and _inside(theta, -MOST, MOST)
    for size, drawn in zip(sizes, codes, strict=True):
        sound = sound and len(drawn) == count * rows and int(drawn.max()) < size
    return Drawn(seed, totals, _rows(thetas, count), _rows(codes, count)) if sound else None


def _inside(values: np.ndarray, low: float, high: float) -> bool:
    """Whether all are finite and within the limits."""
    return not values.size or bool(
        low <= values.min() and values.max() <= high and math.isfinite(values.sum())
    )


def _rows(arrays: Iterable[np.ndarray], count: int) -> Sequence[np.ndarray]:
    return [array.reshape(count, -1) for array in arrays]
