"""Where the tables to read are: those that come with the project, and those in the folder FMWEM_DATASETS."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "datasets"


def folder() -> Path:
    return Path(os.environ.get("FMWEM_DATASETS", "."))


def look_for(name: str) -> Path | None:
    """The table of that name in FMWEM_DATASETS, in a folder of its own or not; None where there is none. A
    name is never a path: "../secret" must not lead out of the folder.
    """
    if Path(name).name != name or not name:
        return None
    places = [folder() / at / f"{name}{end}" for at in (name, "") for end in (".csv", ".csv.gz")]
    return next((place for place in places if place.is_file()), None)


def find(name: str) -> Path:
    """The same, or else the first CSV in the folder of that name; SystemExit where there is none."""
    where = "in FMWEM_DATASETS; name that folder, or give the path of a CSV of codes"
    known = look_for(name) or next(iter(sorted((folder() / name).glob("*.csv*"))), None)
    return known or sys.exit(f"no {name}/*.csv {where}")
