"""Settings: what a release may be given, by flags above the environment above a TOML file, in one model.

To add an option, give `ReleaseSettings` a field, unless Policy has it, and `flags.toml` a line, and use it:
flag, variable, key of configuration files and their checks follow from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

from factored_mwem.errors import InputError
from factored_mwem.files.files import read_text
from factored_mwem.ledger.address import Address
from factored_mwem.request.policy import Policy
from factored_mwem.request.promise import Terms
from factored_mwem.workload.queries import KINDS
from factored_mwem.workload.workload import Workload, parse_toml

if TYPE_CHECKING:
    from factored_mwem.ledger.run import Booking


class Group(Enum):
    """Groups of options in the order of `--help`, each with the panel that lists it."""

    KEPT = 1, "What must come out right"
    PRIVACY = 2, "Privacy"
    PEOPLE = 3, "Privacy"
    CERTIFICATE = 4, "Certificate"
    DOMAIN = 5, "Domain"
    LEARNING = 6, "Domain"
    PUBLIC = 7, "Domain"
    READING = 8, "Reading the table"
    EFFORT = 9, "Resources"
    OUTPUT = 10, "Output"
    SAMPLING = 11, "Output"
    BOOKS = 12, "Books"
    CONFIG = 13, "Other"

    @property
    def panel(self) -> str:
        return self.value[1]


KINDS_OF_FLAGS = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (bool, "true or false"),
    "str": (str, "a name in quotes"),
    "path": (Path, "a path in quotes"),
    "place": (str, "a path or a URI in quotes"),
    "list": (list[str], "a list"),
}
"""The type of each kind, and what a configuration file must hold."""


@dataclass(frozen=True, slots=True)
class Flag:
    """How a setting is given: by `--name`, by FMWEM_NAME, and in a configuration file, which must hold what
    is `wanted`. The fields are those of `flags.toml`.
    """

    group: Group
    kind: Any
    help: str
    wanted: str
    short: str | None = None
    metavar: str | None = None
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    example: Any = None

    @classmethod
    def of(cls, group: Group, facts: Mapping[str, Any]) -> Flag:
        kind, wanted = KINDS_OF_FLAGS[facts["kind"]]
        wanted += f", {facts['least']} or more" if "least" in facts else ""
        return cls(group, **{"wanted": wanted, **facts, "kind": kind})

    @property
    def is_place(self) -> bool:
        """Whether it names a file or a URI."""
        return self.wanted == KINDS_OF_FLAGS["place"][1]


PAIRS = 2
"""The order of the marginals that are kept where nothing is asked for; a table of two columns has them."""
Text = InstanceOf[str]  # any characters: names of columns and datasets come from anywhere
Whole = Annotated[StrictInt, Field(ge=0)]


def _place(value: Any) -> Any:
    """A path or a URI, which would not be the same as a Path; an empty text names none."""
    return str(value) or None if isinstance(value, str | Path) else value


def _address(value: Any) -> Any:
    return Address(value) if isinstance(value, str | Path) else value


OptionalPlace = Annotated[str | None, BeforeValidator(_place)]
OptionalPath = Annotated[Path | None, BeforeValidator(_place)]


class ReleaseSettings(BaseModel):
    """All settings of a release. `of` gives it a field for each query kind, too."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: Policy = Policy()
    marginals: StrictInt | None = None
    workload: OptionalPath = None
    domain: OptionalPath = None
    columns: list[Text] | None = None
    public_columns: list[Text] | None = None
    public: OptionalPlace = None
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
    def of(cls, values: Mapping[str, Any]) -> ReleaseSettings:
        """The settings that these values are; raises InputError in one line if one does not fit."""
        choices = {key: value for key, value in values.items() if key in Policy.model_fields}
        own = {key: value for key, value in values.items() if key not in choices}
        for key in ("columns", "public_columns"):
            if isinstance(own.get(key), str):
                own[key] = [name.strip() for name in own[key].split(",") if name.strip()]
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
    def reading(self) -> dict[str, Any]:
        """Which columns are meant, and how a text file is written, for what reads a table by itself."""
        policy = self.policy
        return {"columns": self.columns, "records": policy.records, "dialect": policy.dialect}

    @property
    def queries(self) -> Workload:
        """What the settings of the query kinds ask for."""
        requests = []
        for kind in KINDS.values():
            value = getattr(self, kind.option)
            texts = value if kind.repeats else [value]
            requests += [kind.parse(text) for text in texts or () if text is not None]
        return Workload(asked=tuple(requests))

    def workload_of(self, order: int | None) -> Workload:
        """All marginals of `order`, if there is one, and whatever else is asked for; else all pairs."""
        workload = Workload.load(self.workload) if self.workload else Workload()
        workload += (Workload.marginals(order) if order is not None else Workload()) + self.queries
        return workload if workload != Workload() else Workload.marginals(PAIRS)

    def keeps(self, order: int = PAIRS) -> str:
        """What to say of the marginals of `order` that are kept where nobody said what must come out right;
        nothing where somebody did.
        """
        if self.marginals is not None or self.workload or self.queries != Workload():
            return ""
        if order == 1:
            return "keeping how often each value comes (--marginals 1), since there is one column"
        return (
            f"keeping how every two columns go together (--marginals {PAIRS}), since nothing was asked for; "
            "--marginals 3 keeps every three, with more noise"
        )


_QUERIES: dict[str, Any] = {
    kind.option: ((list[Text] if kind.repeats else StrictInt) | None, None) for kind in KINDS.values()
}
_Settings: type[ReleaseSettings] = create_model("ReleaseSettings", __base__=ReleaseSettings, **_QUERIES)
OWN = frozenset(_Settings.model_fields) - {"policy"}
"""The settings that are no field of Policy."""
EXAMPLES = {"label": ["{last}"], "cube": ["{first}"], "ranges": ["{first}:1000"], "parities": 2}
"""Examples of query kinds, for the file of `fmwem init`."""


def _flags() -> dict[str, Flag]:
    """The flags of `flags.toml`, and those of the query kinds."""
    listed = parse_toml(files(__package__).joinpath("flags.toml").read_text(encoding="utf-8"))
    for kind in KINDS.values():
        facts: dict[str, Any] = {"kind": "int", "help": kind.help, "example": EXAMPLES.get(kind.option)}
        if kind.repeats:
            facts |= {"kind": "list", "wanted": f'a list such as ["{kind.example}"]'}
        listed[Group.KEPT.name][kind.option] = facts
    return {name: Flag.of(group, facts) for group in Group for name, facts in listed[group.name].items()}


FLAGS = _flags()
"""Every flag of a release by the name of its setting, in the order of `--help`. Fields of Policy without one
are for files and Python.
"""
RECORDS = ("lines", "multiline")
"""Flags that say what a record of a text file is; in a file, and in Policy, they are values of `records`."""
KEEPING = ("model", "no_model")
"""Settings that say whether the model is saved: where one layer gives either, both of the layers below are
overruled.
"""
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
    known = OWN | set(Policy.model_fields)
    for key in chosen:
        if key not in known:
            raise InputError(f"{path}: unknown key {key!r}; known are {', '.join(sorted(known))}")
    _checked({key: value for key, value in chosen.items() if key in OWN}, f"{path}: ")
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
