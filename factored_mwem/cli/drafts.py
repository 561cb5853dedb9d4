"""Drafts: NOT PRIVATE. A first domain as a file, for a person to review."""

from __future__ import annotations

import json

import typer

from factored_mwem.cli.inputs import Given
from factored_mwem.cli.settings import ReleaseSettings
from factored_mwem.domain.domain import Domain

REVIEW = (
    "NOT PRIVATE: this draft was read off the data. Review it: widen bounds to what is publicly known, drop "
    'rare categories; then remove its line "draft": true, without which no release takes it.'
)


def drafted(table: Given, settings: ReleaseSettings) -> Domain:
    """NOT PRIVATE: a domain that reads the data, marked as a draft."""
    from factored_mwem.owner.draft import draft

    policy = settings.policy
    return draft(table, settings.columns, records=policy.records, dialect=policy.dialect)


def draft_text(domain: Domain) -> str:
    """The file, a field a line."""
    written = domain.to_dict()
    fields = (json.dumps(field, ensure_ascii=False) for field in written.pop("fields"))
    rest = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in written.items())
    return "{\n" + rest + ' "fields": [\n  ' + ",\n  ".join(fields) + "\n ]\n}\n"


def warn(domain: Domain) -> None:
    """Say on stderr what a draft is, and which columns look like identifiers."""
    typer.echo(REVIEW, err=True)
    for field in domain:
        if field.description is not None:
            typer.echo(f"Column {field.name!r}: {field.description}.", err=True)
