"""Private rows from arrays of codes, sealed or not: what tests and audits hand to the engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.privacy.answers import PrivateAnswers
from factored_mwem.privacy.counts import CandidateTables, PrivateCounts, PrivateRows
from factored_mwem.privacy.rows import Rows
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.queries.base import Questions

Columns = Sequence[np.ndarray]


def tables_of(codes: Columns, candidates: Candidates) -> CandidateTables:
    return CandidateTables(Rows.coded(codes, candidates.domain.shape), candidates)


def private_counts(codes: Columns, candidates: Candidates) -> PrivateCounts:
    return PrivateRows.coded(codes, candidates.domain).count(candidates)


def private_answers(codes: Columns, domain: Domain, kinds: Sequence[Questions]) -> PrivateAnswers:
    return PrivateAnswers.of(PrivateRows.coded(codes, domain), domain, kinds)


def codes_in(rows: PrivateRows) -> list[np.ndarray]:
    """int64[row] of each attribute, as the sealed rows have them."""
    inside = rows.reveal()
    columns = [inside.data.columns[column].astype(np.int64) for column in inside.columns]
    return [c if k is None else k[c] for c, k in zip(columns, inside.lookups, strict=True)]
