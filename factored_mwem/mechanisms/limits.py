"""Limits: what a run may take, turned into cells and rounds by a public cost model before any row is read:
neither clock nor process size may decide anything later, for both depend on private rows.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.errors import ResourceError
from factored_mwem.kernels.tree import Pace, Targets, descend
from factored_mwem.mechanisms.shares import tree_rounds
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.forest import Component
from factored_mwem.request.policy import Policy
from factored_mwem.request.request import Request
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.workload import Workload

CODES_SHARE = 0.25
"""Of the memory: for the rows as codes; more of them go to files. The rest is for tables."""
BYTES_A_CELL = 208.0
"""Of a tree's cells: 80 for beliefs and their copies, index arrays, what scoring and sampling lay out beside
them; and 128 for what the fit remembers of each measured cell, for a tree may have no others.
"""
FIXED_BYTES = 6.7e7
"""Of counting, whatever the candidates: blocks of rows and each thread's own tables."""
BYTES_A_CANDIDATE = 250.0
"""Of a candidate's index, grouping and scores, beside its counts."""
STARTUP_SECONDS = 3.0
"""Seconds for start-up, reading, refining and writing some 50,000 rows, which no setting shortens."""
MIN_CELLS = 2**10
LATE_FACTOR = 1.5
"""A run may take this many times what was asked before it is called late."""
ROUND_STEPS = (20.0, 400.0, 5e5)
"""A round's cost in steps over one cell: for each cell of the trees, for each candidate, and once. See
`run_steps`. Fitted to whole runs of discretised Adult (14 columns, epsilon 10; with 2^12, 2^15 and 2^19
cells predicted 4.2, 5.0 and 20 s, measured 4.5, 6.1 and 16 to 22 s of CPU) and of a census table (41 columns,
epsilon 1; with 2^13 cells 26 s and 19 s), whose adaptive rounds were .4 to 1 times those planned.
"""

LEARNT_CODES = 16
"""Of a column whose domain is to be learnt, for a guess of how long rounds take."""
FEW_CANDIDATES = 3_000
"""Fewer are never slow."""
CELL_SECONDS = 1e-7
"""Of a cell of the candidates in a round that answers all anew: once nearly all columns are in one tree."""
SLOW_MINUTES = 2.0
"""From so many on, what rounds may take is said before anything is spent."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What this machine has: bytes for tables, and seconds of one step over a cell (0: no time is set)."""

    memory: float
    step: float

    @classmethod
    def of(cls, policy: Policy) -> Machine:
        """Look at the machine, before any private row is in memory: it decides cells and rounds."""
        return cls(memory_limit(), seconds_a_step() if policy.time_budget else 0.0)


def memory_limit() -> float:
    """Bytes that the tables may take: half of the memory that the machine, or our container, has."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
        whole = min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return whole / 2


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Cells of all trees together, bytes of the counts, rounds (`adaptive`: a first division of the budget).
    `seconds`: predicted, where a time was set, else 0; `hurried`: it allows less than is wanted.
    """

    cells: int
    memory: float
    rounds: int
    adaptive: bool
    seconds: float = 0.0
    hurried: bool = False

    def late(self, policy: Policy) -> str | None:
        """What to say where even the least that can be done takes longer than was asked."""
        if not policy.time_budget or self.seconds <= LATE_FACTOR * policy.time_budget:
            return None
        asked = f"--time-budget {policy.time_budget:g} is too short for this table"
        return f"{asked}: about {self.seconds:.0f} s are predicted, whatever the rows"

    def memory_needed(self, candidates: Candidates) -> float:
        """Bytes that tables take at most, by public facts: levels not known yet at their largest."""
        counts = 4.0 * float(np.minimum(candidates.cells, self.cells).sum())
        return (
            min(self.memory, FIXED_BYTES + counts + BYTES_A_CANDIDATE * len(candidates))
            + BYTES_A_CELL * self.cells
        )


def whole_memory(policy: Policy, machine: Machine) -> float:
    """Bytes that codes of rows and tables may take together."""
    return float(policy.max_memory) if policy.max_memory else machine.memory


def check_attributes(domain: Domain, policy: Policy) -> None:
    """Raises ResourceError if one alone has more codes than a table may have cells."""
    for attribute in domain:
        if attribute.size > policy.cells:
            raise ResourceError(
                f"attribute {attribute.name!r} has {attribute.size:,} codes, more than --max-cells "
                f"{policy.cells:,}; use fewer bins or raise it"
            )


def limits_of(candidates: Candidates, policy: Policy, machine: Machine) -> RunLimits:
    """The limits of a policy for these candidates. Raises ResourceError if the attributes do not fit."""
    domain = candidates.domain
    memory = whole_memory(policy, machine) * (1 - CODES_SHARE)
    codes, index = sum(domain.shape), FIXED_BYTES + BYTES_A_CANDIDATE * len(candidates)
    cells = min(policy.cells, int((memory - index) / 2 / BYTES_A_CELL))
    check_attributes(domain, policy)
    if codes > policy.cells:
        raise ResourceError(
            f"the attributes have {codes:,} codes together, more than --max-cells {policy.cells:,}; raise it "
            "or use fewer columns"
        )
    if codes > cells:
        need = (2 * BYTES_A_CELL * codes + index) / (1 - CODES_SHARE)
        memory = whole_memory(policy, machine)
        raise ResourceError(
            f"{len(domain)} attributes with {codes:,} codes and {len(candidates):,} candidate marginals need "
            f"{need / 1e6:,.0f} MB, more than the "
            f"{memory / 1e6:,.0f} MB allowed; raise --max-memory, {_lower(candidates, need, memory)}"
            "use --columns"
        )
    rounds = tree_rounds(policy, len(domain))
    seconds, wanted = 0.0, (cells, rounds)
    if policy.time_budget:
        cells, rounds = _in_time(candidates, cells, rounds, policy.time_budget, machine.step)
        cells = max(cells, codes)
        seconds = STARTUP_SECONDS + run_steps(candidates, cells, rounds) * machine.step
    counts, hurried = FIXED_BYTES + (memory - index) / 2, (cells, rounds) != wanted
    return RunLimits(cells, counts, rounds, adaptive=policy.rounds is None, seconds=seconds, hurried=hurried)


