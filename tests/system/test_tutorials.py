"""The tutorials run as they stand, and show what they show on the site."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "scripts" / "site"


def module(name: str) -> ModuleType:
    """A module of scripts/site, a folder that has the name of one of Python's own modules."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", SITE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


notebooks = module("notebooks")
MADE = {
    "release": "people.parquet people.manifest.json",
    "answers": "adult.fmwem",
    "pipeline": "tuesday.parquet",
}
SAID = {
    "release": ["spent: ", "differential privacy"],
    "answers": ["measured: ", "intervals hold"],
    "pipeline": ["True", "finished", "exit code 3: "],
    "linked": ["synthetic-", "root table"],
}
"""What must be left behind, and shown."""


def shown(notebook: dict[str, Any]) -> list[list[str]]:
    """The media types that each cell shows."""
    return [[notebooks.kind_of(each)[0] for each in cell.get("outputs", [])] for cell in notebook["cells"]]


@pytest.mark.parametrize("name", notebooks.TUTORIALS)
def test_a_tutorial_runs_and_shows_what_it_did(name: str, tmp_path: Path) -> None:
    kept = notebooks.load(name)
    made = notebooks.run(kept, tmp_path)
    assert shown(made) == shown(kept)
    assert ["image/svg+xml"] in shown(made)
    assert all((tmp_path / file).stat().st_size for file in MADE.get(name, "").split())
    for page in (notebooks.markdown(made), notebooks.markdown(kept)):
        assert all(said in page for said in SAID[name])


def test_a_broken_cell_and_one_that_was_not_run_would_be_seen(tmp_path: Path) -> None:
    kept = notebooks.load("answers")
    last = len(kept["cells"]) - 1
    for source, error in (("1 / 0", ZeroDivisionError), ("2 + 2", None)):
        cells = [{"cell_type": "code", "source": [source], "outputs": []}]
        changed = kept | {"cells": cells}
        if error is not None:
            with pytest.raises(error):
                notebooks.run(changed, tmp_path)
        else:
            assert shown(notebooks.run(changed, tmp_path)) == [["text/plain"]] != shown(changed)
    assert kept["cells"][last]["outputs"]


def test_the_readme_and_the_site_have_every_tutorial() -> None:
    told = {path.stem for path in (SITE / "tutorials").glob("*.ipynb")}
    assert told == set(notebooks.TUTORIALS)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"(scripts/site/tutorials/{name}.ipynb)" in readme for name in told)
