"""Rows as the figures of the replay make them, planted so that every claim that can be marked holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replay import barak, figure2, figure3, figure4, figure5, gains, theorem

Row = dict[str, Any]
Errors = dict[str, float]


def as_they_are(name: str, epsilon: float, found: Errors) -> Errors:
    return found


def planted2(change: Callable[[str, float, Errors], Errors] = as_they_are) -> list[Row]:
    """MWEM ten thousand times below the bound, and below the uniform answer; `spread`: how far
    the repetitions lie around their mean, of it.
    """
    rows = []
    for name in gains.SETS:
        for epsilon in figure2.EPSILONS:
            found = {"bound": 1e7, "bound, pure": 1e6, "identity": 1e8, "hb": 5e6, "uniform": 1e5}
            found |= {"best": 1e3, "fixed": 2e3, "plain": 1e4}
            found = change(name, epsilon, found)
            base = {"data": name, "queries": gains.QUERIES, "epsilon": epsilon}
            spread = found.pop("spread", 0.0)
            ours = {
                ("mwem, replay", 10): found.pop("best"),
                ("mwem, replay", 12): found.pop("fixed"),
                ("mwem", 10): found.pop("plain"),
            }
            rows += [{**base, "method": m, "error": e} for m, e in found.items()]
            rows += [
                {**base, "method": m, "rounds": t, "repetition": i, "error": e * (1 + sign * spread)}
                for (m, t), e in ours.items()
                for i, sign in enumerate((-1, -1, 1, 1, 0, 0, -1, -1, 1, 1))
            ]
    return rows


def planted3(change: Callable[[str, float, Errors], Errors] = as_they_are) -> list[Row]:
    """Both kinds of MWEM well below Barak et al. but at the largest epsilon, where plain MWEM is not."""
    rows = []
    for name in figure3.SETS:
        rows += [
            {"data": name, "method": m, "entropy": e}
            for m, e in {"uniform": 2.0, "2-way fit": 0.1, "3-way fit": 0.05}.items()
        ]
        for epsilon in figure3.EPSILONS:
            best = 1.0 if epsilon < max(figure3.EPSILONS) else 0.4
            found = {"plain": 0.5, "optimised": 0.1} | dict.fromkeys(barak.WAYS, 9.0)
            found[barak.LINEAR_PROGRAM] = 20.0
            found = change(name, epsilon, found | {"Barak, 10 sweeps": best})
            base = {"data": name, "epsilon": epsilon, "run": 0, "floored": 0}
            for method, entropy in found.items():
                rounds = {"rounds": 8} if method in figure3.METHODS else {}
                rows.append({**base, "method": method, "entropy": entropy, **rounds})
    return rows


def planted4(change: Callable[[int, float, Errors], Errors] = lambda o, e, found: found) -> list[Row]:
    """As the paper has it: on triples MWEM is far ahead, on pairs up to epsilon 0.2 alone."""
    rows: list[Row] = [{"data": "nltcs", "order": o, "method": "fit", "entropy": 0.1} for o in (2, 3)]
    for order in (2, 3):
        for epsilon in figure4.EPSILONS:
            found = dict.fromkeys(barak.WAYS, 9.0) | {"20": 0.8, "30": 0.7, "40": 0.6}
            best = 3.0 if order == 3 else 1.0 if epsilon <= 0.2 else 0.3
            found = change(order, epsilon, found | {"Barak, 1 sweep": best})
            base = {"data": "nltcs", "order": order, "epsilon": epsilon, "run": 0, "floored": 0}
            for method, entropy in found.items():
                if not method.isdigit():
                    rows.append({**base, "method": method, "entropy": entropy})
                    continue
                for m in figure4.SWEEPS:
                    rows.append({**base, "method": m, "rounds": int(method), "entropy": entropy})
    return rows


def planted5(change: Callable[[Row], Row] = lambda row: row) -> list[Row]:
    """One 3-way cuboid, no higher one, and errors below those of every baseline."""
    rows: list[Row] = []
    for epsilon in figure5.EPSILONS:
        base: Row = {"epsilon": epsilon}
        for method in figure5.BASELINES:
            rows.append({**base, "method": method, "a_cell": "", "max_error": 90.0, "average_error": 40.0})
        chosen: Row = {"candidates": 92, "left_out": 0, "higher": 0, "largest_cells": 27_000_960}
        chosen |= {"conflated_at": 4, "asked": "", "max_error": 30.0, "average_error": 10.0}
        for a_cell in (figure5.ONE, figure5.NOISE):
            for method in figure5.ORDERS:
                three = int(method != "2-way")
                rows.append({**base, **chosen, "method": method, "a_cell": a_cell, "three_way": three})
    return [change({**row, "seed": seed}) for row in rows for seed in range(3)]


def planted_theorem(error: float = 0.5) -> list[Row]:
    """Errors of this many times the bound, in ten runs of two settings that could contradict it, and of two
    that could not: beyond 2 n, and where the probability is not positive.
    """
    found = []
    for epsilon, rounds in ((10.0, 8), (10.0, 16), (1.0, 1), (10.0, 32)):
        at = theorem.Setting("czech", 1841, 64, 41, epsilon)
        limit = theorem.bound(at, rounds)
        row = {"data": "czech", "epsilon": epsilon, "rounds": rounds, "records": 1841, "queries": 41}
        found += [{**row, "bound": limit, "run": i, "max_error_average": error * limit} for i in range(10)]
    return found
