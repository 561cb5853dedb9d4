"""The accuracy at which a bound that rests on itself holds."""

from __future__ import annotations

from collections.abc import Callable


def fixed_point(wanted: Callable[[float], float]) -> float:
    """The least alpha with wanted(alpha) <= alpha, from above; `wanted` must not grow with alpha."""
    low, high = 0.0, 1.0
    while wanted(high) > high:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if wanted(middle) > middle else (low, middle)
    return high
