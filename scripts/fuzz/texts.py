"""Domains, workloads, configurations, and what the command line takes for --label, --cube and --ranges."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from factored_mwem import Domain, Workload
from factored_mwem.cli.settings import ReleaseSettings, read_config
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.decode import OWN_TYPE
from fuzz import hostile
from fuzz.tables import FIELDS, ROWS, back
from fuzz.target import Target, allowed

DAY = {"minimum": "2020-01-01", "maximum": "2020-01-02"}
DOMAINS: list[Any] = [
    {"fields": FIELDS, "missingValues": ["-"], "$schema": "https://example.org", "primaryKey": "a"},
    {"a": 10, "b": 2, "c": 300},
    {"fields": FIELDS[:1]},
    {"fields": [{"name": "x", "type": "datetime", "constraints": DAY, "bins": 24, "learnt": True}]},
]
WORKLOADS: list[Any] = [
    {"marginals": 2},
    {"marginals": [1, 2], "cliques": [["a", "b"], ["c"]]},
    {"labels": [{"column": "a", "weight": 5.0}], "ranges": [{"attributes": ["a"], "count": 10}],
     "cubes": [{"attributes": ["a", "b", "c"], "order": 2, "weight": 3.0}]},
    {"ranges": [{"attributes": ["a", "c"], "which": "prefix"},
                {"attributes": ["d"], "which": "all", "seed": 3}], "parities": [{"order": 1}]},
]  # fmt: skip
CONFIGS: list[Any] = [
    {"marginals": 2, "epsilon": 0.5, "delta": 1e-6, "neighbours": "replace", "rounds": 3,
     "columns": ["a", "b"], "overwrite": True, "rows": 5},
    {"label": ["a@5"], "cube": ["a,b,c:2@3"], "ranges": ["a:10", "a,c:prefix"], "parities": 1,
     "max-memory": "100MB", "time_budget": 5.0, "domain": "d.json"},
    {"marginals": 1, "engine": "mwem", "rounds": "adaptive", "initial": "histogram", "contributions": 2,
     "domain_budget": 0.2},
]  # fmt: skip
SPECS = (b"a,b,c:2@3", b"a:1000", b"a,c:all", b"a:prefix@0.5", b"b", b"a,b,c,d,e,f:10")


def run_domain(path: Path) -> bool:
    """A domain that is taken must encode any text, and give back a value for every code."""
    domain = allowed(Domain.load, path)
    if domain is None:
        return False
    assert Domain.from_dict(json.loads(json.dumps(domain.to_dict()))) == domain
    short = [text for text in hostile.VALID if len(text) < 1000]
    texts = pa.array([*short, *(cell for row in ROWS for cell in row), None])
    few = Domain(domain.attributes[:12])
    for attribute in few:
        assert int(encode(attribute, texts).max()) < attribute.size
    back(few, pa.schema([pa.field(a.name, OWN_TYPE[a.type], nullable=a.nullable) for a in few]), path)
    return True


def run_workload(path: Path) -> bool:
    """A workload that is taken must list its candidates over a small domain, and over a wide one, or
    refuse.
    """
    workload = allowed(Workload.load, path)
    if workload is None:
        return False
    assert Workload.from_dict(json.loads(json.dumps(workload.to_dict()))) == workload
    wide = {**dict.fromkeys("abcdef", 2), **{f"w{i}": 2 for i in range(60)}}
    for domain in (Domain.from_dict({"fields": FIELDS}), Domain.from_dict(wide)):
        allowed(_listed, workload, domain)
    return True


def _listed(workload: Workload, domain: Domain) -> None:
    workload.candidates(domain)
    for request in workload.asked:
        request.questions(domain)


def run_config(path: Path) -> bool:
    settings = allowed(read_config, path)
    return bool(settings and allowed(_workload, {**settings, "workload": None}))


def run_specs(path: Path) -> bool:
    """What the command line takes for --label, --cube and --ranges; its own text is valid, with any character
    but NUL.
    """
    text = path.read_bytes().decode("utf-8", "surrogateescape").replace("\x00", "")
    taken = [allowed(_workload, {option: [text]}) for option in ("label", "cube", "ranges")]
    return any(taken)


def _workload(settings: dict[str, Any]) -> Any:
    return ReleaseSettings.of(settings).workload_of(settings.get("marginals"))


def _of_trees(
    suffix: str,
    trees: Sequence[Any],
    write: Callable[[Any, Random], bytes],
    run: Callable[[Path], bool],
) -> Target:
    """A target whose files hold a tree of lists and dictionaries."""

    def make(random: Random, corpus: Sequence[bytes]) -> bytes:
        data = write(hostile.changed(random.choice(trees), random), random)
        return hostile.damaged(data, random, corpus) if random.random() < 0.2 else data

    return Target(suffix, lambda _: [write(tree, Random(3)) for tree in trees], make, run)


def _make_spec(random: Random, corpus: Sequence[bytes]) -> bytes:
    return hostile.damaged(random.choice(corpus), random, corpus)


TARGETS = {
    "domain": _of_trees(".json", DOMAINS, hostile.as_json, run_domain),
    "workload": _of_trees(".json", WORKLOADS, hostile.as_json, run_workload),
    "workload-toml": _of_trees(".toml", WORKLOADS, hostile.as_toml, run_workload),
    "config": _of_trees(".toml", CONFIGS, hostile.as_toml, run_config),
    "specs": Target(".txt", lambda _: list(SPECS), _make_spec, run_specs),
}
