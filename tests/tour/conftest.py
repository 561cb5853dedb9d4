"""What the tour walks on: a folder with people.csv, and the domain that says what may be in it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pytest

from factored_mwem import Domain


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, people: pa.Table, people_domain: Domain) -> Path:
    monkeypatch.chdir(tmp_path)
    pc.write_csv(people, "people.csv")
    Path("people.domain.json").write_text(json.dumps(people_domain.to_dict()))
    return tmp_path
