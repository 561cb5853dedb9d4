"""The replicates' file: a cache beside a model file, in the same format. Public as the model is, and free.

It may be a stranger's, or of another model: what is read is checked, and what does not fit is made anew.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import safetensors.numpy

from factored_mwem.answers.bootstrap_fit import BootstrapFits
from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.replicates import Drawn
from factored_mwem.errors import FmwemError
from factored_mwem.files.files import IfExists, replacing, sha256
from factored_mwem.pipeline.saving.model_file import BROKEN, MAX_LIST_BYTES, digest_of, packed

VERSION = 1
"""Of the file, and of how replicates are made: what an older program made is made anew."""
MAX_BYTES, MAX_HEADER_BYTES, MAX_REPLICATES = 2**30, 2**16, 10_000
MOST = 2_000.0
"""No parameter of a fit is beyond: its steps are limited, see kernels/tree.py."""


def beside(model: Path) -> Path:
    """Where the replicates of a model file are kept."""
    return model.with_name(model.name + ".replicates")


def keep(model: Path, drawn: Drawn) -> None:
    """Write the replicates beside their model, whole or not at all; a folder that refuses is no error."""
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
            start = file.read(8)
            if int.from_bytes(start, "little") > MAX_LIST_BYTES:
                return None
            content = start + file.read(MAX_BYTES)
        arrays = safetensors.numpy.load(content)
        if not np.array_equal(arrays["sha256"], digest_of(arrays)):
            return None
        header = json.loads(arrays["header"][:MAX_HEADER_BYTES].tobytes())
        stated = (header["fmwem_replicates"], header["model"], header["seed"])
        if stated != (VERSION, sha256(model), seed) or not count <= header["count"] <= MAX_REPLICATES:
            return None
        return _checked(evidence, seed, int(header["count"]), arrays)
    except BROKEN:
        return None


def _checked(evidence: Evidence, seed: int, count: int, arrays: dict[str, np.ndarray]) -> Drawn | None:
    """What the arrays stand for; None, or what `BROKEN` lists, where they do not fit the evidence."""
    sizes = evidence.model.levels.shape
    totals = arrays["totals"]
    thetas = [arrays[f"theta_{i}"] for i in range(len(BootstrapFits(evidence).parts))]
    codes = [arrays[f"codes_{a}"] for a in range(len(sizes))]
    if count < 2 or totals.dtype != np.float64 or totals.shape != (count,) or not _inside(totals, 1.0, 1e16):
        return None
    for part, theta in zip(BootstrapFits(evidence).parts, thetas, strict=True):
        if theta.dtype != np.float32 or theta.shape != (count * part.parameters,):
            return None
        if not _inside(theta, -MOST, MOST):
            return None
    rows = codes[0].size // count
    for size, drawn in zip(sizes, codes, strict=True):
        if drawn.dtype != np.min_scalar_type(size - 1) or drawn.shape != (count * rows,) or not rows:
            return None
        if int(drawn.max()) >= size:
            return None
    return Drawn(seed, totals, _rows(thetas, count), _rows(codes, count))


def _inside(values: np.ndarray, low: float, high: float) -> bool:
    """Whether all are finite and within the limits."""
    return not values.size or bool(
        low <= values.min() and values.max() <= high and math.isfinite(values.sum())
    )


def _rows(arrays: Iterable[np.ndarray], count: int) -> Sequence[np.ndarray]:
    return [array.reshape(count, -1) for array in arrays]
