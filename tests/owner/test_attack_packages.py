"""`fmwem attack` of packages: the noisy answers of all tables about a root are read exactly, a planted
generator is caught, and an honest one shows nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owner.test_attack import without_noise
from owner.test_verify_packages import AGE, DOMAINS, town
from support.commands import Fmwem
from support.marks import others_slow

from factored_mwem import Package, Policy
from factored_mwem.accounting.conversion import Composition
from factored_mwem.owner.attack.packages import LinkedShadow
from factored_mwem.owner.attack.scores import Aim
from factored_mwem.owner.verifier.packages import LinkedSheet
from factored_mwem.pipeline.linked_request import LinkedRequest
from factored_mwem.pipeline.record.statement import charges_of
from factored_mwem.request.data_package import read_package

CLINIC = Path(__file__).parents[2] / "datasets" / "clinic"


def shadow_of(package: Package, domains: dict[str, Any], roots: int, **choices: Any) -> LinkedShadow:
    request = LinkedRequest.of(package, 2, Policy.given(None, choices), domains=domains)
    sheet = LinkedSheet.of(request, "attack")
    return LinkedShadow.of(request, sheet.without(sheet.roots[roots:]))


@pytest.mark.slow
@pytest.mark.parametrize("delta", (1e-9, 0.0))
def test_the_likelihood_ratio_of_exact_answers_is_what_they_cost(delta: float) -> None:
    """As of one table. Of a patient with one visit each answer moves by all of its sensitivity; of one with
    none, those about patients do. How many patients there are, and how often their rows agree, is not read.
    """
    domains = {name: CLINIC / f"{name}.domain.json" for name in ("patients", "visits")}
    shadow = shadow_of(read_package(CLINIC / "datapackage.json"), domains, 100, delta=delta)
    everybody = np.arange(100)
    with without_noise(Composition.ZCDP if delta else Composition.PURE):
        inside = shadow.attacked(everybody, everybody)
        visits = inside.tables[1][0].of_root
        for many in (1, 0):
            root = next(i for i, rows in enumerate(visits) if len(rows) == many)
            outside = shadow.attacked(np.delete(everybody, root), everybody)
            for sign, seen in ((1, inside), (-1, outside)):
                ledger = seen.tables[-1][1].release.manifest.ledger
                own = [e for e in ledger if e.stage != "select" and e.target and "agreement" not in e.target]
                until = None if many else next(i for i, e in enumerate(own) if "ward" in e.target)
                cost = sum(float(charge.cost) for charge in charges_of(own[1:until]))  # 0: how many patients
                ((ratio, *_),) = seen.scores([Aim("average", (root,), ())])
                assert ratio == pytest.approx(sign * cost, rel=1e-6)


@pytest.mark.parametrize("order_by", others_slow((None, "age"), lambda one: one is None))
def test_exact_answers_are_read_as_they_were_counted(order_by: str | None) -> None:
    """Of tables three deep, of which few rows of a root are used."""
    domains = DOMAINS
    if order_by is not None:
        domains = DOMAINS | {"persons": {"fields": [*DOMAINS["persons"]["fields"], AGE]}}
    with without_noise():
        tables = shadow_of(town(order_by), domains, 50).attacked(np.arange(50), np.arange(50)).tables
    assert tables[2][1].release.manifest.people.most_rows == 2  # and so others' rows are left out
    for rows, release in tables:
        weights = [release.pool.weights[list(own)].sum() for own in rows.of_root if own]
        assert weights == pytest.approx(np.ones(len(weights)))
        parts = list(release.parts(release.codes))
        assert parts
        for part in parts:
            exact = part.exact(release.present, release.grains * release.pool.weights[release.present])
            assert part.noisy == pytest.approx(exact, abs=1e-3)


@pytest.mark.slow
def test_the_command(here: Path, fmwem: Fmwem) -> None:
    shutil.copytree(CLINIC, here, dirs_exist_ok=True)
    line = "attack datapackage.json --marginals 2 --releases 8 --targets 1 --canaries 8 --among 60"
    done = fmwem(line)
    assert done.code == 0 and "holds: no attack" in done.out and "likelihood" in done.out
    facts = fmwem(line, "--json").facts  # goes on from what was kept, which is all
    assert (facts["people"], facts["releases"], facts["holds"]) == (60, 17, True)
    assert {one["score"] for one in facts["scores"]} == {"likelihood", "pairs", "density", "distance"}
    exchanged = fmwem(line, "--neighbours", "replace", "-o", "exchanged")
    assert exchanged.code == 0, exchanged.err
    with without_noise():
        broken = fmwem(line.replace("--releases 8", "--releases 24"), "--overwrite")
    assert broken.code == 1 and "BROKEN" in broken.out
    for wrong, why in (
        ("--guess ward", "--guess is for a single table"),
        ("-o visits.csv", "is an input"),
        ("--columns ward", "--columns is for a single table"),
        ("--among 9 -o z", "too few"),
    ):
        refused = fmwem(f"attack datapackage.json --marginals 2 {wrong}")
        assert refused.code == 2 and why in refused.err, refused.err
        assert not (here / "z").exists()
