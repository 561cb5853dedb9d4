"""All parsers under test, by name."""

from __future__ import annotations

from fuzzing import files, tables, texts
from fuzzing.target import Target

TARGETS: dict[str, Target] = {**tables.TARGETS, **texts.TARGETS, **files.TARGETS}
