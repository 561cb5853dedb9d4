"""What is said of a released graph: whom it protects, and what that rests on."""

from __future__ import annotations

from factored_mwem.graphs.request import GraphRequest
from factored_mwem.ledger.run import Run
from factored_mwem.pipeline.assumptions import Assumption, assumptions_of
from factored_mwem.policy import Policy

CONVENTION = (
    "an edge is an unordered pair of different vertices, there or not; a cut (S, T) counts an edge once that "
    "has an end in S and the other in T, also where both ends are in both"
)


def unit_of(policy: Policy) -> str:
    """What neighbouring graphs differ in."""
    k = policy.contributions
    whose = "one edge" if k == 1 else f"the edges of one person, {k} at most,"
    change = "added or removed" if policy.neighbours == "add-remove" else "exchanged for others"
    return f"{whose} {change}"


def assumptions(request: GraphRequest, run: Run) -> tuple[Assumption, ...]:
    """What the promise takes for granted; those of a table that hold for a graph, and its own."""
    policy, form = request.policy, request.private.form
    known = assumptions_of(policy, form, learnt=False, ledger=run.has_books)
    own = (
        Assumption(
            statement=f"{CONVENTION}; it counts once however many records name it, and a record that names "
            "no two different vertices is left out",
            enforced=True,
        ),
        Assumption(
            statement="the vertex set is public: it was declared without looking at the edges", enforced=False
        ),
    )
    edge_alone = policy.contributions == 1 and policy.privacy_id is None  # nobody's edges are counted
    contributions = None if edge_alone else known.contributions
    shared = [known.records, contributions, known.people, known.rows, known.columns, known.readable]
    shared += [known.parameters, known.releases, known.ledger, known.surroundings]
    return (*own, *(each for each in shared if each is not None))
