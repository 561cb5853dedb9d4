"""Discovery on a table of 20 000 rows, with the noise of OpenDP."""

from __future__ import annotations

import datetime
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fakes import FakeNoise
from support.releases import published, run

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.domain.attribute import Attribute
from factored_mwem.mechanisms.learn import learn
from factored_mwem.pipeline import release as flow
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.privacy.session import Session
from factored_mwem.request.policy import Policy
from factored_mwem.request.promise import DISCOVERY_DELTA
from factored_mwem.tables.backends.opening import open_source

KINDS = ("integer", "number", "date", "datetime", "boolean", "string", "integer")
CLEAR = dict(zip(("whole", "decimal", "day", "moment", "flag", "zip", "gap"), KINDS, strict=True))


def clear_csv(path: Path, rows: int = 20_000) -> Path:
    """Columns of every kind, codes with leading zeros, gaps; the last row's values occur once."""
    rng = np.random.default_rng(3)
    start = datetime.date(1990, 1, 1)
    days = rng.integers(0, 9000, rows)
    zips = np.array(["0311", "0312", "9021", "1012"])[rng.integers(0, 4, rows)]
    lines = ["whole,decimal,day,moment,flag,zip,gap"]
    for i in range(rows):
        day = start + datetime.timedelta(days=int(days[i]))
        clock = f"{day.isoformat()}T{days[i] % 24:02d}:{days[i] % 60:02d}:00"
        gap = "" if i % 4 == 0 else str(i % 50)
        lines.append(
            f"{rng.integers(18, 90)},{rng.gamma(3, 2):.3f},{day.isoformat()},{clock},"
            f"{'true' if i % 3 else 'false'},{zips[i]},{gap}"
        )
    odd = ("8765432187654321", "3141592653589793.5", "1699-07-13", "1699-07-13T07:07:07")
    lines.append(",".join([*odd, "CANARYflag", "CANARY-zip", "CANARYgap"]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("relation", list(Neighbours))
def test_kinds_and_values_are_found_right_on_a_clear_table(
    relation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real noise at epsilon 10: a wrong kind would make a column useless. Zip codes stay text with their
    zero; only `gap` has nulls.

    Of nine domains each column must be right in seven. At epsilon 5 none of 120 had a wrong one; if here
    one of ten thousand has, three of nine do with a probability below 1e-10.
    """
    table = open_source(clear_csv(tmp_path / "clear.csv"))
    counted = table.profile(list(CLEAR))  # once; each domain draws its own noise
    monkeypatch.setattr("factored_mwem.tables.codes.profile.profile", lambda *_: counted)
    policy = Policy.of(epsilon=10.0, neighbours=relation)
    right = dict.fromkeys(CLEAR, 0)
    for _ in range(9):
        ledger = Accountant(policy.budget(learn_domain=True))
        session = Session(ledger, policy.unit, OpenDPNoise(Composition.ZCDP))
        domain = learn(session, table, None, policy).domain
        for name, kind in CLEAR.items():
            found = domain[name]
            right[name] += found.type == kind and found.nullable == (name == "gap") and as_clear(found)
        assert ledger.stage_cost("discover") / ledger.budget.amount <= policy.domain_budget
        assert ledger.spent <= ledger.budget.amount
        assert 0 < ledger.spent_delta <= Fraction(policy.delta) * DISCOVERY_DELTA
    assert min(right.values()) >= 7, right


def as_clear(column: Attribute) -> bool:
    """Whether a column of the right kind has the values, or about the bounds, that it should."""
    if column.name == "zip":
        return set(column.values) - {"other"} == {"0311", "0312", "9021", "1012"}
    if column.categorical:
        allowed = {"whole": range(18, 90), "gap": range(50)}.get(column.name, ())
        return column.type == "boolean" or set(column.values) <= set(allowed)
    ends = np.concatenate([column.cuts, column.specials])
    low, high = float(ends.min()), float(ends.max())
    if column.name in ("day", "moment"):
        days = 365.25 * (86_400e6 if column.name == "moment" else 1)
        return 1980 < low / days + 1970 <= 1991 and 2013 < high / days + 1970 < 2025
    least, most = {"whole": (89, 120), "decimal": (15, 100), "gap": (48, 100)}[column.name]
    return least <= high <= most and (column.name != "whole" or 0 <= low <= 20)


def test_no_canary_leaves_the_building(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A value that occurs once is in no output: data, manifest, model, domain, progress, log. Its neighbours'
    common values are.

    Its digits are so many that none of 20,000 synthetic decimals, of 16 random ones each, holds them by
    chance; its day is before all learnt bounds.
    """
    told: list[Any] = []
    with caplog.at_level("DEBUG"):
        table = clear_csv(tmp_path / "clear.csv")
        release = flow.release(table, 2, Policy.of(epsilon=5.0), report=told.append)
        found = published(release, tmp_path, "out")
    said = [json.dumps(release.domain.to_dict()), repr(told), repr(release), caplog.text]
    texts = [*found.values(), *(text.encode() for text in (*said, *capfd.readouterr()))]
    for canary in (b"CANARY", b"765432187654321", b"141592653589793", b"1699-07-13"):
        assert not [i for i, text in enumerate(texts) if canary in text]
    assert b"0311" in found["out.csv"] and told


def test_the_canary_check_would_see_one(tmp_path: Path) -> None:
    """Negative control: a threshold that keeps everything lets the canary through to the files."""
    fake = FakeNoise(kept=lambda counts, scale, threshold: dict(counts))
    release = run(clear_csv(tmp_path / "c.csv", 400), Policy.of(epsilon=100.0), fake, domain=None)
    assert "CANARY-zip" in release.domain["zip"].values
    assert any(b"CANARY-zip" in content for content in published(release, tmp_path, "out").values())
