"""The model: clique trees, their fit to noisy marginals, and rows drawn from them; all public."""
