"""Tables whose people have several rows, hostile ids among theirs, and what counts of them must be: found by
plain Python, in a way of its own.
"""

from __future__ import annotations

import datetime
import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from support.fakes import FakeNoise
from support.hostile_table import codes_of

from factored_mwem.accounting.unit import SINGLE_SIZES, size_classes
from factored_mwem.domain.domain import Domain
from factored_mwem.mechanisms.plan import rows_of_person
from factored_mwem.pipeline.release import make
from factored_mwem.request.request import Request
from factored_mwem.workload.workload import Workload

IDS = ["1", "1.0", " 1", "ann", "ANN", "ann ", "é", "e\u0301", "-1", "0", "none", "'", "z" * 3000]
NOBODY = ("", None, "NA")
"""Of whom no row is used: "NA" where the domain says so, else she is a person."""
DOMAIN = Domain.from_dict(
    {
        "fields": [
            {"name": "word", "categories": ["a", "A", "é"]},
            {"name": "age", "type": "integer", "edges": [0, 10, 50, 100]},
            {"name": "day", "type": "date", "edges": ["2020-01-01", "2020-02-01", "2020-03-01"]},
            {"name": "member", "type": "boolean"},
        ]
    }
)


def table_of_people(rows: int, people: int = 60, seed: int = 0, most: int | None = None) -> pa.Table:
    """With column `who`, some of whom are nobody; `most`: rows that a person has at most."""
    rng = np.random.default_rng(seed)
    names = [*NOBODY, *IDS, *(f"p{i}" for i in range(people))]
    weights = 1 / np.arange(1, len(names) + 1)
    who = [names[i] for i in rng.choice(len(names), rows, p=weights / weights.sum())]
    own = {name: rng.choice(["a", "A", "é", None]) for name in names}
    start = datetime.date(2020, 1, 1)
    table = pa.table(
        {
            "who": pa.array(who, pa.string()),
            "word": pa.array([own[name] for name in who], pa.string()),
            "age": pa.array([None if x == 7 else int(x) for x in rng.integers(0, 120, rows)], pa.int64()),
            "day": pa.array(
                [start + datetime.timedelta(int(x)) for x in rng.integers(-5, 70, rows)], pa.date32()
            ),
            "member": pa.array([[True, False, None][x] for x in rng.integers(0, 3, rows)], pa.bool_()),
        }
    )
    if most is None:
        return table
    seen: dict[Any, int] = defaultdict(int)
    kept = []
    for i, name in enumerate(who):
        seen[name] += 1
        if not name or seen[name] <= most:
            kept.append(i)
    return table.take(kept)


def persons(table: pa.Table) -> dict[str, list[int]]:
    """The rows of each person, by number."""
    own: dict[str, list[int]] = defaultdict(list)
    for i, name in enumerate(table["who"].to_pylist()):
        if name not in NOBODY:
            own[name].append(i)
    return own


def modelled(most: int) -> Domain:
    return Domain([*DOMAIN, rows_of_person(size_classes(most))])


def grains(table: pa.Table, most: int, unit: int, used: dict[str, list[int]]) -> dict[tuple[int, ...], int]:
    """By codes of the domain's attributes and rows of the person, what `used` rows of each person weigh."""
    codes = list(zip(*codes_of(DOMAIN, table.select(DOMAIN.names)), strict=True))
    cells: dict[tuple[int, ...], int] = defaultdict(int)
    assert most <= SINGLE_SIZES, "sizes are told apart one by one"
    for own in used.values():
        for row in own:
            cells[(*map(int, codes[row]), len(own) - 1)] += unit // len(own)
    return cells


def drawn_in_sql(table: pa.Table, most: int) -> dict[str, list[int]]:
    """The rule of a database, spelt out again: an MD5 of the id's bytes in hexadecimal digits, the row's
    codes, and how many rows with these come before it.
    """
    codes = list(zip(*codes_of(DOMAIN, table.select(DOMAIN.names)), strict=True))
    used = {}
    for name, own in persons(table).items():
        size, copies, luck = min(most, len(own)), defaultdict(int), []
        for row in own:
            key = (*map(int, codes[row]), size - 1)
            parts = [name.encode().hex(), *map(str, key), str(copies[key])]
            copies[key] += 1
            luck.append((hashlib.md5(" ".join(parts).encode()).hexdigest(), row))
        used[name] = [row for _, row in sorted(luck)[:most]]
    return used


def noise_inputs(source: Any, order: Workload | int = 3, **options: Any) -> list[tuple[Any, ...]]:
    """All that reaches the noise, which adds next to none, over a whole release of people."""
    noise = FakeNoise(offset=lambda values, _: values + np.arange(len(values)) % 3)
    choices = {"privacy_id": "who", "people": True, "sample_seed": 1, **options}
    make(Request.of(source, order, **choices), noise=noise)
    return [(c.method, np.asarray(c.values).tolist(), c.scale) for c in noise.calls]


MOST = 5
VERBS: dict[str, tuple[Workload | int, dict[str, Any]]] = {
    "marginals at once": (2, {}),
    "marginals in rounds": (2, {"rounds": 4, "max_cells": 400}),
    "single columns": (1, {}),
    "cube": (Workload.cube("word", "age", "member", order=2), {"rounds": 3}),
    "ranges": (Workload.ranges("age", "day"), {"rounds": 3}),
    "label": (Workload.label("word"), {"rounds": 3}),
    "one marginal": (Workload.of([("word", "day")]), {"person_columns": ["word"]}),
    "certificate": (2, {"certificate": 0.1}),
    "certificate of a cube": (Workload.cube("word", "age", order=2), {"certificate": 0.1}),
    "certificate of ranges": (Workload.ranges("age"), {"certificate": 0.1, "delta": 0.0}),
    "mwem": (2, {"engine": "mwem", "rounds": 3}),
    "mwem, ranges": (Workload.ranges("age", "day"), {"engine": "mwem", "rounds": 3}),
    "mwem, cube": (Workload.cube("word", "age", order=2), {"engine": "mwem", "rounds": 3}),
    "mwem, label, certificate": (
        Workload.label("word"),
        {"engine": "mwem", "rounds": 3, "certificate": 0.1},
    ),
    "order": (2, {"order_by": "day", "rounds": 3}),
    "learnt domain": (2, {"domain": None, "rounds": 3, "epsilon": 50.0}),
}
OPTIONS: dict[str, Any] = {"domain": DOMAIN, "contributions": MOST, "epsilon": 5.0}


def inputs_of_verb(source: Any, verb: str) -> list[tuple[Any, ...]]:
    """All that reaches the noise where this is asked of people who have up to MOST rows."""
    asked, more = VERBS[verb]
    return noise_inputs(source, asked, **{**OPTIONS, **more})


def every_cell(data: Any, sizes: Sequence[int]) -> dict[tuple[int, ...], int]:
    """The whole table of `data`, a Datavectors, without what is zero."""
    from factored_mwem.tables.backends.datavectors import Axis

    axes = [Axis(i, None, size) for i, size in enumerate(sizes)]
    members = np.arange(len(sizes), dtype=np.int32)[None]
    counts = data.exact_counts(axes, members, np.array([0, int(np.prod(sizes))]))
    found = counts.reshape(sizes)
    return {tuple(int(i) for i in cell): int(found[tuple(cell)]) for cell in np.argwhere(found)}
