"""Package: several tables that belong together, and which column of one names the rows of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reference:
    """A column whose cells name rows of another table, `of`, by its primary key."""

    column: str
    of: str


@dataclass(frozen=True, slots=True)
class LinkedTable:
    """A table of a package. `source`: a path, pyarrow or any data frame; `key`: its primary key; `parent`: the
    private table it hangs on; `others`: public tables that it refers to. A `public` table is nobody's secret
    and is published as it is.
    """

    name: str
    source: Any
    key: str | None = None
    parent: Reference | None = None
    others: tuple[Reference, ...] = ()
    public: bool = False


@dataclass(frozen=True, slots=True)
class Package:
    """Tables that hang on one root: `private`, each after its parent, the root first; and `public` ones."""

    private: tuple[LinkedTable, ...]
    public: tuple[LinkedTable, ...] = ()

    @property
    def root(self) -> LinkedTable:
        return self.private[0]

    def children(self, name: str) -> list[LinkedTable]:
        """The tables that hang on the one of this name."""
        return [each for each in self.private if each.parent is not None and each.parent.of == name]

    def ancestors(self, table: LinkedTable) -> Iterator[LinkedTable]:
        """Parent, grandparent, ... up to the root."""
        by_name = {each.name: each for each in self.private}
        while table.parent is not None:
            table = by_name[table.parent.of]
            yield table
