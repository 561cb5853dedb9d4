"""Consistency: whether a ledger's chain, rows and journals agree, and where they do not.

Anybody who can write the ledger can also rewrite its chain. Only the heads in published manifests protect
against that; `pipeline/record/manifest_check.py` compares them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from factored_mwem.accounting.cap import CapUse, Cost
from factored_mwem.errors import FmwemError, must
from factored_mwem.ledger import chain
from factored_mwem.ledger.address import Address
from factored_mwem.ledger.chain import canonical
from factored_mwem.ledger.entries import Dataset, Entry, Snapshot, dataset_of, entry_of
from factored_mwem.ledger.journal import Unreadable
from factored_mwem.ledger.ledger import Ledger
from factored_mwem.ledger.opening import open_ledger
from factored_mwem.ledger.schema import VERSION, Row

DAMAGED = (KeyError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, FmwemError)
"""Errors that a row or an event in an unexpected form may raise."""


class Inspected(NamedTuple):
    """The result of inspecting a ledger: its rows, facts about it, and a line for each contradiction."""

    kept: Snapshot
    facts: dict[str, Any]
    problems: list[str]


def inspect(place: str | Path | Address) -> Inspected:
    """Read a ledger and find its contradictions. Nothing is written."""
    file = open_ledger(place)
    journals = list(_journals(file))  # before the books are read: see `Ledger.unknown_journals`
    kept = file.snapshot()
    sums, wrong = _sums(kept)
    problems = [] if kept.whole else ["SQLite finds the file damaged"]
    problems += [*_broken(kept, file.key), *_differing(kept), *wrong, *journals]
    facts = {
        "ledger": file.name,
        "ledger_version": VERSION,
        "events": len(kept.events),
        "head": str(kept.events[-1].head) if kept.events else None,
        "datasets": sums,
    }
    return Inspected(kept, facts, problems)


def _journals(file: Ledger) -> Iterator[str]:
    """Contradictions between journals and ledger; if journals cannot be read, the rest is still checked."""
    if file.copied():
        yield (
            "it is a copy of the database that was last written, or its server failed over: if it is the "
            "newest, `fmwem ledger accept` says so"
        )
    try:
        lost = file.unknown_journals()
    except Unreadable as error:
        yield f"the journals could not be looked at: {error.why}"
        return
    yield from (
        f"journal {one}: it is of a release that the books do not know, so this is an old copy of the ledger"
        for one in lost
    )


def _broken(kept: Snapshot, key: bytes) -> Iterator[str]:
    """Where an event, its head or its code is not what it should be."""
    before, rows = chain.FIRST_HEAD, {row["id"]: row for row in kept.releases}
    for place, event in enumerate(kept.events, start=1):
        name = f"event {place} of the chain"
        try:
            if event.number != place:
                yield f"{name}: it has number {event.number!r}"
            facts = json.loads(event.text)
            entered = facts["release"]["id"] if facts["event"] == chain.RESERVED else None
            if event.reserved != entered:
                yield f"{name}: the release beside it is not the one that it enters"
            if event.head != chain.next_head(before, event.text):
                yield f"{name}: its head does not follow from the event and the head before it"
                continue
            if event.code != chain.code_of(key, event.head, rows.get(entered)):
                which = f" or the fingerprint of release {entered}" if entered is not None else ""
                yield f"{name}: its code does not fit: the ledger's key{which} was changed"
        except DAMAGED:
            yield f"{name}: it is not as this program writes events"
        finally:
            before = event.head


class _Replay:
    """The rows as they must be after the events so far."""

    def __init__(self) -> None:
        self.datasets: dict[str, Row] = {}
        self.releases: dict[int, Row] = {}

    def apply(self, facts: Row) -> None:
        """Apply one event. Raises ValueError if it contradicts an earlier one."""
        kind = facts["event"]
        if kind == chain.ADDED:
            must(facts["dataset"]["name"] not in self.datasets, "event")
            self.datasets[facts["dataset"]["name"]] = facts["dataset"]
        elif kind == chain.RESERVED:
            release = facts["release"]
            dataset = self.datasets[release["dataset"]]
            must(release["id"] not in self.releases and release["spent_amount"] is None, "event")
            must(dataset["limits"] in (None, facts["limits"]), "event")
            self.datasets[release["dataset"]] = {**dataset, "limits": facts["limits"]}
            self.releases[release["id"]] = release
        elif kind == chain.CHANGED:
            self._change(facts["release"])
        else:
            must(kind == chain.ACCEPTED, "kind")  # no row holds it

    def _change(self, later: Row) -> None:
        before = self.releases[later["id"]]
        must(set(later) == {"id", *chain.LATER}, "event")
        spent = ("spent_amount", "spent_delta")
        must(before["spent_amount"] is None or all(later[name] == before[name] for name in spent), "event")
        must(before["state"] != "finished" or later["state"] == "finished", "event")
        must(later["files"][: len(before["files"])] == before["files"], "event")
        self.releases[later["id"]] = {**before, **later}


def _differing(kept: Snapshot) -> Iterator[str]:
    """Where the rows differ from those that the chain's events produce, in both directions."""
    replay = _Replay()
    for place, event in enumerate(kept.events, start=1):
        try:
            replay.apply(json.loads(event.text))
        except DAMAGED:
            yield f"event {place} of the chain: it does not follow from the events before it"
    yield from _compared("dataset", {row["name"]: row for row in kept.datasets}, replay.datasets)
    yield from _compared("release", {row["id"]: _facts(row) for row in kept.releases}, replay.releases)


