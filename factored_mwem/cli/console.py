"""Console: what a person sees on stderr. Public facts only; progress is off where stderr is no terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from factored_mwem.pipeline.progress import in_parts, measured, show_progress, visible

if TYPE_CHECKING:
    from factored_mwem.domain.attribute import Attribute
    from factored_mwem.domain.domain import Domain
    from factored_mwem.pipeline.progress import Progress
    from factored_mwem.pipeline.record.statement import Statement

STARTED = time.monotonic()
"""When the command line was parsed: the running time is counted from here."""
LOG_SECONDS = 30.0
"""Seconds between two lines of progress in a log."""


def stderr() -> Console:
    """A console for people; rich itself respects NO_COLOR and a missing terminal.

    It interprets no markup: a column may be called "[/b]" or ":smile:".
    """
    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)


def say(text: str) -> None:
    """A message for people on stderr. A closed, full or non-Unicode stderr does not end the run."""
    with contextlib.suppress(Exception):
        stderr().print(visible(text))


def piece(text: object) -> str:
    """A text from any file, for use inside a line: its line breaks are escaped."""
    return visible(str(text)).replace("\n", "\\n")


@contextlib.contextmanager
def progress(*, show: bool, verbose: bool) -> Iterator[Callable[[Progress], None]]:
    """A callback for the loop: a bar on a terminal, a line each half minute elsewhere; with `verbose` a line
    a round, whatever is shown.
    """
    console = stderr()
    if verbose or not show:
        yield (lambda step: say(line(step))) if verbose else (lambda _: None)
        return
    with show_progress(console) if console.is_terminal else _logged() as tell:
        yield tell


@contextlib.contextmanager
def _logged() -> Iterator[Callable[[Progress], None]]:
    """A callback whose last word goes to a log at times, also where a single step takes long."""
    last, ended = "no round is over", threading.Event()

    def tell(step: Progress) -> None:
        nonlocal last
        last = line(step)

    def log() -> None:
        while not ended.wait(LOG_SECONDS):
            say(f"after {time.monotonic() - STARTED:.0f} s: {last}")

    thread = threading.Thread(target=log, daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        ended.set()
        thread.join()


def wants_progress(no_progress: bool) -> bool:
    return not no_progress and not os.environ.get("FMWEM_NO_PROGRESS")


def line(step: Progress) -> str:
    """A round of a release on one line."""
    size = f"{in_parts(step.components)}; {counted_in_words(step.cliques, 'table')} of {step.cells:,} cells"
    return f"{measured(step)}; {size}; {step.spent:.0%} of the budget spent"


def for_scripts(as_json: bool) -> bool:
    """Whether stdout gets the line for scripts: not on a terminal, unless --json asks for it."""
    return as_json or not sys.stdout.isatty()


def closing(facts: Mapping[str, Any], lines: Iterable[str], *, as_json: bool, quiet: bool = False) -> None:
    """The end of a command: its line for scripts on stdout, its `lines` for people on stderr, which may be an
    iterator: what is done does not fail because its summary does.
    """
    if for_scripts(as_json):
        print(json.dumps(facts), flush=True)
    if not (as_json or quiet):
        with contextlib.suppress(Exception):
            say("\n".join(lines))


def lined(word: str, lines: Iterable[Any]) -> list[str]:
    """Lines in the column of a summary, the first behind a word."""
    return [f"{word if i == 0 else '':12}{text}" for i, text in enumerate(lines)]


def aligned(rows: Iterable[Sequence[Any]], left: Sequence[int] = (0,)) -> list[str]:
    """A line for each row, its cells in columns: those of `left` begin alike, all others end alike."""
    rows = [list(map(str, row)) for row in rows]
    table = Table.grid(padding=(0, 2, 0, 0))
    for at in range(len(rows[0]) if rows else 0):
        table.add_column(justify="left" if at in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    file = io.StringIO()
    Console(file=file, width=10_000, color_system=None, highlight=False).print(table)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def replaced_text(record: Statement) -> list[str]:
    """The lines for a record that replaced an earlier one: budget was spent twice."""
    if record.replaced is None:
        return []
    ledger = "" if record.chain_head else "; a ledger keeps count: `fmwem guide ledger`"
    return [f"{record.replaced.in_words}{ledger}"]


def counted_in_words(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def kind_in_words(attribute: Attribute) -> str:
    """The type of a column; of numbers or moments with texts among them, which come back as text, "mixed"."""
    return "mixed" if attribute.sentinels else attribute.type


def fates_text(domain: Domain, fates: Mapping[str, Any]) -> list[str]:
    """A line for each column of `fates`, a Fate or facts with one: what became of its values, in noisy shares
    of all rows, and by what part the standard deviation of numbers may be smaller or larger.
    """
    from factored_mwem.mechanisms.hidden_spread import MOST

    parts = ("kept", "clipped", "other", "missing", "spread_doubtful", "spread_hidden")
    rows = [["column", "type", *parts[:-2], "sd smaller", "or larger by"]]
    for name, fate in fates.items():
        shares = (getattr(fate, part) for part in parts)
        shown = ["-" if share is None else f"{share:.1%}" for share in shares]
        if (fate.spread_hidden or 0.0) >= MOST:
            shown[-1] = "unknown"
        rows.append([piece(name), kind_in_words(domain[name]), *shown])
    return aligned(rows, left=(0, 1))
