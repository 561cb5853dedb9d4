"""The verifier: a release is recorded and replayed on neighbours of its table, below the library that draws
the noise. NOT PRIVATE, all of it.

Reading order: `tap` (what the sampler received), `watch` (what was charged for it), `hostile` (cells that
break programs), `sheet` (a table that can be written again), `edits` (bases and neighbours), `verify` (pairs,
ratios, failures).
"""
