"""Questions one by one: iterative constructions of a database, and what answers by them."""
