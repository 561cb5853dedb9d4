"""Data package: the Frictionless descriptor, version 2 of the standard; readers of version 1 take it, too.

It states the sha256 and the rows of each file, but not its bytes, which the manifest does not hold.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from factored_mwem.documents import accounts
from factored_mwem.documents.owner import Owner
from factored_mwem.documents.published import ColumnSection, Published, PublishedFile

PROFILE = "https://datapackage.org/profiles/2.0/"


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
    return {
        "$schema": f"{PROFILE}tableschema.json",
        "fields": [_field(column, release.suffix) for column in release.columns],
        "missingValues": [""],
    }


def _field(column: ColumnSection, suffix: str) -> dict[str, Any]:
    field: dict[str, Any] = {"name": column.name, "type": column.type}
    if column.type == "datetime" and suffix == ".csv":
        field["format"] = "any"  # a space stands between day and time
    if column.title:
        field["title"] = column.title
    if column.description:
        field["description"] = column.description
    return field | ({"constraints": column.limits} if column.limits else {})


def _resource(
    release: Published, file: PublishedFile, owner: Owner, schema: dict[str, Any]
) -> dict[str, Any]:
    resource: dict[str, Any] = {
        "$schema": f"{PROFILE}dataresource.json",
        "name": plain_name(file.path),
        "type": "table",
        "path": address(file, owner),
        "format": release.suffix.removeprefix("."),
        "mediatype": release.media_type,
        "hash": f"sha256:{file.sha256}",
        "rows": file.rows,
    }
    if release.suffix == ".csv":
        resource["encoding"] = "utf-8"
    return resource | {"schema": schema}


def address(file: PublishedFile, owner: Owner) -> str:
    """Where a file is: under the owner's address, or as it lies beside the manifest."""
    return f"{owner.data_url.rstrip('/')}/{quote(file.path)}" if owner.data_url else file.path


def plain_name(text: str) -> str:
    """A name of small letters, digits, `.`, `_`, `-` and `/`, as packages and resources have."""
    return re.sub(r"[^a-z0-9._/]+", "-", text.lower()).strip("-") or "release"


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
