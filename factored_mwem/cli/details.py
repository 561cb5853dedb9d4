"""Details: what `release --verbose` adds to the summary, for who wants to know how it went. Public facts
only, but for the time it took, which is written nowhere.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import TYPE_CHECKING

from factored_mwem.cli.console import STARTED, fates_text, kind_in_words, lined, piece, rows_in_words
from factored_mwem.domain.domain import Domain

if TYPE_CHECKING:
    from factored_mwem.cli.jobs import Done
    from factored_mwem.pipeline.manifest import Manifest


def details(done: Done) -> list[str]:
    """The costs by stage, the model's parts, every learnt column, and what it took."""
    manifest, g = done.manifest, done.manifest.guarantee
    trusted = [name for name, _ in g.assumptions.taken_on_trust()] if g.assumptions is not None else []
    unchecked = "(not enforced; the manifest's guarantee.assumptions says what each means)"
    by = manifest.policy.get("privacy_id")
    kept = f", kept by {piece(repr(by))}; rows without an id are left out" if by is not None else ""
    learnt = sum(a.domain == "learnt" for a in manifest.attributes)
    resumed = done.facts.get("resumed")
    facts = {
        "spent": f"epsilon {g.spent_epsilon:.6g} of {g.epsilon:g}, delta {g.delta:g}",
        "neighbours": f"{piece(g.neighbours)}, at most {rows_in_words(g.contributions)} a person{kept}",
        "on trust": f"{', '.join(trusted)} {unchecked}" if trusted else None,
        "budget": _budget(manifest),
        "domain": done.domain_from + (f"; {learnt} attributes learnt inside the budget" if learnt else ""),
        "attributes": _attributes(manifest),
        "rounds": _rounds(manifest),
        "resumed": f"{resumed} draws came from the run's journal" if resumed is not None else None,
    }
    lines = [
        entry for word, text in facts.items() if text is not None for entry in lined(word, [piece(text)])
    ]
    lines += [*lined("learnt", _learnt(manifest)), *lined("note", map(piece, manifest.notes))]
    took = f"{time.monotonic() - STARTED:.1f} s, peak memory {peak_megabytes():.0f} MB (not in any file)"
    return [*lines, *lined("took", [took])]


def _budget(manifest: Manifest) -> str:
    unit = "rho" if manifest.guarantee.composition == "zcdp" else "epsilon"
    return ", ".join(
        f"{s.stage} {s.share:.1%} ({unit} {s.cost:.3g}{f', delta {s.delta:.2g}' if s.delta else ''})"
        for s in manifest.stages
    )


def _attributes(manifest: Manifest) -> str:
    sizes = sorted((len(c) for c in manifest.components), reverse=True)
    return (
        f"{len(manifest.attributes)} in {len(sizes)} components of {_run_lengths(sizes)} attributes, "
        f"{len(manifest.cliques)} cliques"
    )


def _rounds(manifest: Manifest) -> str:
    said = f"{manifest.rounds}; {len(manifest.measurements)} noisy measurements"
    for r in manifest.residuals:
        said += f"; {r.answers:,} residual answers of {r.subsets:,} attribute sets at once"
    return said


def _learnt(manifest: Manifest) -> list[str]:
    """A table of what became of the values of learnt columns; nothing where there are none."""
    domain = Domain.from_dict(manifest.domain)
    fates = {
        a.name: (kind_in_words(domain[a.name]), a.kept, a.clipped, a.other, a.missing)
        for a in manifest.attributes
        if a.kept is not None
    }
    return fates_text(fates) if fates else []


def _run_lengths(sizes: list[int]) -> str:
    counts = {size: sizes.count(size) for size in dict.fromkeys(sizes)}
    return " + ".join(f"{count} x {size}" if count > 1 else str(size) for size, count in counts.items())


def peak_megabytes() -> float:
    """Peak resident memory of this process; the kernel counts kilobytes, on macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
