"""Edits: tables to start from and their neighbours, each as a sequence of rows of a sheet.

NOT PRIVATE: for `fmwem verify` alone. What a neighbour is, is defined here a second time, on purpose without
using accounting/unit.py: one person's rows are added, removed or exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from factored_mwem.accounting.unit import Neighbours
from factored_mwem.owner.verifier.sheet import Sheet, Stranger
from factored_mwem.request.promise import Terms
from factored_mwem.tables.inputs.source import Private

STRANGERS = 40
"""Persons beside a table, who may join it."""
PRIMED = 6
"""How many strangers a primed table holds from the start, and how many of its rows it holds k times."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Person(Private):
    """A stranger's rows, and what they are in words."""

    words: str
    rows: tuple[int, ...]
    breaks: bool
    """Whether a reader may refuse the whole table because of them."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Base(Private):
    """A table to start from: `order` of the sheet's rows, who may join, and who is a neighbour (`policy`)."""

    sheet: Sheet
    order: list[int]
    persons: list[Person]
    policy: Terms


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Edit(Private):
    """A neighbour, and how it came to be, in words."""

    words: str
    order: list[int]


Editing = Callable[[Base, Generator], Edit]
"""How a neighbour is made."""


def based(sheet: Sheet, rows: int, policy: Terms, rng: Generator, *, primed: bool) -> Base:
    """A base of the sheet's `rows` rows.

    Primed, it has hostile rows of several persons and k copies of some, for a hostile row to act upon; and,
    where a column names people, more than k rows of nobody, of which none may make room for another.
    """
    grown, persons = _strangers(sheet, rows, policy, rng)
    order = list(range(rows))
    if primed:
        tame = [person for person in persons if policy.records == "lines" or not person.breaks][:PRIMED]
        persons = [person for person in persons if person not in tame]
        for person in tame:
            order = _insert(order, person.rows, rng)[0]
        for row in rng.integers(rows, size=PRIMED):
            order = _insert(order, [int(row)] * policy.contributions, rng)[0]
        kept = {row for person in persons if person.breaks for row in person.rows}
        nobody = [row for row, owner in enumerate(grown.owners) if owner is None and row not in kept]
        if policy.privacy_id is not None and nobody:
            more = rng.choice(nobody, size=policy.contributions + PRIMED)
            order = _insert(order, more.tolist(), rng)[0]
    return Base(grown, order, persons, policy)


def _strangers(sheet: Sheet, rows: int, policy: Terms, rng: Generator) -> tuple[Sheet, list[Person]]:
    """Persons with copies of a row, with one hostile row several times, or with several hostile rows."""
    k, wanted, sizes, kinds = policy.contributions, list[Stranger](), list[int](), list[str]()
    fresh = sheet.new_persons(STRANGERS) if policy.privacy_id is not None else []
    for _ in range(STRANGERS):
        kind = ("copies", "same", "same", "several")[rng.integers(4)]
        nameless = policy.privacy_id is not None and (rng.random() < 0.5 or not fresh)
        most = k if policy.privacy_id is None or nameless else 2 * k + 1
        size = most if policy.privacy_id is None or rng.random() < 0.7 else int(rng.integers(1, most + 1))
        person = fresh.pop(0) if policy.privacy_id is not None and not nameless else None
        different = size if kind == "several" else 1
        wanted += [Stranger(int(rng.integers(rows)), kind != "copies", person) for _ in range(different)]
        sizes.append(size)
        kinds.append(kind)
    grown, words, breaks = sheet.grow(wanted, rng)
    persons, at = [], 0
    for kind, size in zip(kinds, sizes, strict=True):
        own = range(at, at + (size if kind == "several" else 1))
        at = own.stop
        numbers = tuple(rows + i for i in own) if kind == "several" else (rows + own.start,) * size
        broken = any(breaks[i] for i in own)
        # a hostile row may lose its id, so a stranger has at most as many as a person without an id
        if broken:
            numbers = numbers[:k]
        nameless = policy.privacy_id is not None and grown.owners[numbers[0]] is None
        in_words = ", ".join(words[i] for i in own[:3])
        in_words += f" ({len(numbers)} times)" if kind != "several" and len(numbers) > 1 else ""
        persons.append(Person(in_words + " without an id" * nameless, numbers, broken))
    return grown, persons


