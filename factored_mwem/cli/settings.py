"""Settings: what a release may be given, by flags above the environment above a TOML file, in one model.

To add an option, give `ReleaseSettings` a field with a `Flag` (or, for a field of Policy, add a line to
`POLICY_FLAGS`) and use it: flag, variable, key of configuration files and their checks follow from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    StrictBool,
    StrictInt,
    ValidationError,
    create_model,
)

from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import InputError
from factored_mwem.files import read_text
from factored_mwem.ledger.address import FORM, Address
from factored_mwem.policy import Policy
from factored_mwem.workload.queries import KINDS
from factored_mwem.workload.queries.base import QueryRequest
from factored_mwem.workload.workload import Workload, parse_toml

CLI_MAX_ROWS = 10**12
"""More rows than this are a slip of the keyboard: they would fill any disk."""


class Group(Enum):
    """Options that commands take together, in the order of `--help`; the panel they are listed in."""

    ASKED = 1, "What must come out right"
    PRIVACY = 2, "Privacy"
    CERTIFICATE = 3, "Certificate"
    DOMAIN = 4, "Domain"
    LEARNING = 5, "Domain"
    READING = 6, "Reading the table"
    EFFORT = 7, "Resources"
    OUTPUT = 8, "Output"
    SAMPLING = 9, "Output"
    BOOKS = 10, "Books"
    CONFIG = 11, "Other"

    @property
    def panel(self) -> str:
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Flag:
    """How a setting is given: by `--name`, by FMWEM_NAME, and in a configuration file."""

    group: Group
    kind: Any
    help: str
    short: str | None = None
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    example: str | None = None
    words: str | None = None

    @property
    def wanted(self) -> str:
        """What a configuration file must hold."""
        if self.words:
            return self.words
        if self.example:
            return f"a list such as [{self.example}]"
        return WORDS[self.kind] + (f", {self.least} or more" if self.least is not None else "")


WORDS = {int: "a whole number", bool: "true or false", Path: "a path in quotes", str: "a name in quotes"}
Text = InstanceOf[str]  # of any characters: what names columns and datasets comes from anywhere
Whole = Annotated[StrictInt, Field(ge=0)]
OptionalPath = Annotated[Path | None, BeforeValidator(lambda given: None if given == "" else given)]
OptionalPlace = Annotated[
    str | None,
    BeforeValidator(lambda given: None if given == "" else str(given) if isinstance(given, Path) else given),
]
"""A path or a URI, which would not be the same as a Path."""


def _address(given: Any) -> Any:
    return Address(given) if isinstance(given, str | Path) else given


class ReleaseSettings(BaseModel):
    """All settings of a release. `of` gives it a field for each query kind, too."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: Policy = Policy()
    marginals: Annotated[StrictInt | None, Flag(Group.ASKED, int, "Keep all K-way marginals.")] = None
    workload: Annotated[OptionalPath, Flag(Group.ASKED, Path, "Workload file (TOML or JSON).")] = None
    domain: Annotated[
        OptionalPath, Flag(Group.DOMAIN, Path, "Domain file; default: NAME.domain.json beside the table.")
    ] = None
    columns: Annotated[
        list[Text] | None,
        Flag(
            Group.READING,
            str,
            "Columns to release, separated by commas.  [default: all]",
            example='"age", "sex"',
        ),
    ] = None
    push_down: Annotated[
        StrictBool,
        Flag(Group.EFFORT, bool, "Tables in a database: its rows stay there, which encodes and counts them."),
    ] = False
    rows: Annotated[
        Whole | None,
        Flag(Group.OUTPUT, int, "Synthetic rows.  [default: the noisy count]", least=0, most=CLI_MAX_ROWS),
    ] = None
    output: Annotated[
        OptionalPlace,
        Flag(
            Group.OUTPUT,
            str,
            "Output file; a folder of Parquet parts where it ends in /; either may be a URI such as "
            "s3://bucket/key.  [default: NAME.synthetic.parquet]",
            "-o",
            words="a path or a URI in quotes",
        ),
    ] = None
    model: Annotated[
        OptionalPlace,
        Flag(
            Group.OUTPUT,
            str,
            "Where the model is saved, for answers and more rows, which are free.  [default: as the output, "
            "ending in .fmwem]",
            words="a path or a URI in quotes",
        ),
    ] = None
    no_model: Annotated[StrictBool, Flag(Group.OUTPUT, bool, "Save no model.")] = False
    report: Annotated[
        StrictBool,
        Flag(Group.OUTPUT, bool, "Also write NAME.report.html, a page to look at, beside the manifest."),
    ] = False
    workers: Annotated[
        StrictInt | None,
        Flag(
            Group.SAMPLING,
            int,
            "How many draw and write rows at a time; the rows are the same.  [default: all processors, up to "
            "8]",
            least=1,
        ),
    ] = None
    spill: Annotated[
        OptionalPath,
        Flag(
            Group.OUTPUT,
            Path,
            "Folder for rows, as codes, that a quarter of --max-memory does not hold; they leave no file "
            "behind.  [default: the system's for temporary files]",
        ),
    ] = None
    overwrite: Annotated[StrictBool, Flag(Group.SAMPLING, bool, "Replace existing files.")] = False
    sample_seed: Annotated[
        Whole | None, Flag(Group.SAMPLING, int, "Seed of the sampling only: noise has no seed.", least=0)
    ] = None
    ledger: Annotated[
        InstanceOf[Address] | None,
        BeforeValidator(_address),
        Flag(Group.BOOKS, str, f"Ledger that the cost is entered in: a file, or {FORM}."),
    ] = None
    dataset: Annotated[Text | None, Flag(Group.BOOKS, str, "The table's name in the ledger.")] = None
    run_id: Annotated[
        Text | None,
        Flag(Group.BOOKS, str, "Name of this run: the same again goes on where it died, and pays once."),
    ] = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ReleaseSettings:
        """The settings that these values are; InputError in one line where one does not fit."""
        choices = {key: value for key, value in given.items() if key in Policy.model_fields}
        own = {key: value for key, value in given.items() if key not in choices}
        if isinstance(own.get("columns"), str):
            own["columns"] = [name.strip() for name in own["columns"].split(",") if name.strip()]
        if own.get("columns") == []:
            raise InputError("--columns names no column; leave it out to release all of them")
        if re.fullmatch("-?[0-9]{1,18}", str(choices.get("rounds", ""))):
            choices["rounds"] = int(choices["rounds"])
        return _checked({**own, "policy": Policy.of(**choices)})

    @property
    def asked(self) -> Workload:
        """What query kinds are asked for."""
        requests = []
        for kind in KINDS.values():
            given = getattr(self, kind.option)
            texts = given if kind.repeats else [given]
            requests += [kind.parse(text) for text in texts or () if text is not None]
        return Workload(asked=tuple(requests))


