"""Crash points: the named places of a run at which a crash would hurt most.

`reach` does nothing, except in tests, which end the process there.
"""

from __future__ import annotations

from collections.abc import Callable

POINTS = (
    "before reserve", "after reserve", "before commit", "after commit", "before draw", "before journal",
    "half journalled", "after journal", "after fit", "sampling", "before rename", "after rename",
    "before manifest", "before finish", "after finish",
)  # fmt: skip
"""In about the order of a run. Commits are those of the ledger file, renames those of any output file."""

hook: Callable[[str], None] = lambda point: None  # noqa: E731 - a place for a test's function


def reach(point: str) -> None:
    """Tell `hook` that the run has come to `point`, one of POINTS."""
    hook(point)
