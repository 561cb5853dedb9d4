"""Numbers as people write them: how most of a column are written, by noisy counts or in a draft, and back."""

from __future__ import annotations

import datetime
import itertools
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.fakes import FakeNoise
from support.releases import run

from factored_mwem import draft, evaluate, plan
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.pipeline.result import Release
from factored_mwem.privacy import text_votes
from factored_mwem.privacy.votes import Votes
from factored_mwem.request.policy import Policy
from factored_mwem.tables.codes.kinds import KINDS
from factored_mwem.tables.codes.notation import (
    BESIDE,
    CLOCKS,
    FORMS,
    Amounts,
    BesideVotes,
    Notation,
    in_notation,
    to_plain,
    told_exactly,
    written_with,
)

LEARNT = Policy.of(epsilon=10.0, delta=1e-9)
TIMES = [datetime.time(7 * i % 24, 11 * i % 60, 13 * i % 60) for i in range(60)]
NUMBERS = [-1234567.25, -0.5, 0.0, 3.0, 999.0, 1000.0, 2500.75, 12_345_678.0]


def told(texts: list[str], plain: float = 0.0) -> Notation | None:
    return told_exactly(pa.array(texts), np.ones(len(texts), dtype=np.int64), plain)[0]


@pytest.mark.parametrize(
    ("type_", "pattern", "ends"),
    [("integer", "HH:MM", (0, 1439)), ("number", "$0.00", (0, 9)), ("date", "DD/MM", ("2020-01-01",) * 2)],
)
def test_a_format_by_which_nothing_could_be_read_is_refused(type_: str, pattern: str, ends: Any) -> None:
    bounds = dict(zip(("minimum", "maximum"), ends, strict=True))
    domain = Domain.from_dict(
        {"fields": [{"name": "x", "type": type_, "format": pattern, "constraints": bounds}]}
    )
    with pytest.raises(InputError, match=f"'x': format '{re.escape(pattern)}' is not known"):
        plan(pa.table({"x": ["09:30", "$4.00", "01/02"]}), 1, domain=domain)


def test_each_way_to_write_numbers_is_told_from_all_others_and_comes_back() -> None:
    """Against Python's own formatting. Brackets, and a sign behind the currency's, are read too."""
    for at, (before, behind) in enumerate(BESIDE):
        few = at % 29 == 0  # of the others plain digits are enough
        for form, places, owed in itertools.product([*FORMS][: 6 if few else 1], (0, 2), (False, True)):
            between, mark = FORMS[form]
            if (before, behind, owed) == ("", "", False) and (between, mark if places else ".") == ("", "."):
                continue
            digits = [f"{abs(x):,.{places}f}".replace(".", ";") for x in NUMBERS]
            digits = [d.replace(",", between).replace(";", mark) for d in digits]
            texts = [f"{'-' * (x < 0)}{before}{d}{behind}" for x, d in zip(NUMBERS, digits, strict=True)]
            pattern = f"{before}{form}{behind}"
            if owed:
                texts = [f"({text[1:]})" if text[0] == "-" else text for text in texts]
                pattern = f"{pattern};({pattern})"
            found = told(texts)
            zeros = 0 if pattern == "0;(0)" else places  # of these nothing tells
            assert found is not None and found.zeros == zeros
            assert found.pattern == pattern or (mark == "," and not places and between != ".")
            assert in_notation(to_plain(pa.array(texts), pattern), pattern).to_pylist() == texts
            if owed:
                continue
            odd = [f"{before}-{digits[0]}{behind}", f"({before}{digits[0]}{behind})"]
            *plain, one, other = to_plain(pa.array(texts + odd), pattern).to_pylist()
            assert [float(x) for x in plain] == [float(f"{x:.{places}f}") for x in NUMBERS]
            assert one == other == plain[0] and in_notation(pa.array(plain), pattern).to_pylist() == texts


