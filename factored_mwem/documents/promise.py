"""Promise: a release's guarantee in the numbers that its three paragraphs need: for the person in the table,
for who decides, and for who checks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.membership import QUESTIONS, advantage, advantage_of_budget, guess_of
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.documents.budget import charges_of
from factored_mwem.documents.wording import figure, plain
from factored_mwem.pipeline.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Promise:
    """`guess`: how often a guess of membership, the `question`, is right at most, rounded up, in words;
    `variation`: the bound on the total variation distance behind it. `cost`: what all charges add up to, of
    rho where `zcdp`, else of epsilon. `leaves`: whether neighbours lack a person's rows.
    """

    guess: str
    question: str
    variation: str
    leaves: bool
    zcdp: bool
    cost: str
    trusted: int
    books: bool
    statement: str


def promise_of(manifest: Manifest) -> Promise:
    """The promise of a manifest, by its charges; where more tries might have come, by all that they could
    have spent: which of them is released depends on the table.
    """
    g, charges = manifest.guarantee, charges_of(manifest)
    relation, listed = Neighbours(g.neighbours), g.assumptions
    bound = advantage(charges, Budget(g.epsilon, g.delta, g.composition, Fraction(0), Fraction(0)))
    if manifest.certificate is not None and manifest.certificate.tries > manifest.certificate.tried:
        thresholds = sum((charge.delta for charge in charges), Fraction(0))
        whole = replace(Budget.of(g.epsilon, g.delta), discovery_delta=thresholds)
        bound = max(bound, advantage_of_budget(whole))
    zcdp = g.composition is Composition.ZCDP
    return Promise(
        guess=f"{math.ceil(1000 * guess_of(bound)) / 10:.1f} %",
        question=QUESTIONS[relation],
        variation=figure(math.ceil(1e4 * bound) / 1e4, 4),
        leaves=relation is Neighbours.ADD_REMOVE,
        zcdp=zcdp,
        cost=figure(float(sum((charge.cost for charge in charges), Fraction(0))), 4 if zcdp else 6),
        trusted=len(listed.taken_on_trust()) if listed is not None else 0,
        books=listed is not None and listed.ledger is not None,
        statement=plain(g.statement, 400),
    )
