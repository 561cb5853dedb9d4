"""Build: a sketch of a private table's key column, from the request to the released file."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Unpack

from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import InputError, shown
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.pipeline.record.assumptions import Assumption
from factored_mwem.pipeline.spending import Spending, Spent
from factored_mwem.privacy.other.projected import PrivateProjection, measure_by_laplace
from factored_mwem.request.promise import BookedTerms, Terms
from factored_mwem.request.table import PrivateTable
from factored_mwem.sessions.sketch.released import LEAST, Sketch
from factored_mwem.tables.codes.parsing import check_keys
from factored_mwem.workload.projection import (
    MAX_COEFFICIENTS,
    MAX_ROWS,
    MAX_WORK,
    QUADRATIC,
    Hashed,
    Listed,
    Projection,
)

log = logging.getLogger("factored_mwem")
ROWS, PURE_ROWS = 2**17, 2**11
"""Defaults of T. With Gaussian noise an answer's noise does not depend on T, so more rows only take more
memory; under pure privacy it grows with sqrt(T).
"""
BLOCKS, BLOCK_ROWS = 32, 64
"""Blocks of polynomials of their own, where each would have as many rows as this, and a quadratic form."""
HASH_KEY_BYTES = 16
Kind = Literal["gaussian", "laplace"]


class SketchOptions(BookedTerms, total=False):
    """How a column is sketched, whom the promise protects, and where its cost is entered."""

    size: int | None
    independence: int
    noise: Kind
    keys: Sequence[str] | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class SketchRequest(PrivateTable):
    """A request for a sketch: the key `column` of a private table, projected to `size` rows by a polynomial
    of `independence` coefficients, with noise of a kind; `listed`: all keys there can be, where that is
    known.
    """

    column: str
    size: int
    independence: int
    noise: Kind
    listed: Listed | None

    @property
    def blocks(self) -> int:
        """The number of blocks of rows, each hashed by a polynomial of its own."""
        fits = self.independence <= QUADRATIC and self.size % BLOCKS == 0 and self.size >= BLOCKS * BLOCK_ROWS
        return BLOCKS if fits else 1

    @classmethod
    def of(
        cls, table: Any, column: str, policy: Terms | None = None, **options: Unpack[SketchOptions]
    ) -> SketchRequest:
        """Raises InputError if public facts (numbers, names, types) show that something is wrong."""
        choices: dict[str, Any] = dict(options)
        size, independence = choices.pop("size", None), choices.pop("independence", LEAST)
        noise, keys = choices.pop("noise", "gaussian"), choices.pop("keys", None)
        terms = Terms.given(policy, choices)
        pure = terms.delta == 0
        size = (PURE_ROWS if pure else ROWS) if size is None else size
        for name, value, least, most in (
            ("size", size, 1, MAX_ROWS),
            ("independence", independence, LEAST, MAX_COEFFICIENTS),
        ):
            if type(value) is not int or not least <= value <= most:
                raise InputError(f"{name}={shown(value)}: must be a whole number from {least} to {most:,}")
        if independence > QUADRATIC and size * independence > MAX_WORK:
            raise InputError(
                f"size={size:,}, independence={independence}: would take over {MAX_WORK:,} steps for each "
                f"key; lower one of them, or set independence to at most {QUADRATIC}, which is quick"
            )
        if noise not in ("gaussian", "laplace"):
            raise InputError(f"noise={shown(noise)}: must be 'gaussian' or 'laplace'")
        if not isinstance(column, str):
            raise InputError(f"column={shown(column)}: must be the name of a column")
        listed = None if keys is None else _listed(keys)
        request = cls.open(
            table,
            terms,
            columns=[column],
            column=column,
            size=size,
            independence=independence,
            noise="laplace" if pure else noise,
            listed=listed,
        )
        check_keys(request.visible, column)
        return request

    @property
    def spending(self) -> Spending:
        """The request as the ledger enters it. The noise of the paper is Laplace noise, under either
        composition.
        """
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
        drawn = Composition.PURE if self.noise == "laplace" else None
        return Spending("sketch", self.promise, settings, self.fingerprint, noise=drawn)


def _listed(keys: Iterable[str]) -> Listed:
    """The universe that a caller lists; a single text is refused, rather than taken as a list of letters."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InputError(f"keys={shown(keys)}: must be a list of texts")
    listed = tuple(keys)
    if not all(isinstance(key, str) for key in listed):
        raise InputError("keys must be texts: write numbers as the table's cells are written")
    return Listed(listed)


