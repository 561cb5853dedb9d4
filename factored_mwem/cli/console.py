"""Console: what a person sees on stderr. Public facts only; progress is off where stderr is no terminal."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from factored_mwem.pipeline.progress import measured, show_progress, visible

if TYPE_CHECKING:
    from factored_mwem.domain.attribute import Attribute
    from factored_mwem.owner.verifier.verify import Verified
    from factored_mwem.pipeline.progress import Progress
    from factored_mwem.pipeline.record.statement import Statement

STARTED = time.monotonic()
"""When the command line was parsed: the running time is counted from here."""
LOG_SECONDS = 30.0
"""Between two lines of a log in which nothing else is said."""


def stderr() -> Console:
    """A console for people; rich itself respects NO_COLOR and a missing terminal.

    Text is text: a column may be called "[/b]" or ":smile:".
    """
    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)


def say(text: str) -> None:
    """A message for people on stderr. A closed, full or non-Unicode stderr does not end the run."""
    with contextlib.suppress(Exception):
        stderr().print(visible(text))


def say_made(lines: Iterable[str]) -> None:
    """Print lines that are made one by one; a finished run does not fail because its summary does."""
    with contextlib.suppress(Exception):
        say("\n".join(lines))


def piece(text: object) -> str:
    """A text from anybody's file, for use inside a line: its line breaks are escaped."""
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


@contextlib.contextmanager
def counted(total: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """A callback for what is done of `total`: a bar on a terminal, else nothing."""
    console = stderr()
    if not (show and console.is_terminal):
        yield lambda _: None
        return
    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)


def wants_progress(no_progress: bool) -> bool:
    return not no_progress and not os.environ.get("FMWEM_NO_PROGRESS")


def line(step: Progress) -> str:
    size = f"{step.components} components, {step.cliques} cliques of {step.cells:,} cells"
    return f"{measured(step)}; {size}; {step.spent:.0%} of the budget spent"


def for_scripts(as_json: bool) -> bool:
    """Whether stdout gets the line for scripts: not on a terminal, unless --json asks for it."""
    return as_json or not sys.stdout.isatty()


def closing(facts: Mapping[str, Any], words: str, *, as_json: bool) -> None:
    """The end of a small command: its line for scripts, or on a terminal the same in words."""
    if for_scripts(as_json):
        print(json.dumps(facts), flush=True)
    else:
        say(words)


def lined(word: str, lines: Iterable[Any]) -> list[str]:
    """Lines in the column of a summary, the first behind a word."""
    return [f"{word if i == 0 else '':12}{text}" for i, text in enumerate(lines)]


def replaced_text(record: Statement) -> list[str]:
    """The lines for a record that replaced an earlier one: budget was spent twice."""
    if record.replaced is None:
        return []
    ledger = "" if record.chain_head else "; a ledger keeps count: `fmwem guide ledger`"
    return [f"{record.replaced.in_words}{ledger}"]


def rows_in_words(number: int) -> str:
    return "1 row" if number == 1 else f"{number} rows"


def kind_in_words(attribute: Attribute) -> str:
    """The type of a column; of numbers or moments with texts among them, which come back as text, "mixed"."""
    return "mixed" if attribute.sentinels else attribute.type


def fates_text(fates: Mapping[str, Any]) -> list[str]:
    """A line for each column: what became of its values, in noisy shares of all rows."""
    width = max(map(len, fates), default=0)
    head = f"{'column':{width}}  {'type':8}    kept  clipped  other  missing"
    rows = [
        f"{piece(name):{width}}  {kind:8} {kept:7.1%} {clipped:8.1%} {other:6.1%} {missing:8.1%}"
        for name, (kind, kept, clipped, other, missing) in fates.items()
    ]
    return [head, *rows]


