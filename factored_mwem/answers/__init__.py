"""What a release says about its table, with error bars: from the public model alone, free.

Reading order: `query` and `grammar` (what can be asked), `resolve` on `restriction` (as weights of codes),
`terms` (products of such weights, and the model's answers). What was measured: `least_squares` on `looks`, by
`orthogonal` or `refined`, both `linear`. What only the model answers: `replicates`. `answering` puts them
together, by `bases` and `figures`, as an `answer`.
"""
