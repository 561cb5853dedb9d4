"""Ties: in every row a column and its functions agree, whatever codes were drawn, and the codes are kept
where some value has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.tables.codes import derive

ROWS = 3000
TIMES = {"type": "datetime", "edges": ["2020-01-01", "2020-01-01T05:00", "2020-01-20", "2020-12-31T23:59:59"]}
HOUR = {"name": "hour", "type": "integer", "categories": [1, 4, 5, 23]}
MONTH = {"name": "month", "type": "integer", "edges": [1, 2, 3, 12]}
RULES = [{"compute": name, "as": name, "of": "t"} for name in ("hour", "month")]


def drawn(fields: list[dict[str, Any]], rules: list[dict[str, Any]], **types: pa.DataType) -> tuple[Any, Any]:
    """(codes of each modelled attribute, rows)."""
    domain = Domain.from_dict({"fields": fields, "rules": rules})
    schema = pa.schema([pa.field(a.name, types.get(a.name, pa.int64())) for a in domain])
    derive.check_rules(domain, schema)
    rng = np.random.default_rng(3)
    codes = {a.name: rng.integers(0, a.size, ROWS) for a in domain.modelled}
    cells = derive.decode_table(domain, list(codes.values()), schema, rng)
    return codes, pa.Table.from_arrays(cells, schema=schema).to_pandas()


@pytest.mark.parametrize("resolution", ["hour", "second", None])
@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_times_and_their_parts_agree_in_every_row(resolution: str | None, kind: pa.DataType) -> None:
    more = {} if resolution is None else {"resolution": resolution}
    codes, rows = drawn([{"name": "t", **TIMES, **more}, HOUR, MONTH], RULES, t=kind)
    null = rows["t"].isna()
    assert null.tolist() == (codes["t"] == 3).tolist()
    assert (rows["hour"].isna() == null).all() and (rows["month"].isna() == null).all()
    some = rows[~null]
    assert (some["t"].dt.hour == some["hour"]).all() and (some["t"].dt.month == some["month"]).all()
    assert {*some["hour"]} <= {1, 4, 5, 23}
    # the last bin has all hours, in the months from February on
    wanted = (codes["t"] == 2) & (codes["hour"] < 4) & (codes["month"] < 2) & (codes["month"] > 0)
    assert wanted.sum() > 100
    assert (rows["hour"][wanted] == np.array([1, 4, 5, 23, 0])[codes["hour"][wanted]]).all()


def test_digits_agree_and_unlisted_ones_do_not_come_out() -> None:
    fields = [
        {"name": "clock", "type": "integer", "edges": [0, 60, 100, 1000, 2359], "specialValues": [1200]},
        {"name": "hour", "type": "integer", "categories": [*range(24)]},
        {"name": "minute", "type": "integer", "categories": [*range(60)]},
    ]
    rules = [
        {"compute": "hour", "as": "hundreds", "of": "clock"},
        {"compute": "minute", "as": "below hundred", "of": "clock"},
    ]
    _, rows = drawn(fields, rules)
    some = rows.dropna()
    assert len(some) > ROWS / 2 and (some["clock"] == 100 * some["hour"] + some["minute"]).all()
    assert some["minute"].max() == 59  # though a bin holds 60 to 99 alone


def test_text_and_floats_hold_what_the_rule_says() -> None:
    types = {"t": pa.string(), "hour": pa.float64(), "month": pa.string()}
    _, rows = drawn([{"name": "t", **TIMES, "resolution": "minute"}, HOUR, MONTH], RULES, **types)
    some = rows.dropna()
    assert (some["t"].str[11:13].astype(int) == some["hour"]).all()
    assert (some["t"].str[5:7].astype(int) == some["month"].astype(int)).all()


def test_a_copy_is_the_same_cell_for_cell() -> None:
    fields = [{"name": name, "type": "number", "edges": [0, 1, 100]} for name in ("x", "y")]
    types = {"x": pa.float64(), "y": pa.float64()}
    _, rows = drawn(fields, [{"compute": "y", "as": "equal", "of": "x"}], **types)
    assert rows["x"].equals(rows["y"]) and rows["x"].nunique() > 1000
    with pytest.raises(InputError, match="copies"):
        drawn(fields, [{"compute": "y", "as": "equal", "of": "x"}], **{**types, "y": pa.float32()})


def test_a_planted_drawing_that_forgets_the_tie_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factored_mwem.tables.codes.tie.tie", lambda *_: None)
    with pytest.raises(AssertionError):
        test_times_and_their_parts_agree_in_every_row("hour", pa.timestamp("us"))