def _facts(row: Row) -> Row:
    try:
        return chain.release_facts(row)
    except DAMAGED:  # no JSON: it differs from the chain's
        return {name: value for name, value in row.items() if name != "fingerprint"}


def _compared(what: str, rows: dict[Any, Row], known: dict[Any, Row]) -> Iterator[str]:
    for name in [*rows, *(name for name in known if name not in rows)]:
        if name not in known:
            yield f"{what} {name!r}: it is in the books, and not in the chain"
        elif name not in rows:
            yield f"{what} {name!r}: it is in the chain, and not in the books"
        else:
            row, other = rows[name], known[name]
            columns = [*row, *(column for column in other if column not in row)]
            wrong = [c for c in columns if _text(row.get(c)) != _text(other.get(c))]
            if wrong:
                listed = ", ".join(column if column in row else repr(column) for column in wrong)
                yield f"{what} {name!r}: {listed} in the books is not what the chain says"


def _text(value: Any) -> str:
    """The value as JSON, in which 1 differs from 1.0 and from true."""
    try:
        return canonical(value)
    except DAMAGED:
        return repr(value)


def _sums(kept: Snapshot) -> tuple[list[dict[str, Any]], list[str]]:
    """The exact sums of the releases of each dataset, and where its cap does not admit them."""
    sums, problems = [], []
    for row in kept.datasets:
        name = f"dataset {row['name']!r}"
        try:
            dataset = dataset_of(row)
            entries = [entry_of(one) for one in kept.releases if one["dataset"] == row["name"]]
            problems += [f"{name}: {problem}" for problem in _overspent(dataset, entries)]
            sums.append(_sum(dataset, [entry.cost for entry in entries]))
        except DAMAGED:
            problems.append(
                f"{name}: its row, or that of one of its releases, is not as this program writes it, so its "
                "costs cannot be added up"
            )
    names = [row["name"] for row in kept.datasets]
    problems += [
        f"release {row['id']!r}: its dataset is not in the books"
        for row in kept.releases
        if row["dataset"] not in names
    ]
    return sums, problems


def _sum(dataset: Dataset, costs: Sequence[Cost]) -> dict[str, Any]:
    pure, concentrated = ([c.amount for c in costs if c.pure is kind] for kind in (True, False))
    exact = {"epsilon": sum(pure), "rho": sum(concentrated), "delta": sum(c.delta for c in costs)}
    return {
        "dataset": dataset.name,
        "releases": len(costs),
        "unit": "epsilon" if dataset.cap.rho is None else "rho",
        "spent": dataset.cap.spent(costs, dataset.limits),
        "cap": float(dataset.cap.amount),
        "exact": {name: str(total) for name, total in exact.items()},
    }


def _overspent(dataset: Dataset, entries: Sequence[Entry]) -> Iterator[str]:
    cap, limits = dataset.cap, dataset.limits
    if limits is not None:
        first_phase = [entry.cost for entry in entries[: limits.after]]
        if not cap.keeps(limits, CapUse.of(first_phase, None)):
            yield "its limits allow more than its cap"
    before = CapUse()
    for entry in entries:  # the releases before it spent no more than they reserved, so there was room
        if not cap.holds(before.plus(entry.reserved, limits), limits):
            yield f"its cap does not admit release {entry.number} after those before it"
        if entry.cost.amount > entry.reserved.amount or entry.cost.delta > entry.reserved.delta:
            yield f"release {entry.number} spent more than was reserved"
        before = before.plus(entry.cost, limits)