def _field_of(kind: type[QueryRequest]) -> Any:
    """The setting of a query kind, as pydantic defines a field."""
    if kind.repeats:
        flag = Flag(Group.ASKED, list[str], kind.help, example=f'"{kind.example}"')
        return Annotated[list[Text] | None, flag], None
    return Annotated[StrictInt | None, Flag(Group.ASKED, int, kind.help)], None


_Settings: type[ReleaseSettings] = create_model(
    "ReleaseSettings", __base__=ReleaseSettings, **{kind.option: _field_of(kind) for kind in KINDS.values()}
)

POLICY_FLAGS = {
    "epsilon": Flag(Group.PRIVACY, float, "Privacy loss epsilon.  [default: 1]"),
    "delta": Flag(Group.PRIVACY, float, "Privacy loss delta; 0 is pure epsilon-DP.  [default: 1e-9]"),
    "neighbours": Flag(
        Group.PRIVACY, str, "add-remove or replace.  [default: add-remove]", choices=tuple(Neighbours)
    ),
    "contributions": Flag(Group.PRIVACY, int, "Most rows of one person.  [default: 1]"),
    "privacy_id": Flag(
        Group.PRIVACY,
        str,
        "Column that names the person: at most --contributions rows of each are kept, the column is dropped.",
    ),
    "certificate": Flag(
        Group.CERTIFICATE,
        float,
        "Share of the budget, such as 0.03, that measures the error of the released rows, with bounds.  "
        "[default: none]",
    ),
    "accept": Flag(
        Group.CERTIFICATE,
        list[str],
        "Release only if the certificate says so: 'mean3 <= 0.15', 'worst <= 0.8' or 'column NAME <= 0.1'.",
        example='"mean3 <= 0.15"',
    ),
    "tries": Flag(
        Group.CERTIFICATE,
        int,
        "Releases that may be tried until one is accepted; each gets an equal part of the budget.  "
        "[default: 1]",
    ),
    "lines": Flag(Group.READING, bool, "Text files: every line is a record, whatever its quotes."),
    "multiline": Flag(
        Group.READING, bool, "Text files: cells in quotes may hold line breaks; the writer closes all quotes."
    ),
    "delimiter": Flag(
        Group.READING, str, "Text files: the sign between columns, or tab.  [default: as the header shows]"
    ),
    "encoding": Flag(Group.READING, str, "Text files: such as latin-1 or utf-16.  [default: utf-8]"),
    "decimal": Flag(
        Group.READING, str, "Text files: the sign before decimals.  [default: .]", choices=(".", ",")
    ),
    "date_format": Flag(
        Group.READING, str, "Text files: dates as %d/%m/%Y or so, beside ISO 8601, which is always read."
    ),
    "time_zone": Flag(
        Group.READING, str, "Text files: zone of timestamps without one, and of those that come out."
    ),
    "engine": Flag(
        Group.EFFORT,
        str,
        "tree, or mwem: the paper's algorithm on dense components.  [default: tree]",
        choices=get_args(Policy.model_fields["engine"].annotation),
    ),
    "rounds": Flag(Group.EFFORT, str, "Rounds to run, or 'adaptive'."),
    "max_cells": Flag(Group.EFFORT, int, "Most cells of all clique trees together.  [default: 2^19]"),
    "max_memory": Flag(
        Group.EFFORT, str, "Memory for rows and tables, such as 2GB.  [default: half of the machine's]"
    ),
    "time_budget": Flag(Group.EFFORT, float, "Seconds to plan for; the plan is made before a row is read."),
    "drop_unique": Flag(
        Group.LEARNING, bool, "Leave out columns of text that turn out to be identifiers or free text."
    ),
    "domain_budget": Flag(
        Group.LEARNING, float, "Most of the budget to learn a domain nobody declared.  [default: 0.5]"
    ),
}
"""The fields of Policy that have a flag, and `records` as two; the rest is for files and Python."""
RECORDS = ("lines", "multiline")
"""Flags that say what a record of a text file is; in a file, and in Policy, they are values of `records`."""
KEEPING = ("model", "no_model")
"""Settings that say whether the model is saved: whoever gives one of them says nothing by the other."""
_OWN = {
    name: flag
    for name, field in _Settings.model_fields.items()
    for flag in field.metadata
    if isinstance(flag, Flag)
}
FLAGS = _OWN | POLICY_FLAGS | {"config": Flag(Group.CONFIG, Path, "TOML file with any of these settings.")}
"""Every flag of a release by the name of its setting."""
OTHER_VARIABLES = ("FMWEM_DATASETS", "FMWEM_NO_PROGRESS")
"""Variables without a setting: where the repository's scripts find tables, and the terminal's."""


