"""The errors a user can meet, each with the exit code of the command line.

0 done - 1 unexpected - 2 usage, schema or table - 3 budget - 4 resources - 130 interrupted.
No message may hold a value read from a private table: messages speak of names, types and declared limits.
"""

from __future__ import annotations

from fractions import Fraction


class FmwemError(Exception):
    """Base of every error this package raises on purpose; its text is one line that says what to do."""

    exit_code = 1
    budget_spent = False
    """Whether noise had been paid for when it happened: a release that fails then still counts."""


class InputError(FmwemError):
    """A parameter, a domain, a workload or a table that cannot be used."""

    exit_code = 2


class BudgetExceeded(FmwemError):
    """A charge that the privacy budget does not cover; raised before any noise is drawn.

    `asked` and `left` are the amounts in the ledger's own unit (rho or epsilon).
    """

    exit_code = 3

    def __init__(self, what: str, *, asked: Fraction, left: Fraction) -> None:
        self.asked, self.left = asked, left
        super().__init__(f"{what} costs {float(asked):.6g} but {float(left):.6g} of the budget is left; ask for less or raise --epsilon")


class ResourceError(FmwemError):
    """More cells, memory or disk than the limits allow."""

    exit_code = 4
