"""Panels: the named groups in which `--help` lists commands and options.

Where a command stands, the table in `main.py` says. The options of a release stand where their `Group` says,
others where their `rich_help_panel` does.

Sections of plain text, not typer's boxes: help is read at once, and never taken for markup ("[default: 1]").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from factored_mwem.errors import InputError, did_you_mean

FIRST = "First"
BEFORE = "Before a release"
RELEASE = "Other releases"
AFTER = "After a release, free"
BOOKS = "Books"
OWNER = "NOT PRIVATE, for the owner's eyes"
HELP = "Help"
HELP_ALL = "factored_mwem.help_all"
"""Where the parser keeps that all options are to be shown."""
COMPLETING = "_FMWEM_COMPLETE"
"""A variable that a shell sets where somebody pressed Tab: the command line answers, and runs nothing."""
PANELS = (FIRST, BEFORE, RELEASE, AFTER, BOOKS, OWNER, HELP)
"""Panels of commands, in the order of `fmwem --help`."""
OTHER = "Other"
"""The panel of options for the output of a command: --config, --json, -v, -q."""
COMMON = {
    "marginals", "label", "epsilon", "privacy_id", "contributions", "domain", "columns", "output", "report",
    "ledger", "dataset", "run_id",
}  # fmt: skip
"""The settings that `--help` shows of a command that has more than `MANY` options; `--help-all` shows all."""
RARE = {"child", "key", "foreign_key", "public_tables", "verbose", "quiet", "no_progress"}
"""A command's own options that wait for `--help-all`, likewise."""
MANY = 20
Command = TypeVar("Command", bound=Callable[..., Any])
Sections = dict[str, list[tuple[str, str]]]
TYPES = {"list[str]": "TEXT", "str": "TEXT", "int": "N", "int range": "N", "float": "NUMBER", "path": "FILE"}
"""The words that `--help` shows for the parser's types, unless an option has a better one."""


class PanelledCommand(TyperCommand):
    """A command whose options are listed by panel, with examples at the end as they were written; of which
    none that takes a list is given twice.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # nor completing a line
            _check_once(self.make_parser(ctx).parse_args(args=list(args))[2])
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        few = len(self.params) > MANY and not ctx.meta.get(HELP_ALL)
        _write(formatter, _sections(self, ctx, few=few))
        if few:
            formatter.write_paragraph()
            count = sum(each.param_type_name == "option" for each in self.get_params(ctx))
            formatter.write_text(f"{ctx.command_path} --help-all shows all {count} options.")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.epilog:
            formatter.write(f"\n{self.epilog}\n")
        settings = [parameter.name for parameter in self.params if _is_setting(parameter)]
        if settings:
            file = ", or in the file of --config" if "config" in settings else ""
            name = next(name for name in settings if name != "config")
            flag = f"--{name.replace('_', '-')} by FMWEM_{name.upper()}"
            formatter.write_paragraph()
            formatter.write_text(f"Every setting can also be given by a variable ({flag}){file}.")


def _check_once(given: Sequence[Any]) -> None:
    """Raises InputError where an option that takes a list in one value is among those `given` twice: one
    would think that both lists hold. Of others the last wins, as everywhere.
    """
    for each in given:
        listed = "," in (getattr(each, "metavar", None) or "") and not each.multiple
        if listed and sum(other is each for other in given) > 1:
            name = max(each.opts, key=len)
            raise InputError(f"{name} is given twice; write it once, with commas: {name} {each.metavar}")


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command that is loaded when somebody names it, or asks for the list."""

    panel: str
    place: str
    """MODULE:NAME in this folder, of a function or an `App`."""
    help: str | None = None
    """Help in one line, if the first sentence of the docstring is not suitable."""
    epilog: str | None = None

    def load(self, name: str) -> Any:
        module, _, attribute = self.place.partition(":")
        target = getattr(import_module(f"factored_mwem.cli.{module}"), attribute)
        if isinstance(target, typer.Typer):
            command: Any = typer.main.get_group(target)
        else:
            alone = App()
            alone.command(name, short_help=self.help, epilog=self.epilog)(target)
            command = typer.main.get_command(alone)
        command.name, command.rich_help_panel = name, self.panel
        return command


