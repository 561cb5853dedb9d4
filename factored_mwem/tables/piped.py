"""Piped: a table that comes through standard input. What it is, its first bytes say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from factored_mwem.errors import InputError
from factored_mwem.tables.input_file import InputFile
from factored_mwem.tables.nameless import full, nameless, write_whole

STANDARD_INPUT = "-"
"""What a command is given instead of a path."""
ARROW_STREAM = b"\xff\xff\xff\xff"
"""How an Arrow IPC stream begins. It alone is read as it comes: anything else as a file."""
MAGIC = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\x1f\x8b": ".csv.gz"}
"""The suffix of what begins so; all else is text."""
BLOCK_BYTES = 1 << 20


def begins_as_arrow_stream(pipe: Any) -> bool:
    """Whether a buffered stream holds an Arrow IPC stream; nothing of it is used up. InputError where a
    person would have to type it.
    """
    if pipe.isatty():
        raise InputError("- is standard input, here a terminal; pipe a table into it, or name a file")
    return pipe.peek(len(ARROW_STREAM)).startswith(ARROW_STREAM)


def piped(pipe: Any, folder: Path | None) -> tuple[InputFile, str]:
    """(all of a stream in a file without a name, the suffix of its kind). Busy where the disk is full."""
    begin = pipe.read(BLOCK_BYTES)
    suffix = next((found for magic, found in MAGIC.items() if begin.startswith(magic)), ".csv")
    handle = None
    try:
        handle = nameless(folder, suffix)
        while begin:
            write_whole(handle, begin)
            begin = pipe.read(BLOCK_BYTES)
        name = f"stdin{suffix}"
        file = InputFile(Path(name), footer=suffix == ".parquet", label=name, handle=handle)
        return file, suffix
    except OSError as error:
        if handle is not None:
            os.close(handle)
        why = error.strerror
    raise full("standard input", folder, why)
