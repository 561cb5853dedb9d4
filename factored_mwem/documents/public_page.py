"""Public page: a release on one page, from its manifest, its model and its rows, which are all public."""

from __future__ import annotations

from factored_mwem.documents.budget import budget_of
from factored_mwem.documents.columns import columns_of
from factored_mwem.documents.expected import errors_of
from factored_mwem.documents.material import Material
from factored_mwem.documents.page import counted, figure, filled, listed, percent, plain
from factored_mwem.documents.promise import layers_of, promise_of
from factored_mwem.documents.ties import ties_of
from factored_mwem.pipeline.record.manifest import Manifest

MOST_LINES = 40
"""Warnings and notes that are shown."""
MOST_PARTS = 20


def public_page(material: Material) -> str:
    """The HTML of the page: the same bytes from the same release."""
    manifest = material.manifest
    columns = columns_of(material)
    return filled(
        "public.html",
        title=_title(manifest),
        released=_released(material),
        promise=promise_of(manifest),
        budget=budget_of(manifest),
        layers=layers_of(manifest),
        columns=columns,
        fates=[(c["name"], *c["fates"]) for c in columns if c["fates"] is not None],
        counted=None if material.rows is None else f"{material.rows.rows:,}",
        all_counted=material.rows is not None and _rows(material) <= material.rows.rows,
        ties=ties_of(material),
        errors=errors_of(material),
        warnings=_lines(manifest.warnings),
        notes=_lines(manifest.notes),
        lacking=material.lacking,
        digests=_digests(manifest),
        chain_head=plain(manifest.chain_head or "", 64),
        manifest=manifest,
        figure=figure,
        spent=figure(manifest.guarantee.spent_epsilon, 6),
    )


def _title(manifest: Manifest) -> str:
    return plain(manifest.output.file, 80) if manifest.output is not None else "a release not yet written"


def _rows(material: Material) -> int:
    output, release = material.manifest.output, material.release
    return output.rows if output is not None else release.rows if release is not None else 0


def _released(material: Material) -> list[tuple[str, str]]:
    """The facts about what was released: (name, value)."""
    manifest, g = material.manifest, material.manifest.guarantee
    learnt = sum(a.domain == "learnt" for a in manifest.columns)
    # the number of rows of a person is not a released column
    columns = len(manifest.columns) - (manifest.people is not None)
    declared = columns - learnt
    rows = f"{_rows(material):,}"
    domain = f"the values of {declared:,} declared, of {learnt:,} learnt inside the budget"
    if not learnt or not declared:
        domain = f"all values {'learnt inside the budget' if learnt else 'declared'}"
    facts = [
        ("Rows", f"{rows}, drawn from a model; {_total(manifest)}"),
        *_people(manifest),
        ("Columns", f"{columns:,}; {domain}"),
        ("Asked for", _workload(manifest)),
        (
            "Privacy loss",
            f"epsilon {figure(g.epsilon)}, delta {figure(g.delta)}; {plain(g.neighbours)} neighbours",
        ),
        ("Method", _method(manifest)),
        ("Made", f"{manifest.created} by factored-mwem {plain(manifest.tool_version)}"),
    ]
    if material.domain.rules:
        facts.append(
            ("Rules", f"{counted(len(material.domain.rules), 'rule')} of the domain, kept in every row")
        )
    return facts


def _people(manifest: Manifest) -> list[tuple[str, str]]:
    """The facts about people: the unit, how many of their rows are used, which columns are the same in
    all.
    """
    people = manifest.people
    if people is None:
        return []
    cut = "" if people.beyond is None else f"; {percent(people.beyond)} of them have more, by a noisy count"
    same = listed(people.constant) if people.constant else "none that noisy counts could tell"
    return [
        (
            "People",
            f"each weighs one, however many rows they have; rows of one have the same value in "
            f"{plain(people.column)}, which is made up",
        ),
        ("Rows of a person", f"at most {people.most_rows:,} are used{cut}"),
        ("The same in all rows of a person", same),
    ]


def _total(manifest: Manifest) -> str:
    """How many rows the private table has."""
    if manifest.people is not None:
        rows = f"about {manifest.estimated_rows:,}, of those that are used"
        return f"the private table has about {manifest.people.estimated:,} people and {rows}, by noisy counts"
    rows, known = f"about {manifest.estimated_rows:,}", "by a noisy count"
    if "rows" in manifest.guarantee.assumptions:
        rows, known = f"{manifest.estimated_rows:,}", "which is taken as public"
    if left_out := manifest.asked_policy.left_out:
        return f"{rows} of the private table are used, {known}; {plain(left_out, 400)}"
    return f"the private table has {rows}, {known}"


def _method(manifest: Manifest) -> str:
    engine = "clique trees" if manifest.policy.get("engine") == "tree" else "the MWEM paper's algorithm"
    how = counted(manifest.rounds, "round") if manifest.rounds else "everything measured at once"
    return f"factored MWEM ({engine}), {how}, {counted(len(manifest.measurements), 'noisy marginal')}"


def _workload(manifest: Manifest) -> str:
    """The workload in words."""
    workload = manifest.queries
    words = [f"all marginals of up to {order} columns" for order in workload.orders]
    if workload.named:
        words.append(counted(len(workload.named), "marginal by name"))
    words += [plain(request.in_words(), 120) for request in workload.asked]
    return "; ".join(words[:8]) + (f" and {len(words) - 8} more" if len(words) > 8 else "")


def _lines(texts: tuple[str, ...]) -> list[str]:
    """The first of them, and how many more there are."""
    shown = [plain(text, 500) for text in texts[:MOST_LINES]]
    more = len(texts) - MOST_LINES
    return [*shown, f"and {more:,} more, in the manifest"] if more > 0 else shown


def _digests(manifest: Manifest) -> list[tuple[str, str]]:
    """(file, sha256), of a folder's parts too."""
    output = manifest.output
    if output is None:
        return []
    parts = [(plain(part.file), plain(part.sha256, 64)) for part in output.parts[:MOST_PARTS]]
    return [(plain(output.file, 80), plain(output.sha256 or "", 64)), *parts]
