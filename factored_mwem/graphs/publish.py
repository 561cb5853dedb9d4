"""Publish: a released graph and its files, put in place one after the other, the statement last."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from factored_mwem.errors import FmwemError
from factored_mwem.files import IfExists
from factored_mwem.graphs.queries import answers_table
from factored_mwem.graphs.release import make_graph
from factored_mwem.graphs.request import GraphRequest
from factored_mwem.graphs.result import GraphRelease
from factored_mwem.ledger.run import Booking
from factored_mwem.pipeline.statement import Statement
from factored_mwem.pipeline.task import opened
from factored_mwem.tables.formats import check_format, write_batches
from factored_mwem.tables.release_files import ReleaseFiles, manifest_of
from factored_mwem.tables.targets import Target, write_text
from factored_mwem.workload.cuts import Cut


@dataclass(frozen=True, slots=True)
class GraphFiles:
    """Where the edge list goes, and, where they are asked for, the noisy weights of all pairs and the answers
    to cuts.
    """

    edges: Target
    weights: Target | None = None
    answers: Target | None = None

    def __post_init__(self) -> None:
        for target in (self.edges, self.weights, self.answers):
            if target is not None:
                check_format(target)

    @property
    def released(self) -> ReleaseFiles:
        """All of them, the statement's among them, as the books keep their digests."""
        return ReleaseFiles(self.edges, manifest_of(self.edges), self.weights, self.answers)


@dataclass(frozen=True, slots=True)
class Published:
    """What is in place. `reused`: the run had been finished before, and its files are as they were."""

    statement: Statement
    files: GraphFiles
    reused: bool
    resumed: int = 0


def publish_graph(
    request: GraphRequest, booking: Booking, files: GraphFiles, exists: IfExists, cuts: Sequence[Cut]
) -> Published:
    """Release and write. Nothing is left of a failure: an edge list without its statement is no release."""
    released = files.released
    if booking.run_id is None:
        released.check(exists)
    with opened(request.task, booking) as task:
        if task.run.reusable(released):
            return Published(Statement.model_validate_json(released.manifest.read()), files, reused=True)
        if task.run.goes_on and exists is IfExists.REFUSE:  # an earlier attempt wrote what this one will
            exists = IfExists.VERIFY
        released.check(exists)
        made = make_graph(request, task)
        statement = _written(made, files, exists, cuts)
        task.run.finish(released)
        return Published(statement, files, reused=False, resumed=task.run.resumed)


def _written(made: GraphRelease, files: GraphFiles, exists: IfExists, cuts: Sequence[Cut]) -> Statement:
    """Write them all; the statement with the sha256 of the edge list."""
    stated, put = files.released.manifest, list[Target]()
    if exists is IfExists.REPLACE:
        stated.remove()
    try:
        if files.weights is not None:
            put.append(files.weights)
            _write(files.weights, made.pairs_to_arrow(), exists)
        if files.answers is not None:
            put.append(files.answers)
            _write(files.answers, answers_table(made, cuts), exists)
        table = made.to_arrow()
        put.append(files.edges)
        digest = _write(files.edges, table, exists)
        output = {"file": files.edges.name, "rows": table.num_rows, "sha256": digest}
        settings = {**made.statement.settings, "output": output}
        statement = made.statement.model_copy(update={"settings": settings})
        write_text(stated, statement.model_dump_json(indent=1) + "\n", exists)
    except BaseException:
        for target in put if exists is not IfExists.VERIFY else ():
            with contextlib.suppress(FmwemError):  # what failed first is what to say
                target.remove()
        raise
    return statement


def _write(target: Target, table: pa.Table, exists: IfExists) -> str:
    return write_batches(target, table.schema, table.to_batches(max_chunksize=2**16), exists=exists)
