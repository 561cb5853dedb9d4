"""What a charge costs: the neighbour relation, conversions, the accountant and the cap. It knows no data."""
