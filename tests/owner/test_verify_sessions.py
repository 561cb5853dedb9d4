"""Sessions replayed on neighbours: what must hold holds, close to its charge, and planted bugs are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from support.marks import others_slow

from factored_mwem.accounting.unit import Unit
from factored_mwem.owner.verifier.sessions import Replayed, verify_session
from factored_mwem.owner.verifier.verify import Verified
from factored_mwem.privacy.other import blocks
from factored_mwem.privacy.other.cuts import CutCounts
from factored_mwem.privacy.other.edges import Edges
from factored_mwem.privacy.other.projected import Projected
from factored_mwem.privacy.other.sets import SetCounts
from factored_mwem.sessions.online.mechanism import Online

RNG, ROWS = np.random.default_rng(0), 400
PEOPLE = pa.table(
    {
        "age": RNG.integers(0, 100, ROWS),
        "sex": np.array(["F", "M"])[RNG.integers(0, 2, ROWS)],
        "race": np.array(["a", "b", "c"])[RNG.integers(0, 3, ROWS)],
    }
)
EDGES = pa.table({"from": RNG.integers(0, 12, 60), "to": RNG.integers(0, 12, 60)})
DOMAIN = {
    "fields": [
        {"name": "sex", "categories": ["F", "M"]},
        {"name": "race", "categories": ["a", "b", "c"]},
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
    ]
}
QUESTIONS = [f"count where age >= {age}" for age in range(10, 95, 20)] + ["count where sex = F by race"]


def sketch(**terms: Any) -> Verified:
    return verify_session(PEOPLE, Replayed.sketch("race", size=64, **terms), pairs=20, seed=1)


def graph(**terms: Any) -> Verified:
    return verify_session(EDGES, Replayed.graph(12, **terms), pairs=20, seed=1)


def asked(**terms: Any) -> Verified:
    """The model without a measurement is near enough for most: so tests are begun, and answer."""
    replayed = Replayed.ask(QUESTIONS, domain=DOMAIN, alpha=0.3, **terms)
    with mock.patch.object(Online, "_worth_a_test", lambda self, query: True):
        return verify_session(PEOPLE, replayed, pairs=10, seed=1)


def centre(**terms: Any) -> Verified:
    return _aggregate("center", np.nanmedian, **terms)


def average(**terms: Any) -> Verified:
    return _aggregate("average", np.nanmax, **terms)


def centres(**terms: Any) -> Verified:
    """Of two numbers of each block."""
    return _aggregate("center", lambda rows: np.nanquantile(rows, [0.1, 0.9]), dimensions=2, **terms)


def known(**terms: Any) -> Verified:
    """Of few cells, so that the domain leaves out the column of many."""
    asked = [f"count where sex = F and race = {race}" for race in "abc"] + ["count where sex = M"]
    narrow = {"fields": DOMAIN["fields"][:2]}
    return verify_session(PEOPLE, Replayed.known(asked, domain=narrow, **terms), pairs=10, seed=1)


def keys(**terms: Any) -> Verified:
    asked = [["a"], ["b", "c"], ["a", "none"]]
    return verify_session(PEOPLE, Replayed.known(asked, column="race", **terms), pairs=10, seed=1)


def _aggregate(by: Any, function: Callable[[np.ndarray], Any], **terms: Any) -> Verified:
    replayed = Replayed.aggregate(function, {"age": (0, 99)}, lower=0, upper=99, blocks=200, by=by, **terms)
    return verify_session(PEOPLE, replayed, pairs=20, seed=1)


KINDS = {
    "sketch": sketch, "graph": graph, "ask": asked, "centre": centre, "average": average, "centres": centres,
    "known": known, "keys": keys,
}  # fmt: skip


TIGHT = {"sketch": "measure 1 attributes", "graph": "measure 1 attributes", "ask": "test"}
"""The stages that must come close to what was charged, where rows come or go."""
SETTINGS = [(1, 0.0), (3, 0.0), (1, 1e-9), (3, 1e-9)]
CASES = [
    (kind, relation, k, delta)
    for kind in KINDS
    for relation in ("add-remove", "replace")
    for k, delta in SETTINGS
    if kind != "average" or not delta
]


@pytest.mark.parametrize(
    ("kind", "relation", "k", "delta"), others_slow(CASES, lambda case: case[1:] == ("add-remove", 3, 0.0))
)
def test_nothing_moves_more_than_charged(kind: str, relation: Any, k: int, delta: float) -> None:
    found = KINDS[kind](epsilon=20.0, delta=delta, contributions=k, neighbours=relation)
    worst = {stage.name: stage.worst for stage in found.stages}
    assert found.holds, found.failures
    assert found.pairs >= 10 and worst["all charges"] <= 1
    if relation == "add-remove" and kind in TIGHT:
        assert worst[TIGHT[kind]] > 0.999


def twice(honest: Any) -> Any:
    """What is noised, or compared, counts everything twice."""
    return lambda *given: 2 * honest(*given)


PLANTED: dict[str, tuple[str, Any, str, Callable[[Any], Any], str]] = {
    "a key counted twice": ("sketch", Projected, "exact", twice, "moved by 4"),
    "an edge counted twice": ("graph", Edges, "exact", twice, "moved by 2"),
    "a score that moves twice as far": ("ask", CutCounts, "gap", twice, "moved by 2"),
    "a tests' charge that forgets rows": (
        "ask", Unit, "of_counting_query", lambda _: property(lambda self: 1), "moved by 3",
    ),
    "a set counted twice": ("known", SetCounts, "exact", twice, "moved by"),
    "a key's set counted twice": ("keys", SetCounts, "exact", twice, "moved by"),
    "a bound that follows from nothing": (
        "centre", blocks, "attention_bound", lambda _: lambda *given: 1.0, "moved by",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    kind, target, part, bug, seen = PLANTED[name]
    with mock.patch.object(target, part, bug(getattr(target, part))):
        delta = 0.0 if kind != "sketch" else 1e-9
        # in which block somebody lies is chance: of a bound, one replay in a hundred or so shows nothing
        replays = (KINDS[kind](epsilon=20.0, delta=delta, contributions=3) for _ in range(6))
        found = next((each for each in replays if not each.holds), None)
    assert found is not None
    assert any(seen in failure.why for failure in found.failures), found.failures
