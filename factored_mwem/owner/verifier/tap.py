"""Tap: records what the library's sampler receives and returns, below its Python binding. NOT PRIVATE.

The binding turns our values into the library's own objects, and something may be lost there (a text ends at
its first NUL). So the call that crosses into the library is watched, and its objects are read back by the
library itself.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from factored_mwem.tables.inputs.source import Private

INVOKE = "opendp_core__measurement_invoke"
"""The one function of the library that draws noise."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Private):
    """One call of the sampler, `measurement`; it `returned` None if it failed."""

    received: Any
    returned: Any
    measurement: Any

    def loss(self, distance: Any) -> Any:
        """What the library's own map says of this very sampler, with its real scale, at a distance."""
        return self.measurement.map(distance)


class Tap:
    """The calls since they were last taken, in the order in which they returned."""

    def __init__(self) -> None:
        self._calls: list[Call] = []

    def take(self) -> list[Call]:
        taken, self._calls = self._calls, []
        return taken

    def note(self, call: Call) -> None:
        self._calls.append(call)


@contextlib.contextmanager
def tapped() -> Iterator[Tap]:
    """A tap on the library, for as long as the context lasts; all threads of the process run through it."""
    from opendp._convert import c_to_py
    from opendp._lib import AnyObject, AnyObjectPtr, FfiResult, lib
    from opendp.mod import Measurement

    tap, function = Tap(), getattr(lib, INVOKE)
    function.argtypes, function.restype = [Measurement, AnyObjectPtr], FfiResult

    def invoke(measurement: Any, argument: Any) -> Any:
        received = c_to_py(argument)
        result = function(measurement, argument)
        # A plain pointer: the binding's own class would free what it points at, which the caller is about to
        # read.
        plain = ctypes.cast(result.payload.Ok, ctypes.POINTER(AnyObject)) if result.tag == 0 else None
        tap.note(Call(received, None if plain is None else c_to_py(plain), measurement))
        return result

    setattr(lib, INVOKE, invoke)
    try:
        yield tap
    finally:
        setattr(lib, INVOKE, function)
