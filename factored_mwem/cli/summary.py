"""Summary: the closing lines of a release, for the person who answers for the table. What was promised, how
good it is expected to be, what needs a look, what to do next. Public facts only; `--verbose` adds `details`:
how the release went, with the time it took, which is written nowhere.
"""

from __future__ import annotations

import math
import re
import resource
import shlex
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from factored_mwem.cli.console import (
    STARTED,
    counted_in_words,
    fates_text,
    lined,
    piece,
    replaced_text,
)
from factored_mwem.domain.companions import PREVIOUS
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import some_names
from factored_mwem.tables.outputs.targets import LocalFile

if TYPE_CHECKING:
    from factored_mwem.cli.jobs import Done
    from factored_mwem.pipeline.record.manifest import Certificate, CertifiedError, Manifest

MOST_WARNINGS, MOST_LETTERS = 3, 300
"""Most warnings, and most letters of one: for a table with hundreds of columns a summary shows the worst; the
manifest has them all.
"""
MOST_FOUND = 8
"""Rules that are named."""
WIDTH = 88
LITTLE = 0.02
"""A learnt column that loses more than this share of its values is named."""

FAR = 0.5
"""A measured mean error beyond this is named: a quarter of the rows would have to be others."""


def summary(done: Done) -> list[str]:
    """Lines for a steward."""
    manifest = done.manifest
    assert manifest.output is not None  # as of every manifest that was written
    again = ["this run was finished before: its files are as it wrote them, nothing was spent"]
    size = f"{manifest.output.rows:,} synthetic rows of {counted_in_words(len(manifest.columns), 'column')}"
    # ROWS_OF_PERSON is not a column of the rows, but the id is one, so the number of columns is right
    if manifest.people is not None:
        size += (
            f", of about {manifest.people.estimated:,} made-up people in {piece(manifest.people.column)!r}"
        )
    looks = [
        *replaced_text(manifest),
        *(f"{piece(file)} is of an earlier release: remove it" for file in done.stale),
        *attention(manifest, str(done.files.manifest)),
    ]
    return [
        *(again if done.reused else []),
        *lined("released", [size]),
        *lined("promise", _folded(promise(manifest))),
        *lined("expect", _folded(expectation(manifest))),
        *lined("found", _folded(found_rules(manifest))),
        *lined("look at", _folded(looks)),
        *lined("next", next_steps(done)),
        *lined("file", map(piece, done.files.all)),
    ]


def _folded(lines: Iterable[str]) -> list[str]:
    """Lines that fit most screens, with continued lines indented."""
    return [part for text in lines for part in textwrap.wrap(text, WIDTH, subsequent_indent="  ")]


def promise(manifest: Manifest) -> list[str]:
    """The promise to each person: in words, then in the notation of the field."""
    g, by = manifest.guarantee, manifest.policy.get("privacy_id")
    times = f"{math.exp(g.epsilon):.4g}" if g.epsilon < 9 else f"e^{g.epsilon:g}"
    more = f" (and {g.delta:g} more)" if g.delta else ""
    rows = f"(at most {counted_in_words(g.contributions, 'row')})"
    other = f"with any one person {rows} exchanged" if g.neighbours == "replace" else ""
    person = f"; column {piece(repr(by))} named the person" if by is not None else ""
    numbers = f"({g.epsilon:g}, {g.delta:g})" if g.delta else f"{g.epsilon:g}"
    return [
        f"whatever these files show is at most {times} times as likely{more} as it would be "
        f"{other or f'without any one person {rows}'}{person}",
        f"{numbers}-differential privacy; epsilon {g.spent_epsilon:.4g} was spent; the manifest lists what "
        "that rests on",
    ]


def expectation(manifest: Manifest) -> list[str]:
    """How far off the rows are expected to be, as far as public facts say."""
    if manifest.certificate is not None:
        return _certified(manifest.certificate)
    noise = _noise_of_columns(manifest)
    if not noise:
        return []
    worst = max(noise, key=lambda name: noise[name][0])
    mean, in_all = (sum(each) / len(noise) for each in zip(*noise.values(), strict=True))
    most = f", in {piece(repr(worst))} by {_percent(noise[worst][0])}" if len(noise) > 1 else ""
    whole = "rows" if manifest.people is None else "people"
    one = (
        f"one column: noise moves one value's share by about {_percent(mean)} of all {whole}{most}; all "
        f"shares by {in_all:.2g} together (L1, 0 to 2)"
    )
    more = "two or more: further off, by noise and by the model; `--certificate 0.05` measures it"
    return [one, more] if len(manifest.columns) > 1 else [one]


