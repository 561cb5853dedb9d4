"""Job: one run of a command from its settings, files included. The command line only parses and prints."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factored_mwem.backends.warehouse import push_down
from factored_mwem.cli.settings import ReleaseSettings
from factored_mwem.errors import InputError
from factored_mwem.files import IfExists, ReleaseFiles, check_target, write_text
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Plan, Scope
from factored_mwem.mechanisms.result import Progress
from factored_mwem.pipeline.forecast import Forecast, LearningForecast, forecast, forecast_learning
from factored_mwem.pipeline.manifest import Manifest, versions
from factored_mwem.pipeline.publish import check_targets, load_manifest, publish
from factored_mwem.pipeline.result import Release
from factored_mwem.request import Request
from factored_mwem.tables.formats import check_format, manifest_path, write_batches
from factored_mwem.tables.piped import STANDARD_INPUT
from factored_mwem.tables.source import stem
from factored_mwem.workload.queries import KINDS
from factored_mwem.workload.workload import Workload

if TYPE_CHECKING:  # what a release does not need is loaded where it is used
    from factored_mwem.pipeline.evaluate import Errors
    from factored_mwem.pipeline.learn_domain import LearntDomain
    from factored_mwem.verifier.verify import Verified


@dataclass(frozen=True, slots=True)
class Done:
    """A finished release: `facts` is the line for scripts.

    `reused`: it had been finished before, and its files are as they were.
    """

    manifest: Manifest
    files: list[Path]
    domain_from: str
    facts: dict[str, Any]
    reused: bool


Named = Path | str
"""A table by its path, or by a URI."""


def run(table: Named, settings: ReleaseSettings, report: Callable[[Progress], None]) -> Done:
    """Release `table` and write its files. What can be refused is so before a row is read."""
    policy, workload = settings.policy, workload_from(settings)
    output = settings.output or Path(f"{stem(table)}.synthetic.parquet")
    check_format(output)
    files = ReleaseFiles(output, manifest_path(output), settings.model)
    path = domain_path(table, settings.domain)
    booking = Booking(settings.ledger, settings.dataset, settings.run_id)
    _check_paths(files.paths, [table, path, settings.workload, settings.ledger])
    exists = IfExists(settings.overwrite)
    if not any(booking):
        check_targets(files.paths, exists)
    request = Request.of(
        _given(table, settings),
        workload,
        policy,
        domain=path,
        columns=settings.columns,
        rows=settings.rows,
        sample_seed=settings.sample_seed,
        spill=settings.spill,
    )
    with Run.begin(request, booking, version=versions()) as held:
        reused = held.reusable(files)
        manifest = load_manifest(files.manifest) if reused else publish(request, held, files, exists, report)
        facts = _facts(manifest, files, path)
        if booking.ledger:
            facts |= {"dataset": booking.dataset, "run_id": booking.run_id, "reused": reused}
        if held.resumed:
            facts["resumed"] = held.resumed
    return Done(manifest, files.paths, f"declared in {path}" if path else "none declared", facts, reused)


def _facts(manifest: Manifest, files: ReleaseFiles, domain: Path | None) -> dict[str, Any]:
    """The line for scripts."""
    assert manifest.output is not None  # as of every manifest that was written
    return {
        "output": str(files.data),
        "manifest": str(files.manifest),
        "model": str(files.model) if files.model is not None else None,
        "rows": manifest.output.rows,
        "epsilon": manifest.guarantee.epsilon,
        "delta": manifest.guarantee.delta,
        "spent_epsilon": manifest.guarantee.spent_epsilon,
        "neighbours": manifest.guarantee.neighbours,
        "components": [len(c) for c in manifest.components],
        "rounds": manifest.rounds,
        "domain": str(domain) if domain else "learnt",
    }


def _given(table: Named, settings: ReleaseSettings) -> Any:
    """What a release is given: the table, or the word that its rows stay where they are."""
    return push_down(str(table)) if settings.push_down else table


def _check_paths(targets: Sequence[Path], inputs: Sequence[Named | None]) -> None:
    if len({os.path.realpath(target) for target in targets}) < len(targets):
        raise InputError("the output, its manifest and the model need three different paths")
    for target in targets:
        if os.path.realpath(target) in {os.path.realpath(path) for path in inputs if path}:
            raise InputError(f"{target} is an input; choose another path")


def domain_path(table: Named, given: Path | None) -> Path | None:
    """The domain file: the one given, else NAME.domain.json beside the table, else none."""
    if given:
        return given
    if isinstance(table, str) or str(table) == STANDARD_INPUT:  # beside which there is nothing
        return None
    if not table.name:  # "." or "/", which opening will refuse
        return None
    beside = table.with_name(f"{stem(table)}.domain.json")
    return beside if beside.exists() else None


def workload_from(settings: ReleaseSettings, order: int | None = None) -> Workload:
    """What the settings ask for, with all marginals of `order`, or of the settings'."""
    order = settings.marginals if order is None else order
    workload = Workload.load(settings.workload) if settings.workload else Workload()
    workload = workload + (Workload.marginals(order) if order is not None else Workload()) + settings.asked
    if workload == Workload():
        flags = ", ".join(f"--{kind.option} {kind.form}" for kind in KINDS.values())
        raise InputError(f"nothing to keep: give --marginals K, {flags} or --workload FILE")
    return workload


