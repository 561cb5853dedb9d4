"""The errors a user can meet, each with the exit code of the command line.

0 done - 1 unexpected - 2 usage, schema or table - 3 budget - 4 resources - 129 hung up - 130 interrupted -
143 terminated. No message may hold a value read from a private table: messages speak of names, types and
declared limits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

COMPLETE = "the release is complete: its files are in place"
"""What to say of a failure after the last rename."""


MAX_LIST, MAX_NAME = 54, 24
"""Characters of a list of names, and of a name in it."""


def shown(value: object) -> str:
    """A value for an error message: numbers and short texts; of all else, which may hold rows, the type."""
    text = repr(value) if value is None or isinstance(value, bool | int | float | str) else ""
    return text if 0 < len(text) <= 80 else f"a {type(value).__name__}"


def shortened(name: str) -> str:
    text = name if name.isprintable() else ascii(name)[1:-1]
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 3] + "..."


def some_names(names: Sequence[Any], written: Callable[[Any], str] = shortened) -> str:
    """The first names, and how many more there are."""
    short = [written(name) for name in names[:MAX_LIST]]
    many = len(short)
    while many > 1 and len(", ".join(short[:many])) > MAX_LIST:
        many -= 1
    rest = f" and {len(names) - many:,} more" if many < len(names) else ""
    return ", ".join(short[:many]) + rest


def quoted_names(names: Sequence[object]) -> str:
    """The same in quotes, but for what is no text."""
    return some_names(names, lambda name: repr(shortened(name) if isinstance(name, str) else name))


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The name that a mistaken one is most like, as the part of a message; empty if none is."""
    import difflib

    by_case = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name.lower()[:100], by_case, 1)
    return f" (did you mean {shortened(by_case[close[0]])!r}?)" if close else ""


class FmwemError(Exception):
    """Base of every error this package raises on purpose; its text is one line that says what to do.

    >>> import pyarrow as pa
    >>> from factored_mwem import FmwemError, release
    >>> try:
    ...     release(pa.table({"age": [31]}), 1, epsilon=-1.0)
    ... except FmwemError as error:
    ...     print(error.budget_spent, error)
    False epsilon=-1.0: must be a positive number, at least 1e-12; 1 is a common choice
    """

    exit_code = 1
    budget_spent = False
    """Whether noise had been paid for when it happened: a release that fails then still counts."""
    retryable = False
    """Whether the same command again may succeed, without paying twice."""
    advice: str | None = None
    """What to do next, where a release knows more than the message says."""


class InputError(FmwemError):
    """A parameter, a domain, a workload or a table that cannot be used.

    >>> from factored_mwem import Workload
    >>> Workload.marginals(0)
    Traceback (most recent call last):
    factored_mwem.errors.InputError: --marginals 0: marginals have at least one attribute
    """

    exit_code = 2


class Ambiguous(InputError):
    """A text file in which it is not clear where a record ends: a person must decide, in public.

    Refused before anything is spent.

    >>> from pathlib import Path
    >>> from factored_mwem import Ambiguous, release
    >>> _ = Path("people.csv").write_text('name\\n"Ann\\nBob\\n')
    >>> try:
    ...     release("people.csv", 1, domain={"name": 2})
    ... except Ambiguous as error:
    ...     print(error)
    people.csv, record 1: a quote is open where the line ends...
    """


class Changed(InputError):
    """An input that was written to while it was read: its rows would not be those that were charged for.

    >>> from factored_mwem import Changed, InputError
    >>> issubclass(Changed, InputError)
    True
    """


class Lost(InputError):
    """A run that cannot go on: its journal is gone or does not fit, or it began with other data.

    What it spent stays spent.

    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> from factored_mwem import Cap, LedgerFile, Lost, Neighbours, release
    >>> LedgerFile.create(Path("runs.db")).add("people", Cap.of(3.0, 1e-6), Neighbours.ADD_REMOVE, 1)
    >>> run = {"domain": {"age": 2}, "ledger": "runs.db", "dataset": "people", "run_id": "monday"}
    >>> _ = release(pa.table({"age": [0, 1]}), 1, **run)
    >>> try:
    ...     release(pa.table({"age": [1, 1]}), 1, **run)
    ... except Lost as error:
    ...     print(error)
    run 'monday' of dataset 'people' was begun with other data; give another --run-id
    """


class NotPermitted(InputError):
    """A ledger that may be read and not written: nothing was entered, and so nothing drawn.

    >>> from factored_mwem import InputError, NotPermitted
    >>> issubclass(NotPermitted, InputError)
    True
    """


