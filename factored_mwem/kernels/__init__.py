"""Every compiled kernel: arrays and named tuples of arrays in, arrays out; no randomness, no I/O, no Python
objects.

A first run waits for them to compile. So loops copy and subtract arrays, because for `a - b` and `a[:] = b`
numba compiles two seconds of text for its message on shapes; `np.empty` and a loop compile faster than
`np.zeros`; and a large part is called in one place of a kernel, as each call may compile it in once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import numpy as np
from numba import bool_, float32, float64, int32, int64, njit, types, uint8, uint32, uint64

# Contiguous arrays, named as numba does: kind, bytes, and axes where there are two.
B1 = Annotated[np.ndarray, bool_[::1]]
F4 = Annotated[np.ndarray, float32[::1]]
F8 = Annotated[np.ndarray, float64[::1]]
I4 = Annotated[np.ndarray, int32[::1]]
I8 = Annotated[np.ndarray, int64[::1]]
U1 = Annotated[np.ndarray, uint8[::1]]
U4 = Annotated[np.ndarray, uint32[::1]]
F8x2 = Annotated[np.ndarray, float64[:, ::1]]
I4x2 = Annotated[np.ndarray, int32[:, ::1]]
I8x2 = Annotated[np.ndarray, int64[:, ::1]]
U4x2 = Annotated[np.ndarray, uint32[:, ::1]]
U8x2 = Annotated[np.ndarray, uint64[:, ::1]]

ENTRIES: list[tuple[Any, tuple[Any, ...]]] = []
"""The kernels that a release calls from Python, with their argument types; the first run compiles them."""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel at first use, and cache it on disk if the cache folder can be written; without the
    wrapper for calls from C, which nobody makes.
    """
    options: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache is writable, as in a container
        return njit(**options)(function)


def entry(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that Python calls, with arguments of the annotated types alone."""
    kernel = compiled(function)
    ENTRIES.append((kernel, _types_of(function)))  # a tuple, as the cache on disk names what a call compiled
    return kernel


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of other kernels, which Python cannot call: without the wrappers for calls it compiles in half
    the time.
    """
    without: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(nogil=True, **without)(function)


def _types_of(annotated: Any) -> tuple[Any, ...]:
    """numba's types of a function's parameters, or of a named tuple's fields."""
    hints = get_type_hints(annotated, include_extras=True)
    return tuple(_type_of(hint) for name, hint in hints.items() if name != "return")


def _type_of(hint: Any) -> Any:
    """numba's type of a number, an array, or a named tuple of them."""
    if hint in (bool, int, float):
        return {bool: bool_, int: int64, float: float64}[hint]
    if hasattr(hint, "__metadata__"):
        return hint.__metadata__[0]
    return types.BaseTuple.from_types(_types_of(hint), hint)
