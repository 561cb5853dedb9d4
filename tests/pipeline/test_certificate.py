"""Certificates of releases: what they are about, cost and refuse; a run that goes on says the same."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support import people as of_people
from support.commands import Fmwem
from support.fakes import FakeNoise
from support.runs import died, entries, go, state

from factored_mwem import InputError, NotAccepted, Policy, Workload, evaluate, learn, release, verify
from factored_mwem.accounting.conversion import Composition
from factored_mwem.mechanisms import plan
from factored_mwem.mechanisms.certify import Released
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Plan, Scope
from factored_mwem.pipeline import attempts, certificate
from factored_mwem.pipeline.record.manifest import Certificate
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.privacy import distances, session
from factored_mwem.request.request import Request
from factored_mwem.tables.backends import local as sources
from factored_mwem.tables.backends.codes import Codes

CODES = {"a": 4, "b": 3, "c": 5, "d": 2}


def table(rows: int = 600) -> pa.Table:
    rng = np.random.default_rng(8)
    a, b, c = (rng.integers(0, size, rows) for size in (4, 2, 5))
    return pa.table({"a": a, "b": (a + b) % 3, "c": c, "d": a // 2})


def made_of(noise: FakeNoise | None = None, source: Any = None, workload: Any = 3, **choices: Any) -> Release:
    source = table() if source is None else source
    given: dict[str, Any] = {"domain": CODES, "certificate": 0.1, "sample_seed": 3, **choices}
    return make(Request.of(source, workload, **given), noise=noise or FakeNoise())


def certificate_of(made: Release) -> Certificate:
    found = made.manifest.certificate
    assert found is not None
    return found


CASES: dict[str, dict[str, Any]] = {
    "at once": {},
    "rounds": {"rounds": 5, "max_cells": 60},
    "mwem": {"engine": "mwem", "rounds": 4},
    "replace": {"neighbours": "replace"},
    "few rows": {"rows": 37},
    "many rows": {"rows": 140_000, "rounds": 2},
    "singles": {"workload": 1},
    "label": {"workload": Workload.label("d") + Workload.of([("a", "b", "c")])},
    "cube, mwem": {"workload": Workload.cube("a", "b", "c", order=2), "engine": "mwem", "rounds": 3},
}


def check_says_the_truth(case: str) -> None:
    """Without noise every estimate is the error that evaluate finds in the rows."""
    made = made_of(**CASES[case])
    rows = made.to_arrow()

    def known(*names: str) -> float:
        """The largest error of a marginal over all of these columns."""
        found = evaluate(table(), rows, len(names), domain=made.domain, columns=[*names])
        return found.by_order[len(names)][1]

    candidates = Workload.from_dict(made.manifest.workload).candidates(made.domain)
    cliques = [candidates.clique(c) for c in range(len(candidates))]
    errors = {tuple(sorted(names)): known(*names) for names in cliques}
    found = certificate_of(made)
    for error in found.errors:
        if error.what == "mean":
            expected = np.mean([e for axes, e in errors.items() if len(axes) == error.order])
        elif error.what == "worst":
            expected = max(errors.values())
            assert errors[tuple(sorted(error.attributes))] == pytest.approx(expected, abs=1e-5)
        else:
            expected = known(*error.attributes)
        assert error.estimate == pytest.approx(expected, abs=1e-5), error
        assert error.low <= error.estimate <= error.high
    assert {e.attributes[0] for e in found.errors if e.what == "column"} == {*CODES}


@pytest.mark.parametrize("case", list(CASES))
def test_a_certificate_says_the_truth_of_the_rows(case: str) -> None:
    check_says_the_truth(case)


def test_one_of_the_model_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """37 rows are far from the model that they were drawn from."""

    def of_model(rows: Any, modelled: Any, extent: Any) -> Released:
        tables = rows.model.marginals([extent.candidates.positions(c) for c in range(len(extent.candidates))])
        singles = tuple(rows.model.marginal((a,)) for a in range(len(modelled)))
        return Released(round(rows.model.total), singles, np.concatenate([*tables]))

    monkeypatch.setattr(certificate, "count_rows", of_model)
    with pytest.raises(AssertionError):
        check_says_the_truth("few rows")


@pytest.mark.usefixtures("without_functions")
def test_of_a_learnt_domain_too() -> None:
    rows = pa.table({"name": ["x", "y", "z"] * 2000, "age": [*range(20, 80)] * 100})
    made = made_of(source=rows, workload=2, domain=None, epsilon=5.0)
    known = evaluate(rows, made.to_arrow(), 2, domain=made.domain).by_order
    found = {e.order: e.estimate for e in certificate_of(made).errors if e.what == "mean"}
    assert found == {k: pytest.approx(mean, abs=1e-5) for k, (mean, _) in known.items()}


def people_made(noise: FakeNoise | None = None, **choices: Any) -> tuple[pa.Table, Release]:
    """A table whose people have up to three rows, all of which are used, and its release."""
    rows = of_people.table_of_people(900, people=300, most=3)
    rows = rows.filter(pc.not_equal(rows["who"], "NA"))  # who is somebody to this domain
    given = {"privacy_id": "who", "people": True, "contributions": 3, "domain": of_people.DOMAIN, **choices}
    return rows, made_of(noise, source=rows, **given)


def of_people_by_hand(rows: pa.Table) -> dict[tuple[int, ...], float]:
    """Shares of people by codes of all attributes, row by row."""
    grains = of_people.grains(rows, 3, 840, of_people.persons(rows))
    return {cell: weight / sum(grains.values()) for cell, weight in grains.items()}


def distance(shares: list[dict[tuple[int, ...], float]], axes: tuple[int, ...]) -> float:
    summed: dict[tuple[int, ...], float] = defaultdict(float)
    for sign, of in zip((1, -1), shares, strict=True):
        for cell, share in of.items():
            summed[tuple(cell[a] for a in axes)] += sign * share
    return sum(map(abs, summed.values()))


PEOPLE_CASES: dict[str, dict[str, Any]] = {
    "people": {"workload": 3},
    "few of them": {"workload": 2, "rows": 40},
    "by rounds": {"workload": 2, "rounds": 4, "max_cells": 100, "person_columns": ["word"]},
}


def check_says_the_truth_of_people(case: str) -> None:
    """Without noise every estimate is the error of marginals of which each person is one."""
    rows, made = people_made(**PEOPLE_CASES[case])
    names = list(made.domain.names)
    shares = [of_people_by_hand(rows), of_people_by_hand(made.to_arrow())]
    known = {
        axes: distance(shares, axes)
        for k in range(1, PEOPLE_CASES[case]["workload"] + 1)
        for axes in itertools.combinations(range(len(names)), k)
    }
    found = certificate_of(made)
    assert found.counted == "people"
    for error in found.errors:
        axes = tuple(sorted(names.index(name) for name in error.attributes))
        if error.what == "mean":
            expected = np.mean([e for axes, e in known.items() if len(axes) == error.order])
        else:
            expected = known[axes] if error.what == "column" else max(known.values())
        assert error.estimate == pytest.approx(expected, abs=1e-5), error
        assert error.low <= error.estimate <= error.high
    assert {e.attributes[0] for e in found.errors if e.what == "column"} == {*names}


@pytest.mark.parametrize("case", list(PEOPLE_CASES))
def test_of_people_a_certificate_says_the_truth_of_people(case: str) -> None:
    check_says_the_truth_of_people(case)


def test_released_rows_that_weigh_one_each_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = certificate.released_people
    monkeypatch.setattr(
        certificate, "released_people", lambda b, of, by, weight, order: real(b, of, by, lambda n: 1, order)
    )
    with pytest.raises(AssertionError):
        check_says_the_truth_of_people("people")


def test_of_people_in_order_what_came_before_is_certified_too() -> None:
    """Against a loop over the rows of each person, by day."""
    rows, made = people_made(workload=1, order_by="day")
    shares: list[dict[Any, float]] = []
    for table_ in (rows, made.to_arrow()):
        words, days = table_["word"].to_pylist(), table_["day"].to_pylist()
        before: dict[Any, float] = defaultdict(float)
        for own in of_people.persons(table_).values():
            own.sort(key=lambda i: (days[i] is None, days[i] or 0))
            for _, last in zip(own, [None, *own], strict=False):
                before[("none before",) if last is None else (words[last],)] += 1 / len(own)
        shares.append({cell: weight / sum(before.values()) for cell, weight in before.items()})
    (found,) = [e for e in certificate_of(made).errors if e.attributes == ("previous word",)]
    assert found.estimate == pytest.approx(distance(shares, (0,)), abs=1e-5) and found.estimate > 0.01


def certified_share(made: Release) -> tuple[float, float]:
    """(the share of the certificate, that of all the rest)."""
    shares = {stage.stage == "certify": 0.0 for stage in made.manifest.stages} | {True: 0.0}
    for stage in made.manifest.stages:
        shares[stage.stage == "certify"] += stage.share
    return shares[True], shares[False]


@pytest.mark.parametrize("case", ["at once", "rounds", "mwem", "replace", "singles"])
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_the_share_is_kept_and_nothing_else_can_have_it(case: str, delta: float) -> None:
    """Charges of the certificate come last, are its share of the budget, and the fit does with the rest."""
    noise = FakeNoise(Composition.ZCDP if delta else Composition.PURE)
    made = made_of(noise, certificate=0.07, delta=delta, **CASES[case])
    certified, others = certified_share(made)
    assert certified == pytest.approx(0.07, abs=1e-9) and others <= 0.93 + 1e-12
    assert made.manifest.recompute() == made.manifest.guarantee.spent_epsilon <= 1


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_of_people_the_share_is_kept_too(delta: float) -> None:
    noise = FakeNoise(Composition.ZCDP if delta else Composition.PURE)
    _, made = people_made(noise, workload=2, certificate=0.07, delta=delta)
    certified, others = certified_share(made)
    assert certified == pytest.approx(0.07, abs=1e-9) and others <= 0.93 + 1e-12


def test_rounds_that_eat_the_reserve_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a mistake in a mechanism would take, the accountant refuses, before a certificate is drawn."""
    left = session.Session.left.fget
    assert left is not None
    monkeypatch.setattr(session.Session, "left", property(lambda self: self.accountant.root.left))
    with pytest.raises(Exception, match="of the budget is left"):
        made_of()


