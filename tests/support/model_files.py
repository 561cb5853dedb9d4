"""Model files taken apart and put together again, with digests that fit, as whoever means harm would make."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from factored_mwem.pipeline.saving.model_file import digest_of, packed

Parts = tuple[dict[str, Any], dict[str, np.ndarray]]


def parts_of(path: Path) -> Parts:
    """Header and arrays of a model file."""
    arrays = safetensors.numpy.load(path.read_bytes())
    del arrays["sha256"]
    return json.loads(arrays.pop("header").tobytes()), arrays


def write(path: Path, header: Any, arrays: dict[str, Any]) -> Path:
    """A model file of these parts; `header` may be an array, too."""
    if isinstance(header, np.ndarray):
        arrays = {**arrays, "header": header}
        path.write_bytes(safetensors.numpy.save({**arrays, "sha256": digest_of(arrays)}))
    else:
        path.write_bytes(packed(header, arrays))
    return path


def listed(data: bytes, edit: Callable[[dict[str, Any]], Any]) -> bytes:
    """The file, once its list of arrays (name to dtype, shape and data_offsets) is edited, or replaced."""
    length = int.from_bytes(data[:8], "little")
    entries = json.loads(data[8 : 8 + length])
    edited = edit(entries)
    text = json.dumps(entries if edited is None else edited).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]
