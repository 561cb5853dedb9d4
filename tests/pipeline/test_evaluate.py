"""Evaluate: what is compared with what, whatever domain, type and file the two tables come with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from factored_mwem import Domain, InputError, Workload, evaluate, release
from factored_mwem.owner.evaluation import binned_errors
from factored_mwem.owner.evaluation.evaluate import Errors, domain_from

RNG = np.random.default_rng(8)
ROWS = 3000
REAL = pa.table(
    {
        "hours": np.where(RNG.random(ROWS) < 0.5, 40, RNG.integers(1, 99, ROWS)),
        "gain": np.where(RNG.random(ROWS) < 0.9, 0, RNG.integers(1, 9999, ROWS)),
        "sex": RNG.choice(["F", "M"], ROWS),
        "member": RNG.random(ROWS) < 0.3,
    }
)
WIDE = Domain.from_dict(
    {
        "fields": [
            {"name": "hours", "type": "integer", "edges": [*range(0, 101, 10)]},
            {"name": "gain", "type": "integer", "edges": [*range(0, 10_001, 1000)]},
            {"name": "sex", "categories": ["F", "M"]},
            {"name": "member", "type": "boolean"},
        ]
    }
)


def smeared(column: pa.ChunkedArray, width: int) -> pa.Array:
    """Values drawn anew inside bins of equal width, as a release of such a domain gives them back."""
    numbers = column.to_numpy()
    return pa.array(numbers // width * width + RNG.integers(0, width, len(numbers)))


SMEARED = REAL.set_column(0, "hours", smeared(REAL["hours"], 10))
SMEARED = SMEARED.set_column(1, "gain", smeared(REAL["gain"], 1000))


def test_a_tables_own_errors_are_none() -> None:
    found = evaluate(REAL, REAL, 3)
    assert {worst for _, worst in found.by_order.values()} == {0}
    assert [(column.distance, column.unseen) for column in found.columns] == [(0, 0)] * 4
    assert all(pair.real == pair.synthetic for pair in found.correlations)
    assert (found.bins, found.notes) == ("neutral", ())


def test_dates_are_read_as_the_domain_says_they_are_written(tmp_path: Path) -> None:
    days = ["3/1/24", "12/1/23", "1/5/24"]  # which is the month?
    (tmp_path / "us.csv").write_text("\n".join(["day", *days, ""]))
    released = pa.table({"day": pa.array(["2024-03-01", "2023-12-01", "2024-01-05"]).cast(pa.date32())})
    field = {"name": "day", "type": "date", "edges": ["2023-01-01", "2024-01-01", "2024-12-31"]}
    domain = Domain.from_dict({"fields": [field], "dialect": {"dateFormat": "%m/%d/%y"}})
    assert evaluate(tmp_path / "us.csv", released, 1, domain=domain).by_order == {1: (0, 0)}
    with pytest.raises(
        InputError, match="be compared; column 'day' holds text in the real table, and dates"
    ):  # rather than all of it wrong
        evaluate(tmp_path / "us.csv", released, 1)


def test_what_bins_hide_shows_on_values_and_in_neutral_bins() -> None:
    """Spikes smeared over the bins of a domain: inside them nothing is off."""
    declared, neutral = (evaluate(REAL, SMEARED, 2, domain=domain) for domain in (WIDE, None))
    assert (declared.bins, declared.by_order[2]) == ("domain", (0, 0))
    assert neutral.by_order[1][1] > 0.5
    assert declared.columns == neutral.columns and declared.correlations == neutral.correlations
    hours, gain, sex, _ = neutral.columns
    assert hours.distance is not None and hours.distance > 0.8 and sex.distance == 0
    assert gain.popular[0].value == 0 and gain.popular[0].real > 0.85 and gain.popular[0].synthetic < 0.01
    assert gain.spread is not None and gain.spread.kolmogorov_smirnov > 0.8
    assert gain.unseen is None or gain.unseen > 0.5


def test_neutral_bins_are_of_the_real_table_alone() -> None:
    """The distance of a column from others does not depend on what else a release has."""
    half = REAL.slice(0, ROWS // 2)
    alone, beside = (evaluate(REAL, table, 1) for table in (half.select(["gain"]), half))
    assert dict(alone.worst)["gain",] == dict(beside.worst)["gain",] > 0


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A raw table with a mixed column, a release of it that learnt its domain, and the release's files."""
    folder = tmp_path_factory.mktemp("learnt")
    lines = [
        f"{h},{g},{'N' if g else 1 + h % 2},{m}"
        for h, g, _, m in zip(*REAL.to_pydict().values(), strict=True)
    ]
    (folder / "raw.csv").write_text("\n".join(["hours,gain,coded,member", *lines]) + "\n")
    made = release(folder / "raw.csv", 1, epsilon=10.0, sample_seed=1)
    made.write(folder / "out.parquet")
    made.save(folder / "out.fmwem")
    (folder / "out.domain.json").write_text(json.dumps(made.domain.to_dict()))
    return folder


