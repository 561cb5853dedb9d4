"""`fmwem domain` and `fmwem workload`: which values may appear, and what must come out right."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from factored_mwem.cli.inputs import TableName, source_of
from factored_mwem.cli.options import Json, Overwrite, Tables, output_option, takes
from factored_mwem.cli.panels import OWNER, App
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.domain.domain import Domain
from factored_mwem.files.files import IfExists

domain_app = App(help="Domain files: which values may appear.")
workload_app = App(help="Workload files: what must come out right.")
REVIEW = (
    "NOT PRIVATE: this draft was read off the data. Review it: widen bounds to what is publicly known, drop "
    'rare categories; then remove its line "draft": true, without which no release takes it.'
)


@domain_app.command("draft", rich_help_panel=OWNER)
@takes(Group.READING)
def domain_draft(
    table: Tables,
    settings: ReleaseSettings,
    output: Annotated[str | None, output_option("Domain file.  [default: standard output]")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Print a first domain for a person to review. Reads the data: NOT PRIVATE until reviewed."""
    from factored_mwem.cli.jobs import check_files
    from factored_mwem.tables.outputs.targets import target_of, write_text

    source, exists = source_of(table), IfExists(overwrite)
    target = target_of(output) if output is not None else None
    if target is not None:
        check_files([target], source, settings)
        target.check(exists)
    domain = drafted(source, settings)
    if target is None:
        print(draft_text(domain), end="")
    else:
        write_text(target, draft_text(domain), exists)
    warn(domain)


@domain_app.command("learn")
@takes(Group.READING, Group.PRIVACY, Group.LEARNING, Group.BOOKS, Group.CONFIG)
def domain_learn(
    table: Tables,
    settings: ReleaseSettings,
    output: Annotated[
        str | None, output_option("Domain file.  [default: NAME.domain.json beside the table]")
    ] = None,
    overwrite: Overwrite = False,
    json_only: Json = False,
) -> None:
    """Learn a domain once, under differential privacy: releases under it pay nothing for it, and all have the
    same schema. Its cost counts like a release's.
    """
    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job

    chosen = settings.model_copy(update={"output": output, "overwrite": overwrite})
    learnt, facts = job.learn(source_of(table), chosen)
    fates = console.fates_text(learnt.domain, learnt.fates)
    first = f"learnt for epsilon {learnt.spent_epsilon:.6g}: {console.piece(facts['domain'])}"
    look = console.lined("look at", map(console.piece, learnt.warnings))
    console.closing(facts, [first, *fates, *look], as_json=json_only)


@domain_app.command("schema")
def domain_schema() -> None:
    """Print the JSON Schema of a domain file."""
    print(json.dumps(Domain.json_schema(), indent=1))


@workload_app.command("schema")
def workload_schema() -> None:
    """Print the JSON Schema of a workload file."""
    from factored_mwem.workload.workload import Workload

    print(json.dumps(Workload.json_schema(), indent=1))


def drafted(table: TableName, settings: ReleaseSettings) -> Domain:
    """NOT PRIVATE: a domain that reads the data, marked as a draft."""
    from factored_mwem.owner.draft import draft

    return draft(table, **settings.reading)


def draft_text(domain: Domain) -> str:
    """The file of a draft: what is to be decided, then the fields, each on a line of its own."""
    facts = domain.to_dict()
    lists = {key: facts.pop(key) for key in ("questions", "fields") if key in facts}
    rest = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in facts.items())
    parts = [
        f' "{key}": [\n  ' + ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in ones) + "\n ]"
        for key, ones in lists.items()
    ]
    return "{\n" + rest + ",\n".join(parts) + "\n}\n"


def warn(domain: Domain) -> None:
    """Say on stderr what a draft is, and what is to be decided about it, most urgent first."""
    typer.echo(REVIEW, err=True)
    if domain.questions:
        typer.echo("To decide, most urgent first:", err=True)
    for number, question in enumerate(domain.questions, 1):
        typer.echo(f"{number:3}. {question}{'' if question.endswith('?') else '.'}", err=True)
