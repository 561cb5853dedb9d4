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


TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}


def _closed(texts: str = "", optional: str = "", **properties: Any) -> dict[str, Any]:
    """An object with these properties alone: `texts` are texts; all must be there but the `optional` ones."""
    properties |= dict.fromkeys(texts.split(), TEXT)
    required = sorted(properties.keys() - set(optional.split()))
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def _one_of(*words: str) -> dict[str, Any]:
    return {"enum": list(words)}


REGISTRY = _closed(
    "url_slug",
    status=_one_of("Draft"),
    tier={"enum": [3]},
    deployment=_closed(
        basic=_closed(
            "name description intended_use data_product_region",
            "data_product_sector",
            data_curators=TEXTS,
            data_product_type=_one_of("Synthetic data"),
            publication_date={"type": "string", "format": "date"},
            data_product_sector=_one_of(
                "Technology", "Healthcare", "Education", "Government", "Energy", "Finance"
            ),
        ),
        dp_variant=_closed(
            "data_domain unprotected_quantities",
            variant_name=_one_of("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
        ),
        privacy_loss=_closed(
            "privacy_unit privacy_unit_details privacy_parameters_details",
            privacy_parameters=_closed(
                optional="delta rho", **{name: {"type": "number"} for name in ("epsilon", "delta", "rho")}
            ),
        ),
        deployment_model=_closed(
            "model_name_details actors release_type_details data_source_type_details access_type_details",
            "model_name_details release_type_details data_source_type_details access_type_details",
            model_name=_one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
            release_type=_one_of("One release", "Many releases"),
            data_source_type=_one_of("Static", "Dynamic"),
            access_type=_one_of("Interactive", "Non-interactive"),
        ),
        accounting=_closed("post_processing composition"),
        implementation=_closed("preprocessing_and_hyperparameter_tuning mechanisms justification"),
        administrative=_closed("sources notes", "sources notes", registry_authors=TEXTS),
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
    wrong = _against_profiles(data)
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


def _against_profiles(data: Any) -> list[str]:
    wrong: list[str] = []
    for profile, parts in (
        ("datapackage.json", [data]),
        ("dataresource.json", data["resources"]),
        ("tableschema.json", [resource["schema"] for resource in data["resources"]]),
    ):
        original = _original(profile)
        for part in parts if original is not None else ():
            wrong += _complaints(jsonschema.Draft7Validator, original, part)
    return wrong


def linked_package(folder: Path, name: str) -> list[str]:
    """Complaints of Frictionless about the rows of all tables and their keys, of JSON Schema about the
    descriptor.
    """
    frictionless = pytest.importorskip("frictionless", reason="the extra `test` brings it")
    data = json.loads((folder / name).read_text(encoding="utf-8"))
    wrong = _against_profiles(data)
    here = Path.cwd()
    os.chdir(folder)  # it takes no absolute paths
    try:
        report = frictionless.validate(name, checklist=frictionless.Checklist(skip_errors=["blank-row"]))
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
