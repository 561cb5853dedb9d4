"""Starting: `fmwem init`, a settings file to begin with."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from factored_mwem.cli.options import Json, Tables, takes
from factored_mwem.cli.settings import FLAGS, Group, ReleaseSettings
from factored_mwem.errors import InputError

if TYPE_CHECKING:
    from factored_mwem.cli.settings_file import Column

FILE = "fmwem.toml"
OUTPUT = Group.OUTPUT.panel


@takes(Group.ASKED, Group.PRIVACY, Group.DOMAIN, Group.LEARNING, Group.READING, Group.EFFORT, Group.BOOKS)
def init(
    table: Tables,
    settings: ReleaseSettings,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Settings file.", rich_help_panel=OUTPUT)
    ] = Path(FILE),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace existing files.", rich_help_panel=OUTPUT)
    ] = False,
    draft: Annotated[
        bool,
        typer.Option(
            "--draft",
            help="NOT PRIVATE: also read the data, and write NAME.domain.json for review; no release takes "
            "it before.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    json_only: Json = False,
) -> None:
    """Write a settings file for `fmwem release --config`, from the names and types of the columns. Options
    that are given stand in it, all others as comments. Reads no row.
    """
    from factored_mwem.cli import console

    facts, command = begin(source_of(table), settings, output, overwrite=overwrite, draft=draft, words=table)
    said = [f"{console.piece(facts['config'])}: {facts['columns']:,} columns"]
    if draft:
        said.append(f"{console.piece(facts['draft'])}: a draft, NOT PRIVATE until it is reviewed")
    said.append(f"next: review, then {console.piece(command)}")
    console.closing(facts, "\n".join(said), as_json=json_only)


def begin(
    table: Given, settings: ReleaseSettings, output: Path, *, overwrite: bool, draft: bool, words: list[str]
) -> tuple[dict[str, Any], str]:
    """Write the settings file, and with `draft` a domain to review; facts, and the command to go on with.
    All that can be refused is so before a file is written.
    """
    from factored_mwem.cli.drafts import draft_text, drafted, warn
    from factored_mwem.cli.jobs import check_paths
    from factored_mwem.cli.settings_file import settings_text
    from factored_mwem.files import IfExists
    from factored_mwem.tables.piped import STANDARD_INPUT
    from factored_mwem.tables.targets import target_of, write_text

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
    given = _given(settings)
    if not any(FLAGS[name].group is Group.ASKED for name in given if name in FLAGS):
        given["marginals"] = min(2, len([c for c in columns if c.left_out is None]))
    text = settings_text(title(table), f"fmwem release {tail}", columns, given, domain)
    if draft:
        found = drafted(table, settings)
        write_text(beside, draft_text(found), exists)
        warn(found)
    write_text(config, text, exists)
    facts = {"config": str(config), "columns": len(columns), "draft": str(beside) if draft else None}
    return facts, f"fmwem check {tail}"


def _columns(table: Given, settings: ReleaseSettings, *, drafting: bool) -> tuple[list[Column], str]:
    """The columns to list, and where their values come from: public facts alone."""
    from factored_mwem.cli.settings_file import Column
    from factored_mwem.domain.domain import Domain
    from factored_mwem.request import Request
    from factored_mwem.workload.workload import Workload

    path = None if drafting else domain_path(table, settings.domain)
    domain = Domain.load(path) if path else None
    policy, asked = settings.policy, Workload.marginals(1)
    visible = Request.of(table, asked, policy, columns=settings.columns).private
    names = [n for n in visible.schema.names if settings.columns is None or n in settings.columns]
    names = [n for n in names if n != policy.privacy_id]
    kinds = {n: "" if visible.text else str(visible.schema.field(n).type) for n in names}
    if domain is not None:
        kinds |= {a.name: a.type for a in domain}
        unknown = f"{path} does not say which values it has"
        found = [Column(n, kinds[n], None if n in domain else unknown) for n in names]
        return found, f"values are declared in {path}"
    learnt = (
        "none is declared: values are learnt inside the budget. Declared ones are free: `fmwem guide domain`"
    )
    if drafting:
        learnt = "a draft lies beside the table; it was read off the data: review it before you release"
    return [Column(n, kinds[n]) for n in names], learnt


def _given(settings: ReleaseSettings) -> dict[str, Any]:
    """The settings that somebody gave, as a file has them."""

    def found() -> Iterator[tuple[str, Any]]:
        for model in (settings, settings.policy):
            for name in type(model).model_fields:
                value = getattr(model, name)
                if name in model.model_fields_set and name not in ("policy", "columns") and value is not None:
                    yield name, value

    return dict(found())
