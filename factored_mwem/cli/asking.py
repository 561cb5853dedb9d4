"""`fmwem ask`: questions about the private table one by one, each answered within a bound or not at all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import Json, Quiet, takes
from factored_mwem.cli.settings import Group, ReleaseSettings

if TYPE_CHECKING:
    from factored_mwem.domain.domain import Domain
    from factored_mwem.interactive.session import Asking, Response


class AtPrompt(Exception):
    """Somebody wants to leave, by ctrl-C, while nothing was under way."""


PROMPT = "ask> "
LEAVE = ("quit", "exit")
SHOWN = 40
"""Groups of an answer on a terminal."""


@takes(Group.PRIVACY, Group.DOMAIN, Group.READING, Group.BOOKS)
def ask(
    table: Annotated[
        list[str],
        typer.Option("--table", metavar="TABLE", help="The private table, as `fmwem release` takes it."),
    ],
    settings: ReleaseSettings,
    model: Annotated[
        Optional[Path],
        typer.Option(
            help="Model file of a release, to begin with. Without one a session knows the domain alone."
        ),
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="How far an answer may be off, as a share of the records.")
    ] = 0.01,
    beta: Annotated[float, typer.Option(help="How often one may be off by more.")] = 0.001,
    queries: Annotated[
        Optional[Path],
        typer.Option(help="File with a query a line; - for standard input.  [default: standard input]"),
    ] = None,
    save: Annotated[
        Optional[str],
        typer.Option(help="Where the model goes that the answers have made better, for sample and answer."),
    ] = None,
    statement: Annotated[
        Optional[str],
        typer.Option(help="Where the statement of the session goes: its promise, and every charge."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    json_only: Json = False,
    quiet: Quiet = False,
) -> None:
    """Answer questions about the private table, within alpha of the truth, from a budget that is reserved at
    the beginning. What the model knows well enough costs a test, many of which share one charge; the rest is
    measured, and makes the model better. Ends with the input, `quit` or ctrl-D.

    A question is a count, such as "count where age >= 40 and sex = Male by education"; see `fmwem guide ask`.
    """
    from factored_mwem.cli import console
    from factored_mwem.cli.jobs import check_paths
    from factored_mwem.errors import BudgetExceeded, Stopped
    from factored_mwem.files import IfExists
    from factored_mwem.interactive.asking import asking
    from factored_mwem.ledger.run import Booking
    from factored_mwem.tables.targets import target_of, write_text

    given = source_of(table)
    targets = [target_of(place) for place in (save, statement) if place]
    check_paths(targets, _read(given, model, queries, settings))
    for target in targets:
        target.check(IfExists(overwrite))
    written = _written(queries, given)
    begin = asking(
        given,
        model,
        settings.policy,
        domain=_domain(given, model, settings),
        columns=settings.columns,
        alpha=alpha,
        beta=beta,
        booking=Booking(settings.ledger, settings.dataset, settings.run_id),
        saves=save is not None,
        check=lambda domain: _check(queries, written, domain),
    )
    people = not console.for_scripts(json_only)
    ended: BudgetExceeded | Stopped | None = None
    with begin as session:
        lines = iter(written) if written is not None else _heard()
        if not (quiet or json_only):
            console.say(_opening(session, beta))
        try:
            wrong = _converse(session, lines, people=people)
        except (BudgetExceeded, AtPrompt) as error:  # what was answered stands, and the books hear its cost
            ended, wrong = (Stopped(130) if isinstance(error, AtPrompt) else error), 0
        if save:
            session.save(save, overwrite=overwrite)
        if statement:
            text = session.statement().model_dump_json(indent=1) + "\n"
            write_text(target_of(statement), text, IfExists(overwrite))
    if not (quiet or json_only):
        console.say(_closing(session))
    if ended is not None:
        ended.budget_spent, ended.advice = session.spent > 0, "the session is closed; its answers stand"
        raise ended
    if wrong:
        raise typer.Exit(2)


def _read(given: Any, model: Path | None, queries: Path | None, settings: ReleaseSettings) -> list[Any]:
    """What is read: no output may lie there."""
    from factored_mwem.cli.inputs import addresses, read_paths

    ledger = None if settings.ledger is None else settings.ledger.path
    return [*read_paths(given), *addresses(given), model, queries, settings.domain, ledger]


def _domain(given: Any, model: Path | None, settings: ReleaseSettings) -> Path | None:
    """The domain file of a session that begins without a model."""
    from factored_mwem.cli.inputs import domain_path

    return settings.domain if model is not None else domain_path(given, settings.domain)


def _written(queries: Path | None, table: Any) -> list[str] | None:
    """The lines of a file of queries; None where they come one by one. InputError where it is no text, or
    where the table comes from where they would.
    """
    from factored_mwem.errors import InputError
    from factored_mwem.files import read_text
    from factored_mwem.tables.piped import STANDARD_INPUT

    if queries is None or str(queries) == STANDARD_INPUT:
        if str(table) == STANDARD_INPUT:
            raise InputError("the table comes from standard input; name a file of --queries")
        return None
    try:
        text = read_text(queries, "file of queries")
    except UnicodeDecodeError:
        raise InputError(f"the file of queries {queries} is not UTF-8 text") from None
    return [line.strip() for line in text.splitlines()]


def _check(queries: Path | None, written: list[str] | None, domain: Domain) -> None:
    """InputError where a line of a file is no query: before anything is spent."""
    from factored_mwem.errors import InputError
    from factored_mwem.interactive.question import Question

    for number, line in enumerate(written or (), start=1):
        try:
            if _asks(line):
                Question.of(line, domain)
        except InputError as error:
            raise InputError(f"{queries}, line {number}: {error}") from None


def _heard() -> Iterator[str]:
    """Lines of standard input, as they come."""
    return _typed() if sys.stdin.isatty() else (line.strip() for line in sys.stdin)


def _asks(line: str) -> bool:
    """Whether a line is a query: empty ones, those that begin with # and `quit` are not."""
    return bool(line) and not line.startswith("#") and line not in LEAVE


