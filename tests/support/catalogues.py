"""Judges of what `fmwem card` writes: the published schema or the reader of each form.

The registry's form comes in no package. Its required fields and lists of words are restated here, as facts.
With CATALOGUE_SCHEMAS naming a folder that has `deployments-schema.yaml` of opendp/deployments-registry-data,
and `datapackage.json`, `dataresource.json` and `tableschema.json` of frictionlessdata/datapackage (profiles
2.0), the originals judge, too.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed (the extra `test`)")

OWNER: dict[str, Any] = {
    "name": "People, synthetic",
    "description": "People of a town: age, pay, where they live.",
    "curators": ["Office of Statistics", "Town Board"],
    "intended_use": "Teaching.\nNot for decisions about people.",
    "region": "Nowhere",
    "contact": "data@example.org",
    "license": "CC-BY-4.0",
    "url": "https://example.org/people",
    "data_collection": "By letter, of all who live there.",
    "preparation": "Nothing was looked at.",
    "justification": "A small epsilon: the table names illnesses.",
    "actors": "The office sees the table; everybody the release.",
    "releases": "one",
    "releases_details": "None is planned.",
    "source": "static",
    "record_authors": ["A. Steward"],
}
ALL_ANSWERS = OWNER | {
    "sector": "Government",
    "sensitive": ["health"],
    "data_url": "https://example.org/files/",
    "published": "2026-12-24",
    "version": "2.0.0",
    "sources": "https://example.org/paper",
}


def toml(answers: dict[str, Any]) -> str:
    """Strings of JSON are strings of TOML."""
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in answers.items())


def _closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": properties,
    }


TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}
NUMBER = {"type": "number"}
REGISTRY = _closed(
    ["url_slug", "status", "tier", "deployment"],
    url_slug=TEXT,
    status={"enum": ["Draft"]},
    tier={"enum": [3]},
    deployment=_closed(
        [
            "basic",
            "dp_variant",
            "privacy_loss",
            "deployment_model",
            "accounting",
            "implementation",
            "administrative",
        ],
        basic=_closed(
            [
                "name",
                "data_curators",
                "description",
                "intended_use",
                "data_product_type",
                "data_product_region",
                "publication_date",
            ],
            name=TEXT,
            data_curators=TEXTS,
            description=TEXT,
            intended_use=TEXT,
            data_product_type={"enum": ["Synthetic data"]},
            data_product_region=TEXT,
            publication_date={"type": "string", "format": "date"},
            data_product_sector={
                "enum": ["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]
            },
        ),
        dp_variant=_closed(
            ["variant_name", "data_domain", "unprotected_quantities"],
            variant_name={
                "enum": ["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"]
            },
            data_domain=TEXT,
            unprotected_quantities=TEXT,
        ),
        privacy_loss=_closed(
            ["privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"],
            privacy_unit=TEXT,
            privacy_unit_details=TEXT,
            privacy_parameters=_closed(["epsilon"], epsilon=NUMBER, delta=NUMBER, rho=NUMBER),
            privacy_parameters_details=TEXT,
        ),
        deployment_model=_closed(
            ["model_name", "actors", "release_type", "data_source_type", "access_type"],
            model_name={"enum": ["Local", "Central", "Shuffle", "Federated", "Varies"]},
            model_name_details=TEXT,
            actors=TEXT,
            release_type={"enum": ["One release", "Many releases"]},
            release_type_details=TEXT,
            data_source_type={"enum": ["Static", "Dynamic"]},
            data_source_type_details=TEXT,
            access_type={"enum": ["Interactive", "Non-interactive"]},
            access_type_details=TEXT,
        ),
        accounting=_closed(["post_processing", "composition"], post_processing=TEXT, composition=TEXT),
        implementation=_closed(
            ["preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"],
            preprocessing_and_hyperparameter_tuning=TEXT,
            mechanisms=TEXT,
            justification=TEXT,
        ),
        administrative=_closed(["registry_authors"], sources=TEXT, notes=TEXT, registry_authors=TEXTS),
    ),
)
"""What the registry asks of a record of tier 3, all fields of which we fill."""


def registry(folder: Path, name: str) -> list[str]:
    """Complaints about a record: those of its form, and those of the registry's own checks."""
    text = (folder / name).read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    wrong = _complaints(jsonschema.Draft7Validator, REGISTRY, data)
    original = _original("deployments-schema.yaml")
    if original is not None:
        wrong += _complaints(jsonschema.Draft7Validator, original, data)
    if not re.fullmatch(r"[a-z0-9_]+\.yaml", name):
        wrong.append("its name")
    styles = {getattr(token, "style", None) for token in yaml.scan(text)}
    wrong += [f"style {style}" for style in styles - {None, "|", '"', "'"}]
    if re.search(r"\\\\[^()]", " ".join(_texts(data))):
        wrong.append("two backslashes")
    basic = data["deployment"]["basic"]
    words = (basic["name"], "-".join(basic["data_curators"]), basic["publication_date"][:4])
    slug = "_".join(re.sub(r"\W+", "_", word.lower()) for word in words).replace("_", "-")
    return wrong + ([] if re.match(r"url_slug: (.*)", text)[1] == slug else ["its slug"])


