"""The rows that a statistic is of, and what its promise rests on."""

from __future__ import annotations

from factored_mwem.backends.source import Source
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.pipeline.assumptions import Assumption, assumptions_of
from factored_mwem.pipeline.task import Opened
from factored_mwem.policy import Policy
from factored_mwem.privacy.session import Session
from factored_mwem.request import Request
from factored_mwem.tables.parsing import is_number, is_text, value_type


def seal_rows(opened: Opened, request: Request, domain: Domain) -> Session:
    """The session with the rows of a request, at most `contributions` of each person. Reads rows."""
    session, policy, source = opened.session, request.policy, request.private
    bounded: Source = source
    if policy.privacy_id is not None:
        bounded = source.bounded(policy.privacy_id, policy.contributions)
    return session.encode(domain, bounded)


def check_numbers(request: Request, column: str) -> None:
    """InputError for a column that is missing or holds no numbers, by names and types alone."""
    request.private.check_column(column)
    kind = value_type(request.private.schema.field(column).type)
    if not (is_number(kind) or is_text(kind)):
        raise InputError(f"column {column!r} is {kind}; statistics are of numbers, or of text with some")


def unit_of(policy: Policy) -> str:
    """What two neighbouring tables differ in."""
    who = f"one person with at most {policy.contributions} row{'s' * (policy.contributions > 1)}"
    return f"{who} {'added or removed' if policy.neighbours == 'add-remove' else 'exchanged for another'}"


def trusted(policy: Policy, request: Request, run: Opened) -> list[Assumption]:
    """What the promise rests on: that of a release under a declared domain."""
    form, cluster = request.private.form, request.private.cluster
    found = assumptions_of(policy, form, learnt=False, ledger=run.run.has_books, cluster=cluster)
    fields = (getattr(found, name) for name in type(found).model_fields)
    return [one for one in fields if one is not None]
