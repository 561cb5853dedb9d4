"""Run: one release's hold on a dataset's budget, from before its first noise until its files are in place.

    begin -> (finished before? verify, and spend nothing) -> reserve, at the first charge
          -> draws, journaled -> drawn -> files -> finish

Without a ledger a run only remembers whether anything was charged. With a run id it has a journal, and the
same id resumes the run where it died.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.errors import (
    COMPLETE,
    Changed,
    FmwemError,
    InputError,
    Lost,
    NotAccepted,
    NotPermitted,
    ResourceError,
    RolledBack,
)
from factored_mwem.files.crashpoints import reach
from factored_mwem.ledger.address import Address
from factored_mwem.privacy.metered import Metered
from factored_mwem.privacy.noise import Noise

if TYPE_CHECKING:
    from factored_mwem.ledger.entries import Entry, Reservation
    from factored_mwem.ledger.journal import Journal, Journaled
    from factored_mwem.ledger.ledger import Ledger
    from factored_mwem.request.promise import Promise

LAST_WORD_SECONDS = 5.0
"""How long a failed run waits for the ledger, to record the failure. Its cost counts in any case."""
GOES_ON = {
    True: "run the same command again: it goes on from what was measured",
    False: "change what the message names, then run again with the same run id: it goes on from what was "
    "measured",
}
"""Advice, by whether the same command may succeed."""
MAY_BEAR = (
    "with more memory, or other --max-cells or --max-memory, the same run id goes on from what was measured, "
    "as far as that fits"
)
STAYS_SPENT = "what was spent stays spent; another --run-id is a new release and spends again"
AS_IT_WAS = "with the input as it was when it began, the same run id goes on from what was measured"
PAYS_AGAIN = "running again is a new release and spends again"
log = logging.getLogger("factored_mwem")
"""For programs that call this one: at INFO what the operator of a job wants to find in its log. Only what may
be published goes there, no handler is set here, and nothing is louder than INFO, which Python would print.
"""


class Booked(Protocol):
    """What the ledger must know about a release, or about anything else that spends budget."""

    @property
    def promise(self) -> Promise: ...

    @property
    def budget(self) -> Budget: ...

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything that determines the result, except the private input: public facts, as JSON."""

    @property
    def fingerprint(self) -> Callable[[bytes], bytes]:
        """The function that gives, for a key, a keyed digest of the private input."""

    def divided(self, parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The parameters of an attempt, which may come from any file, in two parts: those that no later
        attempt of its run may change, and those that it may.
        """


@dataclass(frozen=True, slots=True)
class Booking:
    """Where a release is entered: a ledger, the table's name in it, and a run id to go on by.

    All are None for a release without a ledger.
    """

    ledger: str | Path | Address | None = None
    dataset: str | None = None
    run_id: str | None = None

    @classmethod
    def of(cls, options: dict[str, Any]) -> Booking:
        """The booking that keyword arguments state; they are removed from `options`."""
        return cls(*(options.pop(name, None) for name in ("ledger", "dataset", "run_id")))

    def __post_init__(self) -> None:
        if self.ledger is not None:  # so that no password shows
            object.__setattr__(self, "ledger", Address(self.ledger))


class Run:
    """A release in progress, as `begin` yields it."""

    charged = False
    """Whether noise was paid for, by this attempt or by an earlier one of the same run id."""
    chain_head: str | None = None
    """The head of the ledger's chain right after the release was reserved, the same for every attempt."""

    def __init__(self) -> None:
        self._file: Ledger | None = None
        self._reservation: Reservation | None = None
        self._journal: Journal | None = None
        self._journaled: Journaled | None = None
        self._metered: Metered | None = None
        self._entry: Entry | None = None
        self._number: int | None = None
        self._pinned: dict[str, Any] = {}
        self._stuck: Lost | None = None
        self._began: list[str] = []
        self._early: list[dict[str, Any]] = []
        self._drawing = self._finished = False

    @classmethod
    @contextlib.contextmanager
    def begin(cls, request: Booked, booking: Booking, *, version: str) -> Iterator[Run]:
        """A run for this request; how it ends is entered in the ledger, if there is one.

        Raises RolledBack if the ledger is older than its journals; raises InputError if it does not know the
        dataset, protects it under other terms, or knows the run id with other data or parameters;
        BudgetExceeded if the cap has no room; Busy if another process holds the run. None of them has spent
        anything.
        """
        run = cls()
        try:
            if booking.ledger is not None and booking.dataset is not None:
                from factored_mwem.ledger.opening import open_ledger

                run._open(request, open_ledger(booking.ledger), booking, version)
            elif booking != Booking():
                raise InputError("--ledger and --dataset go together, and --run-id needs both")
            yield run
        except BaseException as error:
            run._failed(error)
            raise
        finally:
            if run._journal is not None:
                run._journal.close()

    def _open(self, request: Booked, file: Ledger, booking: Booking, version: str) -> None:
        from factored_mwem.accounting.cap import Cost
        from factored_mwem.ledger.entries import Reservation, check_terms

        name, run_id, budget = _checked("--dataset", booking.dataset), booking.run_id, request.budget
        if run_id is not None:
            _checked("--run-id", run_id)
        file.refuse_older()
        check_terms(file.dataset(name), request.promise)
        cost = Cost(budget.composition, budget.amount, budget.discovery_delta)
        self._file, mark = file, secrets.token_hex(16)
        reservation = Reservation(name, cost, run_id, request.parameters, None, version, mark)
        if run_id is None or file.find(name, run_id) is None:
            file.check(name, cost)  # early: the entry is made much later, at the first charge
        if run_id is not None:
            reservation = replace(reservation, fingerprint=request.fingerprint(file.key))
            self._resume(file, request, reservation, run_id)
        self._reservation = reservation

    def _resume(self, file: Ledger, request: Booked, reservation: Reservation, run_id: str) -> None:
        """Resume the run of this id, if there is one. Raises InputError if it is not the same run."""
        try:
            self._journal = file.journal(reservation.dataset, run_id)
        except Lost as error:
            self._stuck = error
        # Asked only now that the journal is locked.
        self._entry = entry = file.find(reservation.dataset, run_id)
        if entry is None:
            self._start_over(file, run_id)
            return
        self.charged = True
        self._check_same(request, entry, reservation)
        if entry.tool_version != reservation.tool_version:
            other = "another version of this program or of its libraries; use that one"
            self._stuck = Lost(f"{_began_with(reservation)} {other}, or give another --run-id")
        elif self._journal is not None and (self._journal.header or {}).get("entry") != entry.mark:
            self._stuck = Lost(f"the journal of run {run_id!r} is gone; give another --run-id")
        # A finished one needs no journal while its files are there.
        if self._stuck is not None and entry.state != "finished":
            raise self._stuck
        self._number, self.chain_head = entry.number, file.head(entry.number)
        run = (entry.number, reservation.dataset, run_id, entry.state)
        log.info("goes on as release %d of dataset %r, run %r (%s): no noise is paid for twice", *run)

    def _start_over(self, file: Ledger, run_id: str) -> None:
        """Ignore the journal of an attempt that died before it was entered, and so before any draw."""
        if self._journal is None:
            what = f"the journal of run {run_id!r} is damaged, and the run is not in the books"
            raise InputError(f"{what}; give another --run-id")
        if self._journal.waiting:  # an old copy of the ledger was put back since all journals were looked at
            raise RolledBack(file.name)
        self._journal.forget()

    def _check_same(self, request: Booked, entry: Entry, reservation: Reservation) -> None:
        """Raises Lost if an earlier attempt made another request; keeps the parameters that may differ."""
        lasting_then, then = request.divided(entry.parameters)
        lasting_now, now = request.divided(reservation.parameters)
        if lasting_then != lasting_now:
            raise Lost(f"{_began_with(reservation)} other parameters; give another --run-id")
        other = [name for name in now if then[name] != now[name]]
        self._began = [f"--{name.replace('_', '-')} {then[name] or 'left out'}" for name in other]
        if entry.fingerprint != reservation.fingerprint:
            raise Lost(f"{_began_with(reservation)} other data; give another --run-id")

    def pin(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The facts that all attempts of a run share: those of an earlier attempt if there was one, else
        `facts`.

        Raises Lost if the run cannot be resumed.
        """
        if self._stuck is not None:
            raise self._stuck
        self._pinned = {**facts, **self._pinned}
        return {**self._pinned, **((self._journal.header or {}) if self._journal else {})}

    def reserve(self) -> None:
        """Enter the release before its first noise. Raises BudgetExceeded if another job was faster."""
        if self._file is None or self._reservation is None or self._number is not None:
            self.charged = True
            return
        reservation = self._reservation
        if self._journal is not None:  # first: an entry without its journal is one whose journal was lost
            self._journal.begin({**self._pinned, "entry": reservation.mark})
            self._enter(self._file, reservation)
        else:
            with self._file.journals.remembered(reservation.mark) as keep:
                self._enter(self._file, reservation, keep)
        self.charged = True
        for about in self._early:
            self.note(about)
        log.info("entered as release %d of dataset %r in the ledger", self._number, reservation.dataset)

    def _enter(self, file: Ledger, reservation: Reservation, keep: Callable[[], None] = lambda: None) -> None:
        """Enter it, and `keep` its mark before anything is drawn."""
        try:
            self._number = file.reserve(reservation)
            keep()
            self.chain_head = file.head(self._number)
        except BaseException as error:
            self.charged = not isinstance(error, NotPermitted) and self._entered(file, reservation)
            raise

    def _entered(self, file: Ledger, reservation: Reservation) -> bool:
        """Whether the ledger holds the entry, after a signal interrupted its writing; assumed if the ledger
        does not answer.
        """
        try:
            return file.holds(reservation.mark)
        except FmwemError:
            return True

    def noise(self, noise: Noise, accountant: Accountant) -> Noise:
        """The noise, metered, and written to the journal if the run has an id."""
        self._drawing = True
        if self._journal is not None:
            from factored_mwem.ledger.journal import Journaled

            noise = self._journaled = Journaled(noise, self._journal, accountant, complete=self.complete)
        self._metered = Metered(noise, accountant)
        return self._metered

    def note(self, about: dict[str, Any]) -> None:
        """Write the question that the next draws answer to the journal, if there is one. A resumed run must
        be asked the same.
        """
        if self._journaled is not None:
            if self._number is None:  # the journal begins with the first charge
                self._early.append(about)
            else:
                self._journaled.note(about)

    @property
    def noted(self) -> dict[str, Any] | None:
        """The next question of an earlier attempt; None once all were repeated."""
        return self._journaled.noted if self._journaled is not None else None

    @property
    def complete(self) -> bool:
        """Whether an earlier attempt has drawn all its noise: no more may be drawn."""
        return self._entry is not None and self._entry.spent is not None

    def drawn(self, accountant: Accountant) -> None:
        """Record that all noise is drawn: from now on what was spent counts, not what was reserved."""
        if self._journal is not None and self._journal.waiting:
            from factored_mwem.ledger.journal import does_not_fit

            raise does_not_fit()
        if self._metered is not None:
            self._metered.end()
        self._drawing = False
        if self.resumed:
            log.info("resumed: %d draws came from the journal of an earlier attempt", self.resumed)
        if self._file is not None and self._number is not None:
            from factored_mwem.accounting.cap import Cost

            spent = Cost(accountant.budget.composition, accountant.spent, accountant.spent_delta)
            self._file.change(self._number, "spent", spent=spent)

    @property
    def has_books(self) -> bool:
        """Whether a ledger keeps count of this release."""
        return self._file is not None

    @property
    def resumed(self) -> int:
        """How many draws came from the journal of an earlier attempt."""
        return self._journaled.replayed if self._journaled is not None else 0

    @property
    def is_resumed(self) -> bool:
        """Whether an earlier attempt has the same id, and may have written files."""
        return self._entry is not None

    @property
    def written(self) -> list[dict[str, str]]:
        """sha256 by role of the files that earlier attempts wrote, once for each that finished."""
        return self._entry.files if self._entry is not None else []

    @property
    def was_finished(self) -> bool:
        """Whether an earlier attempt ended with its files in place."""
        return self._entry is not None and self._entry.state == "finished"

    def finish(self, digests: Callable[[], dict[str, str]] | None = None) -> None:
        """Record that the release is complete, with its files in place, if there are any; `digests()`: their
        sha256 by role.
        """
        self._finished = digests is not None
        reach("before finish")
        if self._file is not None and self._number is not None:
            before, now = self.written, digests() if digests is not None else {}
            self._file.change(self._number, "finished", files=[*before, now] if now not in before else None)
        reach("after finish")

    def _failed(self, error: BaseException) -> None:
        """Record the state of the budget on the error, then in the ledger, if it still answers."""
        failure: Any = error
        failure.budget_spent = self.charged
        if self.charged:
            failure.retryable, failure.advice = self._outlook(error)
            log.info("ended early, after noise was paid for: %s", failure.advice)
        if self._file is not None and self._number is not None and not (self._finished or self.was_finished):
            with contextlib.suppress(FmwemError):
                self._file.change(self._number, "failed", patience=LAST_WORD_SECONDS)

    def _outlook(self, error: BaseException) -> tuple[bool, str]:
        """(whether the same command may succeed without paying again, advice)."""
        journaled, drawing = self._journal is not None, self._drawing  # drawing: not all noise was drawn
        if self._finished:
            return journaled, COMPLETE
        if isinstance(error, Changed) and journaled:
            return False, AS_IT_WAS
        if isinstance(error, Lost) and drawing and self._began:
            flags = " and ".join(self._began)
            again = "as when it began, and the same run id: it goes on from what was measured"
            return False, f"give {flags}, {again}"
        # The request itself is at fault, and cannot be changed now.
        at_fault = drawing and isinstance(error, InputError) and not isinstance(error, Changed)
        if isinstance(error, Lost) or at_fault:
            return False, STAYS_SPENT
        if not journaled:
            return False, PAYS_AGAIN
        if isinstance(error, NotAccepted):  # the journal would lead to the same error again
            return False, STAYS_SPENT
        too_large = drawing and isinstance(error, ResourceError) and not error.retryable
        if isinstance(error, MemoryError) or too_large:
            return False, MAY_BEAR
        retryable = getattr(error, "retryable", not isinstance(error, FmwemError))
        return retryable, GOES_ON[retryable]


def _checked(what: str, text: Any) -> str:
    from factored_mwem.ledger.entries import MAX_NAME_LENGTH

    if not isinstance(text, str) or not 0 < len(text) <= MAX_NAME_LENGTH or not text.isprintable():
        raise InputError(f"{what} must be 1 to {MAX_NAME_LENGTH} printable characters")
    return text


def _began_with(reservation: Reservation) -> str:
    return f"run {reservation.run_id!r} of dataset {reservation.dataset!r} was begun with"
