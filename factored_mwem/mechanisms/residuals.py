"""One-shot residuals: where the whole domain is small, measure what every small set of attributes adds to its
subsets, once, and fit one table.

The residual of attributes S is the part of their marginal that no marginal over fewer of them shows; the
marginals of order K are sums of the residuals of at most K attributes. Adaptive rounds pay for selection and
measure the lower orders again and again; residuals are orthogonal, so every question is paid for once.
Source: ResidualPlanner (Xiao, He, Zhang, Kifer 2023, arXiv 2305.08175), of the family of HDMM (McKenna,
Miklau, Hay, Machanavajjhala 2018).

Attribute subsets are bit masks here: bit i is the i-th attribute with more than one code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.levels import Levels
from factored_mwem.domain.zeros import Zeros, allowed_cells
from factored_mwem.mechanisms.public_joint import FIRMER, NOTHING, PublicJoint
from factored_mwem.mechanisms.result import Fitted, Total
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.forest import Component, Forest
from factored_mwem.privacy.residuals import (
    Residuals,
    measure_residuals,
    over_subsets,
    pairs_along,
    sensitivity,
)
from factored_mwem.privacy.session import Session
from factored_mwem.request.policy import Policy
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.residual_basis import Transform

LIMIT, LIMIT_BITS, LIMIT_PAIRS = 0.03, 0.02, 0.5
"""Most L1 error (shares) that the noise of a residual of three or more attributes (where all have two codes;
of a pair) may add; beyond, it is not asked. Of two codes: triples are in on nltcs at epsilon 1 (.0091 against
.0122 without), out at .3 (.0269 against .0237). Of more, on parts of Adult at 1 and 10: .03 gives .0528,
.0189, .0103 and .0144, .015 gives .0537, .0174, .0185 and .0174.
"""
MAX_ERROR = 0.2
"""Where an attribute has more than two codes: most predicted error for which one shot is chosen. Against the
tree engine on small parts of Adult and on transfusion it was within 8 % or better up to .11 (.0200 against
.0189, .0992 against .1044) and worse from .26 on (.247 against .216).
"""
MAX_CELLS = 2**18
"""Cells of the largest dense table: a step of the fit passes over it about 15 times."""
ENTROPY = 2.0
"""The fit charges ENTROPY over the plan's predicted error times the relative entropy to uniform, against half
of chi squared. The best charges found on seven tables of 70 to 50,000 rows at epsilon 0.1, 1 and 10 follow
that: 30 for a predicted .053 (nltcs .1), 3 for .9 (rochdale .1).
"""
MAX_STEPS = 400
LEAST_WEIGHT = 32
"""Weight of the least weighty residual: rounding to whole weights then costs nothing."""
MAX_CHANGE = 2**26
"""No answer moves by more than this with one row, so that 2^36 rows stay within 64 bits."""


class AtOnce(NamedTuple):
    """All marginals of up to `order` attributes of a dense table of `shape`, but those that are `known`."""

    shape: Sequence[int]
    order: int
    known: PublicJoint = NOTHING


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """The `weights: int64[mask]` of the residuals to measure (0: not at all), and the L1 errors (shares) that
    their noise makes of marginals: the mean `by_order`, from one attribute on.
    """

    weights: np.ndarray
    by_order: tuple[float, ...]

    @property
    def error(self) -> float:
        """Of the marginals of the highest order."""
        return self.by_order[-1]


def choose_weights(
    wanted: AtOnce, cost: float, total: Total, unit: Unit, composition: Composition
) -> Weights:
    """Weights that minimise the summed expected L1 error of the largest marginals; by public facts.

    A marginal's error is sqrt(2 / pi sum of v_S s_S) over the S inside it: v_S the variance of an answer over
    its weight, s_S = prod k (k - 1) / k^2. With u_S the marginals that hold S, each over its error, the least
    sum at a given cost has the closed form below (cost under add-remove).
    """
    shape, order, known = wanted
    sizes = [k for k in shape if k > 1]
    gaussian = composition is Composition.ZCDP
    gain, spread = _gain_and_spread(sizes, gaussian)
    orders = np.bitwise_count(np.arange(len(gain)))
    unknown = ~known.masks(shape)
    targets = ((orders == min(order, len(sizes))) & unknown).astype(np.float64)
    asked = (orders <= order) & ((orders > 0) | (not total.known)) & unknown
    limits = np.array([math.inf, math.inf, LIMIT_PAIRS, LIMIT_BITS if max(shape, default=1) <= 2 else LIMIT])[
        np.minimum(orders, 3)
    ]
    error, weights = np.ones(len(gain)), asked.astype(np.int64)
    while asked.any():
        for _ in range(4):
            uses = _over(targets / error, up=True)
            raw = np.where(asked, uses**0.25 / gain**0.5 if gaussian else (uses * spread) ** (1 / 3), 0.0)
            weights = _whole(raw, asked, sizes)
            bound = sensitivity(shape, weights, unit, composition)
            variance = bound / (2 * cost) if gaussian else 2 * (bound / cost) ** 2
            noise = np.where(asked, variance * spread / np.where(asked, gain * weights, 1.0) ** 2, 0.0)
            error = _errors(noise, total.records)
        excess = np.sqrt(2 / np.pi * noise) / max(total.records, 1.0) / limits
        loud = excess > 1
        if not loud.any():
            break
        asked &= ~(
            loud & (excess >= np.median(excess[loud]) * (1 - 1e-9))
        )  # the louder half: what is left becomes quieter
    top = range(1, min(order, len(sizes)) + 1)
    return Weights(weights, tuple(_mean(error, orders == k, unknown) for k in top or [0]))


def _mean(error: np.ndarray, those: np.ndarray, unknown: np.ndarray) -> float:
    """The mean error of those marginals that are not known; 0 where all are."""
    of = error[those & unknown]
    return float(of.mean()) if len(of) else 0.0


def error_of(
    shape: Sequence[int], measured: Residuals, records: float, known: PublicJoint = NOTHING
) -> float:
    """The mean L1 error of the largest marginals (shares) by the noise of `measured`, as was predicted; but
    for those that are `known`.
    """
    sizes = [k for k in shape if k > 1]
    gain, spread = _gain_and_spread(sizes, measured.scale.composition is Composition.ZCDP)
    asked = measured.weights > 0
    noise = np.where(
        asked, measured.stddev**2 * spread / np.where(asked, gain * measured.weights, 1.0) ** 2, 0.0
    )
    targets = np.bitwise_count(np.arange(len(gain))) == min(measured.order, len(sizes))
    return _mean(_errors(noise, records), targets, ~known.masks(shape))


def _gain_and_spread(sizes: Sequence[int], gaussian: bool) -> tuple[np.ndarray, np.ndarray]:
    """float64[mask] each: how many times the table's own coefficient an answer is, and s_S above."""
    gain = over_subsets([1 if k == 2 or not gaussian else k for k in sizes])
    return gain, over_subsets([1 if k == 2 else k * (k - 1) for k in sizes])


