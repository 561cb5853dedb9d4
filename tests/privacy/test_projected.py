"""The sealed sums of signs: what a person can move, on all small neighbours; what is charged for it, exactly;
and that forgetting either is seen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import Between, Call, FakeNoise
from support.goodness import gaussian, laplace, log_ratio, renyi
from support.tables import every_unit

from factored_mwem.accounting.accountant import Accountant, Budget, Mechanism
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.privacy.other.projected import PrivateProjection, Projected, measure_by_laplace
from factored_mwem.privacy.session import Session
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.inputs.text_form import Reading
from factored_mwem.workload.projection import Hashed, Listed, Projection

PURE, ZCDP = Composition.PURE, Composition.ZCDP
KEYS = ("a", "b", "c", "d")
BUDGET = {
    PURE: Budget(1.0, 0.0, PURE, Fraction(1), Fraction(0)),
    ZCDP: Budget(1.0, 1e-9, ZCDP, Fraction(1, 50), Fraction(0)),
}
Rows = tuple[str | None, ...]


def members() -> list[Projection]:
    """Four hashes of four rows over four keys: two that give two keys opposite columns, and two others."""
    rng, keys = np.random.default_rng(0), np.arange(3, dtype=np.uint64)
    found: dict[bool, list[Projection]] = {True: [], False: []}
    while min(map(len, found.values())) < 2:
        projection = Projection.of(4, 1, 4, 2, rng.bytes(64))
        columns = projection.signs(keys).astype(np.int64)
        found[bool((columns @ columns.T).min() == -4)].append(projection)
    return found[True][:2] + found[False][:2]


MEMBERS = members()


def sealed(rows: Rows, projection: Projection, column: str = "key") -> PrivateProjection:
    table = open_source(pa.table({column: pa.array(rows, pa.string())}))
    return PrivateProjection.of(table, column, Listed(KEYS), projection)


def sums(rows: Rows, projection: Projection) -> np.ndarray:
    return sealed(rows, projection).reveal().exact(())


def neighbours(unit: Unit) -> Iterator[tuple[Rows, Rows]]:
    """Others' rows, and a person of up to k rows (some without a listed key) who comes, or is exchanged."""
    values = (*KEYS[:3], None, "?")
    people = [
        p for n in range(unit.contributions + 1) for p in itertools.combinations_with_replacement(values, n)
    ]
    leaving = people if unit.neighbours is Neighbours.REPLACE else [()]
    for one, other in itertools.product(leaving, people):
        yield ("a", "b", "b", None, *one), ("a", "b", "b", None, *other)


def check_sensitivity(unit: Unit) -> None:
    """No pair moves further than is charged, under any hash, and one moves as far."""
    most = {PURE: 0, ZCDP: 0}
    for projection in MEMBERS:
        table = {r: sums(r, projection) for r in {rows for pair in neighbours(unit) for rows in pair}}
        for one, other in neighbours(unit):
            moved = np.abs(table[one] - table[other])
            most[PURE] = max(most[PURE], int(moved.sum()))
            most[ZCDP] = max(most[ZCDP], int((moved**2).sum()))
    private = sealed(("a",), MEMBERS[0])
    assert most == {kind: private.sensitivity((), unit, kind) for kind in most}


@every_unit
def test_a_person_moves_the_sums_by_what_is_charged(unit: Unit) -> None:
    check_sensitivity(unit)


def test_the_sensitivity_is_that_of_the_theory() -> None:
    private = sealed((), MEMBERS[0])
    for k in (1, 3):
        add, swap = Unit(contributions=k), Unit(Neighbours.REPLACE, k)
        assert [private.sensitivity((), add, kind) for kind in (PURE, ZCDP)] == [4 * k, 4 * k**2]
        assert [private.sensitivity((), swap, kind) for kind in (PURE, ZCDP)] == [8 * k, 16 * k**2]


def test_a_forgotten_exchange_or_contribution_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bugs: an exchange counted as one row's move, and k rows as one."""
    with monkeypatch.context() as patch:
        patch.setattr(Unit, "of_parity", property(lambda u: u.contributions))
        check_sensitivity(Unit())
        with pytest.raises(AssertionError):
            check_sensitivity(Unit(Neighbours.REPLACE))
    monkeypatch.setattr(Unit, "of_parity", property(lambda _: 1))
    with pytest.raises(AssertionError):
        check_sensitivity(Unit(contributions=2))


def drawn(rows: Rows, projection: Projection, unit: Unit, kind: str, factor: float) -> tuple[Call, Fraction]:
    """What reached the sampler, and what was charged."""
    composition = PURE if kind == "pure" else ZCDP
    fake = FakeNoise(PURE if kind == "printed" else composition)
    ledger = Accountant(BUDGET[composition])
    session = Session(ledger, unit, Between(fake, factor))
    private = sealed(rows, projection)
    if kind == "printed":
        measure_by_laplace(session, private, cost=ledger.budget.amount)
    else:
        session.measure(private, (), cost=ledger.budget.amount)
    (call,) = fake.calls
    return call, ledger.spent


