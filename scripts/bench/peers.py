"""A driver for each peer that `python scripts/bench` runs beside. NOT PRIVATE: the runs read the table.

    PEER_PYTHON scripts/bench/peers.py NAME in.csv sizes.json epsilon delta rows out.csv

Every column of in.csv holds codes 0..size-1 and sizes.json is {"column": size, ...}, so that every program
starts from the same public domain. Each driver calls the entry point that its program documents, with that
program's own defaults; where a workload can be given it is every 3-way marginal, because that is what the
benchmark judges. This file needs the standard library and the peer alone, because the peer's own Python runs
it. What must be installed there:

    mst, mwem+pgm, aim                    private-pgm, with its folder `mechanisms` on the module path
    swift, swift-1000, dps-mst, dps-aim   dpsynth; swift-1000 fits with a tenth of the default iterations
    dpmm-mst, dpmm-aim, dpmm-privbayes    dpmm
    smartnoise-mwem                       smartnoise-synth; pure epsilon, delta is not used
    aim-rule                              factored_mwem: AIM's rules on its engine, see aim_rule.py
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
SPLIT_CELLS = 10**6
"""Most cells of one histogram of SmartNoise's MWEM, which keeps every cell and draws each row from all of
them.
"""


@dataclass(frozen=True)
class Task:
    """What is asked of every program."""

    table: str
    sizes_file: str
    epsilon: float
    delta: float
    rows: int

    @property
    def sizes(self) -> dict[str, int]:
        return json.loads(Path(self.sizes_file).read_text(encoding="utf-8"))

    @property
    def workload(self) -> list[tuple[str, ...]]:
        return list(itertools.combinations(self.sizes, min(ORDER, len(self.sizes))))

    def frame(self) -> Any:
        return import_module("pandas").read_csv(self.table)


def pgm_data(task: Task) -> Any:
    return import_module("mbi").Dataset.load(task.table, task.sizes_file)


def pgm_frame(made: Any) -> Any:
    """The rows of one of private-pgm's data sets, which held a data frame up to its version 1.0 and a
    dictionary since.
    """
    return import_module("pandas").DataFrame(made.to_dict()) if hasattr(made, "to_dict") else made.df


def mst(task: Task) -> Any:
    return pgm_frame(import_module("mst").MST(pgm_data(task), task.epsilon, task.delta))


def mwem_pgm(task: Task) -> Any:
    return pgm_frame(
        import_module("mwem+pgm").mwem_pgm(pgm_data(task), task.epsilon, task.delta, workload=task.workload)
    )


def aim(task: Task) -> Any:
    """AIM with its default model of 80 MB; weight 1 for every marginal, as its own command line gives."""
    workload = [(clique, 1.0) for clique in task.workload]
    return pgm_frame(
        import_module("aim")
        .AIM(task.epsilon, task.delta)
        .run(pgm_data(task), workload, num_synth_rows=task.rows)[1]
    )


def dpsynth(config: str, *, workload: bool = False, **given: Any) -> Callable[[Task], Any]:
    """A driver for one of dpsynth's mechanisms, with fields of its config; codes are categories, not numbers
    to be cut into bins.
    """

    def run(task: Task) -> Any:
        import dpsynth as dps
        import numpy as np

        domains = {
            name: dps.CategoricalAttribute(possible_values=list(range(size)))
            for name, size in task.sizes.items()
        }
        mechanism = getattr(dps.discrete_mechanisms, config)(
            **given, **({"workload": task.workload} if workload else {})
        )
        release = dps.TabularSynthesizer(domains=domains, discrete_mechanism=mechanism).calibrate(
            epsilon=task.epsilon, delta=task.delta
        )
        return release(np.random.default_rng(), task.frame()).synthetic_data

    return run


def dpmm(pipeline: str) -> Callable[[Task], Any]:
    """A driver for one of dpmm's pipelines; its preprocessing is off, because the codes need none."""

    def run(task: Task) -> Any:
        made = getattr(import_module("dpmm.pipelines"), pipeline)(
            epsilon=task.epsilon, delta=task.delta, disable_processing=True
        )
        made.fit(task.frame(), task.sizes)
        return made.generate(n_records=task.rows)

    return run


def smartnoise_mwem(task: Task) -> Any:
    """MWEM on histograms of as many columns as surely stay below SPLIT_CELLS cells: the whole table rarely
    does.
    """
    synthesizer = import_module("snsynth").Synthesizer
    largest = sorted(task.sizes.values(), reverse=True)
    cells = list(itertools.accumulate(largest, lambda a, b: a * b))
    together = max(1, sum(c <= SPLIT_CELLS for c in cells))
    made = synthesizer.create("mwem", epsilon=task.epsilon, split_factor=together)
    made.fit(task.frame(), categorical_columns=list(task.sizes), preprocessor_eps=0.0)
    return made.sample(task.rows)


def aim_rule(task: Task) -> Any:
    """AIM's rules on our own engine: what selection and annealing are worth, apart from the engine."""
    given = (task.table, task.sizes_file, task.epsilon, task.delta, task.rows)
    return import_module("pandas").DataFrame(import_module("aim_rule").aim_rows(*given, order=ORDER))


PEERS: dict[str, Callable[[Task], Any]] = {
    "mst": mst,
    "mwem+pgm": mwem_pgm,
    "aim": aim,
    "swift": dpsynth("SWIFTConfig", workload=True),
    "swift-1000": dpsynth("SWIFTConfig", workload=True, pgm_iters=1000),
    "dps-mst": dpsynth("MSTConfig"),
    "dps-aim": dpsynth("AIMConfig", workload=True),
    "dpmm-mst": dpmm("MSTPipeline"),
    "dpmm-aim": dpmm("AIMPipeline"),
    "dpmm-privbayes": dpmm("PrivBayesPipeline"),
    "smartnoise-mwem": smartnoise_mwem,
    "aim-rule": aim_rule,
}
ON_OUR_ENGINE = ("aim-rule",)
"""Run by our own Python where no other is named, and once unmeasured first, as our programs are."""


def main() -> None:
    if len(sys.argv) != 8 or sys.argv[1] not in PEERS:
        sys.exit(f"{__doc__}\nnames: {', '.join(PEERS)}")
    name, table, sizes_file, epsilon, delta, rows, out = sys.argv[1:]
    task = Task(table, sizes_file, float(epsilon), float(delta), int(rows))
    PEERS[name](task)[list(task.sizes)].to_csv(out, index=False)


if __name__ == "__main__":
    main()
