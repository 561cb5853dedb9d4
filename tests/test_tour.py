"""The package in eight steps, to be read from top to bottom: what a user does, and what comes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from support.commands import Fmwem

from factored_mwem import (
    BudgetExceeded,
    Domain,
    InputError,
    Policy,
    Release,
    Workload,
    draft,
    evaluate,
    release,
    verify,
)

DECLARED = "people.domain.json"


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, people: pa.Table, people_domain: Domain) -> Path:
    """A folder with people.csv, and the domain that says what may be in it."""
    monkeypatch.chdir(tmp_path)
    pc.write_csv(people, "people.csv")
    Path(DECLARED).write_text(json.dumps(people_domain.to_dict()))
    return tmp_path


def test_1_a_private_table_in_a_synthetic_one_out(town: Path, fmwem: Fmwem, people: pa.Table) -> None:
    """With the same columns, and a manifest of what was spent."""
    assert fmwem("release people.csv --marginals 2 --epsilon 1").code == 0
    assert pq.read_table("people.synthetic.parquet").column_names == ["age", "colour", "owns", "score"]
    manifest = json.loads((town / "people.synthetic.manifest.json").read_text())
    assert manifest["output"]["file"] == "people.synthetic.parquet" and manifest["guarantee"]["epsilon"] <= 1
    # and in Python
    made = release("people.csv", Workload.marginals(2), Policy.of(epsilon=1.0), domain=DECLARED)
    synthetic = made.to_arrow()  # also .to_pandas()
    assert synthetic.schema.names == people.schema.names
    assert set(synthetic["colour"].to_pylist()) <= {"red", "green", "blue", None}


@pytest.mark.usefixtures("quiet")
def test_2_a_domain_says_which_values_may_appear(town: Path, people: pa.Table) -> None:
    """It is public: declare it, draft it and review it, or let the budget learn it."""
    ages = {"name": "age", "type": "integer", "bins": 6, "constraints": {"minimum": 0, "maximum": 119}}
    colours = {"name": "colour", "categories": ["red", "green", "other"], "other": "other"}
    domain = Domain.from_dict({"fields": [ages, colours]})
    synthetic = release(people.select(["age", "colour"]), 2, epsilon=1.0, domain=domain).to_arrow()
    assert set(synthetic["colour"].to_pylist()) <= {"red", "green", "other", None}  # "blue" became "other"
    assert all(age is None or 0 <= age <= 119 for age in synthetic["age"].to_pylist())
    drafted = draft("people.csv")  # NOT PRIVATE: bounds and categories are those of the rows
    with pytest.raises(InputError, match="draft"):
        release("people.csv", 2, epsilon=1.0, domain=drafted)
    assert release("people.csv", 2, epsilon=1.0, domain=drafted.reviewed()).rows > 0
    assert "discover" in {stage.stage for stage in release(people, 1, epsilon=5.0).manifest.stages}


def test_3_a_workload_says_what_must_come_out_right(town: Path, fmwem: Fmwem, people_domain: Domain) -> None:
    """Marginals, cubes, ranges, parities, mixed as you like, with weights."""
    assert len(Workload.marginals(2).candidates(people_domain)) == 4 + 6  # all pairs, and what they hold
    Workload.of([("age", "colour"), ("owns",)]).check(people_domain.names)
    with pytest.raises(InputError, match="height"):
        Workload.of([("age", "height")]).check(people_domain.names)
    asked = Workload.marginals(1) + Workload.cube("age", "colour", "owns", order=2)
    asked += Workload.ranges("age", count=50, weight=3)
    assert Workload.from_dict(asked.to_dict()) == asked
    assert release("people.csv", asked, epsilon=1.0, domain=DECLARED).rows > 0
    assert fmwem("release people.csv --cube age,colour,owns:2 --ranges age:50@3").code == 0


def test_4_a_dry_run_tells_what_a_release_would_do(town: Path, fmwem: Fmwem) -> None:
    """It reads no row, and costs nothing."""
    facts = fmwem("check people.csv --marginals 2 --json").facts
    assert facts["attributes"] == {"age": 6, "colour": 4, "owns": 2, "score": 5}  # codes, null among them
    assert facts["cells"] == 6 * 4 * 2 * 5 and facts["memory_megabytes"] > 0
    done = fmwem("release people.csv --marginals 2 --max-cells 3 --json")
    assert done.code == 4 and done.facts["budget_spent"] is False
    assert not list(town.glob("people.synthetic.*"))


def test_5_the_model_is_public(town: Path, fmwem: Fmwem) -> None:
    """Draw as many rows from it as you like, at no cost, today or from its file."""
    made = release("people.csv", 2, epsilon=1.0, domain=DECLARED)
    assert made.sample(10, seed=7).num_rows == 10 and made.sample(10, seed=7).equals(made.sample(10, seed=7))
    assert made.to_arrow().num_rows == made.rows  # the noisy count of the table
    made.save("people.fmwem")
    again = Release.load("people.fmwem")
    assert again.manifest == made.manifest and again.to_arrow().equals(made.to_arrow())
    assert fmwem("sample people.fmwem -n 25 -o more.parquet").code == 0
    assert pq.read_table("more.parquet").num_rows == 25


def test_6_the_promise_can_be_added_up_by_anybody(people: pa.Table, people_domain: Domain) -> None:
    """Who is protected, and what it cost."""
    policy = Policy.of(epsilon=1.0, delta=1e-9, neighbours="add-remove", contributions=2)
    manifest = release(people, Workload.marginals(2), policy, domain=people_domain).manifest
    assert manifest.guarantee.epsilon <= 1 and manifest.guarantee.delta <= 1e-9
    assert "differential privacy" in manifest.guarantee.statement
    assert manifest.ledger and all(charge.scale > 0 for charge in manifest.ledger)
    assert manifest.recompute() == pytest.approx(manifest.guarantee.epsilon)
    with pytest.raises(InputError, match="epsilon"):
        release(people, 2, epsilon=-1.0, domain=people_domain)


def test_7_for_the_owners_eyes(town: Path, fmwem: Fmwem) -> None:
    """How far the rows are off, and whether one person moves more than was charged. NOT PRIVATE."""
    release("people.csv", 2, epsilon=5.0, domain=DECLARED).write("out.parquet")
    mean, worst = evaluate("people.csv", "out.parquet", 1, domain=DECLARED).by_order[1]
    assert 0 <= mean <= worst <= 2  # L1 distances of shares
    assert "NOT PRIVATE" in fmwem("evaluate people.csv out.parquet --marginals 1").out
    found = verify("people.csv", 1, pairs=3, seed=1, domain=DECLARED, rounds=1)
    assert found.holds and found.pairs == 3
    assert all(stage.worst <= 1 + 1e-9 for stage in found.stages)


def test_8_a_ledger_holds_what_all_releases_may_cost_together(town: Path, fmwem: Fmwem) -> None:
    """A job that runs twice pays once, and what does not fit is refused."""
    assert fmwem("ledger init books").code == 0
    assert fmwem("ledger add books --dataset people --epsilon 1 --delta 1e-9").code == 0
    job = "release people.csv --marginals 1 --ledger books --dataset people --epsilon 0.5 --run-id monday"
    assert [fmwem(f"{job} --json").facts["reused"] for _ in range(2)] == [False, True]
    assert fmwem("ledger verify books people.synthetic.manifest.json").code == 0
    with pytest.raises(BudgetExceeded):
        release("people.csv", 1, epsilon=0.9, domain=DECLARED, ledger="books", dataset="people")
