"""Sample and aggregate: any function of rows, made private by asking it about blocks of them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np

from factored_mwem.accounting.admissible import Shape
from factored_mwem.accounting.conversion import float_down
from factored_mwem.errors import InputError, shown
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.pipeline.record.assumptions import Assumption
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.spending import Spending
from factored_mwem.privacy.other.blocks import Centre, OnBlocks, PrivateResults
from factored_mwem.privacy.other.smooth import constants, measure_smooth
from factored_mwem.privacy.session import Session
from factored_mwem.request.promise import BookedTerms, Terms
from factored_mwem.request.table import PrivateTable
from factored_mwem.sessions.statistic.grid import Grid, check_numbers

ALONE = Assumption(
    statement="the function's result for a block follows from that block alone: it keeps nothing from one "
    "call to the next, and what it does besides (time, memory, files, network) is seen by nobody",
    enforced=False,
)


@dataclass(frozen=True, slots=True, eq=False)
class Aggregated:
    """`value: float64[dimension]`, noisy; the `step` that results were rounded to; all publishable."""

    value: np.ndarray
    step: float
    statement: Statement


@dataclass(frozen=True, slots=True)
class Blocks:
    """The number of blocks, how their results are combined, and the bounds of the results: all public."""

    count: int
    by: Literal["average", "center"]
    grid: Grid
    dimensions: int
    noise: Shape | None


def sample_and_aggregate(
    table: Any,
    function: Callable[[np.ndarray], Any],
    bounds: dict[str, tuple[float, float]],
    *,
    lower: float,
    upper: float,
    blocks: int,
    by: Literal["average", "center"] = "center",
    dimensions: int = 1,
    **choices: Unpack[BookedTerms],
) -> Aggregated:
    """The results of `function` on `blocks` random blocks of the rows, combined with noise.

    `bounds`: public bounds of each column that it reads. It is given `float64[row, column]`, with NaN for
    what is missing, of any number of rows; its `dimensions` numbers are brought to within `lower` and
    `upper`; a block on which it fails counts as the middle. `by`: the average, or the center of attention,
    which has little noise where most blocks agree (pure, or with a delta Laplace noise): of several
    dimensions that of each, for an equal part of the budget.
    `choices`: as of `release`. InputError or BudgetExceeded before anything is spent.

    >>> import pyarrow as pa
    >>> from factored_mwem.sessions.statistic import sample_and_aggregate
    >>> people = pa.table({"age": list(range(20, 70)) * 100})
    >>> spread = sample_and_aggregate(people, lambda rows: rows[:, 0].std(), {"age": (0, 120)},
    ...     lower=0, upper=60, blocks=100, epsilon=1.0)
    >>> bool(0 <= spread.value[0] <= 60)
    True
    """
    options: dict[str, Any] = dict(choices)
    booking = Booking.of(options)
    request = AggregateRequest.of(
        table,
        function,
        bounds,
        lower=lower,
        upper=upper,
        blocks=blocks,
        by=by,
        dimensions=dimensions,
        **options,
    )
    return request.spending.made(booking, partial(make_aggregate, request))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class AggregateRequest(PrivateTable):
    """A private table, a function of blocks of its rows, and how the blocks' results are combined."""

    function: Callable[[np.ndarray], Any]
    bounds: dict[str, tuple[float, float]]
    how: Blocks

    @classmethod
    def of(
        cls,
        table: Any,
        function: Callable[[np.ndarray], Any],
        bounds: dict[str, tuple[float, float]],
        **options: Any,
    ) -> AggregateRequest:
        """The request, from the arguments of `sample_and_aggregate`. Raises InputError if public facts show
        that it cannot be met.
        """
        names = ("lower", "upper", "blocks", "by", "dimensions")
        lower, upper, blocks, by, dimensions = (options.pop(name) for name in names)
        terms = Terms.given(None, options, delta=0.0)
        noise = (Shape.LAPLACE if terms.delta else Shape.CAUCHY) if by == "center" else None
        how = Blocks(blocks, by, Grid.of(lower, upper, None), dimensions, noise)
        _check(function, bounds, how, terms)
        fields = [Grid.of(*ends).field(name, required=False) for name, ends in bounds.items()]
        about: dict[str, Any] = {"function": function, "bounds": bounds, "how": how}
        request = cls.open(table, terms, domain={"fields": fields}, columns=list(bounds), **about)
        request.private.read_here(
            "a function is run on rows of this machine; read the table from a file or a data frame"
        )
        for name in bounds:
            check_numbers(request, name)
        if noise is not None:  # refuses an epsilon that is too small now
            constants(noise, Fraction(terms.epsilon) / 2 / dimensions, Fraction(terms.delta) / dimensions)
        return request

    @property
    def spending(self) -> Spending:
        """The request as the ledger enters it."""
        name = getattr(self.function, "__name__", "function")
        how = asdict(self.how) | {"grid": list(astuple(self.how.grid))}
        settings = {"bounds": self.bounds, "how": how, "function": name}
        events = self.promise.delta > 0
        return Spending("sample and aggregate", self.promise, settings, self.fingerprint, events=events)


