"""A statistical audit of the package's privacy claims: what each stage charges, and what a whole release
promises, against lower bounds.

Modules, in reading order: `bounds` (from counts of an event to a lower bound), `events` (which event),
`draws` (adapters that see or dictate the noise), `check` (many runs on two neighbouring tables), `stages`,
`discovery`, `releases`, `resume` (the checks), `exact` (tiny domains, enumerated), `plants` (the bugs that
must be caught), `report`.
"""
