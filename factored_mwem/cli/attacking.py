"""`fmwem attack`: what attackers learn of single people from releases like this one. NOT PRIVATE."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factored_mwem.cli.inputs import (
    LinkFlags,
    TableName,
    check_kept,
    domain_path,
    package_at,
    read_paths,
    source_of,
    title,
)
from factored_mwem.cli.options import (
    RELEASE,
    Json,
    NoProgress,
    Overwrite,
    Tables,
    option,
    output_option,
    takes,
)
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError

if TYPE_CHECKING:
    from factored_mwem.owner.attack.result import Attack
    from factored_mwem.request.package import Package

ENDING = ".attack.NOT-PRIVATE.jsonl"
Seen = Annotated[
    str | None,
    output_option(
        "What was seen, NOT PRIVATE, a line a release: the same command goes on from there.  [default: "
        f"NAME{ENDING}]"
    ),
]


@takes(*RELEASE, Group.CONFIG)
def attack_command(
    table: Tables,
    settings: ReleaseSettings,
    releases: Annotated[
        int, option("Releases with each target, and as many without.", panel=Group.EFFORT, min=8)
    ] = 100,
    targets: Annotated[
        int, option("People to attack: half outliers, half average.", panel=Group.EFFORT, min=1)
    ] = 4,
    canaries: Annotated[
        int, option("People whom coins put into one more release; 0: none.", panel=Group.EFFORT, min=0)
    ] = 200,
    among: Annotated[
        int,
        option("How many people of the table take part, drawn at random; 0: all.", panel=Group.EFFORT, min=0),
    ] = 1000,
    guess: Annotated[
        str | None,
        option("Column whose value is guessed of a target.  [default: the last]", metavar="COLUMN"),
    ] = None,
    output: Seen = None,
    overwrite: Overwrite = False,
    json_only: Json = False,
    no_progress: NoProgress = False,
) -> None:
    """NOT PRIVATE: attack releases of the table with these settings: tell from each whether a person is in
    it, and guess a value of theirs. What that shows stands beside what was promised. Of a package, name its
    descriptor: a root, with all that hangs on it, is in it or not.

    Exit code 1 if more was shown than was promised. Nothing is published or entered in a ledger. Copies of
    the table go to a private folder in TMPDIR, removed at the end, or by the next run if this one is killed.
    """
    from factored_mwem.cli import console
    from factored_mwem.owner.attack.result import Effort
    from factored_mwem.pipeline.progress import show_count

    source = source_of(table)
    check_kept(source, settings, "attack")
    package = package_at(source, LinkFlags())
    kept = _kept(source, package, settings, output)
    if overwrite:
        kept.unlink(missing_ok=True)
    show = console.wants_progress(no_progress) and not json_only
    with show_count("attacking releases") if show else contextlib.nullcontext() as step:
        found = _attacked(
            source,
            package,
            settings,
            effort=Effort(releases, targets, canaries, among, guess),
            kept=kept,
            report=step or (lambda _, __: None),
        )
    print(json.dumps(found.facts) if json_only else attack_text(found), flush=True)
    if not found.holds:
        raise typer.Exit(1)


def _attacked(source: TableName, package: Package | None, settings: ReleaseSettings, **how: Any) -> Attack:
    """What an attack on a table found, or on a package."""
    from factored_mwem.cli.jobs import public_of, request_of
    from factored_mwem.cli.packaging import domains_beside, marginals_alone
    from factored_mwem.owner.attack.attack import attack
    from factored_mwem.owner.attack.packages import attack_tables

    if package is not None:
        order, domains = marginals_alone(settings), domains_beside(package)
        return attack_tables(package, order, settings.policy, domains=domains, **how)
    how |= {"domain": domain_path(source, settings.domain), "columns": settings.columns}
    return attack(
        source, request_of(source, settings).workload, settings.policy, **how, **public_of(settings)
    )


def _kept(source: TableName, package: Package | None, settings: ReleaseSettings, output: str | None) -> Path:
    """Where what an attack sees is kept. Raises InputError if it cannot be."""
    from factored_mwem.cli.jobs import check_files
    from factored_mwem.cli.packaging import package_title
    from factored_mwem.tables.inputs.uris import is_uri
    from factored_mwem.tables.outputs.targets import target_of

    if is_uri(output or ""):
        raise InputError(f"{output}: what an attack saw stays on this machine; name a file here")
    name = title(source) if package is None else package_title(source)
    kept = Path(output or f"{name}{ENDING}")
    linked = () if package is None else (*package.private, *package.public)
    read = [path for each in linked for path in read_paths(each.source)]
    check_files([target_of(str(kept))], source, settings, *read)
    return kept


def attack_text(found: Attack) -> str:
    """What `fmwem attack` prints."""
    from factored_mwem.cli.console import aligned

    many, guesses, right = found.canaries
    promised = f"epsilon {found.epsilon:g}" + (f", delta {found.delta:g}" if found.delta else "")
    lines = [
        "NOT PRIVATE: these numbers look at single people of the real table; do not publish them",
        f"{found.releases:,} releases of {found.people:,} people, with each target and without",
        f"promised: {promised}; advantage of a guess at most {found.advantage:.3f}",
        f"shown:    epsilon {found.least_epsilon:.3f} or more; advantage {found.least_advantage:.3f} or more "
        "(all bounds together hold with 95 %)",
        f"so many can show epsilon {found.shown_at_most:.3f} at most, canaries too, if every guess is right",
    ]
    rows = [("target", "score", "advantage", "at least", "epsilon at least")]
    for kind in dict.fromkeys(score.kind for score in found.scores):
        for name in dict.fromkeys(score.name for score in found.scores):
            some = [score for score in found.scores if (score.kind, score.name) == (kind, name)]
            mean = sum(score.advantage for score in some) / len(some)
            least = max(score.least_advantage for score in some)
            rows.append(
                (kind, name, f"{mean:.3f}", f"{least:.3f}", f"{max(s.least_epsilon for s in some):.3f}")
            )
    lines += aligned(rows, left=(0, 1))
    if many:
        lines.append(
            f"{many} canaries in one release: {right} of {guesses} guesses right, epsilon "
            f"{found.canaries_epsilon:.3f} or more"
        )
    if found.holds:
        return "\n".join([*lines, "holds: no attack showed more than was promised"])
    return "\n".join([*lines, "BROKEN: an attack showed more than was promised"])
