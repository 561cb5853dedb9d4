"""Public lists: values that everybody knows (countries, states, months, airports), for columns of which some
are known to hold them. They are spelt as in a column: United-States, GERMANY, cote d'ivoire.

Short ones are in `public_lists.toml`; those of two packages are used where they are installed
(`pip install 'factored-mwem[lists]'`): pycountry (ISO 3166, 4217, 639) and airportsdata (IATA). Public in,
public out.
"""

from __future__ import annotations

import hashlib
import importlib
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from importlib.resources import files
from itertools import product
from tomllib import loads as parse_toml
from types import ModuleType
from typing import NamedTuple

from factored_mwem.domain.attribute import MARKERS, OTHER

OWN = "1"
"""The version of the lists in `public_lists.toml`."""
ENOUGH = 3
"""So many known values of a column in a list show that it is of that list; or all, if the list is `plain`."""
SHORT = 3
"""What has at most so many letters is a code: too short to show by itself what it stands for."""
UNSAID = ("", "unknown", "missing", "none", OTHER, *MARKERS)
"""What may stand in any column."""
CASES = (str, str.upper, str.lower, str.title, str.capitalize)
BLANKS = (" ", "-", "_", ".")


@dataclass(frozen=True)
class PublicList:
    """A list that anybody can look up. `values`: each in all spellings that are common, without accents or
    with them as in its source. `plain`: whether few of its values, found alone, say what a column holds: of
    codes, and of places in a country, they do not.
    """

    name: str
    version: str
    values: tuple[str, ...]
    plain: bool

    @property
    def sha256(self) -> str:
        """Of its values, a line each."""
        return hashlib.sha256("\n".join(self.values).encode()).hexdigest()

    @cached_property
    def by_letters(self) -> dict[str, list[str]]:
        spellings = defaultdict(list)
        for value in self.values:
            spellings[letters_of(value)].append(value)
        return spellings


class Style(NamedTuple):
    """How a column spells: its letters' `case` (of CASES), what stands for a blank, what before each value,
    and whether accents are left out.
    """

    case: int
    blank: str
    before: str
    plain: bool

    def spell(self, value: str) -> str:
        bare = _without_accents(value) if self.plain else value
        return self.before + CASES[self.case](bare).replace(" ", self.blank)


STYLES = [Style(*style) for style in product(range(len(CASES)), BLANKS, ("", " "), (False, True))]


@dataclass(frozen=True)
class ListedValues:
    """The values of a public list as a column spells them, ascending, and which list it is."""

    name: str
    version: str
    sha256: str
    values: tuple[str, ...]


def list_of(texts: Collection[str]) -> ListedValues | None:
    """The list that a column's known values, which are public, are from: the one that holds most of them, of
    several the first. It must hold ENOUGH or all, and at least half, of those that say something, all spelt
    in one style. Where several styles spell as many, all of them are listed.
    """
    unsaid = set(map(letters_of, UNSAID))
    letters = {text: letters_of(text) for text in texts}
    telling = [text for text in texts if letters[text] not in unsaid]
    if not telling:
        return None
    letters = {text: letters[text] for text in telling}
    most, chosen = 0, None
    for known in _candidates(telling):
        held, styles = _styles(known, letters)
        enough = held >= ENOUGH or (held == len(telling) and known.plain)
        if enough and 2 * held >= len(telling) and held > most:
            most, chosen = held, (known, styles)
    if chosen is None:
        return None
    known, styles = chosen
    spelt = {style.spell(value) for style in styles for value in known.values}
    return ListedValues(known.name, known.version, known.sha256, tuple(sorted(spelt)))


def _styles(known: PublicList, letters: Mapping[str, str]) -> tuple[int, list[Style]]:
    """(how many of these texts a style spells as they are, at most; the styles that do, of the first such
    case). `letters`: of each text.
    """
    spellings = {text: known.by_letters.get(own, ()) for text, own in letters.items()}
    if sum(map(bool, spellings.values())) < min(ENOUGH, len(spellings)):
        return 0, []
    held = {
        style: sum(any(style.spell(value) == text for value in values) for text, values in spellings.items())
        for style in STYLES
    }
    most = max(held.values())
    styles = [style for style in STYLES if held[style] == most]
    return most, [style for style in styles if style.case == styles[0].case]


def letters_of(text: str) -> str:
    """What two spellings of a value have in common."""
    return "".join(c for c in _without_accents(text).casefold() if c.isalnum())


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def _candidates(texts: Collection[str]) -> Iterator[PublicList]:
    """The lists that may hold some of the texts: airports take a while to read."""
    yield from _own_lists()
    yield from _lists_of_pycountry()
    if sum(len(letters_of(text)) == SHORT for text in texts) >= ENOUGH:
        yield from _lists_of_airportsdata()


@cache
def _own_lists() -> tuple[PublicList, ...]:
    text = files(__package__).joinpath("public_lists.toml").read_text(encoding="utf-8")
    return tuple(_list(name, OWN, values) for name, values in parse_toml(text).items())


@cache
def _lists_of_pycountry() -> tuple[PublicList, ...]:
    package = _installed("pycountry")
    if package is None:
        return ()
    places, money, tongues = list(package.countries), list(package.currencies), list(package.languages)
    tongues = [tongue for tongue in tongues if hasattr(tongue, "alpha_2")]
    lists = {
        "ISO 3166-1 countries": _names(places),
        "ISO 3166-1 alpha-2 codes": [place.alpha_2 for place in places],
        "ISO 3166-1 alpha-3 codes": [place.alpha_3 for place in places],
        "ISO 4217 currencies": _names(money),
        "ISO 4217 codes": [currency.alpha_3 for currency in money],
        "ISO 639 languages": _names(tongues),
        "ISO 639-1 codes": [tongue.alpha_2 for tongue in tongues],
        "ISO 639-3 codes": [tongue.alpha_3 for tongue in tongues],
    }
    parts = defaultdict(list)
    for part in package.subdivisions:
        parts[part.country_code].append(part)
    for country, some in parts.items():
        lists[f"ISO 3166-2 subdivisions of {country}"] = _names(some)
        lists[f"ISO 3166-2 codes of {country}"] = [part.code for part in some]
    source = f"pycountry {version('pycountry')}"
    return tuple(_list(name, source, values, plain="3166-2" not in name) for name, values in lists.items())


def _names(entries: Iterable[object]) -> list[str]:
    """The names of entries, those in common use too, and all without what follows a comma."""
    both = ("name", "common_name")
    names = [getattr(entry, name) for entry in entries for name in both if hasattr(entry, name)]
    return [*names, *(name.partition(",")[0] for name in names)]


@cache
def _lists_of_airportsdata() -> tuple[PublicList, ...]:
    package = _installed("airportsdata")
    if package is None:
        return ()
    source = f"airportsdata {version('airportsdata')}"
    return (_list("IATA codes of airports", source, package.load("IATA")),)


def _installed(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _list(name: str, source: str, values: Iterable[str], *, plain: bool = True) -> PublicList:
    own = tuple(sorted(set(values)))
    return PublicList(name, source, own, plain and any(len(value) > SHORT for value in own))
