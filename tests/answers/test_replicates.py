"""Replicates beside closed forms, and beside the forests and rows that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem.accounting.conversion import Composition
from factored_mwem.answers import bootstrap_table, joint, replicates
from factored_mwem.answers.bootstrap_table import BootstrapTable, Correcting
from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.people import PeopleCounted
from factored_mwem.answers.replicates import Bootstrap, Replicates
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.documents.expected import expected_errors
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.errors import InputError
from factored_mwem.mechanisms.residuals import AtOnce, fit
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.drawing import Drawing
from factored_mwem.model.forest import Component, Forest
from factored_mwem.pipeline.release import release
from factored_mwem.pipeline.result import Release
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement, NoiseScale
from factored_mwem.workload.workload import Workload

SHARES, RECORDS, SCALE = np.array([0.5, 0.3, 0.15, 0.05]), 20_000.0, 30.0


def one_column(composition: Composition = Composition.ZCDP, *, public: bool = False) -> Evidence:
    """A single attribute of four codes, all of them measured once."""
    levels = Levels.fine((4,))
    part = Component.of(CliqueTree(levels, ((0,),), ()), SHARES.copy())
    noisy = np.rint(SHARES * RECORDS).astype(np.int64)
    measured = [Measurement((0,), noisy, NoiseScale(SCALE, composition))]
    forest = Forest(levels, [part], RECORDS)
    return Evidence(Domain.from_dict({"a": 4}), forest, measured, [], public, "tree")


CELLS = QueryTerms((0,), (np.eye(4),), 4)


def variances(evidence: Evidence, count: int) -> tuple[np.ndarray, np.ndarray]:
    """float64[4] of each cell: about the table, and about those whom it is a sample of."""
    made = Replicates(evidence, Bootstrap(evidence, 3, count).all())
    return made.errors(CELLS, False).var(axis=0), made.errors(CELLS, True).var(axis=0)


def as_expected(evidence: Evidence, noise: float, count: int = 2000) -> bool:
    """Whether both variances are those of `noise` alone and of noise and multinomial rows. The variance of
    2,000 normal numbers is off by 3.2 % (of Laplace ones by 5 %): six times that.
    """
    table, population = variances(evidence, count)
    sampling = RECORDS * SHARES * (1 - SHARES)
    wanted = ((table, np.full(4, noise)), (population, noise + sampling))
    return all((np.abs(found / of - 1) < 0.3).all() for found, of in wanted)


@pytest.mark.slow
@pytest.mark.parametrize("composition", list(Composition))
def test_one_measured_column_has_the_variance_of_its_noise_and_of_its_rows(composition, monkeypatch) -> None:
    """20,000 records told by 1,000 rows."""
    monkeypatch.setattr(bootstrap_table, "MAX_DRAWN", 1000)
    noise = NoiseScale(SCALE, composition).stddev ** 2
    assert as_expected(one_column(composition), noise)


@pytest.mark.parametrize("bug", ["rows not scaled", "rows dealt evenly", "no noise"])
def test_it_would_show(bug: str, monkeypatch) -> None:
    monkeypatch.setattr(bootstrap_table, "MAX_DRAWN", 1000)
    if bug == "rows not scaled":
        monkeypatch.setattr(
            BootstrapTable, "fluctuation", lambda t, c, d: c - d * (t.codes[0].shape[-1] / t.records)
        )
    elif bug == "rows dealt evenly":
        monkeypatch.setattr(Drawing, "independent", Drawing.codes)
    else:
        monkeypatch.setattr(
            "factored_mwem.answers.bootstrap_fit.simulated_noise", lambda rng, scale, size: 0.0
        )
    assert not as_expected(one_column(), SCALE**2, 500)


def test_people_are_drawn_as_people_not_as_grains() -> None:
    """1,000 people of 20 grains: the sampling of the table is that of 1,000, times 20 grains each."""
    grains = np.full(3, 20)
    people = PeopleCounted((), np.arange(3), 3, grains // np.arange(1, 4))
    sampling = 20**2 * (RECORDS / 20) * SHARES * (1 - SHARES)
    for evidence, as_people in ((replace(one_column(), people=people), True), (one_column(), False)):
        assert evidence.of_each == (20 if as_people else 1)
        _, population = variances(evidence, 500)
        close = np.abs(population / (SCALE**2 + sampling) - 1) < 0.38  # 500 are off by 6.3 %: six times that
        assert close.all() if as_people else not close.all()
        assert Bootstrap(evidence, 3, 2).one(0)[0].codes[0].shape == (RECORDS / 20 if as_people else 2**14,)


def test_a_public_number_of_rows_stays_what_it_is() -> None:
    public, private = one_column(public=True), one_column()
    fixed = Bootstrap(public, 1, 40).all().totals
    assert (fixed == RECORDS).all()
    found = Bootstrap(private, 1, 400).all().totals  # four cells' noise; of 400, 3.5 % off: six times that
    assert found.std() == pytest.approx(2 * SCALE, rel=0.22)
    counted = replace(private, counted=NoiseScale(2 * SCALE, Composition.ZCDP))  # as good as the four cells
    assert Bootstrap(counted, 1, 400).all().totals.std() == pytest.approx(2**0.5 * SCALE, rel=0.22)


def people(rows: int = 600) -> pa.Table:
    """Columns that hang together, one of them by nothing."""
    rng = np.random.default_rng(11)
    a = rng.integers(0, 6, rows)
    b = (a + rng.integers(0, 2, rows)) % 6
    c = (b > 2).astype(int) ^ (rng.random(rows) < 0.1)
    return pa.table({"a": a, "b": b, "c": c, "d": rng.integers(0, 3, rows), "e": (a + b) // 3})


DOMAIN = {"a": 6, "b": 6, "c": 2, "d": 3, "e": 4}


@pytest.fixture(scope="module")
def made() -> Release:
    return release(people(), 2, domain=DOMAIN, epsilon=8.0, rounds=6, sample_seed=1)


@pytest.fixture(scope="module")
def few(made: Release) -> Replicates:
    return Replicates(made.evidence, Bootstrap(made.evidence, 5, 8).all())


def random_terms(made: Release, support: Sequence[int], count: int = 5) -> QueryTerms:
    rng = np.random.default_rng(3)
    sizes = made.model.levels.sizes
    return QueryTerms(
        tuple(support), tuple(rng.integers(0, 3, (count, sizes[a])) / 2 for a in support), count
    )


SUPPORTS = [(), (0,), (0, 2), (1, 3, 4), (0, 1, 2, 3, 4)]


@pytest.mark.parametrize("support", SUPPORTS)
def test_answers_are_those_of_each_forest(support, made: Release, few: Replicates, monkeypatch) -> None:
    asked = random_terms(made, support)
    expected = [asked.of_forest(few.forest(b)) for b in range(len(few))]
    assert np.allclose(few.answers(asked), expected, rtol=1e-5, atol=1e-3)
    monkeypatch.setattr(joint, "MOST_NUMBERS", 1)  # a copy at a time
    assert np.allclose(few.answers(asked), expected, rtol=1e-5, atol=1e-3)
    monkeypatch.setattr(replicates, "MAX_TABLE", 4)  # a few queries at a time
    assert np.allclose(few.answers(asked), expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("support", SUPPORTS[1:])
def test_errors_are_those_about_the_table_drawn(support, made: Release, few: Replicates) -> None:
    """With as many rows as records, the table's answers are the rows' own, but for half a row."""
    asked = random_terms(made, support)
    rows = np.stack([asked.of_rows([codes[b] for codes in few.drawn.codes]) for b in range(len(few))])
    errors = few.answers(asked) - rows
    assert np.allclose(few.errors(asked, False), errors, atol=1.5 * 2 ** len(support))
    population = few.answers(asked) - asked.of_forest(made.model)
    assert np.allclose(few.errors(asked, True), population)


def test_replicates_follow_from_the_seed(made: Release) -> None:
    one, same, other = (Bootstrap(made.evidence, seed, 3).all() for seed in (5, 5, 6))
    each = ([made.totals, *made.thetas, *made.codes] for made in (one, same, other))
    for left, right, else_ in zip(*each, strict=True):
        assert np.array_equal(left, right) and not np.array_equal(left, else_)
    assert not np.array_equal(one.codes[0][0], one.codes[0][1])


def test_rules_hold_in_every_replicate() -> None:
    limits = {"minimum": 0, "maximum": 5, "required": True}
    fields = [{"name": n, "type": "integer", "constraints": limits} for n in "ab"]
    ruled = {"fields": fields, "rules": [{"never": {"a": {"max": 1}, "b": {"min": 4}}}]}
    table = pa.table({"a": [0, 1, 2, 3, 4, 5] * 30, "b": [0, 1, 2, 3, 4, 5] * 30})
    made = release(table, 2, domain=ruled, epsilon=2.0, sample_seed=1)
    few = Replicates(made.evidence, Bootstrap(made.evidence, 5, 4).all())
    assert made.model.marginal((0, 1)).reshape(6, 6)[:2, 4:].sum() == 0
    for b in range(4):
        assert few.forest(b).marginal((0, 1)).reshape(6, 6)[:2, 4:].sum() == 0
    for each in made.replicates(2, seed=4):
        rows = each.to_pydict()
        assert not any(a <= 1 and b >= 4 for a, b in zip(rows["a"], rows["b"], strict=True))


def test_a_model_of_engine_mwem_has_none() -> None:
    made = release(people(), 2, domain=DOMAIN, engine="mwem", rounds=2, sample_seed=1)
    with pytest.raises(InputError, match=r"^a model of engine 'mwem' is no likelihood fit"):
        next(made.replicates(2))


@pytest.mark.slow
def test_residuals_measured_at_once_are_measured_again() -> None:
    """Of a pair of bits, both fits are nearly the noisy answers themselves, so the error of a share is the
    noise of the residuals it is made of; 300 numbers, 4 % off: six times that.
    """
    bits = pa.table({"a": [0, 0, 1, 1] * 2000, "b": [0, 1, 0, 1] * 2000})
    made = release(bits, 2, domain={"a": 2, "b": 2}, epsilon=1.0, sample_seed=1)
    assert made.residuals
    few = Replicates(made.evidence, Bootstrap(made.evidence, 5, 300).all())
    cell = QueryTerms((0, 1), (np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]])), 1)
    weights, stddev = made.residuals[0].weights, made.residuals[0].stddev
    noise = (((stddev / weights) ** 2).sum() / 16) ** 0.5
    assert few.errors(cell, False).std() == pytest.approx(noise, rel=0.3)


def test_expected_errors_are_the_mean_distance_of_shares(few: Replicates) -> None:
    pairs = [(a, b) for a in range(5) for b in range(a + 1, 5)]
    found = dict(expected_errors(few, [*((a,) for a in range(5)), *pairs]))
    assert list(found) == [*((a,) for a in range(5)), *pairs]
    distances = []
    for b in range(len(few)):
        rows = np.zeros((6, 2))
        np.add.at(rows, (few.drawn.codes[0][b], few.drawn.codes[2][b]), 1.0)
        model = few.forest(b).marginal((0, 2)).reshape(6, 2)
        distances.append(np.abs(model / model.sum() - rows / rows.sum()).sum())
    assert found[0, 2] == pytest.approx(np.mean(distances), rel=0.02)
    assert dict(expected_errors(few, [(0, 2)])) == {(0, 2): pytest.approx(found[0, 2])}


@pytest.fixture(scope="module")
def corrected() -> Evidence:
    """A release with a pair measured that no clique of it may hold, far from what its trees say."""
    asked = Workload.of([*map(tuple, ("ab", "ae", "bc", "bd", "de"))])
    made = release(people(), asked, domain=DOMAIN, epsilon=8.0, rounds=6, sample_seed=1)
    model = Forest(made.model.levels, made.model.components, made.model.total)
    view = (0, 2)
    assert not model.holds(view)
    noisy = np.rint(np.roll(model.marginal(view), 1)).astype(np.int64)
    beyond = Measurement(view, noisy, NoiseScale(4.0, Composition.ZCDP))
    model.correct([beyond])
    assert model.corrections
    return replace(made.evidence, model=model, measurements=[*made.measurements, beyond])


def test_corrections_are_made_anew_in_every_replicate(corrected: Evidence) -> None:
    few = Replicates(corrected, Bootstrap(corrected, 5, 6).all())
    view = corrected.measurements[-1].positions
    rng, sizes = np.random.default_rng(3), corrected.model.levels.sizes
    asked = QueryTerms(view, tuple(rng.integers(0, 3, (4, sizes[a])) / 2 for a in view), 4)
    expected = np.array([asked.of_forest(few.forest(b)) for b in range(6)])
    assert np.allclose(few.answers(asked), expected, rtol=1e-5, atol=1e-3)
    trees = np.array([asked.of_forest(few.forest(b, corrected=False)) for b in range(6)])
    assert not np.allclose(trees, expected, rtol=0.01)
    # what the correction says is the truth of a replicate's table: its errors are noise, not the correction
    gap = np.abs((asked.of_forest(corrected.model) - trees).mean(axis=0))
    assert np.abs(few.errors(asked, True).mean(axis=0)).max() < gap.max()


@pytest.mark.parametrize("rules", [False, True])
def test_a_fit_to_residuals_ends_where_it_does_from_any_start(rules: bool) -> None:
    rng, shape = np.random.default_rng(4), (2, 3, 2)
    weights = np.array([32] * 8)
    scale = NoiseScale(50.0, Composition.ZCDP)
    answers = rng.normal(0, 400, 1 + 1 + 3 + 3 + 1 + 1 + 3 + 3)
    measured = Residuals(3, weights, answers, scale)
    allowed = np.arange(12) != 5 if rules else None
    start = rng.dirichlet(np.ones(12))
    even = fit(AtOnce(shape, measured.order), measured, 100.0, charge=3.0, allowed=allowed)
    found = fit(AtOnce(shape, measured.order), measured, 100.0, charge=3.0, allowed=allowed, start=start)
    assert np.abs(even - start).sum() > 0.1
    assert np.abs(even - found).sum() < 0.01


def test_what_lies_beyond_the_trees_is_measured_with_its_noise(corrected: Evidence) -> None:
    """Numbers of one scale, the same at every reading; 600 or more are off by 2.9 %: six times that."""
    few = Replicates(corrected, Bootstrap(corrected, 5, 100).all())
    beyond = corrected.measurements[-1]
    bare = Forest(corrected.model.levels, corrected.model.components, corrected.model.total)
    drawn, expected = bare.marginal(beyond.positions), corrected.model.marginal(beyond.positions)
    correcting = Correcting.of(corrected, beyond.positions)
    assert correcting is not None
    noise = []
    for b in range(100):
        (one,) = correcting.remeasured(few.table(b), 5, b)
        (again,) = correcting.remeasured(few.table(b), 5, b)
        assert np.array_equal(one.noisy, again.noisy)
        noise.append(one.noisy - few.table(b).counts(beyond.positions, drawn, expected))
    assert np.std(noise) == pytest.approx(4.0, rel=0.18)
