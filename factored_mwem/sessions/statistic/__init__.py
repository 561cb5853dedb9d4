"""Single statistics: smooth sensitivity, sample and aggregate, learning.

    statistic, Statistic                 count, mean, variance, median, quantile, min or max of a column
    sample_and_aggregate, Aggregated     any function of rows, asked about blocks of them
    triangle_count, spanning_tree_cost   of a graph whose edges, or whose weights, are private
    learn_hypothesis, Learnt             the best of a finite class of hypotheses, nearly
    failure_bound, rows_needed           how often that fails, and with how many rows it does not

Formulas alone, of numbers that the caller holds (NOT PRIVATE by themselves): `statistic.smooth`.
"""

from factored_mwem.sessions.statistic.column_statistic import Statistic, statistic
from factored_mwem.sessions.statistic.graph_statistic import (
    GraphStatistic,
    spanning_tree_cost,
    triangle_count,
)
from factored_mwem.sessions.statistic.learner import Learnt, failure_bound, learn_hypothesis, rows_needed
from factored_mwem.sessions.statistic.sample import Aggregated, sample_and_aggregate

__all__ = [
    "Aggregated",
    "GraphStatistic",
    "Learnt",
    "Statistic",
    "failure_bound",
    "learn_hypothesis",
    "rows_needed",
    "sample_and_aggregate",
    "spanning_tree_cost",
    "statistic",
    "triangle_count",
]
