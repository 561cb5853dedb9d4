"""Job: one run of a command from its settings, files included. The command line only parses and prints."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factored_mwem.asking import Asking
from factored_mwem.check import Forecast, forecast
from factored_mwem.codec import fit_columns
from factored_mwem.domain import Domain
from factored_mwem.errors import FmwemError, InputError
from factored_mwem.evaluation import Errors, evaluate
from factored_mwem.flow import Release, release, usable, without_id
from factored_mwem.limits import Machine
from factored_mwem.manifest import Manifest
from factored_mwem.outcome import Progress
from factored_mwem.output import check_format, check_target, manifest_path, remove, write_batches
from factored_mwem.queries import Asked
from factored_mwem.queries.cuboids import AskedCube
from factored_mwem.queries.ranges import AskedRanges
from factored_mwem.settings import policy_from
from factored_mwem.table import TEXT_SUFFIXES, open_table
from factored_mwem.workload import Workload


@dataclass(frozen=True, slots=True)
class Done:
    """A finished release: `facts` is the line for scripts."""

    release: Release
    manifest: Manifest
    files: list[Path]
    domain_from: str
    facts: dict[str, Any]


def run(table: Path, settings: Mapping[str, Any], report: Callable[[Progress], None]) -> Done:
    """Release `table` and write its files. Whatever can be refused is refused before the first row is read."""
    policy, workload = policy_from(settings), workload_from(settings)
    output = Path(settings.get("output") or f"{stem(table)}.synthetic.parquet")
    model = Path(settings["model"]) if settings.get("model") else None
    overwrite = bool(settings.get("overwrite"))
    path = domain_path(table, settings.get("domain"))
    workload_file = Path(settings["workload"]) if settings.get("workload") else None
    check_format(output)
    _check_outputs([output, manifest_path(output)] + ([model] if model else []), [table, path, workload_file], overwrite=overwrite)
    made = release(
        table, workload, policy, domain=path, columns=settings.get("columns"),
        rows=settings.get("rows"), sample_seed=settings.get("sample_seed"), report=report,
    )  # fmt: skip
    try:
        if model:
            made.save(model, overwrite=overwrite)
        manifest = made.write(output, overwrite=overwrite)
    except BaseException as error:
        if model:
            remove(model)  # a model without its release would be taken for one
        if isinstance(error, FmwemError):
            error.budget_spent = True
        raise
    files = [output, manifest_path(output)] + ([model] if model else [])
    facts = {
        "output": str(output),
        "manifest": str(manifest_path(output)),
        "model": str(model) if model else None,
        "rows": made.rows,
        "epsilon": manifest.guarantee.epsilon,
        "delta": manifest.guarantee.delta,
        "spent_epsilon": manifest.guarantee.spent_epsilon,
        "neighbours": manifest.guarantee.neighbours,
        "components": [len(c) for c in manifest.components],
        "rounds": manifest.rounds,
        "domain": str(path) if path else "learnt",
    }
    return Done(made, manifest, files, f"declared in {path}" if path else "none declared", facts)


def _check_outputs(targets: Sequence[Path], inputs: Sequence[Path | None], *, overwrite: bool) -> None:
    if len({os.path.realpath(target) for target in targets}) < len(targets):
        raise InputError("the output, its manifest and the model need three different paths")
    for target in targets:
        if os.path.realpath(target) in {os.path.realpath(path) for path in inputs if path}:
            raise InputError(f"{target} is an input; choose another path")
        check_target(target, overwrite=overwrite)


def stem(table: Path) -> str:
    """The table's name without its suffixes: `adult.csv.gz` -> `adult`."""
    for suffix in sorted((*TEXT_SUFFIXES, ".parquet", ".pq", ".feather", ".arrow"), key=len, reverse=True):
        if table.name.lower().endswith(suffix):
            return table.name[: -len(suffix)]
    return table.stem


def domain_path(table: Path, given: Any) -> Path | None:
    """The domain file: the one given, else NAME.domain.json beside the table, else none."""
    if given:
        return Path(given)
    if not table.name:  # "." or "/", which opening will refuse
        return None
    beside = table.with_name(f"{stem(table)}.domain.json")
    return beside if beside.exists() else None


def workload_from(settings: Mapping[str, Any]) -> Workload:
    workload = Workload.load(settings["workload"]) if settings.get("workload") else Workload()
    order = settings.get("marginals")
    if order is not None:
        if not isinstance(order, int) or isinstance(order, bool):
            raise InputError(f"marginals={order!r}: must be a whole number")
        workload = workload + Workload.marginals(order)
    asked: list[Asked] = [AskedCube.parse(text) for text in settings.get("cube") or ()]
    asked += [AskedRanges.parse(text) for text in settings.get("ranges") or ()]
    workload = workload + Workload(asked=tuple(asked))
    if settings.get("parities") is not None:
        workload = workload + Workload.parities(settings["parities"])
    if workload == Workload():
        raise InputError("nothing to keep: give --marginals K, --cube A,B,C, --ranges A:1000, --parities K or --workload FILE")
    return workload


def dry_run(table: Path, settings: Mapping[str, Any], rows: int) -> tuple[Forecast, str]:
    """The forecast of a release, and the budget's unit; reads the table's header or schema, no row."""
    policy, workload = policy_from(settings), workload_from(settings)
    path = domain_path(table, settings.get("domain"))
    if path is None:
        raise InputError("check needs a domain: give --domain FILE, or write one with `fmwem domain draft`")
    visible, declared, columns = without_id(policy, open_table(table), Domain.load(path), settings.get("columns"))
    assert declared is not None
    domain, _ = fit_columns(declared, visible, columns)
    fitting, left_out = usable(workload, domain, policy, Machine.of(policy))
    questions = len(Asking.of(workload, fitting).members) if policy.engine == "mwem" and workload.asked else None
    return forecast(domain, fitting, left_out, policy, rows=rows, questions=questions), policy.budget(learn_domain=False).unit


def draw(model: Path, rows: int, output: Path, *, seed: int | None, overwrite: bool) -> dict[str, Any]:
    """Write `rows` fresh rows of a model file; the line for scripts."""
    check_format(output)
    check_target(output, overwrite=overwrite)
    made = Release.load(model)
    batches = made.batches(rows, seed=secrets.randbits(64) if seed is None else seed)
    digest = write_batches(output, made.schema, batches)
    return {"output": str(output), "rows": rows, "sha256": digest, "spent_epsilon": 0}


def compare(real: Path, synthetic: Path, order: int, settings: Mapping[str, Any]) -> Errors:
    """NOT PRIVATE: the errors of a synthetic file."""
    asked = workload_from({**settings, "marginals": order})
    return evaluate(real, synthetic, order, domain=domain_path(real, settings.get("domain")), columns=settings.get("columns"), workload=asked)
