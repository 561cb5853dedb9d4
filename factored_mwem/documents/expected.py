"""Expected: how far the table may be off: what the certificate measured, and what noise and model lead one to
expect.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from factored_mwem.answers.expected import expected_errors
from factored_mwem.answers.replicates import Bootstrap, Replicates
from factored_mwem.documents.material import Material
from factored_mwem.documents.wording import fixed, percent, plain
from factored_mwem.errors import FmwemError
from factored_mwem.pipeline.manifest import CertifiedError, Manifest
from factored_mwem.pipeline.result import Release

MOST_CERTIFIED, MOST_PAIRS, SHOWN = 200, 400, 15
"""Certified errors that are shown; pairs of columns that are looked at, the others left out evenly; sets of
columns that are named.
"""
REPLICATES, COLUMNS = 8, 25
"""Replicates that expected errors are a mean over, of tables of so many columns; of wider ones fewer: a page
takes seconds.
"""


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
class Expected:
    """What the model leads one to expect, by so many `replicates`: `rows` of what, how many, mean and worst;
    the `worst` of all, and of how many pairs (`all_pairs`) not all were looked at, else 0.
    """

    replicates: int
    rows: tuple[tuple[str, ...], ...]
    worst: tuple[tuple[str, ...], ...]
    all_pairs: int


@dataclass(frozen=True, slots=True)
class Errors:
    """`certified`: paid for, whatever the model did; `expected`: by the model, which may be wrong."""

    certified: Certified | None
    expected: Expected | None


def errors_of(material: Material) -> Errors:
    """The errors that can be stated of a release from public facts."""
    made = material.made
    return Errors(_certified(material.manifest), None if made is None else _expected(made))


def _expected(made: Release) -> Expected | None:
    """None where no replicate can be made: see `Bootstrap`."""
    names, evidence = made.domain.modelled.names, made.evidence
    count = min(REPLICATES, max(REPLICATES * COLUMNS // len(names), 3))
    try:
        replicates = Replicates(evidence, Bootstrap(evidence, made.seed, count).all())
        singles: list[tuple[int, ...]] = [(a,) for a in range(len(names))]
        pairs: list[tuple[int, ...]] = list(itertools.combinations(range(len(names)), 2))
        looked = [pairs[i] for i in _evenly(len(pairs))]
        found = expected_errors(evidence, 2, replicates, [*singles, *looked])
    except FmwemError:
        return None
    rows = []
    for k, words in ((1, "single columns"), (2, "pairs of columns")):
        of_order = [error for view, error in found if len(view) == k]
        if of_order:
            means = (fixed(float(np.mean(of_order))), fixed(max(of_order)))
            rows.append((words, f"{len(of_order):,}", *means))
    found.sort(key=lambda each: -each[1])
    worst = tuple((" x ".join(plain(names[a], 40) for a in view), fixed(e)) for view, e in found[:SHOWN])
    return Expected(count, tuple(rows), worst, len(pairs) if len(looked) < len(pairs) else 0)


def _evenly(count: int) -> list[int]:
    """Up to MOST_PAIRS numbers below `count`, evenly spread."""
    return [i * count // MOST_PAIRS for i in range(MOST_PAIRS)] if count > MOST_PAIRS else list(range(count))


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
        percent(found.confidence, 0),
        percent(found.share / found.tries),
        rows,
        criteria,
        found.tried,
        found.tries,
    )


def _what(error: CertifiedError) -> str:
    names = " x ".join(plain(name) for name in error.attributes)
    if error.what == "column":
        return f"column {names}"
    if error.what == "worst":
        return f"the worst of {how_many(error)}: {names}"
    return f"mean over {how_many(error)} of {error.order} column{'s' * (error.order > 1)}"


def how_many(error: CertifiedError) -> str:
    """What an error is the mean or the worst of; where not all that were asked for, a random sample."""
    sets = f"{error.sets:,} set{'s' * (error.sets > 1)}"
    return sets if error.sets >= error.asked else f"{sets} (of {error.asked:,}, drawn at random)"
