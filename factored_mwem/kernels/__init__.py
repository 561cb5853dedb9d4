"""Every compiled kernel: arrays in, arrays out; no randomness, no I/O, no Python objects. Compiled at first use and cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel, compiled at first use; kept on disk where a folder for that can be written, else compiled again in every process."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache is writable: a service account, a container
        return njit(nogil=True)(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of one kernel: put into its body before compilation, so that it is compiled once and not again for every kernel around it."""
    return njit(inline="always")(function)