def _errors(noise: np.ndarray, records: float) -> np.ndarray:
    """float64[mask]: the L1 error (shares) of each marginal; `noise`: what each residual adds to it."""
    return np.sqrt(np.maximum(2 / np.pi * _over(noise, up=False), 1e-30)) / max(records, 1.0)


def _over(values: np.ndarray, *, up: bool) -> np.ndarray:
    """float64[mask]: the sum of `values` over all subsets of a set, or (`up`) over all sets that hold it."""
    values = values.copy()
    for i in range(len(values).bit_length() - 1):
        without, within = pairs_along(values, i)
        if up:
            without += within
        else:
            within += without
    return values


def _whole(raw: np.ndarray, asked: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Whole weights in proportion to `raw`, from LEAST_WEIGHT on, where MAX_CHANGE allows it."""
    largest = (raw * over_subsets([max(k - 1, 1) for k in sizes])).max()
    scale = min(LEAST_WEIGHT / raw[asked].min(), MAX_CHANGE / largest / 2)
    return np.where(asked, np.maximum(np.rint(raw * scale), 1), 0).astype(np.int64)


def fit(
    wanted: AtOnce,
    measured: Residuals,
    total: float,
    *,
    charge: float,
    allowed: np.ndarray | None = None,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """float64[cells]: the table of shares with the least chi^2 / 2 + charge KL(. | uniform), row-major;
    public in, public out.

    Noise orthogonal to what answers can be only adds a constant: no projection is needed. Accelerated mirror
    descent (Tseng 2008), where the step halves until the quadratic bound holds and momentum starts again
    whenever the loss rises. `allowed: bool[cells]`: the cells that rules leave; the others are 0. `start:
    float64[cells]`: a table near the one sought, which is the same from any start, or None: all cells even.
    What is `known` is fitted as if it had been measured with less noise than all others, and is exact at the
    end.
    """
    shape, order, known = wanted
    whole = Transform(shape, order, gaussian=measured.scale.composition is Composition.ZCDP)
    transform = whole if allowed is None else _Within(whole, allowed)
    cells = math.prod(shape) if allowed is None else int(allowed.sum())
    weight = measured.weights[transform.masks] / measured.stddev
    target = np.zeros(len(weight))
    target[weight > 0] = measured.noisy / measured.stddev
    if known.positions:
        even = known.raked(shape, np.ones(math.prod(shape)))
        held = known.masks(shape)[transform.masks]
        weight[held] = FIRMER * weight.max()
        target[held] = (total * weight * transform.forward(even if allowed is None else even[allowed]))[held]
    weight *= total
    step = 8.0 / max(float(weight @ weight), 1e-300)
    log_y = np.full(cells, -math.log(cells))  # the mirror point, in logs
    if start is not None:
        log_y = np.log(np.maximum(start if allowed is None else start[allowed], 1e-60))
    x = np.exp(log_y)
    gap_y = gap_x = weight * transform.forward(x) - target
    last, k = math.inf, 0
    for _ in range(MAX_STEPS):
        share = 2 / (k + 2)
        pull = transform.transpose(weight * ((1 - share) * gap_x + share * gap_y))
        log_new, new = _normal((share / step * log_y - pull) / (share / step + charge))
        gap_new = weight * transform.forward(new) - target
        change = gap_new - gap_y
        if change @ change / 2 > new @ (log_new - log_y) / step + 1e-12 * (1 + gap_y @ gap_y):
            step /= 2
            continue
        x_new, gap = (1 - share) * x + share * new, (1 - share) * gap_x + share * gap_new
        loss = gap @ gap / 2 + charge * float(x_new @ np.log(np.maximum(x_new, 1e-60)) + math.log(cells))
        if loss > last and k:
            k, gap_y, log_y = 0, gap_x, np.log(np.maximum(x, 1e-60))
            continue
        x, gap_x, gap_y, log_y = x_new, gap, gap_new, log_new
        if k > 20 and last - loss < 1e-6 * loss:
            break
        last, k, step = loss, k + 1, step * 1.02
    table = x if allowed is None else _spread(x, allowed)
    return known.raked(shape, table) if known.positions else table


@dataclass(frozen=True, slots=True)
class _Within:
    """A transform of tables of which only the cells `allowed` are there."""

    whole: Transform
    allowed: np.ndarray

    @property
    def masks(self) -> np.ndarray:
        return self.whole.masks

    def forward(self, table: np.ndarray) -> np.ndarray:
        return self.whole.forward(_spread(table, self.allowed))

    def transpose(self, values: np.ndarray) -> np.ndarray:
        return self.whole.transpose(values)[self.allowed]


def _spread(table: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """float64[cells]: the table's cells where they are allowed, else 0."""
    whole = np.zeros(len(allowed))
    whole[allowed] = table
    return whole


def _normal(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(logs, shares) after normalising; shares keep a floor of e^-130, where arithmetic is still fast."""
    logs = np.maximum(logs - logs.max(), -130.0)
    shares = np.exp(logs)
    mass = shares.sum()
    return logs - math.log(mass), shares / mass


def one_shot_suits(
    candidates: Candidates, policy: Policy, budget: Budget, records: float, max_cells: int
) -> bool:
    """Whether all marginals up to an order are asked, of a domain better measured at once; public facts."""
    shape, order = candidates.domain.shape, candidates.members.shape[1]
    public = len(candidates.public)
    whole = sum(math.comb(len(shape), k) - math.comb(public, k) for k in range(1, order + 1))
    everything = len(candidates) == whole
    if not everything or candidates.ranged or candidates.weights is not None:
        return False
    if policy.rounds is not None or policy.initial_share is not None:
        return False
    wanted = AtOnce(shape, order, PublicJoint(candidates.public))
    return worth_one_shot(wanted, budget, policy.unit, records, max_cells)


def worth_one_shot(wanted: AtOnce, budget: Budget, unit: Unit, records: float, max_cells: int) -> bool:
    """Whether to measure residuals once rather than in rounds (`records`: a public or noisy number of rows).

    Always where all attributes have two codes: one shot won on all such tables and budgets tried, by 13 to 53
    %. Else where no pair is too noisy to be asked and the predicted error is at most MAX_ERROR: rounds can
    choose among pairs, and merge codes, where one shot drowns.
    """
    shape, order, known = wanted
    if order < 1 or math.prod(shape) > min(max_cells, MAX_CELLS):
        return False
    if max(shape) <= 2:
        return True
    total = Total.assumed(records, unit)
    chosen = choose_weights(wanted, float(budget.amount), total, unit, budget.composition)
    pairs = (np.bitwise_count(np.arange(len(chosen.weights))) == min(order, 2)) & ~known.masks(shape)
    return bool((chosen.weights[pairs] > 0).all()) and chosen.error <= MAX_ERROR


def predicted_errors(candidates: Candidates, budget: Budget, unit: Unit, records: float) -> tuple[float, ...]:
    """The mean L1 error (0 to 2) of marginals by order that one shot's noise would make; public facts."""
    shape, order, total = candidates.domain.shape, candidates.members.shape[1], Total.assumed(records, unit)
    wanted, amount = AtOnce(shape, order, PublicJoint(candidates.public)), float(budget.amount)
    return choose_weights(wanted, amount, total, unit, budget.composition).by_order


class OneShot(NamedTuple):
    """`weights: float64[cells]` of the table, row-major, of sum 1; what was measured; number of records."""

    weights: np.ndarray
    measured: list[Residuals]
    records: float


def one_shot(
    session: Session,
    shape: Sequence[int],
    order: int,
    total: Total,
    allowed: np.ndarray | None = None,
    known: PublicJoint = NOTHING,
) -> OneShot:
    """One dense table from residuals, for all that is left; 0 but where `allowed`; a noisy total anew. What
    is `known` is not measured.
    """
    order = min(order, sum(k > 1 for k in shape))
    cost, composition = session.left, session.composition
    wanted = AtOnce(shape, order, known)
    chosen = choose_weights(wanted, float(cost), total, session.unit, composition)
    records = max(total.records, 1.0)
    if not chosen.weights.any():
        even = np.ones(math.prod(shape)) if allowed is None else allowed.astype(np.float64)
        return OneShot(known.raked(shape, even) if known.positions else even / even.sum(), [], records)
    measured = measure_residuals(session, session.rows, shape, order, chosen.weights, cost=cost)
    if not total.known:
        again, error = measured.noisy[0] / chosen.weights[0], measured.stddev / chosen.weights[0]
        precision = 1 / total.stderr**2 + 1 / error**2
        records = max(1.0, (records / total.stderr**2 + again / error**2) / precision)
    charge = ENTROPY / min(chosen.error, 0.5)
    table = fit(wanted, measured, records, charge=charge, allowed=allowed)
    return OneShot(table, [measured], records)


def fit_at_once(
    session: Session,
    candidates: Candidates,
    total: Total,
    zeros: Sequence[Zeros] = (),
    known: PublicJoint = NOTHING,
) -> Fitted:
    """A forest of one clique, from residuals; rules leave its cells in `zeros` empty, and it has what is
    `known`.
    """
    shape, order = candidates.domain.shape, candidates.members.shape[1]
    made = one_shot(session, shape, order, total, allowed_cells(zeros, shape) if zeros else None, known)
    levels = Levels.fine(shape)
    tree = CliqueTree(levels, (tuple(range(len(shape))),), ())
    forest = Forest(levels, [Component.of(tree, made.weights)], made.records)
    return Fitted(forest, list(total.measured), 0, total, made.measured)
