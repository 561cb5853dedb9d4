"""Rows as codes, in memory or in files without a name; marginals counted by way of wider or finer ones."""

from __future__ import annotations

import itertools
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fakes import FakeNoise
from support.rows import codes_in

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import Busy
from factored_mwem.pipeline.release import make
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.rows import Rows
from factored_mwem.request.request import Request
from factored_mwem.tables.backends import codes as coding
from factored_mwem.tables.backends import counting, cover
from factored_mwem.tables.backends.codes import Codes, encode_table
from factored_mwem.tables.backends.datavectors import Axis, CountedOnce
from factored_mwem.tables.backends.local import Local
from factored_mwem.tables.backends.source import Spill
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.workload.workload import Workload

DOMAIN = Domain.from_dict({"a": 3, "b": 300, "c": 2, "d": 5})


def table_of(rows: int) -> pa.Table:
    rng = np.random.default_rng(rows)
    columns = {a.name: rng.integers(0, a.size, rows) for a in DOMAIN}
    return pa.table({name: pa.array(codes.astype(str)) for name, codes in columns.items()})


def batches_of(table: pa.Table, rows: int) -> Local:
    parts = pa.Table.from_batches(table.to_batches(max_chunksize=rows) or [], schema=table.schema)
    return Local(open_table(parts))


# ---- where codes lie


