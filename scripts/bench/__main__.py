"""Benchmarks of `fmwem release`. NOT PRIVATE: they read the tables.

    python scripts/bench accuracy|speed|scale ...   errors, time and memory, also beside other programs
    python scripts/bench workloads ...              errors of ranges, cubes and mixed workloads
    python scripts/bench raw ...                    errors, by values, on raw tables with a learnt domain
    python scripts/bench reading ...                CPU of reading text files
    python scripts/bench draw ...                   CPU and memory of drawing rows and writing them
    python scripts/bench rules ...                  rows that break a domain's rules, and what rules cost
    python scripts/bench labels ...                 what can be learnt from the rows; groups; correlations
    python scripts/bench reach ...                  CPU and memory of tables of many rows
    python scripts/bench spark ...                  CPU and memory of a release on Spark beside one here
    python scripts/bench planning ...               what `fmwem plan` expects, fitted to many releases
    python scripts/bench sketch ...                 errors of sparse queries beside CountSketch and others
    python scripts/bench coverage ...               do 95 % intervals of answers hold the truth?
    python scripts/bench graphs ...                 errors of cuts of private graphs, by mechanism
    python scripts/bench statistic ...              quantiles by smooth sensitivity beside OpenDP's
    python scripts/bench ask ...                   budget per question of `fmwem ask`, beside other rules
    python scripts/bench tables ...                 tables of codes to run the others on
    python scripts/bench same ...                   do two checkouts release the same bytes?

Each of them has its own `--help`.
"""

import sys
from importlib import import_module
from pathlib import Path

OWN = (
    "workloads", "raw", "reading", "draw", "rules", "labels", "reach", "spark", "tables", "same", "planning",
    "coverage", "statistic", "ask", "sketch", "graphs",
)  # fmt: skip
MODULES = {"accuracy": "runs", "speed": "runs", "scale": "runs"} | {name: name for name in OWN}

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    what = (sys.argv[1:] or ["--help"])[0]
    if what not in MODULES:
        print(__doc__)
        sys.exit(what not in ("-h", "--help"))
    if MODULES[what] == what:
        sys.argv[:2] = [f"bench {what}"]
    sys.exit(import_module(f"bench.{MODULES[what]}").main())
