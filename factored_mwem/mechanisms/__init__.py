"""Select, measure, update: how the budget left by the accountant becomes a fitted model."""
