"""Journal: every noisy draw of a run, on disk before it is used: so a run can go on without drawing twice.

A record is a line of JSON and an array of integers, in a frame with its number, its length and a code made
with the ledger's key. Draws are noisy: what the journal holds was paid for. A draw whose record did not reach
the disk was seen by nobody, so it is drawn again under the same charge; this assumes that crashes do not
depend on what is drawn.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.crashpoints import reach
from factored_mwem.errors import Busy, InputError, Lost
from factored_mwem.files import sync
from factored_mwem.privacy.noise import Noise

MAGIC = b"fmwj"
HEAD = struct.Struct("<4sQQ")
"""Magic, number of the record, length of what follows before its code."""
CODE_BYTES = 16
Record = tuple[dict[str, Any], np.ndarray]


class Journal:
    """The records of one run, in a file that this process locks. Busy where another has; Lost if damaged."""

    def __init__(self, path: Path, key: bytes) -> None:
        self._key, self._written, self._end = key, 0, 0
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            for folder in (path.parent, path.parent.parent):
                sync(folder)
        except OSError as error:
            raise InputError(f"cannot write the journal {path}: {error.strerror}") from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            advice = "wait for it (another --run-id is another release, and pays again)"
            raise Busy(f"this run is under way in another process; {advice}") from None
        try:
            self._records = self._read(path)
        except BaseException:
            os.close(self._handle)
            raise
        self.header: dict[str, Any] | None = self._records.pop(0)[0] if self._records else None

    def close(self) -> None:
        fcntl.flock(self._handle, fcntl.LOCK_UN)  # a child of this process may have the file open too
        os.close(self._handle)

    @classmethod
    def glimpse(cls, path: Path, key: bytes) -> dict[str, Any] | None:
        """The header of a journal that holds a whole draw, read no further; None of any other file.

        It may be in use.
        """
        reader = cls.__new__(cls)
        reader._key = key
        with open(path, "rb") as file:
            header, draw = reader._next(file, 0), reader._next(file, 1)
        return None if header is None or draw is None else _record(header, path)[0]

    def _next(self, file: BinaryIO, number: int) -> bytes | None:
        """The body of the record of that number, if that is what comes next in the file, and is whole."""
        head = file.read(HEAD.size)
        if len(head) < HEAD.size or head[: len(MAGIC)] != MAGIC or HEAD.unpack(head)[1] != number:
            return None
        left = os.fstat(file.fileno()).st_size - file.tell()  # a damaged length may be any number
        return self._frame(head + file.read(min(HEAD.unpack(head)[2] + CODE_BYTES, left)), 0)

    def begin(self, header: dict[str, Any]) -> None:
        """Start a fresh journal: what a resumed run must repeat comes first."""
        os.ftruncate(self._handle, 0)
        self._written, self._end, self._records = 0, 0, []
        self.append(header, np.zeros(0, dtype=np.int64))
        self.header = header

    def forget(self) -> None:
        """Take nothing from an earlier attempt."""
        self.header, self._records = None, []

    def replay(self) -> Record | None:
        """The next draw of an earlier attempt; None once all are used."""
        return self._records.pop(0) if self._records else None

    @property
    def waiting(self) -> bool:
        """Whether draws of an earlier attempt are left."""
        return bool(self._records)

    def make_room(self, size: int) -> None:
        """Space for a record of up to `size` bytes, before it is drawn.

        On a full disk it would depend on the draw whether it is drawn again.
        """
        try:
            os.ftruncate(self._handle, self._end)  # a torn record of an earlier attempt goes
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._handle, self._end, HEAD.size + size + CODE_BYTES)
        except OSError as error:
            raise Busy(f"cannot write the journal: {error.strerror}; free some space") from None

    def append(self, facts: dict[str, Any], numbers: np.ndarray) -> None:
        """Write one record and wait until it is on disk. Busy where the disk is full."""
        body = json.dumps(facts).encode() + b"\n" + np.ascontiguousarray(numbers, dtype="<i8").tobytes()
        head = HEAD.pack(MAGIC, self._written, len(body))
        reach("before journal")
        try:
            os.lseek(self._handle, self._end, os.SEEK_SET)
            _write(self._handle, head + body[: len(body) // 2])
            reach("half journalled")
            _write(self._handle, body[len(body) // 2 :] + self._code(head, body))
            end = self._end + len(head) + len(body) + CODE_BYTES
            # How much room was made is private: it grows with the keys that may be kept.
            os.ftruncate(self._handle, end)
            os.fsync(self._handle)
        except OSError as error:
            raise Busy(f"cannot write the journal: {error.strerror}; free some space") from None
        self._written, self._end = self._written + 1, end
        reach("after journal")

    def _code(self, head: bytes, body: bytes) -> bytes:
        return hmac.new(self._key, head + body, hashlib.sha256).digest()[:CODE_BYTES]

    def _read(self, path: Path) -> list[Record]:
        """All whole records but a torn last one; Lost where something follows it, to be drawn again.

        Nothing is changed yet.
        """
        data, at = _content(self._handle), 0
        records: list[Record] = []
        while (body := self._frame(data, at)) is not None and HEAD.unpack_from(data, at)[1] == len(records):
            records.append(_record(body, path))
            at += HEAD.size + len(body) + CODE_BYTES
        later = data.find(MAGIC, at + 1)
        while later >= 0:
            if self._frame(data, later) is not None:
                what = "this run cannot go on, and what it spent stays spent; give another --run-id"
                raise Lost(f"the journal {path} is damaged: {what}")
            later = data.find(MAGIC, later + 1)
        self._written, self._end = len(records), at
        return records

    def _frame(self, data: bytes, at: int) -> bytes | None:
        """The body of the record that begins at `at`, or None where there is no whole one."""
        if len(data) - at < HEAD.size + CODE_BYTES:
            return None
        magic, _, length = HEAD.unpack_from(data, at)
        end = at + HEAD.size + length
        if magic != MAGIC or end + CODE_BYTES > len(data):
            return None
        body = data[at + HEAD.size : end]
        code = self._code(data[at : at + HEAD.size], body)
        return body if hmac.compare_digest(code, data[end : end + CODE_BYTES]) else None


def _record(body: bytes, path: Path) -> Record:
    line, _, numbers = body.partition(b"\n")
    try:
        facts = json.loads(line)
        if not isinstance(facts, dict):
            raise ValueError("facts")
        return facts, np.frombuffer(numbers, dtype="<i8").astype(np.int64)
    except (ValueError, RecursionError):
        raise Lost(f"the journal {path} is damaged; give another --run-id") from None


def _content(handle: int) -> bytes:
    os.lseek(handle, 0, os.SEEK_SET)
    with os.fdopen(os.dup(handle), "rb") as file:
        return file.read()


def _write(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


class Journaled:
    """Noise whose draws are journaled before they are used; those of an earlier attempt come first.

    Every draw follows a charge, so the last entry of the accountant says what is drawn; it and the scale must
    be as they were.
    """

    def __init__(self, noise: Noise, journal: Journal, accountant: Accountant, *, complete: bool) -> None:
        """`complete`: an earlier attempt has drawn all there was to draw: nothing may be drawn any more."""
        self.composition = noise.composition
        self.replayed = 0
        self._complete = complete
        self._noise, self._journal, self._accountant = noise, journal, accountant

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        facts = self._facts("select", len(scores), scale)

        def draw() -> Record:
            return facts, np.array([self._noise.select(scores, scale=scale)])

        return int(self._draw(facts, 8, draw)[1][0])

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        facts = self._facts("add", len(values), scale)
        return self._draw(facts, 8 * len(values), lambda: (facts, self._noise.add(values, scale=scale)))[1]

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        facts = self._facts("threshold", threshold, scale)  # how many keys there are is private

        def draw() -> Record:
            kept = self._noise.threshold(counts, scale=scale, threshold=threshold)
            return {**facts, "keys": list(kept)}, np.array(list(kept.values()), dtype=np.int64)

        drawn, numbers = self._draw(facts, len(json.dumps(list(counts))) + 8 * len(counts), draw)
        return dict(zip(drawn["keys"], numbers.tolist(), strict=True))

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
            self._journal.make_room(len(json.dumps(facts)) + 32 + size)
            reach("before draw")
            record = draw()
            self._journal.append(*record)
            return record
        then, numbers = record
        expected = {"select": 1, "add": facts["size"]}.get(facts["draw"], len(then.get("keys", ())))
        if {**then, **facts} != then or len(numbers) != expected:
            raise does_not_fit()
        self.replayed += 1
        return record


def does_not_fit() -> Lost:
    """The journal and the mechanism disagree: another machine or library computed otherwise."""
    return Lost(
        "this run cannot go on from its journal: the libraries, the machine, --max-cells or --max-memory are "
        "not what they were when it began; make them so, or give another --run-id, which spends again"
    )
