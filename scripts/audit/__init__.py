"""Two audits of the package's privacy claims, statistical (`command`) and by replayed neighbours (`verify`).

Modules, in reading order: `bounds` (from an event to a lower bound), `draws` (adapters that see or dictate
the noise), `check` (many runs on two neighbouring tables), `stages`, `discovery`, `releases`, `resume` (the
checks), `exact` (tiny domains, enumerated), `matrix` (what is verified), `plants` (the bugs that must be
caught), `bulk` (options and processes).
"""
