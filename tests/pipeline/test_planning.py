"""What is said of releases before there are any: public facts alone, no more wrong than it says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bench import planning as bench

from factored_mwem import InputError, Workload, evaluate, plan, release
from factored_mwem.accounting.membership import advantage_of_budget, guess_of
from factored_mwem.pipeline.forecasts.error_law import LAWS
from factored_mwem.pipeline.forecasts.planning import Planned, Prospect
from factored_mwem.request.policy import Policy

BITS = dict.fromkeys("abcdefgh", 2)
MIXED = {"a": 9, "b": 4, "c": 12, "d": 2, "e": 30}
"""Measured in rounds at small budgets, all at once at larger ones."""
WIDE = {f"c{i}": 10 + 5 * i for i in range(6)}
EPSILONS = [float(e) for e in np.geomspace(0.02, 20, 10).round(4)]


def table_of(sizes: dict[str, int], rows: int = 2) -> pa.Table:
    chance = np.random.default_rng(1)
    first = chance.integers(0, 10**6, rows)
    return pa.table({name: (first + chance.integers(0, 2, rows)) % size for name, size in sizes.items()})


def planned(sizes: dict[str, int], order: int = 3, **options: Any) -> Planned:
    return plan(table_of(sizes), order, domain=sizes, **options)


def at(sizes: dict[str, int], epsilon: float, order: int = 3, **options: Any) -> Prospect:
    return planned(sizes, order, epsilons=[epsilon], **options).prospects[0]


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-9, 0.0])
@pytest.mark.parametrize("sizes", [BITS, MIXED, WIDE], ids=["bits", "mixed", "wide"])
def test_more_epsilon_is_never_a_larger_error(sizes: dict[str, int], delta: float) -> None:
    """Also where a release changes from rounds to measuring all at once."""
    found = planned(sizes, epsilons=EPSILONS, delta=delta, assume_rows=5000).prospects
    for side in ("low", "error", "high"):
        errors = np.array([[getattr(e, side) for e in p.errors] for p in found])
        assert (np.diff(errors, axis=0) <= 1e-12).all() and (errors[0] > errors[-1]).all()
        assert ((errors > 0) & (errors <= 2)).all()
    assert all(e.low < e.error < e.high or e.high == 2 for p in found for e in p.errors)
    assert all([e.order for e in p.errors] == [1, 2, 3] for p in found)
    guesses = [p.guess for p in found]
    assert guesses == sorted(guesses) and 0.5 < guesses[0] < guesses[-1] <= 1
    at_once = {p.column_noise is None for p in found}
    assert at_once == ({True} if sizes is BITS else {False} if sizes is WIDE else {True, False})


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-9, 0.0])
@pytest.mark.parametrize(("sizes", "error", "order"), [(BITS, 0.05, 3), (MIXED, 0.08, 2), (WIDE, 0.3, 3)])
def test_finding_an_epsilon_is_inverse(sizes: dict[str, int], error: float, order: int, delta: float) -> None:
    options: dict[str, Any] = {"delta": delta, "assume_rows": 5000}
    found = planned(sizes, error=f"mean{order} <= {error}", **options)
    assert found.target == (order, error) and not found.prospects
    for special, side in ((found.likely, "error"), (found.safe, "high")):
        assert special is not None
        again = at(sizes, special.epsilon, **options)
        reached = [getattr(p.errors[order - 1], side) for p in (special, again)]
        assert reached[0] == reached[1] <= error
        before = at(sizes, special.epsilon * 0.98, **options)
        assert getattr(before.errors[order - 1], side) > error
    assert found.likely is not None and found.safe is not None and found.likely.epsilon < found.safe.epsilon
    assert planned(sizes, order=order, error=error, **options).likely is not None


def test_an_error_out_of_reach_has_no_epsilon() -> None:
    found = planned(WIDE, error=1e-9, assume_rows=100)
    assert found.likely is None and found.safe is None


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_exact_part_is_the_noise_of_a_release(neighbours: Any) -> None:
    """Where the number of rows is public and guessed right; else within what the noisy count adds."""
    said = at(WIDE, 1.0, 2, assume_rows=3000, neighbours=neighbours)
    made = release(table_of(WIDE, 3000), 2, domain=WIDE, epsilon=1.0, neighbours=neighbours)
    first = made.manifest.ledger[(neighbours == "add-remove") :][: len(WIDE)]
    assert [c.target for c in first] == [(name,) for name in WIDE]
    noise = np.mean([c.scale * math.sqrt(2 / math.pi) for c in first])
    assert said.column_noise == pytest.approx(noise, rel=1e-6 if neighbours == "replace" else 0.05)
    assert said.guess >= guess_of(advantage_of_budget(Policy.of(epsilon=1.0).budget(learn_domain=False)))


def people_table(sizes: dict[str, int], people: int) -> pa.Table:
    """Three rows of each person."""
    one = table_of(sizes, people)
    return pa.concat_tables([one] * 3).append_column("who", pa.array([*range(people)] * 3))


def test_of_people_noise_is_that_of_one_person_and_finding_out_about_them_is_paid_for() -> None:
    """What a release draws, in people: its scales over the grains of one; and its shares."""
    choices: dict[str, Any] = {"epsilon": 1.0, "privacy_id": "who", "people": True, "contributions": 3}
    table = people_table(WIDE, 12_000)
    planned = plan(table, 2, domain=WIDE, assume_people=12_000, **choices)
    made = release(table, 2, domain=WIDE, **choices)
    facts, ledger = planned.people, made.manifest.ledger
    assert facts is not None and planned.assume_rows is None and planned.assume_people == 12_000
    budget = Policy.of(**choices).budget(learn_domain=False)
    shares = [float(price(c) / budget.amount) for c in ledger[:2]]
    assert shares == pytest.approx([facts.sizes_share, facts.constancy_share], rel=1e-3)
    first = [c.scale for c in ledger if c.stage == "measure" and len(c.target) == 1][: len(WIDE) + 1]
    noise = np.mean(first) * math.sqrt(2 / math.pi) / 840
    assert planned.prospects[0].column_noise == pytest.approx(noise, rel=0.05)
    assert not planned.prospects[0].errors and "cannot be predicted" in planned.notes[0]


def price(charge: Any) -> float:
    """Of discrete Gaussian noise: squared sensitivity over twice the variance."""
    return charge.sensitivity / (2 * charge.scale**2)


def test_of_people_as_of_rows_more_of_each_cost_nothing() -> None:
    """A domain that is learnt keeps a value from as many people on as of a table of rows, about."""
    choices: dict[str, Any] = {"privacy_id": "who", "people": True, "person_columns": ["a"]}
    table = people_table(BITS, 2)
    rows = plan(table, 2, epsilons=[1.0], columns=["a", "b"], privacy_id="who").prospects[0]
    people = plan(table, 2, epsilons=[1.0], columns=["a", "b"], **choices).prospects[0]
    assert rows.kept_from is not None and people.kept_from is not None
    assert rows.kept_from[0] < people.kept_from[0] < 1.5 * rows.kept_from[0]
    assert rows.fewest_rows is not None and people.fewest_rows is not None


def test_a_guess_of_the_other_number_is_refused() -> None:
    table = people_table(BITS, 2)
    for guess, more in (("assume_rows", {"privacy_id": "who", "people": True}), ("assume_people", {})):
        with pytest.raises(InputError, match=guess):
            plan(table, 1, **{guess: 100, **more})


def test_noise_at_once_is_that_of_the_weights_in_use() -> None:
    """By the residuals that a release measures: each marginal's noise is the sum of its subsets'."""
    said = at(BITS, 2.0, 2, assume_rows=2000, neighbours="replace")
    made = release(table_of(BITS, 2000), 2, domain=BITS, epsilon=2.0, neighbours="replace")
    (found,) = made.residuals
    variances = {m: (found.stddev / found.weights[m]) ** 2 for m in range(1, 2**8) if found.weights[m] > 0}
    for order in (1, 2):
        masks = [m for m in range(2**8) if m.bit_count() == order]
        sums = [sum(v for m, v in variances.items() if m & mask == m) for mask in masks]
        errors = [math.sqrt(2 / math.pi * variance) / 2000 for variance in sums]
        assert said.noise_errors[order - 1] == pytest.approx(np.mean(errors), rel=1e-9)


def test_no_row_is_read(tmp_path: Path) -> None:
    """A file of a header alone, one with rows, and one whose rows no release could read say the same."""
    said = []
    for name, rows in (("none", ""), ("some", "1,2\n0,1\n"), ("bad", '"\n7,"x\n\x00\n')):
        path = tmp_path / f"{name}.csv"
        path.write_text(f"a,b\n{rows}")
        said.append(plan(path, 2, domain={"a": 3, "b": 3}).facts)
    assert said[0] == said[1] == said[2]


def test_where_a_domain_is_learnt_columns_are_all_that_is_known(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n")
    found = plan(path, 2, assume_rows=20_000)
    assert [p.epsilon for p in found.prospects] == [0.1, 0.5, 1.0, 2.0]
    errors = np.array([[e.error for e in p.errors] for p in found.prospects])
    assert (np.diff(errors, axis=0) < 0).all() and any("neutral bins" in note for note in found.notes)
    assert all(p.kept_from is not None and p.column_noise is None for p in found.prospects)
    whole = guess_of(advantage_of_budget(Policy.of(epsilon=1.0).budget(learn_domain=True)))
    assert found.prospects[2].guess == whole  # the thresholds' delta is in it
    with pytest.raises(InputError, match="--delta is 0"):
        plan(path, 2, delta=0.0)


@pytest.mark.parametrize(
    ("workload", "options"),
    [
        (2, {"engine": "mwem"}),
        (Workload.of([("a", "b")]), {}),
        (Workload.marginals(2) + Workload.of([("a", "b", "c")]), {}),
        (4, {}),
    ],
    ids=["engine", "named", "mixed", "fourth"],
)
def test_nothing_is_said_of_errors_that_no_law_knows(workload: Any, options: dict[str, Any]) -> None:
    sizes = dict.fromkeys("abcd", 4)
    found = plan(table_of(sizes), workload, domain=sizes, epsilons=[1.0], **options)
    assert found.prospects[0].errors == () and "errors can" in found.notes[0]
    assert found.prospects[0].guess < 0.55
    with pytest.raises(InputError, match="no epsilon can be found"):
        plan(table_of(sizes), workload, domain=sizes, error=0.1, **options)


def test_limits_are_named() -> None:
    assert any("rounds" in note for note in planned(WIDE, epsilons=[1.0], rounds=3).notes)
    assert not any("may be larger" in note for note in planned(WIDE, epsilons=[1.0]).notes)


def test_more_rows_of_a_person_cost_as_much_as_fewer_rows() -> None:
    """Noise is k times as large: as a k-th of the rows."""
    once, twice = (at(WIDE, 1.0, assume_rows=4000 * k, contributions=k).errors for k in (1, 2))
    assert [e.error for e in once] == pytest.approx([e.error for e in twice])


WRONG: dict[str, list[Any]] = {
    "epsilons": [[], [0.0], [math.nan], "much", 1.0, range(1, 40)],
    "error": ["small", 0.0, 2.0, "mean4 <= 0.1"],
    "assume_rows": [0, 1.5],
}


@pytest.mark.parametrize(("option", "value"), [(o, value) for o in WRONG for value in WRONG[o]])
def test_what_makes_no_sense_is_refused_in_a_line(option: str, value: Any) -> None:
    with pytest.raises(InputError) as refused:
        planned(BITS, **{option: value})
    assert "\n" not in str(refused.value)


def test_the_policys_own_epsilon_counts_where_it_names_one() -> None:
    assert [p.epsilon for p in planned(BITS, epsilon=0.3).prospects] == [0.3]
    assert [p.epsilon for p in planned(BITS, epsilon=0.3, epsilons=[0.2]).prospects] == [0.2]


Samples = dict[tuple[str, int], bench.Sample]


@pytest.fixture(scope="module")
def samples() -> Samples:
    return bench.samples_of(bench.KEPT)


def test_the_law_is_what_the_kept_releases_give(samples: Samples) -> None:
    assert set(samples) == set(LAWS)
    for key, law in LAWS.items():
        sample = samples[key]
        assert law.constants == pytest.approx(sample.constants(), abs=6e-4)
        assert law.width == pytest.approx(sample.width(), abs=6e-4)
        assert (law.releases, law.tables) == (len(sample.powers), len(set(sample.tables)))


def test_ranges_hold_on_tables_not_seen_by_the_law(samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nominal share is nine in ten; law and range are both made without the table.

    Planted: the width of the misses of releases that the law was fitted to, halved.
    """
    covered = {key: sample.coverage() for key, sample in samples.items()}
    assert min(covered.values()) > 0.8 and 0.86 < np.mean(list(covered.values())) < 0.96, covered
    width = bench.Sample.width
    monkeypatch.setattr(bench.Sample, "width", lambda sample: width(sample) / 2)
    assert np.mean([sample.coverage() for sample in samples.values()]) < 0.8


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_a_release_is_about_as_far_off_as_was_expected(epsilon: float) -> None:
    """The bundled rows of Adult, with room for half as much again; planted: a hundredth of the rows."""
    table, domain = ROOT / "datasets" / "adult.csv", ROOT / "datasets" / "adult.domain.json"
    made = release(table, 2, domain=domain, epsilon=epsilon)
    errors = evaluate(table, made.to_arrow(), 2, domain=made.domain).by_order

    def fits(rows: int) -> bool:
        said = plan(table, 2, domain=domain, epsilons=[epsilon], assume_rows=rows).prospects[0].errors
        return all(e.low / 1.5 <= errors[e.order][0] <= e.high * 1.5 for e in said)

    assert fits(9000) and not fits(90)
