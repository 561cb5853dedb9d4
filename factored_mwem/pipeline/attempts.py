"""Attempts: models are fitted and rows drawn until one meets the criteria; without criteria, once.

Tries are paid for by plain composition: each gets an equal part of the budget beforehand. The released one is
chosen by noisy numbers that were all paid for, which is post-processing. Private selection (Liu and Talwar
2019; Papernot and Steinke 2022) lets a try of pure differential privacy cost half the budget however many
there are, if it stops at random: worse than composition for one try, the same for two, and from three on the
noise is 2 / r of composition's r-fold. Under zCDP, the default, r tries make the noise sqrt(r) times as
large; there is no such theorem for rho, and selection by way of pure epsilon would price every Gaussian as
Laplace. A random stop would also refuse releases that meet what was asked. So composition it is, exact in
fractions.

A domain that is learnt is learnt once, for all tries; each try is everything after that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from factored_mwem.errors import NotAccepted
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.registry import mechanism
from factored_mwem.mechanisms.result import Fitted
from factored_mwem.mechanisms.rounds import Report
from factored_mwem.pipeline.drawable import generator, number_of_rows
from factored_mwem.pipeline.record.describe import drawable_of
from factored_mwem.pipeline.record.manifest import Certificate
from factored_mwem.pipeline.sampling import Batches
from factored_mwem.privacy.session import Session

if TYPE_CHECKING:
    from factored_mwem.mechanisms.certify import Extent

SAMPLE = 2**32
"""The number of the random generator that draws which marginals are certified; no batch of rows uses it."""


def first_accepted(
    session: Session, plan: Plan, report: Report, seed: int
) -> tuple[Fitted, Certificate | None]:
    """The first fit that meets what the policy accepts, with its certificate. `session` may spend what all
    fits cost together.

    Raises NotAccepted, whose message uses only noisy numbers that were paid for, if none does.
    """
    policy, request = plan.policy, plan.request
    fit = mechanism(policy.engine)
    if policy.certificate is None:
        return fit(session, plan, report), None
    from factored_mwem.pipeline.certificate import make_certificate, unmet

    extent = certified(plan, seed)
    each = session.left / policy.tries
    missing: list[str] = []
    for number in range(1, policy.tries + 1):
        paying = session if policy.tries == 1 else session.paid_by(session.accountant.part(each))
        fitted = fit(paying, plan, report)
        # paid from the part set aside for certificates, not from that of fits
        apart = session.paid_by(session.accountant.root.part(request.certifying / policy.tries))
        rows = rows_of(plan, fitted, seed)
        certificate = make_certificate(apart, extent, rows, policy, plan.modelled, number)
        missing = unmet(policy.criteria, certificate)
        if not missing:
            return fitted, certificate
    tries = "the release" if policy.tries == 1 else f"none of {policy.tries} tries"
    verb = "does not meet" if policy.tries == 1 else "met what was asked; the last failed"
    raise NotAccepted(f"{tries} {verb} {'; '.join(missing)}; nothing was written")


def certified(plan: Plan, seed: int = 0) -> Extent:
    """The marginals that are certified under a plan: public, and the same for every attempt of a run."""
    from factored_mwem.mechanisms.certify import extent_of

    most = plan.certified_cells
    everything = extent_of(plan.candidates, most)
    if everything.complete:
        return everything
    return extent_of(
        plan.candidates, most, generator(seed, SAMPLE).permutation(len(plan.candidates)).tolist()
    )


@dataclass(frozen=True, slots=True)
class CertificateForecast:
    """The cost of the certificates of all tries together, and about how wide the bounds of one will be for
    small errors: of the mean of each order, of a column, of the worst (below and above it). `each`: the share
    of the budget for the model of a try; `marginals`: how many are counted, of those `asked` for.
    """

    share: float
    tries: int
    each: float
    means: dict[int, float]
    column: float
    worst: tuple[float, float]
    marginals: int
    asked: int


def forecast_certificate(plan: Plan, counted: float) -> CertificateForecast | None:
    """The forecast for a table of about so many rows, or grains of people; None if no certificate is
    requested.
    """
    policy, budget = plan.policy, plan.request.budget
    if policy.certificate is None:
        return None
    from factored_mwem.mechanisms.certify import CONFIDENCE, PartPrices, widths_of

    extent = certified(plan)
    prices = PartPrices.of(plan.request.certifying / policy.tries, extent, policy.unit, budget.composition)
    widths = widths_of(
        prices, extent, policy.unit, budget.composition, counted, (1 - CONFIDENCE) / policy.tries
    )
    return CertificateForecast(
        share=policy.certificate,
        tries=policy.tries,
        each=(1 - policy.certificate) / policy.tries,
        means=widths.means,
        column=widths.column,
        worst=widths.worst,
        marginals=len(extent.candidates) + len(extent.asked),
        asked=sum(extent.wanted.values()),
    )


def rows_of(plan: Plan, fitted: Fitted, seed: int) -> Batches:
    """The rows that a release of this model writes."""
    drawable, policy = drawable_of(plan, fitted), plan.policy.model_dump(mode="json")
    rows = number_of_rows(plan.request, round(drawable.of_rows.total))
    return drawable.released(rows, seed, plan.request.workload, policy)