def found_rules(manifest: Manifest) -> list[str]:
    """The rules between columns that were found inside the budget, in one line; and what noisy counts say is
    the same in all rows of a person.
    """
    words = [piece(rule.words) for rule in manifest.found_rules]
    more = f"; and {len(words) - MOST_FOUND:,} more" if len(words) > MOST_FOUND else ""
    lines = [f"{'; '.join(words[:MOST_FOUND])}{more}: kept in every row"] if words else []
    if manifest.people is not None and manifest.policy.get("person_columns") is None:
        same = manifest.people.constant
        what = piece(some_names(same)) if same else "no column, as far as noisy counts tell"
        lines.append(f"the same in all rows of a person: {what} (--person-columns says it)")
    return lines


def _certified(certificate: Certificate) -> list[str]:
    """A line for each mean, for the worst column and for the worst of all."""
    lines = [_certified_error(error) for error in certificate.errors if error.what != "column"]
    columns = [error for error in certificate.errors if error.what == "column"]
    if columns:
        worst = max(columns, key=lambda error: error.high)
        lines.append(f"no column is off by more than {worst.high:.3g}, the bound of {_names(worst)}")
    lines.append(
        f"an error adds up by how much all shares of {certificate.counted} differ: 0 is none, 2 the most; "
        f"all bounds hold at {certificate.confidence:.0%}"
    )
    if certificate.criteria:
        tried = f", by try {certificate.tried} of {certificate.tries}" if certificate.tries > 1 else ""
        lines.append(f"accepted{tried}: {'; '.join(map(piece, certificate.criteria))}")
    return lines


def _names(error: CertifiedError) -> str:
    return ", ".join(repr(piece(name)) for name in error.attributes)


def _certified_error(error: CertifiedError) -> str:
    of = f"{error.sets:,}" if error.sets == error.asked else f"{error.sets:,} (of {error.asked:,}, at random)"
    bounds = f"{error.estimate:.3g}, from {error.low:.3g} to {error.high:.3g}"
    if error.what == "mean":
        return f"mean error of {of} {error.order}-way marginals: {bounds}"
    return f"the worst of {of} marginals: {bounds}; {_names(error)}"


def _noise_of_columns(manifest: Manifest) -> dict[str, tuple[float, float]]:
    """For each column that was measured on its own and has more than one value, for one is all:
    the mean size of the noise of a value, as a share of all rows, and the sum over its values, at most 2.

    Of a Gaussian of deviation s it is s * sqrt(2 / pi), of a Laplace distribution of scale b it is b.
    """
    size = math.sqrt(2 / math.pi) if manifest.guarantee.composition == "zcdp" else 1.0
    names, rows = {a.name for a in manifest.columns}, max(manifest.counted, 1)
    noise: dict[str, tuple[float, float]] = {}
    for m in manifest.measurements:
        if len(m.attributes) == 1 and m.attributes[0] in names and m.cells > 1:
            share = m.scale * size / rows
            both = (share, min(share * m.cells, 2.0))
            noise[m.attributes[0]] = min(both, noise.get(m.attributes[0], both))
    return noise


def _percent(share: float) -> str:
    return f"{min(share, 1.0) * 100:.2g} %"


def attention(manifest: Manifest, file: str) -> list[str]:
    """What the steward should look at before anybody uses the rows: the worst first, few of them."""
    losses = {a.name: a.lost for a in manifest.attributes if a.kept is not None}
    of_column = {repr(name): loss for name, loss in losses.items()}
    ordered = sorted(manifest.warnings, key=lambda text: -of_column.get(text.partition(":")[0], 2.0))
    lines = [piece(_cut(text)) for text in ordered[:MOST_WARNINGS]]
    if len(ordered) > MOST_WARNINGS:
        lines.append(f'and {len(ordered) - MOST_WARNINGS:,} more: "warnings" of {piece(file)}')
    worst = max(losses, key=lambda name: losses[name], default=None)
    if worst is not None and losses[worst] > LITTLE and not ordered:
        lines.append(
            f"in {piece(repr(worst))}, whose values were learnt, {losses[worst]:.1%} of the values were lost"
        )
    alone, untold = _alone(manifest)
    if alone and len(manifest.columns) > 1 and _asks_for_pairs(manifest):
        stand = "stands" if len(alone) == 1 else "stand"
        lines.append(f"{piece(some_names(alone))} {stand} alone: no dependence on other columns was kept")
    if untold:
        lines.append(f"which value follows which was lost in noise for {piece(some_names(untold))}")
    if manifest.certificate is not None:
        lines += _far(manifest.certificate)
    return lines


def _far(certificate: Certificate) -> Iterator[str]:
    """What was measured to be far off: half the distance of shares is the part of the rows that are wrong."""
    for error in certificate.errors:
        if error.what == "mean" and error.low > FAR:
            yield (
                f"{50 * error.estimate:.0f} of 100 {certificate.counted} would have to be others for a "
                f"{error.order}-way marginal to be right, on average: fewer columns, fewer values (join some "
                "in the domain) or a higher epsilon help"
            )


