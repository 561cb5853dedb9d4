"""Releases under noise that a test knows, and all that they publish."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.asked import request_of
from support.fakes import FakeNoise
from support.goodness import exponential, gaussian, laplace, permute_and_flip
from support.rows import private_counts
from support.tables import SMALL, small_table

from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.model.dense import Factor, ProductModel
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.privacy.counts import PrivateCounts
from factored_mwem.privacy.session import Eligible, Session
from factored_mwem.request.policy import Policy
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.workload import Workload

TINY = Domain(
    Attribute(name=n, categories=tuple("xyz"[:s]), constraints={"required": True})
    for n, s in (("a", 2), ("b", 3))
)
CANDIDATES = Workload.marginals(2).candidates(TINY)
BUDGET = {Composition.ZCDP: Budget.of(1.0, 1e-9), Composition.PURE: Budget.of(1.0, 0.0)}
NOISE_PMF = {Composition.ZCDP: gaussian, Composition.PURE: laplace}
CHOICE_PMF = {Composition.ZCDP: exponential, Composition.PURE: permute_and_flip}
both = pytest.mark.parametrize("composition", list(Composition))


@cache
def counts_of(
    rows: tuple[int, ...], domain: Domain = TINY, candidates: Candidates = CANDIDATES
) -> PrivateCounts:
    codes = np.unravel_index(np.array(rows, dtype=np.int64), domain.shape)
    return private_counts([c.astype(np.uint8) for c in codes], candidates)


def models() -> Iterator[ProductModel]:
    """Public models: uniform and skewed, apart and joined, whose answers are no whole numbers."""
    rng = np.random.default_rng(5)
    for total in (1.0, 2.7):
        yield ProductModel.uniform(TINY, total)
        a, b, ab = (rng.dirichlet(np.ones(n)) for n in (2, 3, 6))
        yield ProductModel(TINY, [Factor((0,), (2,), a), Factor((1,), (3,), b)], total)
        yield ProductModel(TINY, [Factor((0, 1), (2, 3), ab)], total)


engines = pytest.mark.parametrize("engine_", ["tree", "mwem"])


PAIRS = Workload.marginals(2)


def run(
    table: Any,
    policy: Policy,
    noise: Any,
    *,
    domain: Domain | None = SMALL,
    columns: list[str] | None = None,
    workload: Workload = PAIRS,
) -> Release:
    return make(
        request_of(open_source(table), workload, policy, domain, columns=columns, sample_seed=1),
        noise=noise,
    )


def script(fake: FakeNoise) -> FakeNoise:
    """A fake that repeats the noisy answers of another run, whatever the table says."""
    picked = iter([c for c in fake.calls if c.method == "select"])
    kept = iter([c for c in fake.calls if c.method == "threshold"])
    return FakeNoise(
        fake.composition,
        winner=lambda scores, scale: int(np.argmax(next(picked).values)),
        answers=fake.given,
        kept=lambda counts, scale, threshold: {k: n for k, n in next(kept).values.items() if n >= threshold},
    )


def published(release: Release, folder: Path, name: str) -> dict[str, bytes]:
    """Every byte that a release gives out."""
    (folder / name).mkdir(parents=True)
    for file in ("out.parquet", "out.csv"):
        release.write(folder / name / file, overwrite=True)
    release.save(folder / name / "model.fmwem")
    return {p.name: p.read_bytes() for p in sorted((folder / name).iterdir())}


def neighbour(table: pa.Table, relation: str) -> pa.Table:
    """One row less, or one row exchanged for a strange one: out of every range, unlisted, null."""
    if relation == "add-remove":
        return table.slice(1)
    strange = pa.table({"age": [10**9], "colour": ["CANARY-mauve"], "owns": [True], "score": [-1e300]}).cast(
        table.schema
    )
    return pa.concat_tables([strange, table.slice(1)])


def check_nothing_leaks(
    folder: Path,
    relation: str,
    domain: Domain | None,
    *,
    workload: Workload = PAIRS,
    offset: Any = 0,
    **choices: Any,
) -> None:
    """Two neighbours, the second given the noisy answers and choices of the first: all that is published,
    offered and charged is the same.
    """
    policy = Policy.of(neighbours=relation, **choices)
    table = small_table(2000)
    first = FakeNoise(policy.budget(learn_domain=domain is None).composition, offset=offset)
    offered: list[list[int]] = []
    select = Session.select

    def noting(self: Session, sealed: Any, answers: Any, eligible: Eligible, **rest: Any) -> int:
        offered.append(eligible.which.tolist())
        return select(self, sealed, answers, eligible, **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "select", noting)
        made = run(table, policy, first, domain=domain, workload=workload)
        ours, rounds = published(made, folder, "ours"), len(offered)
        second = script(first)
        made = run(neighbour(table, relation), policy, second, domain=domain, workload=workload)
        theirs = published(made, folder, "theirs")
    assert len(ours) in (4, 5)
    assert offered[:rounds] == offered[rounds:]
    assert [c.scale for c in first.calls] == [c.scale for c in second.calls]
    # not in the assert: under CI=true pytest would explain how two files differ byte by byte, for hours
    same = ours == theirs
    assert same
    assert any(
        not np.array_equal(a.values, b.values)
        for a, b in zip(first.calls, second.calls, strict=True)
        if a.method == "add"
    )
