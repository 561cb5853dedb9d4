"""Run: one release's hold on the budget of a dataset, from before its first noise until its files are in
place.

    begin -> (finished before? verify, and spend nothing) -> reserve, at the first charge -> draws, journaled -> drawn -> files -> finish

Without a ledger file a run keeps no books and only remembers whether anything was charged. With a run id it
has a journal, and the same id again goes on where the run died.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.accounting.cap import Cost
from factored_mwem.crashpoints import reach
from factored_mwem.errors import COMPLETE, Changed, FmwemError, InputError, Lost, ResourceError, RolledBack
from factored_mwem.files import sha256
from factored_mwem.ledger.entries import Dataset, Entry
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.ledger.fingerprint import fingerprint
from factored_mwem.ledger.journal import Journal, Journaled, does_not_fit
from factored_mwem.ledger.journals import key_of, place_of, refuse_older
from factored_mwem.ledger.outlook import AS_IT_WAS, GOES_ON, MAY_BEAR, PAYS_AGAIN, STAYS_SPENT
from factored_mwem.policy import BEARABLE, Policy, split_policy
from factored_mwem.privacy.noise import Noise
from factored_mwem.request import Request

MOST_ID = 200
PATIENCE = 5.0
"""Seconds that a run which ends by an error waits to tell the books: they count it in full in any case."""


class Run:
    """What `begin` hands over. `charged`: whether noise was paid for, by this attempt or by an earlier one of
    the same run id.

    `chain_head`: the head of the ledger's chain right after the release was reserved, the same for every
    attempt; None without one.
    """

    def __init__(self) -> None:
        self.charged = False
        self.chain_head: str | None = None
        self._file: LedgerFile | None = None
        self._journal: Journal | None = None
        self._journaled: Journaled | None = None
        self._entry: Entry | None = None
        self._number: int | None = None
        self._pinned: dict[str, Any] = {}
        self._stuck: Lost | None = None
        self._began: list[str] = []
        self._drawing = self._finished = False

    @classmethod
    @contextlib.contextmanager
    def begin(
        cls,
        request: Request,
        ledger: str | Path | None,
        dataset: str | None,
        run_id: str | None,
        *,
        version: str,
    ) -> Iterator[Run]:
        """A run for this request; the books are told how it ends. Without a ledger file it keeps none.

        RolledBack where the ledger is older than its journals; InputError where it does not know the dataset,
        protects it under other terms, or knows the run id with other data or parameters; BudgetExceeded where
        the cap has no room; Busy where another process holds the run. Nothing is spent by any of them.
        """
        run = cls()
        try:
            if ledger is not None and dataset is not None:
                run._open(request, LedgerFile(Path(ledger)), dataset, run_id, version)
            elif ledger is not None or dataset is not None or run_id is not None:
                raise InputError("--ledger and --dataset go together, and --run-id needs both")
            yield run
        except BaseException as error:
            run._failed(error)
            raise
        finally:
            if run._journal is not None:
                run._journal.close()

    def _open(self, request: Request, file: LedgerFile, name: str, run_id: str | None, version: str) -> None:
        for what, text in (("--dataset", name), ("--run-id", run_id if run_id is not None else "none")):
            if not isinstance(text, str) or not 0 < len(text) <= MOST_ID or not text.isprintable():
                raise InputError(f"{what} must be 1 to {MOST_ID} printable characters")
        refuse_older(file)
        dataset, budget = file.dataset(name), request.budget
        _check_terms(dataset, request.policy)
        self._file, self._facts = (
            file,
            dict[str, Any](
                run_id=run_id, parameters=request.parameters, fingerprint=None, tool_version=version
            ),
        )
        self._name, self._cost = name, Cost(budget.composition, budget.amount, budget.discovery_delta)
        if run_id is None or file.find(name, run_id) is None:
            file.check(name, self._cost)  # early: the entry is made much later, at the first charge
        if run_id is not None:
            self._facts["fingerprint"] = fingerprint(request.private, file.key)
            self._resume(file, name, run_id)

    def _resume(self, file: LedgerFile, name: str, run_id: str) -> None:
        """Take up the run of this id, if there is one; InputError where it is not the same run."""
        path = place_of(file, name, run_id)
        try:
            self._journal = Journal(path, key_of(file, path))
        except Lost as error:
            self._stuck = error
        self._entry = entry = file.find(name, run_id)  # asked only now that the journal is locked
        if entry is None:
            if self._journal is None:
                raise InputError(
                    f"the journal of run {run_id!r} is damaged, and the run is not in the books; give "
                    "another --run-id"
                )
            if (
                self._journal.waiting
            ):  # an old copy of the ledger was put back since all journals were looked at
                raise RolledBack(file.path)
            self._journal.forget()  # no entry, no draw: what an attempt wrote before it died says nothing
            return
        self.charged = True
        run = f"run {run_id!r} of dataset {name!r} was begun with"
        (lasting_then, began), (lasting_now, now) = (
            _split(parameters) for parameters in (entry.parameters, self._facts["parameters"])
        )
        if lasting_then != lasting_now:
            raise Lost(f"{run} other parameters; give another --run-id")
        self._began = [
            f"--{name.replace('_', '-')} {began[name] or 'left out'}"
            for name in BEARABLE
            if began[name] != now[name]
        ]
        if entry.fingerprint != self._facts["fingerprint"]:
            raise Lost(f"{run} other data; give another --run-id")
        if entry.tool_version != self._facts["tool_version"]:
            self._stuck = Lost(
                f"{run} another version of this program or of its libraries; use that one, or give another "
                "--run-id"
            )
        elif self._journal is not None and (self._journal.header or {}).get("entry") != entry.mark:
            self._stuck = Lost(f"the journal of run {run_id!r} is gone; give another --run-id")
        if (
            self._stuck is not None and entry.state != "finished"
        ):  # a finished one needs no journal while its files are there
            raise self._stuck
        self._number, self.chain_head = entry.number, file.head(entry.number)

    def pin(self, facts: dict[str, Any]) -> dict[str, Any]:
        """`facts` about this attempt that a later one of the same run must share; an earlier one's, if there
        was one. Lost where it cannot go on.
        """
        if self._stuck is not None:
            raise self._stuck
        self._pinned = {**facts, **self._pinned}
        return {**self._pinned, **((self._journal.header or {}) if self._journal else {})}

    def reserve(self) -> None:
        """Enter the release before its first noise is drawn. BudgetExceeded where another job was faster."""
        if self._file is None or self._number is not None:
            self.charged = True
            return
        mark = secrets.token_hex(16)
        if (
            self._journal is not None
        ):  # before the entry: an entry without its journal is one whose journal was lost
            self._journal.begin({**self._pinned, "entry": mark})
        try:
            self._number = self._file.reserve(self._name, self._cost, mark=mark, **self._facts)
            self.chain_head = self._file.head(self._number)
        except BaseException:
            self.charged = self._entered(self._file, mark)
            raise
        self.charged = True

    def _entered(self, file: LedgerFile, mark: str) -> bool:
        """Whether the books hold the entry, which a signal may have kept from being heard of; yes where they
        do not answer.
        """
        try:
            return any(entry.mark == mark for entry in file.entries(self._name))
        except FmwemError:
            return True

    def noise(self, noise: Noise, ledger: Accountant) -> Noise:
        """The noise, journaled where the run has an id."""
        self._drawing = True
        if self._journal is None:
            return noise
        self._journaled = Journaled(
            noise, self._journal, ledger, complete=self._entry is not None and self._entry.spent is not None
        )
        return self._journaled

    def drawn(self, ledger: Accountant) -> None:
        """All noise is drawn: what was spent takes the place of what was reserved."""
        if self._journal is not None and self._journal.waiting:
            raise does_not_fit()
        self._drawing = False
        if self._file is not None and self._number is not None:
            self._file.change(
                self._number, "spent", spent=Cost(self._cost.composition, ledger.spent, ledger.spent_delta)
            )

    @property
    def has_books(self) -> bool:
        """Whether a ledger file keeps count of this release."""
        return self._file is not None

    @property
    def resumed(self) -> int:
        """Draws that came from the journal of an earlier attempt."""
        return self._journaled.replayed if self._journaled is not None else 0

    @property
    def goes_on(self) -> bool:
        """Whether an earlier attempt has the same id, and may have written files."""
        return self._entry is not None

    def wrote(self, path: Path) -> bool:
        """Whether what lies at `path` is a file that this run finished with."""
        return (
            self._entry is not None
            and path.is_file()
            and any(sha256(path) in files.values() for files in self._entry.files)
        )

    def reusable(self, files: Mapping[str, Path]) -> bool:
        """Whether the run was finished and these files, by role, are what it wrote."""
        if (
            self._entry is None
            or self._entry.state != "finished"
            or not all(path.is_file() for path in files.values())
        ):
            return False
        return {role: sha256(path) for role, path in files.items()} in self._entry.files

    def finish(self, files: Mapping[str, Path]) -> None:
        """The release is complete: its files, by role, are in place."""
        self._finished = bool(files)
        reach("before finish")
        if self._file is not None and self._number is not None:
            before = self._entry.files if self._entry is not None else []
            now = {role: sha256(path) for role, path in files.items()}
            self._file.change(self._number, "finished", files=[*before, now] if now not in before else None)
        reach("after finish")

    def _failed(self, error: BaseException) -> None:
        """Tell the error what has become of the budget, then the books, as far as they can still be told."""
        told: Any = error
        if self.charged:
            told.retryable, told.advice = self._outlook(error)
        told.budget_spent = self.charged
        if (
            self._file is not None
            and self._number is not None
            and not self._finished
            and (self._entry is None or self._entry.state != "finished")
        ):
            with contextlib.suppress(FmwemError):
                self._file.change(self._number, "failed", patience=PATIENCE)

    def _outlook(self, error: BaseException) -> tuple[bool, str]:
        """Whether the same command may succeed without paying again, and what to do, after noise was paid
        for.
        """
        if self._finished:
            return self._journal is not None, COMPLETE
        if isinstance(error, Changed) and self._journal is not None:
            return False, AS_IT_WAS
        if isinstance(error, Lost) and self._drawing and self._began:
            return (
                False,
                f"give {' and '.join(self._began)}, as when it began, and the same run id: it goes on from "
                "what was measured",
            )
        if isinstance(error, Lost) or (
            self._drawing and isinstance(error, InputError) and not isinstance(error, Changed)
        ):  # what was asked is at fault, and cannot be changed now
            return False, STAYS_SPENT
        if self._journal is None:
            return False, PAYS_AGAIN
        if isinstance(error, MemoryError) or (
            self._drawing and isinstance(error, ResourceError) and not error.retryable
        ):
            return False, MAY_BEAR
        retryable = getattr(error, "retryable", not isinstance(error, FmwemError))
        return retryable, GOES_ON[retryable]


def _split(parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters that no attempt of a run may change, and those that one may. The books' may be
    anything.
    """
    lasting, bearable = split_policy(parameters.get("policy"))
    return {**parameters, "policy": lasting}, bearable


def _check_terms(dataset: Dataset, policy: Policy) -> None:
    """InputError where a release would protect others than the cap is about."""
    if policy.neighbours is not dataset.neighbours:
        raise InputError(
            f"dataset {dataset.name!r} is kept under --neighbours {dataset.neighbours}, this release says "
            f"{policy.neighbours}"
        )
    if (
        policy.privacy_id is not None
    ):  # whom it names is the owner's to say: rows bounded by another column bound nobody's
        if policy.privacy_id != dataset.privacy_id:
            known = dataset.privacy_id
            goes_by = (
                "has no column that names the person"
                if known is None
                else f"goes by --privacy-id {shlex.quote(known)}"
            )
            raise InputError(
                f"dataset {dataset.name!r} {goes_by}, this release says {policy.privacy_id!r}; see `fmwem "
                "ledger add --help`"
            )
    elif policy.contributions < dataset.contributions:
        known = (
            f" or --privacy-id {shlex.quote(dataset.privacy_id)}" if dataset.privacy_id is not None else ""
        )
        raise InputError(
            f"dataset {dataset.name!r} has up to {dataset.contributions} rows of one person, this release "
            f"assumes {policy.contributions}; "
            f"use --contributions {dataset.contributions}{known}"
        )