@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
@pytest.mark.parametrize("most", [0.0, 40.0, 4000.0])
def test_codes_in_files_are_those_in_memory(
    rows: int, most: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coding, "CHUNK_ROWS", 64)
    table = batches_of(table_of(rows), 90).table  # in parts, some of them before it spills
    inside, outside = encode_table(DOMAIN, table), encode_table(DOMAIN, table, most, tmp_path)
    for one, other in zip(inside.columns, outside.columns, strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    spilled = rows * 5 > most  # a code of 300 takes two bytes
    assert [isinstance(column, np.memmap) for column in outside.columns] == [spilled and rows > 0] * 4


def test_no_file_has_a_name_even_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    write = coding.write_whole

    def watched(handle: int, part: bytes) -> None:
        write(handle, part)
        seen.append(os.listdir(tmp_path))
        assert os.fstat(handle).st_mode & 0o077 == 0 and os.fstat(handle).st_nlink == 0

    monkeypatch.setattr(coding, "write_whole", watched)
    codes = encode_table(DOMAIN, open_table(table_of(100)), 0.0, tmp_path)
    assert len(seen) == 4 and not any(seen) and len(codes.columns[0]) == 100


@pytest.mark.parametrize("folder", [None, "named"])
def test_a_full_disk_is_one_line_that_names_the_folder(
    folder: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, data: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    where = tmp_path if folder else None
    with pytest.raises(Busy, match="No space left on device; free some space, or name another") as told:
        encode_table(DOMAIN, open_table(table_of(10)), 0.0, where)
    assert str(tmp_path if folder else tempfile.gettempdir()) in str(told.value)
    assert told.value.__context__ is None


def test_parts_are_let_go_as_they_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes are in memory once: while one column is joined, the parts of those before it are gone."""
    monkeypatch.setattr(coding, "CHUNK_ROWS", 8)
    store = coding._Store(DOMAIN, math.inf, None)
    for _ in range(3):
        store.add([np.zeros(10, kind) for kind in (np.uint8, np.uint16, np.uint8, np.uint8)])
    left = []
    for column in store.columns():
        left.append(sum(map(len, store._parts)))
        assert len(column) == 30
    assert left == [12, 8, 4, 0]


# ---- one fit, whatever holds the rows


class Counted(Codes):
    """Codes that say how often they were passed over; `dear` as asked."""

    passes = 0
    __slots__ = ()

    def exact_counts(self, axes: Sequence[Axis], members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        type(self).passes += 1
        return super().exact_counts(axes, members, offsets)


ASKED = {
    "rounds": ({"epsilon": 3.0}, Workload.marginals(3)),
    "with a sweep": ({"epsilon": 300.0}, Workload.marginals(2)),
    "ranges": ({"epsilon": 3.0}, Workload.marginals(2) + Workload.ranges("b")),
    "dense": ({"epsilon": 3.0, "engine": "mwem", "rounds": 4}, Workload.marginals(2)),
    "replace": ({"epsilon": 3.0, "neighbours": "replace"}, Workload.marginals(2)),
}


def fitted(
    asked: str, monkeypatch: pytest.MonkeyPatch, spill: float = math.inf, *, dear: bool = False
) -> tuple[list[tuple[Any, ...]], int]:
    """(the inputs to the noise, how many passes)."""
    choices, workload = ASKED[asked]
    monkeypatch.setattr(Counted, "dear", dear)
    monkeypatch.setattr(Counted, "passes", 0)

    def encoded(self: Local, domain: Domain, room: Spill) -> Codes:
        codes = encode_table(domain, self.table, spill)
        return Counted(codes.columns, codes.sizes)

    monkeypatch.setattr(Local, "encoded", encoded)
    rng, noise = np.random.default_rng(3), FakeNoise()
    hidden = rng.integers(0, 3, 4000)
    columns = {a.name: (hidden * 7 + rng.integers(0, 1 + a.size // 2, 4000)) % a.size for a in DOMAIN}
    table = pa.table({name: pa.array(codes.astype(str)) for name, codes in columns.items()})
    domain = DOMAIN
    if workload.asked:
        fields = [{"name": a.name, "type": "integer", "edges": [*range(a.size + 1)]} for a in DOMAIN]
        domain, table = Domain.from_dict({"fields": fields}), pa.table(columns)
    make(Request.of(table, workload, domain=domain, rows=1, sample_seed=1, **choices), noise=noise)
    return [(call.method, np.asarray(call.values).tolist()) for call in noise.calls], Counted.passes


@pytest.mark.slow
@pytest.mark.usefixtures("in_rounds")
@pytest.mark.parametrize("asked", ASKED)
def test_noise_gets_the_same_inputs_whatever_holds_rows(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory and in mapped files two passes do, whatever the rounds; where a pass is dear, one."""
    reference, passes = fitted(asked, monkeypatch)
    assert len(reference) > 5 and passes == 2
    assert fitted(asked, monkeypatch, spill=0.0) == (reference, 2)
    assert fitted(asked, monkeypatch, dear=True) == (reference, 1)


def test_views_that_are_no_candidates_are_counted_with_them() -> None:
    """In the same pass, whatever their order among the candidates."""
    rng, shape = np.random.default_rng(5), (3, 4, 2, 5)
    codes = [rng.integers(0, s, 300).astype(np.uint8) for s in shape]
    domain = Domain.from_dict(dict(zip("abcd", shape, strict=True)))
    pairs = Workload.marginals(2).candidates(domain)
    counts = PrivateRows.coded(codes, domain).count(pairs, [(0, 1, 3), (1, 2), (0, 2, 3)]).reveal()
    straight = Rows.coded(codes, shape)
    assert sorted(counts.also) == [(0, 1, 3), (0, 2, 3)]
    counts.data = None  # nothing is counted from here on
    for view in [(0, 1, 3), (1, 2), (0, 2, 3), (2, 3), (1,), ()]:
        assert np.array_equal(counts.marginal(view), straight.marginal(view)), view


# ---- wider marginals


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_marginals_by_way_of_wider_ones_are_the_same(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 7, 40, 300]), min_size=2, max_size=8))
    seed, rows = data.draw(st.integers(0, 2**16)), data.draw(st.sampled_from([0, 1, 63, 500]))
    top = data.draw(st.integers(1, 3))
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, rows).astype(np.uint16) for size in sizes]
    sets = [s for k in range(1, top + 1) for s in itertools.combinations(range(len(sizes)), k)]
    sets = [s for s in sets if rng.random() < 0.8] or sets
    members = np.array([s + (-1,) * (top - len(s)) for s in sets], dtype=np.int32)
    cells = np.append(sizes, 1)[members].prod(axis=1)
    if cells.sum() > 2**22:
        return
    offsets = np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)
    alone = counting.count_all(columns, np.array(sizes), members, offsets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cover, "MIN_ROWS", 0)
        patch.setattr(cover, "WORTH", 1.0)
        patch.setattr(cover, "BATCH_CELLS", data.draw(st.sampled_from([1, 1000, 2**22])))
        assert np.array_equal(counting.count_all(columns, np.array(sizes), members, offsets), alone)


