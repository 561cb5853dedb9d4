"""Barak et al. as the paper ran it: all low-order parities measured with the same accuracy, and
multiplicative weights in place of the linear program. NOT PRIVATE.

The paper does not say how often multiplicative weights swept over the measurements, and much hangs on it: few
sweeps stop before the noise is learnt, many follow it until cells that hold someone have no weight. So it is
run in eight ways, and MWEM is judged against the best of them at each epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from factored_mwem import InputError
from factored_mwem.kernels import compiled
from factored_mwem.kernels.dense import FLOOR
from factored_mwem.kernels.linear import walsh
from replay.baselines import floored, relative_entropy
from replay.figure import Row, mean, pick
from replay.paper import Task

CONVERGED = 0
"""In place of a number of sweeps: as many as it takes."""
LONG = 200
"""Steps of the fit that stands for multiplicative weights swept to convergence."""
SWEEPS = {1: "1 sweep", 10: "10 sweeps", 100: "100 sweeps", CONVERGED: "converged"}
WAYS = {
    f"Barak, {words}{guarded}": (sweeps, guard)
    for guard, guarded in ((0.0, ""), (1.0, ", guarded"))
    for sweeps, words in SWEEPS.items()
}
"""Method -> sweeps, and the guard in standard deviations of the noise."""
IN_WORDS = (
    "Barak et al. measure every parity equally well, clip it to what a parity can be, and run multiplicative "
    "weights over all of them for 1, 10 or 100 sweeps, or to convergence (the fit of most entropy, at most "
    f"{LONG} accelerated steps), each without a guard and with the same guard as MWEM; the best of these "
    "eight at each epsilon is what MWEM is judged against (choosing it looks at the data). Where a run gives "
    "a cell that holds someone no weight but the floor of 1e-300 that keeps it from zero, its relative "
    "entropy is that floor's and not drawn: it counts as infinite"
)


def rows_of(task: Task, counts: np.ndarray, base: Row, seed: Sequence[int]) -> Iterator[Row]:
    """A row for each way, all on the same noise: `base` and `method`, `entropy`, `floored`."""
    for method, (sweeps, guard) in WAYS.items():
        rng = np.random.default_rng(seed)
        shares = barak(task, base["epsilon"], rng, sweeps=sweeps, guard=guard)
        yield {**base, "method": method, **scored(counts, shares)}


def scored(counts: np.ndarray, shares: np.ndarray) -> dict[str, float]:
    return {"entropy": relative_entropy(counts, shares), "floored": floored(counts, shares)}


def entropy_of(rows: Sequence[Row]) -> float:
    """The mean over the runs: infinite where one of them rests on the floor, nan where there is none."""
    return math.inf if any(row["floored"] for row in rows) else mean(rows, "entropy")


def best_way(rows: Sequence[Row]) -> tuple[float, str]:
    """(mean relative entropy, method) of the best way at the epsilon of `rows`."""
    return min((entropy_of(found), method) for method in WAYS if (found := pick(rows, method=method)))


def resting_on_floor(rows: Sequence[Row]) -> str:
    """Which share of the runs of each way has no value of its own."""
    counted = {m: [r["floored"] for r in pick(rows, method=m)] for m in WAYS}
    told = [f"{m.removeprefix('Barak, ')} {sum(f)} of {len(f)}" for m, f in counted.items() if sum(f)]
    return "runs of Barak et al. that rest on the floor: " + (", ".join(told) or "none")


def masks_of(members: np.ndarray, bits: int) -> np.ndarray:
    """int64[query]: the entry of the Walsh transform over `bits` attributes that each parity is."""
    return np.where(members >= 0, 1 << (bits - 1 - np.maximum(members, 0)), 0).sum(axis=1)


def entropy_fit(noisy: np.ndarray, masks: np.ndarray, bits: int, *, guard: float, sweeps: int) -> np.ndarray:
    """What multiplicative weights replayed over all parities tend to: the shares of most entropy whose
    answers lie within `guard` of `noisy` shares.

    Two Walsh transforms a sweep give all answers and the exponents of all cells; the multipliers take
    accelerated proximal gradient steps, as in Beck and Teboulle, "A fast iterative shrinkage-thresholding
    algorithm", momentum dropped where it points back.
    """
    multipliers = ahead = np.zeros(len(masks))
    step, pace = 1.0, 1.0
    weights = np.full(2**bits, 2.0**-bits)
    for _ in range(sweeps):
        here, potential = tilted(ahead, masks, bits)
        walsh(here)
        slope = here[masks] - noisy
        while True:
            new = ahead - step * slope
            new = np.sign(new) * np.maximum(np.abs(new) - step * guard, 0)
            moved = new - ahead
            weights, value = tilted(new, masks, bits)
            if (
                value - new @ noisy
                <= potential - ahead @ noisy + moved @ slope + moved @ moved / (2 * step) + 1e-12
                or step < 1e-9
            ):
                break
            step /= 2
        if np.abs(new - multipliers).max() < 1e-9:
            break
        if (ahead - new) @ (new - multipliers) > 0:
            pace = 1.0
        faster = (1 + math.sqrt(1 + 4 * pace**2)) / 2
        ahead = new + (pace - 1) / faster * (new - multipliers)
        multipliers, pace, step = new, faster, step * 1.2
    return np.maximum(weights, FLOOR)


def tilted(multipliers: np.ndarray, masks: np.ndarray, bits: int) -> tuple[np.ndarray, float]:
    """(weights proportional to exp(sum of multiplier times parity), log of what they were divided by)."""
    exponents = np.zeros(2**bits)
    exponents[masks] = multipliers
    walsh(exponents)
    top = exponents.max()
    weights = np.exp(exponents - top)
    total = weights.sum()
    return weights / total, top + math.log(total)


def barak(task: Task, epsilon: float, rng: np.random.Generator, *, sweeps: int, guard: float) -> np.ndarray:
    """Barak et al. as the paper ran it: every parity measured with the same accuracy, clipped to what a
    parity can be, then `sweeps` sweeps of multiplicative weights over all of them; shares of all cells.

    A parity takes no step where the model lies within `guard` standard deviations of its noise.
    """
    bits, noisy = len(task.domain), measured(task, epsilon, rng)
    masks = masks_of(task.questions.members, bits)
    near = guard * len(task.truth) / epsilon * math.sqrt(2) / task.total
    if sweeps == CONVERGED:
        return entropy_fit(noisy, masks, bits, guard=near, sweeps=LONG)
    weights = np.full((2 ** (bits - bits // 2), 2 ** (bits // 2)), 2.0**-bits)
    sweep_parities(weights, masks, noisy, sweeps, near)
    return np.maximum(weights.ravel() / weights.sum(), FLOOR)


def measured(task: Task, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """float64[parity]: every parity with Laplace noise of scale (parities / epsilon), as shares, clipped."""
    noisy = task.truth + rng.laplace(scale=len(task.truth) / epsilon, size=len(task.truth))
    return np.clip(noisy, -task.total, task.total) / task.total


LINEAR_PROGRAM = "Barak, linear program"


def linear_program(noisy: np.ndarray, masks: np.ndarray, bits: int) -> np.ndarray:
    """Barak et al. as they are: shares of all cells, none negative and of sum 1, that miss no noisy parity by
    more than can be helped; a vertex of those, as the dual simplex method finds it.

    Raises InputError without SciPy.
    """
    try:
        from scipy.optimize import linprog
    except ImportError:
        raise InputError("the linear program needs SciPy: pip install 'factored-mwem[plot]'") from None
    cells = 2**bits
    signs = np.array([np.bitwise_count(mask & np.arange(cells)) & 1 for mask in masks]) * -2.0 + 1.0
    miss = -np.ones((len(masks), 1))
    found = linprog(
        np.append(np.zeros(cells), 1.0),
        A_ub=np.block([[signs, miss], [-signs, miss]]),
        b_ub=np.concatenate([noisy, -noisy]),
        A_eq=np.append(np.ones(cells), 0.0)[None],
        b_eq=[1.0],
        method="highs-ds",
    )
    if not found.success:
        raise ValueError(f"a linear program that always has a solution had none: {found.message}")
    return np.maximum(found.x[:-1], 0.0)


@compiled
def sweep_parities(weights, masks, noisy, sweeps, near):
    """Multiplicative weights over parities, `sweeps` times in their order and in place.

    `weights: float64[rows, columns]` are shares of cells whose number is row * columns + column;
    `masks: int64[query]` as of `masks_of`; `noisy: float64[query]` shares. Each step is
    exp(q(x) (m - q(A)) / 2), HLM12 section 2.2, none where |m - q(A)| is at most `near`.
    """
    rows, columns = weights.shape
    head, tail, both, odd = np.empty(rows), np.empty(columns), np.empty(columns), np.empty(columns)
    agree, differ = np.empty(columns), np.empty(columns)
    for _ in range(sweeps):
        for q in range(len(masks)):
            signs_into(head, masks[q] // columns)
            signs_into(tail, masks[q] % columns)
            both[:], odd[:] = 0.0, 0.0
            for h in range(rows):
                for t in range(columns):  # column by column, so that the additions run side by side
                    both[t] += weights[h, t]
                    odd[t] += head[h] * weights[h, t]
            mass, answer = 0.0, 0.0
            for t in range(columns):
                mass += both[t]
                answer += tail[t] * odd[t]
            gap = noisy[q] - answer / mass
            if abs(gap) <= near:
                continue
            for t in range(columns):
                agree[t] = math.exp(tail[t] * gap / 2) / mass
                differ[t] = math.exp(-tail[t] * gap / 2) / mass
            for h in range(rows):
                ratio = agree if head[h] > 0 else differ
                for t in range(columns):
                    weights[h, t] *= ratio[t]


@compiled
def signs_into(out, mask):
    """(-1)^(bits that a number shares with `mask`), for each number of `out`."""
    out[0] = 1.0
    size = 1
    while size < len(out):
        sign = -1.0 if mask & size else 1.0
        for i in range(size):
            out[size + i] = sign * out[i]
        size *= 2
