"""What both audits share: options, worker processes, and tables that are printed as their rows come."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

T = TypeVar("T")


def options_of(description: str, named: str) -> argparse.ArgumentParser:
    """The options that both have. `named`: what `--only` chooses from."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="NAME", help=f"{named} whose names hold this")
    parser.add_argument("--bugs", action="store_true", help="the planted bugs alone")
    parser.add_argument("--processes", type=int, default=2)
    return parser


@contextmanager
def spread(processes: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """`map`, over processes of its own where there is more than one; the results come in order."""
    if processes <= 1:
        yield map
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield pool.map


def show(
    head: Sequence[str], widths: Sequence[int], results: Iterable[T], cells: Callable[[T], Sequence[str]]
) -> list[T]:
    """The results, each of which is a row of a table that is printed, with a head where there are any."""
    shown: list[T] = []
    for result in results:
        for line in [cells(result)] if shown else [head, cells(result)]:
            padded = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            print(padded.rstrip(), flush=True)
        shown.append(result)
    if shown:
        print()
    return shown
