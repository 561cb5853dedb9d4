"""Questions: what a person must decide about a draft, most urgent first, each in one sentence that names the
column and says what was assumed. NOT PRIVATE, as the draft is; but no sentence shows a value that the draft
does not list.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.dialect import SHORT_YEARS
from factored_mwem.errors import shortened

IDENTIFIER = (
    "nearly every value is its own: an identifier or free text; leave it out with --columns or list what is "
    "public"
)
EMPTY = "holds nothing here: leave it out with --columns, or list what it may hold"
NUMBERED = "most of its numbers come once: if it is an identifier, leave it out with --columns"
MANY_TEXTS = 50
"""A list of more texts may name people, or be open."""
LOOKED_AT = 200
"""Most texts of a column in which a notation is searched for."""
MOST = 0.9
"""The share of these texts that must be in the notation."""
NOTHING = re.compile(
    r"(?i)\W*|\W*(n\W?a|nan|nil|none|null|unk(nown)?|missing|not (available|known|applicable|specified)"
    r"|not stated|unspecified|unassigned|refused|don'?t know"
    r"|k\W+a|keine angaben?|unbekannt|inconnue?|non (renseigné|précisé)e?|desconocid[oa]|sin datos?)\W*"
)
"""Words that may mean a missing value."""
DAY = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})(?![\d/.-])(.*)")
YEAR_FIRST = re.compile(r"(\d{4})([/.])(\d{1,2})\2(\d{1,2})(?!\d)(.*)")
MONTH_NAME = re.compile(r"(\d{1,2})([ -])([A-Za-z]{3})\2(\d{4}|\d{2})(?!\d)(.*)")
NUMBER = re.compile(r"([$€£])?\s*[+-]?\d{1,3}(?:[., ']\d{3})*(?:[.,]\d+)?\s*([%$€£])?")


@dataclass(frozen=True, slots=True)
class SeenColumn:
    """Facts about a column that the draft does not hold: up to LOOKED_AT of its `texts`; `coded`: whether
    some are digits after a zero; `once`: whether most rows hold a value that no other row holds.
    """

    texts: tuple[str, ...]
    coded: bool
    once: bool


def questions_of(
    attributes: Iterable[Attribute],
    columns: Mapping[str, SeenColumn],
    *,
    text: bool,
    short_years: bool = False,
) -> tuple[str, ...]:
    """What is to be decided, most urgent first: who can be recognized, what was not read, what may stand for
    "unknown", what is an end or a code; last what holds of several columns, in one sentence for all. `text`:
    whether cells are those of a text file, of which somebody can say how they are written; `short_years`:
    whether it was said that years have two digits.
    """
    attributes = list(attributes)
    by_rank: dict[int, list[str]] = defaultdict(list)
    for attribute in attributes:
        for rank, sentence in _of_column(attribute, columns[attribute.name], text=text):
            by_rank[rank].append(f"{attribute.name!r}: {sentence}")
        if short_years and attribute.type in ("date", "datetime"):
            last = str(_ends(attribute)[1])[:10]
            how = f"{SHORT_YEARS}, here up to {last}: where an earlier year is meant, write four digits"
            by_rank[1].append(f"{attribute.name!r}: {how}")
    own = [sentence for rank in sorted(by_rank) for sentence in by_rank[rank]]
    return (*own, *_of_several(attributes))


def _of_column(attribute: Attribute, column: SeenColumn, *, text: bool) -> Iterator[tuple[int, str]]:
    """(how urgent it is, from 0 on; the sentence)."""
    if attribute.type == "string":
        notation = _notation(column) if text else None
        if notation is not None:
            yield 1, notation
        elif all(value == attribute.other for value in attribute.values):
            yield (0, IDENTIFIER) if column.texts else (3, EMPTY)
        yield from _of_texts(attribute, column)
    elif attribute.type != "boolean":
        if text and attribute.type == "integer" and "#,##0" in attribute.format:  # no point tells it
            yield 1, f"is read as {attribute.format}: say --decimal , if the comma stands before decimals"
        if text and "0,0" in attribute.format.replace("#,##0", ""):
            yield 1, f"is read as {attribute.format}: say --decimal . if the comma stands between thousands"
        yield from _of_numbers(attribute, column)


def _of_texts(attribute: Attribute, column: SeenColumn) -> Iterator[tuple[int, str]]:
    listed = [str(value) for value in attribute.values if value != attribute.other]
    if len(listed) > MANY_TEXTS:
        many = f"lists {len(listed)} texts that at least ten rows share"
        yield 0, f"{many}: if they name or describe people, leave the column out with --columns"
    unknown = [text for text in listed if NOTHING.fullmatch(text)]
    if unknown:
        yield 2, f"{_each(unknown)} is taken as a value: if it means that nothing is known, {MISSING}"
    plain = defaultdict[str, list[str]](list)
    for text in listed:
        plain[" ".join(text.split()).casefold()].append(text)
    alike = next((texts for texts in plain.values() if len(texts) > 1), None)
    if alike:
        how = "differ only in blanks or capitals and are taken as different values"
        yield 3, f"{_listed(alike)} {how}: if they are the same, clean the table first"
    if column.coded and len(listed):
        yield 4, "is kept as text, for some of its numbers begin with a zero: is it a code?"


MISSING = "list it in the field's missingValues and take it out here"


def _of_numbers(attribute: Attribute, column: SeenColumn) -> Iterator[tuple[int, str]]:
    values = list(attribute.values or attribute.specials.tolist())
    if attribute.type == "integer" and attribute.edges and column.once:
        yield 0, NUMBERED
        return
    if attribute.sentinels:
        beside = _each(attribute.sentinels)
        yield (
            2,
            f"{beside} beside its numbers is taken as a value: if it means that nothing is known, {MISSING}",
        )
    code = _marker(attribute, values)
    if code is not None:
        yield 2, f"{code} is taken as a number: if it means that nothing is known, {MISSING}"
    first, last = _ends(attribute)
    if first != last and not attribute.categorical:
        yield 3, f"goes from {first} to {last}, the ends of this table and perhaps of one person: {WIDEN}"
    elif first == last:
        yield 3, f"is {first} in every row of this table: list what else it may be, or leave the column out"
    elif attribute.type == "integer" and len(attribute.values) > 2 and not _is_run(attribute):
        listed = _listed([str(value) for value in attribute.values])
        yield 4, f"{listed} are taken as values in this order: if they are mere codes, {UNORDERED}"


WIDEN = "write ends that anybody knows"
UNORDERED = 'remove "categoriesOrdered"; if a value is missing, add it'


def _marker(attribute: Attribute, values: list[object]) -> str | None:
    """A number that often stands for a missing value: far from all others, or the only negative one."""
    if attribute.type not in ("integer", "number"):
        return None
    inside = [float(cut) for cut in attribute.cuts] if not attribute.categorical else []
    numbers = sorted({float(str(value)) for value in values} | set(inside))
    if len(numbers) < 3:
        return None
    special = {float(str(value)) for value in values}
    low, second, high, before = numbers[0], numbers[1], numbers[-1], numbers[-2]
    if attribute.edges is not None and high not in special:  # the last cut lies just behind the last edge
        return f"{low:g}" if low in special and low < 0 <= second else None
    if low in special and low < 0 <= second:
        return f"{low:g}"
    nines = set(f"{abs(high):.0f}") == {"9"} and high >= 9
    return f"{high:g}" if high in special and nines and high > 2 * before else None


def _ends(attribute: Attribute) -> tuple[object, object]:
    if attribute.categorical:
        return attribute.values[0], attribute.values[-1]
    ends = attribute.edges or (attribute.constraints.minimum, attribute.constraints.maximum)
    special = [value for value in attribute.special_values or () if value not in attribute.sentinels]
    if attribute.type in ("date", "datetime"):
        both = sorted([str(ends[0]), str(ends[-1]), *map(str, special)])
        return both[0], both[-1]
    numbers: list[Any] = [ends[0], ends[-1], *special]
    return min(numbers), max(numbers)


def _is_run(attribute: Attribute) -> bool:
    """Whether the listed whole numbers are consecutive, as codes and counts are."""
    first, last = attribute.values[0], attribute.values[-1]
    return int(last) - int(first) == len(attribute.values) - 1


def _notation(column: SeenColumn) -> str | None:
    """The question about dates and numbers that were read as text, because their notation must be
    declared.
    """
    texts = [text.strip() for text in column.texts]
    texts = [text for text in texts if text]
    for pattern, name in ((YEAR_FIRST, _year_first), (DAY, _day_or_month_first), (MONTH_NAME, _month_name)):
        matches = [match for text in texts if (match := pattern.fullmatch(text))]
        if texts and len(matches) >= MOST * len(texts):
            date_format = name(matches)
            short = f" ({SHORT_YEARS})" if "%y" in date_format else ""
            how = f"say --date-format {date_format}{short}"
            return f"looks like dates but is taken as text: to read it, {how}"
    numbers = [match for text in texts if (match := NUMBER.fullmatch(text))]
    if len(numbers) >= MOST * len(texts) > 0 and not column.coded:
        signs = sorted({sign for match in numbers for sign in match.groups() if sign})
        how = f"write plain numbers, without {' '.join(signs)}" if signs else "say --decimal . or --decimal ,"
        return f"looks like numbers but is taken as text: to read it, {how}"
    return None


def _year_first(matches: list[re.Match[str]]) -> str:
    return f"'%Y{matches[0][2]}%m{matches[0][2]}%d{_time(matches)}'"


def _month_name(matches: list[re.Match[str]]) -> str:
    return f"'%d{matches[0][2]}%b{matches[0][2]}{_year(matches)}{_time(matches)}'"


def _day_or_month_first(matches: list[re.Match[str]]) -> str:
    sign, end = matches[0][2], f"{_year(matches)}{_time(matches)}"
    day, month = (f"'%{a}{sign}%{b}{sign}{end}'" for a, b in ("dm", "md"))
    if any(int(match[1]) > 12 for match in matches):
        return day
    return month if any(int(match[3]) > 12 for match in matches) else f"{day} or {month}"


def _year(matches: list[re.Match[str]]) -> str:
    return "%Y" if len(matches[0][4]) == 4 else "%y"


def _time(matches: list[re.Match[str]]) -> str:
    colons = matches[0][5].count(":")
    return {0: "", 1: " %H:%M"}.get(colons, " %H:%M:%S")


def _of_several(attributes: list[Attribute]) -> Iterator[str]:
    rest = [a.name for a in attributes if a.type == "string" and a.other is not None and len(a.values) > 1]
    if rest:
        what = "texts that fewer than ten rows share become 'other'"
        yield f"{_listed(rest)}: {what}: add those that anybody knows"
    finely: dict[str, list[str]] = defaultdict(list)
    for a in attributes:
        if a.decimals is not None:
            finely["1 decimal" if a.decimals == 1 else f"{a.decimals} decimals"].append(a.name)
        elif a.resolution is not None:
            finely[f"the {a.resolution}"].append(a.name)
    if finely:
        exact = "; ".join(f"{_listed(names)}: to {unit}" for unit, names in finely.items())
        yield f"{exact} is how finely values are taken to be written: no row comes back finer"
    never = [a.name for a in attributes if not a.nullable]
    if never:
        yield f"{_listed(never)}: none is missing here, so none may be: where one may, set required to false"


def _each(texts: Sequence[str]) -> str:
    return f"{'each of ' * (len(texts) > 1)}{_listed(texts)}"


def _listed(texts: Iterable[str], most: int = 4) -> str:
    texts = [repr(shortened(text)) for text in texts]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
