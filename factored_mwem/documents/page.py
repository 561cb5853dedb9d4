"""Page: a template filled in. Every text on it is escaped, and the page itself forbids what is not in it."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("factored_mwem.documents"),
        autoescape=True,  # whatever the name of a template
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def filled(template: str, **facts: Any) -> str:
    """The template of this name with these facts."""
    return _environment().get_template(template).render(facts)
