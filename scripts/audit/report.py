"""What an audit found, as text for a terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.check import FAILURE, Finding

HEAD = ("check", "claimed", "lower bound", "if honest", "if noise halved", "runs", "verdict")
PLANTED = ("bug", "found by", "claimed", "lower bound", "runs", "caught")
LEGEND = (
    "A claim is the rho or epsilon that the ledger charged (with the delta beside it), or what the manifest "
    "of a release states. A lower bound is "
    "what an event showed on runs that it was not chosen by. 'if honest' and 'if noise halved' were computed "
    "beforehand: the bounds to expect in as "
    "many runs from the mechanism as claimed, and with noise at half scale. A check is weak where the latter "
    "is not above the claim. All bounds hold "
    "together with probability 1 - {failure:g}."
)


def row(f: Finding) -> tuple[str, ...]:
    verdict = "FAILS" if not f.holds else "holds" if f.sees else "holds (weak)"
    return (
        f.check,
        claim(f),
        number(f.bound),
        number(f.honest),
        number(f.halved),
        f"{f.runs:,}" if f.runs else "exact",
        verdict,
    )


def planted_row(name: str, f: Finding) -> tuple[str, ...]:
    bound = number(f.bound) + (f", {f.off_grid:,} off the grid" if f.off_grid else "")
    return name, f.check, claim(f), bound, f"{f.runs:,}", "NOT CAUGHT" if f.holds else "caught"


def claim(f: Finding) -> str:
    return f"{f.unit} {number(f.claimed)}" + (f", delta {f.delta:.2g}" if f.delta else "")


def number(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 or value == 0 else f"{value:.1e}"


def summary(findings: Sequence[Finding], planted: Sequence[tuple[str, Finding]]) -> str:
    """Runs, and what went wrong."""
    whole = sum(f.runs for f in findings if f.whole)
    stages = sum(f.runs for f in findings if not f.whole)
    failed, missed = [f.check for f in findings if not f.holds], [name for name, f in planted if f.holds]
    lines = [
        f"{stages:,} stage runs, {whole:,} whole releases; {sum(f.seconds for f in findings):.0f} s, bugs "
        f"{sum(f.seconds for _, f in planted):.0f} s"
    ]
    lines += [f"FAILS: {name}" for name in failed] + [f"NOT CAUGHT: {name}" for name in missed]
    return "\n".join(lines)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def write(
    folder: Path, mode: str, findings: Sequence[Finding], planted: Sequence[tuple[str, Finding]]
) -> None:
    """audit.md and audit.json, into a folder that is made where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    notes = [f"- {f.check}: {f.note}" for f in findings if f.note]
    parts = [
        f"# Privacy audit ({mode})",
        LEGEND.format(failure=FAILURE),
        markdown(HEAD, [row(f) for f in findings]),
        "\n".join(notes),
    ]
    parts += (
        ["## Planted bugs", markdown(PLANTED, [planted_row(name, f) for name, f in planted])]
        if planted
        else []
    )
    (folder / "audit.md").write_text(
        "\n\n".join([*parts, summary(findings, planted)]) + "\n", encoding="utf-8"
    )
    found: dict[str, Any] = {
        "mode": mode,
        "failure": FAILURE,
        "checks": [asdict(f) | {"holds": f.holds, "sees_half_noise": f.sees} for f in findings],
        "bugs": [{"bug": name, "caught": not f.holds} | asdict(f) for name, f in planted],
    }
    (folder / "audit.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
