"""Nameless files: where private rows or codes wait that memory does not hold. They have no name from the
first byte on, so that nothing is left of them however the process ends.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from factored_mwem.errors import Busy


def nameless(folder: Path | None, suffix: str) -> int:
    """The handle of an open file without a name, in `folder` or where the system keeps temporary files."""
    handle, name = tempfile.mkstemp(prefix="fmwem-", suffix=suffix, dir=folder)
    os.unlink(name)
    return handle


def write_whole(handle: int, data: Any) -> None:
    """Write all bytes of `data`, whatever the system takes at a time."""
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(handle, view) :]


def full(what: str, folder: Path | None, why: str | None) -> Busy:
    """What to raise where such a file cannot be made or written."""
    where = folder or tempfile.gettempdir()
    return Busy(f"cannot keep {what} in {where}: {why}; free some space, or name another folder by --spill")