def check_price(unit: Unit, kind: str, factor: float = 1.0) -> None:
    """Exact loss of the noise on all neighbours: log ratio within epsilon, or divergence within rho."""
    worst = 0.0
    for projection in MEMBERS:
        pairs = list(neighbours(unit))
        seen = {
            r: drawn(r, projection, unit, kind, factor) for r in {rows for pair in pairs for rows in pair}
        }
        ((scale, cost),) = {(call.scale, cost) for call, cost in seen.values()}
        for one, other in pairs:
            moves = np.abs(seen[one][0].values - seen[other][0].values)  # type: ignore[operator]
            if kind == "pure":
                loss = sum(log_ratio(laplace, scale, int(d)) for d in moves) / float(cost)
            else:
                pmf = gaussian if kind == "gaussian" else laplace
                loss = max(
                    sum(renyi(pmf, scale, int(d), order) for d in moves) / (order * float(cost))
                    for order in (1.01, 2.0, 8.0)
                )
            worst = max(worst, loss)
    assert worst <= 1 + 1e-6
    assert worst > 0.9


@pytest.mark.parametrize("unit", [Unit(), Unit(Neighbours.REPLACE)], ids=str)
@pytest.mark.parametrize("kind", ["gaussian", "pure", "printed"])
def test_what_is_drawn_is_paid_for_on_all_neighbours(unit: Unit, kind: str) -> None:
    check_price(unit, kind)


@pytest.mark.parametrize("kind", ["gaussian", "pure", "printed"])
def test_half_the_noise_is_seen(kind: str) -> None:
    with pytest.raises(AssertionError):
        check_price(Unit(), kind, factor=0.5)
    with pytest.raises(AssertionError):
        check_price(Unit(), kind, factor=1.2)  # and noise that nobody needs


def test_printed_noise_costs_rho_as_a_gaussian_of_its_scale() -> None:
    ledger, fake = Accountant(BUDGET[ZCDP]), FakeNoise(PURE)
    session = Session(ledger, Unit(contributions=3), fake)
    found = measure_by_laplace(session, sealed(("a",), MEMBERS[0]), cost=Fraction(1, 50))
    (entry,) = ledger.entries
    assert (entry.mechanism, entry.sensitivity, entry.target) == (Mechanism.LAPLACE_IN_RHO, 36, ("key",))
    assert entry.scale == pytest.approx(math.sqrt(36 * 50 / 2), rel=1e-11)
    assert found.scale.stddev == pytest.approx(math.sqrt(2) * entry.scale)
    with pytest.raises(AssertionError, match="another kind"):
        measure_by_laplace(
            Session(Accountant(BUDGET[ZCDP]), Unit(), FakeNoise(ZCDP)),
            sealed((), MEMBERS[0]),
            cost=Fraction(1, 50),
        )


HOSTILE = (
    b'"', b'""a"', b"a,b", b"\xff\xfe", b"a\x00b", b"\xed\xa0\x80", b"a" * 70_000, b"", b" a", b"=1+1", b"\\",
    b"a\r",
)  # fmt: skip


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_a_line_of_hostile_bytes_changes_its_own_signs_alone(line: bytes, tmp_path: object) -> None:
    projection = Projection.of(8, 1, 4, 64, bytes(range(64)))
    others = [b"a", b"b", b"a", b"c"]

    def read(lines: list[bytes]) -> np.ndarray:
        path = tmp_path / "t.csv"  # type: ignore[operator]
        path.write_bytes(b"\n".join([b"key", *lines]) + b"\n")
        source = open_source(path, Reading("lines", names=["key"]))
        return PrivateProjection.of(source, "key", Hashed(b"k" * 16), projection).reveal().exact(())

    before = read(others)
    for at in (0, 2, 4):
        moved = np.abs(read([*others[:at], line, *others[at:]]) - before)
        assert set(moved.tolist()) in ({1}, {0})  # a key's column, or, without a key, nothing


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["1", "2", None, "", "2"]),
        pa.array(["1", "2", None, "", "2"]).dictionary_encode(),
        pa.array([1, 2, None, None, 2]),
        pa.array([1, 2, None, None, 2], pa.uint64()),
    ],
    ids=["text", "dictionary", "integers", "unsigned"],
)
def test_the_same_keys_of_any_type_have_the_same_sums(column: pa.Array) -> None:
    projection, universe = Projection.of(8, 1, 4, 64, bytes(range(64))), Hashed(b"k" * 16)
    found = PrivateProjection.of(open_source(pa.table({"x": column})), "x", universe, projection)
    keys = np.array([universe.number("1"), universe.number("2")], dtype=np.uint64)
    assert found.reveal().exact(()).tolist() == projection.project(keys, np.array([1, 2])).tolist()


def test_values_that_share_a_text_are_added_up() -> None:
    """A dictionary would keep the last of them, and a record could move the sums by the other's count."""
    profile = ColumnProfile()
    profile.add(pa.array(["a"] * 5))

    class Twice(ColumnProfile):
        def keys(self) -> tuple[list[str], np.ndarray]:
            return ["a", "a"], np.array([5, 1])

    found = Projected(Twice(), Listed(KEYS), MEMBERS[0]).exact(())
    assert found.tolist() == sums(("a",) * 6, MEMBERS[0]).tolist()
