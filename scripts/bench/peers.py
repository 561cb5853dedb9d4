"""A driver for each peer that `python scripts/bench` runs beside. NOT PRIVATE: the runs read the table.

    PEER_PYTHON scripts/bench/peers.py NAME in.csv sizes.json epsilon delta rows order out.csv

Every column of in.csv holds codes 0..size-1 and sizes.json is {"column": size, ...}, so that every program
starts from the same public domain. Each driver calls the entry point that its program documents, with that
program's own defaults; where a workload can be given it is every marginal of that order, as ours is asked
for. This file needs the standard library and the peer alone, because the peer's own Python runs it. What must
be installed there:

    mst, mwem+pgm, aim                    private-pgm, with its folder `mechanisms` on the module path
    swift, swift-1000, dps-mst, dps-aim   dpsynth; swift-1000 fits with a tenth of the default iterations
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ORDER = 3


@dataclass(frozen=True)
class Task:
    """What is asked of every program."""

    table: str
    sizes_file: str
    epsilon: float
    delta: float
    rows: int
    order: int = ORDER

    @property
    def sizes(self) -> dict[str, int]:
        return json.loads(Path(self.sizes_file).read_text(encoding="utf-8"))

    @property
    def workload(self) -> list[tuple[str, ...]]:
        return list(itertools.combinations(self.sizes, min(self.order, len(self.sizes))))

    def frame(self) -> Any:
        return import_module("pandas").read_csv(self.table)


def pgm(module: str, run: Callable[[Any, Task, Any], Any]) -> Callable[[Task], Any]:
    """A driver for one of private-pgm's mechanisms, whose data sets held a data frame up to its version 1.0
    and a dictionary since.
    """

    def driver(task: Task) -> Any:
        data = import_module("mbi").Dataset.load(task.table, task.sizes_file)
        made = run(import_module(module), task, data)
        return import_module("pandas").DataFrame(made.to_dict()) if hasattr(made, "to_dict") else made.df

    return driver


def aim(module: Any, task: Task, data: Any) -> Any:
    """AIM with its default model of 80 MB; weight 1 for every marginal, as its own command line gives."""
    workload = [(clique, 1.0) for clique in task.workload]
    return module.AIM(task.epsilon, task.delta).run(data, workload, num_synth_rows=task.rows)[1]


def dpsynth(config: str, *, workload: bool = False, **given: Any) -> Callable[[Task], Any]:
    """A driver for one of dpsynth's mechanisms, with fields of its config; codes are categories, not numbers
    to be cut into bins.
    """

    def run(task: Task) -> Any:
        import dpsynth as dps
        import numpy as np

        sizes, more = task.sizes.items(), {"workload": task.workload} if workload else {}
        domains = {n: dps.CategoricalAttribute(possible_values=list(range(size))) for n, size in sizes}
        mechanism = getattr(dps.discrete_mechanisms, config)(**given, **more)
        made = dps.TabularSynthesizer(domains=domains, discrete_mechanism=mechanism)
        release = made.calibrate(epsilon=task.epsilon, delta=task.delta)
        return release(np.random.default_rng(), task.frame()).synthetic_data

    return run


PEERS: dict[str, Callable[[Task], Any]] = {
    "mst": pgm("mst", lambda module, task, data: module.MST(data, task.epsilon, task.delta)),
    "mwem+pgm": pgm(
        "mwem+pgm", lambda m, task, data: m.mwem_pgm(data, task.epsilon, task.delta, workload=task.workload)
    ),
    "aim": pgm("aim", aim),
    "swift": dpsynth("SWIFTConfig", workload=True),
    "swift-1000": dpsynth("SWIFTConfig", workload=True, pgm_iters=1000),
    "dps-mst": dpsynth("MSTConfig"),
    "dps-aim": dpsynth("AIMConfig", workload=True),
}

if __name__ == "__main__":
    if len(sys.argv) != 9 or sys.argv[1] not in PEERS:
        sys.exit(f"{__doc__}\nnames: {', '.join(PEERS)}")
    peer, file, codes, epsilon, delta, count, order, out = sys.argv[1:]
    asked = Task(file, codes, float(epsilon), float(delta), int(count), int(order))
    PEERS[peer](asked)[list(asked.sizes)].to_csv(out, index=False)
