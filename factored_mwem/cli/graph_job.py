"""One run of `fmwem graph` from its settings, files included."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from factored_mwem.cli.console import lined, piece
from factored_mwem.cli.inputs import Given
from factored_mwem.cli.jobs import check_paths
from factored_mwem.cli.settings import ReleaseSettings
from factored_mwem.files import IfExists
from factored_mwem.graphs.publish import GraphFiles, Published, publish_graph
from factored_mwem.graphs.queries import read_cuts
from factored_mwem.graphs.request import GraphRequest
from factored_mwem.ledger.run import Booking
from factored_mwem.policy import Policy
from factored_mwem.tables.targets import target_of


def run_graph(
    edges: Given,
    vertices: str,
    policy: Policy,
    settings: ReleaseSettings,
    asked: Mapping[str, Any],
    places: Mapping[str, Any],
) -> tuple[dict[str, Any], str]:
    """Release `edges` and write the files; the line for scripts, and words for people. What can be refused is
    so before an edge is read.
    """
    output = target_of(places["output"])
    answers = None
    if places["queries"] is not None:
        answers = output.beside(PurePosixPath(output.name).stem + ".answers.csv")
    weights = None if places["weights"] is None else target_of(places["weights"])
    files = GraphFiles(output, weights, answers)
    own = vertices if os.path.isfile(vertices) else None
    ledger = settings.ledger.path if settings.ledger is not None else None
    check_paths(files.released.all, [*places["read"], own, ledger], places["globs"])
    known: Any = Path(vertices) if own else vertices
    request = GraphRequest.of(edges, known, policy, **asked)
    cuts = [] if places["queries"] is None else read_cuts(places["queries"], request.vertices)
    booking = Booking(settings.ledger, settings.dataset, settings.run_id)
    done = publish_graph(request, booking, files, IfExists(places["overwrite"]), cuts)
    facts = _facts(done)
    if booking.ledger:
        facts |= {"dataset": booking.dataset, "run_id": booking.run_id, "reused": done.reused}
    return facts, "\n".join(_words(done, facts))


def _facts(done: Published) -> dict[str, Any]:
    """The line for scripts."""
    promise, settings = done.statement.promise, done.statement.settings
    facts = {
        "output": str(done.files.edges),
        "manifest": str(done.files.released.manifest),
        "rows": settings["output"]["rows"],
        "method": settings["method"],
        "vertices": settings["vertices"],
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "spent_epsilon": promise.spent_epsilon,
        "unit": promise.unit,
    }
    more = {"weights": done.files.weights, "answers": done.files.answers, "resumed": done.resumed or None}
    return facts | {name: str(what) if name != "resumed" else what for name, what in more.items() if what}


def _words(done: Published, facts: Mapping[str, Any]) -> list[str]:
    """The summary for people."""
    promise = done.statement.promise
    what = "pairs with their noisy weights" if facts["method"] == "noise" else "edges"
    lines = lined("released", [f"{piece(facts['output'])}: {facts['rows']:,} {what}"])
    lines += lined("beside it", [piece(facts["manifest"])])
    lines += lined("also", [piece(facts[name]) for name in ("weights", "answers") if name in facts])
    delta = f", delta {promise.delta:g}" if promise.delta else ""
    spent = f"epsilon {promise.spent_epsilon:.6g}{delta}, for {promise.unit}"
    lines += lined("spent", [spent if not done.reused else f"nothing now; {spent} when it was made"])
    lines += lined("rests on", [each.statement for each in done.statement.assumptions if not each.enforced])
    return lines