def test_a_certificate_is_none_unless_asked_for() -> None:
    made = made_of(certificate=None)
    assert made.manifest.certificate is None and certified_share(made)[0] == 0


REFUSED = [
    ({"accept": ["mean2 <= 0.1"], "certificate": None}, "accept needs a certificate"),
    ({"tries": 2}, "without accept the first try would do"),
    ({"accept": ["mean2 < 0.1"]}, "--accept 'mean2 < 0.1': write mean1"),
    ({"accept": ["median <= 0.1"]}, "write mean1"),
    ({"accept": ["mean2 <= 2"]}, "below 2"),
    ({"accept": ["mean2 <= 1e"]}, "write mean1"),
    ({"accept": ["unique <= 1"]}, "unique NAME, NAME, then <= and a share below 1"),
    ({"accept": ["unique <= -.1"]}, "a share below 1"),
    ({"accept": ["unique a, e <= .1"]}, "the release models no such column"),
    ({"accept": ["mean2 <= 0.1"], "tries": 0}, "tries=0"),
    ({"certificate": 0.6}, "certificate=0.6"),
    ({"certificate": 0.0}, "certificate=0.0"),
    ({"accept": ["mean4 <= 0.1"]}, "no marginals of 4 columns are asked for"),
    ({"accept": ["column e <= 0.1"]}, "the release models no such column"),
    ({"accept": ["column e <= 0.1"], "domain": None}, "there is no such column"),
    ({"accept": ["mean5 <= 0.1"], "domain": None}, "no marginals of 5 columns are asked for"),
    ({"epsilon": 1e-12}, "would be of no use"),
]


