"""measure_smooth: a number whose noise is scaled by a smooth bound of its own sensitivity, which is private;
private numbers are read here.

Nothing but the noisy number leaves: neither the bound nor anything that follows from it. What noise is
private, and why, is in `accounting/admissible.py`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Protocol

from factored_mwem.accounting.accountant import BETA_GRID, SMOOTH, Charge
from factored_mwem.accounting.admissible import Admissible, Shape
from factored_mwem.accounting.conversion import Composition, float_down
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Session


class Smooth(Protocol):
    """What a sealed object reveals to be measured so.

    `smooth` is at least 1, at least what `group` rows of one person can move `value` by, and between
    neighbours its logarithm moves by at most `beta`, but for what `admissible.SLACK` covers.
    """

    def value(self, what: Any) -> int:
        """The true number, in whole units of a public grid."""

    def smooth(self, what: Any, beta: float, group: int) -> float:
        """The bound, in the same units."""


def constants(shape: Shape, cost: Fraction, delta: Fraction) -> Admissible:
    """Multiplier and beta that `cost` (epsilon) and `delta` pay for; public. Raises InputError."""
    if shape is Shape.CAUCHY:
        return Admissible.cauchy(float_down(cost))
    return Admissible.laplace(float_down(cost), float_down(delta))


def measure_smooth(
    session: Session,
    sealed: Sealed,
    what: Any,
    *,
    shape: Shape,
    cost: Fraction | None = None,
    delta: Fraction | None = None,
) -> int:
    """The number, noisy, in its units. Cost: `cost` and, for Laplace noise, `delta`, one charge; all that is
    left, where they are not said.

    The charge tells the public multiplier and beta; the scale is their product with the bound, and private.
    Source: Nissim, Raskhodnikova, Smith 2007, Lemma 2.6.
    """
    assert session.composition is Composition.PURE, "these events are not counted in rho"
    cost = Fraction(float_down(session.left)) if cost is None else cost
    delta = session.accountant.budget.discovery_delta if delta is None else delta
    noise = constants(shape, cost, delta)
    beta = math.floor(noise.beta * BETA_GRID)
    charge = Charge("measure", SMOOTH[shape], sealed.names, noise.multiplier, beta, delta)
    contents: Smooth = session._unseal(sealed, charge)
    bound = contents.smooth(what, beta / BETA_GRID, session.unit.contributions)
    return session.noise.spread(contents.value(what), bound, shape=shape, scale=noise.multiplier)
