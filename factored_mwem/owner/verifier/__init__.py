"""The verifier: a release is recorded, and replayed on neighbours of its table, below the noise library.

NOT PRIVATE, all of it. Reading order: `tap` (what the sampler received), `comparison` (with what was charged
for it), `watch` (the transcript and its replay), `hostile` (cells that break programs), `sheet` (a table that
can be written again), `edits` (bases and neighbours), `verify` (pairs, ratios, failures).
"""
