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
    TableName,
    addresses,
    domain_beside,
    domain_path,
    patterns,
    read_paths,
    source_of,
    title,
)
from factored_mwem.cli.options import Json, Overwrite, Tables, option, output_option, takes
from factored_mwem.cli.settings import FLAGS, RECORDS, Flag, Group, ReleaseSettings
from factored_mwem.errors import InputError
from factored_mwem.request.policy import Policy

LIKE_A_PERSON = re.compile(
    r"(^|[\W_])(id|ids|uuid|guid|ssn|key|name|names|email|mail|phone|iban|address|street|passport)($|[\W_])",
    re.IGNORECASE,
)
"""Usual names of columns that identify a person."""
SETTINGS = {name: flag for name, flag in FLAGS.items() if name not in (*RECORDS, "config")} | {
    "records": Flag(
        Group.READING, str, "Text files: what a record is: checked (a line), lines or multiline.", "a text"
    )
}
"""What stands in the file: `--lines` and `--multiline` are one setting there."""
WRITTEN = (
    "Settings file; one named .json describes a package of tables.  [default: fmwem.toml, or "
    "datapackage.json for files of different columns]"
)
LEARNT = "none is declared: values are learnt inside the budget. Declared ones are free: `fmwem guide domain`"
DRAFTED = "a draft lies beside the table; it was read off the data: review it before you release"


@takes(
    *(Group.KEPT, Group.PRIVACY, Group.DOMAIN, Group.LEARNING, Group.PUBLIC),
    *(Group.READING, Group.EFFORT, Group.BOOKS),
)
def init(
    table: Tables,
    settings: ReleaseSettings,
    output: Annotated[Path | None, output_option(WRITTEN)] = None,
    overwrite: Overwrite = False,
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
    options are set in it, all others are comments. For files that are several tables it writes a package's
    descriptor instead, with the keys that names tell. Reads no row.
    """
    from factored_mwem.cli.console import closing, piece
    from factored_mwem.cli.domains import draft_text, drafted, warn
    from factored_mwem.cli.jobs import check_paths
    from factored_mwem.cli.package_drafts import draft_package, is_package
    from factored_mwem.files.files import IfExists
    from factored_mwem.tables.inputs.uris import STANDARD_INPUT
    from factored_mwem.tables.outputs.targets import target_of, write_text

    source, exists = source_of(table), IfExists(overwrite)
    if is_package(source, output, settings, draft=draft):
        return draft_package(table, output or Path("datapackage.json"), exists, as_json=json_only)
    output = output or Path("fmwem.toml")
    if str(source) == STANDARD_INPUT:
        raise InputError("init reads what a release reads again; write the rows to a file, and name that")
    config = target_of(str(output))
    beside = target_of(str(domain_beside(source) or f"{title(source)}.domain.json"))
    read = [*read_paths(source), *addresses(source), domain_path(source, settings.domain)]
    files = [each for each in read if each and not os.path.isdir(each)]  # a table may be the folder it is in
    check_paths([config], [*files, str(beside)], patterns(source))
    for target in (config, beside) if draft else (config,):
        target.check(exists)
    columns, domain = _columns(source, settings, drafting=draft)
    tail = f"{shlex.join(table)} --config {shlex.quote(str(output))}"
    chosen = _chosen(settings)
    if not any(FLAGS[name].group is Group.KEPT for name in chosen if name in FLAGS):
        chosen["marginals"] = min(2, len([c for c in columns if c.left_out is None]))
    text = settings_text(title(source), f"fmwem release {tail}", columns, chosen, domain)
    if draft:  # whatever can be refused is refused before a file is written
        domain_draft = drafted(source, settings)
        write_text(beside, draft_text(domain_draft), exists)
        warn(domain_draft)
    write_text(config, text, exists)
    facts = {"config": str(config), "columns": len(columns), "draft": str(beside) if draft else None}
    lines = [f"{piece(config)}: {len(columns):,} columns"]
    lines += [f"{piece(beside)}: a draft, NOT PRIVATE until it is reviewed"] if draft else []
    lines.append(f"next: review, then fmwem check {piece(tail)}")
    closing(facts, lines, as_json=json_only)


@dataclass(frozen=True, slots=True)
class ListedColumn:
    """A column by its name and its type in words; `left_out` says why it is not released."""

    name: str
    kind: str
    left_out: str | None = None

    def line(self) -> str:
        """An entry of the list of columns."""
        from factored_mwem.cli.console import piece

        notes = [self.left_out or self.kind]
        if LIKE_A_PERSON.search(re.sub("([a-z])([A-Z])", r"\1_\2", self.name)):
            notes.append("does it say who this is? leave it out, or name it as privacy_id")
        comment = ", ".join(piece(text) for text in notes if text)
        return f"  {'#' if self.left_out else ''}{in_toml(self.name)}," + (
            f"  # {comment}" if comment else ""
        )


def _columns(
    table: TableName, settings: ReleaseSettings, *, drafting: bool
) -> tuple[list[ListedColumn], str]:
    """The columns to list, and where their values come from: public facts alone."""
    from factored_mwem.domain.domain import Domain
    from factored_mwem.request.table import PrivateTable

    path = None if drafting else domain_path(table, settings.domain)
    visible = PrivateTable.open(table, settings.policy, columns=settings.columns).visible
    names = [n for n in visible.schema.names if settings.columns is None or n in settings.columns]
    kinds = {n: "" if visible.text else str(visible.schema.field(n).type) for n in names}
    if path is None:
        return [ListedColumn(n, kinds[n]) for n in names], DRAFTED if drafting else LEARNT
    domain = Domain.load(path)
    kinds |= {a.name: a.type for a in domain}
    unknown = f"{path} does not say which values it has"
    listed = [ListedColumn(n, kinds[n], None if n in domain else unknown) for n in names]
    return listed, f"values are declared in {path}"


def _chosen(settings: ReleaseSettings) -> dict[str, Any]:
    """The settings in force, in the form of a file."""
    values = {
        name: getattr(model, name)
        for model in (settings, settings.policy)
        for name in type(model).model_fields
        if name in model.model_fields_set and name not in ("policy", "columns")
    }
    return {name: value for name, value in values.items() if value is not None}


def settings_text(
    title: str, command: str, columns: Sequence[ListedColumn], chosen: Mapping[str, Any], domain: str
) -> str:
    """The text of the file. `title`: the table's name, used in the examples; `command`: how to use the file;
    `chosen`: settings in force, which are no comments; `domain`: where values come from.
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
    names = {"title": title, "first": columns[0].name, "last": columns[-1].name}
    for panel in dict.fromkeys(group.panel for group in Group if group is not Group.CONFIG):
        lines += ["", f"# ---- {panel}"]
        for name, flag in SETTINGS.items():
            if flag.group.panel != panel:
                continue
            lines += ["", f"# {piece(flag.help)}"]
            if name == "columns":
                lines += ["columns = [", *(column.line() for column in columns), "]"]
            elif name in chosen:
                lines.append(f"{name} = {in_toml(chosen[name])}")
            else:
                lines.append(f"#{name} = {in_toml(_default(name, flag, names))}")
    return "\n".join(lines) + "\n"


def _default(name: str, flag: Flag, names: Mapping[str, str]) -> Any:
    """A setting's default, or where it has none its example, with the names of this table."""
    fields = Policy.model_fields if name in Policy.model_fields else ReleaseSettings.model_fields
    if name in fields and fields[name].default is not None:
        return fields[name].default
    if isinstance(flag.example, list):
        return [text.format(**names) for text in flag.example]
    return flag.example.format(**names) if isinstance(flag.example, str) else flag.example


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
