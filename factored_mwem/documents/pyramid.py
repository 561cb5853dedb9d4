"""Pyramid: the layers that NIST SP 800-226 (March 2025) evaluates a promise of differential privacy by, and
what a release can say of each from its manifest alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from factored_mwem.documents.budget import charges_of, mechanisms_of
from factored_mwem.documents.wording import counted, figure, plain
from factored_mwem.pipeline.assumptions import Assumption
from factored_mwem.pipeline.manifest import Manifest

Standing = Literal["covered", "partly covered", "on trust", "not covered"]


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer: `facts` that the manifest states, `assumed` with whether the program made sure of it, and what
    is `open`.
    """

    name: str
    standing: Standing
    facts: tuple[str, ...] = ()
    assumed: tuple[tuple[bool, str], ...] = ()
    open: tuple[str, ...] = ()


def layers_of(manifest: Manifest, guess: str) -> list[Layer]:
    """The layers from the top; `guess`: how often a guess of membership is right at most."""
    g = manifest.guarantee
    unit = f"at most {counted(g.contributions, 'row')} of one person"
    change = "added or removed" if g.neighbours == "add-remove" else "exchanged for another's"
    kept = _assumed(manifest, "contributions", "people", "records", "rows")
    top: Standing = "covered" if all(sure for sure, _ in kept) and kept else "on trust"
    return [
        Layer(
            "Epsilon and the unit of privacy",
            top,
            (
                f"Epsilon {figure(g.epsilon)}, delta {figure(g.delta)}; spent: {figure(g.spent_epsilon, 6)}.",
                f"What is protected: {unit}, {change}. A guess of membership is right at most {guess}.",
            ),
            kept,
            () if kept else ("This manifest was made before assumptions were listed.",),
        ),
        _algorithm(manifest),
        _accuracy(manifest),
        Layer(
            "Side channels",
            "on trust",
            ("The noise is on whole numbers, so the gaps of floating-point numbers give nothing away.",),
            _assumed(manifest, "surroundings", "readable"),
            ("Time, memory and power of the machine that ran the release were not measured.",),
        ),
        Layer(
            "Trust model",
            "on trust",
            ("Central model: whoever keeps the table saw every row, and adds the noise.",),
            _assumed(manifest, "releases", "ledger", "cluster"),
            ("Who may see the private table, and how that is kept to.",),
        ),
        Layer(
            "Data collection and exposure",
            "not covered",
            ("Names and types of the columns are published as they are.",),
            _assumed(manifest, "columns", "domain", "rules", "parameters"),
            (
                "How the data were collected, with whose consent, and what else was ever published of them.",
                "Where the private table is stored, for how long, and who could reach it.",
            ),
        ),
    ]


def _algorithm(manifest: Manifest) -> Layer:
    stated, found = manifest.guarantee.spent_epsilon, manifest.recompute()
    agrees = math.isclose(found, stated, rel_tol=1e-9)
    said = "which is what the manifest states" if agrees else f"but the manifest states {figure(stated, 6)}"
    used, library = ", ".join(mechanisms_of(charges_of(manifest))), plain(manifest.noise_library)
    return Layer(
        "Algorithms and their correctness",
        "partly covered" if agrees else "not covered",
        (
            f"Mechanisms: {used}; noise by {library}.",
            f"For this page the charges were added up again: epsilon {figure(found, 6)}, {said}.",
        ),
        (),
        (
            "That the program did what its manifest lists is shown by its public source and tests, and by "
            "fmwem verify on the owner's own table; not by this page.",
        ),
    )


def _accuracy(manifest: Manifest) -> Layer:
    found = manifest.certificate
    facts = [
        f"The table was drawn from {counted(len(manifest.measurements), 'noisy marginal')}"
        + (f" and {counted(len(manifest.residuals), 'vector')} of residuals" if manifest.residuals else "")
        + (f" and {counted(len(manifest.questions), 'question')}" if manifest.questions else "")
        + "; the sections on columns, ties and errors say how noisy they are."
    ]
    if found is not None:
        facts.append("Its own error was measured afresh inside the budget: see the certificate.")
    return Layer(
        "Accuracy and bias",
        "partly covered",
        tuple(facts),
        (),
        (
            "The same noise falls on small and large groups, so small groups come out worse.",
            "Whether the private table itself is a fair picture of anybody.",
        ),
    )


def _assumed(manifest: Manifest, *names: str) -> tuple[tuple[bool, str], ...]:
    listed = manifest.guarantee.assumptions
    if listed is None:
        return ()
    found: list[Assumption | None] = [getattr(listed, name) for name in names]
    return tuple((one.enforced, plain(one.statement, 600)) for one in found if one is not None)
