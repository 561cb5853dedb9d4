"""Admissible noise: the noise with which a statistic may be released although its sensitivity is private.

S is a beta-smooth upper bound of the local sensitivity D of f: for neighbours x, x', S(x) >= D(x) and
S(x) <= e^beta S(x'). Released is f(x) + Z, with Z discrete on the integers, of scale s = m S(x), where the
multiplier m and beta are public. Source: Nissim, Raskhodnikova, Smith 2007, for continuous noise; the proofs
for discrete noise are here. f is in whole units of a public grid; S is at least 1 unit and m at least 1, so
that s >= 1 throughout.

Let |f(x) - f(x')| = D <= min(S, S'), and s' = s e^b, |b| <= beta. First the scale changes, then the place:
P_{f, s}(E) <= e^e2 P_{f, s'}(E) + d2 and P_{f, s'}(E) <= e^e1 P_{f', s'}(E) + d1 give e1 + e2 and
d2 + e^e2 d1; at scale s' the move is D <= S(x') = s' / m.

Cauchy. P_s(z) = (s tanh(pi s) / pi) / (s^2 + z^2), because the sum of 1 / (s^2 + z^2) over all integers is
(pi / s) coth(pi s). Pure. With z = s tan(phi), the logarithm of P changes by -cos(2 phi) d ln s + sin(2
phi) dz / s and, from the tanh, by u / sinh(u) d ln s with u = 2 pi s. The first two are at most the length
of (dz, ds) in the hyperbolic half plane, so between (f(x), s) and (f(x'), s') they add up to at most the
distance h there, cosh h = 1 + (D^2 + (s - s')^2) / (2 s s') <= cosh b + e^{-|b|} / (2 m^2), as D <= min(s,
s') / m; that is convex in |b|, so greatest at 0 or beta. On the shortest way s is never below both ends,
where it is at least m, and its logarithm moves by no more than h. So epsilon = (1 + u / sinh(u)) h with u =
2 pi m.
  The printed constants, m = 6 / epsilon and beta = epsilon / 6, are those of a whole family of densities: for
  this one about m = 1.42 / epsilon and beta = .7 epsilon are as private.
  Of d > 1 independent coordinates, D in L1 norm: at most 1 / m for the place and d beta for the scale.

Laplace. P_t(z) = tanh(1 / (2 t)) e^{-|z| / t}, (epsilon, delta).
  Place: D / t <= 1 / m = e1. Scale: d ln P / d ln t = |z| / t - g(t), g(t) = (1 / t) / sinh(1 / t) <= 1,
  which rises with t. To a larger scale the loss is at most b <= beta, so beta <= e2. To a smaller, t = t'
  e^b, it is at most (|z| / t)(e^b - 1) - b g(1). That is above e2 for |z| / t > (e2 + b g(1)) / (e^b - 1)
  alone, which falls with b; so d2 is at most P(|z| > w t), w = (e2 + beta g(1)) / (e^beta - 1), and P(|z|
  >= j) = 2 e^{-j / t} / (1 + e^{-1 / t}) <= 2 e^{-w} / (1 + e^{-1}).

Gaussian. P(z) = e^{-|z|^2 / (2 s^2)} / theta(s)^d on d coordinates, D in L2 norm, (epsilon, delta).
  Place: 1 / (2 m^2)-zCDP (Canonne, Kamath, Steinke 2020), so (e1, d1) by the conversion of conversion.py.
  Scale: d ln theta / d ln s = E z^2 / s^2 lies in [1 - 10^-6, 1] for s >= 1 (Poisson summation). To a larger
  scale the loss is at most d b <= d beta <= e2. To a smaller, it is at most (|z|^2 / s^2)(e^{2b} - 1) / 2 -
  d b (1 - 10^-6), above e2 where |z|^2 / s^2 > r = 2 (e2 + d beta (1 - 10^-6)) / (e^{2 beta} - 1) alone; as
  theta(s / sqrt(1 - 2 l)) <= theta(s) / sqrt(1 - 2 l), Chernoff's bound for chi-square holds: d2 =
  (r / d)^{d / 2} e^{(d - r) / 2} for r > d.

Rounding. S is computed in floats and rounded up by at most one part in 2^40, and the scale up to a whole
2^-30; so the scale's logarithm may move by SLACK more than beta, which is charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from factored_mwem.accounting.conversion import epsilon_of, rho_of
from factored_mwem.errors import InputError

SLACK = 2.0**-26
"""The most that rounding adds to the change of a scale's logarithm."""
UP = 1 + 2.0**-40
THETA = 1e-6


class Shape(StrEnum):
    """The noise that smooth sensitivity may be released with."""

    CAUCHY = "cauchy"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, slots=True)
