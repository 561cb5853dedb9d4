"""Which of many cases the default suite takes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def others_slow(cases: Iterable[Any], keep: Callable[[Any], bool]) -> list[Any]:
    """All the cases, in order: those that `keep` does not take are marked slow."""

    def slow(case: Any) -> Any:
        return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)

    return [case if keep(case) else slow(case) for case in cases]


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes, and /proc")
"""What other systems do not have."""
