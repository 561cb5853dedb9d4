"""The model file: plain arrays and a header in JSON, in the safetensors format: no pickle, no code to run.

It holds the noisy answers of every measurement. The same model gives the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import safetensors.numpy
from pydantic import ValidationError
from safetensors import SafetensorError

from factored_mwem.errors import FmwemError, InputError, must
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.saving.model_fields import (
    VERSION,
    Contents,
    Kind,
    Read,
    check_size,
    put_together,
    taken_apart,
)
from factored_mwem.tables.outputs.targets import Target

log = logging.getLogger("factored_mwem")
MAX_LIST_BYTES = 2**22
"""Largest list of arrays, some 50,000 of them; the library makes an object of each."""
BROKEN = (
    *(OSError, ValueError, LookupError, TypeError, EOFError, AttributeError, ArithmeticError, AssertionError),
    RuntimeError,  # also nested too deep
    *(SafetensorError, pa.ArrowException, ValidationError),
)
"""What reading a damaged or foreign file can raise."""


def save(
    contents: Contents, target: Target, exists: IfExists, before: Callable[[], None] = lambda: None
) -> None:
    """Write the model file, whole or not at all. `exists`, `before`: see `replacing`."""
    target.check(exists)
    header, arrays = taken_apart(contents)
    content = packed(header, arrays)
    with target.replacing(exists, before) as temporary:
        temporary.write_bytes(content)
    log.info("wrote %r: the model", str(target))


def packed(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """A model file of these parts."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}  # as save() takes on trust
    arrays |= {"header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)}
    return safetensors.numpy.save(arrays | {"sha256": digest_of(arrays)})


def digest_of(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """uint8[32]: a digest of names and numbers; safetensors has none, and a disk may damage a number."""
    digest = hashlib.sha256()
    for name in sorted(arrays.keys() - {"sha256"}):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].size}\n".encode())
        digest.update(arrays[name].data)
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def load(path: Path, kind: type[Kind]) -> Kind:
    """What a model file holds. Raises InputError if it is none, or damaged; ResourceError if it is too large.

    The file may come from a stranger: sizes and numbers are checked before they are used, and no code is run.
    """
    beside = path.with_name(path.name.removesuffix(".json").rpartition(".")[0] + ".fmwem")
    mistaken = beside != path and beside.is_file()  # the record or the rows of a release
    advice = f"{beside} is one" if mistaken else "`fmwem release --model` writes them"
    with parts_of(path, "model file", advice) as (header, read):
        if "fmwem_package" in header:
            how = "`fmwem sample` draws from it"
            raise InputError(f"{path} is the model of a package of tables, not of a single one; {how}")
        version = header.get("fmwem_model")
        if type(version) is not int or version != VERSION:
            raise InputError(
                f"{path} is a model file of version {ascii(version)[:20]}, this program reads version "
                f"{VERSION}; use the program that wrote it"
            )
        return put_together(kind, header, read)


@contextlib.contextmanager
def parts_of(path: Path, what: str, advice: str) -> Iterator[tuple[dict[str, Any], Read]]:
    """The header of a file and the reader of its arrays, for a block that makes `what` of them. Raises
    InputError if that fails, ResourceError if the file is too large.
    """
    try:
        with open(path, "rb") as file:
            read = reader(file, path)
            yield json.loads(read("header", np.uint8).tobytes()), read
    except FileNotFoundError:
        raise InputError(f"no {what} {path}") from None
    except FmwemError:
        raise
    except BROKEN:
        raise InputError(f"{path} is not a {what}, or is damaged; {advice}") from None


def reader(file: IO[bytes], path: Path) -> Read:
    """The reader of the arrays of a file. A file holds as much as it declares; safetensors refuses any
    other.
    """
    size = os.fstat(file.fileno()).st_size
    check_size(path, size, 0)
    must(int.from_bytes(file.read(8), "little") <= MAX_LIST_BYTES, "a list without end")
    file.seek(0)
    arrays = safetensors.numpy.load(file.read(size))
    check_size(path, size, arrays["header"].nbytes)
    must(np.array_equal(arrays["sha256"], digest_of(arrays)), "damaged")

    def read(name: str, kind: type[np.number[Any]]) -> np.ndarray:
        must(arrays[name].dtype == kind and arrays[name].ndim == 1, "an array of another kind")
        return arrays[name]

    return read


def is_package(path: Path) -> bool:
    """Whether a file says that it is the model of a package; nothing else in it is checked."""
    try:
        with open(path, "rb") as file:
            header = json.loads(reader(file, path)("header", np.uint8).tobytes())
    except (FmwemError, *BROKEN):
        return False
    return isinstance(header, dict) and "fmwem_package" in header
