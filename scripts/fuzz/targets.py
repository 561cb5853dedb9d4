"""All parsers under test, by name."""

from __future__ import annotations

from fuzzing import door, files, tables, texts
from fuzzing.target import Target

TARGETS: dict[str, Target] = {**tables.TARGETS, **door.TARGETS, **texts.TARGETS, **files.TARGETS}
