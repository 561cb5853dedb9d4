"""Job: one run of a command from its settings, files included. The command line only parses and prints."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factored_mwem.cli.settings import policy_from, records_from
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.files import check_target, remove, sha256, sweep
from factored_mwem.ledger.run import Run
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Plan, Scope
from factored_mwem.mechanisms.result import Progress
from factored_mwem.pipeline.evaluate import Errors, evaluate
from factored_mwem.pipeline.forecast import Forecast, forecast
from factored_mwem.pipeline.manifest import Manifest, versions
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.request import Request
from factored_mwem.tables.formats import check_format, manifest_path, write_batches
from factored_mwem.tables.source import TEXT_SUFFIXES
from factored_mwem.verifier.verify import Verified, verify
from factored_mwem.workload.queries.base import QueryRequest
from factored_mwem.workload.queries.cuboids import CubeRequest
from factored_mwem.workload.queries.ranges import RangesRequest
from factored_mwem.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class Done:
    """A finished release: `facts` is the line for scripts. `reused`: it had been finished before, and its
    files are as they were.
    """

    manifest: Manifest
    files: list[Path]
    domain_from: str
    facts: dict[str, Any]
    reused: bool


def run(table: Path, settings: Mapping[str, Any], report: Callable[[Progress], None]) -> Done:
    """Release `table` and write its files. Whatever can be refused is refused before the first row is
    read.
    """
    policy, workload = policy_from(settings), workload_from(settings)
    output = Path(settings.get("output") or f"{stem(table)}.synthetic.parquet")
    check_format(output)
    files = {"data": output, "manifest": manifest_path(output)} | (
        {"model": Path(settings["model"])} if settings.get("model") else {}
    )
    path = domain_path(table, settings.get("domain"))
    books = {key: settings.get(key) for key in ("ledger", "dataset", "run_id")}
    inputs = [table, path, *(Path(settings[key]) for key in ("workload", "ledger") if settings.get(key))]
    _check_paths(list(files.values()), inputs)
    if not any(books.values()):
        _check_targets(files.values(), overwrite=bool(settings.get("overwrite")))
    request = Request.of(
        table,
        workload,
        policy,
        domain=path,
        columns=settings.get("columns"),
        rows=settings.get("rows"),
        sample_seed=settings.get("sample_seed"),
    )
    with Run.begin(request, **books, version=versions()) as held:
        reused = held.reusable(files)
        manifest = (
            _load(files["manifest"])
            if reused
            else _make(request, held, files, overwrite=bool(settings.get("overwrite")), report=report)
        )
        facts = _facts(manifest, files, path) | (
            {"dataset": books["dataset"], "run_id": books["run_id"], "reused": reused}
            if books["ledger"]
            else {}
        )
        if held.resumed:
            facts["resumed"] = held.resumed
    return Done(
        manifest, list(files.values()), f"declared in {path}" if path else "none declared", facts, reused
    )


def _make(
    request: Request,
    held: Run,
    files: Mapping[str, Path],
    *,
    overwrite: bool,
    report: Callable[[Progress], None],
) -> Manifest:
    """Release and write, the manifest last; the manifest of what was there before goes before anything else
    of it.
    """
    same = (
        held.goes_on and not overwrite
    )  # what an earlier attempt wrote may be there, and is what this one writes
    _check_targets(files.values(), overwrite=overwrite or same)
    if same and files["manifest"].exists() and not files["data"].exists() and not _is_ours(held, files):
        raise InputError(f"{files['manifest']} exists and is not this run's; use --overwrite or another -o")
    for path in files.values() if held.goes_on else ():
        sweep(path)
    made = make(request, held, report)
    kept = same and "model" in files and files["model"].exists()
    if "model" in files:
        made.save(
            files["model"],
            overwrite=overwrite,
            same=same,
            before=lambda: remove(files["manifest"]) if overwrite else None,
        )
    try:
        manifest = made.write(files["data"], overwrite=overwrite, same=same)
    except BaseException:
        if "model" in files and not kept:
            remove(files["model"])  # a model without its release would be taken for one
        raise
    if not _in_place(manifest, files):
        raise ResourceError(
            f"another process wrote {files['data']} at the same time; give every job its own -o, and run "
            "this one again"
        )
    held.finish(files)
    return manifest


def _in_place(manifest: Manifest, files: Mapping[str, Path]) -> bool:
    """Whether data and manifest are the ones just written, and not those of another process that writes there
    too.
    """
    assert manifest.output is not None  # as of every manifest that was written
    with contextlib.suppress(OSError, ValueError):
        return _load(files["manifest"]) == manifest and sha256(files["data"]) == manifest.output.sha256
    return False


def _is_ours(held: Run, files: Mapping[str, Path]) -> bool:
    """Whether the manifest is one that this run wrote, and for this very file."""
    if not held.wrote(files["manifest"]):
        return False
    found = _load(files["manifest"]).output
    return found is not None and found.file == files["data"].name


def _load(path: Path) -> Manifest:
    """The manifest that was verified to be the one written."""
    return Manifest.model_validate_json(path.read_bytes())


def _facts(manifest: Manifest, files: Mapping[str, Path], domain: Path | None) -> dict[str, Any]:
    """The line for scripts."""
    assert manifest.output is not None  # as of every manifest that was written
    return {
        "output": str(files["data"]),
        "manifest": str(files["manifest"]),
        "model": str(files["model"]) if "model" in files else None,
        "rows": manifest.output.rows,
        "epsilon": manifest.guarantee.epsilon,
        "delta": manifest.guarantee.delta,
        "spent_epsilon": manifest.guarantee.spent_epsilon,
        "neighbours": manifest.guarantee.neighbours,
        "components": [len(c) for c in manifest.components],
        "rounds": manifest.rounds,
        "domain": str(domain) if domain else "learnt",
    }


def _check_paths(targets: Sequence[Path], inputs: Sequence[Path | None]) -> None:
    if len({os.path.realpath(target) for target in targets}) < len(targets):
        raise InputError("the output, its manifest and the model need three different paths")
    for target in targets:
        if os.path.realpath(target) in {os.path.realpath(path) for path in inputs if path}:
            raise InputError(f"{target} is an input; choose another path")


def _check_targets(targets: Iterable[Path], *, overwrite: bool) -> None:
    for target in targets:
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
    asked: list[QueryRequest] = [CubeRequest.parse(text) for text in settings.get("cube") or ()]
    asked += [RangesRequest.parse(text) for text in settings.get("ranges") or ()]
    workload = workload + Workload(asked=tuple(asked))
    if settings.get("parities") is not None:
        workload = workload + Workload.parities(settings["parities"])
    if workload == Workload():
        raise InputError(
            "nothing to keep: give --marginals K, --cube A,B,C, --ranges A:1000, --parities K or --workload "
            "FILE"
        )
    return workload


def dry_run(table: Path, settings: Mapping[str, Any], rows: int) -> tuple[Forecast, str]:
    """The forecast of a release, and the budget's unit; reads the table's header or schema, no row."""
    policy, workload = policy_from(settings), workload_from(settings)
    path = domain_path(table, settings.get("domain"))
    if path is None:
        raise InputError("check needs a domain: give --domain FILE, or write one with `fmwem domain draft`")
    request = Request.of(table, workload, policy, domain=path, columns=settings.get("columns"))
    scope = Scope.of(request, Machine.of(policy))
    assert scope.domain is not None  # as it is declared
    return forecast(Plan.of(scope, scope.domain), rows), request.budget.unit


def draw(model: Path, rows: int, output: Path, *, seed: int | None, overwrite: bool) -> dict[str, Any]:
    """Write `rows` fresh rows of a model file; the line for scripts."""
    check_format(output)
    check_target(output, overwrite=overwrite)
    made = Release.load(model)
    batches = made.batches(rows, seed=secrets.randbits(64) if seed is None else seed)
    digest = write_batches(output, made.schema, batches, overwrite=overwrite)
    return {"output": str(output), "rows": rows, "sha256": digest, "spent_epsilon": 0}


def compare(real: Path, synthetic: Path, order: int, settings: Mapping[str, Any]) -> Errors:
    """NOT PRIVATE: the errors of a synthetic file."""
    asked = workload_from({**settings, "marginals": order})
    domain, records = domain_path(real, settings.get("domain")), records_from(settings)
    return evaluate(
        real,
        synthetic,
        order,
        domain=domain,
        columns=settings.get("columns"),
        workload=asked,
        records=records,
    )


def verified(table: Path, settings: Mapping[str, Any], pairs: int, report: Callable[[int], None]) -> Verified:
    """NOT PRIVATE: what neighbours of the table say of a release with these settings."""
    path, columns = domain_path(table, settings.get("domain")), settings.get("columns")
    return verify(
        table,
        workload_from(settings),
        policy_from(settings),
        domain=path,
        columns=columns,
        pairs=pairs,
        report=report,
    )
