"""The formulas of smooth sensitivity, of numbers that the caller holds: NOT PRIVATE by themselves. What is
sealed is measured with the same ones, which lie beside it in `privacy/local.py` and `privacy/order.py`.
"""

from __future__ import annotations

from factored_mwem.accounting.admissible import Admissible, Shape
from factored_mwem.privacy.local import (
    local_of_order,
    local_of_spanning_tree,
    local_of_triangles,
    spanning_tree,
    triangles,
)
from factored_mwem.privacy.order import smooth_bound

__all__ = [
    "Admissible",
    "Shape",
    "local_of_order",
    "local_of_spanning_tree",
    "local_of_triangles",
    "smooth_bound",
    "spanning_tree",
    "triangles",
]
