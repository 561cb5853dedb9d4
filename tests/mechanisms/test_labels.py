"""A label that hardly any row has: without being asked for it is left alone, asked for it is joined with each
other column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise

from factored_mwem.backends.source import open_source
from factored_mwem.domain.domain import Domain
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.policy import Policy
from factored_mwem.request import Request
from factored_mwem.workload.workload import Workload

OTHERS = tuple(f"a{i}" for i in range(6))
DOMAIN = Domain.from_dict(dict.fromkeys(OTHERS, 4) | {"rare": 2, "lone": 3})


def people(rows: int = 20_000) -> pa.Table:
    """Six columns that go together, a flag that 3 % have, all of one kind, and a column of chance."""
    rng = np.random.default_rng(2)
    kind = rng.integers(0, 4, rows)
    rare = (kind == 3) & (rng.random(rows) < 0.12)
    columns = {name: np.where(rng.random(rows) < 0.5, kind, rng.integers(0, 4, rows)) for name in OTHERS}
    return pa.table(columns | {"rare": rare.astype(np.int64), "lone": rng.integers(0, 3, rows)})


def made(asked: Workload, **choices: Any) -> Release:
    """As many rounds as columns that go with the flag; the best score wins, and answers are exact."""
    policy = Policy.of(epsilon=10.0, rounds=len(OTHERS), **choices)
    noise = FakeNoise(policy.budget(learn_domain=False).composition)
    return make(Request(open_source(people()), asked, policy, DOMAIN, None, None, 1), noise=noise)


def joined_with_rare(release: Release) -> set[str]:
    """The columns in a measured marginal with the flag."""
    of, at = release.model.levels.attribute, DOMAIN.index("rare")
    views = [{int(of[v]) for v in m.positions} for m in release.measurements]
    return {DOMAIN.names[a] for view in views if at in view for a in view} - {"rare"}


@pytest.mark.parametrize("order", [2, 3])
def test_a_label_far_from_all_others_is_joined_with_each(order: int) -> None:
    """That it is far is seen without a weight: the rounds go to others, as a label of weight 1 asks for no
    more than all pairs do.
    """
    plain = Workload.marginals(order)
    assert (
        joined_with_rare(made(plain))
        == joined_with_rare(made(plain + Workload.label("rare", weight=1.0)))
        == set()
    )
    release = made(plain + Workload.label("rare"))
    assert joined_with_rare(release) >= set(OTHERS)


def test_a_label_alone_is_joined_with_each() -> None:
    assert joined_with_rare(made(Workload.label("rare"))) >= set(OTHERS)


def test_a_label_comes_out_right() -> None:
    """The flag's share by another column: as in the table where the label is asked for, else alike in all."""
    table = people()
    code, rare = (np.asarray(table[name]) for name in ("a0", "rare"))
    true = [rare[code == k].mean() for k in range(4)]
    shares = {}
    for name, asked in (("label", Workload.label("rare")), ("none", Workload())):
        release = made(Workload.marginals(2) + asked)
        cells = release.model.marginal((DOMAIN.index("a0"), DOMAIN.index("rare"))).reshape(4, 2)
        shares[name] = cells[:, 1] / cells.sum(axis=1)
    assert np.allclose(shares["label"], true, atol=0.002)
    assert np.ptp(shares["none"]) < 0.002 < 0.02 < np.ptp(true)


def test_the_dense_engine_asks_of_a_label_first() -> None:
    release = made(Workload.marginals(2) + Workload.label("rare"), engine="mwem")
    asked = [question.question for question in release.manifest.questions]
    assert len(asked) == len(OTHERS) and all("rare" in words.split(" x ") for words in asked)
    plain = made(Workload.marginals(2), engine="mwem")
    assert joined_with_rare(plain) == set()
