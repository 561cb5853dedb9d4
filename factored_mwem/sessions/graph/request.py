"""GraphRequest: a release of a private graph as requested, checked by public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack, get_args

import numpy as np
import pyarrow as pa

from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError, shown
from factored_mwem.pipeline.record.assumptions import Assumption
from factored_mwem.pipeline.spending import Spending, Spent
from factored_mwem.privacy.other.edges import PrivateEdges, check_pairs
from factored_mwem.request.promise import BookedTerms, Terms
from factored_mwem.request.table import PrivateTable
from factored_mwem.sessions.graph.linear_program import check_program, needed
from factored_mwem.sessions.graph.spectral import WHOLE
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import OpenedSource
from factored_mwem.tables.inputs.edge_list import end_columns
from factored_mwem.tables.inputs.source import is_text_file
from factored_mwem.tables.inputs.text_form import Reading
from factored_mwem.tables.inputs.uris import STANDARD_INPUT

Method = Literal["lp", "spectral", "noise"]
SPECTRAL: Method = "spectral"
ELSEWHERE = "edges are read on this machine; give a file or a data frame"
CONVENTION = (
    "an edge is an unordered pair of different vertices, there or not; a cut (S, T) counts an edge once that "
    "has an end in S and the other in T, also where both ends are in both; it counts once however many "
    "records name it, and a record that names no two different vertices is left out"
)
SHARED = (
    "records", "contributions", "people", "rows", "columns", "readable", "parameters", "releases", "ledger",
    "surroundings",
)  # fmt: skip
"""Names of the assumptions about tables that a graph shares."""


class GraphOptions(BookedTerms, total=False):
    """The other options of a graph, all of them public."""

    columns: Sequence[str] | None
    method: Method | None
    seed: int | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class GraphRequest(PrivateTable):
    """A private graph, the public vertex set, the promise, and how a synthetic graph is made of the noise."""

    vertices: Vertices
    ends: tuple[str, str]
    method: Method
    seed: int | None

    @classmethod
    def of(
        cls,
        edges: Any,
        vertices: Any,
        policy: Terms | None = None,
        *,
        many: bool = False,
        **options: Unpack[GraphOptions],
    ) -> GraphRequest:
        """Raises InputError or ResourceError for what cannot be done, before anything is spent. Reads names
        and types alone. Without a method: spectral. Pure by default, for one noisy vector costs less that
        way; every line of a file is a record. `many`: there may be too many vertices for all pairs.
        """
        choices: dict[str, Any] = dict(options)
        columns, seed = choices.pop("columns", None), choices.pop("seed", None)
        method = choices.pop("method", None)
        method = SPECTRAL if method is None else method
        terms = Terms.given(policy, choices, delta=0.0, records="lines")
        for name in ("decimal", "date_format", "time_zone", "missing"):
            if getattr(terms, name) is not None:
                raise InputError(
                    f"{name} says how values are written, and means nothing for names of vertices"
                )
        known = Vertices.of(vertices)
        if not many:
            check_pairs(known)
        if method not in get_args(Method):
            raise InputError(f"method={shown(method)}: must be one of {', '.join(get_args(Method))}")
        if method == "lp":
            check_program(len(known))
        if method == "spectral" and len(known) > WHOLE:
            needed("scipy", f"a graph of more than {WHOLE:,} vertices")
        if seed is not None and not 0 <= seed < 2**64:
            raise InputError(f"seed={seed}: must be a whole number, 0 or more")
        private = open_edges(edges, terms)
        by = terms.privacy_id
        ends = end_columns(private if by is None else private.without(by), known, columns)
        return cls(
            private=private, promise=terms, declared=None, columns=None,
            vertices=known, ends=ends, seed=seed, method=method,  # as checked
        )  # fmt: skip

    @property
    def spending(self) -> Spending:
        """The release as the ledger enters it."""
        return self.spent_on("graph", method=self.method, sample_seed=self.seed)

    def spent_on(self, kind: str, **settings: Any) -> Spending:
        """The ledger entry of a `kind` of question about the graph."""
        about = {
            "vertices": len(self.vertices),
            "vertices_sha256": self.vertices.digest,
            "columns": list(self.ends),
        }
        return Spending(kind, self.promise, {**about, **settings}, self.fingerprint)

    def sealed(self) -> PrivateEdges:
        """The edges, sealed as soon as they are read; of each person the first ones, as many as the promise
        allows.
        """
        return PrivateEdges.read(self.bounded().read_here(ELSEWHERE), self.vertices, self.ends)

    def assumptions(self, spent: Spent) -> dict[str, Assumption]:
        """The assumptions of the promise: those about tables that hold for a graph, and its own."""
        own = {
            "edges": Assumption(statement=CONVENTION, enforced=True),
            "vertices": Assumption(
                statement="the vertex set is public: it was declared without looking at the edges",
                enforced=False,
            ),
        }
        known = spent.rests_on(self)
        if self.promise.contributions == 1 and self.promise.privacy_id is None:  # nobody's edges are counted
            del known["contributions"]
        return own | {name: known[name] for name in SHARED if name in known}


def open_edges(edges: Any, policy: Terms) -> OpenedSource:
    """The edges as a table: a file or any data frame with a column for each end, a networkx graph, whose
    nodes go by their `str`, or an integer array of two columns. Raises InputError if it is none.

    In a text file every line is a record, whatever its quotes, unless the policy says otherwise.
    """
    if isinstance(edges, np.ndarray):
        if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
            raise InputError("edges as an array are whole numbers in two columns")
        edges = pa.table({"from": edges[:, 0], "to": edges[:, 1]})
    elif type(edges).__module__.partition(".")[0] == "networkx" and hasattr(edges, "edges"):
        ends = [(str(first), str(second)) for first, second, *_ in edges.edges]
        columns = {"from": [first for first, _ in ends], "to": [second for _, second in ends]}
        edges = pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})
    text = is_text_file(edges) or str(edges) == STANDARD_INPUT
    records = policy.records if text else "checked"
    source = open_source(edges, Reading(records, policy.dialect), privacy_id=policy.privacy_id)
    source.read_here(f"edges={shown(edges)}: {ELSEWHERE}")
    return source
