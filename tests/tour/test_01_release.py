"""1. A private table in, a synthetic one out: with the same columns, and a manifest of what was spent."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from support.commands import Fmwem

from factored_mwem import Domain, Policy, Workload, release


def test_on_the_command_line(town: Path, fmwem: Fmwem) -> None:
    done = fmwem("release", "people.csv", "--marginals", 2, "--epsilon", 1)
    assert done.code == 0
    synthetic = pq.read_table("people.synthetic.parquet")
    assert synthetic.column_names == ["age", "colour", "owns", "score"]
    manifest = json.loads((town / "people.synthetic.manifest.json").read_text())
    assert manifest["output"]["file"] == "people.synthetic.parquet"
    assert manifest["guarantee"]["epsilon"] <= 1


def test_in_python(people: pa.Table, people_domain: Domain) -> None:
    made = release(people, Workload.marginals(2), Policy.of(epsilon=1.0), domain=people_domain)
    synthetic = made.to_arrow()  # also .to_pandas()
    assert synthetic.schema.names == people.schema.names
    assert set(synthetic["colour"].to_pylist()) <= {"red", "green", "blue", None}
    assert made.manifest.recompute() <= 1.0
