"""Two audits of the package's privacy claims, statistical (`command`) and by replayed neighbours (`verify`).

Modules, in reading order: `draws` (adapters that see or dictate the noise), `check` (many runs on two
neighbouring tables; its bounds are those of `fmwem attack`), `stages`, `discovery`, `releases`, `resume` (the
checks), `exact` (tiny domains, enumerated), `matrix` (what is verified), `plants` (the bugs that must be
caught), `bulk` (options and processes).
"""
