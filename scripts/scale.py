"""Where the time goes on many binary attributes: made-up rows, 2-way marginals, each phase as a share of the whole.

python scripts/scale.py --attributes 1000 --rows 100000
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem import Domain, Policy, Workload, flow
from factored_mwem import mwem as loop
from factored_mwem.attribute import Attribute, Constraints


def made_up(attributes: int, rows: int, seed: int = 1) -> tuple[pa.Table, Domain]:
    """Biased bits, every tenth one copied from its neighbour with errors, so that there is something to find."""
    rng = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {}
    last = np.zeros(rows, dtype=np.int8)
    for a in range(attributes):
        fresh = (rng.random(rows) < rng.uniform(0.05, 0.4)).astype(np.int8)
        last = np.where(rng.random(rows) < 0.8, last, fresh) if a % 10 == 9 else fresh
        columns[f"bit{a}"] = last
    bits = [Attribute(name=n, type="integer", constraints=Constraints(required=True, minimum=0, maximum=1)) for n in columns]
    return pa.table(columns), Domain(bits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attributes", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--marginals", type=int, default=2)
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    table, domain = made_up(options.attributes, options.rows)
    spent: dict[str, float] = {}
    watch(spent, flow, "encode_table", "PrivateCounts")
    watch(spent, loop, "select", "measure", "update")
    watch(spent, loop.Answerer, "answers")
    watch(spent, loop.Offer, "open", "measured")
    start = time.perf_counter()
    made = flow.release(table, Workload.marginals(options.marginals), Policy.of(epsilon=options.epsilon), domain=domain)
    fitted = time.perf_counter() - start
    with TemporaryDirectory() as folder:
        made.write(Path(folder) / "out.parquet")
    whole = time.perf_counter() - start
    spent["sample and write"] = whole - fitted
    spent["everything else"] = whole - sum(spent.values())
    print(f"{options.attributes} attributes x {options.rows} rows, {options.marginals}-way: {made.manifest.rounds} rounds, {whole:.1f} s, ", end="")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB, components {len(made.manifest.components)}")
    for name, seconds in sorted(spent.items(), key=lambda entry: -entry[1]):
        print(f"  {seconds / whole:6.1%}  {name}")


def watch(spent: dict[str, float], home: Any, *names: str) -> None:
    """Add the time inside each named function of `home` to `spent`."""
    for name in names:
        setattr(home, name, timed(spent, name, getattr(home, name)))


def timed(spent: dict[str, float], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - start

    return call


if __name__ == "__main__":
    main()
