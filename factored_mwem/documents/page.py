"""Page: a template filled in, and texts and figures as a page shows them. A text may come from a stranger, in
any length and alphabet: every text is escaped, and the page forbids scripts and loading (content security
policy).
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from factored_mwem.pipeline.progress import visible

MOST_CHARACTERS = 60
"""Most characters of a name or a value on a page."""
FRACTION = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")
NOTHING = "-"
"""Stands for an unknown figure."""


def plain(text: object, most: int = MOST_CHARACTERS) -> str:
    """A text on one line, what would steer a screen spelt out (line breaks, marks that turn the direction of
    writing), the rest left out beyond `most` characters. That it is no HTML, the template sees to.
    """
    whole = str(text)[: most + 1]
    shown = visible(whole).replace("\n", "\\n")
    return shown if len(whole) <= most and len(shown) <= 2 * most else f"{shown[: most - 1]}…"


def rounded(label: str) -> str:
    """A label of ours with its fractions cut to six digits."""
    return FRACTION.sub(lambda match: f"{float(match[0]):.6g}", label)


def figure(value: float | None, digits: int = 3) -> str:
    """A number to so many significant digits, with commas between thousands."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.{digits}g}"
    return f"{value:.{digits}g}"


def fixed(value: float | None, decimals: int = 3) -> str:
    """A number with a fixed number of decimals, for columns of numbers."""
    if value is None or not math.isfinite(value) or abs(value) > 1e15:
        return NOTHING
    return f"{value:,.{decimals}f}"


def percent(share: float | None, decimals: int = 1) -> str:
    """A share as per cent."""
    return NOTHING if share is None or not math.isfinite(share) else f"{fixed(100 * share, decimals)} %"


def counted(number: int, what: str) -> str:
    """A number of things."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names one after the other, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(plain(name) for name in names[:most]) + more


def markdown(text: str) -> str:
    """A sentence that may hold names from anybody, escaped for a page that reads Markdown, HTML and LaTeX."""
    text = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"[\\`*\[\]$]|(?<!\w)_|_(?!\w)", lambda match: f"&#{ord(match[0])};", text)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("factored_mwem.documents"),
        autoescape=lambda name: not (name or "").endswith(".md"),  # there every text of others is `|markdown`
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["markdown"] = markdown
    return environment


def filled(template: str, **facts: Any) -> str:
    """The template of this name with these facts."""
    return _environment().get_template(template).render(facts)
