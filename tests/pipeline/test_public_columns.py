"""Columns that a public table tells of: the model has their joint exactly, and the private rows are asked
nothing about them alone.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from factored_mwem import InputError, NothingLearnt, Release, ResourceError, Workload, evaluate, plan, release
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.documents.material import material_of
from factored_mwem.documents.ties import ties_of
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Plan, Scope
from factored_mwem.mechanisms.public_joint import PublicJoint
from factored_mwem.mechanisms.residuals import AtOnce, choose_weights, sensitivity
from factored_mwem.mechanisms.result import Total
from factored_mwem.request.public_columns import PublicColumns
from factored_mwem.request.request import Request

PUBLIC = ["age", "sex", "race"]
FIELDS = [
    {"name": "income", "categories": ["high", "low"]},
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 19, "required": True}},
    {"name": "ward", "categories": [*"abcdef"]},
]


def people(rows: int, seed: int) -> pd.DataFrame:
    """Sex hangs on age, race on both, and the rest on these."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 20, rows)
    sex = rng.random(rows) < age / 25
    race = (age // 5 + sex + (rng.random(rows) < 0.3)) % 4
    ward = np.where(rng.random(rows) < 0.7, race, rng.integers(0, 6, rows))
    income = rng.random(rows) < (age / 25 + sex / 5)
    return pd.DataFrame(
        {
            "income": np.where(income, "high", "low"),
            "age": age,
            "ward": np.array([*"abcdef"])[ward],
            "sex": np.where(sex, "F", "M"),
            "race": np.array([*"wxyz"])[race],
        }
    )


OTHER = people(20_000, 1)
WAYS: dict[str, dict[str, Any]] = {"declared": {"domain": {"fields": FIELDS}}, "learnt": {}}


@pytest.fixture(scope="module", params=WAYS)
def made(request: pytest.FixtureRequest) -> Release:
    more = WAYS[request.param]
    return release(people(4_000, 2), 3, epsilon=2.0, rounds=12, public_columns=PUBLIC, public=OTHER, **more)


def test_the_model_has_the_public_joint_exactly(made: Release) -> None:
    found = made.marginal(*PUBLIC).counts
    wanted = PublicColumns.given(PUBLIC, OTHER, made.domain.project(PUBLIC), beside=None)
    assert wanted is not None
    assert found / found.sum() == pytest.approx(wanted.shares_of(PUBLIC), abs=1e-9)


def test_nothing_is_asked_of_public_columns_alone(made: Release) -> None:
    """Neither a charge nor a measurement, and no candidate; what else is asked still is."""
    targets = [*(c.target for c in made.manifest.ledger if c.stage != "select"), *_measured(made)]
    columns = [{name.split(" in ")[0] for name in target} for target in targets]
    assert not [each for each in columns if each and each <= set(PUBLIC)]
    assert {"income"} in columns and {"ward"} in columns
    assert any(each & set(PUBLIC) for each in columns)  # the ties with them are measured
    request = Request.of(people(50, 3), 3, public_columns=PUBLIC, public=OTHER, domain={"fields": FIELDS})
    scope = Scope.of(request, Machine.of(request.policy))
    assert scope.domain is not None
    candidates = Plan.of(scope, scope.domain).candidates
    cliques = [{*candidates.clique(c)} for c in range(len(candidates))]
    inside = sum(1 for k in (1, 2, 3) for _ in combinations(PUBLIC, k))
    assert len(cliques) == 5 + 10 + 10 - inside and not [c for c in cliques if c <= set(PUBLIC)]


def _measured(made: Release) -> list[tuple[str, ...]]:
    return [m.attributes for m in made.manifest.measurements]


def test_the_record_says_where_it_came_from(made: Release) -> None:
    manifest = made.manifest
    assert manifest.public is not None and manifest.public.columns == tuple(PUBLIC)
    assert manifest.public.rows == len(OTHER) and len(manifest.public.sha256) == 64
    taken = manifest.guarantee.assumptions["public"]
    assert not taken.enforced and manifest.public.sha256 in taken.statement and "'race'" in taken.statement
    assert any(manifest.public.sha256 in warning for warning in manifest.warnings)


def test_answers_know_what_is_public(tmp_path: Path) -> None:
    """A pair of public columns that no measurement holds is off by little more than what a sample is."""
    made = release(people(4_000, 2), 2, epsilon=2.0, rounds=12, public_columns=PUBLIC, public=OTHER)
    made.save(tmp_path / "m.fmwem")
    answer = Release.load(tmp_path / "m.fmwem").answer("count where sex = F by race", replicates=20)
    wanted = made.marginal("sex", "race").counts[0]
    assert answer.estimate == pytest.approx(wanted) and answer.basis == "model"
    assert answer.stderr.max() < 3 * wanted.max() ** 0.5


@pytest.mark.parametrize(("epsilon", "most", "runs"), [(0.1, 1.0, 6), (1.0, 0.9, 5)])
def test_the_ties_of_the_others_are_better_known(epsilon: float, most: float, runs: int) -> None:
    """With known ages, sexes and races the errors of pairs with other columns are about .66 of those without,
    give or take .05 and .04.
    """
    private = people(1_500, 4)
    domain = {"fields": FIELDS + _fields()}

    def error(**more: Any) -> float:
        found = [release(private, 2, epsilon=epsilon, domain=domain, **more) for _ in range(runs)]
        return float(np.mean([_error(private, each) for each in found]))

    assert error(public_columns=PUBLIC, public=OTHER) < most * error()


def _fields() -> list[dict[str, Any]]:
    return [{"name": "sex", "categories": ["F", "M"]}, {"name": "race", "categories": [*"wxyz"]}]


def _error(private: pd.DataFrame, made: Release) -> float:
    """The mean L1 error of pairs that are not public, in the model's own marginals."""
    errors = []
    for pair in combinations(private.columns, 2):
        if not set(pair) <= set(PUBLIC):
            marginal = made.marginal(*pair)
            index = pd.MultiIndex.from_product(marginal.labels)
            real = private.groupby(list(pair)).size().reindex(index, fill_value=0).to_numpy()
            found = marginal.counts.ravel()
            errors.append(np.abs(found / found.sum() - real / real.sum()).sum())
    return float(np.mean(errors))


def test_evaluation_shows_what_another_population_costs() -> None:
    private = people(3_000, 5)
    women = OTHER[OTHER.sex == "F"]
    made = release(private, 2, epsilon=5.0, public_columns=["sex", "race"], public=women)
    rows = made.to_pandas()
    assert set(rows.sex) == {"F"}
    columns = {each.name: each.distance or 0.0 for each in evaluate(private, rows, 2).columns}
    assert columns["sex"] > 0.3 > columns["income"]


REFUSED = {
    "go together": {"public_columns": ["sex"]},
    "a list of different": {"public_columns": ["sex", "sex"], "public": OTHER},
    "public table has no column 'income'": {"public_columns": ["income"], "public": OTHER[["sex"]]},
    "no column 'height', which --public": {
        "public_columns": ["height"],
        "public": OTHER.assign(height=1),
    },
    "no rows": {"public_columns": ["sex"], "public": OTHER[:0], "domain": {"fields": FIELDS + _fields()}},
    "leave out one": {"public_columns": list(OTHER), "public": OTHER},
    "not among those released": {"public_columns": ["sex"], "public": OTHER, "columns": ["age", "ward"]},
    "engine": {"public_columns": ["sex"], "public": OTHER, "engine": "mwem"},
    "--certificate": {"public_columns": ["sex"], "public": OTHER, "certificate": 0.1},
    "--people": {"public_columns": ["sex"], "public": OTHER, "people": True, "privacy_id": "ward"},
    "about public columns": {"public_columns": ["sex", "race"], "public": OTHER, "named": ("sex", "race")},
    "a rule of the domain": {
        "public_columns": ["sex"],
        "public": OTHER,
        "domain": {
            "fields": FIELDS + _fields(),
            "rules": [{"never": {"sex": "F", "ward": "a"}}],
        },
    },
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_is_refused_in_one_line(said: str) -> None:
    more = dict(REFUSED[said])
    named = more.pop("named", None)
    workload = Workload.of([named]) if named else 2
    if named:
        more["domain"] = {"fields": FIELDS + _fields()}
    with pytest.raises(InputError, match=said) as error:
        plan(people(50, 6), workload, **more)
    assert "\n" not in str(error.value)


def test_the_private_table_is_no_public_one(tmp_path: Path) -> None:
    private = people(50, 6)
    private.to_csv(tmp_path / "t.csv", index=False)
    private.to_csv(tmp_path / "u.csv", index=False)
    one, two = str(tmp_path / "t.csv"), str(tmp_path / "u.csv")
    for table, public in (
        (private, private),
        (Path(one), one),
        ([one, two], two),
        (str(tmp_path / "*.csv"), two),
        (tmp_path, two),
    ):
        with pytest.raises(InputError, match="private table itself"):
            plan(table, 2, public_columns=["sex"], public=public)


def test_what_cannot_fit_is_refused_before_a_domain_is_learnt() -> None:
    with pytest.raises(ResourceError, match="160 combinations, more than --max-cells 100"):
        plan(people(50, 6), 2, public_columns=PUBLIC, public=OTHER, max_cells=100)


def test_where_all_else_is_unique_nothing_was_learnt() -> None:
    keys = [f"k{i}" if i > 600 else "none" for i in range(10_000)]
    private = people(10_000, 8)[["sex"]].assign(key=keys)
    with pytest.raises(NothingLearnt, match=r"too rare to be told from noise; .* declare one"):
        release(private, 1, epsilon=3.0, public_columns=["sex"], public=OTHER, drop_unique=True)


def test_the_number_of_rows_gets_no_more_for_what_is_public() -> None:
    """Of marginals that are known the error is that of the total alone, which is nothing to pay for."""
    unit, shape = Unit(Neighbours.ADD_REMOVE, 1), (4, 5, 6, 3)
    known = PublicJoint((0, 1, 2), np.full((4, 5, 6), 1 / 120))
    weights = choose_weights(
        AtOnce(shape, 2, known), 0.0149, Total(1e4, 100.0), unit, Composition.ZCDP
    ).weights
    alone = np.where(np.arange(len(weights)) == 0, weights, 0)
    cost = [sensitivity(shape, some, unit, Composition.ZCDP) for some in (alone, weights)]
    assert 0 < cost[0] < 0.1 * cost[1]


def test_columns_that_are_known_together_are_said_to_be(made: Release) -> None:
    of = {words[0]: words[2] for words in ties_of(material_of(made))["of"]}
    assert {"sex", "race"} <= {*of["age"].replace(",", "").split()} and "age" in of["race"]


def test_a_small_domain_measured_at_once_leaves_out_what_is_public() -> None:
    """No residual of public columns alone is measured, and the table has their joint; replicates keep it."""
    bits = pd.DataFrame(np.random.default_rng(7).random((3_000, 5)) < 0.3, columns=[*"abcde"]).astype(int)
    census = bits.assign(b=bits.a ^ (bits.c & bits.d))[["d", "b", "a"]]
    domain = dict.fromkeys("abcde", 2)
    made = release(bits, 2, epsilon=1.0, domain=domain, public_columns=["b", "d"], public=census)
    (residuals,) = made.residuals
    masks = np.flatnonzero(residuals.weights)
    assert not {0b00010, 0b01000, 0b01010} & {*masks.tolist()} and {0b00011, 0b10000} <= {*masks.tolist()}
    wanted = census.groupby(["b", "d"]).size().to_numpy() / len(census)
    found = made.marginal("b", "d").counts.ravel()
    assert found / found.sum() == pytest.approx(wanted, abs=1e-9)
    answer = made.answer("share where b = 1 and d = 1", replicates=20)
    assert answer.estimate == pytest.approx(wanted[3]) and answer.stderr.max() < 0.05
