"""Requests put together by hand: of a table that nothing but the engine is asked to look at."""

from __future__ import annotations

from typing import Any

from factored_mwem.domain.domain import Domain
from factored_mwem.request.policy import Policy
from factored_mwem.request.request import Request
from factored_mwem.workload.workload import Workload


def request_of(
    private: Any,
    workload: Workload,
    policy: Policy,
    declared: Domain | None,
    *,
    columns: list[str] | None = None,
    rows: int | None = None,
    sample_seed: int | None = None,
) -> Request:
    """A request, unchecked."""
    return Request(
        private=private,
        promise=policy,
        declared=declared,
        columns=columns,
        workload=workload,
        rows=rows,
        sample_seed=sample_seed,
    )
