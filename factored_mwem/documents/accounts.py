"""Accounts: sentences for catalogues that state what was promised and how it was kept.

Each follows from the manifest alone; facts that only the owner knows are not among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from factored_mwem.accounting.unit import Neighbours
from factored_mwem.documents.published import ColumnSection, Published

MAX_COLUMNS = 100
"""Most columns in a sentence; the data package and the contract list all of them."""


def title(release: Published) -> str:
    return (
        f"Synthetic table of {release.output.rows:,} rows and {len(release.columns):,} columns, "
        f"made with {release.manifest.guarantee.statement}."
    )


def promise(release: Published) -> dict[str, Any]:
    """The promise in numbers, who is protected, and how, in the words that catalogues use; with rho, if costs
    add up in rho.
    """
    g = release.manifest.guarantee
    return {
        "epsilon": g.epsilon,
        "delta": g.delta,
        **({"rho": release.rho} if release.rho is not None else {}),
        "spentEpsilon": g.spent_epsilon,
        "neighbours": g.neighbours,
        "contributions": g.contributions,
        "privacyUnit": release.manifest.asked_policy.protected(),
    }


def sentences(release: Published) -> dict[str, str]:
    """How the promise is kept, by the question that each sentence answers."""
    return {
        "adjacency": adjacency(release),
        "composition": composition(release),
        "mechanisms": mechanisms(release),
        "postProcessing": post_processing(release),
        "unprotectedQuantities": unprotected(release),
        "tuning": tuning(release),
    }


def adjacency(release: Published) -> str:
    """Which tables are adjacent, precisely."""
    rows = _rows(release)
    policy = release.manifest.asked_policy
    if policy.neighbours is Neighbours.ADD_REMOVE:
        change = f"one person with {rows} is added or removed"
        distance = f"the symmetric difference of the two tables, as multisets of rows, has {rows}"
    else:
        change = f"the rows of one person, {rows}, are exchanged for those of another, {rows}"
        distance = f"{rows} of the one are not in the other, as multisets of rows, and the other way round"
    if policy.privacy_id is not None:
        distance += f", once {rows} of each value of the column {policy.privacy_id!r} are kept"
    same = ". Both have the same number of rows" if policy.unit.total_is_public else ""
    record = assumption(release, "records")
    sentence = f"Two tables are adjacent where {change}: {distance}{same}."
    return sentence + (f" {_sentence(record)}" if record else "")


def _rows(release: Published) -> str:
    k = release.manifest.asked_policy.contributions
    return f"at most {k:,} rows" if k > 1 else "at most one row"


def parameters(release: Published) -> str:
    """How the numbers of the promise are computed."""
    promise = release.manifest.guarantee
    spent = f"The charges amount to epsilon {promise.spent_epsilon:.6g} (promised: {promise.epsilon:g})"
    if release.rho is None:
        return f"{spent}; delta is 0."
    return (
        f"{spent} at delta {promise.delta:g}; their rho in zero-concentrated differential privacy is "
        f"{release.rho:.6g}."
    )


def composition(release: Published) -> str:
    count = len(release.manifest.ledger)
    charges = f"{count:,} charge{'s' * (count != 1)}, each made before its noise was drawn"
    if release.rho is None:
        return f"Sequential composition: the epsilons of {charges}, add up."
    besides = ""
    if release.charged_delta:
        besides = (
            f" Thresholds that protect rare values take {release.charged_delta:.3g} of delta in addition."
        )
    return (
        f"Sequential, adaptive composition in zero-concentrated differential privacy: the rhos of {charges}, "
        f"add up to {release.rho:.6g}, which is converted once to epsilon at the delta that is left.{besides}"
    )


def mechanisms(release: Published) -> str:
    """Which samplers drew the noise, and what protects them against floating point and timing."""
    manifest = release.manifest
    drawn = Counter(charge.mechanism.value for charge in manifest.ledger)
    listed = ", ".join(f"{name} ({times:,} times)" for name, times in drawn.items())
    loop = (
        "the MWEM algorithm"
        if release.manifest.asked_policy.engine == "mwem"
        else "a loop after MWEM on clique trees"
    )
    surroundings = assumption(release, "surroundings")
    return (
        f"{loop[0].upper()}{loop[1:]} selects what to ask and measures it with noise: {listed}. "
        f"Implemented by {manifest.tool} {manifest.tool_version}; samplers: {manifest.noise_library}. "
        "Floating point: counts, scores and sensitivities are integers and the noise on them is discrete, "
        "drawn from the system's entropy; there is no seed. "
        "Timing: nobody can send queries, and no file holds how long the run took."
        + (f" Taken on trust: {surroundings}." if surroundings else "")
    )


def post_processing(release: Published) -> str:
    if release.manifest.asked_policy.engine == "mwem":
        fitted = "A distribution is fitted to the noisy answers by multiplicative weights"
        drawn = "rows are drawn from it"
    else:
        fitted = "A log-linear model on clique trees is fitted to the noisy answers"
        drawn = "rows are drawn from it and moved towards the noisy answers"
    rules = " Rules between columns are kept in every row." if release.domain.rules else ""
    return (
        f"{fitted}; {drawn}; within a bin values are drawn without looking at the private table.{rules} "
        "None of this reads the private table."
    )


def tuning(release: Published) -> str:
    """Which choices the budget paid for, and which are taken on trust."""
    how = assumption(release, "domain")
    sentences = _sentence(how) if how else f"The domain was {'learnt' if release.learnt else 'declared'}."
    chosen = assumption(release, "parameters")
    certificate = release.manifest.certificate
    if certificate is not None and certificate.criteria:
        sentences += (
            f" This is try {certificate.tried} of up to {certificate.tries}, the first to meet the owner's "
            "criteria; all tries were paid for beforehand, out of the same budget."
        )
    return sentences + (f" Taken on trust: {chosen}." if chosen else "")


def unprotected(release: Published) -> str:
    """The facts about the private table that may be known without noise."""
    names = ("rows", "columns", "readable", "rules", "parameters")
    open_ones = [statement for name in names if (statement := assumption(release, name))]
    if not release.learnt and (statement := assumption(release, "domain")):
        open_ones.insert(0, statement)
    if not open_ones:
        return (
            "The manifest is of a version that lists no assumptions: names and types of columns are public."
        )
    noisy = "No statistic of the private table is released without noise."
    return f"{noisy} Taken as public: {'; '.join(open_ones)}."


def data_domain(release: Published) -> str:
    """The tables that there may be."""
    first = release.columns[:MAX_COLUMNS]
    rest = len(release.columns) - len(first)
    more = f"; and {rest:,} more" if rest else ""
    size = "a public number" if release.manifest.asked_policy.unit.total_is_public else "any number"
    return f"Tables with {size} of rows and these columns: {'; '.join(map(in_words, first))}{more}."


def in_words(column: ColumnSection) -> str:
    """A column's name, type and values in a phrase; of many values their number."""
    description = f"{column.name!r} ({column.type}"
    if column.values is not None:
        description += f", {len(column.values):,} values"
    elif column.minimum is not None:
        description += f", {column.minimum} to {column.maximum}"
    return description + (")" if column.required else ", may be missing)")


