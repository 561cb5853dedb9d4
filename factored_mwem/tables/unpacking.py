"""Unpacking: the text of a compressed file as a stream, whatever size it unpacks to."""

from __future__ import annotations

import io
import lzma
from typing import Any

import pyarrow as pa

XZ_MEMORY = 2**29
"""Bytes that unpacking may take; `xz -9` needs 65 MB."""
READ_BYTES = 1 << 16


def unpacked(file: Any, codec: str) -> Any:
    """The bytes of `file`, an InputFile or RemoteFile, unpacked; OSError where it is damaged."""
    if not codec:
        return file.stream()
    return _Xz(file.stream()) if codec == "xz" else pa.CompressedInputStream(file.arrow(), codec)


class _Xz(io.RawIOBase):
    """What the standard library's file does, but within a bound of memory that a file cannot raise."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._packed = stream, b""
        self._unpacker: lzma.LZMADecompressor | None = None

    def readable(self) -> bool:
        return True

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
