"""What `--help` shows: options and commands by panel, examples that run, and no wait."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from support.commands import Fmwem

from factored_mwem.cli.main import EXAMPLES
from factored_mwem.cli.panels import COMMON, OWNER, PANELS, RARE
from factored_mwem.cli.settings import FLAGS, Group

TABLE = Path(__file__).parents[2] / "datasets" / "adult.csv"


NAME = re.compile(r"  (?:-\w, )?(--[a-z-]+|[a-z]+(?: [a-z]+)*)(?:  |$| [<\[A-Z])")
CHOICES = {"release": "--engine --neighbours", "check": "--engine", "ledger add": "--neighbours"}
LISTED = {"--engine": "[tree|mwem]", "--neighbours": "[add-remove|replace]"}


def sections(text: str) -> dict[str, list[str]]:
    """The names that each section of a help page lists, each once."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if re.fullmatch(r"\S.*:", line):
            found[line[:-1]] = []
        elif found and (entry := NAME.match(line)):
            found[list(found)[-1]].append(entry[1])
    listed = [name for names in found.values() for name in names]
    assert len(listed) == len(set(listed)) >= 5
    return found


@pytest.mark.parametrize("command", CHOICES)
def test_choices_are_listed(fmwem: Fmwem, command: str) -> None:
    text = fmwem(f"{command} {'--help' if command == 'ledger add' else '--help-all'}").out
    assert all(f"{name} {LISTED[name]}" in text for name in CHOICES[command].split())


def test_options_of_a_release_stand_in_the_panels_of_their_groups(fmwem: Fmwem) -> None:
    listed = sections(fmwem("release --help-all").out)
    titles = list(dict.fromkeys(group.panel for group in Group))
    assert [name for name in listed if name not in ("Arguments", "Examples")] == titles
    for name, flag in FLAGS.items():
        assert f"--{name.replace('_', '-')}" in listed[flag.group.panel]
    assert {"--json", "--verbose", "--quiet", "--no-progress", "--help"} <= set(listed["Other"])
    assert "--label" in listed["What must come out right"]


@pytest.mark.parametrize("command", ["check", "verify", "attack", "evaluate", "sample", "domain learn"])
def test_other_commands_have_the_same_panels(fmwem: Fmwem, command: str) -> None:
    page = fmwem(*command.split(), "--help").out
    listed = sections(fmwem(*command.split(), "--help-all").out if "--help-all" in page else page)
    assert "Options" not in listed and listed["Other"][-1] == "--help"
    for name, flag in FLAGS.items():
        holders = [panel for panel, names in listed.items() if f"--{name.replace('_', '-')}" in names]
        assert holders in ([], [flag.group.panel])


def test_commands_stand_in_panels(fmwem: Fmwem) -> None:
    page = fmwem("--help").out
    listed = sections(page)
    assert [panel for panel in listed if panel != "Options"] == list(PANELS)
    assert {"attack", "evaluate", "verify", "domain draft"} == set(listed[OWNER])
    assert listed["First"] == ["check", "release", "report", "answer"] and "ledger" in listed["Books"]
    assert max(map(len, page.splitlines())) <= 80 and "..." not in page.replace("COMMAND [ARGS]...", "")
    assert page.index("fmwem check TABLE") < page.index("fmwem release TABLE") < page.index("Options:")
    assert "Options:" in fmwem("ledger add --help").out  # of one group: as ever


def test_few_options_are_shown_at_first(fmwem: Fmwem) -> None:
    page = fmwem("release --help").out
    few, every = sections(page), sections(fmwem("release --help-all").out)
    shown, known = ({name for names in each.values() for name in names} for each in (few, every))
    assert shown < known and len(shown - {"--json", "--help", "--help-all"}) <= 14
    assert {f"--{name.replace('_', '-')}" for name in COMMON} <= shown
    assert f"all {len(known)} options" in page  # its arguments and examples are not names of options
    assert FLAGS.keys() >= COMMON and not RARE & FLAGS.keys()


def test_a_mistaken_command_is_told_the_nearest(fmwem: Fmwem) -> None:
    assert "no command 'relase' (did you mean 'release'?)" in fmwem("relase t.csv").err
    assert "no command 'drft' (did you mean 'draft'?)" in fmwem("domain drft t.csv").err
    assert fmwem("relase t.csv").code == 2


def test_help_says_how_a_variable_is_called(fmwem: Fmwem) -> None:
    text = " ".join(fmwem("release --help").out.split())
    assert "(--marginals by FMWEM_MARGINALS), or in the file of --config." in text
    assert "--config." not in " ".join(fmwem("sample --help").out.split())
    assert "given by a variable" not in fmwem("guide --help").out


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_at_the_end_of_the_help_run(here: Path, fmwem: Fmwem, line: str) -> None:
    assert f"  {line}\n" in fmwem("release --help").out
    shutil.copy(TABLE, here / "people.csv")
    shutil.copy(TABLE.with_suffix(".domain.json"), here / "people.domain.json")
    if "--ledger" in line:
        fmwem("ledger init budget.ledger")
        fmwem("ledger add budget.ledger --dataset people --epsilon 2")
    words = shlex.split(line)
    assert words.pop(0) == "fmwem"
    done = fmwem(*words, "--rounds", 2)
    assert (done.code, done.facts["rows"] > 0) == (0, True), done.err
