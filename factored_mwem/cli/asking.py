"""`fmwem ask`: questions about the private table one by one, each answered within a bound, or refused."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factored_mwem.cli.inputs import domain_path, source_of, title
from factored_mwem.cli.options import Json, Overwrite, Quiet, option, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import BudgetExceeded, InputError, Stopped

if TYPE_CHECKING:
    from factored_mwem.domain.domain import Domain
    from factored_mwem.sessions.online.session import Asking, Response


class AtPrompt(Exception):
    """Ctrl-C was pressed while no question was being answered."""


PROMPT = "ask> "
LEAVE = ("quit", "exit")
SHOWN = 40
"""Most groups of an answer that a terminal shows."""


PrivateTables = Annotated[
    list[str], option("The private table, as `fmwem release` takes it.", "--table", metavar="TABLE")
]
Start = Annotated[
    Path | None,
    option("Model file of a release, to begin with. Without one a session knows the domain alone."),
]
Alpha = Annotated[float, option("How far an answer may be off, as a share of the records.")]
Beta = Annotated[float, option("Probability that an answer is off by more.")]
Queries = Annotated[
    Path | None,
    option("File with one query on each line; - for standard input.  [default: standard input]"),
]
Saved = Annotated[
    str | None, option("Where to save the model, improved by the answers, for sample and answer.")
]
Record = Annotated[
    str | None,
    option(
        "Where the record of the session goes: its promise, and every charge.  [default: "
        "NAME.ask.manifest.json]"
    ),
]


@takes(Group.PRIVACY, Group.DOMAIN, Group.READING, Group.BOOKS)
def ask(
    table: PrivateTables,
    settings: ReleaseSettings,
    model: Start = None,
    alpha: Alpha = 0.01,
    beta: Beta = 0.001,
    queries: Queries = None,
    save: Saved = None,
    statement: Record = None,
    overwrite: Overwrite = False,
    json_only: Json = False,
    quiet: Quiet = False,
) -> None:
    """Answer questions about the private table, within alpha of the truth, from a budget that is reserved at
    the beginning. Questions that the model answers well enough cost only a test, and many tests share one
    charge; the others are measured, which improves the model. Ends with the input, `quit` or ctrl-D.

    A question is a count, such as "count where age >= 40 and sex = Male by education"; see `fmwem guide ask`.
    """
    from factored_mwem.cli import console
    from factored_mwem.cli.jobs import check_files
    from factored_mwem.files.files import IfExists
    from factored_mwem.pipeline.publication import Publication
    from factored_mwem.sessions.online.asking import AskRequest, ask_session
    from factored_mwem.sessions.online.session import NOTHING_TO_SAVE
    from factored_mwem.tables.outputs.release_files import RecordFiles
    from factored_mwem.tables.outputs.targets import target_of

    source = source_of(table)
    saved = target_of(save) if save else None
    files = RecordFiles(target_of(statement or f"{title(source)}.ask.manifest.json"), saved)
    check_files(files.all, source, settings, model, queries, settings.domain)
    listed = _listed(queries, source)
    domain = settings.domain if model is not None else domain_path(source, settings.domain)
    request = AskRequest.of(
        source, model, settings.policy, domain=domain, columns=settings.columns, alpha=alpha, beta=beta
    )
    if save and request.start is None:
        raise InputError(NOTHING_TO_SAVE)
    _check(queries, listed, request.domain)
    place = Publication(files, IfExists(overwrite), settings.booking)
    people = not console.for_scripts(json_only)
    with request.spending.booked(settings.booking) as run, place.of(run):
        with ask_session(request, run, resumable=settings.run_id is not None) as session:
            lines = iter(listed) if listed is not None else _from_standard_input()
            if not (quiet or json_only):
                console.say(_opening(session, beta))
            wrong, ended = _held(session, lines, people=people)
        place.replacing()
        if saved is not None:
            with place.putting(saved):
                session.save(saved, exists=place.exists)
        stated = place.record(session.statement())
    if not (quiet or json_only):
        console.say("\n".join([_closing(session), *console.replaced_text(stated)]))
    if ended is not None:
        ended.budget_spent, ended.advice = session.spent > 0, "the session is closed; its answers stand"
        raise ended
    if wrong:
        raise typer.Exit(2)


def _listed(queries: Path | None, table: Any) -> list[str] | None:
    """The lines of a file of queries; None if they come one by one. Raises InputError if the file is not
    text, or if both table and queries would come from standard input.
    """
    from factored_mwem.files.files import read_text
    from factored_mwem.tables.inputs.uris import STANDARD_INPUT

    if queries is None or str(queries) == STANDARD_INPUT:
        if str(table) == STANDARD_INPUT:
            raise InputError("the table comes from standard input; name a file of --queries")
        return None
    try:
        text = read_text(queries, "file of queries")
    except UnicodeDecodeError:
        raise InputError(f"the file of queries {queries} is not UTF-8 text") from None
    return [line.strip() for line in text.splitlines()]


def _check(queries: Path | None, listed: list[str] | None, domain: Domain) -> None:
    """Raise InputError, before anything is spent, if a line of the file is not a query."""
    from factored_mwem.sessions.online.question import CountQuestion

    for number, line in enumerate(listed or (), start=1):
        try:
            if _asks(line):
                CountQuestion.of(line, domain)
        except InputError as error:
            raise InputError(f"{queries}, line {number}: {error}") from None


def _from_standard_input() -> Iterator[str]:
    """Lines of standard input, as they come. Raises AtPrompt if ctrl-C is pressed while one is waited for."""
    lines = _typed() if sys.stdin.isatty() else (line.strip() for line in sys.stdin)
    while True:
        try:
            line = next(lines, None)
        except (KeyboardInterrupt, Stopped) as stopped:
            if getattr(stopped, "exit_code", 130) != 130:
                raise
            raise AtPrompt from None
        if line is None:
            return
        yield line


def _asks(line: str) -> bool:
    """Whether a line is a query: not if it is empty, begins with #, or is `quit`."""
    return bool(line) and not line.startswith("#") and line not in LEAVE


