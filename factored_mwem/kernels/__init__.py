"""Every compiled kernel: arrays in, arrays out; no randomness, no I/O, no Python objects. Compiled at first
use and cached on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.sigutils import normalize_signature

ENTRIES: list[tuple[Any, tuple[Any, ...]]] = []
"""The kernels that a release calls from Python and the argument types of each: what the first run compiles
ahead.
"""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel, compiled at first use; kept on disk where a folder for that can be written, else compiled
    again in every process.
    """
    try:
        return njit(cache=True, nogil=True)(function)
    except (
        RuntimeError
    ):  # neither the package's folder nor the user's cache is writable: a service account, a container
        return njit(nogil=True)(function)


def entry(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A kernel that Python calls with arguments of these types alone, in numba's short names: `f8[::1]` is a
    contiguous float64 array.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        kernel = compiled(function)
        ENTRIES.append(
            (kernel, normalize_signature(signature)[0])
        )  # as the cache names what a call has compiled
        return kernel

    return register


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of other kernels, which Python cannot call: without the wrappers for that it compiles in half
    the time.
    """
    without: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(nogil=True, **without)(function)