def make_aggregate(request: AggregateRequest, run: Run) -> Aggregated:
    """The results, combined with noise, within a run; the caller calls `run.finish`."""
    how, grid = request.how, request.how.grid
    spent = request.spending.begin(run)
    assert request.declared is not None
    key = bytes.fromhex(run.pin({"key": secrets.token_hex(32)})["key"])
    ends = [Grid.of(*ends) for ends in request.bounds.values()]
    values = [np.append(np.linspace(g.lower, g.upper, g.cells), np.nan) for g in ends]
    work = OnBlocks(
        request.function, values, how.count, grid.lower, grid.upper, grid.cells, how.dimensions, key
    )
    session = spent.session.encode(request.declared, request.bounded())  # ---- private from here ...
    sealed = PrivateResults.of(session.rows, work)
    if how.by == "average":
        summed = session.measure(sealed, None, cost=session.left).noisy
        share = (summed / how.count / (grid.cells - 1) + 1) / 2
        value = grid.lower + np.clip(share, 0, 1) * (grid.upper - grid.lower)
    else:
        value = np.array([grid.at(each) for each in _centres(request, session, sealed)])  # ---- ... to here
    spent.drawn()
    known = {**spent.rests_on(request), "function": ALONE}
    return Aggregated(value, grid.step, spent.statement(known, value=value.tolist(), step=grid.step))


def _centres(request: AggregateRequest, session: Session, sealed: PrivateResults) -> list[int]:
    """The noisy centre of each dimension, in units of noise, each for an equal part of what is left."""
    how, group = request.how, request.promise.contributions
    assert how.noise is not None
    part, centres = Fraction(request.promise.delta) / how.dimensions, []
    for number in range(how.dimensions):
        cost = Fraction(float_down(session.left / (how.dimensions - number)))
        what = Centre(group, number)
        centres.append(measure_smooth(session, sealed, what, shape=how.noise, cost=cost, delta=part))
    return centres


def _check(function: Any, bounds: Any, how: Blocks, policy: Terms) -> None:
    """Raises InputError if public facts show that an argument is wrong."""
    if not callable(function):
        raise InputError(f"function={shown(function)}: must be a function of a block of rows")
    if not isinstance(bounds, dict) or not bounds:
        raise InputError('bounds must name columns with their lower and upper bound: {"age": (0, 120)}')
    for name, ends in bounds.items():
        if not isinstance(ends, tuple | list) or len(ends) != 2:
            raise InputError(f"bounds of column {name!r} must be a lower and an upper one, such as (0, 120)")
    if type(how.count) is not int or not 1 <= how.count <= 2**20:
        raise InputError(
            f"blocks={shown(how.count)}: must be a number from 1 to 2^20; 100 is a common choice"
        )
    if how.by not in ("average", "center"):
        raise InputError(f"by={shown(how.by)}: must be average or center")
    if type(how.dimensions) is not int or how.dimensions < 1:
        raise InputError(f"dimensions={shown(how.dimensions)}: must be 1 or more")
    if how.by == "average" and policy.delta:
        raise InputError("an average has Laplace noise and needs no delta; leave it out")
