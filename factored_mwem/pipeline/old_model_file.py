"""Model files of versions 2 and 3, zip files of .npy arrays, which are read and no longer written."""

from __future__ import annotations

import os
import re
import struct
import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from factored_mwem.pipeline.model_fields import Read, check_size

VERSIONS = (2, 3)
BEGINNING = b"PK\x03\x04"
BROKEN = (zipfile.BadZipFile, zlib.error, struct.error)
"""What the library raises at a damaged or foreign zip file, beside what any reading may raise."""
MAX_DIRECTORY = 2**22
"""Bytes of the list of arrays, some 60,000 of them."""
_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|](?:f8|i8|u1))', "
    rb"'fortran_order': False, 'shape': \((\d{1,12}),\), \} *\n",
    re.DOTALL,
)
"""The beginning of an array as we wrote them: of one dimension and plain numbers, so that nothing has to be
evaluated to read it.
"""


def reader(file: IO[bytes], path: Path) -> Read:
    """What reads the arrays of a file, once its list of them is known to be one of ours."""
    _check_directory(file)
    archive = zipfile.ZipFile(file)
    members = archive.infolist()
    header = sum(member.file_size for member in members if member.filename == "header.npy")
    check_size(path, sum(member.file_size for member in members), header)
    plain = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    if any(member.compress_type not in plain or member.flag_bits & 1 for member in members):
        raise ValueError("packed in an unknown way")
    return partial(_array, archive)


def _check_directory(file: IO[bytes]) -> None:
    """ValueError where the list of arrays at the end is none of ours, or long.

    The library would make an object of each before we can count them.
    """
    file.seek(-42, os.SEEK_END)
    before, end = file.read(20), file.read(22)
    longer = before[:4] == b"PK\x06\x07"  # the list may then be of any length
    ours = end[:4] == b"PK\x05\x06" and end[-2:] == b"\x00\x00" and not longer
    if not ours or int.from_bytes(end[12:16], "little") > MAX_DIRECTORY:
        raise ValueError("not a zip file of ours")


def _array(archive: zipfile.ZipFile, name: str, kind: type[np.number[Any]]) -> np.ndarray:
    """One array of the file; ValueError where its head, its declared size and its content disagree."""
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
        numbers = np.empty(count, dtype=kind)
        content, at = numbers.view(np.uint8), 0
        while at < len(content):
            part = member.read(min(2**20, len(content) - at))
            if not part:
                raise ValueError("an array cut short")
            content[at : at + len(part)] = np.frombuffer(part, dtype=np.uint8)
            at += len(part)
        return numbers
