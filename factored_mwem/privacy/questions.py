"""select and measure for questions of any kind, see factored_mwem/queries: one answer, or a table, instead of
whole marginals alone.
"""

from __future__ import annotations