def dry_run(table: Named, settings: ReleaseSettings, rows: int) -> tuple[Forecast | LearningForecast, str]:
    """The forecast of a release, and the budget's unit; reads the table's header or schema, no row."""
    policy, workload = settings.policy, workload_from(settings)
    path = domain_path(table, settings.domain)
    request = Request.of(_given(table, settings), workload, policy, domain=path, columns=settings.columns)
    scope = Scope.of(request, Machine.of(policy))
    if scope.domain is None:
        return forecast_learning(scope, rows), request.budget.unit
    return forecast(Plan.of(scope, scope.domain), rows), request.budget.unit


def learn(table: Named, settings: ReleaseSettings) -> tuple[LearntDomain, dict[str, Any]]:
    """Learn a domain and write its file; it and the line for scripts."""
    from factored_mwem.pipeline.learn_domain import make_domain

    beside = Path() if isinstance(table, str) else table.parent
    output = settings.output or beside / f"{stem(table)}.domain.json"
    exists = IfExists(settings.overwrite)
    _check_paths([output], [table, settings.ledger])
    booking = Booking(settings.ledger, settings.dataset, settings.run_id)
    if settings.run_id is None:
        check_target(output, exists)
    request = Request.of(table, Workload.marginals(1), settings.policy, columns=settings.columns)
    with Run.begin(request, booking, version=versions()) as held:
        if held.goes_on and exists is IfExists.REFUSE:  # an earlier attempt wrote what this one will
            exists = IfExists.VERIFY
        check_target(output, exists)
        made = make_domain(request, held)
        write_text(output, json.dumps(made.to_dict(), indent=1, ensure_ascii=False) + "\n", exists)
        held.finish()
    facts = {"domain": str(output), "columns": len(made.domain), "dropped": list(made.dropped)}
    return made, facts | {"spent_epsilon": made.spent_epsilon, "delta": settings.policy.delta}


def draw(model: Path, rows: int, output: Path, settings: ReleaseSettings) -> dict[str, Any]:
    """Write `rows` fresh rows of a model file; the line for scripts."""
    check_format(output)
    exists = IfExists(settings.overwrite)
    check_target(output, exists)
    made, seed = Release.load(model), settings.sample_seed
    batches = made.batches(rows, seed=secrets.randbits(64) if seed is None else seed)
    digest = write_batches(output, made.schema, batches, exists=exists)
    return {"output": str(output), "rows": rows, "sha256": digest, "spent_epsilon": 0}


def compare(real: Named, synthetic: Path, order: int, settings: ReleaseSettings) -> Errors:
    """NOT PRIVATE: the errors of a synthetic file.

    A domain file beside the table is not taken: errors of all its releases are in the same bins.
    """
    from factored_mwem.pipeline.evaluate import evaluate

    return evaluate(
        real,
        synthetic,
        order,
        domain=settings.domain,
        columns=settings.columns,
        workload=workload_from(settings, order),
        records=settings.policy.records,
    )


def verified(table: Named, settings: ReleaseSettings, pairs: int, report: Callable[[int], None]) -> Verified:
    """NOT PRIVATE: what neighbours of the table say of a release with these settings."""
    from factored_mwem.verifier.verify import verify

    if str(table) == STANDARD_INPUT or settings.push_down:
        raise InputError("verify reads the rows again and again; write them to a file first, and name that")
    return verify(
        table,
        workload_from(settings),
        settings.policy,
        domain=domain_path(table, settings.domain),
        columns=settings.columns,
        pairs=pairs,
        report=report,
    )
