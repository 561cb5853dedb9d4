"""Croissant: JSON-LD of version 1.1 of MLCommons' format, with its vocabulary for responsible AI (RAI 1.0).

Neither has words for differential privacy: its parameters are properties of the activity that made the rows
(PROV), and `rai:personalSensitiveInformation` says what they are for.
"""

from __future__ import annotations

import glob
import re
from typing import Any
from urllib.parse import quote

from factored_mwem.documents import accounts
from factored_mwem.documents.datapackage import address
from factored_mwem.documents.owner import Owner
from factored_mwem.documents.published import ColumnSection, Published
from factored_mwem.documents.registry import published_on

TYPES = {
    "string": "sc:Text",
    "boolean": "sc:Boolean",
    "integer": "sc:Integer",
    "number": "sc:Float",
    "date": "sc:Date",
    "datetime": "sc:DateTime",
}
_OF_CROISSANT = (
    "annotation", "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "excludes",
    "extract", "field", "fileObject", "fileProperty", "fileSet", "format", "includes", "isArray",
    "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "readLines", "recordSet", "references",
    "regex", "repeated", "replace", "samplingRate", "sdVersion", "separator", "source", "subField",
    "transform", "unArchive", "value",
)  # fmt: skip
READ_AS = {"application/vnd.apache.parquet": "application/x-parquet"}
"""Names of formats by which the format's own reader knows them."""
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    "conformsTo": "dct:conformsTo",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _OF_CROISSANT},
}
"""The meanings of short names; schema.org under https, as in the format's own reader."""


def dataset(release: Published, owner: Owner) -> dict[str, Any]:
    """The description: of the dataset, its files, its columns, and how it was made."""
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": owner.name,
        "description": f"{owner.description}\n\n{accounts.title(release)}",
        "url": owner.url,
        "license": owner.license,
        "creator": [{"@type": "sc:Organization", "name": curator} for curator in owner.curators],
        "datePublished": published_on(release, owner).isoformat(),
        "dateCreated": release.manifest.created.isoformat(),
        **({"version": owner.version} if owner.version else {}),
        "isLiveDataset": False,
        **_responsible(release, owner),
        "prov:wasGeneratedBy": _activity(release),
        "distribution": _distribution(release, owner),
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "name": "rows",
                "description": f"{release.output.rows:,} synthetic rows",
                "field": [_field(column, release) for column in release.columns],
            }
        ],
    }


def _responsible(release: Published, owner: Owner) -> dict[str, Any]:
    protected = f"{accounts.title(release)} Protected: {release.manifest.asked_policy.protected()}."
    return {
        "rai:dataCollection": owner.data_collection,
        "rai:dataUseCases": owner.intended_use,
        "rai:dataPreprocessingProtocol": f"{owner.preparation}\n\n{accounts.tuning(release)}",
        "rai:dataManipulationProtocol": accounts.post_processing(release),
        "rai:dataLimitations": [*accounts.limitations(release), *accounts.accuracy(release)],
        "rai:dataReleaseMaintenancePlan": owner.releases_details,
        "rai:personalSensitiveInformation": [
            *owner.sensitive,
            f"{protected} {accounts.unprotected(release)}",
        ],
    }


def _activity(release: Published) -> dict[str, Any]:
    """The release as an activity of PROV; its parameters are values of schema.org."""
    manifest = release.manifest
    values = {re.sub("([A-Z])", r" \1", name).lower(): v for name, v in accounts.promise(release).items()}
    values |= {
        "adjacency": accounts.adjacency(release),
        "composition": accounts.composition(release),
        "mechanisms": accounts.mechanisms(release),
        "engine": release.manifest.asked_policy.engine,
        "rounds": manifest.rounds,
    }
    return {
        "@type": "prov:Activity",
        "prov:label": f"Release with {manifest.guarantee.statement}",
        "prov:endedAtTime": {"@type": "sc:Date", "@value": manifest.created.isoformat()},
        "prov:wasAssociatedWith": {
            "@type": "prov:SoftwareAgent",
            "prov:label": f"{manifest.tool} {manifest.tool_version}",
        },
        "additionalProperty": [
            {"@type": "sc:PropertyValue", "name": name, "value": value} for name, value in values.items()
        ],
    }


def _distribution(release: Published, owner: Owner) -> list[dict[str, Any]]:
    """The files with their sha256; for a folder of parts also the set of all of them. The set is not stated
    to be contained in anything, because readers would take that for an archive.
    """
    kind = READ_AS.get(release.media_type, release.media_type)
    files: list[dict[str, Any]] = [
        {
            "@type": "cr:FileObject",
            "@id": quote(file.path),
            "name": file.path.rpartition("/")[2],
            "description": f"{file.rows:,} rows",
            "contentUrl": address(file, owner) if owner.data_url else quote(file.path),
            "encodingFormat": kind,
            "sha256": file.sha256,
        }
        for file in release.files
    ]
    if release.folder is None:
        return files
    return [
        *files,
        {
            "@type": "cr:FileSet",
            "@id": "parts",
            "name": "parts",
            "description": "All files of the rows",
            "encodingFormat": kind,
            "includes": f"{glob.escape(release.folder)}/*.parquet",
        },
    ]


def _field(column: ColumnSection, release: Published) -> dict[str, Any]:
    where = {"fileSet": {"@id": "parts"}}
    if release.folder is None:
        where = {"fileObject": {"@id": quote(release.files[0].path)}}
    texts = [text for text in (column.title, column.description, accounts.in_words(column)) if text]
    return {
        "@type": "cr:Field",
        "@id": f"rows/{quote(column.name, safe='')}",
        "name": column.name,
        "description": ". ".join(texts),
        "dataType": TYPES[column.type],
        "source": {**where, "extract": {"column": column.name}},
    }
