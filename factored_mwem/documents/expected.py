"""Expected: how far off the rows may be: the errors that the certificate measured, and those expected by
noise and model.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from factored_mwem.answers.replicates import Replicates
from factored_mwem.documents.material import Material
from factored_mwem.documents.page import fixed, percent, plain
from factored_mwem.errors import FmwemError
from factored_mwem.pipeline.record.manifest import CertifiedError, Manifest
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.saving.replicating import COUNT

MOST_CERTIFIED, MOST_PAIRS, SHOWN = 200, 400, 15
"""Most certified errors that are shown; most pairs of columns that are examined, evenly spread over all; most
sets of columns that are named.
"""
COLUMNS = 25
"""Up to so many columns, expected errors are averaged over as many replicates as answers make, and those are
kept; for wider tables fewer do, so that a page takes seconds, unless more are kept.
"""


def errors_of(material: Material) -> dict[str, Any]:
    """The errors of a release that public facts show: `certified` ones were measured, and hold for any model;
    `expected` ones follow from the model, which may be wrong.
    """
    known = material.release is not None and material.manifest.people is None  # no replicates are of people
    expected = _expected(material.release) if known and material.release is not None else None
    return {"certified": _certified(material.manifest), "expected": expected}


def _expected(release: Release) -> dict[str, Any] | None:
    """The errors that `replicates` predict: `rows` of what, how many, mean and worst; the `worst` of all;
    `all_pairs`: the number of pairs if not all were examined, else 0. None if no replicate can be made: see
    `Bootstrap`.
    """
    names, evidence = release.domain.modelled.names, release.evidence
    count = min(COUNT, max(COUNT * COLUMNS // len(names), 3))
    try:
        replicates = release.keeper.replicates(evidence, release.seed, count)
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
        "replicates": len(replicates),
        "rows": rows,
        "worst": [(" x ".join(plain(names[a], 40) for a in view), fixed(e)) for view, e in errors[:SHOWN]],
        "all_pairs": len(pairs) if len(looked) < len(pairs) else 0,
    }


def _evenly(count: int) -> list[int]:
    """Up to MOST_PAIRS numbers below `count`, evenly spread."""
    return [i * count // MOST_PAIRS for i in range(MOST_PAIRS)] if count > MOST_PAIRS else list(range(count))


def _certified(manifest: Manifest) -> dict[str, Any] | None:
    """The rows of a certificate, one for each error: what, estimate, standard error, low, high."""
    certificate = manifest.certificate
    if certificate is None:
        return None
    return {
        "confidence": percent(certificate.confidence, 0),
        "counted": certificate.counted,
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
    """The number of marginals over which an error is the mean or the worst; and of how many requested ones
    they are a random sample, if they are.
    """
    sets = f"{error.sets:,} set{'s' * (error.sets > 1)}"
    return sets if error.sets >= error.asked else f"{sets} (of {error.asked:,}, drawn at random)"


def expected_errors(
    replicates: Replicates, marginals: Sequence[tuple[int, ...]]
) -> list[tuple[tuple[int, ...], float]]:
    """(attributes, error) of `marginals`, as positions of attributes.

    An error is the expected L1 distance of shares (0 to 2) between the model's marginal and the table's,
    estimated by replicates: it covers the noise and the random variation of rows, but no dependence that the
    trees leave out.
    """
    summed, count = np.zeros(len(marginals)), len(replicates)
    for b, truths in enumerate(replicates.truths(marginals)):
        answers = replicates.forest(b).marginals(marginals)
        for i, (answer, truth) in enumerate(zip(answers, truths, strict=True)):
            summed[i] += np.abs(answer / answer.sum() - truth / truth.sum()).sum() / count
    return list(zip(marginals, summed.tolist(), strict=True))