def _lower(candidates: Candidates, need: float, memory: float) -> str:
    """Advice: the order of marginals whose candidates fit, if there is one."""
    saved = BYTES_A_CANDIDATE / (1 - CODES_SHARE)
    upto = np.bincount(candidates.orders).cumsum()
    fits = np.flatnonzero(need - (len(candidates) - upto) * saved <= memory)
    fits = fits[fits > 0]
    return f"lower --marginals to {fits[-1]} or " if len(fits) else ""


def slowly(request: Request) -> str | None:
    """What to say if rounds may take minutes; where no domain is declared, as if columns had LEARNT_CODES."""
    by = request.promise.privacy_id
    names = request.columns or (request.declared or request.visible.schema).names
    names = [name for name in names if name != by]
    if request.workload.count(len(names)) < FEW_CANDIDATES:
        return None
    known = request.declared
    if known is not None:
        return slow(request.workload, known.project(names), request.policy)
    warning = slow(request.workload, Domain.from_dict(dict.fromkeys(names, LEARNT_CODES)), request.policy)
    guess = (
        f"guessed from {len(names)} columns of {LEARNT_CODES} codes, for a domain is paid for before it is"
    )
    return None if warning is None else f"{warning} ({guess} known)"


def slow(workload: Workload, domain: Domain, policy: Policy) -> str | None:
    """What to say beforehand where rounds may take minutes; from public facts alone."""
    if policy.engine != "tree" or policy.time_budget or workload.count(len(domain)) < FEW_CANDIDATES:
        return None
    cells = most_cells(workload, domain, policy.cells)
    longest = _minutes(cells, domain, policy)
    if longest < SLOW_MINUTES:
        return None
    lower = range(max(workload.orders, default=0) - 1, 0, -1)
    fewer = ((k, most_cells(replace(workload, orders=(k,)), domain, policy.cells)) for k in lower)
    quick = next((k for k, some in fewer if _minutes(some, domain, policy) < SLOW_MINUTES), None)
    less = "" if quick is None else f"--marginals {quick} takes at most {SLOW_MINUTES:g}; "
    hours = f" ({longest / 60:.1f} hours)" if longest >= 120 else ""
    return (
        f"{workload.count(len(domain)):,} candidate marginals, {cells:.2g} cells: rounds take up to "
        f"{longest:,.0f} minutes{hours} of one processor, and far fewer where few columns go together; "
        f"{less}--time-budget SECONDS sets an end"
    )


def most_cells(workload: Workload, domain: Domain, cap: float) -> float:
    """At least the cells of all candidates, of each `cap` at most. Nothing is listed that only orders ask
    for: the cells of all marginals of k columns are the k-th elementary symmetric polynomial of the sizes.
    """
    if workload.named or workload.asked or not workload.orders:
        return float(np.minimum(workload.candidates(domain).cells, cap).sum())
    shape = domain.modelled.shape
    of_order = np.array([1.0, *(0.0 for _ in range(min(max(workload.orders), len(shape))))])
    for size in shape:
        of_order[1:] += size * of_order[:-1]
    return sum(min(cells, cap * math.comb(len(shape), k)) for k, cells in enumerate(of_order.tolist()) if k)


def _minutes(cells: float, domain: Domain, policy: Policy) -> float:
    """Minutes that the rounds take at most: the model's answers to all candidates, anew in each."""
    return CELL_SECONDS * min(cells, memory_limit() / 4) * tree_rounds(policy, len(domain)) / 60


def _in_time(
    candidates: Candidates, cells: int, rounds: int, seconds: float, speed: float
) -> tuple[int, int]:
    """The most cells, then rounds, that the cost model fits into `seconds`; `speed`: seconds a step."""
    left = max(seconds - STARTUP_SECONDS, 0.1 * seconds)
    while cells > MIN_CELLS and run_steps(candidates, cells, rounds) * speed > left:
        cells //= 2
    while rounds > 1 and run_steps(candidates, cells, rounds) * speed > left:
        rounds -= max(1, rounds // 10)
    return cells, rounds


def run_steps(candidates: Candidates, cells: int, rounds: int) -> float:
    """Steps over one cell that `rounds` rounds with trees of up to `cells` cells take."""
    of_cells, of_candidates, once = ROUND_STEPS
    return rounds * (of_cells * cells + of_candidates * len(candidates) + once)


def seconds_a_step() -> float:
    """Seconds of one pass over a cell in a fit, measured on a made-up tree: nothing of the data is in it."""
    levels = Levels.fine((16,) * 4)
    views = [(0, 1, 2), (1, 2, 3)]
    part = Component.log_linear(CliqueTree.of(levels, views), views, np.zeros(2 * 16**3))
    targets, theta = Targets(np.full(2 * 16**3, 1 / 16**3), np.ones(2)), np.zeros(2 * 16**3)
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        descend(part.beliefs, part.layout, targets, theta.copy(), Pace(1.0, 10, -1.0))
        best = min(best, time.perf_counter() - start)
    return best / (10 * 2 * 16**3)