def edited(base: Base, rng: Generator) -> Edit:
    """A random neighbour."""
    if base.policy.neighbours is Neighbours.REPLACE:
        return _replaced(base, rng)
    if rng.random() < 0.4:
        leaving, words = _leaving(base, rng)
        return Edit(f"{words} removed", _without(base.order, leaving))
    person = base.persons[rng.integers(len(base.persons))]
    order, place = _insert(base.order, person.rows, rng)
    return Edit(f"{person.words} added {place}", order)


def in_place(base: Base, rng: Generator) -> Edit:
    """A random neighbour in which every other row keeps its number in the table: for what draws by that
    number, whose proof compares neighbours so.
    """
    person = base.persons[rng.integers(len(base.persons))]
    order = list(base.order)
    if base.policy.neighbours is not Neighbours.REPLACE:
        return Edit(f"{person.words} added last", [*order, *person.rows])
    leaving, words = _leaving(base, rng)
    for at, row in zip(leaving, person.rows, strict=False):
        order[at] = row
    return Edit(f"{words} exchanged for {person.words}", order)


def _replaced(base: Base, rng: Generator) -> Edit:
    """One person's rows for another's: in their place, or anywhere, for a table's order is no promise."""
    leaving, words = _leaving(base, rng)
    person = base.persons[rng.integers(len(base.persons))]
    if len(leaving) == len(person.rows) and rng.random() < 0.5:
        order = list(base.order)
        for at, row in zip(sorted(leaving), person.rows, strict=True):
            order[at] = row
        return Edit(f"{words} exchanged for {person.words}", order)
    rows = person.rows
    if base.policy.privacy_id is None and base.policy.contributions == 1:
        rows = rows[:1]
    order, place = _insert(_without(base.order, leaving), rows, rng)
    return Edit(f"{words} exchanged for {person.words}, {place}", order)


def _leaving(base: Base, rng: Generator) -> tuple[list[int], str]:
    """The places of one person's rows."""
    order, owners, k = base.order, base.sheet.owners, base.policy.contributions
    place = int(rng.integers(len(order)))
    if base.policy.privacy_id is not None:
        owner = owners[order[place]]
        if owner is not None:
            places = [at for at, row in enumerate(order) if owners[row] == owner]
            return places, f"a person of {len(places)} rows"
        nobody = [at for at, row in enumerate(order) if owners[row] is None]
        places = [place] if rng.random() < 0.5 else rng.permutation(nobody)[:k].tolist()
        return places, f"{len(places)} rows without an id"
    same = _same(order, k)
    if same and rng.random() < 0.4:
        alike = same[rng.integers(len(same))]
        return [int(at) for at in rng.choice(alike, size=k, replace=False)], f"{k} identical rows"
    size = min(k if rng.random() < 0.75 else int(rng.integers(1, k + 1)), len(order) - 1)
    places = [int(at) for at in rng.choice(len(order), size=size, replace=False)]
    return places, f"{size} rows" if size > 1 else "a row"


def _same(order: Sequence[int], k: int) -> list[np.ndarray]:
    """The places of rows that are there at least k times; of those there once, nothing is gained."""
    numbers, counts = np.unique(order, return_counts=True)
    return [np.flatnonzero(np.asarray(order) == number) for number in numbers[counts >= max(k, 2)]]


def _without(order: Sequence[int], places: Sequence[int]) -> list[int]:
    gone = set(places)
    return [row for at, row in enumerate(order) if at not in gone]


def _insert(order: Sequence[int], rows: Sequence[int], rng: Generator) -> tuple[list[int], str]:
    """The order with `rows` among the others: first, last, together, or each at a place of its own."""
    how = ("first", "first", "last", "together", "among the others")[rng.integers(5)]
    if how == "among the others":
        mixed = list(order)
        for row in rows:
            mixed.insert(int(rng.integers(len(mixed) + 1)), row)
        return mixed, how
    at = {"first": 0, "last": len(order)}.get(how, int(rng.integers(len(order) + 1)))
    return [*order[:at], *rows, *order[at:]], how
