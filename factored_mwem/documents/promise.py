"""Promise: the numbers for the three paragraphs about a release's guarantee (for a person in the table, for
those who decide, for those who check), and its assumptions by the layers of NIST SP 800-226 (March 2025).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.membership import QUESTIONS, advantage_of_budget, guess_of
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.documents.budget import mechanisms_of
from factored_mwem.documents.page import counted, figure, plain
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.record.statement import charges_of

LAYERS = {
    "unit": "contributions people records rows",
    "channels": "surroundings readable",
    "trust": "releases ledger cluster",
    "collection": "columns domain rules parameters",
}
"""The assumptions of a manifest by the layer that rests on them."""


def most_spent(manifest: Manifest) -> Budget:
    """What the charges of a manifest add up to. If there might have been more tries, all that they could have
    spent, because which try is released depends on the table.
    """
    g, charges = manifest.guarantee, charges_of(manifest.ledger)
    cost = sum((charge.cost for charge in charges), Fraction(0))
    thresholds = sum((charge.delta for charge in charges), Fraction(0))
    if manifest.certificate is not None and manifest.certificate.tries > manifest.certificate.tried:
        cost = max(cost, Budget.of(g.epsilon, g.delta).amount)
    return Budget(g.epsilon, g.delta, g.composition, cost, thresholds)


def promise_of(manifest: Manifest) -> dict[str, Any]:
    """The promise of a manifest, from `most_spent`.

    `guess`: how often a guess of membership, the `question`, is right at most, rounded up, in words;
    `variation`: the bound on the total variation distance behind it; `leaves`: whether neighbours lack a
    person's rows. `cost`: what all charges add up to, of rho where `zcdp`, else of epsilon.
    """
    g, charges = manifest.guarantee, charges_of(manifest.ledger)
    relation, bound = Neighbours(g.neighbours), advantage_of_budget(most_spent(manifest))
    zcdp = g.composition is Composition.ZCDP
    return {
        "guess": f"{math.ceil(1000 * guess_of(bound)) / 10:.1f} %",
        "question": QUESTIONS[relation],
        "variation": figure(math.ceil(1e4 * bound) / 1e4, 4),
        "leaves": relation is Neighbours.ADD_REMOVE,
        "zcdp": zcdp,
        "cost": figure(float(sum((charge.cost for charge in charges), Fraction(0))), 4 if zcdp else 6),
        "trusted": len(g.taken_on_trust()),
        "books": "ledger" in g.assumptions,
        "statement": plain(g.statement, 400),
    }


def layers_of(manifest: Manifest) -> dict[str, Any]:
    """What the layers rest on. `assumed`: by layer, whether the program made sure of it, and the words;
    `charged`: whether the charges, added up again, `amount` to what is stated.
    """
    g, amount = manifest.guarantee, manifest.recompute()
    noisy = counted(len(manifest.measurements), "noisy marginal")
    for parts, what in ((manifest.residuals, "vector"), (manifest.questions, "question")):
        of = " of residuals" if what == "vector" else ""
        noisy += f" and {counted(len(parts), what)}{of}" if parts else ""
    return {
        "unit": plain(g.unit, 400),
        "mechanisms": ", ".join(mechanisms_of(charges_of(manifest.ledger))),
        "library": plain(manifest.noise_library),
        "amount": figure(amount, 6),
        "charged": math.isclose(amount, g.spent_epsilon, rel_tol=1e-9),
        "drawn_from": noisy,
        "assumed": {
            layer: [
                (g.assumptions[name].enforced, plain(g.assumptions[name].statement, 600))
                for name in names.split()
                if name in g.assumptions
            ]
            for layer, names in LAYERS.items()
        },
    }
