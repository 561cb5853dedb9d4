"""Summary: the closing lines of a release, for the person who answers for the table. What was promised, how
good it is expected to be, what needs a look, what to do next. Public facts only; `--verbose` adds `details`.
"""

from __future__ import annotations

import math
import re
import shlex
import textwrap
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from factored_mwem.cli.certificate_text import certificate_text
from factored_mwem.cli.console import lined, piece, rows_in_words
from factored_mwem.errors import some_names
from factored_mwem.tables.targets import LocalFile

if TYPE_CHECKING:
    from factored_mwem.cli.jobs import Done
    from factored_mwem.pipeline.manifest import Manifest

MOST_WARNINGS, MOST_LETTERS = 3, 160
"""Of a table with hundreds of columns a summary shows the worst; the manifest has them all."""
WIDTH = 88
LITTLE = 0.02
"""A learnt column that loses more than this share of its values is named."""


def summary(done: Done, commands: Collection[str]) -> list[str]:
    """Lines for a steward; `commands`: those that may be named as the next ones."""
    manifest = done.manifest
    assert manifest.output is not None  # as of every manifest that was written
    size = f"{manifest.output.rows:,} synthetic rows of {len(manifest.attributes):,} columns"
    lines = lined("released", [size])
    if done.reused:
        lines = ["this run was finished before: its files are as it wrote them, nothing was spent", *lines]
    lines += lined("promise", _folded(promise(manifest)))
    lines += lined("expect", _folded(expectation(manifest)))
    looks = [f"{piece(file)} is of an earlier release: remove it" for file in done.stale]
    lines += lined("look at", _folded([*looks, *attention(manifest, str(done.files.manifest))]))
    lines += lined("next", next_steps(done, commands))
    return [*lines, *lined("file", map(piece, done.files.all))]


def _folded(lines: Iterable[str]) -> list[str]:
    """Lines that fit most screens, what goes on indented."""
    return [part for text in lines for part in textwrap.wrap(text, WIDTH, subsequent_indent="  ")]


def promise(manifest: Manifest) -> list[str]:
    """What is promised to each person: in words, then as who knows the field writes it."""
    g = manifest.guarantee
    times = f"{math.exp(g.epsilon):.4g}" if g.epsilon < 9 else f"e^{g.epsilon:g}"
    more = f" (and {g.delta:g} more)" if g.delta else ""
    rows = f"(at most {rows_in_words(g.contributions)})"
    other = f"with any one person {rows} exchanged"
    by = manifest.policy.get("privacy_id")
    kept = f"; column {piece(repr(by))} named the person" if by is not None else ""
    kind = f"({g.epsilon:g}, {g.delta:g})" if g.delta else f"{g.epsilon:g}"
    return [
        f"whatever these files show is at most {times} times as likely{more} as it would be "
        + (other if g.neighbours == "replace" else f"without any one person {rows}")
        + kept,
        f"{kind}-differential privacy; epsilon {g.spent_epsilon:.4g} was spent; the manifest lists what that "
        "rests on",
    ]


def expectation(manifest: Manifest) -> list[str]:
    """How far off the rows are expected to be, as far as public facts say."""
    if manifest.certificate is not None:
        return certificate_text(manifest.certificate)
    found = _noise_of_columns(manifest)
    if not found:
        return []
    worst = max(found, key=lambda name: found[name])
    mean = sum(found.values()) / len(found)
    most = f", in {piece(repr(worst))} by {_percent(found[worst])}" if len(found) > 1 else ""
    return [
        f"noise moves the share of one value of a column by about {_percent(mean)} of all rows{most}; "
        "several columns together are less sure"
    ]


def _noise_of_columns(manifest: Manifest) -> dict[str, float]:
    """By column that was measured on its own: the mean size of the noise of a value, as a share of all rows.

    Of a Gaussian of deviation s it is s * sqrt(2 / pi), of a Laplace distribution of scale b it is b.
    """
    size = math.sqrt(2 / math.pi) if manifest.guarantee.composition == "zcdp" else 1.0
    names, rows = {a.name for a in manifest.attributes}, max(manifest.estimated_rows, 1)
    found: dict[str, float] = {}
    for m in manifest.measurements:
        if len(m.attributes) == 1 and m.attributes[0] in names:
            share = m.scale * size / rows
            found[m.attributes[0]] = min(share, found.get(m.attributes[0], share))
    return found


def _percent(share: float) -> str:
    return f"{min(share, 1.0) * 100:.2g} %"


def attention(manifest: Manifest, file: str) -> list[str]:
    """What the steward should look at before anybody uses the rows: the worst first, few of them."""
    losses = {
        a.name: max(a.other or 0.0, a.clipped or 0.0) for a in manifest.attributes if a.kept is not None
    }
    of_column = {repr(name): loss for name, loss in losses.items()}
    ordered = sorted(manifest.warnings, key=lambda text: -of_column.get(text.partition(":")[0], 2.0))
    lines = [piece(_cut(text)) for text in ordered[:MOST_WARNINGS]]
    if len(ordered) > MOST_WARNINGS:
        lines.append(f'and {len(ordered) - MOST_WARNINGS:,} more: "warnings" of {piece(file)}')
    worst = max(losses, key=lambda name: losses[name], default=None)
    if worst is not None and losses[worst] > LITTLE and not ordered:
        lines.append(
            f"of {piece(repr(worst))}, which was learnt, {losses[worst]:.1%} of the values were lost"
        )
    alone = sorted(part[0] for part in manifest.components if len(part) == 1)
    if alone and len(manifest.attributes) > 1 and _asks_for_pairs(manifest):
        stand, go = ("stands", "it goes") if len(alone) == 1 else ("stand", "they go")
        lines.append(f"{piece(some_names(alone))} {stand} alone: nothing was kept of how {go} with others")
    return lines


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 3] + "..."


def _asks_for_pairs(manifest: Manifest) -> bool:
    asked = dict(manifest.workload)
    return any(order > 1 for order in asked.pop("marginals", ())) or any(asked.values())


def next_steps(done: Done, commands: Collection[str]) -> Iterator[str]:
    """Commands to copy, with the names of the files."""
    model = done.files.model
    if "report" in commands and isinstance(done.files.manifest, LocalFile):
        yield f"fmwem report {_word(done.files.manifest)}"
    if model is None:
        yield "no model was kept: more rows, and answers with error bars, would be a new release"
    elif isinstance(model, LocalFile):
        if "answer" in commands:
            names = (
                a.name for a in done.manifest.attributes if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", a.name)
            )
            by = next((f" by {name}" for name in names), "")
            yield f"fmwem answer {_word(model)} {shlex.quote(f'count{by}')}"
        yield f"fmwem sample {_word(model)} -n 1000"


def _word(file: LocalFile) -> str:
    """A file's name as one word of a shell, that no option is taken for."""
    name = str(file)
    return piece(shlex.quote(f"./{name}" if name.startswith("-") else name))
