"""Every compiled kernel: arrays and named tuples of arrays in, arrays out; no randomness, no I/O, no Python
objects.

A first run waits for them to compile. So loops copy and subtract arrays, because for `a - b` and `a[:] = b`
numba compiles two seconds of text for its message on shapes; `np.empty` and a loop compile faster than
`np.zeros`; and a large part is called in one place of a kernel, as each call may compile it in once more.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Annotated, Any

import numpy as np

# Contiguous arrays: kind and bytes as numba names them, and axes.
B1 = Annotated[np.ndarray, "bool_", 1]
F4 = Annotated[np.ndarray, "float32", 1]
F8 = Annotated[np.ndarray, "float64", 1]
I4 = Annotated[np.ndarray, "int32", 1]
I8 = Annotated[np.ndarray, "int64", 1]
U1 = Annotated[np.ndarray, "uint8", 1]
U4 = Annotated[np.ndarray, "uint32", 1]
F8x2 = Annotated[np.ndarray, "float64", 2]
I4x2 = Annotated[np.ndarray, "int32", 2]
I8x2 = Annotated[np.ndarray, "int64", 2]
U4x2 = Annotated[np.ndarray, "uint32", 2]
U8x2 = Annotated[np.ndarray, "uint64", 2]


_MAKING = RLock()
"""Two threads that call the same kernel first share one object of numba's, so that it is compiled once."""


class Kernel:
    """A function that numba compiles when it is first called, or loads from the cache on disk; until then
    numba is not imported, for which a command that calls no kernel would wait a fifth of a second.

    Whatever else is asked of it, numba's own object answers.
    """

    def __init__(self, function: Callable[..., Any], cached: bool, options: dict[str, Any]) -> None:
        self.py_func, self._cached, self._options = function, cached, options
        self._made: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._made or self._compiled())(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name in ("py_func", "_made"):  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._compiled(), name)

    def _compiled(self) -> Any:
        from factored_mwem.kernels.caching import jitted

        with _MAKING:
            if self._made is None:
                self._made = jitted(self.py_func, self._cached, self._options)
        return self._made

    @property
    def argument_types(self) -> tuple[Any, ...]:
        """numba's types of the annotated parameters: a tuple, as the cache on disk names what is called."""
        from factored_mwem.kernels.caching import types_of

        return types_of(self.py_func)


class Part(Kernel):
    """A part of other kernels, without wrappers for calls, so that it compiles in half the time: Python has
    none of its machine code to call, and runs the function itself.
    """

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


ENTRIES: list[Kernel] = []
"""The kernels that a release calls from Python; the first run compiles them."""


def compiled(function: Callable[..., Any]) -> Kernel:
    """A kernel without the wrapper for calls from C, which nobody makes."""
    return Kernel(function, True, {"no_cfunc_wrapper": True})


def entry(function: Callable[..., Any]) -> Kernel:
    """A kernel that Python calls, with arguments of the annotated types alone."""
    ENTRIES.append(compiled(function))
    return ENTRIES[-1]


def part(function: Callable[..., Any]) -> Part:
    """A part of other kernels."""
    return Part(function, False, {"no_cpython_wrapper": True, "no_cfunc_wrapper": True})