def sketch(table: Any, column: str, policy: Terms | None = None, **options: Unpack[SketchOptions]) -> Sketch:
    """A sketch of how often each key occurs in a private table's `column`; safe to publish.

    It answers for any keys of an infinite universe, in records. `options`, all of them optional:

    `size` (T): rows of the projection, 2^17 by default, or 2^11 under pure privacy, where rows cost accuracy.
    `independence`: coefficients of the hash polynomial, at least 4, which an answer's standard deviation
    rests on; bounds for all queries at once need `Printed.independence`. `noise`: "gaussian", or "laplace" as
    in the paper's SparseProject, with sqrt(2) times the standard deviation (always with delta 0). `keys`: a
    public list of all possible keys; records of other keys, or without a key, are not counted.
    The others, and errors: as of `release`.

    >>> import pyarrow as pa
    >>> from factored_mwem import sketch
    >>> visits = pa.table({"url": ["/home"] * 900 + ["/jobs"] * 80 + [f"/page/{i}" for i in range(20)]})
    >>> pages = sketch(visits, "url", epsilon=1.0)
    >>> answer = pages.answer(["/home", "/jobs"])
    >>> abs(answer.estimate - 980) < 8 * answer.stderr
    True
    """
    choices: dict[str, Any] = dict(options)
    booking = Booking.of(choices)
    request = SketchRequest.of(table, column, policy, **choices)
    return request.spending.made(booking, partial(make_sketch, request))


def make_sketch(request: SketchRequest, run: Run) -> Sketch:
    """Make a sketch within a run. The caller writes the file and then calls `run.finish`.

    The hash is drawn afresh, independently of the table, and is public; a resumed run keeps its first hash.
    """
    coefficients = request.blocks * request.independence
    entropy = secrets.token_bytes(HASH_KEY_BYTES + 16 * coefficients)
    spent = request.spending.begin(run, hash=entropy.hex())
    pinned = bytes.fromhex(spent.pinned["hash"])
    universe: Hashed | Listed = request.listed or Hashed(pinned[:HASH_KEY_BYTES])
    projection = Projection.of(
        request.size, request.blocks, request.independence, universe.bits, pinned[HASH_KEY_BYTES:]
    )
    source = request.bounded()
    sealed = PrivateProjection.of(source, request.column, universe, projection)
    session, cost = spent.session, spent.session.left
    if request.noise == "laplace" and session.composition is Composition.ZCDP:
        measured = measure_by_laplace(session, sealed, cost=cost)
    else:
        measured = session.measure(sealed, (), cost=cost)
    spent.drawn()
    stated = spent.statement(_assumptions(request, spent))
    log.info("sketched column %r in %d rows", request.column, request.size)
    return Sketch(request.column, universe, projection, measured.noisy, measured.scale, stated)


def _assumptions(request: SketchRequest, spent: Spent) -> dict[str, Assumption]:
    """The assumptions of a release of the same table, as far as they concern a sketch."""
    known = spent.rests_on(request)
    del known["domain"]
    what = "column, size and all other settings were chosen without looking at this table"
    known["parameters"] = Assumption(statement=what, enforced=False)
    if request.listed is not None:
        listed = "the list of keys was made without looking at this table"
        known["keys"] = Assumption(statement=listed, enforced=False)
    return known
