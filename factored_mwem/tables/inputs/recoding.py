"""Recoding: text that is compressed, or in another encoding, as a stream of UTF-8, whatever its size.

Bytes that are no text spoil the cell they stand in alone: such a byte becomes one that UTF-8 has not, either;
what reads the cells finds it there. No record's bytes reach beyond its line feed, which ends whatever is
before it (see `domain/dialect.py: ENCODINGS`); in UTF-16 a record is made of whole pairs of bytes.
"""

from __future__ import annotations

import codecs
import lzma
from typing import Any

import pyarrow as pa

from factored_mwem.tables.inputs.input_file import ByteStream

NO_TEXT = "\udcff"
"""Which becomes the byte 255."""
XZ_MEMORY = 2**29
"""Bytes that unpacking may take; `xz -9` needs 65 MB."""
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


class Transcoded(ByteStream):
    """A stream of text in UTF-8 of one in another encoding."""

    def __init__(self, stream: Any, encoding: str) -> None:
        self._stream, self._rest, self._ended = stream, b"", False
        wide = encoding.startswith("utf-16")
        errors, self._end = ("fmwem-pair", b"") if wide else ("fmwem-byte", b"\n" + b" " * LONGEST)
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)

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


def unpacked(file: Any, codec: str) -> Any:
    """The bytes of `file`, an InputFile or RemoteFile, unpacked; OSError if it is damaged."""
    if not codec:
        return file.stream()
    return _Xz(file.stream()) if codec == "xz" else pa.CompressedInputStream(file.arrow(), codec)


class _Xz(ByteStream):
    """What the standard library's file does, but within a bound of memory that a file cannot raise."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._packed = stream, b""
        self._unpacker: lzma.LZMADecompressor | None = None

    def read(self, size: int = READ_BYTES) -> bytes:
        """Up to `size` bytes; none at the end."""
        while True:
            waits = self._unpacker is not None and not self._unpacker.needs_input
            if not self._packed and not waits:
                self._packed = self._stream.read(READ_BYTES)
                if not self._packed:
                    if self._unpacker is not None:
                        raise OSError("the stream is cut off")
                    return b""
            if self._unpacker is None:  # a file may hold several streams, one after the other, and zeros
                self._packed = self._packed.lstrip(b"\0")
                if not self._packed:
                    continue
                self._unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
            given, self._packed = self._packed, b""
            data = self._unpack(given, size)
            if self._unpacker.eof:
                self._packed, self._unpacker = self._unpacker.unused_data, None
            if data:
                return data

    def _unpack(self, given: bytes, size: int) -> bytes:
        assert self._unpacker is not None
        try:
            return self._unpacker.decompress(given, size)
        except lzma.LZMAError:
            pass
        raise OSError("the stream is damaged")
