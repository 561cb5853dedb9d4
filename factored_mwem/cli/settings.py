"""Settings: what a release may be given, by flags above the environment above a TOML file, in one model.

To add an option, give `ReleaseSettings` a field and `OWN_FLAGS` a line (for a field of Policy, `POLICY_FLAGS`
alone), and use it: flag, variable, key of configuration files and their checks follow from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

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
from factored_mwem.files.files import read_text
from factored_mwem.ledger.address import FORM, Address
from factored_mwem.request.policy import Policy
from factored_mwem.request.promise import Terms
from factored_mwem.workload.queries import KINDS
from factored_mwem.workload.queries.base import QueryRequest
from factored_mwem.workload.workload import Workload, parse_toml

if TYPE_CHECKING:
    from factored_mwem.ledger.run import Booking

CLI_MAX_ROWS = 10**12
"""More rows than this are surely a typing error: they would fill any disk."""


class Group(Enum):
    """Groups of options in the order of `--help`, each with the panel that lists it."""

    ASKED = 1, "What must come out right"
    PRIVACY = 2, "Privacy"
    PEOPLE = 3, "Privacy"
    CERTIFICATE = 4, "Certificate"
    DOMAIN = 5, "Domain"
    LEARNING = 6, "Domain"
    READING = 7, "Reading the table"
    EFFORT = 8, "Resources"
    OUTPUT = 9, "Output"
    SAMPLING = 10, "Output"
    BOOKS = 11, "Books"
    CONFIG = 12, "Other"

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
    marginals: StrictInt | None = None
    workload: OptionalPath = None
    domain: OptionalPath = None
    columns: list[Text] | None = None
    push_down: StrictBool = False
    rows: Whole | None = None
    output: OptionalPlace = None
    model: OptionalPlace = None
    no_model: StrictBool = False
    report: StrictBool = False
    workers: StrictInt | None = None
    spill: OptionalPath = None
    overwrite: StrictBool = False
    sample_seed: Whole | None = None
    ledger: Annotated[InstanceOf[Address] | None, BeforeValidator(_address)] = None
    dataset: Text | None = None
    run_id: Text | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ReleaseSettings:
        """The settings that these values are; raises InputError in one line if one does not fit."""
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
    def booking(self) -> Booking:
        """Where the cost is entered."""
        from factored_mwem.ledger.run import Booking  # --help needs none of it

        return Booking(self.ledger, self.dataset, self.run_id)

    def terms(self, **more: Any) -> dict[str, Any]:
        """The settings of the promise and of how the table is written, for outputs that are not releases;
        `more` overrides them. Raises InputError if a certificate is asked for: there are no rows to certify.
        """
        policy = self.policy.uncertified
        chosen = {
            name: getattr(policy, name) for name in Terms.model_fields if name in policy.model_fields_set
        }
        return chosen | {name: value for name, value in more.items() if value is not None}

    @property
    def asked(self) -> Workload:
        """The workload that the settings of the query kinds ask for."""
        requests = []
        for kind in KINDS.values():
            value = getattr(self, kind.option)
            texts = value if kind.repeats else [value]
            requests += [kind.parse(text) for text in texts or () if text is not None]
        return Workload(asked=tuple(requests))


def _field_of(kind: type[QueryRequest]) -> Any:
    """The setting of a query kind as a pydantic field."""
    return (list[Text] if kind.repeats else StrictInt) | None, None


_Settings: type[ReleaseSettings] = create_model(
    "ReleaseSettings", __base__=ReleaseSettings, **{kind.option: _field_of(kind) for kind in KINDS.values()}
)

PLACE = "a path or a URI in quotes"
OWN_FLAGS = {
    "marginals": Flag(Group.ASKED, int, "Keep all K-way marginals."),
    "workload": Flag(Group.ASKED, Path, "Workload file (TOML or JSON)."),
    "domain": Flag(Group.DOMAIN, Path, "Domain file; default: NAME.domain.json beside the table."),
    "columns": Flag(
        Group.READING, str, "Columns to release, separated by commas.  [default: all]", example='"age", "sex"'
    ),
    "push_down": Flag(Group.EFFORT, bool, "Leave rows in their database, which encodes and counts them."),
    "rows": Flag(
        Group.OUTPUT, int, "Synthetic rows.  [default: the noisy count]", least=0, most=CLI_MAX_ROWS
    ),
    "output": Flag(
        Group.OUTPUT,
        str,
        "Output file; a folder of Parquet parts if it ends in /; either may be a URI such as "
        "s3://bucket/key.  [default: NAME.synthetic.parquet]",
        "-o",
        words=PLACE,
    ),
    "model": Flag(
        Group.OUTPUT,
        str,
        "Where the model is saved, for answers and more rows, which are free.  [default: as the output, "
        "ending in .fmwem]",
        words=PLACE,
    ),
    "no_model": Flag(Group.OUTPUT, bool, "Save no model."),
    "report": Flag(
        Group.OUTPUT, bool, "Also write NAME.report.html, a page to look at, beside the manifest."
    ),
    "workers": Flag(
        Group.SAMPLING,
        int,
        "How many workers draw and write rows; the rows stay the same.  [default: all processors, up to 8]",
        least=1,
    ),
    "spill": Flag(
        Group.OUTPUT,
        Path,
        "Folder for rows, as codes, that do not fit into a quarter of --max-memory; no file is left "
        "behind.  [default: the system's for temporary files]",
    ),
    "overwrite": Flag(Group.SAMPLING, bool, "Replace existing files."),
    "sample_seed": Flag(Group.SAMPLING, int, "Seed of the sampling only: noise has no seed.", least=0),
    "ledger": Flag(Group.BOOKS, str, f"Ledger that the cost is entered in: a file, or {FORM}."),
    "dataset": Flag(Group.BOOKS, str, "The table's name in the ledger."),
    "run_id": Flag(Group.BOOKS, str, "Name of this run: the same name again resumes it, and pays once."),
} | {
    kind.option: Flag(Group.ASKED, list[str], kind.help, example=f'"{kind.example}"')
    if kind.repeats
    else Flag(Group.ASKED, int, kind.help)
    for kind in KINDS.values()
}
"""The flags of the settings that are no field of Policy."""
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
    "people": Flag(
        Group.PEOPLE,
        bool,
        "Each person that --privacy-id names weighs one, however many rows they have, and rows come out "
        "as people, with made-up ids.",
    ),
    "person_columns": Flag(
        Group.PEOPLE,
        str,
        "With --people: columns that are the same in all rows of a person, separated by commas.",
        example='"sex", "birth_date"',
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
        Group.READING, str, "Text files: zone of timestamps that name none, and of released ones."
    ),
    "missing": Flag(Group.READING, str, "Text files: cells that stand for nothing in any column, as NA,?."),
    "header": Flag(
        Group.READING,
        str,
        "Text files: first, if the first line names the columns, whatever it looks like; none, if it is a "
        "record.  [default: first, but a line that looks like a record is refused]",
        choices=("first", "none"),
    ),
    "names": Flag(Group.READING, str, "Text files without a header: names of the columns, as a,b,c."),
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
        Group.LEARNING,
        float,
        "Most of the budget for learning a domain, if none is declared.  [default: 0.5]",
    ),
}
"""The fields of Policy that have a flag, and `records` as two; the rest is for files and Python."""
RECORDS = ("lines", "multiline")
"""Flags that say what a record of a text file is; in a file, and in Policy, they are values of `records`."""
KEEPING = ("model", "no_model")
"""Settings that say whether the model is saved: where one layer gives either, both of the layers below are
overruled.
"""
FLAGS = (
    OWN_FLAGS | POLICY_FLAGS | {"config": Flag(Group.CONFIG, Path, "TOML file with any of these settings.")}
)
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
    """The keys of a TOML file, with dashes or underscores. Raises InputError for an unknown one.

    What is for Policy is checked with the flags.
    """
    try:
        data = parse_toml(read_text(path, "configuration"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    chosen = {key.replace("-", "_"): value for key, value in data.items()}
    known = {*OWN_FLAGS, *Policy.model_fields}
    for key in chosen:
        if key not in known:
            raise InputError(f"{path}: unknown key {key!r}; known are {', '.join(sorted(known))}")
    _checked({key: value for key, value in chosen.items() if key in OWN_FLAGS}, f"{path}: ")
    return chosen


def check_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Raises InputError for an FMWEM_ variable that no flag has."""
    known = {*(f"FMWEM_{flag.upper()}" for flag in FLAGS), *OTHER_VARIABLES}
    for name in ("FMWEM_LEDGER", "FMWEM_DATASET", "FMWEM_RUN_ID"):
        if environment.get(name) == "":
            raise InputError(
                f"{name} is empty: the release would not be entered in the ledger, or would be paid for "
                "twice; set it or unset it"
            )
    for name in environment:
        if name.startswith("FMWEM_") and name not in known:
            raise InputError(f"unknown environment variable {name}; known are {', '.join(sorted(known))}")


def layered(*layers: Mapping[str, Any]) -> ReleaseSettings:
    """The settings in force: each from the first layer that gives it."""
    merged: dict[str, Any] = {}
    for layer in layers:
        chosen = {key: value for key, value in layer.items() if key not in RECORDS}
        records = [name for name in RECORDS if layer.get(name)]
        if any(name in layer for name in RECORDS) and "records" not in merged:
            if len(records) > 1:
                raise InputError(
                    "--lines and --multiline say different things of the same file; give one of them"
                )
            chosen["records"] = records[0] if records else "checked"
        if all(layer.get(name) for name in KEEPING):
            raise InputError(
                "--model and --no-model say different things of the same model; give one of them"
            )
        if any(name in merged for name in KEEPING):
            chosen = {key: value for key, value in chosen.items() if key not in KEEPING}
        merged = chosen | merged
    return ReleaseSettings.of(merged)
