"""`fmwem plan`: several epsilons side by side, before anything is spent."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import Json, Tables, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError, shown

if TYPE_CHECKING:
    from factored_mwem.pipeline.planning import Planned, Prospect

Epsilons = Annotated[
    Optional[str],
    typer.Option(
        "--epsilon",
        metavar="E,E,...",
        envvar="FMWEM_EPSILON",
        help="Epsilons to compare, separated by commas.  [default: 0.1,0.5,1,2; with --error none]",
    ),
]
Target = Annotated[
    Optional[str],
    typer.Option(
        "--error",
        metavar="ERROR",
        help="Look for the epsilon of this mean error (0 to 2) of asked marginals, such as 0.1; or of those "
        'of fewer columns: "mean2 <= 0.1".',
    ),
]
AssumeRows = Annotated[int, typer.Option(help="Your guess of the table's rows.", min=1)]


@takes(Group.ASKED, Group.DOMAIN, Group.READING, Group.PRIVACY, Group.EFFORT, Group.LEARNING, Group.CONFIG)
def plan(
    table: Tables,
    settings: ReleaseSettings,
    epsilon: Epsilons = None,
    error: Target = None,
    assume_rows: AssumeRows = 10_000,
    json_only: Json = False,
) -> None:
    """Compare epsilons before anything is spent: how large errors are expected to be, and what a guess of
    membership can gain; or look for the epsilon of an error. On public facts only: reads no row. What a
    release at one epsilon would do, `fmwem check` says.
    """
    from factored_mwem.cli import jobs as job
    from factored_mwem.pipeline.planning import planned

    found = planned(job.asked(source_of(table), settings), _numbers(epsilon), error, assume_rows)
    print(json.dumps(found.facts) if json_only else planned_text(found))


def _numbers(given: str | None) -> list[float] | None:
    if given is None:
        return None
    try:
        return [float(each) for each in given.split(",")]
    except ValueError:
        raise InputError(f"--epsilon {shown(given)}: must be numbers, such as 0.1,0.5,1") from None


def planned_text(found: Planned) -> str:
    """A line for each epsilon; then what the columns mean, and what they rest on."""
    special = [(found.likely, "error is expected"), (found.safe, "range ends there")]
    rows = [(p, "") for p in found.prospects] + [(p, why) for p, why in special if p is not None]
    rows.sort(key=lambda row: row[0].epsilon)
    lines = _aligned([_head(rows[0][0]), *([*_cells(p), why] for p, why in rows)]) if rows else []
    if found.target is not None:
        lines += _answer(found)
    lines += [
        "",
        f"guess       of {found.question}, from a fair coin: right at most so often, whatever else is known",
    ]
    if rows and rows[0][0].errors:
        lines.append(
            "1-way, ...  mean L1 distance (0 to 2) between real and released marginals of so many columns"
        )
    lines += [f"{word:12}{text}" for word, text in _noise(rows[0][0] if rows else None)]
    lines.append(f"for         delta {found.delta:g}, about {found.assume_rows:,} rows (--assume-rows)")
    lines += [f"note        {note}" for note in found.notes]
    return "\n".join([*lines, "no row was read and nothing was spent"])


def _head(first: Prospect) -> list[str]:
    last = "value kept from" if first.kept_from is not None else "noise a cell"
    return ["epsilon", "guess", *(f"{e.order}-way" for e in first.errors), last, ""]


def _cells(p: Prospect) -> list[str]:
    errors = [f"{_short(e.error)} ({_short(e.low)} to {_short(e.high)})" for e in p.errors]
    return [f"{p.epsilon:g}", f"{math.ceil(p.guess * 1000) / 10:.1f} %", *errors, _last(p)]


def _last(p: Prospect) -> str:
    if p.kept_from is not None:
        return " / ".join(f"{rows:,.0f}" for rows in p.kept_from)
    if p.column_noise is None:
        return f"error {_short(p.noise_errors[-1])}"
    noise = [n for n in (p.column_noise, p.round_noise) if n is not None]
    return " / ".join(f"{n:,.1f}" for n in noise)


def _noise(first: Prospect | None) -> list[tuple[str, str]]:
    """What the last column is."""
    if first is None:
        return []
    if first.kept_from is not None:
        return [("value kept", "from about so many rows on: a text / a popular number or moment")]
    text = "rows, on average: single columns first / marginals that the first rounds choose; or, of a small"
    return [
        ("noise", text),
        ("", "domain measured at once, the error of the largest marginals by noise alone"),
    ]


def _answer(found: Planned) -> list[str]:
    """What was found for an error that was asked for."""
    assert found.target is not None
    order, most = found.target
    asked = f"mean{order} <= {most:g}"
    if found.likely is None:
        return ["", f"answer      {asked} is not expected at any epsilon that is looked at"]
    sure = "no epsilon" if found.safe is None else f"epsilon {found.safe.epsilon:g}"
    return ["", f"answer      {asked} is expected at epsilon {found.likely.epsilon:g}; to be safe, {sure}"]


def _short(error: float) -> str:
    """Two digits of an error."""
    return f"{error:.2f}" if error >= 0.095 else f"{error:.2g}" if error >= 1e-3 else f"{error:.0e}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns to the right, but for the last."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
