"""What a package index and a repository's host show of the package says the same everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
GITHUB = ROOT / ".github"


def test_the_version_is_one() -> None:
    version = PROJECT["version"]
    assert yaml.safe_load((GITHUB / "CITATION.cff").read_text(encoding="utf-8"))["version"] == version
    releases = re.findall(
        r"^## \[(.+?)\]", (GITHUB / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert releases[:2] == ["Unreleased", version]


def test_addresses_that_are_placeholders_stand_in_one_file() -> None:
    """And where a tag is refused while they stand there; a published version has none."""
    read = [
        *ROOT.glob("*.md"),
        *ROOT.glob("*.toml"),
        *GITHUB.rglob("*.*"),
        *ROOT.glob("factored_mwem/**/*.*"),
    ]
    texts = (p for p in read if p.suffix in (".md", ".toml", ".yml", ".cff", ".py", ".html"))
    found = {p.name for p in texts if "factored-mwem.invalid" in p.read_text(encoding="utf-8")}
    assert "publish.yml" in found <= {"pyproject.toml", "publish.yml"}
    placeholders = ["factored-mwem.invalid" in address for address in PROJECT["urls"].values()]
    assert all(placeholders) or not any(placeholders)


def test_every_python_that_is_named_is_tried() -> None:
    named = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)}
    workflow = yaml.safe_load((GITHUB / "workflows" / "test.yml").read_text(encoding="utf-8"))
    assert set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"]) == named


def test_actions_of_others_are_pinned_and_no_job_may_write() -> None:
    for path in [*(GITHUB / "workflows").glob("*.yml"), ROOT / "scripts" / "recipes" / "github_release.yml"]:
        text = path.read_text(encoding="utf-8")
        assert all(
            re.match(r"\./|[\w-]+/[\w-]+(/[\w-]+)?@[0-9a-f]{40} # v", each)
            for each in re.findall(r"uses: (.+)", text)
        )
        assert ": write" not in text.replace("id-token: write", "").replace("security-events: write", "")


@pytest.mark.parametrize("path", sorted((GITHUB / "upstream").glob("*.md")), ids=lambda path: path.stem)
def test_a_fault_reported_to_others_is_still_there(path: Path) -> None:
    """Where this fails the fault is gone: delete the report, and what works around it."""
    (case,) = re.findall(
        r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    try:
        exec(compile(case, path.name, "exec"), {})
    except ModuleNotFoundError as missing:
        pytest.skip(f"{missing.name} is not installed")
