"""Answers of a release about its table, with error bars: from the public model alone, and free.

Reading order: `query` and `grammar` (what can be asked), `resolve` on `restriction` (as weights of codes),
`terms` (products of such weights, and the model's answers). What was measured: `least_squares` on
`projections`, by `orthogonal` or `refined`, both `linear`. What only the model answers: `replicates`, a
bootstrap of `bootstrap_table` and `bootstrap_fit`. `answering` puts them together, by `intervals`, as an
`answer`.
"""