def contract(folder: Path, name: str) -> list[str]:
    """Complaints of ODCS 3.1's own JSON Schema and classes, as their package ships both."""
    odcs = pytest.importorskip("open_data_contract_standard", reason="the extra `test` brings it")
    data = yaml.safe_load((folder / name).read_text(encoding="utf-8"))
    schema = json.loads(files(odcs).joinpath("schema.json").read_text(encoding="utf-8"))
    assert "v3.1.0" in schema["properties"]["apiVersion"]["enum"]
    wrong = _complaints(jsonschema.Draft201909Validator, schema, data)
    from open_data_contract_standard.model import OpenDataContractStandard

    if not wrong:
        OpenDataContractStandard.from_file(str(folder / name))
    return wrong


def package(folder: Path, name: str, *, read: bool = True) -> list[str]:
    """Complaints of Frictionless's own reader: the descriptor and, with `read`, the files' hashes, and every
    row of a CSV. Of Parquet only hashes and columns: its reader takes nulls for numbers that break bounds.
    """
    frictionless = pytest.importorskip("frictionless", reason="the extra `test` brings it")
    data = json.loads((folder / name).read_text(encoding="utf-8"))
    wrong: list[str] = []
    for profile, parts in (
        ("datapackage.json", [data]),
        ("dataresource.json", data["resources"]),
        ("tableschema.json", [resource["schema"] for resource in data["resources"]]),
    ):
        original = _original(profile)
        for part in parts if original is not None else ():
            wrong += _complaints(jsonschema.Draft7Validator, original, part)
    here = Path.cwd()
    os.chdir(folder)  # it takes no absolute paths
    try:
        if not read or data["resources"][0]["format"] != "csv":
            frictionless.Package(name)
            return wrong + [why for each in data["resources"] if read for why in _parquet(each)]
        # a row may be null throughout
        report = frictionless.validate(name, checklist=frictionless.Checklist(skip_errors=["blank-row"]))
    except frictionless.FrictionlessException as error:
        return [*wrong, str(error), *map(str, error.reasons)]
    finally:
        os.chdir(here)
    return wrong + [str(note) for note in report.flatten(["type", "note"])]


def _parquet(resource: dict[str, Any]) -> list[str]:
    said = [field["name"] for field in resource["schema"]["fields"]]
    wrong = ["its columns"] if pq.read_schema(resource["path"]).names != said else []
    found = hashlib.sha256(Path(resource["path"]).read_bytes()).hexdigest()
    return wrong + (["its hash"] if resource["hash"] != f"sha256:{found}" else [])


def croissant(folder: Path, name: str, *, read: bool = True) -> list[str]:
    """Complaints of Croissant's own reader; with `read` it also reads the rows."""
    mlcroissant = pytest.importorskip("mlcroissant", reason="the extra `test` brings it")
    logging.getLogger("absl").setLevel(logging.ERROR)
    data = json.loads((folder / name).read_text(encoding="utf-8"))
    wrong = [f"no {key}" for key in CROISSANT_REQUIRED if not data.get(key)]
    try:
        found = mlcroissant.Dataset(jsonld=str(folder / name))
        if read:
            next(iter(found.records("rows")))
    except Exception as error:  # noqa: BLE001 - whatever it says
        return [*wrong, str(error)]
    return wrong


CROISSANT_REQUIRED = (
    "@context", "@type", "conformsTo", "name", "description", "license", "url", "creator", "datePublished",
    "distribution",
)  # fmt: skip
"""What the specification requires of every data set, and its reader does not ask for."""


def _complaints(validator: Any, schema: dict[str, Any], data: Any) -> list[str]:
    checked = validator(schema, format_checker=validator.FORMAT_CHECKER)
    return [f"{list(error.path)}: {error.message[:200]}" for error in checked.iter_errors(data)]


def _texts(node: Any) -> list[str]:
    if isinstance(node, dict):
        return [text for value in node.values() for text in _texts(value)]
    if isinstance(node, list):
        return [text for value in node for text in _texts(value)]
    return [node] if isinstance(node, str) else []


def originals() -> Path | None:
    """The folder of the forms as published, where there is one."""
    folder = os.environ.get("CATALOGUE_SCHEMAS")
    return Path(folder) if folder else None


@cache
def _original(name: str) -> dict[str, Any] | None:
    folder = originals()
    if folder is None:
        return None
    return yaml.safe_load((folder / name).read_text(encoding="utf-8"))
