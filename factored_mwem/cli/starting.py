"""Starting: `fmwem init`, a settings file to begin with: every setting, most of them as comments.

A comment that is a setting begins with `#` and no space. It has its default, or an example if there is none.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from factored_mwem.cli.inputs import (
    Given,
    addresses,
    domain_beside,
    domain_path,
    patterns,
    read_paths,
    source_of,
    title,
)
from factored_mwem.cli.options import Json, OverwriteAll, Tables, option, output_option, takes
from factored_mwem.cli.settings import FLAGS, RECORDS, Flag, Group, ReleaseSettings
from factored_mwem.errors import InputError
from factored_mwem.request.policy import Policy

FILE = "fmwem.toml"
LIKE_A_PERSON = re.compile(
    r"(^|[\W_])(id|ids|uuid|guid|ssn|key|name|names|email|mail|phone|iban|address|street|passport)($|[\W_])",
    re.IGNORECASE,
)
"""Usual names of columns that tell whom a row is about."""
RECORDS_FLAG = Flag(Group.READING, str, "Text files: what a record is: checked (a line), lines or multiline.")
"""`--lines` and `--multiline` are one setting in a file."""


@takes(Group.ASKED, Group.PRIVACY, Group.DOMAIN, Group.LEARNING, Group.READING, Group.EFFORT, Group.BOOKS)
def init(
    table: Tables,
    settings: ReleaseSettings,
    output: Annotated[Path, output_option("Settings file.")] = Path(FILE),
    overwrite: OverwriteAll = False,
    draft: Annotated[
        bool,
        option(
            "NOT PRIVATE: also read the data, and write NAME.domain.json for review; no release takes "
            "it before.",
            "--draft",
            panel=Group.OUTPUT,
        ),
    ] = False,
    json_only: Json = False,
) -> None:
    """Write a settings file for `fmwem release --config`, from the names and types of the columns. The given
    options are set in it, all others are comments. Reads no row.
    """
    from factored_mwem.cli import console

    facts, command = begin(source_of(table), settings, output, overwrite=overwrite, draft=draft, words=table)
    lines = [f"{console.piece(facts['config'])}: {facts['columns']:,} columns"]
    if draft:
        lines.append(f"{console.piece(facts['draft'])}: a draft, NOT PRIVATE until it is reviewed")
    lines.append(f"next: review, then {console.piece(command)}")
    console.closing(facts, "\n".join(lines), as_json=json_only)


def begin(
    table: Given, settings: ReleaseSettings, output: Path, *, overwrite: bool, draft: bool, words: list[str]
) -> tuple[dict[str, Any], str]:
    """Write the settings file, and with `draft` a domain to review; facts, and the command to go on with.
    Whatever can be refused is refused before a file is written.
    """
    from factored_mwem.cli.drafts import draft_text, drafted, warn
    from factored_mwem.cli.jobs import check_paths
    from factored_mwem.files.files import IfExists
    from factored_mwem.tables.inputs.uris import STANDARD_INPUT
    from factored_mwem.tables.outputs.targets import target_of, write_text

    if str(table) == STANDARD_INPUT:
        raise InputError(
            "init reads what a release reads again; write the rows to a file first, and name that"
        )
    config, exists = target_of(str(output)), IfExists(overwrite)
    beside = target_of(str(domain_beside(table) or f"{title(table)}.domain.json"))
    read = [*read_paths(table), *addresses(table), domain_path(table, settings.domain)]
    files = [each for each in read if each and not os.path.isdir(each)]  # a table may be the folder it is in
    check_paths([config], [*files, str(beside)], patterns(table))
    config.check(exists)
    if draft:
        beside.check(exists)
    columns, domain = _columns(table, settings, drafting=draft)
    tail = f"{shlex.join(words)} --config {shlex.quote(str(output))}"
    chosen = _given(settings)
    if not any(FLAGS[name].group is Group.ASKED for name in chosen if name in FLAGS):
        chosen["marginals"] = min(2, len([c for c in columns if c.left_out is None]))
    text = settings_text(title(table), f"fmwem release {tail}", columns, chosen, domain)
    if draft:
        domain_draft = drafted(table, settings)
        write_text(beside, draft_text(domain_draft), exists)
        warn(domain_draft)
    write_text(config, text, exists)
    facts = {"config": str(config), "columns": len(columns), "draft": str(beside) if draft else None}
    return facts, f"fmwem check {tail}"


def _columns(table: Given, settings: ReleaseSettings, *, drafting: bool) -> tuple[list[ListedColumn], str]:
    """The columns to list, and where their values come from: public facts alone."""
    from factored_mwem.domain.domain import Domain
    from factored_mwem.request.request import Request
    from factored_mwem.workload.workload import Workload

    path = None if drafting else domain_path(table, settings.domain)
    domain = Domain.load(path) if path else None
    policy, workload = settings.policy, Workload.marginals(1)
    visible = Request.of(table, workload, policy, columns=settings.columns).private
    names = [n for n in visible.schema.names if settings.columns is None or n in settings.columns]
    names = [n for n in names if n != policy.privacy_id]
    kinds = {n: "" if visible.text else str(visible.schema.field(n).type) for n in names}
    if domain is not None:
        kinds |= {a.name: a.type for a in domain}
        unknown = f"{path} does not say which values it has"
        listed = [ListedColumn(n, kinds[n], None if n in domain else unknown) for n in names]
        return listed, f"values are declared in {path}"
    learnt = (
        "none is declared: values are learnt inside the budget. Declared ones are free: `fmwem guide domain`"
    )
    if drafting:
        learnt = "a draft lies beside the table; it was read off the data: review it before you release"
    return [ListedColumn(n, kinds[n]) for n in names], learnt


def _given(settings: ReleaseSettings) -> dict[str, Any]:
    """The settings that somebody gave, as a file has them."""
    given = {
        name: getattr(model, name)
        for model in (settings, settings.policy)
        for name in type(model).model_fields
        if name in model.model_fields_set and name not in ("policy", "columns")
    }
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ListedColumn:
    """A column by its name and what is said of its type; `left_out` says why it is not released."""

    name: str
    kind: str
    left_out: str | None = None

    def line(self) -> str:
        """An entry of the list of columns."""
        notes = [self.left_out or self.kind]
        if LIKE_A_PERSON.search(re.sub("([a-z])([A-Z])", r"\1_\2", self.name)):
            notes.append("does it say who this is? leave it out, or name it as privacy_id")
        from factored_mwem.cli.console import piece

        text_of_notes = ", ".join(piece(text) for text in notes if text)
        comment = f"  # {text_of_notes}" if text_of_notes else ""
        return f"  {'#' if self.left_out else ''}{in_toml(self.name)},{comment}"


def settings_text(
    title: str, command: str, columns: Sequence[ListedColumn], given: Mapping[str, Any], domain: str
) -> str:
    """The text of the file. `title`: the table's name, used in the examples; `command`: how to
    use the file; `given`: settings in force, which are no comments; `domain`: where values come from.
    """
    from factored_mwem.cli.console import piece

    lines = [
        f"# Settings of: {piece(command)}",
        "# Written by `fmwem init` from the names and types of the columns; no row was read.",
        "# A setting behind a # has its default, or is an example. A flag goes above what stands here.",
        "#",
        "# Review before anything is spent:",
        "# 1. columns: leave out what tells who a row is about, and what nobody will ask for.",
        "# 2. privacy: may a person have several rows? Then set privacy_id, or contributions.",
        f"# 3. domain: {piece(domain)}",
        "# 4. books: other releases of the same people add up; a ledger keeps count.",
    ]
    flags = {**{name: flag for name, flag in FLAGS.items() if name not in RECORDS}, "records": RECORDS_FLAG}
    shown = examples(title, [c.name for c in columns])
    for panel in dict.fromkeys(group.panel for group in Group if group is not Group.CONFIG):
        lines += ["", f"# ---- {panel}"]
        for name, flag in flags.items():
            if flag.group.panel != panel:
                continue
            lines += ["", f"# {piece(flag.help)}"]
            if name == "columns":
                lines += ["columns = [", *(column.line() for column in columns), "]"]
            elif name in given:
                lines.append(f"{name} = {in_toml(given[name])}")
            else:
                lines.append(f"#{name} = {in_toml(_default(name, flag, shown))}")
    return "\n".join(lines) + "\n"


def examples(title: str, names: Sequence[str]) -> dict[str, Any]:
    """An example for a setting without a default."""
    first, last = names[0], names[-1]
    return {
        "marginals": 2,
        "workload": f"{title}.workload.toml",
        "label": [last],
        "cube": [first],
        "ranges": [f"{first}:1000"],
        "parities": 2,
        "privacy_id": first,
        "certificate": 0.03,
        "accept": ["mean2 <= 0.15"],
        "delimiter": ",",
        "encoding": "utf-8",
        "decimal": ".",
        "date_format": "%d/%m/%Y",
        "time_zone": "UTC",
        "missing": "NA,?",
        "header": "first",
        "names": "a,b,c",
        "domain": f"{title}.domain.json",
        "rounds": 30,
        "max_cells": 2**19,
        "max_memory": "2GB",
        "time_budget": 60.0,
        "rows": 1000,
        "output": f"{title}.synthetic.parquet",
        "model": f"{title}.synthetic.fmwem",
        "spill": "/tmp",
        "workers": 4,
        "sample_seed": 1,
        "ledger": "budget.ledger",
        "dataset": title,
        "run_id": "may",
    }


def _default(name: str, flag: Flag, shown: Mapping[str, Any]) -> Any:
    fields = Policy.model_fields if name in Policy.model_fields else ReleaseSettings.model_fields
    if name in fields and fields[name].default is not None:
        return fields[name].default
    if name in shown:
        return shown[name]
    return {int: flag.least or 1, bool: False, float: 0.5, Path: "file", str: "name"}.get(
        flag.kind, [json.loads(flag.example.split(", ")[0])] if flag.example else []
    )


def in_toml(value: Any) -> str:
    """A value as TOML writes it: text, numbers, truth values, lists of them."""
    if isinstance(value, Enum):
        return in_toml(value.value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(in_toml, value))}]"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    escaped = json.dumps(str(value), ensure_ascii=False)
    return escaped.replace("\x7f", "\\u007f")  # all that TOML escapes beside
