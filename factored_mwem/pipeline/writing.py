"""Writing: a release's rows into a file or a folder of parts, by several workers, and the manifest last.

Workers are threads: the kernels, numpy and Arrow let go of the interpreter's lock nearly all the time, and
threads share the model; two wrote 1.8 times the rows of one. What they write does not depend on how many
there are: a part is a fixed number of batches.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

import pyarrow as pa

from factored_mwem.errors import FmwemError, InputError
from factored_mwem.files.crashpoints import reach
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.publication import Publication
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.record.statement import Output, PartFile
from factored_mwem.pipeline.sampling import Batches
from factored_mwem.tables.outputs.formats import write_batches
from factored_mwem.tables.outputs.release_files import ReleaseFiles, manifest_of
from factored_mwem.tables.outputs.targets import Destination, Folder, digest_of, part_name

log = logging.getLogger("factored_mwem")
PART_ROWS = 2**20
"""Rows of a part, rounded down to whole batches: some 15 MB of twenty columns, so that a few million rows
occupy all workers, and what a store must take again after a failure is little.
"""
MAX_WORKERS = 8
"""Most workers by default; each holds a batch, its codes and the buffers of a part, some 100 MB for twenty
columns.
"""


class _Halted(BaseException):
    """Another worker failed, or a signal came, so this one cleans up and ends."""


def workers_of(number: int | None) -> int:
    """How many workers: this `number`, else one for each processor that this process may use."""
    if number is None:
        allowed = getattr(os, "sched_getaffinity", None)
        return min(len(allowed(0)) if allowed else os.cpu_count() or 1, MAX_WORKERS)
    if number < 1:
        raise InputError(f"workers={number}: must be 1 or more")
    return number


def write_alone(
    rows: Batches, manifest: Manifest, data: Destination, exists: IfExists, workers: int
) -> Manifest:
    """Write rows and, last, their manifest, with no run and no other files. Nothing is left of a failure."""
    place = Publication(ReleaseFiles(data, manifest_of(data)), exists)
    with place.undone():
        return write_release(rows, manifest, place, workers)


def write_release(
    rows: Batches,
    manifest: Manifest,
    place: Publication[ReleaseFiles],
    workers: int,
    before: Callable[[Manifest], None] = lambda _: None,
) -> Manifest:
    """Write the rows, then the manifest, which is returned as it stands in its file, and handed to `before`
    just before. `place` undoes a failure: data without its manifest is not a release.
    """
    data, exists, beside = place.files.data, place.exists, place.files.manifest
    data.check(exists)
    output = Output(file=data.name, rows=rows.rows)
    inside, parts = manifest.model_copy(update={"output": output}).model_dump_json(), tuple[PartFile, ...]()

    def gone() -> None:  # the earlier record at this path
        if exists is not IfExists.REFUSE:
            beside.remove()

    with place.putting(data):
        if isinstance(data, Folder):
            parts = write_parts(rows, data, inside, exists, workers, gone)
            digest = digest_of((part.file, part.sha256) for part in parts)
        else:
            batches = drawn_ahead(rows.listed() if data.suffix == ".parquet" else rows, workers)
            within = None if data.suffix == ".csv" else inside
            digest = write_batches(data, rows.schema, batches, metadata=within, exists=exists, before=gone)
    output = output.model_copy(update={"sha256": digest, "parts": parts})
    manifest = manifest.model_copy(update={"output": output})
    before(manifest)
    manifest = place.record(manifest)
    log.info("wrote %r: %d rows; then %r", str(data), rows.rows, str(beside))
    return manifest


def drawn_ahead(rows: Batches, workers: int) -> Iterator[pa.RecordBatch]:
    """All batches in their order, as many being drawn at a time as there are workers."""
    if min(workers, len(rows)) < 2:
        for batch in rows:
            reach("sampling")
            yield batch
        return
    waiting: deque[Future[pa.RecordBatch]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for number in range(len(rows) + workers):
            if number < len(rows):
                waiting.append(pool.submit(rows.batch, number))
            if waiting and number >= workers:
                reach("sampling")
                yield waiting.popleft().result()


def write_parts(
    rows: Batches, folder: Folder, inside: str, exists: IfExists, workers: int, gone: Callable[[], None]
) -> tuple[PartFile, ...]:
    """Write parts into a folder, which is created if it does not exist. `inside`: the metadata of every part.

    Where a release is replaced, all of it goes first: parts of two tables in a folder would look like one.
    After a failure no part is left, except parts of an earlier attempt that were verified.
    """
    rows = rows.listed()
    each = max(PART_ROWS // rows.size, 1)
    names = [part_name(number) for number in range(max(-(-len(rows) // each), 1))]
    kept = exists is IfExists.VERIFY and folder.there()
    folder.place.make()
    placed: list[str] = []  # files of another job, which were there first, stay
    try:
        if exists is IfExists.REPLACE:
            gone()
            folder.remove_parts(folder.parts())
        elif not set(folder.parts()) <= set(names):
            raise InputError(f"{folder} holds more than this run would write; use --overwrite or another -o")
        halted = threading.Event()

        def write(number: int) -> PartFile:
            own = range(number * each, min((number + 1) * each, len(rows)))
            try:
                digest = write_batches(
                    folder.file(names[number]),
                    rows.schema,
                    _until(halted, rows, own),
                    metadata=inside,
                    exists=exists,
                    before=gone,
                )
            except BaseException:
                halted.set()  # at once: a thread that waits for all may be woken late
                raise
            placed.append(names[number])
            size = sum(rows.length(batch) for batch in own)
            return PartFile(file=names[number], rows=size, sha256=digest)

        return tuple(_side_by_side(write, len(names), workers, halted))
    except BaseException:
        if not kept:
            with contextlib.suppress(FmwemError):
                folder.remove(placed)
        raise


def _until(halted: threading.Event, rows: Batches, numbers: range) -> Iterator[pa.RecordBatch]:
    for number in numbers:
        if halted.is_set():
            raise _Halted
        reach("sampling")
        yield rows.batch(number)


def _side_by_side(
    write: Callable[[int], PartFile], count: int, workers: int, halted: threading.Event
) -> list[PartFile]:
    """What `write` gives for each of `count` numbers. The first failure, or a signal, halts all."""
    if min(workers, count) < 2:
        return [write(number) for number in range(count)]
    with ThreadPoolExecutor(min(workers, count)) as pool:
        futures = [pool.submit(write, number) for number in range(count)]
        try:
            _, waiting = wait(futures, return_when=FIRST_EXCEPTION)
        except BaseException:
            halted.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        if waiting:
            pool.shutdown(cancel_futures=True)
    errors = (future.exception() for future in futures if not future.cancelled())
    failed = next((error for error in errors if error and not isinstance(error, _Halted)), None)
    if failed is not None:
        raise failed
    return [future.result() for future in futures]
