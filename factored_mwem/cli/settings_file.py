"""Settings file: the text of a first `fmwem.toml`, with every setting of a release, most of them as comments.

A comment that is a setting begins with `#` and no space. It has its default, or an example where there is
none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from factored_mwem.cli.console import piece
from factored_mwem.cli.settings import FLAGS, RECORDS, Flag, Group, ReleaseSettings
from factored_mwem.policy import Policy

LIKE_A_PERSON = re.compile(
    r"(^|[\W_])(id|ids|uuid|guid|ssn|key|name|names|email|mail|phone|iban|address|street|passport)($|[\W_])",
    re.IGNORECASE,
)
"""Names of columns that tell who a row is about, as they are often called."""
RECORDS_FLAG = Flag(Group.READING, str, "Text files: what a record is: checked (a line), lines or multiline.")
"""`--lines` and `--multiline` are one setting in a file."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its name and what is said of its type; `left_out` says why it is not released."""

    name: str
    kind: str
    left_out: str | None = None

    def line(self) -> str:
        """An entry of the list of columns."""
        said = [self.left_out or self.kind]
        if LIKE_A_PERSON.search(re.sub("([a-z])([A-Z])", r"\1_\2", self.name)):
            said.append("does it say who this is? leave it out, or name it as privacy_id")
        told = ", ".join(piece(text) for text in said if text)
        comment = f"  # {told}" if told else ""
        return f"  {'#' if self.left_out else ''}{in_toml(self.name)},{comment}"


def settings_text(
    title: str, command: str, columns: Sequence[Column], given: Mapping[str, Any], domain: str
) -> str:
    """The file as it is written. `title`: the table's name, of which examples make theirs; `command`: how to
    use the file; `given`: settings in force, which are no comments; `domain`: where values come from.
    """
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
    """What a setting without a default may look like."""
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
    return json.dumps(str(value), ensure_ascii=False).replace(
        "\x7f", "\\u007f"
    )  # all that TOML escapes beside
