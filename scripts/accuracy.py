"""Accuracy of `release` on a real table, beside a release of the one-way marginals alone at the same privacy.
NOT PRIVATE: it reads the table.

    python scripts/accuracy.py adult_discretised --epsilons 0.1 1 10 --runs 5

The table is looked for in FMWEM_DATASETS (NAME/NAME.csv[.gz] with its domain file), or is a path with a
domain file beside it. Each figure is the L1 distance between normalised marginals of the real and the
synthetic rows (0 to 2): mean and worst over all marginals of an order, averaged over the runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from factored_mwem import Domain, evaluate, release
from factored_mwem.cli.jobs import domain_path
from factored_mwem.datasets import local

ORDERS = (1, 2, 3)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table")
    parser.add_argument("--domain", type=Path)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--learn-domain",
        action="store_true",
        help="let the budget pay for the domain; errors are still counted on the declared one",
    )
    parser.add_argument("--baseline", action="store_true", help="also release the one-way marginals alone")
    options = parser.parse_args()
    table = local(options.table) or Path(options.table)
    domain = Domain.load(
        options.domain
        or domain_path(table, None)
        or parser.error("no domain file beside the table; give --domain")
    )
    print(
        "| epsilon | what | 1-way mean / worst | 2-way mean / worst | 3-way mean / worst | rounds | seconds "
        "|\n|---|---|---|---|---|---|---|"
    )
    for epsilon in options.epsilons:
        wanted = [("release", 3)] + ([("one-way only", 1)] if options.baseline else [])
        for name, order in wanted:
            print(row(table, domain, name, order, epsilon, options), flush=True)


def row(
    table: Path, domain: Domain, name: str, order: int, epsilon: float, options: argparse.Namespace
) -> str:
    """One line of the table: `options.runs` releases, evaluated."""
    found: dict[int, list[tuple[float, float]]] = {k: [] for k in ORDERS}
    seconds, rounds = [], []
    for _ in range(options.runs):
        start = time.perf_counter()
        declared = None if options.learn_domain else domain
        made = release(table, order, domain=declared, epsilon=epsilon, delta=options.delta)
        rows = made.to_arrow()
        seconds.append(time.perf_counter() - start)
        rounds.append(made.manifest.rounds)
        errors = evaluate(table, rows, max(ORDERS), domain=domain).by_order
        for k in ORDERS:
            found[k].append(errors[k])
    cells = [
        f"{statistics.mean(m for m, _ in found[k]):.4f} / {statistics.mean(w for _, w in found[k]):.3f}"
        for k in ORDERS
    ]
    spread = statistics.stdev(m for m, _ in found[3]) if options.runs > 1 else 0.0
    cells[-1] += f" (sd {spread:.4f})"
    return f"| {epsilon:g} | {name} | {' | '.join(cells)} | {statistics.mean(rounds):.0f} | {statistics.mean(seconds):.1f} |"


if __name__ == "__main__":
    main()
