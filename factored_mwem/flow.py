"""The main flow on one screen: table in, release out."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem import store
from factored_mwem.asking import Asking, ask
from factored_mwem.assumptions import assumptions_of
from factored_mwem.attribute import Attribute
from factored_mwem.candidates import Candidates
from factored_mwem.codec import encode_table, fit_columns
from factored_mwem.contributions import bound_contributions, without
from factored_mwem.counts import PrivateAnswers, PrivateCounts, PrivateRows, check_memory
from factored_mwem.domain import Domain
from factored_mwem.engine import fit_forest
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.faults import reach
from factored_mwem.forest import Forest
from factored_mwem.levels import View
from factored_mwem.limits import Machine, limits_of, memory_limit
from factored_mwem.manifest import Manifest, Output, describe, today, versions
from factored_mwem.mwem import mwem
from factored_mwem.outcome import Outcome, Progress
from factored_mwem.output import check_format, check_target, manifest_path, remove, write_batches, write_text
from factored_mwem.plan import Policy
from factored_mwem.privacy.access import Access, Measurement
from factored_mwem.privacy.discover import OTHER, discover
from factored_mwem.privacy.ledger import Ledger
from factored_mwem.privacy.noise import Noise, OpenDPNoise
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.profile import kind_of
from factored_mwem.request import Request
from factored_mwem.run import Run
from factored_mwem.sample import aims_of, sample
from factored_mwem.table import Table
from factored_mwem.warmup import warm_up
from factored_mwem.workload import Workload

MOST_ROWS = 10**8
"""Most synthetic rows by default: where noise drowns the table, its noisy count may be anything."""


def release(
    table: Any,
    workload: Workload | int,
    policy: Policy | None = None,
    *,
    domain: Domain | dict[str, Any] | str | Path | None = None,
    columns: Sequence[str] | None = None,
    rows: int | None = None,
    sample_seed: int | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    run_id: str | None = None,
    report: Callable[[Progress], None] = lambda _: None,
    **choices: Any,
) -> Release:
    """A synthetic table that answers `workload` under the policy's differential privacy.

    Private input: `table` (a path, a pyarrow object or any data frame); everything returned is safe to publish. `workload` may be the order K
    of all K-way marginals. Without `domain` a share of the budget learns one. `choices` are fields of Policy, where no policy is given.
    With `ledger`, a ledger file, the cost is entered under `dataset` before it is spent; the same `run_id` again gives the same release for nothing.
    Raises InputError, BudgetExceeded or ResourceError before anything is spent, wherever that can be known from public facts.
    """
    request = Request.of(table, workload, policy, domain=domain, columns=columns, rows=rows, sample_seed=sample_seed, **choices)
    with Run.begin(request, ledger, dataset, run_id, version=versions()) as run:
        made = make(request, run, report)
        run.finish({})
    return made


def make(request: Request, run: Run, report: Callable[[Progress], None]) -> Release:
    """The release of a request, its cost entered by `run`; writing its files and telling `run` so is the caller's."""
    r = request
    return _release(r.private, r.workload, r.policy, r.declared, r.columns, r.rows, r.sample_seed, report, noise=None, run=run)


def _release(
    private: Table,
    workload: Workload,
    policy: Policy,
    declared: Domain | None,
    columns: Sequence[str] | None,
    rows: int | None,
    sample_seed: int | None,
    report: Callable[[Progress], None],
    *,
    noise: Noise | None,
    run: Run | None = None,
) -> Release:
    """`release` behind its conveniences; tests give `noise` a fake."""
    run = run or Run()
    seed = secrets.randbits(64) if sample_seed is None else sample_seed
    machine = Machine.of(policy)  # before any row is read
    pinned = run.pin({"machine": [machine.memory, machine.step], "seed": seed, "created": today()})
    budget = policy.budget(learn_domain=declared is None)
    ledger = Ledger(budget, run.reserve)
    access = Access(ledger, policy.unit, run.noise(noise or OpenDPNoise(budget.composition), ledger))
    domain, schema, fit, warnings = _fit(private, workload, policy, declared, columns, report, access, Machine(*pinned["machine"]))
    run.drawn(ledger)
    reach("after fit")
    manifest = describe(
        policy, workload, domain, access.ledger, fit.model, fit.measurements, fit.residuals,
        rounds=fit.rounds, sample_seed=sample_seed, warnings=warnings, notes=fit.notes, questions=fit.questions, created=pinned["created"],
        assumptions=assumptions_of(policy, private.form, learnt=declared is None, ledger=run.has_books),
        chain_head=run.chain_head,
    )  # fmt: skip
    rows = min(round(fit.model.total), MOST_ROWS) if rows is None else rows
    return Release(domain, fit.model, schema, fit.measurements, fit.residuals, manifest, rows=rows, seed=pinned["seed"])


