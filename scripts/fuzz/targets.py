"""All parsers under test, by name."""

from __future__ import annotations

from fuzz import door, files, tables, texts
from fuzz.target import Target

TARGETS: dict[str, Target] = {**tables.TARGETS, **door.TARGETS, **texts.TARGETS, **files.TARGETS}
