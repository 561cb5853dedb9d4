"""Options: the flags of the settings, in groups that commands take, and what several commands declare."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from factored_mwem.cli.panels import MANY, show_all
from factored_mwem.cli.settings import (
    FLAGS,
    Flag,
    Group,
    ReleaseSettings,
    check_environment,
    layered,
    read_config,
)
from factored_mwem.cli.sparing import spare_imports
from factored_mwem.errors import InputError

Command = Callable[..., None]


def option(text: str, *names: str, panel: Group | str | None = None, **more: Any) -> Any:
    """A command's own option: what it is for, and the panel of `--help` that lists it."""
    at = panel.panel if isinstance(panel, Group) else panel
    return typer.Option(*names, help=text, rich_help_panel=at, **more)


def output_option(text: str) -> Any:
    """A command's own --output; `text` says what goes there."""
    return option(text, "-o", "--output", panel=Group.OUTPUT, metavar="FILE")


Tables = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE...",
        help="CSV, TSV or JSON lines (also .gz, .zst, .bz2, .xz), Parquet, ORC or Feather: a file, a "
        "folder, a glob in quotes, or several; on this machine or as s3://, gs://, abfs://, hdfs:// or "
        "https://; - for standard input; a table in a database, such as duckdb:///shop.db#people, or of "
        "Spark: spark:CATALOG.TABLE.",
    ),
]
OneTable = Annotated[str, typer.Argument(metavar="REAL", help="The real table: a file, folder, glob or URI.")]
Json = Annotated[bool, option("One line of JSON on stdout, of errors too, and no summary.", "--json")]
Verbose = Annotated[
    bool, option("Print a line for each round, and where the budget went.", "-v", "--verbose")
]
Quiet = Annotated[bool, option("No summary.", "-q", "--quiet")]
NoProgress = Annotated[bool, option("No progress bar.", "--no-progress")]
Overwrite = Annotated[bool, option("Replace existing files.", "--overwrite", panel=Group.OUTPUT)]


ROWS = (".parquet", ".csv", ".feather", ".arrow")
"""How released rows end."""


def of_rows(suffix: str) -> Callable[[Path], Path]:
    """What turns the name of released rows into that of the model or manifest beside them."""

    def beside(path: Path) -> Path:
        if path.suffix not in ROWS:
            return path
        other = path.with_name(f"{path.stem}{suffix}")
        if path.is_file() and not other.is_file():
            raise InputError(f"{path} holds rows, and {other.name}, which came with them, is not beside it")
        return other if other.is_file() else path

    return beside


QUESTIONS = (Group.KEPT, Group.DOMAIN, Group.READING)
RELEASE = (
    *QUESTIONS,
    *(Group.PRIVACY, Group.PEOPLE, Group.CERTIFICATE, Group.EFFORT, Group.LEARNING, Group.PUBLIC),
)
"""Groups of flags that commands take."""


def takes(*groups: Group, without: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Give a command the flags of these groups, and hand it all settings in force as `settings`.

    A flag that the command declares itself is its own; it has none of the settings `without`. One
    that has a parameter `ctx` gets the parser's context.
    """

    def decorate(command: Command) -> Command:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        parsed = own.pop("ctx", None)
        flags = {n: f for n, f in FLAGS.items() if f.group in groups and n not in {*own, *without}}

        @functools.wraps(command)
        def taking(ctx: typer.Context, **values: Any) -> None:
            values.pop("help_all", None)
            of_settings = {name: values.pop(name) for name in flags}
            spare_imports()
            values |= {"ctx": ctx} if parsed else {}
            command(**values, settings=_in_force(ctx, of_settings))

        needed = [p for p in own.values() if p.default is p.empty and p.name != "settings"]
        optional = [p for p in own.values() if p.default is not p.empty]
        listed = [
            Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context),
            *(p.replace(kind=Parameter.KEYWORD_ONLY) for p in needed),
            *(_parameter(name, flag) for name, flag in flags.items()),
            *(p.replace(kind=Parameter.KEYWORD_ONLY) for p in optional),
        ]
        listed += [_HELP_ALL] if len(listed) > MANY else []
        taking.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
        taking.__annotations__ = {p.name: p.annotation for p in listed}
        return taking

    return decorate


_SHOW_ALL = typer.Option(
    False, "--help-all", help="Show every option and exit.", is_eager=True, callback=show_all
)
_HELP_ALL = Parameter("help_all", Parameter.KEYWORD_ONLY, default=_SHOW_ALL, annotation=bool)


def _parameter(name: str, flag: Flag) -> Parameter:
    """A setting's flag as the parser of the command line takes it."""
    default = typer.Option(
        None,
        *([flag.short] if flag.short else []),
        f"--{name.replace('_', '-')}",
        envvar=f"FMWEM_{name.upper()}",
        help=flag.help,
        show_envvar=False,  # the end of the page says it once
        rich_help_panel=flag.group.panel,
        metavar=f"[{'|'.join(flag.choices)}]" if flag.choices else flag.metavar,
        min=flag.least,
        max=flag.most,
        autocompletion=(lambda: list(flag.choices)) if flag.choices else None,
    )
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=flag.kind | None)


def _source(ctx: typer.Context, name: str) -> str:
    """Where a value comes from: COMMANDLINE, ENVIRONMENT, DEFAULT."""
    source = ctx.get_parameter_source(name)
    return "" if source is None else source.name


def flags_given(ctx: typer.Context, group: Group) -> bool:
    """Whether a setting of a group was given as a flag: variables stay set for commands that need none."""
    names = (name for name, flag in FLAGS.items() if flag.group is group and name in ctx.params)
    return any(_source(ctx, name) == "COMMANDLINE" for name in names)


def _in_force(ctx: typer.Context, values: dict[str, Any]) -> ReleaseSettings:
    """The settings: flags above the environment above the file that --config names."""
    file: Mapping[str, Any] = {}
    if "config" in values:
        check_environment()
        config = values.pop("config")
        file = read_config(config) if config else {}
    flags: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    for name, value in values.items():
        if value == "" and FLAGS[name].is_place:  # as a variable that is not set leaves it
            raise InputError(f"--{name} is empty; name a place or leave it out")
        if value is not None and value != []:  # an absent repeatable flag is an empty list
            (environment if _source(ctx, name) == "ENVIRONMENT" else flags)[name] = value
    return layered(flags, environment, file)
