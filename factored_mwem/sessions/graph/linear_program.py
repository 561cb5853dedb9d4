"""The linear program of Lemma 6.2: weights in [0, 1] whose cuts are as near as can be to those of noisy ones.

    minimise lambda such that |sum over S x T of (x_ij - d_ij)| <= lambda for all S, T; 0 <= x_ij <= 1

with d the noisy graph. The private graph is feasible with lambda = the cut norm of the noise, so the optimum
is no larger, and every cut of x is within twice the noise's cut norm of the private graph's. It has 4^n
constraints; those that bind are found one by one by an oracle: the cut norm of x - d, exact (all sets) up to
EXACT_MOST vertices, by local search from the top eigenvectors beyond, where `proven` says what is certain.
Cuts are over ordered pairs here, which bounds cuts over unordered ones (norms.py).

The program of section 6.2 has lambda sqrt(|S| |T|) on the right, so that small cuts are near, too:
`normalised`, which is what releases use. Without it any x will do that gets the largest cuts right, often a
vertex of the box that looks like no graph. Solver: HiGHS, by SciPy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np

from factored_mwem.errors import InputError
from factored_mwem.sessions.graph.norms import (
    EXACT_MOST,
    SetPair,
    cut_norm,
    normalised_cut_norm,
    search_cuts,
    spectral_norm,
)

MOST_VERTICES = 64
"""Beyond, the program has too many unknowns to be solved again and again."""
ROUNDS = 80
"""Most rounds; the result states the distance reached by then, and how far below it the optimum may lie."""
CUTS_A_ROUND = 16
CLOSE = 1e-2
"""The search ends within this share of the optimum, plus as many edges."""


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """`matrix: float64[vertex, vertex]`, symmetric, in [0, 1], zero diagonal. `distance`: the largest cut of
    matrix - noisy that the oracle found; `proven`: an upper bound of it; `least`: a lower bound for every
    matrix.
    """

    matrix: np.ndarray
    distance: float
    proven: float
    least: float
    cuts: int


@dataclass(slots=True, eq=False)
class _Program:
    """The cuts so far, as coefficients 0, 1 or 2 of each pair, with their noisy sums."""

    low: np.ndarray
    high: np.ndarray
    noisy: np.ndarray
    normalised: bool
    rows: list[np.ndarray] = field(default_factory=list)

    def add(self, cut: SetPair) -> None:
        s, t = cut.sources.astype(np.int8), cut.targets.astype(np.int8)
        row = (s[self.low] * t[self.high] + t[self.low] * s[self.high]).astype(np.float64)
        self.rows.append(row / np.sqrt(s.sum(dtype=int) * t.sum(dtype=int)) if self.normalised else row)

    def solve(self) -> tuple[np.ndarray, float]:
        """The pairs' weights and lambda for the cuts so far."""
        from scipy.optimize import linprog

        sides = np.array(self.rows)
        sums, ones = sides @ self.noisy, np.ones((len(sides), 1))
        above = np.block([[sides, -ones], [-sides, -ones]])
        cost = np.zeros(len(self.low) + 1)
        cost[-1] = 1.0
        limits = [(0.0, 1.0)] * len(self.low) + [(0.0, None)]
        solution = linprog(cost, above, np.concatenate([sums, -sums]), bounds=limits, method="highs")
        if not solution.success:
            raise RuntimeError(f"the solver stopped: {solution.message}")
        return np.clip(solution.x[:-1], 0.0, 1.0), float(solution.x[-1])


def solve_cuts(noisy: np.ndarray, *, normalised: bool = False) -> Solved:
    """The optimum for `noisy: float64[vertex, vertex]`, symmetric. Raises InputError: see `check_program`."""
    check_program(len(noisy))
    n = len(noisy)
    low, high = np.triu_indices(n, 1)
    program = _Program(low, high, noisy[low, high], normalised)
    start = np.zeros_like(noisy)
    start[low, high] = start[high, low] = np.clip(noisy[low, high], 0.0, 1.0)
    point, least = start, 0.0
    best = Solved(start, np.inf, np.inf, 0.0, 0)
    for _ in range(ROUNDS):
        apart = point - noisy
        np.fill_diagonal(apart, 0.0)
        worst = _oracle(apart, normalised)
        distance = abs(worst[0].value) if worst else 0.0
        if distance < best.distance:
            best = Solved(point, distance, 0.0, least, len(program.rows))
        if best.distance <= least * (1 + CLOSE) + CLOSE:
            break
        for cut in worst[:CUTS_A_ROUND]:
            program.add(cut)
        weights, least = program.solve()
        point = np.zeros_like(noisy)
        point[low, high] = point[high, low] = weights
        # between the best point and the program's corner: without all cuts, corners lie far apart
        point = (point + best.matrix) / 2
    apart = best.matrix - noisy
    np.fill_diagonal(apart, 0.0)
    proven = best.distance
    if n > EXACT_MOST:
        proven = spectral_norm(apart) * (1 if normalised else n)
    return Solved(best.matrix, best.distance, proven, least, len(program.rows))


def _oracle(apart: np.ndarray, normalised: bool) -> list[SetPair]:
    """Cuts that are violated, the worst first."""
    violated = search_cuts(apart, normalised=normalised)
    if len(apart) <= EXACT_MOST:
        exact = normalised_cut_norm(apart) if normalised else cut_norm(apart)
        violated = [exact, *(cut for cut in violated if abs(cut.value) < abs(exact.value) - 1e-9)]
    return [cut for cut in violated if cut.value]


def check_program(vertices: int) -> None:
    """Raises InputError, before anything is spent, if the program cannot be solved here."""
    if vertices > MOST_VERTICES:
        raise InputError(
            f"--method lp is for up to {MOST_VERTICES} vertices, and there are {vertices:,}; use --method "
            "spectral"
        )
    needed("scipy", "the linear program")


def needed(library: str, what: str) -> None:
    """The InputError, raised before anything is spent, that says that a library of the extra `graphs` is not
    installed.
    """
    if find_spec(library) is None:
        raise InputError(f"{what} needs {library}: pip install 'factored-mwem[graphs]'")
