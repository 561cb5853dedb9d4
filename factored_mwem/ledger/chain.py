"""Chain: the events of a ledger, each bound by a hash to all events before it, so that any change can be
detected.

    head = sha256(head before it + event), both as text; before the first event the head is 64 zeros

An event is canonical JSON of the rows that it writes, as they are after it. The heads of reservations are
published in manifests, so:

- a reservation holds its release's random mark: whoever sees a head and not the ledger cannot test a guess at
  what else was entered;
- nothing that was computed from a private table is hashed. The fingerprint of a release's input stays out of
  the events, which an auditor gets in an export and can recompute from it alone; a code made with the
  ledger's key, beside each head, binds the fingerprints, and stays in the ledger.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any

from factored_mwem.ledger.schema import Connection, Row

FIRST_HEAD = "0" * 64
RULE = (
    "head = sha256 of the head before it (before the first event: 64 zeros) followed by the event, both as "
    "UTF-8 text; in hexadecimal"
)
ADDED, RESERVED, CHANGED = "dataset added", "release reserved", "release changed"
ACCEPTED = "copy accepted"
"""The event by which the owner confirms that this copy of the database is the newest."""
LATER = ("state", "spent_amount", "spent_delta", "files", "changed")
"""Columns of a release that are written after it was reserved."""


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the table `events`."""

    number: int
    reserved: int | None
    """The number of the release that the event enters, or None."""
    text: str
    head: str
    code: bytes
    """Keyed, over head and fingerprints."""


def canonical(facts: Any) -> str:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"))


def next_head(head: str, text: str) -> str:
    return hashlib.sha256((head + text).encode()).hexdigest()


def code_of(key: bytes, head: str, release: Row | None) -> bytes:
    """A keyed code that binds a head to the fingerprint of the release that its event enters, if it enters
    one.
    """
    prints = [] if release is None else [release["fingerprint"]]
    text = canonical([head, [value.hex() if isinstance(value, bytes) else value for value in prints]])
    return hmac.digest(key, text.encode(), "sha256")


def release_facts(row: Row) -> Row:
    """A release as the chain holds it: fields of JSON parsed, and no fingerprint."""
    whole = {name: value for name, value in row.items() if name != "fingerprint"}
    return {**whole, "parameters": json.loads(row["parameters"]), "files": json.loads(row["files"])}


def reserved(release: Row, dataset: Row) -> Row:
    """The event that enters a release. `dataset`: as it is afterwards, as the release may have set its
    limits.
    """
    return {"event": RESERVED, "release": release_facts(release), "limits": dataset["limits"]}


def changed(release: Row) -> Row:
    facts = release_facts(release)
    return {"event": CHANGED, "release": {name: facts[name] for name in ("id", *LATER)}}


def append(db: Connection, key: bytes, facts: Row, release: Row | None = None) -> None:
    """Write an event, in the transaction that writes the rows it is about; it may enter a `release`."""
    last = db.execute("SELECT number, head FROM events ORDER BY number DESC LIMIT 1").fetchone()
    number, before = last or (0, FIRST_HEAD)
    text = canonical(facts)
    head = next_head(before, text)
    entered = None if release is None else release["id"]
    event = (number + 1, entered, text, head, code_of(key, head, release))
    db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", event)
