"""Lawyer: a release on one page for somebody who signs, advises or objects, and knows no statistics: what was
promised, to whom, how good the rows are, what cannot be asked, who signs. From the public record alone.
"""

from __future__ import annotations

import math
from typing import Any

from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.membership import advantage_of_budget, guess_of
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.documents.expected import errors_of
from factored_mwem.documents.material import Material
from factored_mwem.documents.page import figure, filled, listed, plain
from factored_mwem.documents.promise import most_spent
from factored_mwem.documents.ties import ties_of

SELDOM = 1e-6
"""Where the noise is Gaussian, the share of releases in which odds may change by more than is said."""
BEFORE = (0.001, 0.01, 0.1, 0.5)
"""What somebody may believe before they see the release."""
TOLD = 0.75
"""How often a guess must be right for two counts to be told apart."""
ELSEWHERE = (
    (
        "United States, census of 2020, redistricting data",
        "19.61 (17.14 for persons, 2.47 for housing units)",
        "US Census Bureau, “Census Bureau Sets Key Parameters to Protect Privacy in 2020 Census Results”, "
        "9 June 2021",
    ),
    (
        "Israel, registry of live births of 2014",
        "9.98",
        "Hod and Canetti, “Differentially Private Release of Israel's National Registry of Live Births”, "
        "arXiv 2405.00267",
    ),
)
"""Published releases: what, epsilon, and who says so."""


def lawyer_page(material: Material) -> str:
    """The HTML of the page: the same bytes from the same release."""
    manifest = material.manifest
    g, budget = manifest.guarantee, most_spent(manifest)
    leaves = Neighbours(g.neighbours) is Neighbours.ADD_REMOVE
    steps = 2 if leaves else 1
    factor, beyond = swing(budget, steps)
    advantage = advantage_of_budget(budget)
    output, ties = manifest.output, ties_of(material)
    return filled(
        "lawyer.html",
        title=plain(output.file, 80) if output is not None else "a release not yet written",
        guess=f"{math.ceil(1000 * guess_of(advantage)) / 10:.1f} %",
        public=manifest.public is not None,
        leaves=leaves,
        unit=plain(g.unit, 400),
        odds=[(_chance(before), _chance(after(before, factor), up=True)) for before in BEFORE],
        factor=f"{math.ceil(100 * factor) / 100:.2f}" if factor < 100 else figure(factor),
        beyond=f"{math.ceil(1e6 * beyond * (1 - 1e-12)):,}" if beyond else None,
        alike=alike(advantage, steps),
        epsilon=figure(g.epsilon),
        delta=figure(g.delta),
        elsewhere=ELSEWHERE,
        people=manifest.people is not None,
        good=_good(material),
        ties=ties,
        alone=listed(ties["alone"]),
        trusted=[plain(statement, 600) for _, statement in g.taken_on_trust()],
        books="ledger" in g.assumptions,
        made=f"{manifest.created} by factored-mwem {plain(manifest.tool_version)}",
        digest=plain((output.sha256 if output is not None else None) or "", 64),
        chain_head=plain(manifest.chain_head or "", 64),
    )


def swing(budget: Budget, steps: int) -> tuple[float, float]:
    """(factor, failure): the odds of a statement about one person change by at most the factor, except in
    this share of releases. `steps`: between neighbours, from a table where it is true to one where it is not:
    another answer of a person takes two where one row is removed or added.

    Odds change by e^Z, Z the privacy loss of all steps. Pure: |Z| <= k epsilon for k steps. rho-zCDP is
    k^2 rho-zCDP for k steps (Bun, Steinke 2016, proposition 1.9), where Z exceeds r + t with probability
    e^(-t^2 / (4 r)) at most (lemma 3.5), and so each way half of the failure; what is kept for thresholds
    adds its delta, k e^((k - 1) Z) times (Dwork, Roth 2014, theorem 2.2).
    """
    kept = float(budget.discovery_delta)
    if budget.composition is Composition.PURE:
        loss, beyond = steps * float(budget.amount), 0.0
    else:
        cost, beyond = steps**2 * float(budget.amount), SELDOM
        loss = cost + 2 * math.sqrt(cost * math.log(2 / SELDOM))
    factor = math.exp(min(loss * (1 + 1e-12), 700.0))
    return factor, min(1.0, beyond + steps * factor ** (steps - 1) * kept)


def after(before: float, factor: float) -> float:
    """The greatest probability after odds have grown by a factor."""
    return factor * before / (1 - before + factor * before)


def alike(advantage: float, steps: int) -> int:
    """The most people with another answer, each so many `steps` away, for a guess between two tables to be
    right no more often than TOLD: advantages add from step to step, by the triangle inequality.
    """
    return int((2 * TOLD - 1) / (advantage * steps)) if advantage > 0 else 10**9


def _chance(share: float, *, up: bool = False) -> str:
    """A probability in per cent, to three digits, `up` wherever it is not exact."""
    steps = 10 ** max(0, 2 - math.floor(math.log10(100 * share)))
    scaled = 100 * share * steps
    return f"{(math.ceil(scaled - 1e-9) if up else round(scaled)) / steps:g} %"


def _good(material: Material) -> dict[str, Any]:
    """The rows out of 100 that would have to be others for counts to be right: `measured` (bounds that hold
    with the certificate's confidence) or `expected` by the model; by how many columns are counted together.
    """
    certificate = material.manifest.certificate
    if certificate is not None:
        means = [error for error in certificate.errors if error.what == "mean"]
        measured = [(_together(e.order), _of_hundred(e.high)) for e in means]
        return {"measured": measured, "confidence": f"{100 * certificate.confidence:.0f} %"}
    expected = errors_of(material)["expected"]
    rows = expected["rows"] if expected is not None else []
    return {"measured": [], "expected": [(words, _of_hundred(float(mean))) for words, _, mean, _ in rows]}


def _together(order: int) -> str:
    return {1: "single columns", 2: "pairs of columns"}.get(order, f"sets of {order} columns")


def _of_hundred(error: float) -> str:
    return figure(math.ceil(500 * error) / 10)
