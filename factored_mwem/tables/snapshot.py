"""Snapshot: the files of one version of a lake's table, whose log says which of those in its folder count."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from factored_mwem.errors import Changed, FmwemError, InputError
from factored_mwem.tables.arrow_input import reason
from factored_mwem.tables.input_file import InputFile
from factored_mwem.tables.places import Place
from factored_mwem.tables.remote_file import RemoteFile

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Snapshot:
    """Files in the order of their paths, which is that of the rows in every pass. Nothing that is written to
    the table later is among them, and each must stay what it was.
    """

    label: str
    """The table and its version, for messages."""
    places: Sequence[Place]
    said: Sequence[bytes]
    """Of each file, what the log says of its rows: partitions, the schema."""
    identities: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, label: str, parts: Sequence[tuple[Place, bytes]]) -> Snapshot:
        """InputError where a file is missing, or comes twice: its rows would count twice."""
        parts = sorted(parts, key=lambda part: part[0].path)
        places = [place for place, _ in parts]
        if len({place.path for place in places}) < len(places):
            raise InputError(f"{label} names a file twice; its rows would count twice")
        found = cls(label, places, [said for _, said in parts])
        for place in places:
            file = _opened(place)
            if file is None:
                raise InputError(f"{label} is not whole: {place.label} is missing, or cannot be opened")
            found.identities.append(file.identity)
        return found

    def open(self, number: int) -> InputFile | RemoteFile:
        """The file, once more. Changed where it is not what it was."""
        file = _opened(self.places[number])
        if file is None or file.identity != self.identities[number]:
            self._changed(self.places[number])
        return file

    def check(self) -> None:
        """Changed where a file of this machine is not what it was; a store is asked when it is read."""
        for number, place in enumerate(self.places):
            if place.system is None:
                self.open(number)

    def streams(self) -> Iterator[tuple[bytes, io.RawIOBase]]:
        """(what the log says of it, the bytes) of each file."""
        for number, said in enumerate(self.said):
            yield said, self.open(number).stream()

    def _changed(self, place: Place) -> NoReturn:
        what = f"{place.label} was changed or removed while it was read"
        raise Changed(f"{self.label}: {what}; put it back, or release again what is there now")


def _opened(place: Place) -> InputFile | RemoteFile | None:
    """The file; None where it is no more, or is not given to us."""
    try:
        return place.open()
    except (InputError, OSError):
        return None


def asked(
    what: str, ask: Callable[[], T], otherwise: str = "it is damaged, or its library cannot read it"
) -> T:
    """What a lake's library says. InputError in our own words where it fails: it may raise anything, and
    quote a row, a path that holds one's value, or a key.
    """
    try:
        return ask()
    except (FmwemError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever the library of the day raises
        why = reason(error, otherwise)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of a library in Rust, which means to stop the program
            raise
        why = otherwise
    raise InputError(f"cannot read {what}: {why}")
