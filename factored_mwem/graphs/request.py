"""GraphRequest: what is asked of a private graph, checked as far as public facts allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Unpack, get_args

from factored_mwem.backends.source import Local, Source
from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError, shown
from factored_mwem.graphs.edges import open_edges
from factored_mwem.graphs.extras import needed
from factored_mwem.graphs.linear_program import MOST_VERTICES, check_program
from factored_mwem.graphs.spectral import WHOLE
from factored_mwem.pipeline.task import Task
from factored_mwem.policy import Choices, Policy
from factored_mwem.privacy.edges import PrivateEdges, check_pairs
from factored_mwem.tables.edge_list import end_columns

Method = Literal["lp", "spectral", "noise"]
OF_GRAPHS = {
    "epsilon",
    "delta",
    "neighbours",
    "contributions",
    "privacy_id",
    "records",
    "delimiter",
    "encoding",
}
"""The fields of a policy that mean something for a graph."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphRequest:
    """A private graph, the public vertex set, the promise, and how a synthetic graph is made of the noise."""

    private: Source = field(repr=False)
    vertices: Vertices
    columns: tuple[str, str]
    policy: Policy
    method: Method
    seed: int | None

    @classmethod
    def of(
        cls,
        edges: Any,
        vertices: Any,
        policy: Policy | None = None,
        *,
        columns: Sequence[str] | None = None,
        method: str | None = None,
        seed: int | None = None,
        many: bool = False,
        **choices: Unpack[Choices],
    ) -> GraphRequest:
        """InputError or ResourceError for what cannot be done, before anything is spent. Reads names and
        types alone. Without a method: the linear program while it can take the graph, else spectral.
        """
        policy = graph_policy(policy, **choices)
        known = Vertices.of(vertices)
        if not many:
            check_pairs(known)
        if method is None:
            method = "lp" if len(known) <= MOST_VERTICES else "spectral"
        if method not in get_args(Method):
            raise InputError(f"method={shown(method)}: must be one of {', '.join(get_args(Method))}")
        if method == "lp":
            check_program(len(known))
        if method == "spectral" and len(known) > WHOLE:
            needed("scipy", f"a graph of more than {WHOLE:,} vertices")
        if seed is not None and not 0 <= seed < 2**64:
            raise InputError(f"seed={seed}: must be a whole number, 0 or more")
        private = open_edges(edges, policy)
        shown_part = private if policy.privacy_id is None else private.without(policy.privacy_id)
        return cls(private, known, end_columns(shown_part, known, columns), policy, method, seed)  # type: ignore[arg-type]

    @property
    def task(self) -> Task:
        """A release, as the books and the statement know it: public facts."""
        return self.task_of("graph", method=self.method, sample_seed=self.seed)

    def task_of(self, kind: str, **settings: Any) -> Task:
        """A task on this graph."""
        about = {
            "vertices": len(self.vertices),
            "vertices_sha256": self.vertices.digest,
            "columns": list(self.columns),
        }
        return Task(kind, self.policy, {**about, **settings}, self.private.fingerprint)

    def sealed(self) -> PrivateEdges:
        """The edges, sealed at once; of a person, the first that the policy allows."""
        policy, source = self.policy, self.private
        if policy.privacy_id is not None:
            source = source.bounded(policy.privacy_id, policy.contributions)
        assert isinstance(source, Local)  # as opened
        return PrivateEdges.read(source.table, self.vertices, self.columns)


def graph_policy(policy: Policy | None, **choices: Unpack[Choices]) -> Policy:
    """The policy of a graph: pure by default, for one noisy vector costs less that way; every line a record.
    InputError for what is about tables alone.
    """
    if policy is not None and choices:
        raise InputError(f"{next(iter(choices))} is given beside a policy; put it into the policy")
    given = dict(choices) if policy is None else {n: getattr(policy, n) for n in policy.model_fields_set}
    for name in given:
        if name not in OF_GRAPHS:
            raise InputError(f"{name} is about tables, and means nothing for a graph; leave it out")
    whole: Any = {"delta": 0.0, "records": "lines", **given}
    return Policy.of(**whole)
