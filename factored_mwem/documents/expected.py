"""Expected: how far the table may be off: what the certificate measured, and what noise and model lead one to
expect."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from factored_mwem.answers.replicates import Bootstrap, Replicates
from factored_mwem.documents.material import Material
from factored_mwem.documents.page import fixed, percent, plain
from factored_mwem.errors import FmwemError
from factored_mwem.pipeline.record.manifest import CertifiedError, Manifest
from factored_mwem.pipeline.result import Release

MOST_CERTIFIED, MOST_PAIRS, SHOWN = 200, 400, 15
"""Certified errors that are shown; pairs of columns that are looked at, the others left out evenly; sets of
columns that are named.
"""
REPLICATES, COLUMNS = 8, 25
"""Replicates that expected errors are a mean over, of tables of so many columns; of wider ones fewer: a page
takes seconds.
"""


def errors_of(material: Material) -> dict[str, Any]:
    """The errors that can be stated of a release from public facts: `certified`, paid for, whatever the model
    did; `expected` by the model, which may be wrong.
    """
    known = material.release is not None and material.manifest.people is None  # no replicates are of people
    expected = _expected(material.release) if known and material.release is not None else None
    return {"certified": _certified(material.manifest), "expected": expected}


def _expected(release: Release) -> dict[str, Any] | None:
    """What so many `replicates` lead one to expect: `rows` of what, how many, mean and worst; the `worst` of
    all; of how many pairs (`all_pairs`) not all were looked at, else 0. None if no replicate can be made: see
    `Bootstrap`.
    """
    names, evidence = release.domain.modelled.names, release.evidence
    count = min(REPLICATES, max(REPLICATES * COLUMNS // len(names), 3))
    try:
        replicates = Replicates(evidence, Bootstrap(evidence, release.seed, count).all())
        singles: list[tuple[int, ...]] = [(a,) for a in range(len(names))]
        pairs: list[tuple[int, ...]] = list(itertools.combinations(range(len(names)), 2))
        looked = [pairs[i] for i in _evenly(len(pairs))]
        errors = expected_errors(replicates, [*singles, *looked])
    except FmwemError:
        return None
    rows = []
    for k, words in ((1, "single columns"), (2, "pairs of columns")):
        of_order = [error for view, error in errors if len(view) == k]
        if of_order:
            means = (fixed(float(np.mean(of_order))), fixed(max(of_order)))
            rows.append((words, f"{len(of_order):,}", *means))
    errors.sort(key=lambda each: -each[1])
    return {
        "replicates": count,
        "rows": rows,
        "worst": [(" x ".join(plain(names[a], 40) for a in view), fixed(e)) for view, e in errors[:SHOWN]],
        "all_pairs": len(pairs) if len(looked) < len(pairs) else 0,
    }


def _evenly(count: int) -> list[int]:
    """Up to MOST_PAIRS numbers below `count`, evenly spread."""
    return [i * count // MOST_PAIRS for i in range(MOST_PAIRS)] if count > MOST_PAIRS else list(range(count))


def _certified(manifest: Manifest) -> dict[str, Any] | None:
    """What a certificate says, a row for each error: what, estimate, standard error, low, high."""
    certificate = manifest.certificate
    if certificate is None:
        return None
    return {
        "confidence": percent(certificate.confidence, 0),
        "share": percent(certificate.share / certificate.tries),
        "rows": [
            (_what(error), *map(fixed, (error.estimate, error.stderr, error.low, error.high)))
            for error in certificate.errors[:MOST_CERTIFIED]
        ],
        "criteria": [plain(text, 120) for text in certificate.criteria],
        "tried": certificate.tried,
        "tries": certificate.tries,
    }


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


def expected_errors(
    replicates: Replicates, marginals: Sequence[tuple[int, ...]]
) -> list[tuple[tuple[int, ...], float]]:
    """(attributes, error) of `marginals`, as positions of attributes.

    An error is the expected L1 distance of shares (0 to 2) between the model's marginal and the table's, as
    replicates have it: noise, and rows that no model follows, but nothing that the trees leave out.
    """
    summed, count = np.zeros(len(marginals)), len(replicates)
    for b in range(count):
        answers, truths = replicates.forest(b).marginals(marginals), replicates.truths(b, marginals)
        for i, (answer, truth) in enumerate(zip(answers, truths, strict=True)):
            summed[i] += np.abs(answer / answer.sum() - truth / truth.sum()).sum() / count
    return list(zip(marginals, summed.tolist(), strict=True))
