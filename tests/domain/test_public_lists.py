"""Public lists: which one a column's known values are from, and how the others are spelt."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest

from factored_mwem.domain import public_lists
from factored_mwem.domain.public_lists import list_of

pytest.importorskip("pycountry", reason="pycountry is not installed")
pytest.importorskip("airportsdata", reason="airportsdata is not installed")


@pytest.mark.parametrize(
    ("texts", "name", "more"),
    [
        (["United-States", "Mexico", "?"], "ISO 3166-1 countries", ["El-Salvador", "Iran", "Cuba", "Taiwan"]),
        ([" GERMANY", " SRI LANKA"], "ISO 3166-1 countries", [" EL SALVADOR"]),
        (["cote d'ivoire", "ghana"], "ISO 3166-1 countries", ["reunion", "sri lanka"]),
        (["US", "MX", "PH"], "ISO 3166-1 alpha-2 codes", ["DE", "NA"]),
        (["CA", "NY", "TX", "other"], "US postal codes of states", ["WY"]),
        (["Texas"], "US states", ["New York", "New-York", "District of Columbia"]),
        (["JFK", "ATL", "ORD"], "IATA codes of airports", ["IAH"]),
        (["USD", "EUR", "GBP"], "ISO 4217 codes", ["JPY"]),
        (["jan", "feb", "mar"], "months, abbreviated", ["dec"]),
        (["Monday"], "weekdays", ["Sunday"]),
        (["Bayern", "Hessen", "Berlin"], "ISO 3166-2 subdivisions of DE", ["Baden-Württemberg"]),
        (["Utilities", "Retail Trade"], "NAICS sectors", ["Wholesale Trade"]),
        (["I00-I99", "J00-J99"], "ICD-10 chapters", ["A00-B99"]),
    ],
)
def test_the_list_of_known_values(texts: Sequence[str], name: str, more: Sequence[str]) -> None:
    known = list_of(texts)
    assert known is not None and known.name == name
    assert set(more) <= set(known.values) and list(known.values) == sorted(set(known.values))


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["?", "", "NA", "other"],
        ["M", "F"],
        ["DE", "FR"],  # two codes may be anything
        ["A", "B", "C", "D"],
        ["Private", "Self-emp-not-inc", "Local-gov", "?"],
        ["Mexico", "apple", "pear"],
        ["May", "June", "July", "x1", "x2", "x3", "x4"],  # less than half
        ["MONDAY", "tuesday"],  # no style spells both
        ["Central"],
    ],
)
def test_no_list(texts: Sequence[str]) -> None:
    assert list_of(texts) is None


def test_without_the_packages_the_own_lists_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for reader in (public_lists._lists_of_pycountry, public_lists._lists_of_airportsdata):
        reader.cache_clear()
    monkeypatch.setattr(public_lists, "_installed", lambda name: None)
    try:
        assert list_of(["Germany", "France", "Spain"]) is None
        known = list_of(["Monday", "Tuesday"])
        assert known is not None and (known.name, known.version) == ("weekdays", "1")
    finally:
        for reader in (public_lists._lists_of_pycountry, public_lists._lists_of_airportsdata):
            reader.cache_clear()


def test_the_sum_of_a_list_is_of_its_values() -> None:
    known = list_of(["MONDAY"])
    days = "Friday\nMonday\nSaturday\nSunday\nThursday\nTuesday\nWednesday"
    assert known is not None and known.sha256 == hashlib.sha256(days.encode()).hexdigest()
    assert "FRIDAY" in known.values
