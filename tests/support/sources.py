"""The package's own text, for the tests that read it."""

from __future__ import annotations

from pathlib import Path

import factored_mwem

ROOT = Path(factored_mwem.__file__).parent
Sources = dict[str, str]
"""Module name below the package, such as "privacy.session", to its text."""


def sources() -> Sources:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__") if name != "__init__" else name] = path.read_text(
            encoding="utf-8"
        )
    return found
