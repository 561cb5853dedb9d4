"""The made-up clinic that comes with the project is what its script writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.system


def test_the_script_writes_the_same_bytes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "scripts/clinic", str(tmp_path)], cwd=ROOT, check=True)
    for name in ("patients.csv", "visits.csv"):
        assert (tmp_path / name).read_bytes() == (ROOT / "datasets" / "clinic" / name).read_bytes()