def _checked(own: Mapping[str, Any], where: str = "") -> ReleaseSettings:
    try:
        return _Settings(**own)
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
    raise InputError(f"{where}{key} = {own[key]!r} must be {FLAGS[key].wanted}")


def read_config(path: Path) -> dict[str, Any]:
    """The keys of a TOML file, with dashes or underscores. InputError for an unknown one.

    What is for Policy is checked with the flags.
    """
    try:
        data = parse_toml(read_text(path, "configuration"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    given = {key.replace("-", "_"): value for key, value in data.items()}
    known = {*_OWN, *Policy.model_fields}
    for key in given:
        if key not in known:
            raise InputError(f"{path}: unknown key {key!r}; known are {', '.join(sorted(known))}")
    _checked({key: value for key, value in given.items() if key in _OWN}, f"{path}: ")
    return given


def check_environment(environment: Mapping[str, str] = os.environ) -> None:
    """InputError for an FMWEM_ variable that no flag has."""
    known = {*(f"FMWEM_{flag.upper()}" for flag in FLAGS), *OTHER_VARIABLES}
    for name in ("FMWEM_LEDGER", "FMWEM_DATASET", "FMWEM_RUN_ID"):
        if environment.get(name) == "":
            raise InputError(
                f"{name} is empty: the release would go past the books, or be paid for again; set it or "
                "unset it"
            )
    for name in environment:
        if name.startswith("FMWEM_") and name not in known:
            raise InputError(f"unknown environment variable {name}; known are {', '.join(sorted(known))}")


def layered(*layers: Mapping[str, Any]) -> ReleaseSettings:
    """The settings in force: what the first of the layers gives that gives it at all."""
    merged: dict[str, Any] = {}
    for layer in layers:
        given = {key: value for key, value in layer.items() if key not in RECORDS}
        said = [name for name in RECORDS if layer.get(name)]
        if any(name in layer for name in RECORDS) and "records" not in merged:
            if len(said) > 1:
                raise InputError(
                    "--lines and --multiline say different things of the same file; give one of them"
                )
            given["records"] = said[0] if said else "checked"
        if all(layer.get(name) for name in KEEPING):
            raise InputError(
                "--model and --no-model say different things of the same model; give one of them"
            )
        if any(name in merged for name in KEEPING):
            given = {key: value for key, value in given.items() if key not in KEEPING}
        merged = given | merged
    return ReleaseSettings.of(merged)