class RolledBack(InputError):
    """The ledger is older than its journals, or another copy than was last written: an old one was put back.

    Nothing is spent, for what is left is not known.

    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> from factored_mwem import Cap, LedgerFile, Neighbours, RolledBack, release
    >>> ledger = Path("old.db")
    >>> LedgerFile.create(ledger).add("people", Cap.of(3.0, 1e-6), Neighbours.ADD_REMOVE, 1)
    >>> copy, run = ledger.read_bytes(), {"domain": {"age": 2}, "ledger": ledger, "dataset": "people"}
    >>> _ = release(pa.table({"age": [0, 1]}), 1, **run, run_id="monday")
    >>> _ = ledger.write_bytes(copy)
    >>> try:
    ...     release(pa.table({"age": [0, 1]}), 1, **run)
    ... except RolledBack:
    ...     print("put the newest copy back")
    put the newest copy back
    """

    def __init__(self, ledger: str, *, copied: bool = False) -> None:
        newest = "put the newest copy back"
        older = f"is older than its journals: what was spent since is missing from it; {newest}"
        other = f"was restored, or its server failed over: {newest}; if it is, `fmwem ledger accept` says so"
        super().__init__(f"the ledger {ledger} {other if copied else older}")


class BudgetExceeded(FmwemError):
    """A charge that the privacy budget does not cover; raised before any noise is drawn.

    The message is in epsilon and delta, as a user gives them; `asked` and `left` are exact, in the unit of
    the composition (rho or epsilon), or are deltas.

    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> from factored_mwem import BudgetExceeded, Cap, LedgerFile, Neighbours, release
    >>> LedgerFile.create(Path("cap.db")).add("people", Cap.of(1.0, 1e-6), Neighbours.ADD_REMOVE, 1)
    >>> try:
    ...     release(pa.table({"age": [0]}), 1, epsilon=2.0, ledger="cap.db", dataset="people")
    ... except BudgetExceeded as error:
    ...     print(error.exit_code, error.budget_spent)
    3 False
    """

    exit_code = 3

    def __init__(self, message: str, *, asked: Fraction, left: Fraction) -> None:
        self.asked, self.left = asked, left
        super().__init__(message)


class NothingLearnt(FmwemError):
    """A table from which nearly nothing could be learnt within the budget.

    The release stops there; what was spent until then counts.

    >>> import pyarrow as pa
    >>> from factored_mwem import NothingLearnt, release
    >>> try:
    ...     release(pa.table({"name": [f"person {i}" for i in range(50)]}), 1)
    ... except NothingLearnt as error:
    ...     print(error.exit_code, error.budget_spent)
    3 True
    """

    exit_code = 3


class NotAccepted(FmwemError):
    """A release whose certificate does not say what was asked of it: nothing is written.

    What was spent counts, and its message was paid for.

    >>> import pyarrow as pa
    >>> from factored_mwem import NotAccepted, release
    >>> people = pa.table({"age": [31, 45] * 50})
    >>> try:
    ...     release(people, 1, domain={"age": 100}, certificate=0.1, accept=["mean1 <= 0.001"])
    ... except NotAccepted as error:
    ...     print(error.exit_code, error.budget_spent)
    3 True
    """

    exit_code = 3


class ResourceError(FmwemError):
    """More cells, memory or disk than the limits allow.

    >>> from factored_mwem import Workload
    >>> Workload.marginals(30).check([f"column {i}" for i in range(100)])
    Traceback (most recent call last):
    factored_mwem.errors.ResourceError: the workload has more than 20,000,000 candidate marginals ...
    """

    exit_code = 4


class Busy(ResourceError):
    """Something that another process holds, or a disk that is full: the same command may succeed later.

    >>> from factored_mwem import Busy, ResourceError
    >>> issubclass(Busy, ResourceError), Busy.retryable, ResourceError.retryable
    (True, True, False)
    """

    retryable = True


class Stopped(BaseException):
    """A signal asked the process to end. Not an Exception, so that nothing swallows it on its way."""

    budget_spent = False
    retryable = True
    advice: str | None = None

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(
            f"{'interrupted' if exit_code == 130 else 'terminated'}; nothing was left half-written"
        )


def check_system() -> None:
    """Raises InputError on Windows: whole files and a ledger's locks rest on what Unix alone promises."""
    if sys.platform == "win32":
        raise InputError("fmwem runs on Linux and macOS; on Windows, run it in WSL 2 or in a container")


def must(holds: object, otherwise: str) -> None:
    """Raises ValueError with the words `otherwise`, for what reads a file that may be anybody's, where a fact
    about it does not hold.
    """
    if not holds:
        raise ValueError(otherwise)


def told(error: BaseException) -> BaseException:
    """The error that a release told what became of the budget: `error`, or one that it arose from.

    A signal may strike while a release still clears up after an error.
    """
    return next((e for e in _chain(error) if "budget_spent" in vars(e)), error)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