def _fit(
    private: Table,
    workload: Workload,
    policy: Policy,
    declared: Domain | None,
    columns: Sequence[str] | None,
    report: Callable[[Progress], None],
    access: Access,
    machine: Machine,
) -> tuple[Domain, pa.Schema, Outcome, tuple[str, ...]]:
    """The fitted model, the types its rows come back in, and warnings: what can be refused from public facts is refused first."""
    if workload.asked and policy.iterate == "average":
        raise InputError("iterate='average' is for marginals alone; leave it out with cubes, ranges or parities")
    missing = missing_ids(policy, declared)
    visible, declared, columns = without_id(policy, private, declared, columns)
    if declared is not None:
        domain, schema = fit_columns(declared, visible, columns)
        candidates, left_out = usable(workload, domain, policy, machine)
    else:
        check_learnable(visible, columns, workload, policy, machine)
    if policy.engine == "tree":
        warm_up()
    if policy.privacy_id is not None:
        private = bound_contributions(private, policy.privacy_id, policy.contributions, missing)
    if declared is None:
        domain, schema = fit_columns(discover(private, columns, policy=policy, access=access), private, columns)
        candidates, left_out = usable(workload, domain, policy, machine)
    asking = Asking.of(workload, candidates) if policy.engine == "mwem" and workload.asked else None
    codes = encode_table(domain, private)  # ---- private from here ...
    known_total = len(codes[0]) if policy.unit.total_is_public else None
    late = None
    if asking is not None:
        private_answers = PrivateAnswers(codes, domain, asking.kinds)
        rows = PrivateRows(codes, domain)
        fit = ask(rows, private_answers, asking, candidates, policy, access=access, known_total=known_total, report=report)
    elif policy.engine == "mwem":
        dense = mwem(PrivateCounts(codes, candidates), candidates, policy, access=access, known_total=known_total, report=report)
        fit = Outcome(Forest.of(dense.model), dense.measurements, dense.rounds, dense.total_error)
    else:
        limits = limits_of(candidates, policy, machine)
        late = limits.late(policy)
        fit = fit_forest(PrivateRows(codes, domain), candidates, policy, access=access, known_total=known_total, limits=limits, report=report)
        # ---- ... to here
    return domain, schema, fit, _warnings(policy, domain, fit, left_out, late)


def without_id(
    policy: Policy, private: Table, declared: Domain | None, columns: Sequence[str] | None
) -> tuple[Table, Domain | None, Sequence[str] | None]:
    """Table, domain and columns as if the privacy id were not among them; as they are where there is none."""
    if declared is not None:  # whatever it says of itself, a domain that is handed in is declared
        declared = Domain(a.model_copy(update={"learnt": False}) for a in declared)
    if policy.privacy_id is None:
        return private, declared, columns
    if declared is not None and policy.privacy_id in declared:
        declared = declared.project([name for name in declared.names if name != policy.privacy_id])
    columns = None if columns is None else [name for name in columns if name != policy.privacy_id]
    return without(private, policy.privacy_id), declared, columns


def check_learnable(visible: Table, columns: Sequence[str] | None, workload: Workload, policy: Policy, machine: Machine) -> None:
    """What can be refused before a domain is learnt: by the names and types of the columns, and as if each had a single code."""
    names = [name for name in visible.schema.names if columns is None or name in columns]
    workload.check(names)
    if not visible.text:
        workload.check_kinds({name: kind_of(visible.schema.field(name)) for name in names})
    if names and not workload.asked:
        least = Domain(Attribute.model_validate({"name": name, "categories": [OTHER], "constraints": {"required": True}}) for name in names)
        usable(workload, least, policy, machine)


def missing_ids(policy: Policy, declared: Domain | None) -> tuple[str, ...]:
    """What the domain calls missing in the column that names the person."""
    if declared is None or policy.privacy_id is None or policy.privacy_id not in declared:
        return ()
    return declared[policy.privacy_id].missing_values or ()


def usable(workload: Workload, domain: Domain, policy: Policy, machine: Machine) -> tuple[Candidates, int]:
    """The candidates that fit the cell cap, and how many do not; ResourceError where they need more memory than the machine has to give."""
    candidates = workload.candidates(domain)
    if policy.engine == "tree":  # what is too large as it is may be measured at coarser levels
        limits_of(candidates, policy, machine)
        return candidates, 0
    for attribute in domain:
        if attribute.size > policy.cells:
            size, cap = attribute.size, policy.cells
            raise ResourceError(f"attribute {attribute.name!r} has {size:,} codes, more than --max-cells {cap:,}; use fewer bins or raise it")
    fitting = candidates.keep(candidates.cells <= policy.cells)
    if workload.asked and len(fitting) < len(candidates):
        raise ResourceError(
            f"a question spans {candidates.cells.max():.3g} cells, more than --max-cells {policy.cells:,}; raise it or use fewer bins"
        )
    check_memory(fitting, memory_limit())  # of now: it decides nothing but whether to go on
    if policy.components == "one" and domain.cells > policy.cells:
        raise ResourceError(f"components='one' needs {domain.cells:,} cells, more than --max-cells {policy.cells:,}; raise it or use fewer columns")
    return fitting, len(candidates) - len(fitting)


