"""Dates as people write them: how most cells of a column are written, inside the budget or by a flag."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.fakes import FakeNoise
from support.releases import run

from factored_mwem import evaluate
from factored_mwem.accounting.accountant import Accountant
from factored_mwem.domain.domain import Domain
from factored_mwem.pipeline.result import Release
from factored_mwem.privacy.discover import discover
from factored_mwem.privacy.session import Session
from factored_mwem.request.policy import Policy
from factored_mwem.tables.backends.local import Local
from factored_mwem.tables.codes.dates import (
    CLOCKS,
    SHAPES,
    SIGNS,
    VOTES,
    WORDED,
    DateVotes,
    date_votes,
    in_iso,
)
from factored_mwem.tables.inputs.source import open_table

LEARNT = Policy.of(epsilon=10.0, delta=1e-9)
PATTERNS = {
    (sign, shape, at, clock): f"{pattern.format(SIGNS[sign])}{CLOCKS[clock]}"
    for sign, (shape, both), clock in itertools.product(range(3), enumerate(SHAPES), range(len(CLOCKS)))
    for at, pattern in enumerate(both)
    if pattern is not None
}
DAYS = [datetime.datetime(1999, 1, 1) + datetime.timedelta(days=137 * i, minutes=977 * i) for i in range(60)]


def votes_of(texts: list[str]) -> np.ndarray:
    return date_votes(pa.array(texts), np.ones(len(texts), dtype=np.int64))


@pytest.mark.parametrize("pattern", PATTERNS.values())
def test_each_way_to_write_dates_is_told_from_all_others(pattern: str) -> None:
    """Against the standard library, which writes them; with and without zeros in front."""
    texts = [day.strftime(pattern) for day in DAYS]
    texts += [re.sub("^0|(?<=^[0-9]{2}[/.-])0", "", text) for text in texts]
    votes = votes_of(texts)
    assert votes.sum() == len(texts)  # one each
    written = DateVotes(votes, 0.0, len(texts)).written(0.0, 0.05)
    assert written is not None and written.pattern == pattern
    assert sum(written.kinds.values()) == len(texts)
    midnights = 2 * sum(day.time() == datetime.time() for day in DAYS)
    assert written.kinds.get("day", 0) == (midnights if ":" in pattern else 0)


def test_dates_in_words_are_told_and_read() -> None:
    """Seen to fail: each was taken for a text of its own, and became `other`."""
    for pattern in WORDED:
        days = [day.replace(day=day.day if "%d" in pattern else 1) for day in DAYS]
        texts = [day.strftime(pattern) for day in days]
        written = DateVotes(votes_of(texts), 0.0, len(texts)).written(0.0, 0.05)
        assert written is not None and written.pattern == pattern and votes_of(texts).sum() == len(texts)
        read = in_iso(pa.array([*texts, "Sum 2020", "May 2020 or so"]), pattern).to_pylist()
        assert read == [day.date().isoformat() for day in days] + ["Sum 2020", "May 2020 or so"]


@pytest.mark.parametrize(
    "texts",
    [
        ["1/2/2020", "3/4/2020", "12/12/2020"],  # nothing tells
        ["1/20/2020", "20/1/2020"] * 9,  # both
        ["19/05/23", "20/06/24", "1/2/19"],  # years may stand first
        ["2020-01-01", "1.2.3", "13/13/2020", "1/2-2020", "0/1/2020", "32/1/2020", "1/2/2020 3pm", ""],
    ],
)
def test_what_nothing_tells_is_not_guessed(texts: list[str]) -> None:
    assert DateVotes(votes_of(texts), 0.0, len(texts)).written(0.0, 0.05) is None


def test_noise_tells_nothing() -> None:
    """Votes that no row gave are no way to write dates, nor an order of day and month."""
    rng = np.random.default_rng(0)
    for stddev in (1.0, 100.0):
        noise = rng.normal(0, stddev, (500, VOTES))
        for order in (None, 0, 1):
            assert not any(DateVotes(one, stddev, 0.0).written(5.0, 0.05, order) for one in noise)


def lines(**columns: list[Any]) -> str:
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"


def learnt(table: Any) -> Release:
    return run(table, LEARNT, FakeNoise(), domain=None)


@pytest.mark.usefixtures("without_functions")
def test_dates_are_learnt_as_dates(tmp_path: Path) -> None:
    """Seen to fail: every one became `other`. Columns whose days tell nothing follow those that tell."""
    days = [DAYS[0] + datetime.timedelta(days=i % 600, minutes=i) for i in range(3000)]
    table, kinds = tmp_path / "t.csv", {"a": "%m/%d/%Y", "b": "%m/%d/%Y %H:%M", "c": "%m/%d/%y 0:00"}
    columns = {name: [day.strftime(pattern) for day in days] for name, pattern in kinds.items()}
    columns["first"] = [day.strftime("%m/01/%Y") for day in days]
    columns["short"] = [f"{day.year}-{day.month}-{day.day}" for day in days]  # a sixth of them by ISO 8601
    table.write_text(lines(**columns, x=[i % 3 for i in range(3000)]))
    made = learnt(table)
    frame = made.to_arrow()
    assert [str(kind) for kind in frame.schema.types[:4]] == [
        "date32[day]",
        *["timestamp[us]"] * 2,
        "date32[day]",
    ]
    assert frame.schema.field("short").type == pa.date32()
    formats = {name: made.domain[name].format for name in columns}
    assert formats == {**kinds, "c": "%m/%d/%y %H:%M", "first": "%m/%d/%Y", "short": "%Y-%m-%d"}
    assert [made.domain[name].resolution for name in "bc"] == ["minute", "day"]
    assert sum("are read as %m/%d/%Y" in note for note in made.manifest.notes) == 3
    assert any(text.startswith("'c': years of two digits") for text in made.manifest.warnings)
    for name in columns:
        seen = frame.column(name).cast(pa.timestamp("us")).to_numpy().astype("M8[D]").astype(int)
        real = np.array([np.datetime64(day, "D") for day in days]).astype(int)
        assert abs(np.median(seen) - np.median(real)) < 35 and seen.min() > real.min() - 40
    known = Domain.from_dict(made.domain.to_dict())
    again = run(table, LEARNT, FakeNoise(), domain=known).to_arrow()
    assert again.schema == frame.schema and again.column("a").null_count == 0
    errors = {error.name: error for error in evaluate(table, frame).columns}
    assert all(
        errors[name].kind == "moment" and errors[name].spread.kolmogorov_smirnov < 0.05
        for name in ("a", "b", "c")
    )


@pytest.mark.usefixtures("without_functions")
def test_dates_of_which_nothing_tells_the_order_stay_text(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text(
        lines(a=[f"{1 + i % 12}/1/{1000 + i}" for i in range(900)], x=[i % 3 for i in range(900)])
    )
    made = learnt(table)
    assert made.domain["a"].values == ("other",)
    assert any(re.match("'a': .* say how they are", text) for text in made.manifest.warnings)


def test_clocks_of_a_zone_are_not_read_as_those_of_another() -> None:
    """Seen to fail: with --time-zone, local times were taken for times in UTC."""
    table = pa.table({"a": [day.strftime("%m/%d/%Y %H:%M") for day in DAYS] * 50})
    for zone, kind in ((None, "datetime"), ("Europe/Berlin", "string")):
        source = Local(dataclasses.replace(open_table(table), text=True, zone=zone))
        session = Session(Accountant(LEARNT.budget(learn_domain=True)), LEARNT.unit, FakeNoise())
        (found,) = discover(session, source, None, lambda rows, columns: Fraction(1, 2))
        assert found.type == kind and found.looks == ("dated" if zone else "")


@pytest.mark.parametrize("others", ["code", "text"])
def test_dates_among_more_of_something_else_have_no_format(others: str) -> None:
    """Seen to fail: text with a date format, and a note that its dates are read so."""
    many = [f"{1 + i % 12}/13/2020" for i in range(600)] + [f"{1 + i % 12}.13.{1000 + i}" for i in range(500)]
    source = Local(
        open_table(
            pa.table({"a": many + [f"0{i % 40}" if others == "code" else f"t{i}" for i in range(900)]})
        )
    )
    session = Session(Accountant(LEARNT.budget(learn_domain=True)), LEARNT.unit, FakeNoise())
    (found,) = discover(session, source, None, lambda rows, columns: Fraction(1, 2))
    assert "dates" in [part for charge in session.accountant.entries for part in charge.target]
    assert found.type not in ("date", "datetime") and found.format is None


@pytest.mark.usefixtures("without_functions")
def test_text_of_a_typed_table_is_written_as_it_was(tmp_path: Path) -> None:
    days = [(DAYS[0] + datetime.timedelta(days=i % 600)).strftime("%d.%m.%Y") for i in range(3000)]
    pq.write_table(pa.table({"a": days, "x": [i % 3 for i in range(3000)]}), tmp_path / "t.parquet")
    made = learnt(tmp_path / "t.parquet").to_arrow().column("a")
    assert made.type == pa.string() and made.null_count == 0
    assert all(datetime.datetime.strptime(text, "%d.%m.%Y") for text in made.to_pylist())
