"""Certificate: counts of the released rows as they will be written, their errors, and the criteria."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.domain import Domain
from factored_mwem.mechanisms.certify import CONFIDENCE, Error, Extent, Released, certify
from factored_mwem.pipeline.people import PeopleBatches
from factored_mwem.pipeline.record.manifest import Certificate, CertifiedError
from factored_mwem.pipeline.sampling import Batches
from factored_mwem.privacy.session import Session
from factored_mwem.request.policy import Criterion, Policy
from factored_mwem.tables.backends.codes import Codes
from factored_mwem.tables.backends.datavectors import Axis, Datavectors
from factored_mwem.tables.backends.people import released_people
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.parsing import plain
from factored_mwem.tables.inputs.people import RowOrder


def count_rows(rows: Batches, modelled: Domain, extent: Extent) -> Released:
    """How often each cell occurs in the rows, encoded again from the values as they are written, by the same
    rules as the private table; of people in grains. One batch is in memory at a time, and nobody's rows are
    in two.
    """
    candidates = extent.candidates
    axes = [Axis(a, None, size) for a, size in enumerate(modelled.shape)]
    singles, ends = np.arange(len(axes), dtype=np.int32)[:, None], np.cumsum([0, *modelled.shape])
    columns = np.zeros(int(ends[-1]), dtype=np.int64)
    tables = np.zeros(int(candidates.offsets[-1]), dtype=np.int64)
    for batch in rows:
        held = _as_private(rows, batch, modelled)
        columns += held.exact_counts(axes, singles, ends)
        if len(candidates):
            tables += held.exact_counts(axes, candidates.members, candidates.offsets)
    parts = np.split(columns, ends[1:-1])
    return Released(int(parts[0].sum()), tuple(parts), tables)


def _as_private(rows: Batches, batch: pa.RecordBatch, modelled: Domain) -> Datavectors:
    """The codes of a batch, as if it were a private table. People are read as private ones are: how many rows
    each has, what these weigh, and what comes before what.
    """
    if not isinstance(rows, PeopleBatches):
        codes = [encode(attribute, batch.column(attribute.name)) for attribute in modelled]
        return Codes(codes, modelled.shape)
    facts, order = rows.people, None
    if facts.order_by is not None:
        order = RowOrder(facts.order_by, rows.domain[facts.order_by])
    return released_people(batch, modelled, facts.column, rows.counts.unit.row_weight, order)


def make_certificate(
    session: Session, extent: Extent, rows: Batches, policy: Policy, modelled: Domain, tried: int
) -> Certificate:
    """The certificate of the rows of try number `tried`, which spends all that the session may spend.

    With several tries the bounds of all of them hold together, and so do those of the released one.
    """
    assert policy.certificate is not None  # as of every release that is certified
    failure = (1 - CONFIDENCE) / policy.tries
    errors = certify(session, extent, count_rows(rows, modelled, extent), failure)
    alone = (c for c in policy.criteria if c.what == "unique")
    return Certificate(
        share=policy.certificate,
        confidence=CONFIDENCE,
        counted="people" if policy.people else "rows",
        errors=tuple(_stated(error, extent, modelled.names) for error in errors),
        criteria=policy.accept,
        unique={c.text: unique_share(rows, c.columns or rows.schema.names) for c in alone},
        tries=policy.tries,
        tried=tried,
    )


def unique_share(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> float:
    """The share of the released rows whose values in `columns`, as they are written, no other row has. Exact,
    and public: the rows are.
    """
    parts = [pa.table({n: plain(batch.column(n)) for n in columns}) for batch in batches]
    if not parts:
        return 0.0  # there is no row
    kept = pa.concat_tables(parts)
    counted = kept.group_by([*columns]).aggregate([([], "count_all")])["count_all"]
    return float(pc.sum(pc.equal(counted, 1)).as_py() or 0) / max(kept.num_rows, 1)


def _stated(error: Error, extent: Extent, names: Sequence[str]) -> CertifiedError:
    wanted = extent.wanted.get(error.order, 0) if error.what == "mean" else sum(extent.wanted.values())
    named = {"attributes": tuple(names[a] for a in error.attributes)}
    return CertifiedError(**{**asdict(error), **named, "asked": 1 if error.what == "column" else wanted})


def unmet(criteria: Sequence[Criterion], certificate: Certificate) -> list[str]:
    """The criteria that fail, in words: those whose error may be larger, by the bounds of the certificate."""
    failures = []
    for criterion in criteria:
        wording = criterion.text.strip().replace("\n", "\\n")  # a message is one line
        if criterion.what == "unique":
            if (share := certificate.unique[criterion.text]) > criterion.most:
                failures.append(f"{wording} (it is {share:.3g})")
            continue
        error = next(e for e in certificate.errors if _is_of(e, criterion))
        if not error.high <= criterion.most:
            failures.append(f"{wording} (it is {error.estimate:.3g}, at most {error.high:.3g})")
    return failures


def _is_of(error: CertifiedError, criterion: Criterion) -> bool:
    if error.what != criterion.what:
        return False
    if criterion.what == "column":
        return error.attributes == criterion.columns
    return criterion.what == "worst" or error.order == criterion.order
