"""What is believed: clique trees, their fit to noisy marginals, and rows drawn from them; all public."""
