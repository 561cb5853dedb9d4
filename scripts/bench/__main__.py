"""Benchmarks of `fmwem release` and the other commands. NOT PRIVATE: they read the tables.

    python scripts/bench accuracy|scale ...         errors, time and memory, also beside other programs
    python scripts/bench speed ...                  what every command costs, beside other checkouts and peers
    python scripts/bench planning ...               what `fmwem plan` expects, fitted to many releases
    python scripts/bench sketch ...                 errors of sparse queries beside CountSketch and others
    python scripts/bench coverage ...               do 95 % intervals of answers hold the truth?
    python scripts/bench intervals ...              what people are told: do the intervals hold it, how wide?
    python scripts/bench graphs ...                 errors of cuts of private graphs, by mechanism
    python scripts/bench statistic ...              quantiles by smooth sensitivity beside OpenDP's
    python scripts/bench people ...                 tables whose people have several rows, in three ways
    python scripts/bench linked ...                 tables that belong together, beside each on its own
    python scripts/bench public ...                 columns known from a public table, beside none
    python scripts/bench pairs ...                 how much noise leaves of columns that go together
    python scripts/bench ask ...                    budget per question of `fmwem ask`, beside other rules
    python scripts/bench tables ...                 the census table of codes to run the others on
    python scripts/bench same ...                   do two checkouts release the same bytes?

Each of them has its own `--help`.
"""

import re
import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    what, *arguments = sys.argv[1:] or ["--help"]
    if what not in " ".join(re.findall(r"scripts/bench (\S+) ", __doc__)).replace("|", " ").split():
        print(__doc__)
        sys.exit(what not in ("-h", "--help"))
    module = import_module(f"bench.{'runs' if what in ('accuracy', 'scale') else what}")
    if what in ("planning", "tables", "same"):
        sys.exit(module.main(arguments))
    getattr(module, what).main(what, arguments)
