"""Build: a sketch of a private table's key column, from the request to the released file."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Unpack

import pyarrow as pa

from factored_mwem.accounting.conversion import Composition
from factored_mwem.backends.source import Source, open_source
from factored_mwem.errors import InputError, shown
from factored_mwem.ledger.run import Booking
from factored_mwem.pipeline.assumptions import Assumption, assumptions_of
from factored_mwem.pipeline.statement import statement_of
from factored_mwem.pipeline.task import Opened, Task, opened
from factored_mwem.policy import Choices, Policy
from factored_mwem.privacy.noise import Noise, OpenDPNoise
from factored_mwem.privacy.projected import PrivateProjection, measure_by_laplace
from factored_mwem.sparse.released import LEAST, Sketch
from factored_mwem.tables.parsing import spelt, value_type
from factored_mwem.workload.projection import (
    MAX_COEFFICIENTS,
    MAX_ROWS,
    MAX_WORK,
    QUADRATIC,
    Hashed,
    Listed,
    Stack,
)

log = logging.getLogger("factored_mwem")
ROWS, PURE_ROWS = 2**17, 2**11
"""T where none is given. With Gaussian noise an answer's noise does not depend on T, so more rows only take
memory; under pure privacy it grows with sqrt(T).
"""
BLOCKS, BLOCK_ROWS = 32, 64
"""Blocks of polynomials of their own, where each would have as many rows as this, and a quadratic form."""
HASH_KEY_BYTES = 16
Kind = Literal["gaussian", "laplace"]


@dataclass(frozen=True, slots=True, eq=False)
class SketchRequest:
    """What is asked: the key `column` of a private table, projected to `size` rows by a polynomial of
    `independence` coefficients, with noise of a kind; `listed`: all keys there can be, where that is known.
    """

    private: Source = field(repr=False)
    column: str
    policy: Policy
    size: int
    independence: int
    noise: Kind
    listed: Listed | None

    @property
    def blocks(self) -> int:
        """In how many blocks the rows are hashed, each by a polynomial of its own."""
        fits = self.independence <= QUADRATIC and self.size % BLOCKS == 0 and self.size >= BLOCKS * BLOCK_ROWS
        return BLOCKS if fits else 1

    @classmethod
    def of(
        cls,
        table: Any,
        column: str,
        policy: Policy | None = None,
        *,
        size: int | None = None,
        independence: int = LEAST,
        noise: Kind = "gaussian",
        keys: Sequence[str] | None = None,
        **choices: Unpack[Choices],
    ) -> SketchRequest:
        """InputError for whatever is wrong by public facts: numbers, names and types."""
        if policy is not None and choices:
            raise InputError(f"{next(iter(choices))} is given beside a policy; put it into the policy")
        policy = policy if policy is not None else Policy.of(**choices)
        pure = policy.delta == 0
        size = (PURE_ROWS if pure else ROWS) if size is None else size
        for name, value, least, most in (
            ("size", size, 1, MAX_ROWS),
            ("independence", independence, LEAST, MAX_COEFFICIENTS),
        ):
            if type(value) is not int or not least <= value <= most:
                raise InputError(f"{name}={shown(value)}: must be a whole number from {least} to {most:,}")
        if independence > QUADRATIC and size * independence > MAX_WORK:
            raise InputError(
                f"size={size:,}, independence={independence}: over {MAX_WORK:,} steps a key; lower one "
                f"of them; up to {QUADRATIC} coefficients take no such work"
            )
        if noise not in ("gaussian", "laplace"):
            raise InputError(f"noise={shown(noise)}: must be 'gaussian' or 'laplace'")
        if not isinstance(column, str):
            raise InputError(f"column={shown(column)}: must be the name of a column")
        names = [name for name in (column, policy.privacy_id) if name is not None]
        private = open_source(table, policy.records, policy.dialect, names, privacy_id=policy.privacy_id)
        _check_column(private if policy.privacy_id is None else private.without(policy.privacy_id), column)
        listed = None if keys is None else Listed(tuple(keys))
        return cls(private, column, policy, size, independence, "laplace" if pure else noise, listed)

    @property
    def task(self) -> Task:
        """What the books are told."""
        universe = "hashed to 64 bits"
        if self.listed is not None:
            digest = hashlib.sha256("\n".join(self.listed.keys).encode("utf-8", "surrogatepass"))
            universe = f"{len(self.listed.keys)} listed keys, of SHA-256 {digest.hexdigest()}"
        settings = {
            "column": self.column,
            "size": self.size,
            "blocks": self.blocks,
            "independence": self.independence,
            "noise": self.noise,
            "universe": universe,
        }
        return Task("sketch", self.policy, settings, self.private.fingerprint)


def _check_column(table: Source, column: str) -> None:
    """InputError where a table has no such column, or its type makes no keys."""
    table.check_column(column)
    kind = table.schema.field(column).type
    value = value_type(kind)
    if pa.types.is_floating(value) or pa.types.is_decimal(value) or pa.types.is_nested(value):
        what = f"column {column!r} is a column of {spelt(kind)}"
        raise InputError(f"{what}: one key may have several spellings; make it text or integers")
    try:
        pa.array([], value).cast(pa.string())
    except pa.ArrowNotImplementedError:
        raise InputError(f"column {column!r} is {spelt(kind)}, which makes no keys; make it text") from None


def sketch(
    table: Any,
    column: str,
    policy: Policy | None = None,
    *,
    size: int | None = None,
    independence: int = LEAST,
    noise: Kind = "gaussian",
    keys: Sequence[str] | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    run_id: str | None = None,
    **choices: Unpack[Choices],
) -> Sketch:
    """A sketch of how often each key of a private table's `column` comes; safe to publish.

    It answers for any keys, of a universe without end.
    `size` (T): rows of the projection, 2^17, or 2^11 under pure privacy, where they cost accuracy.
    `independence`: coefficients of the hash polynomial, at least 4, which an answer's standard deviation
    rests on; `Printed.independence` is what bounds for all queries at once rest on. `noise`: "gaussian", or
    "laplace" as SparseProject prints it, at sqrt(2) the standard deviation; with delta 0 it is that. `keys`:
    all keys there can be, as a public list; records of other keys count nothing, nor do those without one.
    Other arguments and errors: as of `release`.

    >>> import pyarrow as pa
    >>> from factored_mwem import sketch
    >>> visits = pa.table({"url": ["/home"] * 900 + ["/jobs"] * 80 + [f"/page/{i}" for i in range(20)]})
    >>> made = sketch(visits, "url", epsilon=1.0)
    >>> answer = made.answer(["/home", "/jobs"])
    >>> abs(answer.estimate - 980) < 8 * answer.stderr
    True
    """
    request = SketchRequest.of(
        table, column, policy, size=size, independence=independence, noise=noise, keys=keys, **choices
    )
    with opened_for(request, Booking(ledger, dataset, run_id)) as task:
        made = make(request, task)
        task.run.finish()
    return made


def opened_for(request: SketchRequest, booking: Booking, *, noise: Noise | None = None) -> Any:
    """The request's run and session: see `opened`. Printed noise is Laplace's under either composition."""
    if noise is None and request.noise == "laplace":
        noise = OpenDPNoise(Composition.PURE)
    return opened(request.task, booking, noise=noise)


def make(request: SketchRequest, task: Opened) -> Sketch:
    """Make a sketch. The caller writes the file and then calls `run.finish`.

    The hash is drawn anew, whatever the table holds, and public; a run that goes on has that of its
    beginning.
    """
    policy, coefficients = request.policy, request.blocks * request.independence
    entropy = secrets.token_bytes(HASH_KEY_BYTES + 16 * coefficients)
    pinned = bytes.fromhex(task.run.pin({"hash": entropy.hex()})["hash"])
    universe: Hashed | Listed = request.listed or Hashed(pinned[:HASH_KEY_BYTES])
    projection = Stack.of(
        request.size, request.blocks, request.independence, universe.bits, pinned[HASH_KEY_BYTES:]
    )
    source = request.private
    if policy.privacy_id is not None:
        source = source.bounded(policy.privacy_id, policy.contributions)
    sealed = PrivateProjection.of(source, request.column, universe, projection)
    session, cost = task.session, task.session.left
    if request.noise == "laplace" and session.composition is Composition.ZCDP:
        measured = measure_by_laplace(session, sealed, cost=cost)
    else:
        measured = session.measure(sealed, (), cost=cost)
    task.drawn()
    stated = statement_of(
        request.task, task, unit=unit_in_words(policy), assumptions=_assumptions(request, task)
    )
    log.info("sketched column %r in %d rows", request.column, request.size)
    return Sketch(request.column, universe, projection, measured.noisy, measured.scale, stated)


def unit_in_words(policy: Policy) -> str:
    """What neighbouring tables differ in."""
    bound = "" if policy.privacy_id is None else f" (bounded by {policy.privacy_id!r})"
    rows = f"{policy.contributions} row{'s' * (policy.contributions > 1)}"
    change = "added or removed" if policy.neighbours == "add-remove" else "exchanged for another"
    return f"one person with at most {rows}{bound} {change}"


def _assumptions(request: SketchRequest, task: Opened) -> list[Assumption]:
    """Those of a release of the same table, as far as they concern a sketch."""
    found = assumptions_of(
        request.policy,
        request.private.form,
        learnt=False,
        ledger=task.run.has_books,
        cluster=request.private.cluster,
    )
    kept = {name: getattr(found, name) for name in type(found).model_fields if name != "domain"}
    what = "column, size and all other settings were chosen without looking at this table"
    kept["parameters"] = Assumption(statement=what, enforced=False)
    if request.listed is not None:
        listed = "the list of keys was made without looking at this table"
        kept["keys"] = Assumption(statement=listed, enforced=False)
    return [assumption for assumption in kept.values() if assumption is not None]
