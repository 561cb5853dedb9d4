"""Journal: every noisy draw of a run, written before it is used, so that a resumed run draws nothing twice.

A record is a line of JSON and an array of integers, in a frame with its number, its length and a code made
with the ledger's key. Draws are noisy, so everything in the journal was paid for. A draw whose record was not
written was seen by nobody, so it may be drawn again under the same charge; this assumes that crashes do not
depend on what is drawn.

`journal_folder` keeps the frames in files, `journal_table` in rows of a database.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.accounting.admissible import Shape
from factored_mwem.errors import Busy, InputError, Lost
from factored_mwem.files.crashpoints import reach
from factored_mwem.privacy.noise import Noise, NoisyThreshold

MAGIC = b"fmwj"
HEAD = struct.Struct("<4sQQ")
"""Magic bytes, number of the record, length of its body, which a code follows."""
CODE_BYTES = 16
Record = tuple[dict[str, Any], np.ndarray]


class Journal(ABC):
    """The records of one run, which this process holds alone.

    A kind of journal takes hold of it when it is made (Busy if another process has; Lost if it is
    damaged), and calls `_take_up` with what an earlier attempt left.
    """

    header: dict[str, Any] | None
    """Facts that a resumed run must repeat; None in a journal that was not begun."""

    def __init__(self, key: bytes) -> None:
        self._key, self._written = key, 0
        self._records: list[Record] = []

    def _take_up(self, records: list[Record]) -> None:
        self._records, self._written = records, len(records)
        self.header = self._records.pop(0)[0] if self._records else None

    @abstractmethod
    def close(self) -> None:
        """Release the lock, so that other processes may open the journal."""

    @abstractmethod
    def make_room(self, size: int) -> None:
        """Reserve space for a record whose body has up to `size` bytes, before it is drawn. Raises Busy if
        there is none.

        Whether a record can be written must not depend on what is drawn, because an unwritten draw is drawn
        again.
        """

    @abstractmethod
    def _clear(self) -> None:
        """Make it empty, before it is begun; it holds no draw."""

    @abstractmethod
    def _keep(self, start: bytes, rest: bytes) -> None:
        """Write a frame, and wait until it is safe on disk. Raises Busy if it cannot be written."""

    def begin(self, header: dict[str, Any]) -> None:
        """Start a fresh journal with the facts that a resumed run must repeat."""
        self._clear()
        self._written, self._records = 0, []
        self.append(header, np.zeros(0, dtype=np.int64))
        self.header = header

    def forget(self) -> None:
        """Ignore the records of an earlier attempt."""
        self.header, self._records = None, []

    def replay(self) -> Record | None:
        """The next draw of an earlier attempt; None once all are used."""
        return self._records.pop(0) if self._records else None

    @property
    def next(self) -> dict[str, Any] | None:
        """The facts of the next record of an earlier attempt."""
        return self._records[0][0] if self._records else None

    @property
    def waiting(self) -> bool:
        """Whether an earlier attempt left draws that were not repeated yet."""
        return bool(self._records)

    def append(self, facts: dict[str, Any], numbers: np.ndarray) -> None:
        """Write one record, whole or not at all."""
        body = json.dumps(facts).encode() + b"\n" + np.ascontiguousarray(numbers, dtype="<i8").tobytes()
        head = HEAD.pack(MAGIC, self._written, len(body))
        half = len(body) // 2
        reach("before journal")
        self._keep(head + body[:half], body[half:] + code_of(self._key, head, body))
        self._written += 1
        reach("after journal")


class Unreadable(InputError):
    """Journals that cannot be read; `why`: the reason that the system gives, for commands that only read."""

    def __init__(self, why: str) -> None:
        self.why = why
        what = f"cannot read the journals in {self.why}"
        super().__init__(f"{what}; nothing is spent before they can be looked at")


class Journals(Protocol):
    """Where the journals of a ledger are kept."""

    def open(self, name: str, key: bytes) -> Journal:
        """The journal of that name, or a new one. Raises Busy if another process has it; Lost if damaged."""

    def headers(self, key_of: Callable[[str], bytes]) -> dict[str, dict[str, Any]]:
        """The headers of the journals that hold a whole draw, by name; the journals may be in use.

        Raises Unreadable if they cannot be read.
        """

    def remembered(self, mark: str) -> AbstractContextManager[Callable[[], None]]:
        """Make ready to keep the mark of a release without a journal; what it gives, called once the ledger
        has the mark, keeps it. An older copy of the ledger lacks it. Raises Busy if there is no room,
        InputError if it may not be written.
        """


def under_way() -> Busy:
    advice = "wait for it (another --run-id is another release, and pays again)"
    return Busy(f"this run is under way in another process; {advice}")


def code_of(key: bytes, head: bytes, body: bytes) -> bytes:
    return hmac.new(key, head + body, hashlib.sha256).digest()[:CODE_BYTES]


def frame_at(key: bytes, data: bytes, at: int) -> bytes | None:
    """The body of the record whose frame begins at `at`, or None if there is no whole one."""
    if len(data) - at < HEAD.size + CODE_BYTES:
        return None
    magic, _, length = HEAD.unpack_from(data, at)
    end = at + HEAD.size + length
    if magic != MAGIC or end + CODE_BYTES > len(data):
        return None
    body = data[at + HEAD.size : end]
    code = code_of(key, data[at : at + HEAD.size], body)
    return body if hmac.compare_digest(code, data[end : end + CODE_BYTES]) else None


def record_of(body: bytes, where: str) -> Record:
    """The record in a body. Raises Lost if it is not in our form; `where`: the journal, for the message."""
    line, _, numbers = body.partition(b"\n")
    try:
        facts = json.loads(line)
        if not isinstance(facts, dict):
            raise ValueError("facts")
        return facts, np.frombuffer(numbers, dtype="<i8").astype(np.int64)
    except (ValueError, RecursionError):
        raise Lost(f"the journal {where} is damaged; give another --run-id") from None


def damaged(where: str) -> Lost:
    what = "this run cannot go on, and what it spent stays spent; give another --run-id"
    return Lost(f"the journal {where} is damaged: {what}")


class Journaled:
    """Noise whose draws are journaled before they are used; those of an earlier attempt come first.

    Every draw follows a charge, so the last entry of the accountant says what is drawn; it and the scale must
    be as they were.
    """

    def __init__(self, noise: Noise, journal: Journal, accountant: Accountant, *, complete: bool) -> None:
        """`complete`: an earlier attempt has drawn everything, so nothing more may be drawn."""
        self.composition = noise.composition
        self.replayed = 0
        self._complete = complete
        self._noise, self._journal, self._accountant = noise, journal, accountant

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        draw = functools.partial(self._noise.select, scores, scale=scale)
        return self._number("select", len(scores), scale, draw)

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        facts = self._facts("add", len(values), scale)
        return self._draw(facts, 8 * len(values), lambda: (facts, self._noise.add(values, scale=scale)))[1]

    def threshold(
        self, counts: dict[str, int], *, scale: float, threshold: int, listed: Sequence[str] = ()
    ) -> dict[str, int]:
        facts = self._facts("threshold", threshold, scale)  # how many keys there are is private
        facts |= {"listed": len(listed)} if listed else {}

        def draw() -> Record:
            kept = self._noise.threshold(counts, scale=scale, threshold=threshold, listed=listed)
            return {**facts, "keys": list(kept)}, np.array(list(kept.values()), dtype=np.int64)

        room = len(', "keys": ') + len(json.dumps(list(counts))) + 8 * len(counts)
        drawn, numbers = self._draw(facts, room, draw)
        return dict(zip(drawn["keys"], numbers.tolist(), strict=True))

    def spread(self, value: int, bound: float, *, shape: Shape, scale: float) -> int:
        """The record holds the public multiplier only, because the scale is private."""
        noise = self._noise
        return self._number("spread", 1, scale, lambda: noise.spread(value, bound, shape=shape, scale=scale))

    def begin(self, *, scale: float) -> NoisyThreshold:
        """The noise on a threshold must stay secret, so it is not written. So a resumed run can only repeat
        the answers of a test that an earlier attempt began.
        """
        begun: NoisyThreshold = NoisyThreshold()
        facts = self._facts("begin", 0, scale)

        def draw() -> Record:
            nonlocal begun
            begun = self._noise.begin(scale=scale)
            return facts, np.zeros(0, dtype=np.int64)

        self._draw(facts, 0, draw)
        return begun

    def exceeds(self, score: int, begun: NoisyThreshold, *, scale: float) -> bool | None:
        kept = self._journal.next
        if begun.gone if kept is None else kept.get("draw") != "exceeds":
            return None  # an earlier attempt died here; it, or this one, continues with another test or none
        return bool(self._number("exceeds", 1, scale, lambda: self._noise.exceeds(score, begun, scale=scale)))

    def _number(self, method: str, size: int, scale: float, draw: Callable[[], Any]) -> int:
        """A draw of one number."""
        facts = self._facts(method, size, scale)
        return int(self._draw(facts, 8, lambda: (facts, np.array([int(draw())], dtype=np.int64)))[1][0])

    @property
    def noted(self) -> dict[str, Any] | None:
        """The note in the next record of an earlier attempt, or None if that is not a note."""
        about = self._journal.next
        return about["note"] if about is not None and "note" in about else None

    def note(self, about: dict[str, Any]) -> None:
        """Write a question before its draws, or check that an earlier attempt was asked the same."""
        kept = self._journal.replay()
        if kept is None:
            self._journal.make_room(len(json.dumps({"note": about})) + len("\n"))
            self._journal.append({"note": about}, np.zeros(0, dtype=np.int64))
        elif kept[0] != {"note": json.loads(json.dumps(about))}:
            raise does_not_fit()

    def _facts(self, method: str, size: int, scale: float) -> dict[str, Any]:
        number, e = len(self._accountant.entries), self._accountant.entries[-1]
        what = [e.stage, e.mechanism.value, list(e.target), e.scale, e.sensitivity, str(e.delta)]
        return {"draw": method, "size": size, "scale": scale, "number": number, "entry": what}

    def _draw(self, facts: dict[str, Any], size: int, draw: Callable[[], Record]) -> Record:
        """The journal's next draw, or a new one, whose numbers and keys take up to `size` bytes."""
        record = self._journal.replay()
        if record is None:
            if self._complete:
                raise Lost(
                    "the journal of this run has lost its end: nothing is drawn twice, so its files cannot "
                    "be made again; give another --run-id"
                )
            self._journal.make_room(len(json.dumps(facts)) + len("\n") + size)
            reach("before draw")
            record = draw()
            self._journal.append(*record)
            return record
        then, numbers = record
        sizes = {"select": 1, "add": facts["size"], "begin": 0, "exceeds": 1, "spread": 1}
        expected = sizes.get(facts["draw"], len(then.get("keys", ())))
        if {**then, **facts} != then or len(numbers) != expected:
            raise does_not_fit()
        self.replayed += 1
        return record


def does_not_fit() -> Lost:
    """The error if journal and mechanism disagree: another machine or library computed differently."""
    return Lost(
        "this run cannot go on from its journal: the libraries, the machine, --max-cells or --max-memory "
        "changed since it began; restore them, or give another --run-id, which spends again"
    )
