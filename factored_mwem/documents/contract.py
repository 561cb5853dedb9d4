"""Contract: a data contract of the Open Data Contract Standard 3.1."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

from factored_mwem.documents import accounts
from factored_mwem.documents.datapackage import is_mail
from factored_mwem.documents.owner import Owner
from factored_mwem.documents.published import ColumnSection, Published
from factored_mwem.documents.registry import published_on
from factored_mwem.tables.outputs.descriptors import plain_name

TYPES = {"datetime": "timestamp"}
"""Names of types that differ from a Table Schema's."""


def contract(release: Published, owner: Owner) -> dict[str, Any]:
    """The contract. Its id follows from the sha256 of the rows: the same rows, the same id."""
    digest = f"sha256:{release.output.sha256}"
    return {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, digest)),
        "name": owner.name,
        "version": owner.version or "1.0.0",  # of the contract, which must have one
        "status": "draft",
        "tags": ["synthetic", "differential-privacy"],
        "description": {
            "purpose": owner.description,
            "usage": owner.intended_use,
            "limitations": "\n".join(accounts.limitations(release)),
        },
        "schema": [_rows(release)],
        "servers": [_server(release)],
        "support": [_support(owner)],
        "team": {"name": owner.curators[0], "description": f"Published by {', '.join(owner.curators)}"},
        "authoritativeDefinitions": [{"url": owner.url, "type": "businessDefinition"}],
        "customProperties": _properties(
            {
                "licence": owner.license,
                "region": owner.region,
                "published": published_on(release, owner).isoformat(),
                "dataCollection": owner.data_collection,
                "preparation": owner.preparation,
                "privacyJustification": owner.justification,
                "privacyStatement": release.manifest.guarantee.statement,
                **accounts.promise(release),
                **accounts.sentences(release),
            }
        ),
    }


def _rows(release: Published) -> dict[str, Any]:
    quality: list[dict[str, Any]] = [
        {"name": "rows", "type": "library", "metric": "rowCount", "mustBe": release.output.rows}
    ]
    return {
        "name": plain_name(release.folder or release.files[0].path),
        "physicalName": release.output.file,
        "logicalType": "object",
        "physicalType": "folder of files" if release.folder else "file",
        "description": accounts.title(release),
        "dataGranularityDescription": "A synthetic row, in the place of a record of the private table",
        "properties": [_property(column) for column in release.columns],
        "quality": [*quality, *_certified(release)],
        "customProperties": _properties(
            {"files": [{"path": f.path, "rows": f.rows, "sha256": f.sha256} for f in release.files]}
        ),
    }


def _property(column: ColumnSection) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": column.name,
        "logicalType": TYPES.get(column.type, column.type),
        "required": column.required,
    }
    texts = [text for text in (column.title, column.description) if text]
    if texts:
        facts["description"] = ". ".join(texts)
    if column.minimum is not None:
        facts["logicalTypeOptions"] = {"minimum": column.minimum, "maximum": column.maximum}
    if column.values:
        facts["quality"] = [
            {
                "name": "declared values",
                "type": "library",
                "metric": "invalidValues",
                "arguments": {"validValues": list(column.values)},
                "mustBe": 0,
            }
        ]
    return facts


def _certified(release: Published) -> Iterator[dict[str, Any]]:
    """Errors that the certificate measured, each with its bounds."""
    certificate = release.manifest.certificate
    if certificate is None:
        return
    for error, sentence in zip(certificate.errors, accounts.accuracy(release), strict=True):
        yield {
            "name": f"certified {error.what} error, order {error.order}",
            "type": "text",
            "dimension": "accuracy",
            "description": sentence,
            "customProperties": _properties(
                {
                    "columns": list(error.attributes),
                    "estimate": error.estimate,
                    "standardError": error.stderr,
                    "low": error.low,
                    "high": error.high,
                    "confidence": certificate.confidence,
                }
            ),
        }


def _server(release: Published) -> dict[str, Any]:
    path = f"./{release.folder}/*.parquet" if release.folder else f"./{release.files[0].path}"
    return {
        "server": "release",
        "type": "local",
        "description": "Beside the manifest",
        "path": path,
        "format": release.suffix.removeprefix("."),
    }


def _support(owner: Owner) -> dict[str, Any]:
    if is_mail(owner.contact):
        return {"channel": "contact", "tool": "email", "url": f"mailto:{owner.contact}"}
    url = {"url": owner.contact} if re.match(r"https?://", owner.contact) else {}
    return {"channel": "contact", "tool": "other", "description": owner.contact, **url}


def _properties(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"property": name, "value": value} for name, value in values.items()]