class PanelledGroup(TyperGroup):
    """A group whose commands are listed by panel, also under another group's name if they have a panel."""

    table: Mapping[str, CommandEntry] = MappingProxyType({})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*self.table, *super().list_commands(ctx)]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.table and cmd_name not in self.commands:
            self.commands[cmd_name] = self.table[cmd_name].load(cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            close = did_you_mean(args[0], self.list_commands(ctx))
            raise InputError(f"no command {args[0]!r}{close}; --help lists them")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write(formatter, _sections(self, ctx))
        sections: Sections = {panel: [] for panel in PANELS}
        listed = list(_listed(self, ctx))
        room = formatter.width - 6 - max((len(name) for _, name, _ in listed), default=0)
        for panel, name, command in listed:
            sections.setdefault(panel, []).append((name, command.get_short_help_str(room)))
        _write(formatter, sections)


class App(typer.Typer):
    """A `typer.Typer` whose commands are listed by panel."""

    def __init__(self, table: Mapping[str, CommandEntry] | None = None, **options: Any) -> None:
        kind = PanelledGroup if table is None else type("Commands", (PanelledGroup,), {"table": table})
        ours: Any = {"cls": kind, "no_args_is_help": True, "add_completion": False}
        super().__init__(**ours, pretty_exceptions_enable=False, rich_markup_mode=None, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Command], Command]:
        ours: Any = {"cls": PanelledCommand, **options}
        return super().command(name, **ours)


def examples(*lines: str) -> str:
    """The end of a help page, as it is shown: commands that can be copied."""
    return "\n".join(["Examples:", *(f"  {line}" for line in lines)])


def show_all(ctx: typer.Context, wanted: bool) -> None:
    """What `--help-all` does."""
    if wanted:
        ctx.meta[HELP_ALL] = True
        print(ctx.get_help())
        raise typer.Exit


def _is_setting(parameter: Any) -> bool:
    """Whether it is an option that a variable can give, too."""
    return parameter.param_type_name == "option" and getattr(parameter, "envvar", None) is not None


def _is_rare(parameter: Any) -> bool:
    """Whether few need the option: a setting that is not common, or one of the command's own in `RARE`."""
    return parameter.name not in COMMON if _is_setting(parameter) else parameter.name in RARE


def _sections(command: Any, ctx: Any, *, few: bool = False) -> Sections:
    """Arguments, then options by panel, in the order of the parameters; those without one come last. With
    `few` those that are not rare.
    """
    sections: Sections = {}
    plain: list[tuple[str, str]] = []
    for parameter in command.get_params(ctx):
        record, is_argument = parameter.get_help_record(ctx), parameter.param_type_name == "argument"
        if record is None or (few and _is_rare(parameter)):
            continue
        for name, word in TYPES.items():
            record = record[0].replace(f" <{name}>", "" if is_argument else f" {word}"), record[1]
        if is_argument:
            sections.setdefault("Arguments", []).append(record)
        elif (panel := getattr(parameter, "rich_help_panel", None)) is not None:
            sections.setdefault(panel, []).append(record)
        else:
            plain.append(record)
    if plain:
        last = OTHER if any(name != "Arguments" for name in sections) else "Options"
        sections[last] = [*sections.pop(last, []), *plain]
    return sections


def _listed(group: Any, ctx: Any) -> Iterator[tuple[str, str, Any]]:
    """(panel, name, command) of what a group holds; of its groups, the commands that stand in a panel."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is None or command.hidden:
            continue
        yield getattr(command, "rich_help_panel", None) or "Commands", name, command
        for below, inner in getattr(command, "commands", {}).items():
            if getattr(inner, "rich_help_panel", None):
                yield inner.rich_help_panel, f"{name} {below}", inner


def _write(formatter: Any, sections: Sections) -> None:
    for name, rows in sections.items():
        if rows:
            with formatter.section(name):
                formatter.write_dl(rows)
