"""Released numbers lie on the grid that they claim: noisy answers are whole numbers, learnt edges are points
of public grids, cut at round places, or next to values that are popular.

A noisy number with digits behind the point would carry more of the table than its noise was priced for.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.model_files import parts_of

from factored_mwem import Release, Workload, release
from factored_mwem.errors import InputError
from factored_mwem.privacy.noise import OpenDPNoise

CHOSEN = ("epsilon", "delta", "weight", "domain_budget", "select_share", "initial_share", "time_budget")
PRICED = ("spent_epsilon", "cost", "share", "scale")
BOUNDS = ("minimum", "maximum", "edges", "specialValues", "categories", "other", "ends_seen")
SHARES = ("kept", "moved_at_most", "clipped", "missing", "missing_at_most", "beyond_seen")
SPREADS = ("spread_hidden", "spread_doubtful")
CERTIFIED = ("certificate", "confidence", "estimate", "stderr", "low", "high")
PARAMETERS = {*CHOSEN, *PRICED, *BOUNDS, *SHARES, *SPREADS, *CERTIFIED}
"""Where a manifest may hold a number that is not whole: what a person chose, what follows from the price, and
bounds, which are looked at below; shares of noisy counts, and the spread that follows from these; the errors
of a certificate, which are noisy whole numbers of grains over a noisy whole number of rows.
"""
CASES: dict[str, dict[str, Any]] = {
    "at once": {},
    "in rounds": {"rounds": 5, "max_cells": 200},
    "pure": {"delta": 0.0},
    "certificate": {"certificate": 0.1, "accept": ["worst <= 1.9"]},
    "replace": {"neighbours": "replace", "contributions": 2},
    "mwem": {"engine": "mwem", "rounds": 4},
    "histogram": {"engine": "mwem", "rounds": 2, "initial": "histogram"},
    "ranges": {"workload": Workload.ranges("b", which="all") + Workload.marginals(1)},
    "questions": {"workload": Workload.cube("a", "b", order=2), "engine": "mwem", "rounds": 3},
    "learnt": {"learn": True, "epsilon": 20.0},
}


def saved(folder: Path, *, learn: bool = False, workload: Any = 2, **choices: Any) -> Path:
    rng = np.random.default_rng(4)
    table = pa.table(
        {
            "a": rng.choice(["x", "y", "z"], 900),
            "b": rng.integers(3, 61, 900),
            "c": rng.normal(50, 9, 900),
            "d": rng.random(900) < 0.2,
        }
    )
    fields = [
        {"name": "a", "categories": ["x", "y", "z"]},
        {"name": "b", "type": "integer", "constraints": {"minimum": 0, "maximum": 63}},
        {"name": "c", "type": "number", "constraints": {"minimum": 0, "maximum": 100}, "bins": 20},
        {"name": "d", "type": "boolean"},
    ]
    made = release(table, workload, domain=None if learn else {"fields": fields}, **choices)
    made.save(folder / "m.fmwem")
    made.write(folder / "m.parquet")
    return folder


def fractions_in(tree: Any, key: str = "") -> list[str]:
    """The keys of a manifest under which a number is not whole."""
    if isinstance(tree, dict):
        return [found for k, inside in tree.items() for found in fractions_in(inside, k)]
    if isinstance(tree, list):
        return [found for inside in tree for found in fractions_in(inside, key)]
    return [key] if isinstance(tree, float) else []


def off_the_grid(folder: Path) -> list[str]:
    """What is stated as noisy and is no whole number, or as learnt and is no point of a public grid."""
    wrong = []
    header, arrays = parts_of(folder / "m.fmwem")
    noisy = [name for name in arrays if "noisy" in name]
    wrong += [name for name in noisy if arrays[name].dtype != np.int64]
    assert noisy
    manifest = json.loads((folder / "m.manifest.json").read_text())
    wrong += [
        key for tree in (manifest, header["manifest"]) for key in fractions_in(tree) if key not in PARAMETERS
    ]
    wrong += [] if type(manifest["estimated_rows"]) is int else ["estimated_rows"]
    for field in manifest["domain"]["fields"]:
        beside = {near for value in field.get("specialValues", []) for near in _beside(value)}
        odd = [edge for edge in field.get("edges", []) if edge not in beside and digits(edge) > MOST_DIGITS]
        wrong += [field["name"]] if field.get("learnt") and odd else []
    return wrong


MOST_DIGITS = 6
"""A cell of the grid, of one digit, is cut into some 64, those again; cuts are rounded to their widths."""


def digits(edge: float) -> int:
    """The significant digits of an edge; of the last whole number below one, as many as that has."""
    near = (edge, edge + 1) if isinstance(edge, int) else (edge,)
    return min(len(Decimal(repr(value)).normalize().as_tuple().digits) for value in near)


def _beside(value: Any) -> list[Any]:
    """Where a bin may end that holds a popular value."""
    return [value] if isinstance(value, str | int) else [value, math.nextafter(value, math.inf)]


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("case", CASES)
def test_released_numbers_lie_on_their_grid(case: str, tmp_path: Path) -> None:
    assert not off_the_grid(saved(tmp_path, **CASES[case]))


@pytest.mark.parametrize("case", ["at once", "in rounds", "mwem"])
def test_the_check_sees_noise_that_is_not_whole(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the sampler's numbers get a fraction; and a file with such numbers is none that we read."""
    real = OpenDPNoise.add
    monkeypatch.setattr(
        OpenDPNoise, "add", lambda self, values, *, scale: real(self, values, scale=scale) + 0.25
    )
    folder = saved(tmp_path, **CASES[case])
    assert "noisy" in off_the_grid(folder)[0]
    with pytest.raises(InputError, match="damaged"):
        Release.load(folder / "m.fmwem")


@pytest.mark.usefixtures("quiet")
def test_the_check_sees_a_noisy_number_in_the_manifest_that_is_not_whole(tmp_path: Path) -> None:
    folder = saved(tmp_path, **CASES["learnt"])
    path = folder / "m.manifest.json"
    whole = json.loads(path.read_text())
    for change in ({"estimated_rows": 899.5}, {"rounds": 1.5}):
        path.write_text(json.dumps({**whole, **change}))
        assert off_the_grid(folder) == [*change] * (1 + ("estimated_rows" in change))
    (learnt,) = [field for field in whole["domain"]["fields"] if field["name"] == "c"]
    learnt["edges"][0] = 50.012345  # not relative to the bound: what is added to one of 10^18 is lost
    path.write_text(json.dumps(whole))
    assert off_the_grid(folder) == ["c"]
