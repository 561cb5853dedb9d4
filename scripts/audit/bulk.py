"""What both audits share: options and worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Annotated, Any


@dataclass(frozen=True, kw_only=True)
class Bulk:
    """The options that both have."""

    only: Annotated[str, "those whose names hold this"] = ""
    bugs: Annotated[bool, "the planted bugs alone"] = False
    processes: int = 2


@contextmanager
def spread(processes: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """`map`, over processes of its own where there is more than one; the results come in order."""
    if processes <= 1:
        yield map
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield pool.map