@pytest.mark.parametrize("name", ["out.domain.json", "out.manifest.json", "out.fmwem"])
def test_a_releases_own_domain(learnt: Path, name: str) -> None:
    found = evaluate(learnt / "raw.csv", learnt / "out.parquet", 1, domain=learnt / name)
    assert found.bins == "domain" and not found.notes
    own = json.loads((learnt / "out.manifest.json").read_text())["domain"]
    assert domain_from(learnt / name).to_dict() == own
    assert found == evaluate(learnt / "raw.csv", learnt / "out.parquet", 1, domain=Domain.from_dict(own))


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.float64()])
@pytest.mark.parametrize("declared", ["string", "integer", "number"])
def test_a_column_of_another_type_is_never_refused(learnt: Path, kind: pa.DataType, declared: str) -> None:
    """As from run to run: the same column once text, once whole numbers; so is the domain's."""
    table = pq.read_table(learnt / "out.parquet")
    codes = pa.array([1, 2, 2] * ROWS, pa.int64())[: len(table)].cast(kind)
    table = table.set_column(table.column_names.index("coded"), "coded", codes)
    listed: Any = ["1", "2", "N"] if declared == "string" else [1, 2]
    domain = Domain.from_dict({"fields": [{"name": "coded", "type": declared, "categories": listed}]})
    for given in (domain, None):
        found = evaluate(learnt / "raw.csv", table, 1, domain=given)
        (column,) = (column for column in found.columns if column.name == "coded")
        assert column.distance == pytest.approx(expected(learnt / "raw.csv"), abs=1e-3)
        assert dict(found.worst)["coded",] == pytest.approx(expected(learnt / "raw.csv"), abs=1e-3)


def expected(raw: Path) -> float:
    column = [line.split(",")[2] for line in raw.read_text().splitlines()[1:]]
    shares = {"1": 1 / 3, "2": 2 / 3, "N": 0.0}
    return sum(abs(column.count(value) / len(column) - share) for value, share in shares.items())


def test_a_synthetic_file_of_text_beside_a_typed_table(tmp_path: Path) -> None:
    pc.write_csv(REAL, tmp_path / "t.csv")
    found = evaluate(REAL, tmp_path / "t.csv", 2)
    assert found.by_order[2] == (0, 0)
    kinds = [(kind, 0) for kind in ("number", "number", "text", "text")]
    assert [(column.kind, column.distance) for column in found.columns] == kinds


DAY = pa.array([1, 2]).cast(pa.int32()).cast(pa.date32())


@pytest.mark.parametrize(
    ("real", "synthetic", "columns", "line"),
    [
        ({"a": [1, 2], "b": [1, 2]}, {}, None, "only in the real table, and not compared: 'a', 'b'"),
        ({}, {"a": [1, 2]}, None, "only in the synthetic table, and not compared: 'a'"),
        ({"a": [1, 2]}, {}, ["same"], None),
        ({"a": [[1], [2]]}, {"a": [1, 2]}, None, "column 'a' is list<"),
        ({"a": [1, 2]}, {"a": DAY}, None, "column 'a' is int64 in the real table but date32[day] in the syn"),
    ],
)
def test_what_cannot_be_compared_gets_a_line(
    real: dict[str, Any], synthetic: dict[str, Any], columns: list[str] | None, line: str | None
) -> None:
    tables = (pa.table({"same": [1, 2]} | more) for more in (real, synthetic))
    found = evaluate(*tables, 1, columns=columns)
    assert "same" in [column.name for column in found.columns]
    assert [note.startswith(line or "") for note in found.notes] == [True] * (line is not None)


def test_columns_that_a_domain_lacks_or_cannot_read_are_compared_by_values() -> None:
    domain = WIDE.project(["hours", "sex"])
    found = evaluate(REAL, REAL, 1, domain=domain)
    assert len(found.columns) == 4 and len(found.worst) == 2
    assert (
        found.notes[0] == "column 'gain' is not in the domain; its values are compared, its marginals are not"
    )
    gain = {"name": "gain", "type": "date", "edges": ["2020-01-01", "2021-01-01"]}
    dates = Domain.from_dict({"fields": [*domain.to_dict()["fields"], gain]})
    found = evaluate(REAL, REAL, 1, domain=dates, columns=["gain", "sex"])
    assert [name for (name,), _ in found.worst] == ["sex"]
    assert found.notes[0].startswith("column 'gain' cannot be read as the domain's date; its values")