def accuracy(release: Published) -> Iterator[str]:
    """The errors by the certificate, which the budget paid for."""
    certificate = release.manifest.certificate
    if certificate is None:
        return
    for error in certificate.errors:
        of = f" of {', '.join(map(repr, error.attributes))}" if error.attributes else ""
        what = {"mean": "mean error", "column": "error", "worst": "largest error"}[error.what]
        some = f" ({error.sets:,} of {error.asked:,}, drawn at random)" if error.sets < error.asked else ""
        yield (
            f"{what} of {error.order}-way marginals{some}{of}: {error.estimate:.4g}, from {error.low:.4g} to "
            f"{error.high:.4g} with {certificate.confidence:.0%} confidence (L1 distance of shares of "
            f"{certificate.counted}, 0 to 2; measured with noise of its own)"
        )


def limitations(release: Published) -> list[str]:
    """The limitations that every user of the rows should know."""
    return [
        "Rows are synthetic: what was not measured follows from the model, and an analysis that takes them "
        "as real understates its errors.",
        *release.manifest.warnings,
    ]


def assumption(release: Published, name: str) -> str | None:
    """A statement that the promise rests on; None if the manifest has none."""
    entry = release.manifest.guarantee.assumptions.get(name)
    return None if entry is None else entry.statement


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
