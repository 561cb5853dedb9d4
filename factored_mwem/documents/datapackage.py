"""Data package: the Frictionless descriptor of a release.

It states the sha256 and the rows of each file, but not its bytes, which the manifest does not hold.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from factored_mwem.documents import accounts
from factored_mwem.documents.owner import Owner
from factored_mwem.documents.published import ColumnSection, Published, PublishedFile
from factored_mwem.tables.outputs import descriptors
from factored_mwem.tables.outputs.descriptors import PROFILE, plain_name


def package(release: Published, owner: Owner) -> dict[str, Any]:
    """The descriptor; the schema of every resource is that of the released rows."""
    schema = table_schema(release)
    return {
        "$schema": f"{PROFILE}datapackage.json",
        "name": plain_name(release.folder or release.files[0].path),
        "title": owner.name,
        "description": f"{owner.description}\n\n{accounts.title(release)}",
        "homepage": owner.url,
        **({"version": owner.version} if owner.version else {}),
        "licenses": [licence(owner)],
        "contributors": [
            {"title": curator, "roles": ["publisher"]} | contact(owner, first=i == 0)
            for i, curator in enumerate(owner.curators)
        ],
        "resources": [_resource(release, file, owner, schema) for file in release.files],
        "differentialPrivacy": {
            "released": release.manifest.created.isoformat(),
            "statement": release.manifest.guarantee.statement,
            **accounts.promise(release),
            "unprotected": accounts.unprotected(release),
        },
    }


def table_schema(release: Published) -> dict[str, Any]:
    """The Table Schema of the released rows."""
    return descriptors.table_schema([_field(column, release.suffix) for column in release.columns])


def _field(column: ColumnSection, suffix: str) -> dict[str, Any]:
    field = descriptors.field(column.name, column.type, suffix)
    if column.title:
        field["title"] = column.title
    if column.description:
        field["description"] = column.description
    return field | ({"constraints": column.limits} if column.limits else {})


def _resource(
    release: Published, file: PublishedFile, owner: Owner, schema: dict[str, Any]
) -> dict[str, Any]:
    resource = descriptors.resource(plain_name(file.path), address(file, owner), release.suffix)
    return resource | {"hash": f"sha256:{file.sha256}", "rows": file.rows, "schema": schema}


def address(file: PublishedFile, owner: Owner) -> str:
    """Where a file is: under the owner's address, or as it lies beside the manifest."""
    return f"{owner.data_url.rstrip('/')}/{quote(file.path)}" if owner.data_url else file.path


def licence(owner: Owner) -> dict[str, str]:
    """The licence by its address, or by its identifier, which has no blanks."""
    if re.match(r"https?://", owner.license):
        return {"path": owner.license}
    if re.fullmatch(r"[-a-zA-Z0-9._+]+", owner.license):
        return {"name": owner.license}
    return {"name": "other", "title": owner.license}


def contact(owner: Owner, *, first: bool) -> dict[str, str]:
    """The contact for questions, at the curator named first."""
    if not first:
        return {}
    if is_mail(owner.contact):
        return {"email": owner.contact}
    return {"path": owner.contact} if re.match(r"https?://", owner.contact) else {}


def is_mail(text: str) -> bool:
    return bool(re.fullmatch(r"[^@\s<>]+@[^@\s<>]+\.[^@\s<>]+", text))