def _typed() -> Iterator[str]:
    """What a person types, with the lines before it at hand."""
    import contextlib

    from factored_mwem.errors import Stopped

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - gives `input` a history, and is not there on every machine
    while True:
        try:
            line = input(PROMPT).strip()
        except EOFError:
            print(file=sys.stderr)
            return
        except (KeyboardInterrupt, Stopped) as stopped:
            if getattr(stopped, "exit_code", 130) != 130:
                raise
            raise AtPrompt from None
        yield line


def _converse(session: Asking, lines: Iterator[str], *, people: bool) -> int:
    """Answer line after line; how many were no queries. One typed in vain ends nothing."""
    from factored_mwem.cli import console
    from factored_mwem.errors import InputError

    wrong = 0
    for line in lines:
        if line in LEAVE:
            break
        if not _asks(line):
            continue
        try:
            told = session.answer(line)
        except InputError as error:
            if people:
                console.say(str(error))
            else:
                print(json.dumps({"query": line, "error": str(error)}), flush=True)
                wrong += 1
            continue
        print(answer_text(told) if people else json.dumps(told.to_dict()), flush=True)
    return wrong


def answer_text(told: Response) -> str:
    """An answer for people."""
    from factored_mwem.answers.answer import label_text
    from factored_mwem.cli.console import piece

    about = f"({told.source}; spent epsilon {told.spent:.4g}, left {told.left:.4g})"
    within = f"within {told.bound:,.0f} records" if told.bound else "for certain"
    notes = [f"  {note}" for note in told.notes]
    if not told.columns:
        return "\n".join([f"  {told.value:,.0f} records, {within} {about}", *notes])
    width = max(len(f"{value:,.0f}") for value in told.values)
    lines = [
        f"  {value:>{width},.0f}  {', '.join(piece(label_text(label)) for label in labels)}"
        for labels, value in zip(told.labels[:SHOWN], told.values.tolist(), strict=False)
    ]
    more = [f"  ... and {len(told.labels) - SHOWN:,} more"] if len(told.labels) > SHOWN else []
    return "\n".join([*lines, *more, f"  records, each {within} {about}", *notes])


def _opening(session: Asking, beta: float) -> str:
    return (
        f"answers are within {session.alpha:,.0f} of about {session.model.total:,.0f} records, each with "
        f"probability {1 - beta:g}\n{session.promise}"
    )


def _closing(session: Asking) -> str:
    counts = session.counts
    told = ", ".join(f"{count:,} {source}" for source, count in counts.items() if count)
    return (
        f"{sum(counts.values()):,} answers{f' ({told})' if told else ''}; spent epsilon {session.spent:.6g}, "
        f"left {session.left:.4g}"
    )