def _typed() -> Iterator[str]:
    """What a person types, with a history of earlier lines."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - gives `input` a history, and is not there on every machine
    while True:
        try:
            yield input(PROMPT).strip()
        except EOFError:
            print(file=sys.stderr)
            return


def _held(
    session: Asking, lines: Iterator[str], *, people: bool
) -> tuple[int, BudgetExceeded | Stopped | None]:
    """(how many lines were not queries, the error that ended the session before its input did). Earlier
    answers stand, and their cost is entered in the ledger.
    """
    try:
        return _converse(session, lines, people=people), None
    except AtPrompt:
        return 0, Stopped(130)
    except BudgetExceeded as error:
        return 0, error


def _converse(session: Asking, lines: Iterator[str], *, people: bool) -> int:
    """Answer line after line; returns how many were not queries. Such a line does not end the session."""
    from factored_mwem.cli import console

    wrong = 0
    for line in lines:
        if line in LEAVE:
            break
        if not _asks(line):
            continue
        try:
            reply = session.answer(line)
        except InputError as error:
            if people:
                console.say(str(error))
            else:
                print(json.dumps({"query": line, "error": str(error)}), flush=True)
                wrong += 1
            continue
        print(answer_text(reply) if people else json.dumps(reply.to_dict()), flush=True)
    return wrong


def answer_text(reply: Response) -> str:
    """An answer for people."""
    from factored_mwem.cli.console import piece
    from factored_mwem.tables.codes.decode import label_text

    about = f"({reply.source}; spent epsilon {reply.spent:.4g}, left {reply.left:.4g})"
    within = f"within {reply.bound:,.0f} records" if reply.bound else "for certain"
    notes = [f"  {note}" for note in reply.notes]
    if not reply.columns:
        return "\n".join([f"  {reply.value:,.0f} records, {within} {about}", *notes])
    width = max(len(f"{value:,.0f}") for value in reply.values)
    lines = [
        f"  {value:>{width},.0f}  {', '.join(piece(label_text(label)) for label in labels)}"
        for labels, value in zip(reply.labels[:SHOWN], reply.values.tolist(), strict=False)
    ]
    more = [f"  ... and {len(reply.labels) - SHOWN:,} more"] if len(reply.labels) > SHOWN else []
    return "\n".join([*lines, *more, f"  records, each {within} {about}", *notes])


def _opening(session: Asking, beta: float) -> str:
    return (
        f"answers are within {session.alpha:,.0f} of about {session.model.total:,.0f} records, each with "
        f"probability {1 - beta:g}\n{session.promise}"
    )


def _closing(session: Asking) -> str:
    counts = session.counts
    sources = ", ".join(f"{count:,} {source}" for source, count in counts.items() if count)
    return (
        f"{sum(counts.values()):,} answers{f' ({sources})' if sources else ''}; "
        f"spent epsilon {session.spent:.6g}, left {session.left:.4g}"
    )
