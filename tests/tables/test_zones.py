"""Zones: timestamps of text come back in the zone that they name, and stay the moments that they are."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.marks import others_slow

from factored_mwem import draft, learn, release
from factored_mwem.domain.attribute import Attribute
from factored_mwem.tables.codes.kinds import ZONES, zones_of

FIRST = datetime.datetime(2024, 3, 1, 8)
MANY = [FIRST + datetime.timedelta(hours=h) for h in range(400)]
FEW = MANY[:2]
WRITTEN = {
    "Z": ("UTC", ["Z"]),
    "whole": ("UTC", ["+00:00"]),
    "east": ("+02:00", ["+02:00"]),
    "west": ("-03:30", ["-0330"]),
    "summer and winter": ("UTC", ["+01:00", "+02:00"]),
    "nearly all": ("+05:30", ["+05:30"] * 19 + ["Z"]),
    "none": (None, [""]),
    "mostly none": (None, ["", "", "Z"]),
    "mostly some": ("UTC", ["Z", "Z", ""]),
    "where nobody lives": ("UTC", ["+13:07"]),
}


def texts_of(moments: list[datetime.datetime], offsets: list[str], rows: int = 6000) -> list[str]:
    return [
        moments[i % len(moments)].isoformat() + offsets[i // len(moments) % len(offsets)] for i in range(rows)
    ]


def written(path: Path, texts: list[str]) -> Path:
    lines = [json.dumps({"t": text}) for text in texts] if path.suffix == ".jsonl" else ["t", *texts]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("how", others_slow(WRITTEN, lambda how: how in [*WRITTEN][::3]))
@pytest.mark.parametrize(
    ("name", "moments"),
    [
        ("t.csv", MANY),
        ("t.csv", FEW),
        pytest.param("t.jsonl", MANY, marks=pytest.mark.slow),
        ("t.jsonl", FEW),
    ],
    ids=["many", "few", "many lines of JSON", "few lines of JSON"],
)
def test_what_is_learnt_comes_back_in_its_zone(
    tmp_path: Path, name: str, moments: list[datetime.datetime], how: str
) -> None:
    """Seen to fail: whatever a file said, moments in UTC came back without a zone."""
    zone, offsets = WRITTEN[how]
    texts = texts_of(moments, offsets)
    made = release(written(tmp_path / name, texts), 1, columns=["t"], epsilon=10.0, rows=500).to_arrow()
    assert made.schema.field("t").type == pa.timestamp("us", zone)
    real = pd.to_datetime(pd.Series(texts), utc=True, format="ISO8601")
    drawn = made["t"].drop_null().cast(pa.timestamp("us", "UTC")).to_pandas()
    hour = pd.Timedelta(hours=1)
    inside = (drawn >= real.min() - hour) & (drawn <= real.max() + hour)
    assert inside.mean() > 0.9
    if zone is not None and moments is FEW:
        assert set(drawn) <= set(real)


@pytest.mark.usefixtures("quiet")
def test_a_learnt_or_drafted_domain_says_the_zone(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", texts_of(MANY, ["+02:00"]))
    for domain in (learn(path, epsilon=1.0).domain, draft(path).reviewed()):
        assert domain["t"].time_zone == "+02:00" and domain.to_dict()["fields"][0]["timeZone"] == "+02:00"
        made = release(path, 1, domain=domain.to_dict(), epsilon=1.0, rows=50)
        assert made.to_arrow().schema.field("t").type == pa.timestamp("us", "+02:00")
        made.write(tmp_path / "s.csv", overwrite=True)
        assert all(line.endswith("+02:00") for line in (tmp_path / "s.csv").read_text().split("\n")[1:-1])
    for offsets, zone in ((["Z"], "UTC"), (["Z", "+02:00"], "UTC"), ([""], None), (["", "", "Z"], None)):
        assert draft(written(path, texts_of(MANY, offsets)))["t"].time_zone == zone


def test_a_zone_that_somebody_says_stands() -> None:
    """Over one that cells name; and a column that comes back as text stays text."""
    field = {"name": "t", "type": "datetime", "timeZone": "UTC", "bins": 4}
    ends = {"minimum": "2024-03-01", "maximum": "2024-04-01"}
    plain = Attribute.model_validate({**field, "constraints": ends})
    mixed = Attribute.model_validate({**field, "constraints": ends, "specialValues": ["never"]})
    assert (plain.time_zone, mixed.sentinels) == ("UTC", ("never",))
    for zone in ("Mars", "+2", "+15:00", "+02:60", "Europe/Berlin"):
        with pytest.raises(ValueError, match="timeZone"):
            Attribute.model_validate({**field, "constraints": ends, "timeZone": zone})
    with pytest.raises(ValueError, match="a time zone is for timestamps"):
        Attribute.model_validate({"name": "x", "type": "integer", "timeZone": "UTC", "categories": [1]})


@pytest.mark.parametrize("special", [[], ["never"]], ids=["moments", "mixed"])
def test_a_clock_that_is_said_decides_the_type(tmp_path: Path, special: list[str]) -> None:
    """Seen to fail: a column with texts among its moments was to come back as timestamps, which end it."""
    path = written(tmp_path / "t.csv", [*texts_of(MANY, ["Z"], 500), *special * 100])
    field = {"name": "t", "type": "datetime", "timeZone": "UTC", "specialValues": special or None}
    ends = {"minimum": "2024-03-01", "maximum": "2024-04-01"}
    domain = {"fields": [{**field, "constraints": ends}]}
    made = release(path, 1, domain=domain, epsilon=1.0, rows=80, time_zone="Europe/Berlin").to_arrow()
    kind = made.schema.field("t").type
    assert kind == (pa.string() if special else pa.timestamp("us", "Europe/Berlin"))
    if special:
        texts = made["t"].drop_null()
        others = texts.filter(pc.not_equal(texts, "never"))
        assert all(text.endswith("Z") for text in others.to_pylist()) and len(others) < len(texts)


@pytest.mark.usefixtures("quiet")
def test_text_of_a_typed_table_names_its_zone_again() -> None:
    table = pa.table({"t": texts_of(MANY, ["Z"])})
    made = release(table, 1, epsilon=1.0, rows=200).to_arrow()["t"].drop_null().to_pylist()
    assert made and all(text.endswith("Z") for text in made)


def test_every_offset_has_a_place() -> None:
    texts = [f"2024-01-01 10:00{zone.replace('UTC', 'Z')}" for zone in ZONES]
    assert zones_of(pa.array(texts)).tolist() == list(range(len(ZONES)))
    assert [
        ZONES[i] for i in zones_of(pa.array(["2024-01-01 10:00 -0800", "2024-01-01T10:00:00.5+00:00"]))
    ] == [
        "-08:00",
        "UTC",
    ]
    assert len(ZONES) == len(set(ZONES)) == 114
