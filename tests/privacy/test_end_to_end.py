"""With every noisy answer forced equal, neighbours give identical bytes; and the check sees each way past
the noise.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise
from support.marks import others_slow
from support.releases import check_nothing_leaks, engines, published, run, script
from support.tables import SMALL, WIDE, as_text, small_table

from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.mechanisms import mwem
from factored_mwem.mechanisms import tree as engine
from factored_mwem.model import estimation as estimate
from factored_mwem.model.dense import Factor
from factored_mwem.pipeline import release as flow
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.session import Measurement, Session
from factored_mwem.request.policy import Policy
from factored_mwem.tables.backends import local as source
from factored_mwem.tables.backends.codes import Codes
from factored_mwem.tables.inputs.source import Table


@pytest.mark.parametrize(
    ("relation", "domain"),
    others_slow(
        itertools.product(Neighbours, [SMALL, None]),
        lambda case: (case[0] is Neighbours.REPLACE) == (case[1] is SMALL),
    ),
)
@pytest.mark.parametrize(
    "choices",
    [{}, {"rounds": 5}, {"contributions": 2}, {"delta": 0.0}]
    + [
        {"engine": "mwem", **more}
        for more in ({}, {"rounds": "adaptive"}, {"contributions": 2}, {"delta": 0.0})
    ],
    ids=str,
)
def test_neighbours_with_the_same_noisy_answers_give_the_same_bytes(
    relation: str, domain: Domain | None, choices: dict[str, Any], tmp_path: Path
) -> None:
    """Model, manifest, measurements, Parquet and its statistics, CSV: nothing gets in but by the noise."""
    if domain is None and choices.get("delta") == 0:
        pytest.skip("refused")
    check_nothing_leaks(tmp_path, relation, domain, **choices)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_text_neighbours_give_the_same_bytes(relation: str, tmp_path: Path) -> None:
    """Kinds and nulls are learnt by vote; one row holds the only gaps and the only odd values."""
    rows = small_table(2000)
    odd = pa.table({"age": [None], "colour": [None], "owns": [None], "score": [1e300]}).cast(rows.schema)
    with_odd = pa.concat_tables([odd, rows.slice(1 if relation == "replace" else 0)])
    policy, first = Policy.of(neighbours=relation), FakeNoise()
    ours = published(run(as_text(rows), policy, first, domain=None), tmp_path, "ours")
    assert ours == published(run(as_text(with_odd), policy, script(first), domain=None), tmp_path, "theirs")


def test_typed_input_with_metadata_of_its_own_leaks_nothing(tmp_path: Path) -> None:
    """pandas writes the number of rows into the schema's metadata; users write more. None comes out."""
    table = small_table(50)
    noted = table.replace_schema_metadata(
        {b"pandas": b'{"index_columns": [{"kind": "range", "stop": 50}]}', b"note": b"CANARY"}
    )
    noted = noted.cast(
        pa.schema([f.with_metadata({b"k": b"CANARY"}) for f in noted.schema], metadata=noted.schema.metadata)
    )
    release = run(noted, Policy.of(), FakeNoise())
    assert set(release.schema.metadata or {}) == set() and all(not f.metadata for f in release.schema)
    assert all(b"CANARY" not in content for content in published(release, tmp_path, "out").values())


@engines
def test_the_end_to_end_check_catches_true_n_for_noisy_n(
    engine_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unit, "total_is_public", property(lambda _: True))
    with pytest.raises(AssertionError):
        check_nothing_leaks(tmp_path, "add-remove", SMALL, engine=engine_)


def test_the_end_to_end_check_catches_true_n_in_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    encode, describe = source.encode_table, flow.describe

    def counting(domain: Domain, table: Table, *more: Any) -> Codes:
        codes = encode(domain, table, *more)
        rows.append(len(codes.columns[0]))
        return codes

    monkeypatch.setattr(source, "encode_table", counting)
    monkeypatch.setattr(
        flow, "describe", lambda *a, **k: describe(*a, **k).model_copy(update={"estimated_rows": rows[-1]})
    )
    with pytest.raises(AssertionError):
        check_nothing_leaks(tmp_path, "add-remove", SMALL)
    rows.clear()
    check_nothing_leaks(tmp_path / "public", "replace", SMALL)  # there n is public: the plant is none


@pytest.mark.usefixtures("in_rounds")
@engines
def test_the_end_to_end_check_catches_bounds_read_off_the_data(
    engine_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the model starts from the true one-way marginals."""
    start = mwem.from_histogram
    true: list[np.ndarray] = []

    measure = Session.measure

    def peeking(
        self: Session, rows: PrivateRows, variables: tuple[int, ...], *, cost: Fraction
    ) -> Measurement:
        true.append(rows.reveal().marginal(variables))
        return measure(self, rows, variables, cost=cost)

    def from_truth(factor: Factor, noisy: np.ndarray, _: float) -> Factor:
        return start(factor, next(t for t in reversed(true) if len(t) == len(noisy)), 1.0)

    monkeypatch.setattr(Session, "measure", peeking)
    monkeypatch.setattr(mwem if engine_ == "mwem" else estimate, "from_histogram", from_truth)
    with pytest.raises(AssertionError):
        check_nothing_leaks(tmp_path, "replace", SMALL, engine=engine_)


@pytest.mark.usefixtures("in_rounds")
def test_the_end_to_end_check_catches_levels_read_off_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: groups of equal mass from the true counts in place of the noisy ones. One row moves a cut
    where it lies on one.
    """
    found = engine.measure_singles

    def peeking(session: Session, *rest: Any) -> Any:
        singles = found(session, *rest)
        true.append([session.rows.reveal().marginal(m.positions) for m in singles])
        return singles

    def with_truth(noisy: np.ndarray, *rest: Any, **named: Any) -> Any:
        return engine_coarsen(next(t for t in true[-1] if len(t) == len(noisy)) % 7, *rest, **named)

    true: list[list[np.ndarray]] = []
    engine_coarsen = engine.coarsen
    monkeypatch.setattr(engine, "measure_singles", peeking)
    monkeypatch.setattr(engine, "coarsen", with_truth)
    with pytest.raises(AssertionError):
        check_nothing_leaks(tmp_path, "replace", WIDE)
    monkeypatch.undo()
    check_nothing_leaks(tmp_path / "sound", "replace", WIDE)