def _warnings(policy: Policy, domain: Domain, fit: Outcome, left_out: int, late: str | None) -> tuple[str, ...]:
    """What a reader of the manifest should know; public facts and noisy answers only."""
    found = [late] if late else []
    if policy.epsilon > 10:
        found.append(f"epsilon {policy.epsilon:g} promises little; values up to 10 are common")
    if policy.delta * fit.model.total > 1:
        found.append(f"delta {policy.delta:g} is more than one in the number of rows; a delta far below that is common")
    if fit.total_error > fit.model.total / 2:
        found.append("the noise is as large as the number of rows itself: give --rows, and expect little of the values")
    if fit.model.total > MOST_ROWS:
        found.append(f"the noisy count of rows is {fit.model.total:.3g}: more than {MOST_ROWS:,} are drawn only where --rows says so")
    if left_out:
        found.append(f"{left_out} candidate marginals have more than {policy.cells} cells (--max-cells) and could not be measured as a whole")
    for attribute in domain:
        if attribute.learnt and attribute.description:
            found.append(f"{attribute.name!r}: {attribute.description}")
        if attribute.learnt and attribute.values == (OTHER,):
            found.append(f"{attribute.name!r}: no category is frequent enough for this budget, all became {OTHER!r}")
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A model, the noisy measurements behind it and the manifest: all public, and no private count in it."""

    domain: Domain
    model: Forest
    schema: pa.Schema
    measurements: list[Measurement]
    residuals: Sequence[Residuals]
    manifest: Manifest
    rows: int
    seed: int

    def batches(self, rows: int | None = None, *, seed: int | None = None) -> Iterator[pa.RecordBatch]:
        """Synthetic rows in record batches: the release's own rows, or `rows` others. Free: the model is public."""
        rng = np.random.default_rng(self.seed if seed is None else seed)
        rows = self.rows if rows is None else rows
        for batch in sample(self.model, self.domain, self.schema, rows, rng=rng, aims=self._aims(rows)):
            reach("sampling")
            yield batch

    def _aims(self, rows: int) -> list[View]:
        """The marginals asked for, which the rows are refined towards; the faithful engine's rows are as drawn."""
        if self.manifest.policy["engine"] == "mwem":
            return []
        workload = Workload.from_dict(self.manifest.workload)
        limit = self.manifest.policy["max_memory"]
        return aims_of(workload.candidates(self.domain), self.model.levels, rows, float(limit) if limit else math.inf)

    def sample(self, rows: int, *, seed: int | None = None) -> pa.Table:
        """`rows` fresh rows; the same ones for the same `seed`."""
        if rows < 0:
            raise InputError(f"rows={rows}: must be a whole number, 0 or more")
        return pa.Table.from_batches(self.batches(rows, seed=secrets.randbits(64) if seed is None else seed), schema=self.schema)

    def to_arrow(self) -> pa.Table:
        """The synthetic table: the same rows at every call."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def to_pandas(self) -> Any:
        """The synthetic table as a pandas data frame (pandas is imported here)."""
        return self.to_arrow().to_pandas()

    def write(self, path: str | Path, *, overwrite: bool = False, same: bool = False) -> Manifest:
        """Write the synthetic table (.parquet, .csv, .feather) and, last, its manifest beside it; returns that manifest.

        With `same`, files that are there must be the same, and stay.
        """
        path = Path(path)
        check_format(path)
        beside = manifest_path(path)
        for target in (path, beside):
            check_target(target, overwrite=overwrite or same)
        manifest = self.manifest.model_copy(update={"output": Output(file=path.name, rows=self.rows)})
        inside = manifest.model_dump_json() if path.suffix != ".csv" else None
        kept = same and path.exists()
        gone = (lambda: remove(beside)) if overwrite or same else (lambda: None)  # what an earlier release of this path said
        digest = write_batches(path, self.schema, self.batches(), metadata=inside, before=gone, overwrite=overwrite, same=same)
        manifest = manifest.model_copy(update={"output": Output(file=path.name, rows=self.rows, sha256=digest)})
        try:
            reach("before manifest")
            write_text(beside, manifest.model_dump_json(indent=1) + "\n", overwrite=overwrite, same=same)
        except BaseException:
            if not kept:
                remove(path)  # data without its manifest is not a release
            raise
        return manifest

    def save(self, path: str | Path, *, overwrite: bool = False, same: bool = False, before: Callable[[], None] = lambda: None) -> None:
        """Write the model file, from which `Release.load` and `fmwem sample` draw more rows at no cost; `before` runs just before it appears."""
        store.save(self, Path(path), overwrite=overwrite, same=same, before=before)

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a model file. InputError where it is not one, or of an unknown version."""
        return cls(**store.load(Path(path)))
