"""Certificate: counts of the released rows as they will be written, their errors, and the criteria."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.mechanisms.certify import CONFIDENCE, Error, Extent, Released, certify
from factored_mwem.model.sampling import Batches
from factored_mwem.pipeline.record.manifest import Certificate, CertifiedError
from factored_mwem.privacy.session import Session
from factored_mwem.request.policy import Criterion, Policy
from factored_mwem.tables.backends.codes import Codes
from factored_mwem.tables.backends.datavectors import Axis
from factored_mwem.tables.codes.codec import encode


def count_rows(rows: Batches, modelled: Domain, extent: Extent) -> Released:
    """How often each cell occurs in the rows, encoded again from the values as they are written, by the same
    rules as the private table. One batch is in memory at a time.
    """
    candidates = extent.candidates
    axes = [Axis(a, None, size) for a, size in enumerate(modelled.shape)]
    columns = [np.zeros(size, dtype=np.int64) for size in modelled.shape]
    tables = np.zeros(int(candidates.offsets[-1]), dtype=np.int64)
    for batch in rows:
        codes = [encode(attribute, batch.column(attribute.name)) for attribute in modelled]
        for a, size in enumerate(modelled.shape):
            columns[a] += np.bincount(codes[a], minlength=size)
        if len(candidates):
            held = Codes(codes, modelled.shape)
            tables += held.exact_counts(axes, candidates.members, candidates.offsets)
    return Released(rows.rows, tuple(columns), tables)


def make_certificate(
    session: Session, extent: Extent, rows: Batches, policy: Policy, modelled: Domain, tried: int
) -> Certificate:
    """The certificate of the rows of try number `tried`, which spends all that the session may spend.

    With several tries the bounds of all of them hold together, and so do those of the released one.
    """
    assert policy.certificate is not None  # as of every release that is certified
    failure = (1 - CONFIDENCE) / policy.tries
    errors = certify(session, extent, count_rows(rows, modelled, extent), failure)
    return Certificate(
        share=policy.certificate,
        confidence=CONFIDENCE,
        errors=tuple(_stated(error, extent, modelled.names) for error in errors),
        criteria=policy.accept,
        tries=policy.tries,
        tried=tried,
    )


def _stated(error: Error, extent: Extent, names: Sequence[str]) -> CertifiedError:
    wanted = extent.wanted.get(error.order, 0) if error.what == "mean" else sum(extent.wanted.values())
    named = {"attributes": tuple(names[a] for a in error.attributes)}
    return CertifiedError(**{**asdict(error), **named, "asked": 1 if error.what == "column" else wanted})


def unmet(criteria: Sequence[Criterion], certificate: Certificate) -> list[str]:
    """The criteria that fail, in words: those whose error may be larger, by the bounds of the certificate."""
    failures = []
    for criterion in criteria:
        error = next(e for e in certificate.errors if _is_of(e, criterion))
        if not error.high <= criterion.most:
            wording = criterion.text.strip().replace("\n", "\\n")  # a message is one line
            failures.append(f"{wording} (it is {error.estimate:.3g}, at most {error.high:.3g})")
    return failures


def _is_of(error: CertifiedError, criterion: Criterion) -> bool:
    if error.what != criterion.what:
        return False
    if criterion.what == "column":
        return error.attributes == (criterion.column,)
    return criterion.what == "worst" or error.order == criterion.order
