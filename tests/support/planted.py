"""Rows as the figures of the replay make them, planted so that every claim that can be marked holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from replay import ablation, barak, data, figure2, figure3, figure4, figure5, figure6, figure7, iterative
from replay import theorem as theorem_2_3
from replay.figure import grid
from replay.iterative import FK, MEDIAN, MW

Row = dict[str, Any]
Errors = dict[str, float]


def as_they_are(name: Any, epsilon: float, errors: Errors) -> Errors:
    return errors


def planted2(change: Callable[[str, float, Errors], Errors] = as_they_are) -> list[Row]:
    """MWEM ten thousand times below the bound, and below the uniform answer; `spread`: how far
    the repetitions lie around their mean, of it.
    """
    rows = []
    for name, epsilon in itertools.product(figure2.SETS, figure2.EPSILONS):
        errors = {"bound": 1e7, "bound, pure": 1e6, "identity": 1e8, "hb": 5e6, "uniform": 1e5}
        errors = change(name, epsilon, errors | {"best": 1e3, "fixed": 2e3, "plain": 1e4})
        base = {"data": name, "epsilon": epsilon}
        ours = {"best": ("mwem, replay", 10), "fixed": ("mwem, replay", 12), "plain": ("mwem", 10)}
        spread = errors.pop("spread", 0.0)
        for what, error in errors.items():
            if what not in ours:
                rows.append({**base, "method": what, "error": error})
                continue
            about = base | dict(zip(("method", "rounds"), ours[what], strict=True))
            for i, sign in enumerate((-1, -1, 1, 1, 0, 0, -1, -1, 1, 1)):
                rows.append({**about, "repetition": i, "error": error * (1 + sign * spread)})
    return rows


def planted3(change: Callable[[str, float, Errors], Errors] = as_they_are) -> list[Row]:
    """Both kinds of MWEM well below Barak et al. but at the largest epsilon, where plain MWEM is not."""
    fits = {"uniform": 2.0, "2-way fit": 0.1, "3-way fit": 0.05}
    rows = [{"data": n, "method": m, "entropy": e} for n in data.SMALL for m, e in fits.items()]
    for name, epsilon in itertools.product(data.SMALL, figure3.EPSILONS):
        best = 1.0 if epsilon < max(figure3.EPSILONS) else 0.4
        entropies = {"plain": 0.5, "optimised": 0.1} | dict.fromkeys(barak.WAYS, 9.0)
        entropies |= {barak.LINEAR_PROGRAM: 20.0, "Barak, 10 sweeps": best}
        base = {"data": name, "epsilon": epsilon, "run": 0, "floored": 0}
        for method, entropy in change(name, epsilon, entropies).items():
            rounds = {"rounds": 8} if method in figure3.METHODS else {}
            rows.append({**base, "method": method, "entropy": entropy, **rounds})
    return rows


def planted4(change: Callable[[int, float, Errors], Errors] = as_they_are) -> list[Row]:
    """As the paper has it: on triples MWEM is far ahead, on pairs up to epsilon 0.2 alone."""
    rows: list[Row] = [{"data": "nltcs", "order": o, "method": "fit", "entropy": 0.1} for o in (2, 3)]
    for order, epsilon in itertools.product((2, 3), figure4.EPSILONS):
        entropies = dict.fromkeys(barak.WAYS, 9.0) | {"20": 0.8, "30": 0.7, "40": 0.6}
        best = 3.0 if order == 3 else 1.0 if epsilon <= 0.2 else 0.3
        base = {"data": "nltcs", "order": order, "epsilon": epsilon, "run": 0, "floored": 0}
        for method, entropy in change(order, epsilon, entropies | {"Barak, 1 sweep": best}).items():
            rounds = {"rounds": int(method)} if method.isdigit() else {}
            for m in figure4.SWEEPS if rounds else (method,):
                rows.append({**base, "method": m, **rounds, "entropy": entropy})
    return rows


def planted5(change: Callable[[Row], Row] = lambda row: row) -> list[Row]:
    """One 3-way cuboid, no higher one, and errors below those of every baseline."""
    baseline = {"max_error": 90.0, "average_error": 40.0}
    chosen: Row = {"candidates": 92, "left_out": 0, "higher": 0, "largest_cells": 27_000_960}
    chosen |= {"conflated_at": 4, "asked": "", "max_error": 30.0, "average_error": 10.0}
    rows = [row | baseline for row in grid(epsilon=figure5.EPSILONS, method=figure5.BASELINES, a_cell="")]
    costs = (figure5.ONE, figure5.NOISE)
    for row in grid(epsilon=figure5.EPSILONS, method=figure5.ORDERS, a_cell=costs):
        rows.append(row | chosen | {"three_way": int(row["method"] != "2-way")})
    return [change({**row, "seed": seed}) for row in rows for seed in range(3)]


def planted6(change: Callable[[Row], Row] = lambda row: {}) -> list[Row]:
    """Attributes that stay alone, learnt in next to no time; the smallest are not judged in time."""
    good = {"chance": figure6.CHANCE, "queries": 1000, "seconds_data": 0.5, "seconds_mwem": 0.1}
    good |= {"seconds_total": 0.6, "seconds_plain": 10.0, "largest_component": 1}
    good |= {"max_error": 1.0, "max_error_before": 50.0}
    even = {"chance": figure6.EVEN, "max_error_before": 1_000.0, "ended_1": 1, "ended_5": figure6.LATE}
    sizes = [{"attributes": d, "order": o, "rounds": d} for d, o in ((20, 3), (100, 3), (200, 2), (1000, 2))]
    rows = [size | kind for kind in (good, even) for size in sizes]
    rows[0]["seconds_plain"] = 0.1
    return [row | change(row) for row in rows]


def planted7(change: Callable[[Row], Row] = lambda row: {}) -> list[Row]:
    """Runs whose milliseconds follow from their questions, and which end before a third round."""
    slow = {figure7.ALONE: 5.0, figure7.ASKED: 6.0}
    rows: list[Row] = []
    for run in grid(epsilon=1.0, rounds=9, seed=(0, 1), kind=figure7.QUESTIONS, limit=2**18):
        for number in (1, 2):
            sizes = {"largest_cells": 2**number, "cells": 2**number, "irrelevant_joined": 0}
            times = {"milliseconds": slow[run["kind"]], "milliseconds_model": 1.0}
            errors = {"max_error": 30_000.0 / number, "start_error": 31_000.0}
            rows.append({**run, "round": number, **errors, **times, **sizes})
        rows.append({**run, "round": 3, "too_large": 2**20})
    return [row | change(row) for row in rows]


def planted_ablation(change: Callable[[Row], Row] = lambda row: {}) -> list[Row]:
    """Each variation is worth what the paper says, and replay without a guard diverges."""
    entropy = dict(zip(ablation.STYLES, (2.0, 3.0, 9.0, 1.0, 0.5, 0.9), strict=True))
    rows = grid(
        data=data.SMALL, method=ablation.STYLES, epsilon=ablation.EPSILONS, run=0, questions=8, shrank=0
    )
    rows = [row | {"entropy": entropy[row["method"]], "spent": row["epsilon"]} for row in rows]
    return [row | change(row) for row in rows]


def planted_iterative(change: Callable[[Row], Row] = lambda row: {}) -> list[Row]:
    """Sequences of nine updates, runs of five, and the bounds as they are."""
    attacks = {"construction": (MW, FK, MEDIAN), "adversary": iterative.STYLES, "alpha": (0.25, 0.125)}
    rows = grid(what="updates", **attacks, seed=0, updates=9, bound=50.0, error=0.03)
    numbers = {"updates": 5, "bound": 50.0, "alpha": 0.1, "error": 0.15, "guaranteed": 0.16, "seed": 0}
    online = {"construction": (MW, FK), "adversary": iterative.ONLINE, "queries": (10, 100)}
    rows += grid(what="online", **online, **numbers)
    return [row | change(row) for row in rows + iterative.run({"what": "cuts"})]


def planted_theorem(error: float = 0.5) -> list[Row]:
    """Errors of this many times the bound, in ten runs of two settings that could contradict it, and of two
    that could not: beyond 2 n, and where the probability is not positive.
    """
    rows = []
    for epsilon, rounds in ((10.0, 8), (10.0, 16), (1.0, 1), (10.0, 32)):
        limit = theorem_2_3.bound(theorem_2_3.Setting("czech", 1841, 64, 41, epsilon), rounds)
        row = {"data": "czech", "epsilon": epsilon, "rounds": rounds, "records": 1841, "queries": 41}
        rows += grid(**row, bound=limit, run=range(10), max_error_average=error * limit)
    return rows