def _alone(manifest: Manifest) -> tuple[list[str], list[str]]:
    """The columns that no other was measured with, and those whose value in the row before was not. One of a
    single value depends on none.
    """
    single = {a.name for a in manifest.attributes if a.codes == 1}
    names = {part[0] for part in manifest.components if len(part) == 1} - single
    before = {name for name in names if manifest.people and name in manifest.people.companions}
    untold = [name.removeprefix(PREVIOUS) for name in before if name.startswith(PREVIOUS)]
    return sorted(names - before), sorted(untold)


def _cut(text: str) -> str:
    """Between words: a part of a number is another one."""
    if len(text) <= MOST_LETTERS:
        return text
    start = text[: MOST_LETTERS - 4]
    return f"{start.rpartition(' ')[0] or start} ..."


def _asks_for_pairs(manifest: Manifest) -> bool:
    workload = dict(manifest.workload)
    return any(order > 1 for order in workload.pop("marginals", ())) or any(workload.values())


def next_steps(done: Done) -> Iterator[str]:
    """Commands to copy, with the names of the files."""
    model = done.files.model
    if isinstance(done.files.manifest, LocalFile):
        yield f"fmwem report {_word(done.files.manifest)}"
    if model is None:
        yield "no model was kept: more rows, and answers with error bars, would be a new release"
    elif isinstance(model, LocalFile):
        varied = [a.name for a in done.manifest.attributes if a.codes > 1]  # not all `other`
        by = next((f" by {name}" for name in varied if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name)), "")
        if done.manifest.people is None:
            yield f"fmwem answer {_word(model)} {shlex.quote(f'count{by}')}"
        yield f"fmwem sample {_word(model)} -n 1000"


def _word(file: LocalFile) -> str:
    """A file's name as one word of a shell, that no option is taken for."""
    name = str(file)
    return piece(shlex.quote(f"./{name}" if name.startswith("-") else name))


def details(done: Done) -> list[str]:
    """The costs by stage, the model's parts, every learnt column, and what it took."""
    manifest, g = done.manifest, done.manifest.guarantee
    trusted = ", ".join(name for name, _ in g.taken_on_trust())
    by = manifest.policy.get("privacy_id")
    bound = f", kept by {piece(repr(by))}; rows without an id are left out" if by is not None else ""
    learnt = sum(a.domain == "learnt" for a in manifest.attributes)
    resumed = done.facts.get("resumed")
    facts = {
        "spent": f"epsilon {g.spent_epsilon:.6g} of {g.epsilon:g}, delta {g.delta:g}",
        "neighbours": (
            f"{piece(g.neighbours)}, at most {counted_in_words(g.contributions, 'row')} a person{bound}"
        ),
        "on trust": trusted
        and f"{trusted} (not enforced; the manifest's guarantee.assumptions says what each means)",
        "budget": _budget(manifest),
        "domain": done.domain_from + (f"; {learnt} attributes learnt inside the budget" if learnt else ""),
        "attributes": _attributes(manifest),
        "rounds": _rounds(manifest),
        "resumed": f"{resumed} draws came from the run's journal" if resumed is not None else "",
    }
    took = f"{time.monotonic() - STARTED:.1f} s, peak memory {peak_megabytes():.0f} MB (not in any file)"
    return [
        *(line for word, text in facts.items() if text for line in lined(word, [piece(text)])),
        *lined("learnt", _learnt(manifest)),
        *lined("note", map(piece, manifest.notes)),
        *lined("took", [took]),
    ]


def _budget(manifest: Manifest) -> str:
    unit = "rho" if manifest.guarantee.composition == "zcdp" else "epsilon"
    return ", ".join(
        f"{s.stage} {s.share:.1%} ({unit} {s.cost:.3g}{f', delta {s.delta:.2g}' if s.delta else ''})"
        for s in manifest.stages
    )


def _attributes(manifest: Manifest) -> str:
    sizes = Counter(len(part) for part in manifest.components)
    parts = (f"{count} x {size}" if count > 1 else str(size) for size, count in sorted(sizes.items())[::-1])
    return (
        f"{len(manifest.attributes)} in {counted_in_words(len(manifest.components), 'independent part')} of "
        f"{' + '.join(parts)}, {counted_in_words(len(manifest.cliques), 'table')}"
    )


def _rounds(manifest: Manifest) -> str:
    words = f"{manifest.rounds}; {counted_in_words(len(manifest.measurements), 'noisy measurement')}"
    for r in manifest.residuals:
        words += f"; {r.answers:,} residual answers of {r.subsets:,} attribute sets at once"
    return words


def _learnt(manifest: Manifest) -> list[str]:
    """A table of what became of the values of learnt columns; nothing if there are none."""
    fates = {a.name: a for a in manifest.attributes if a.kept is not None}
    return fates_text(Domain.from_dict(manifest.domain), fates) if fates else []


def peak_megabytes() -> float:
    """Peak resident memory of this process; the kernel counts kilobytes, on macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
