"""Promise: a release's guarantee in words, for the person in the table, for who decides, and for who checks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.membership import QUESTIONS, advantage, guess_of
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.documents.budget import charges_of
from factored_mwem.documents.wording import counted, figure, plain
from factored_mwem.pipeline.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Promise:
    """Three paragraphs; `guess`: how often a guess of membership is right at most, rounded up, in words."""

    guess: str
    question: str
    subject: str
    executive: str
    statistician: str
    trusted: int
    statement: str


def promise_of(manifest: Manifest) -> Promise:
    """The promise of a manifest, by its charges."""
    g, charges = manifest.guarantee, charges_of(manifest)
    budget = Budget(g.epsilon, g.delta, g.composition, Fraction(0), Fraction(0))
    chance = guess_of(advantage(charges, budget))
    guess = f"{math.ceil(1000 * chance) / 10:.1f} %"
    relation = Neighbours(g.neighbours)
    trusted = len(g.assumptions.taken_on_trust()) if g.assumptions is not None else 0
    cost = sum((charge.cost for charge in charges), Fraction(0))
    return Promise(
        guess=guess,
        question=QUESTIONS[relation],
        subject=_subject(relation, guess),
        executive=_executive(manifest, guess, trusted),
        statistician=_statistician(manifest, float(cost), chance),
        trusted=trusted,
        statement=plain(g.statement, 400),
    )


def _subject(relation: Neighbours, guess: str) -> str:
    other = (
        "left out"
        if relation is Neighbours.ADD_REMOVE
        else "replaced by those of somebody else, or other answers"
    )
    return (
        "Your answers may have been in the table that this one was made from. No row here is you: every row "
        "was drawn by a computer from blurred counts over many people. The blur was chosen so that what "
        f"anybody sees here would be nearly as likely had your rows been {other}. Who tries to tell from it "
        f"which of the two happened, when a fair coin decided it, is right at most {guess} of the time, "
        "whatever else they know of you; the coin alone is right 50 % of the time. What holds for many people "
        "at once, such as that smokers fall ill more often, may be learnt from this table, also about you."
    )


def _executive(manifest: Manifest, guess: str, trusted: int) -> str:
    g = manifest.guarantee
    books = g.assumptions is not None and g.assumptions.ledger is not None
    others = (
        "A ledger keeps all releases of these records under one cap."
        if books
        else "No ledger kept count: other releases of the same records add to the risk, and are not counted here."
    )
    return (
        f"The files may be handed on, copied and combined with anything: the promise (epsilon {figure(g.epsilon)}) "
        "cannot be undone by later events, and rests on no secret about the method. It bounds what the files say "
        f"of any one person ({guess} for a guess where a coin has 50 %); it does not say that the table is right "
        f"in every detail, nor that the data were collected lawfully. {others} "
        f"{counted(trusted, 'assumption')} of it {'is' if trusted == 1 else 'are'} taken on trust, and listed below."
    )


def _statistician(manifest: Manifest, cost: float, chance: float) -> str:
    g = manifest.guarantee
    zcdp = g.composition is Composition.ZCDP
    how = (
        f"The charges add up to rho = {figure(cost, 4)} of (delta-approximate) zero-concentrated differential "
        f"privacy, converted at delta {figure(g.delta)} to epsilon {figure(g.spent_epsilon, 6)}"
        if zcdp
        else f"The charges add up to epsilon = {figure(cost, 6)} of pure differential privacy"
    )
    return (
        f"{plain(g.statement, 400)}. {how}. Neighbours: {plain(g.neighbours)}, with at most "
        f"{counted(g.contributions, 'row')} a person. Every entry of the manifest's ledger states mechanism, "
        "scale and sensitivity, so that the sum can be checked. The bound on guesses is (1 + V) / 2 with V = "
        f"{figure(max(2 * chance - 1, 0.0), 4)}, an upper bound on the total variation distance between the "
        "outputs on any two neighbours, by the accounting alone."
    )
