"""Kernels in numba's hands: their types, and what is kept of them on disk for later runs."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints

from numba import njit, types, version_info
from numba.core.caching import FunctionCache
from numba.core.runtime import nrt

TRIED = ((0, 61), (0, 62), (0, 68))
"""The numbas whose way with parts is known; another compiles them in its own way, a fifth slower."""


class KernelCache(FunctionCache):
    """A kernel's cache on disk. What it holds is loaded without numba's register of all that can be compiled,
    which takes a quarter of a second to fill; compiling fills it where it is needed. It holds for the sources
    it was made of: numba looks at the kernel's own file alone, not at those of the parts linked into it.
    """

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), _sources(Path(self._py_func.__code__.co_filename).parent))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            nrt.rtsys.initialize(target_context)  # what counts references to arrays
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except AttributeError:  # another numba
            return super().load_overload(sig, target_context)


@functools.cache
def _sources(folder: Path) -> str:
    """A change in any file of kernels changes it. A zip file has none beside it: numba looks at all of it."""
    texts = (path.read_bytes() for path in sorted(folder.glob("*.py")))
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def jitted(function: Callable[..., Any], cached: bool, options: dict[str, Any]) -> Any:
    """numba's object for a kernel; where neither the package's folder nor the user's cache can be written, as
    in a container, nothing is kept.
    """
    if not cached and version_info.short in TRIED:
        from factored_mwem.kernels.parts import PartCompiler

        options = {**options, "pipeline_class": PartCompiler}
    kernel: Any = njit(nogil=True, **options)(function)
    if cached and kernel is not function:  # it is where compilation is switched off
        with suppress(RuntimeError):
            kernel._cache = KernelCache(function)
    return kernel


def types_of(annotated: Any) -> tuple[Any, ...]:
    """numba's types of a function's parameters, or of a named tuple's fields."""
    hints = get_type_hints(annotated, include_extras=True)
    return tuple(_type_of(hint) for name, hint in hints.items() if name != "return")


def _type_of(hint: Any) -> Any:
    """numba's type of a number, an array, or a named tuple of them."""
    if hint in (bool, int, float):
        return {bool: types.bool_, int: types.int64, float: types.float64}[hint]
    if hasattr(hint, "__metadata__"):
        kind, axes = hint.__metadata__
        return types.Array(getattr(types, kind), axes, "C")
    return types.BaseTuple.from_types(types_of(hint), hint)
