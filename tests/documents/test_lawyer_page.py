"""The page for readers who know no statistics: its odds and its counts are bounds, and it is made from public
files alone.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from scipy import stats
from support.commands import Fmwem
from support.pages import HOSTILE, MOST_BYTES, PEOPLE, check_page, people

from factored_mwem import Release, release, report
from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.membership import advantage_of_budget
from factored_mwem.documents.lawyer import SELDOM, after, alike, lawyer_page, swing
from factored_mwem.documents.material import material_of


def budget(amount: float, composition: Composition, kept: float = 0.0) -> Budget:
    return Budget(1.0, 1e-9, composition, Fraction(amount), Fraction(kept))


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("rho", [1e-4, 0.015, 0.5, 4.0])
def test_odds_change_by_no_more_than_is_said(rho: float, steps: int) -> None:
    """Of Gaussian noise, whose privacy loss over a distance of k is N(k^2 rho, 2 k^2 rho): in both
    directions, and not by far too much.
    """
    factor, beyond = swing(budget(rho, Composition.ZCDP), steps)
    assert beyond == SELDOM
    loss = stats.norm(steps**2 * rho, steps * math.sqrt(2 * rho))
    assert loss.sf(math.log(factor)) + loss.cdf(-math.log(factor)) <= SELDOM
    assert loss.sf(0.8 * math.log(factor)) > SELDOM
    kept = steps * factor ** (steps - 1) * 1e-9  # for thresholds
    assert swing(budget(rho, Composition.ZCDP, 1e-9), steps)[1] == pytest.approx(min(1, SELDOM + kept))
    assert swing(budget(rho, Composition.PURE), steps)[0] == pytest.approx(math.exp(steps * rho), rel=1e-9)


def test_another_answer_is_two_steps_away_where_rows_come_and_go() -> None:
    """One histogram with Laplace noise: odds of one answer against another of a person grow by e^(2 epsilon)
    where the noise falls between both, which a factor of e^epsilon would not bound.
    """
    odds = math.exp(2 * 1.0)
    assert swing(budget(1.0, Composition.PURE), 1)[0] < odds <= swing(budget(1.0, Composition.PURE), 2)[0]


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 2.0])
def test_counts_that_cannot_be_told_apart(epsilon: float) -> None:
    """Laplace noise of scale 1 / epsilon on one count: which of two counts n apart it was is guessed rightly
    with probability 1 - e^(-n epsilon / 2) / 2, at most 3 in 4; half as many where people change places.
    """
    advantage = advantage_of_budget(budget(epsilon, Composition.PURE))
    most = alike(advantage, 1)
    assert most // 2 == alike(advantage, 2)
    assert 1 - math.exp(-most * epsilon / 2) / 2 <= 0.75
    assert (most, most == 0) == (math.floor(0.5 / math.tanh(epsilon / 2)), epsilon == 2.0)


def test_a_chance_after_the_odds_have_grown() -> None:
    assert after(0.5, 3.0) == pytest.approx(0.75) and after(0.1, 1.0) == pytest.approx(0.1)


@pytest.fixture
def made() -> Release:
    return release(people(), 2, domain=PEOPLE, certificate=0.1)


def test_the_five_answers_are_there(made: Release, tmp_path: Path) -> None:
    made.write(tmp_path / "people.parquet")
    place = report(tmp_path / "people.manifest.json", reader="lawyer")
    assert Path(place).name == "people.lawyer.html"
    page = Path(place).read_text()
    words = " ".join(check_page(page).words.split())
    for said in (
        "What was promised, and to whom",
        "one person with at most 1 row added or removed",
        "at most 54.4 % of the time",
        "cannot be told from a count of 2",
        "19.61",
        "9.98",
        "with 95 % confidence",
        "What cannot be asked of it",
        "Who signs",
    ):
        assert said in words, said
    assert Path(report(made, tmp_path / "again.html", reader="lawyer")).read_text() != ""
    certified = made.manifest.certificate
    assert certified is not None
    assert f"{math.ceil(500 * certified.errors[0].high) / 10:.3g}" in words


def test_other_promises_have_other_words(made: Release) -> None:
    other = release(people(), 1, domain=PEOPLE, delta=0.0, epsilon=3.0, neighbours="replace")
    words = " ".join(check_page(lawyer_page(material_of(other))).words.split())
    assert "which of two answers" in words and "Small counts are not hidden" in words
    assert "expected from the noise" in words and "of a million" not in words


def test_hostile_names_are_text() -> None:
    fields = [{"name": name, "categories": HOSTILE} for name in HOSTILE]
    made = release(pa.table(dict.fromkeys(HOSTILE, HOSTILE * 10)), 1, domain={"fields": fields}, rows=50)
    text = lawyer_page(material_of(made))
    assert "</script><img" in check_page(text).words and len(text) < MOST_BYTES


def test_what_is_refused(here: Path, fmwem: Fmwem) -> None:
    assert fmwem("release t.csv --marginals 1").code == 0
    done = fmwem("report t.synthetic.manifest.json --for lawyer")
    assert done.facts == {"report": "t.synthetic.lawyer.html", "public": True}
    for wrong, why in (
        ("report t.synthetic.manifest.json --for nobody", "lawyer is the only reader"),
        ("report t.synthetic.manifest.json --for lawyer --against t.csv", "leave it out"),
        ("report t.synthetic.manifest.json --for lawyer", "exists"),
    ):
        refused = fmwem(wrong)
        assert refused.code == 2 and why in refused.err
