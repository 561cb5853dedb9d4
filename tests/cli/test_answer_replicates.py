"""`fmwem answer` with replicates."""

from __future__ import annotations

import json
from pathlib import Path

from support.commands import Fmwem


def test_replicates_are_made_once_and_kept_beside_the_model(
    tmp_path: Path, fmwem: Fmwem, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i % 5},{(i % 5 + i % 2) % 4},{i % 3}\n" for i in range(500))
    Path("table.csv").write_text("a,b,c\n" + rows)
    Path("domain.json").write_text(json.dumps({"a": 5, "b": 4, "c": 3}))
    made = fmwem(
        *("release", "table.csv", "--domain", "domain.json", "--marginals", 2, "--model", "x.fmwem"),
        *("--rounds", 3),
    )
    assert made.code == 0, made.err
    asked = ("answer", "x.fmwem", "count where a >= 2 and b = 1 and c = 0", "--json", "--replicates")
    first = fmwem(*asked, 5)
    group = first.facts["answers"][0]["groups"][0]
    assert group["stderr"] > 0 and group["low"] <= group["high"]
    kept = Path("x.fmwem.replicates").read_bytes()
    assert fmwem(*asked, 5).out == first.out
    assert Path("x.fmwem.replicates").read_bytes() == kept
    refused = fmwem(*asked, 1)
    assert refused.code == 2 and "--replicates" in refused.err and "Traceback" not in refused.err
