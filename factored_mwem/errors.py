"""The errors a user can meet, each with the exit code of the command line.

0 done - 1 unexpected - 2 usage, schema or table - 3 budget - 4 resources - 129 hung up - 130 interrupted -
143 terminated. No message may hold a value read from a private table: messages speak of names, types and
declared limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

COMPLETE = "the release is complete: its files are in place"
"""What to say of a failure after the last rename."""


def shown(value: object) -> str:
    """A value for an error message: numbers and short texts; of all else, which may hold rows, the type."""
    text = repr(value) if value is None or isinstance(value, bool | int | float | str) else ""
    return text if 0 < len(text) <= 80 else f"a {type(value).__name__}"


class FmwemError(Exception):
    """Base of every error this package raises on purpose; its text is one line that says what to do."""

    exit_code = 1
    budget_spent = False
    """Whether noise had been paid for when it happened: a release that fails then still counts."""
    retryable = False
    """Whether the same command again may succeed, without paying twice."""
    advice: str | None = None
    """What to do next, where a release knows more than the message says."""


class InputError(FmwemError):
    """A parameter, a domain, a workload or a table that cannot be used."""

    exit_code = 2


class Ambiguous(InputError):
    """A text file in which it is not clear where a record ends: a person has to say, in public.

    It is refused before anything is spent.
    """


class Changed(InputError):
    """An input that was changed since it was opened: the charges are about other rows than it holds now."""


class Lost(InputError):
    """A run that cannot go on: its journal is gone or damaged, or it began with other data or parameters.

    What it spent stays spent.
    """


class RolledBack(InputError):
    """An old copy of the ledger was put back. Nothing is spent, for what is left is not known."""

    def __init__(self, ledger: Path) -> None:
        super().__init__(
            f"the ledger {ledger} is older than its journals: what was spent since is missing from it; put "
            "the newest copy back"
        )


class BudgetExceeded(FmwemError):
    """A charge that the privacy budget does not cover; raised before any noise is drawn.

    The message is in epsilon and delta, as a user gives them; `asked` and `left` are exact, in the unit of
    the composition (rho or epsilon), or are deltas.
    """

    exit_code = 3

    def __init__(self, message: str, *, asked: Fraction, left: Fraction) -> None:
        self.asked, self.left = asked, left
        super().__init__(message)


class ResourceError(FmwemError):
    """More cells, memory or disk than the limits allow."""

    exit_code = 4


class Busy(ResourceError):
    """Something that another process holds, or a disk that is full: the same command may succeed later."""

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


def told(error: BaseException) -> BaseException:
    """The error that a release told what became of the budget: `error`, or one that it arose from.

    A signal may strike while a release still clears up after an error.
    """
    return next((e for e in _chain(error) if "budget_spent" in vars(e)), error)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