class Admissible:
    """Noise of scale `multiplier` times a `beta`-smooth bound is (epsilon, delta)-private: public facts."""

    shape: Shape
    multiplier: float
    beta: float
    epsilon: float
    delta: float = 0.0
    dimensions: int = 1

    @classmethod
    def cauchy(cls, epsilon: float, dimensions: int = 1) -> Admissible:
        """Place and scale get the same share. Pure."""
        _check(epsilon)
        first = max(1.0, (2**0.5 if dimensions == 1 else 2) / epsilon) * UP
        beta = _largest(lambda b: cauchy_loss(first, b + SLACK, dimensions) <= epsilon, epsilon)
        return cls._checked(Shape.CAUCHY, first, beta, epsilon, 0.0, dimensions)

    @classmethod
    def printed_cauchy(cls, epsilon: float) -> Admissible:
        """The constants of Nissim, Raskhodnikova and Smith: 6 S / epsilon, beta = epsilon / 6."""
        _check(epsilon)
        return cls(Shape.CAUCHY, 6 / epsilon, epsilon / 6, epsilon)

    @classmethod
    def laplace(cls, epsilon: float, delta: float) -> Admissible:
        """Noise of 2 S / epsilon; beta is about epsilon / (2 ln(1 / delta))."""
        _check(epsilon, delta)
        multiplier = max(1.0, 2 / epsilon) * UP
        beta = _largest(lambda b: laplace_loss(multiplier, b + SLACK, delta) <= epsilon, epsilon)
        return cls._checked(Shape.LAPLACE, multiplier, beta, epsilon, delta, 1)

    @classmethod
    def gaussian(cls, epsilon: float, delta: float, dimensions: int = 1) -> Admissible:
        """Half of epsilon and of delta for the place, half for the scale."""
        _check(epsilon, delta)
        half, d1 = epsilon / 2 / UP, Fraction(delta / 2 * math.exp(-epsilon / 2) / UP)
        multiplier = max(1.0, math.sqrt(1 / (2 * rho_of(half, d1))) * UP)

        def holds(b: float) -> bool:
            return b * dimensions <= half and gaussian_tail(b, half, dimensions) <= delta / 2

        beta = _largest(holds, half / dimensions) - SLACK
        return cls._checked(Shape.GAUSSIAN, multiplier, beta, epsilon, delta, dimensions)

    @classmethod
    def _checked(
        cls, shape: Shape, multiplier: float, beta: float, epsilon: float, delta: float, dimensions: int
    ) -> Admissible:
        if beta <= 0:
            raise InputError(
                f"epsilon={epsilon:g} is too little for {shape} noise on {dimensions} coordinate(s); raise it"
            )
        return cls(shape, multiplier, beta, epsilon, delta, dimensions)

    @property
    def holds(self) -> bool:
        """Whether the constants keep the promise, by the bounds above: what an auditor recomputes."""
        beta, m, d = self.beta + SLACK, self.multiplier, self.dimensions
        if m < 1 or beta <= SLACK:
            return False
        if self.shape is Shape.CAUCHY:
            return cauchy_loss(m, beta, d) <= self.epsilon
        if self.shape is Shape.LAPLACE:
            return d == 1 and laplace_loss(m, beta, self.delta) <= self.epsilon
        half = self.epsilon / 2
        d1 = Fraction(self.delta / 2 * math.exp(-half))
        moved = epsilon_of(Fraction(1 / (2 * m * m)) * Fraction(1 + 2**-40), d1) <= half
        return moved and d * beta <= half and gaussian_tail(beta, half, d) <= self.delta / 2


def loss_of(shape: Shape, multiplier: float, beta: float, delta: float) -> float:
    """The epsilon of noise on one number, at `delta`, rounded up; infinite where nothing is promised."""
    if not (multiplier >= 1 and 0 < beta < 100):
        return math.inf
    if shape is Shape.CAUCHY:
        return cauchy_loss(multiplier, beta + SLACK)
    return laplace_loss(multiplier, beta + SLACK, delta) if shape is Shape.LAPLACE else math.inf


def laplace_loss(multiplier: float, beta: float, delta: float) -> float:
    """The epsilon of a discrete Laplace at `delta`, rounded up: 1 / m + e2, with d2 = delta; see the top."""
    if not 0 < delta < 1:
        return math.inf
    reach = math.log(2 / (1 + math.exp(-1)) / delta)
    second = max(beta, reach * math.expm1(beta) - beta / math.sinh(1.0))
    return (1 / multiplier + second) * (1 + 1e-12)


def cauchy_loss(multiplier: float, beta: float, dimensions: int = 1) -> float:
    """The epsilon of a discrete Cauchy, rounded up; see the top."""
    u = 2 * math.pi * multiplier
    wobble = 1 + (u / math.sinh(u) if u < 700 else 0.0)
    if dimensions > 1:
        return (1 / multiplier + dimensions * beta) * wobble * (1 + 1e-12)
    place = 1 / (2 * multiplier**2)  # cosh(h) - 1, without its cancellation
    more = max(place, 2 * math.sinh(beta / 2) ** 2 + place * math.exp(-beta))
    return 2 * math.asinh(math.sqrt(more / 2)) * wobble * (1 + 1e-12)


def gaussian_tail(beta: float, epsilon: float, dimensions: int) -> float:
    """The delta of a change of the scale's logarithm by `beta` at `epsilon`; see the top."""
    d = dimensions
    reach = 2 * (epsilon + d * beta * (1 - THETA)) / math.expm1(2 * beta)
    return 1.0 if reach <= d else math.exp((d - reach) / 2 + d / 2 * math.log(reach / d)) * (1 + 1e-9)


def _largest(holds: Callable[[float], bool], most: float) -> float:
    """The largest beta up to `most` (to 2^-40) for which a bound that falls with it holds; 0: none."""
    if holds(most):
        return most
    low, high = 0.0, most
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
        if high - low <= low * 2**-40 or not low < (low + high) / 2 < high:
            break
    return low


def _check(epsilon: float, delta: float = 0.5) -> None:
    if not 0 < epsilon < math.inf:
        raise InputError(f"epsilon={epsilon}: must be a positive number")
    if not 0 < delta < 1:
        raise InputError(
            f"delta={delta}: this noise needs a delta above 0 and below 1; 1e-9 is a common choice"
        )
