"""Barak et al. as the paper ran it: all low-order parities measured with the same accuracy, and
multiplicative weights in place of the linear program; and MWEM's relative entropy beside theirs. NOT PRIVATE.

The paper does not say how often multiplicative weights swept over the measurements, and much hangs on it: few
sweeps stop before the noise is learnt, many follow it until cells that hold someone have no weight. So it is
run in eight ways, and MWEM is judged against the best of them at each epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linprog

from factored_mwem.kernels import compiled
from factored_mwem.kernels.dense import FLOOR
from factored_mwem.kernels.linear import walsh
from replay.baselines import floored, relative_entropy
from replay.drawing import line
from replay.figure import Row, by, filled, mean, pick, words
from replay.paper import Task

CONVERGED = 0
"""In place of a number of sweeps: as many as it takes."""
LONG = 200
"""Steps of the fit that stands for multiplicative weights swept to convergence."""
SWEEPS = {1: "1 sweep", 10: "10 sweeps", 100: "100 sweeps", CONVERGED: "converged"}
WAYS = {
    f"Barak, {name}{guarded}": (sweeps, guard)
    for guard, guarded in ((0.0, ""), (1.0, ", guarded"))
    for sweeps, name in SWEEPS.items()
}
"""Method -> sweeps, and the guard in standard deviations of the noise."""
RANGE = 5.0
"""So wide, as a factor, must the range of epsilon be in which an improvement is noticeable."""
IN_WORDS = filled(words("barak")["settings"], {"LONG": LONG})


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
    return min((entropy_of(runs), method) for method in WAYS if (runs := pick(rows, method=method)))


def cells(rows: Sequence[Row]) -> list[str]:
    """The best way and its entropy, as a table shows them."""
    entropy, way = best_way(rows)
    return [f"{entropy:.3g}", way.removeprefix("Barak, ")]


def best_rounds(rows: Sequence[Row], method: str) -> float:
    """The least mean relative entropy of MWEM among the T; nan where there is no run."""
    return min(map(entropy_of, by(pick(rows, method=method), "rounds").values()), default=math.nan)


def gains(rows: Sequence[Row], method: str) -> dict[float, float]:
    """epsilon -> relative entropy of the best way over that of MWEM at its best T."""
    return {e: best_way(at)[0] / best_rounds(at, method) for e, at in by(rows, "epsilon").items()}


def widest(ratios: Mapping[float, float], least: float) -> tuple[float, float]:
    """The ends of the widest run of neighbouring epsilons with a gain of at least this; equal where it is
    one, nan where there is none.
    """
    best, start = (math.nan, math.nan), math.nan
    for epsilon, gain in sorted(ratios.items()):
        if gain < least:
            start = math.nan
            continue
        start = epsilon if math.isnan(start) else start
        if math.isnan(best[0]) or epsilon / start > best[1] / best[0]:
            best = (start, epsilon)
    return best


def spans(ends: tuple[float, float]) -> bool:
    """Whether a range of epsilon is as wide as RANGE."""
    return ends[1] / ends[0] >= RANGE - 1e-9


def resting_on_floor(rows: Sequence[Row]) -> str:
    """Which share of the runs of each way has no value of its own."""
    counted = {m: [r["floored"] for r in pick(rows, method=m)] for m in WAYS}
    some = [f"{m.removeprefix('Barak, ')} {sum(f)} of {len(f)}" for m, f in counted.items() if sum(f)]
    return "runs of Barak et al. that rest on the floor: " + (", ".join(some) or "none")


def draw(axis: Any, at: Mapping[float, list[Row]]) -> None:
    """The best way at each epsilon, and those without a guard; a gap where a run rests on the floor."""
    line(axis, at, lambda rows: best_way(rows)[0], color="tab:red", lw=2.5, label="Barak, best")
    for name, style in zip(SWEEPS.values(), (":", "--", "-.", "-"), strict=True):
        way = {e: pick(rows, method=f"Barak, {name}") for e, rows in at.items()}
        line(axis, way, entropy_of, style, color="tab:red", lw=0.9, label=f"Barak, {name}")


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

    def tilted(multipliers: np.ndarray) -> tuple[np.ndarray, float]:
        """(shares proportional to exp(sum of multiplier times parity), log of what they were divided by)."""
        exponents = np.zeros(2**bits)
        exponents[masks] = multipliers
        walsh(exponents)
        largest = exponents.max()
        shares = np.exp(exponents - largest)
        total = shares.sum()
        return shares / total, float(largest + np.log(total))

    multipliers = ahead = np.zeros(len(masks))
    step, pace, weights = 1.0, 1.0, np.full(2**bits, 2.0**-bits)
    for _ in range(sweeps):
        here, potential = tilted(ahead)
        walsh(here)
        slope = here[masks] - noisy
        while True:
            new = ahead - step * slope
            new = np.sign(new) * np.maximum(np.abs(new) - step * guard, 0)
            moved = new - ahead
            weights, value = tilted(new)
            linear = potential - ahead @ noisy + moved @ slope
            if value - new @ noisy <= linear + moved @ moved / (2 * step) + 1e-12 or step < 1e-9:
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
    heads, tails = (
        signs(at, size) for at, size in zip(divmod(masks, 2 ** (bits // 2)), weights.shape, strict=True)
    )
    sweep_parities(weights, heads, tails, noisy, sweeps, near)
    return np.maximum(weights.ravel() / weights.sum(), FLOOR)


def measured(task: Task, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """float64[parity]: every parity with Laplace noise of scale (parities / epsilon), as shares, clipped."""
    noisy = task.truth + rng.laplace(scale=len(task.truth) / epsilon, size=len(task.truth))
    return np.clip(noisy, -task.total, task.total) / task.total


LINEAR_PROGRAM = "Barak, linear program"


def linear_program(noisy: np.ndarray, masks: np.ndarray, bits: int) -> np.ndarray:
    """Barak et al. as they are: shares of all cells, none negative and of sum 1, that miss no noisy parity by
    more than can be helped; a vertex of those, as the dual simplex method finds it.
    """
    cells, values = 2**bits, signs(masks, 2**bits)
    miss = -np.ones((len(masks), 1))
    solved = linprog(
        np.append(np.zeros(cells), 1.0),
        A_ub=np.block([[values, miss], [-values, miss]]),
        b_ub=np.concatenate([noisy, -noisy]),
        A_eq=np.append(np.ones(cells), 0.0)[None],
        b_eq=[1.0],
        method="highs-ds",
    )
    if not solved.success:
        raise ValueError(f"a linear program that always has a solution had none: {solved.message}")
    return np.maximum(solved.x[:-1], 0.0)


def signs(masks: np.ndarray, cells: int) -> np.ndarray:
    """float64[query, cell]: (-1)^(bits that the number of a cell shares with the mask of a query)."""
    return 1.0 - 2.0 * (np.bitwise_count(masks[:, None] & np.arange(cells)) & 1)


@compiled
def sweep_parities(weights, heads, tails, noisy, sweeps, near):
    """Multiplicative weights over parities, `sweeps` times in their order and in place.

    `weights: float64[rows, columns]` are shares of cells, in the end up to a factor; a parity's value at one
    is that of `heads: float64[query, rows]` times that of `tails: float64[query, columns]`; `noisy:
    float64[query]` shares. Each step is exp(q(x) (m - q(A)) / 2), HLM12 section 2.2, none where |m - q(A)| is
    at most `near`.
    """
    rows, columns = np.ones(weights.shape[0]), np.ones(weights.shape[1])
    for _ in range(sweeps):
        for q in range(len(noisy)):
            mass = rows @ (weights @ columns)
            gap = noisy[q] - heads[q] @ (weights @ tails[q]) / mass
            if abs(gap) <= near:
                continue
            up, down = math.exp(gap / 2), math.exp(-gap / 2)
            for h in range(weights.shape[0]):
                for t in range(weights.shape[1]):
                    weights[h, t] *= (up if heads[q, h] * tails[q, t] > 0 else down) / mass
