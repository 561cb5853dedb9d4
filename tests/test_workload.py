"""What is asked for and what may be measured for it: counted by hand, and refused before it hurts."""

from __future__ import annotations

import itertools
import math
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from naive import closure

from factored_mwem.domain import Domain
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.workload import MAX_CANDIDATES, Workload


def domain_of(*shape: int) -> Domain:
    return Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)})


def positions_of(workload: Workload, domain: Domain) -> list[tuple[int, ...]]:
    candidates = workload.candidates(domain)
    return [candidates.positions(c) for c in range(len(candidates))]


@pytest.mark.parametrize("seed", range(20))
def test_candidates_are_the_targets_and_all_inside_them(seed: int) -> None:
    """Each once, whether it comes from an order, a name, or both; names in any order and doubled."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 7))
    domain = domain_of(*rng.integers(1, 5, size=d).tolist())
    orders = [int(rng.integers(1, d + 1)) for _ in range(rng.integers(0, 3))]
    cliques = [rng.integers(0, d, size=rng.integers(1, d + 2)).tolist() for _ in range(rng.integers(0, 4))]
    if not orders and not cliques:
        orders = [1]
    workload = Workload.of([[f"a{p}" for p in clique] for clique in cliques])
    for order in orders:
        workload = workload + Workload.marginals(order)
    targets = {tuple(sorted(set(c))) for c in cliques} | {s for order in orders for s in itertools.combinations(range(d), order)}
    found = positions_of(workload, domain)
    assert len(found) == len(set(found)) and set(found) == closure(targets)


def test_sizes_cells_and_orders() -> None:
    domain = domain_of(2, 1, 5, 3)
    candidates = Workload.of([("a3", "a0", "a1")]).candidates(domain)
    assert candidates.members.dtype == np.int32
    for c in range(len(candidates)):
        positions = candidates.positions(c)
        padding = 3 - len(positions)
        assert candidates.members[c].tolist() == [*positions, *[-1] * padding]
        assert candidates.sizes[c].tolist() == [domain.shape[p] for p in positions] + [1] * padding
        assert candidates.cells[c] == math.prod(domain.shape[p] for p in positions)
        assert candidates.orders[c] == len(positions)
        assert candidates.clique(c) == tuple(domain.names[p] for p in positions)


def test_a_huge_marginal_has_a_huge_number_of_cells() -> None:
    """12 attributes of 10,000 values: 10^48 does not fit 64 bits, and must not wrap round to something that looks small."""
    candidates = Workload.of([[f"a{i}" for i in range(12)]]).candidates(domain_of(*[10_000] * 12))
    assert candidates.cells.max() == pytest.approx(1e48)


def test_keep_takes_a_mask() -> None:
    candidates = Workload.marginals(2).candidates(domain_of(2, 3, 4))
    kept = candidates.keep(candidates.cells <= 6)
    assert [kept.positions(c) for c in range(len(kept))] == [(0,), (1,), (2,), (0, 1)]
    assert kept.domain is candidates.domain and kept.cells.tolist() == [2, 3, 4, 6]


# ---- files


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("w.toml", 'marginals = 2\ncliques = [["a0", "a1", "a2"]]\n'),
        ("w.json", '{"marginals": 2, "cliques": [["a0", "a1", "a2"]]}'),
    ],
)
def test_load_reads_toml_and_json(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert Workload.load(path) == Workload.load(str(path)) == Workload(orders=(2,), named=(("a0", "a1", "a2"),))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("w.toml", "marginal = 2", "marginal: Extra inputs are not permitted"),
        ("w.json", '{"marginals": 2, "epsilon": 1}', "epsilon: Extra inputs"),
        ("w.toml", "marginals = 0", "marginals.0: .*greater than 0"),
        ("w.toml", 'marginals = "two"', "marginals: "),
        ("w.toml", "cliques = [[]]", "lists an empty marginal"),
        ("w.json", '{"cliques": ["age"]}', "cliques.0: "),
        ("w.json", "[1]", "w.json: "),
        ("w.json", "{", "not a workload file"),
        ("w.toml", "marginals", "not a workload file"),
        ("w.toml", "\udcff", "not a workload file"),
    ],
)
def test_load_refuses_in_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=message) as refusal:
        Workload.load(path)
    assert "\n" not in str(refusal.value)


def test_load_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InputError, match="cannot read the workload file"):
            Workload.load(path)


def test_an_empty_file_asks_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text("")
    with pytest.raises(InputError, match="the workload is empty"):
        Workload.load(tmp_path / "w.toml").candidates(domain_of(2))


# ---- refusals


@pytest.mark.parametrize("order", [0, -1])
def test_an_order_is_at_least_one(order: int) -> None:
    with pytest.raises(InputError, match="at least one attribute"):
        Workload.marginals(order)


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (Workload(), "the workload is empty"),
        (Workload.marginals(4), "--marginals 4: the table has only 3 attributes"),
        (Workload.of([("a0", "b")]), "'b'"),
        (Workload.of([["a0"] * 21]), "too many parts"),
    ],
)
def test_a_workload_that_does_not_fit_is_refused(workload: Workload, message: str) -> None:
    with pytest.raises(InputError, match=message):
        workload.candidates(domain_of(2, 2, 2))


@pytest.mark.parametrize("d", [600, 20_000])
def test_too_many_candidates_are_refused_at_once(d: int) -> None:
    """From the number of combinations alone: listing 36 million of them would fill the memory first.

    All orders count, not the last only: of 20,000 attributes together there is one, of half of them a number of 6,000 digits.
    """
    names, workload = [f"a{i}" for i in range(d)], Workload.marginals(3 if d == 600 else d)
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(ResourceError, match="lower --marginals"):
        workload.check(names)
    seconds, (_, peak) = time.process_time() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 2 and peak < 10**7


def test_named_cliques_count_towards_the_limit() -> None:
    domain = domain_of(*[2] * 25)
    cliques = [[f"a{i}" for i in c] for c in itertools.islice(itertools.combinations(range(25), 20), 20)]
    assert MAX_CANDIDATES < 20 * 2**20
    with pytest.raises(ResourceError, match="candidate marginals"):
        Workload.of(cliques).candidates(domain)


def test_many_candidates_are_listed_within_bounded_memory() -> None:
    """Half a million pairs: an index of 4 bytes a member, made without a Python object for each."""
    domain, workload = domain_of(*[2] * 1000), Workload.marginals(2)
    tracemalloc.start()
    candidates = workload.candidates(domain)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(candidates) == 1000 + 1000 * 999 // 2
    assert candidates.members[-1].tolist() == [998, 999] and candidates.members[1000].tolist() == [0, 1]
    assert peak < 3 * candidates.members.nbytes
