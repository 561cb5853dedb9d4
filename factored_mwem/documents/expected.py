"""Expected: how far the table may be off: what the certificate measured, and what noise and model lead one to
expect.
"""

from __future__ import annotations

from dataclasses import dataclass

from factored_mwem.documents.material import Material
from factored_mwem.documents.wording import fixed, percent, plain
from factored_mwem.pipeline.manifest import CertifiedError, Manifest

MOST_CERTIFIED = 200


@dataclass(frozen=True, slots=True)
class Certified:
    """What a certificate says, a row for each error: what, estimate, standard error, low, high."""

    confidence: str
    share: str
    rows: tuple[tuple[str, ...], ...]
    criteria: tuple[str, ...]
    tried: int
    tries: int


@dataclass(frozen=True, slots=True)
class Errors:
    """`certified`: paid for, whatever the model did; `expected`: by the model, which may be wrong."""

    certified: Certified | None
    expected: tuple[tuple[str, ...], ...]


def errors_of(material: Material) -> Errors:
    """The errors that can be stated of a release from public facts."""
    return Errors(_certified(material.manifest), ())


def _certified(manifest: Manifest) -> Certified | None:
    found = manifest.certificate
    if found is None:
        return None
    rows = tuple(
        (_what(error), *(fixed(value) for value in (error.estimate, error.stderr, error.low, error.high)))
        for error in found.errors[:MOST_CERTIFIED]
    )
    criteria = tuple(plain(text, 120) for text in found.criteria)
    return Certified(
        percent(found.confidence, 0), percent(found.share), rows, criteria, found.tried, found.tries
    )


def _what(error: CertifiedError) -> str:
    if error.what == "column":
        return f"column {' x '.join(plain(name) for name in error.attributes)}"
    if error.what == "worst":
        return f"the worst of all sets asked for: {' x '.join(plain(name) for name in error.attributes)}"
    return "mean over single columns" if error.order == 1 else f"mean over sets of {error.order} columns"
