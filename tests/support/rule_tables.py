"""A domain of every kind of column, rows that know no rules, and small random rules about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st


def _between(low: float, high: float, **more: bool) -> dict[str, Any]:
    return {"minimum": low, "maximum": high, **more}


FIELDS: list[dict[str, Any]] = [
    {"name": "a", "categories": ["p", "q", "r"]},
    {"name": "b", "type": "integer", "categories": [1, 2, 5, 9], "constraints": {"required": True}},
    {"name": "c", "type": "boolean"},
    {"name": "x", "type": "integer", "bins": 5, "specialValues": [7, 0], "constraints": _between(0, 30)},
    {"name": "y", "type": "integer", "bins": 7, "constraints": _between(-5, 40, required=True)},
    {"name": "u", "type": "number", "bins": 3, "decimals": 1, "constraints": _between(0, 2, required=True)},
    {"name": "v", "type": "number", "bins": 4, "decimals": 1, "constraints": _between(0, 2)},
    {"name": "d", "categories": ["low", "high"]},
    {"name": "t", "type": "number", "constraints": _between(-10, 100)},
]
KINDS = {"a": pa.string(), "b": pa.int64(), "c": pa.bool_(), "x": pa.int64(), "y": pa.int64()} | {
    "u": pa.float64(), "v": pa.float64(), "d": pa.string(), "t": pa.float64()
}  # fmt: skip
CONDITIONS: dict[str, list[Any]] = {
    "a": [None, "p", ["p", "r"], ["q", None], {"not": "p"}, {"not": None}],
    "b": [1, [2, 5], {"max": 2}, {"min": 5}, {"min": 2, "max": 5}, {"not": 9}],
    "c": [True, False, None, {"not": True}],
    "x": [None, 7, 0, 12, {"max": 11}, {"min": 7}, {"max": 7}, {"min": 3, "max": 20}, {"not": {"max": 15}}],
    "y": [3, {"max": 0}, {"min": 18}, {"min": -2, "max": 9}, {"not": {"min": 30}}],
    "u": [{"max": 0.7}, {"min": 0.7}, {"max": 1.0}, 1.3, {"min": 0.3, "max": 1.1}],
    "v": [{"max": 0.7}, {"min": 0.7}, None, 1.3, {"not": {"max": 1.1}}],
}
MAPS: list[dict[str, Any]] = [
    {"from": "a", "map": {"p": "low", "q": "high", "r": "high"}},
    {"from": "a", "map": [[["p", "q"], "low"], [{"not": "p"}, "high"]]},
    {"from": "x", "map": [[{"max": 9}, "low"], [{"min": 10}, "high"]]},
]


def rows(count: int, seed: int) -> pa.Table:
    """Rows that break most rules."""
    rng = np.random.default_rng(seed)

    def some(values: Any) -> list[Any]:
        return [None if rng.random() < 0.1 else value for value in np.asarray(values).tolist()]

    columns = {
        "a": some(rng.choice(["p", "q", "r"], count)),
        "b": rng.choice([1, 2, 5, 9], count),
        "c": some(rng.random(count) < 0.5),
        "x": some(rng.integers(0, 31, count)),
        "y": rng.integers(-5, 41, count),
        "u": rng.integers(0, 21, count) / 10,
        "v": some(rng.integers(0, 21, count) / 10),
        "d": rng.choice(["low", "high"], count).tolist(),
        "t": 100 * rng.random(count),
    }
    return pa.table({name: pa.array(values, KINDS[name]) for name, values in columns.items()})


def columns_of(rule: dict[str, Any]) -> list[str]:
    """The columns of an implication, or of what never is."""
    named = [rule.get(key, {}) for key in ("if", "then", "never")]
    return [name for part in named for name in part]


def one_by_one(rule: dict[str, Any]) -> list[dict[str, Any]]:
    """An implication for each column of `then`."""
    return [{**rule, "then": {name: c}} for name, c in rule.get("then", {}).items()] or [rule]


def _conditions(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.sampled_from(CONDITIONS[name]) for name in names})


@st.composite
def boxes(draw: st.DrawFn) -> dict[str, Any]:
    """An implication, or what never is."""
    kind = draw(st.sampled_from(["never", "if"]))
    names = draw(st.lists(st.sampled_from(sorted(CONDITIONS)), min_size=2, max_size=3, unique=True))
    if kind == "never":
        return {"never": draw(_conditions(names))}
    at = draw(st.integers(1, len(names) - 1))
    return {"if": draw(_conditions(names[:at])), "then": draw(_conditions(names[at:]))}


def orders() -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from([["x", "y"], ["y", "x"], ["u", "v"]]).map(lambda pair: {"order": pair})


@st.composite
def rule_sets(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rules of all kinds."""
    rules = draw(st.lists(boxes() | orders(), max_size=3))
    if draw(st.booleans()):
        rules.append({"derive": "d", **draw(st.sampled_from(MAPS))})
        if draw(st.booleans()):
            rules.append({"never": {"d": "low", "b": draw(st.sampled_from(CONDITIONS["b"]))}})
    if draw(st.booleans()):
        rules.append({"sum": "t", "of": draw(st.sampled_from([["x", "u"], ["x", "y", "v"]]))})
    return rules