def test_dates_are_read_by_a_domain_that_lists_them_as_text() -> None:
    listed = Domain.from_dict({"fields": [{"name": "day", "categories": ["1970-01-02", "1970-01-03"]}]})
    days = pa.array([1, 2, 2, 2], pa.int32()).cast(pa.date32())
    texts = pa.table({"day": ["1970-01-02", "1970-01-03"]})
    found = evaluate(texts, pa.table({"day": days}), 1, domain=listed)
    assert (found.worst, found.notes) == (((("day",), 0.5),), ())


def test_a_domains_words_for_missing_hold_for_values() -> None:
    field = {"name": "x", "categories": ["a", "?"], "missingValues": ["?", "NA"]}
    table = pa.table({"x": ["a", "?", "NA", ""] * 9})
    found = evaluate(table, table, 1, domain=Domain.from_dict({"fields": [field]}))
    assert found.columns[0].missing == (0.25, 0.25)  # a listed value is a value
    assert [popular.value for popular in found.columns[0].popular] == ["", "?", "a"]
    ends = {"minimum": 0, "maximum": 9}
    special = {"name": "x", "type": "integer", "constraints": ends, "specialValues": ["?"]}
    domain = Domain.from_dict({"fields": [special | {"missingValues": ["?", "NA", ""]}]})
    assert evaluate(table, table, 1, domain=domain).columns[0].missing == (0.5, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no domain file"),
        ("{", "is not JSON"),
        ("not json", "is not JSON"),
        ('{"manifest_version": 2}', r"the manifest .*: expected"),
        ("PK\x03\x04 nothing", "not a model file, or is damaged"),
        ("\x10\0\0\0\0\0\0\0{}", "not a model file, or is damaged"),
    ],
)
def test_a_file_without_a_domain_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "given").write_bytes(text.encode())
    with pytest.raises(InputError, match=message):
        evaluate(REAL, REAL, 1, domain=tmp_path / "given")


def test_what_is_asked_must_be_there() -> None:
    elsewhere, empty = pa.table({"b": [1]}), REAL.slice(0, 0)
    for real, synthetic, order, options, message in (
        (REAL, REAL, 1, {"columns": ["none"]}, "no column 'none' in the table"),
        (REAL, REAL, 1, {"columns": ["gain"], "domain": WIDE.project(["sex"])}, "no attribute 'gain' in the"),
        (REAL, REAL, 5, {}, "share 4 attributes"),
        (REAL, elsewhere, 1, {}, "no column that can be compared"),
        (REAL, empty, 1, {}, "has no rows"),
        (REAL, REAL, 1, {"records": "lines"}, "leave it out with typed tables"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate(real, synthetic, order, **options)


def test_a_workload_is_asked_of_neutral_bins() -> None:
    asked = Workload.ranges("hours", count=50) + Workload.parities(1) + Workload.of([("sex", "gain")])
    found = evaluate(REAL, SMEARED, 1, workload=asked)
    assert [entry.questions for entry in found.asked] == [1, 50, 2]
    assert found.asked[0].worst > 0.5 and 0 < found.asked[1].mean < 1 and found.asked[2].worst == 0


def test_large_marginals_are_sorted_to_the_same_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = evaluate(REAL, SMEARED, 3)
    monkeypatch.setattr(binned_errors, "COUNTED_CELLS", 0)
    again = evaluate(REAL, SMEARED, 3)
    assert again.by_order == {k: pytest.approx(pair) for k, pair in counted.by_order.items()}
    assert counted.by_order[3][0] > counted.by_order[1][0] > 0


def test_the_facts_are_plain() -> None:
    found = evaluate(REAL, SMEARED, 1, workload=Workload.of([("sex",)]))
    facts = json.loads(json.dumps(found.facts, allow_nan=False))
    assert set(facts) == {"private", *Errors.__dataclass_fields__}
    assert facts["private"] is False and facts["asked"][0]["asked"] == "marginal over sex"
    assert facts["columns"][1]["popular"][0]["value"] == 0
    assert facts["columns"][1]["spread"]["quantiles"]["50"][0] == 0
    assert facts["correlations"][0]["columns"] == ["hours", "gain"]
