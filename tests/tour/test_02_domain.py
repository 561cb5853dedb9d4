"""2. A domain says which values may appear. It is public: declare it, or draft it and review it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from factored_mwem import Domain, InputError, draft, release

FIELDS = [
    {"name": "age", "type": "integer", "bins": 6, "constraints": {"minimum": 0, "maximum": 119}},
    {"name": "colour", "type": "string", "categories": ["red", "green", "other"], "other": "other"},
]


def test_a_declared_domain_is_all_that_can_come_out(people: pa.Table) -> None:
    domain = Domain.from_dict({"fields": FIELDS})
    synthetic = release(people.select(["age", "colour"]), 2, epsilon=1.0, domain=domain).to_arrow()
    assert set(synthetic["colour"].to_pylist()) <= {"red", "green", "other", None}  # "blue" became "other"
    assert all(age is None or 0 <= age <= 119 for age in synthetic["age"].to_pylist())


def test_a_draft_is_read_off_the_data_so_a_person_reviews_it(town: Path) -> None:
    drafted = draft("people.csv")  # NOT PRIVATE: bounds and categories are those of the rows
    with pytest.raises(InputError, match="draft"):
        release("people.csv", 2, epsilon=1.0, domain=drafted)
    assert release("people.csv", 2, epsilon=1.0, domain=drafted.reviewed()).rows > 0


def test_without_a_domain_a_share_of_the_budget_learns_one(people: pa.Table) -> None:
    made = release(people, 1, epsilon=5.0)
    assert "discover" in {stage.stage for stage in made.manifest.stages}
