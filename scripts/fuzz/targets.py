"""All parsers under test, by name."""

from __future__ import annotations

from fuzz import door, files, tables, texts, written
from fuzz.target import Target

TARGETS: dict[str, Target] = {
    **tables.TARGETS,
    **door.TARGETS,
    **written.TARGETS,
    **texts.TARGETS,
    **files.TARGETS,
}
