"""Sessions: NOT PRIVATE. Sketches, graphs, questions and statistics replayed on neighbours, as releases are:
see `verify`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np

from factored_mwem.errors import BudgetExceeded
from factored_mwem.ledger.run import Run
from factored_mwem.owner.verifier.edits import Editing, edited, in_place
from factored_mwem.owner.verifier.verify import Search, Verified, searched
from factored_mwem.pipeline.result import Release
from factored_mwem.request.promise import TermsChoices
from factored_mwem.request.table import PrivateTable
from factored_mwem.sessions.graph.release import make_graph
from factored_mwem.sessions.graph.request import GraphRequest
from factored_mwem.sessions.online.asking import AskOptions, AskRequest, ask_session
from factored_mwem.sessions.online.known import KnownRequest, make_known
from factored_mwem.sessions.sketch.build import SketchOptions, SketchRequest, make_sketch
from factored_mwem.sessions.statistic.sample import AggregateRequest, make_aggregate


@dataclass(frozen=True, slots=True)
class Replayed:
    """What is replayed: the request that a table gives, and all that is published of it, made within a run.

    >>> import pyarrow as pa
    >>> from factored_mwem.owner.verifier.sessions import Replayed, verify_session
    >>> pages = pa.table({"url": ["/home"] * 30 + ["/jobs"] * 9})
    >>> verify_session(pages, Replayed.sketch("url", size=64), pairs=5).holds
    True
    """

    request: Callable[[Any], PrivateTable]
    made: Callable[[Any, Run], dict[str, Any]]
    edit: Editing = edited

    @classmethod
    def sketch(cls, column: str, **options: Unpack[SketchOptions]) -> Replayed:
        """A sketch, by the arguments of `sketch`."""

        def made(request: SketchRequest, run: Run) -> dict[str, Any]:
            sketch = make_sketch(request, run)
            return {"record": sketch.statement, "counts": sketch.noisy.tobytes()}

        return cls(lambda table: SketchRequest.of(table, column, **options), made)

    @classmethod
    def graph(cls, vertices: Any, **options: Any) -> Replayed:
        """A graph, by the arguments of `release_graph`."""

        def made(request: GraphRequest, run: Run) -> dict[str, Any]:
            graph = make_graph(request, run)
            return {"record": graph.statement, "pairs": graph.noisy.tobytes()}

        return cls(lambda edges: GraphRequest.of(edges, vertices, **options), made)

    @classmethod
    def ask(
        cls,
        questions: Sequence[str],
        model: str | Path | Release | None = None,
        **options: Unpack[AskOptions],
    ) -> Replayed:
        """The questions of a session one after another, by the arguments of `ask`."""

        def made(request: AskRequest, run: Run) -> dict[str, Any]:
            answers = []
            with ask_session(request, run, resumable=False) as session:
                for question in questions:
                    with contextlib.suppress(BudgetExceeded):  # at the same question on every neighbour
                        answers.append(session.answer(question).to_dict())
                return {"answers": answers, "record": session.statement()}

        return cls(lambda table: AskRequest.of(table, model, **options), made)

    @classmethod
    def known(cls, questions: Sequence[Any], **options: Any) -> Replayed:
        """Counts that are all known beforehand, by the arguments of `answer_known`, or with `column` of
        `answer_known_keys`.
        """

        def request(table: Any) -> KnownRequest:
            if "column" in options:
                return KnownRequest.of_keys(table, questions=questions, **options)
            return KnownRequest.of_cells(table, questions, **options)

        def made(request: KnownRequest, run: Run) -> dict[str, Any]:
            answers = make_known(request, run)
            return {"values": answers.values.tolist(), "record": answers.statement}

        return cls(request, made)

    @classmethod
    def aggregate(
        cls,
        function: Callable[[np.ndarray], Any],
        bounds: dict[str, tuple[float, float]],
        *,
        lower: float,
        upper: float,
        blocks: int,
        by: Literal["average", "center"] = "center",
        dimensions: int = 1,
        **terms: Unpack[TermsChoices],
    ) -> Replayed:
        """Any function of blocks, by the arguments of `sample_and_aggregate`."""
        how = {"lower": lower, "upper": upper, "blocks": blocks, "by": by, "dimensions": dimensions, **terms}

        def made(request: AggregateRequest, run: Run) -> dict[str, Any]:
            result = make_aggregate(request, run)
            return {"value": result.value.tolist(), "record": result.statement}

        return cls(lambda table: AggregateRequest.of(table, function, bounds, **how), made, in_place)


def verify_session(
    table: Any,
    replayed: Replayed,
    *,
    pairs: int = 100,
    seed: int | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> Verified:
    """NOT PRIVATE. Whether `pairs` neighbours of the table, one person apart, keep a session's promise; see
    `verify`, whose arguments these are. Raises the same errors as the session itself.
    """

    def made(source: Any, run: Run) -> dict[str, Any]:
        return replayed.made(replayed.request(source), run)

    search = Search(pairs, seed, report)
    return searched(table, replayed.request(table), made, search, replayed.edit)
