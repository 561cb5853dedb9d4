"""Encodings: text in any of them as UTF-8, so that bytes that are no text spoil the cell they stand in alone.

Such a byte becomes one that UTF-8 has not, either: what reads the cells finds it there. No record's bytes
reach beyond its line feed, which ends whatever is before it (see `domain/dialect.py: ENCODINGS`); in UTF-16 a
record is made of whole pairs of bytes.
"""

from __future__ import annotations

import codecs
import io
from typing import Any

UTF_8 = ("utf-8", "utf-8-sig")
NO_TEXT = "\udcff"
"""Which becomes the byte 255."""
READ_BYTES = 1 << 16
LONGEST = 8
"""Bytes that a codec may wait for before it tells what the first of them are."""


def _one_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return NO_TEXT, error.start + 1


def _one_pair(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return NO_TEXT, min(error.start + 2, len(error.object))


codecs.register_error("fmwem-byte", _one_byte)
codecs.register_error("fmwem-pair", _one_pair)


class Transcoded(io.RawIOBase):
    """A stream of text in UTF-8 of one in another encoding."""

    def __init__(self, stream: Any, encoding: str) -> None:
        self._stream, self._rest, self._ended = stream, b"", False
        wide = encoding.startswith("utf-16")
        errors, self._end = ("fmwem-pair", b"") if wide else ("fmwem-byte", b"\n" + b" " * LONGEST)
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._ended and (size < 0 or len(self._rest) < size):
            more = self._stream.read(READ_BYTES if size < 0 else max(size, READ_BYTES))
            self._ended = not more
            text = self._decoder.decode(bytes(more))
            if self._ended:  # what is cut off there is spoilt as in the middle: a codec alone would drop more
                end = self._decoder.decode(self._end, final=not self._end)
                text += end[: end.rindex("\n")] if self._end else end
            self._rest += text.encode("utf-8", "surrogateescape")
        given, self._rest = (self._rest, b"") if size < 0 else (self._rest[:size], self._rest[size:])
        return given
