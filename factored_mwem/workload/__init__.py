"""Workloads: queries of every kind, and the marginals that may be measured for them."""
