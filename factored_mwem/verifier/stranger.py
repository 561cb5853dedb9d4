"""Stranger: a row to make beside a table, and whose it is. NOT PRIVATE: for `fmwem verify` alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NAMELESS = (None, "")
"""Privacy ids that name no person."""


def owner_of(privacy_id: Any) -> Any:
    """The person whom an id names, or None."""
    return None if privacy_id in NAMELESS else privacy_id


@dataclass(frozen=True, slots=True)
class Stranger:
    """A row to make: a copy of row `like`, with a hostile cell, or a hostile line, where `hostile`."""

    like: int
    hostile: bool
    person: Any = None
    """The privacy id it gets, where the table has one."""

    @property
    def owner(self) -> Any:
        return owner_of(self.person)


def new_texts(owners: Sequence[Any], most: int) -> list[Any]:
    """Texts that are no owner's; some hold a NUL, where a program may end them."""
    taken = set(owners)
    texts = (f"{n:d}\0new" if n % 3 == 0 else f"new {n:d}" for n in itertools.count(len(owners)))
    return list(itertools.islice((text for text in texts if text not in taken), most))