def test_a_cover_holds_every_marginal_and_is_smaller() -> None:
    """All triples of 20 columns: about a quarter as many wider ones, none above its cells."""
    sizes = np.array([2, 2, 3, 4, 5, 5, 6, 8, 10, 10, 12, 16, 20, 20, 24, 32, 40, 50, 63, 100])
    members = np.array(list(itertools.combinations(range(20), 3)), dtype=np.int32)
    found = cover.cover_of(sizes, members, np.arange(len(members)), cover.MIN_ROWS)
    assert found is not None and len(found.wide) < 0.3 * len(members)
    assert sorted([*found.held.tolist(), *found.alone.tolist()]) == list(range(len(members)))
    for marginal, owner in zip(found.held.tolist(), found.owner.tolist(), strict=True):
        assert set(members[marginal].tolist()) <= set(found.wide[owner].tolist())
    assert np.append(sizes, 1)[found.wide].prod(axis=1).max() <= cover.MAX_CELLS
    assert cover.cover_of(sizes, members, np.arange(len(members)), cover.MIN_ROWS - 1) is None


def test_marginals_that_are_wide_enough_need_no_wider_ones() -> None:
    """Seen to fail: where all of them are, as pairs of 300 codes."""
    sizes, members = np.array([300, 300, 300]), np.array([[0, 1], [0, 2], [1, 2]], dtype=np.int32)
    assert cover.cover_of(sizes, members, np.arange(3), cover.MIN_ROWS) is None


# ---- finer marginals


def test_held_marginals_at_any_level_and_in_any_order() -> None:
    """Also over recoded columns, and for marginals that nobody held."""
    rng, shape = np.random.default_rng(1), (4, 6, 3)
    rows = Codes([rng.integers(0, s, 500).astype(np.uint8) for s in shape], shape)
    recode, coarse = np.array([2, 0, 1, 1, 0, 2], np.uint32), np.array([0, 1, 1], np.uint32)
    axes = [Axis(2, None, 3), Axis(1, recode, 3), Axis(0, None, 4)]
    held = CountedOnce(rows, axes, np.array([[0, -1], [1, -1], [2, -1], [0, 1], [1, 2]], dtype=np.int32))
    own = [Axis(0, None, 3), Axis(1, None, 3), Axis(1, coarse, 2), Axis(2, None, 4), Axis(0, coarse, 2)]
    straight = [Axis(2, None, 3), Axis(1, recode, 3), Axis(1, coarse[recode], 2)]
    straight += [Axis(0, None, 4), Axis(2, coarse, 2)]
    members = np.array([[0, 1, -1], [2, 4, -1], [2, -1, -1], [3, 2, -1], [0, 3, -1], [4, 2, 3]], np.int32)
    cells = np.append([axis.size for axis in own], 1)[members].prod(axis=1)
    offsets = np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)
    assert held.sizes == (3, 3, 4)
    wanted = rows.exact_counts(straight, members, offsets)
    assert np.array_equal(held.exact_counts(own, members, offsets), wanted)


def test_rows_recoded_twice_are_recoded_by_both() -> None:
    domain = Domain.from_dict({"a": 3, "b": 4})
    rows = PrivateRows.coded([np.array([0, 1, 2], np.uint8), np.array([3, 0, 1], np.uint8)], domain)
    once = rows.recode(
        Domain.from_dict({"b": 3, "a": 2}), {"a": np.array([1, 0, 1]), "b": np.array([0, 2, 1, 1])}
    )
    twice = once.recode(Domain.from_dict({"b": 2}), {"b": np.array([1, 0, 1])})
    assert [c.tolist() for c in codes_in(once)] == [[1, 0, 2], [1, 0, 1]]
    assert codes_in(twice)[0].tolist() == [0, 1, 1]
    assert twice.reveal().marginal((0,)).tolist() == [1, 2]
