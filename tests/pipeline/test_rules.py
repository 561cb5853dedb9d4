"""What a manifest says of rules, and what can be asked of a model that has some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.rule_tables import FIELDS, rows

from factored_mwem import Domain, InputError, Release, draft, release
from factored_mwem.pipeline.record.assumptions import RULES
from factored_mwem.pipeline.record.manifest_check import check_books

SAID: list[dict[str, Any]] = [
    {"if": {"x": {"max": 11}}, "then": {"a": None}},
    {"derive": "d", "from": "a", "map": [[["p", None], "low"], [["q", "r"], "high"]]},
    {"sum": "t", "of": ["u", "v"]},
]


def made(rules: list[dict[str, Any]], **options: Any) -> Release:
    domain = Domain.from_dict({"fields": FIELDS, "rules": rules})
    return release(rows(400, 1), 2, domain=domain, epsilon=1.0, rows=50, **options)


def test_a_manifest_holds_the_rules_and_says_that_they_are_public() -> None:
    """Seen to fail: without the line in `assumptions_of`."""
    manifest = made(SAID).manifest
    assert manifest.domain["rules"] == SAID
    assert ("rules", RULES) in manifest.guarantee.taken_on_trust()
    assert [a.name for a in manifest.attributes] == [f["name"] for f in FIELDS]
    assert not {"d", "t"} & {name for part in manifest.components for name in part}
    without = made([]).manifest.guarantee.assumptions
    assert "rules" not in without


def test_the_books_know_the_rules(tmp_path: Path, books: Path) -> None:
    """Rules that were put in or taken out are found. Seen to fail: without the comparison of rules."""
    chosen = {"columns": ["a", "d", "x", "b"], "ledger": books, "dataset": "t"}
    made(SAID, **chosen).write(tmp_path / "out.csv")
    manifest = tmp_path / "out.manifest.json"
    assert check_books(books, [manifest])["problems"] == []
    stated = json.loads(manifest.read_text())
    for rules in (SAID[1:2], [*SAID[:2], {"never": {"a": "p", "b": 1}}], "all"):
        stated["domain"]["rules"] = rules
        manifest.write_text(json.dumps(stated))
        problems = check_books(books, [manifest])["problems"]
        assert any("rules are not what was declared" in p or "its domain is none" in p for p in problems)


def test_marginals_of_what_follows_are_those_of_its_source(tmp_path: Path) -> None:
    found = made(SAID)
    found.save(tmp_path / "m.model")
    for one in (found, Release.load(tmp_path / "m.model")):
        a, d = one.marginal("a"), one.marginal("d")
        by = dict(zip(a.labels[0], a.counts, strict=True))
        assert dict(zip(d.labels[0], d.counts, strict=True)) == pytest.approx(
            {"low": by["p"] + by[None], "high": by["q"] + by["r"], None: 0.0}
        )
        both = one.marginal("d", "b", "a")
        assert both.counts.shape == (3, 4, 4)
        assert both.counts.sum(axis=(0, 2)) == pytest.approx(one.marginal("b").counts)
        assert both.counts[1, :, 0].sum() == 0
        assert one.sample(9).schema == one.schema
        with pytest.raises(InputError, match="'t' is computed when rows are drawn"):
            one.marginal("t")
    young = found.marginal("x", "a").counts[:, :3]
    bins = found.domain["x"]
    low = [code for code in range(bins.size - 1) if code <= bins._code_of(11)]
    assert np.all(young[low] == 0) and young.sum() > 0


def test_a_draft_proposes_no_rules() -> None:
    assert draft(rows(200, 2)).rules == ()
