"""Progress for people: a bar on a terminal or in a notebook, of public facts only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from factored_mwem.mechanisms.rounds import Progress

__all__ = ["Progress", "in_parts", "is_first_run", "measured", "show_count", "show_progress", "visible"]


@contextlib.contextmanager
def show_progress(console: Console | None = None) -> Iterator[Callable[[Progress], None]]:
    """A bar on stderr or in a notebook, and nothing elsewhere; yields the `report` argument of a release.

    >>> import pyarrow as pa
    >>> from factored_mwem import release, show_progress
    >>> with show_progress() as report:
    ...     made = release(pa.table({"age": [0, 1]}), 1, domain={"age": 2}, rows=3, report=report)
    >>> made.to_arrow().num_rows
    3
    """
    with _bar("reading", console, TimeRemainingColumn()) as change:
        change()

        def tell(step: Progress) -> None:
            text = f"{measured(step)}; {in_parts(step.components)}"
            # rounds may get dearer, so the budget is the measure
            change(total=1.0, completed=step.spent, description=visible(text))

        yield tell


@contextlib.contextmanager
def show_count(what: str, console: Console | None = None) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr for `what`, from its first step on, nothing if no person looks: the callback that it
    yields takes the number of steps done, and of all steps.
    """
    with _bar(visible(what), console) as change:
        yield lambda done, of: change(total=of, completed=done, visible=done < of)


@contextlib.contextmanager
def _bar(text: str, console: Console | None, *more: ProgressColumn) -> Iterator[Callable[..., None]]:
    """A function that changes a bar, which appears at the first change; it does nothing if nobody is
    looking.
    """
    console = console or Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield lambda **_: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), *more)
    # no thread refreshes it, which would fail on its own
    bar = Bar(*columns, console=console, transient=True, auto_refresh=False)
    task, started = bar.add_task(text, total=None), False

    def change(**changes: Any) -> None:
        nonlocal started
        with contextlib.suppress(Exception):  # a display that fails ends no run
            if not started:
                started = True
                bar.start()
            if changes:
                bar.update(task, refresh=True, **changes)

    try:
        yield change
    finally:
        with contextlib.suppress(Exception):
            bar.stop()


def is_first_run(engine: str) -> bool:
    """Whether a release by this engine has to compile first."""
    from factored_mwem.mechanisms.registry import is_ready

    return not is_ready(engine)


def in_parts(parts: int) -> str:
    """Into how many independent parts the columns fall, in words."""
    return f"columns in {parts:,} independent parts" if parts > 1 else "all columns tied together"


def measured(step: Progress) -> str:
    """What a round measured, in words."""
    return f"round {step.round}: measured {' x '.join(step.attributes)}"


def visible(text: str) -> str:
    """Text with control characters spelt out, because names may hold anything, also what controls a
    terminal.
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
