"""Settings of the command line: flags above the environment above a TOML file. Unknown keys are errors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from factored_mwem.errors import InputError
from factored_mwem.files import read_text
from factored_mwem.policy import Policy
from factored_mwem.workload.workload import parse_toml

RELEASE_KEYS: dict[str, tuple[type, str]] = {
    "marginals": (int, "a whole number"),
    "workload": (str, "a path in quotes"),
    "cube": (list, 'a list such as ["age,sex:2"]'),
    "ranges": (list, 'a list such as ["age:1000"]'),
    "parities": (int, "a whole number"),
    "domain": (str, "a path in quotes"),
    "rows": (int, "a whole number, 0 or more"),
    "columns": (list, 'a list such as ["age", "sex"]'),
    "output": (str, "a path in quotes"),
    "model": (str, "a path in quotes"),
    "overwrite": (bool, "true or false"),
    "sample_seed": (int, "a whole number, 0 or more"),
    "ledger": (str, "a path in quotes"),
    "dataset": (str, "a name in quotes"),
    "run_id": (str, "a name in quotes"),
}
"""What a configuration file may hold besides the fields of Policy, which checks its own."""
LIMITS = ("rounds", "max_cells", "max_memory", "time_budget")
"""What a run may take."""
RECORDS = ("lines", "multiline")
"""Flags that say what a record of a text file is; in a file, and in Policy, they are values of `records`."""
FLAGS = (
    *RELEASE_KEYS,
    "epsilon",
    "delta",
    "neighbours",
    "contributions",
    "privacy_id",
    *RECORDS,
    "domain_budget",
    "engine",
    *LIMITS,
)
"""The settings with a flag and an FMWEM_ variable of their own; the rest of Policy is for files and Python.
"""
NOT_SETTINGS = ("FMWEM_DATASETS", "FMWEM_CONFIG", "FMWEM_NO_PROGRESS")


def read_config(path: Path) -> dict[str, Any]:
    """The keys of a TOML file, dashes or underscores. InputError for an unknown one."""
    try:
        data = parse_toml(read_text(path, "configuration"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    found = {key.replace("-", "_"): value for key, value in data.items()}
    known = {*RELEASE_KEYS, *Policy.model_fields}
    for key in found:
        if key not in known:
            raise InputError(f"{path}: unknown key {key!r}; known are {', '.join(sorted(known))}")
        if key in RELEASE_KEYS and not _fits(key, found[key]):
            raise InputError(f"{path}: {key} = {found[key]!r} must be {RELEASE_KEYS[key][1]}")
    return found


def _fits(key: str, value: Any) -> bool:
    if key in ("columns", "cube", "ranges"):
        return isinstance(value, list) and all(isinstance(name, str) for name in value)
    if key in ("rows", "sample_seed") and isinstance(value, int) and value < 0:
        return False
    kind = RELEASE_KEYS[key][0]
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def check_environment(environment: Mapping[str, str] = os.environ) -> None:
    """InputError for an FMWEM_ variable that no flag has."""
    known = {f"FMWEM_{flag.upper()}" for flag in FLAGS} | set(NOT_SETTINGS)
    for name in ("FMWEM_LEDGER", "FMWEM_DATASET", "FMWEM_RUN_ID"):
        if environment.get(name) == "":
            raise InputError(
                f"{name} is empty: the release would go past the books, or be paid for again; set it or "
                "unset it"
            )
    for name in environment:
        if name.startswith("FMWEM_") and name not in known:
            raise InputError(f"unknown environment variable {name}; known are {', '.join(sorted(known))}")


def merge(flags: Mapping[str, Any], file: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in force: what a flag (or its variable) gives, else what the file gives."""
    given = {
        key: value for key, value in flags.items() if value is not None and value != []
    }  # a repeatable flag not given is an empty list
    if any(name in given for name in RECORDS):  # a flag says more than a file's `records`
        file = {key: value for key, value in file.items() if key != "records"}
    return {**file, **given}


def records_from(settings: Mapping[str, Any]) -> Any:
    """What a record is, by the flags or a file. InputError where both flags are given."""
    given = [name for name in RECORDS if settings.get(name)]
    if len(given) > 1:
        raise InputError("--lines and --multiline say different things of the same file; give one of them")
    return given[0] if given else settings.get("records", "checked")


def policy_from(settings: Mapping[str, Any]) -> Policy:
    """The policy among the settings; InputError where a value does not fit."""
    return Policy.of(
        **{key: value for key, value in settings.items() if key in Policy.model_fields}
        | {"records": records_from(settings)}
    )


def names_of(columns: Any) -> list[str] | None:
    """Column names from a comma-separated flag or a list in a file."""
    if columns is None:
        return None
    names = (
        columns
        if isinstance(columns, list)
        else [name.strip() for name in str(columns).split(",") if name.strip()]
    )
    if not names:
        raise InputError("--columns names no column; leave it out to release all of them")
    return names
