"""Single statistics: smooth sensitivity, sample and aggregate, learning.

    statistic          count, mean, variance, median, quantile, min or max of a column
"""

from factored_mwem.statistics.statistic import Statistic, statistic

__all__ = ["Statistic", "statistic"]