@pytest.mark.parametrize("pattern", CLOCKS)
def test_times_of_day_are_told_and_come_back(pattern: str) -> None:
    texts = [time.strftime(pattern) for time in TIMES]
    found = told(texts)
    assert found is not None and found.pattern == pattern
    plain, unit = to_plain(pa.array(texts), pattern), 1 if "%S" in pattern else 60
    real = [(t.hour * 3600 + t.minute * 60 + t.second) // unit for t in TIMES]
    assert plain.cast(pa.int64()).to_pylist() == real
    assert in_notation(plain, pattern).to_pylist() == texts


def test_what_is_no_such_number_stays_as_it_is() -> None:
    texts = [
        "1,23",
        "0,750",
        "12,3456",
        "5 stars",
        "$",
        "%",
        "$5 %",
        "25:00",
        "13:00 PM",
        "9:60",
        "",
        "N/A",
        "rs12345",
        "1.234,5",
    ]
    assert told(texts[3:-1]) is None and told(["12", "1234", "0.5"]) is None
    for pattern in ("$#,##0", "0%", "#,##0", *CLOCKS):
        assert to_plain(pa.array(texts), pattern).to_pylist() == texts
    odd = ["12.5", "N", "07:30", "-5", "86400", "1e300", "9" * 18]  # seen to fail: no int64; 60 days in hours
    for pattern in CLOCKS:
        assert in_notation(pa.array(odd), pattern).to_pylist() == odd


@pytest.mark.parametrize("odd", ["$5", "12:30"])
def test_a_few_numbers_that_are_written_otherwise_do_not_tell_of_the_others(odd: str) -> None:
    """Seen to fail: one row of 1,000 made a draft's format; at 8 %, whole numbers were learnt as minutes of a
    day, none above 1,439.
    """
    for few in (1, 80):
        table = pa.table({"a": [odd] * few + [str(1000 + 7 * i) for i in range(1000 - few)]})
        found = told(table["a"].to_pylist(), 1000.0 - few)
        assert (found is None) == (few == 1 or odd == "12:30")


def test_noise_tells_nothing() -> None:
    rng = np.random.default_rng(0)
    for stddev in (1.0, 100.0):
        noise = rng.normal(0, stddev, (500, len(BESIDE) + len(CLOCKS)))
        assert not any(BesideVotes(one, stddev, 0.0, 0.0).told(5.0) for one in noise)
        texts, rows = pa.array([f"{i % 100}%" for i in range(400)]), np.full(400, 30 * stddev)
        few, beside = Amounts.of(texts).beside_votes(rows), BESIDE.index(("", "%"))
        assert {BesideVotes(few + one, stddev, 12e3 * stddev, 0.0).told(5.0) for one in noise} == {beside}
        digits = Amounts.of(texts).digit_votes(rows, beside)
        noise = rng.normal(0, stddev, (500, len(digits)))
        found = {written_with(beside, digits + one, stddev, 5.0) for one in noise}
        assert {one and one.pattern for one in found} == {"0%"}  # seen to fail: #,##0%, of none above 999
        held = [
            one.places[0] / stddev for one in found if one
        ]  # seen to fail: 6.6, of classes that none is in
        assert np.std(held) < 5 and np.mean(held) == pytest.approx(12_000, abs=1)


def test_all_numbers_of_a_notation_are_read_however_little_their_digits_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen to fail: in 4 of 24 releases of 6,000 rows noise left a column of such numbers some texts."""
    seen = Votes(np.array([6010.0 * (kind == "amount") for kind in KINDS]), 20.0)
    beside, places = BESIDE.index(("$", "")), (4100.0, 0.0, 1400.0, *[0.0] * 5)
    votes = np.array([5990.0 * (at == beside) for at in range(len(BESIDE) + len(CLOCKS))])
    monkeypatch.setattr(text_votes, "vote_on_beside", lambda *_: BesideVotes(votes, 20.0, 6010.0, 0.0))
    monkeypatch.setattr(text_votes, "vote_on_digits", lambda *_: Notation("$0", places, 2))
    unused: Any = None
    read, pattern = text_votes.read_notation(unused, "x", unused, seen, Fraction(1))
    assert pattern == "$0" and not read.mixed()
    assert read.noisy[KINDS.index("amount")] == pytest.approx(20)
    assert read.noisy[KINDS.index("integer")] == pytest.approx(5990 * 41 / 55)


def written(count: int) -> dict[str, list[Any]]:
    number = [(37 * i) % 2000 * 25 for i in range(count)]
    return {
        "pay": [f'"${1000 + x:,}"' for x in number],
        "price": [f"£{x % 9000 / 100:.2f}" for x in number],
        "share": [f"{x % 100}%" for x in range(count)],
        "people": [f'"{x:,}"' for x in number],
        "at": [f"{x % 24}:{x % 60:02}" for x in range(count)],
    }


FORMATS = {"pay": "$#,##0", "price": "£0", "share": "0%", "people": "#,##0", "at": "%H:%M"}


def learnt(table: Any, domain: Domain | None = None) -> Release:
    return run(table, LEARNT, FakeNoise(), domain=domain)


@pytest.mark.slow
@pytest.mark.usefixtures("without_functions")
def test_amounts_and_times_are_learnt_as_numbers(tmp_path: Path) -> None:
    """Seen to fail: every one became `other`, or the release was refused. A draft says the same."""
    table, columns = tmp_path / "t.csv", written(1500)
    rows = zip(*columns.values(), strict=True)
    table.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    made = learnt(table)
    frame = made.to_arrow()
    types = {"price": pa.float64()} | dict.fromkeys(("pay", "share", "people", "at"), pa.int64())
    for domain in (made.domain, draft(table)):
        assert {name: domain[name].format for name in FORMATS} == FORMATS
        assert domain["price"].decimals == domain["price"].zeros == 2
    assert {name: frame.schema.field(name).type for name in types} == types
    assert any("'at' are read as %H:%M, whole minutes since midnight" in note for note in made.manifest.notes)
    real = pd.DataFrame(columns)
    for name in FORMATS:
        texts = real[name].str.replace('[$£%,"]', "", regex=True)
        numbers = texts.str.split(":").map(lambda p: 60 * int(p[0]) + int(p[1])) if name == "at" else texts
        assert abs(frame[name].to_pandas().mean() / numbers.astype(float).mean() - 1) < 0.03
    assert min(frame["at"].to_pylist()) >= 0 and max(frame["at"].to_pylist()) < 1440
    again = learnt(table, Domain.from_dict(made.domain.to_dict())).to_arrow()
    assert again.schema == frame.schema and not any(column.null_count for column in again.columns)
    errors = {error.name: error for error in evaluate(table, frame).columns}
    assert all(errors[n].kind == "number" and errors[n].spread.kolmogorov_smirnov < 0.05 for n in FORMATS)


@pytest.mark.usefixtures("without_functions")
def test_text_of_a_typed_table_is_written_as_it_was(tmp_path: Path) -> None:
    texts = {name: [str(x).strip('"') for x in column] for name, column in written(1500).items()}
    texts["at"] = [text.zfill(5) for text in texts["at"]]
    texts["open"] = ["closed" if i % 10 == 0 else text for i, text in enumerate(texts["at"])]
    pq.write_table(pa.table(texts), tmp_path / "t.parquet")
    made = learnt(tmp_path / "t.parquet").to_arrow()
    for name, pattern in FORMATS.items():
        column = made[name].combine_chunks()
        assert column.type == pa.string() and column.null_count == 0
        plain = to_plain(column, pattern)
        assert plain.to_pylist() != column.to_pylist() and in_notation(plain, pattern).equals(column)
    assert all(len(text.partition(".")[2]) == 2 for text in made["price"].to_pylist())
    assert made["open"].to_pylist().count("closed") == pytest.approx(150, abs=15)  # seen to fail: no int64