@pytest.mark.parametrize(("choices", "why"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_what_makes_no_sense_is_refused_before_anything_is_spent(choices: Any, why: str) -> None:
    fake = FakeNoise()
    with pytest.raises(Exception, match=why) as refused:
        made_of(fake, **choices)
    assert not fake.calls
    assert "\n" not in str(refused.value)


def worse(first: int) -> FakeNoise:
    """Noise that makes the first so many means of pairs look as bad as can be."""
    seen = [0]

    def offset(values: np.ndarray, scale: float) -> np.ndarray:
        if len(values) == 1 and values[0] > 10**6:  # grains: a mean, or the worst
            seen[0] += 1
            return values + (2**30 if seen[0] <= first else 0)
        return values

    return FakeNoise(offset=offset)


EASY: dict[str, Any] = {"epsilon": 50.0, "rounds": 3, "max_cells": 60, "rows": 600}
EASY["accept"] = ["mean2 <= 0.5", " column a <= .9"]


def test_the_first_try_that_will_do_is_released() -> None:
    first = certificate_of(made_of(worse(0), **EASY, tries=3))
    assert (first.tried, first.tries, first.criteria) == (1, 3, ("mean2 <= 0.5", " column a <= .9"))
    made = made_of(worse(1), **EASY, tries=3)
    found = certificate_of(made)
    assert found.tried == 2
    assert made.manifest.stages[-1].stage == "certify"
    certified, others = certified_share(made)
    assert certified == pytest.approx(0.1 * 2 / 3, abs=1e-9)  # of two tries
    assert others == pytest.approx(0.9 * 2 / 3, abs=1e-3)


def test_bounds_of_several_tries_are_wider() -> None:
    """The same certificate, at the same price, must be surer of itself where there may be three of them."""
    alone = certificate_of(made_of(**EASY | {"accept": ["mean2 <= 1.5"]}))
    of_three = certificate_of(made_of(**EASY | {"accept": ["mean2 <= 1.5"]}, tries=3, certificate=0.3))
    for one, other in zip(alone.errors, of_three.errors, strict=True):
        assert other.high - other.estimate > one.high - one.estimate


def test_none_that_will_do_is_refused_with_what_was_paid_for() -> None:
    with pytest.raises(NotAccepted, match="none of 2 tries met what was asked") as refused:
        made_of(worse(99), **EASY, tries=2)
    assert refused.value.exit_code == 3 and "mean2 <= 0.5 (it is" in str(refused.value)
    with pytest.raises(NotAccepted, match=r"the release does not meet mean3 <= \.0001"):
        made_of(accept=["mean3 <= .0001"])


def test_rows_that_stand_alone_are_counted_as_they_are_written() -> None:
    """Over some columns and over all of them, in batches of any length; by hand."""
    asked = ["unique <= .99", "unique a, b <= .9", "unique a <= .5"]
    made = made_of(accept=asked, rows=100, epsilon=50.0)
    rows, found = made.to_arrow().to_pylist(), certificate_of(made).unique
    assert [*found] == asked and list(found.values()) == sorted(found.values(), reverse=True)
    for text, names in zip(asked, ([*CODES], ["a", "b"], ["a"]), strict=True):
        seen = Counter(tuple(row[name] for name in names) for row in rows)
        assert found[text] == sum(n == 1 for n in seen.values()) / 100
    assert found[asked[0]] > 0
    with pytest.raises(NotAccepted, match=r"does not meet unique <= 0 \(it is 0\.") as refused:
        made_of(accept=["unique <= 0"], rows=100, epsilon=50.0)
    assert refused.value.exit_code == 3
    assert made_of(accept=["unique a <= 0"], epsilon=50.0).manifest.certificate
    with pytest.raises(InputError, match="of a release of people"):
        people_made(accept=["unique <= .5"])


def test_several_batches_are_counted_together() -> None:
    """A row that is alone in its batch alone, the planted bug of counting batch by batch, is not alone."""
    made = made_of(accept=["unique <= .99"], rows=300, epsilon=50.0)
    seen = Counter(map(tuple, (row.values() for row in made.to_arrow().to_pylist())))
    batches = [made.to_arrow().slice(at, 100).combine_chunks().to_batches()[0] for at in (0, 100, 200)]
    told = certificate.unique_share(batches, [*CODES])
    assert told == sum(n == 1 for n in seen.values()) / 300 == certificate_of(made).unique["unique <= .99"]
    assert np.mean([certificate.unique_share([batch], [*CODES]) for batch in batches]) > told
    assert certificate.unique_share([], [*CODES]) == 0.0  # seen to fail: no rows were no table to pyarrow
    assert certificate_of(made_of(accept=["unique <= .5"], rows=0)).unique == {"unique <= .5": 0.0}


def test_a_refusal_is_one_line() -> None:
    table = pa.table({"a\nb": [0, 1] * 50})
    asked = ["column a\nb <= 0.001", "mean1\n<= 0.001"]
    with pytest.raises(NotAccepted) as refused:
        release(table, 1, domain={"a\nb": 2}, certificate=0.1, accept=asked)
    assert "\n" not in str(refused.value) and "column a\\nb <= 0.001" in str(refused.value)


def test_the_upper_bound_is_what_counts() -> None:
    high = next(e.high for e in certificate_of(made_of()).errors if (e.what, e.order) == ("mean", 2))
    assert certificate_of(made_of(accept=[f"mean2 <= {high + 1e-6}"])).tried == 1
    with pytest.raises(NotAccepted):
        made_of(accept=[f"mean2 <= {high - 1e-6}"])


ASKED: dict[str, Any] = {"certificate": 0.1, "sample_seed": 3}


@pytest.mark.parametrize("nth", [2, 9, 13])
def test_a_run_that_died_goes_on_to_the_same_certificate(books: Path, nth: int) -> None:
    whole, _, once = go(shutil.copy(books, books.with_name("other")), **ASKED)
    died(books, "after journal", nth, **ASKED)
    made, run, noise = go(books, **ASKED)
    assert run.resumed > 0 and state(books) == ["finished"]
    assert certificate_of(made) == certificate_of(whole)
    assert len(noise.calls) + run.resumed == len(once.calls)


def test_a_refused_run_stays_spent_and_is_refused_again_for_nothing(books: Path) -> None:
    again = FakeNoise(offset=lambda values, _: values + np.arange(len(values)) % 3)
    for noise in (None, again):
        with pytest.raises(NotAccepted) as refused:
            go(books, noise=noise, accept=["mean2 <= 0.0001"], **ASKED)
        assert refused.value.budget_spent and not refused.value.retryable
        assert "stays spent" in str(refused.value.advice)
    assert not again.calls
    (entry,) = entries(books)
    assert entry.state == "failed" and entry.spent is not None
    assert entry.spent.amount == pytest.approx(Policy.of(epsilon=1.0).budget(learn_domain=False).amount)


def test_the_command_line_says_it(here: Path, fmwem: Fmwem) -> None:
    asked = ("t.csv", "--marginals", 2, "--certificate", 0.2)
    told = fmwem("release", *asked)
    said = " ".join(told.err.split())
    assert told.code == 0 and "mean error of" in said and "all bounds hold at 95%" in said
    told = fmwem("release", *asked, "--accept", "mean2 <= 0.0001", "--tries", 2, "-o", "new.parquet")
    assert told.code == 3 and "none of 2 tries" in told.err and "budget was spent" in told.err
    assert not [*here.glob("new*")]
    told = fmwem("check", *asked, "--accept", "worst <= 1", "--tries", 2)
    assert told.code == 0 and "up to 2, each with 40.0% of the budget and a certificate of 10.0%" in told.out
    (here / "c.toml").write_text('certificate = 0.2\naccept = ["mean2 <= 0.0001"]\n')
    assert fmwem("release", "t.csv", "--marginals", 2, "--config", "c.toml", "--overwrite").code == 3


def test_what_check_predicts_comes_true() -> None:
    request = Request.of(table(), 3, domain=CODES, certificate=0.2, epsilon=30.0)
    scope = Scope.of(request, Machine.of(request.policy))
    assert scope.domain is not None
    predicted = attempts.forecast_certificate(Plan.of(scope, scope.domain), 600.0)
    assert predicted is not None
    wide = {"column": predicted.column, "worst": predicted.worst[1]}
    for error in certificate_of(made_of(certificate=0.2, epsilon=30.0)).errors:
        said = predicted.means[error.order] if error.what == "mean" else wide[error.what]
        assert error.high - error.estimate == pytest.approx(said, rel=0.3)


def seen_by_verify(**choices: Any) -> Any:
    return verify(table(120), 2, domain=CODES, certificate=0.2, rounds=2, pairs=20, seed=2, **choices)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_neighbours_do_not_move_it_by_more_than_was_charged(delta: float) -> None:
    found = seen_by_verify(delta=delta, neighbours="replace", contributions=2)
    (stage,) = [stage for stage in found.stages if stage.name == "certify"]
    assert found.holds, found.failures
    assert 0 < stage.worst <= 1 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("order", [None, "day"])
def test_people_do_not_move_it_by_more_than_was_charged(order: str | None) -> None:
    rows = of_people.table_of_people(300, most=6)
    asked: dict[str, Any] = {"privacy_id": "who", "people": True, "contributions": 6, "order_by": order}
    found = verify(rows, 2, domain=of_people.DOMAIN, certificate=0.2, pairs=6, seed=2, rounds=2, **asked)
    (stage,) = [stage for stage in found.stages if stage.name == "certify"]
    assert found.holds, found.failures
    assert 0 < stage.worst <= 1 + 1e-9


@pytest.mark.slow
def test_verify_does_not_mind_what_would_be_refused() -> None:
    """Criteria are met or not by chance: that is no finding."""
    found = seen_by_verify(epsilon=50.0, accept=["mean2 <= 1e-6"], tries=2)
    assert found.holds, found.failures
    assert "certify" in {stage.name for stage in found.stages}


@pytest.mark.slow
def test_verify_sees_a_planted_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that is charged as a mean; smaller mistakes are for all neighbours of tiny tables to show."""
    monkeypatch.setattr(distances, "mean", lambda found: int(found.sum()))
    found = seen_by_verify(delta=0.0, neighbours="replace", contributions=2)
    assert {failure.stage for failure in found.failures} == {"certify"}


def test_a_table_that_is_dear_to_read_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a pass is dear, all marginals asked for are counted ahead, and with them the certificate's."""
    passes = []

    class Dear(Codes):
        dear = True

        def exact_counts(self, *given: Any) -> np.ndarray:
            passes.append(given)
            return super().exact_counts(*given)

    real = sources.encode_table

    def encode(*given: Any) -> Codes:
        codes = real(*given)
        return Dear(codes.columns, codes.sizes)

    monkeypatch.setattr(sources, "encode_table", encode)
    made_of(**CASES["rounds"], certificate=None)
    without = len(passes)
    passes.clear()
    made_of(**CASES["rounds"])
    assert len(passes) == without > 0


def test_what_memory_does_not_hold_is_a_sample_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr(plan, "MAX_CERTIFIED_CELLS", 250.0)
    one, other = (certificate_of(made_of(sample_seed=seed)) for seed in (3, 3))
    assert one == other
    triples = next(e for e in one.errors if (e.what, e.order) == ("worst", e.order))
    assert triples.sets < triples.asked == 14
    means = {e.order: (e.sets, e.asked) for e in one.errors if e.what == "mean"}
    assert means[1] == (4, 4) and means[2][1] == 6


def test_nobody_asks_for_a_certificate_of_a_domain() -> None:
    with pytest.raises(InputError, match="a certificate is for outputs with rows"):
        learn(table(), certificate=0.1)


def test_a_manifest_keeps_it(tmp_path: Path) -> None:
    made = made_of()
    made.save(tmp_path / "m.fmwem")
    told = (made.write(tmp_path / "m.parquet"), Release.load(tmp_path / "m.fmwem").manifest)
    assert [manifest.certificate for manifest in told] == [made.manifest.certificate] * 2