def books_text(books: dict[str, Any]) -> str:
    lines = []
    for d in books["datasets"]:
        unit = "epsilon" if d["rho"] is None else "rho"
        delta = f" at delta {d['delta']:g}" if d["delta"] else ""
        by = f", whom column {piece(repr(d['privacy_id']))} names" if d["privacy_id"] is not None else ""
        rows = f"up to {rows_in_words(d['contributions'])} of one person{by}"
        lines.append(f"{piece(d['dataset'])}: cap {unit} {d[unit]:g}{delta}, {d['neighbours']}, {rows}")
        rest = [f"{unit} {d['left']:g}{delta}"] if delta or unit == "rho" else []
        rest.append(f"epsilon {d['left_pure']:g} if it is pure")
        lines.append(f"  spent {unit} {d['spent']:.6g}, left for one more release {' or '.join(rest)}")
        lines += map(_entry, d["releases"])
    if not books["datasets"]:
        lines = ["no datasets; `fmwem ledger add FILE --dataset NAME --epsilon E` adds one"]
    if any(r["state"] in ("reserved", "failed") for d in books["datasets"] for r in d["releases"]):
        lines.append(
            "reserved: under way, or killed; failed: ended by an error. What they list counts; the same run "
            "id, if any, completes them."
        )
    if books["older_than_its_journals"] is None:
        lines.append("WARNING: the journals could not be looked at: no release will start before they can be")
    elif books["older_than_its_journals"]:
        lines.append(
            "WARNING: this ledger is older than its journals: what was spent since is missing from it, and "
            "no release will start"
        )
    return "\n".join(lines)


def _entry(release: dict[str, Any]) -> str:
    """A release in the books, on one line."""
    promised, unit = release["promised"], "epsilon" if "epsilon" in release else "rho"
    whole = promised["epsilon"] is not None and promised["delta"] is not None
    promise = f"({promised['epsilon']:g}, {promised['delta']:g})-DP, " if whole else ""
    cost = f"counts {unit} {release[unit]:.6g}"
    learnt = f", delta {release['delta']:.3g}" if release["delta"] else ""
    name = (f" run {piece(release['run_id'])}" if release["run_id"] else "") + (
        f" by {piece(promised['privacy_id'])}" if promised["privacy_id"] else ""
    )
    entered = f"{piece(release['reserved_at'])}{name}"
    return f"  {release['number']:4} {release['state']:9} {promise}{cost}{learnt}  {entered}"


def books_check_text(check: dict[str, Any]) -> str:
    head = check["head"] if re.fullmatch("[0-9a-f]{64}", check["head"] or "") else "that is none"
    none = "no events yet" if not (check["datasets"] or check["problems"]) else "its chain has no events"
    chain = f"chain of {check['events']} events, head {head}" if check["events"] else none
    lines = [f"{piece(check['ledger'])}: {chain}"]
    for d in check["datasets"]:
        spent = f"spent {d['unit']} {d['spent']:.6g} of {d['cap']:g}"
        lines.append(f"  {d['dataset']!r}: {d['releases']} releases, {spent}")
    known = (m for m in check["manifests"] if m["release"] is not None)
    lines += [f"  {piece(m['manifest'])}: release {piece(m['release'])} of {m['dataset']!r}" for m in known]
    lines += [f"note: {piece(note)}" for note in check["notes"]]
    lines += [f"does not fit: {piece(problem)}" for problem in check["problems"]]
    return "\n".join([*lines, *(["all fits"] if check["fits"] else [])])


def verified_text(verified: Verified) -> str:
    lines = [
        "NOT PRIVATE: these numbers look at the real table; do not publish them",
        f"{verified.pairs:,} neighbours of the table, {verified.draws:,} comparisons of a draw with what was "
        "charged for it",
    ]
    if verified.refused:
        lines.append(
            f"{verified.refused:,} of the neighbours were refused before anything was drawn, as documented: "
            "a record's end is not clear"
        )
    width = max([len(stage.name) for stage in verified.stages], default=0) + 3
    lines += [f"{'stage':{width}}{'draws':>9}   worst share of the charge"]
    lines += [f"{stage.name:{width}}{stage.compared:9,}   {stage.worst:.4f}" for stage in verified.stages]
    if verified.holds:
        return "\n".join([*lines, "all hold: nothing moved by more than was charged"])
    lines.append(f"FAILED on {verified.failed:,} tables; the first:")
    return "\n".join([*lines, *(f"  {f.stage}, {f.neighbour}: {f.why}" for f in verified.failures)])
