"""The update: bring one component's table towards its noisy measurements by multiplicative weights. Free: it
reads no private number.
"""

from __future__ import annotations
