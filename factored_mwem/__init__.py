"""Differentially private synthetic tables by factored MWEM.

    release                        a synthetic table from a private one, and what it cost
    release_tables, LinkedRelease  synthetic tables that belong together
    Package, LinkedTable, Reference  which those are, and by which keys
    push_down                      a table in a database whose rows must stay there
    plan, Planned                  epsilons side by side before any is spent: what is promised, and expected
    learn                          a domain for a private table, paid for once
    Workload, Domain, Attribute    what must come out right; what may appear in a table, column by column
    Policy, Neighbours             the promise: epsilon, delta, whom it protects; and how it is kept
    Release, Marginal, Manifest    what is released: rows, files, counts, and the statement of its cost
    Answer                         what a release says to a query, with error bars
    ask                            questions about the private table, one by one, answered within a bound
    report, evidence               a page about a release that anybody may see; all that speaks for it
    show_progress, Progress        a bar for `report`; what it is given after every round
    LedgerFile, Cap                what all releases of a dataset have cost together, and may cost
    open_ledger, create_ledger     a ledger by its place: a file, or a database that workers share
    release_graph, GraphRelease    a synthetic graph from a private one; more in `sessions.graph`
    sketch, Sketch                 how often any key of an endless universe comes: counts with error bars
    combine                        a figure with its error, from replicate tables of a release
    statistic, Statistic           one number of a private column: median, mean, count and more
    draft, evaluate, Errors        NOT PRIVATE: a first domain for review; how far off a release is
    private_report                 NOT PRIVATE: a page with its errors, beside the real table
    verify, Verified               NOT PRIVATE: whether the promise holds on the owner's own table
    attack, Attack, Effort         NOT PRIVATE: what attackers learn of single people of it
    FmwemError                     any refusal: InputError (Ambiguous, Changed, Lost, NotPermitted,
                                   RolledBack), BudgetExceeded, NothingLearnt, NotAccepted,
                                   ResourceError (Busy)

A synthetic table that answers all two-way marginals, from a path or any data frame:

>>> import pyarrow as pa
>>> from factored_mwem import Workload, release
>>> people = pa.table({"age": [31, 45, 31, 62] * 25, "sex": ["F", "M", "M", "F"] * 25})
>>> public = {"fields": [{"name": "sex", "categories": ["F", "M"]},
...     {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}}]}
>>> made = release(people, Workload.marginals(2), domain=public, rows=80, epsilon=1.0)
>>> made.to_arrow().shape
(80, 2)

What was promised for it, and what may be published with it:

>>> made.manifest.guarantee.epsilon, made.manifest.recompute() <= 1.0
(1.0, True)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from factored_mwem.accounting.cap import Cap
    from factored_mwem.accounting.unit import Neighbours
    from factored_mwem.answers.answer import Answer
    from factored_mwem.answers.combining import combine
    from factored_mwem.documents.evidence import evidence
    from factored_mwem.documents.report import report
    from factored_mwem.domain.attribute import Attribute
    from factored_mwem.domain.domain import Domain
    from factored_mwem.errors import (
        Ambiguous,
        BudgetExceeded,
        Busy,
        Changed,
        FmwemError,
        InputError,
        Lost,
        NotAccepted,
        NothingLearnt,
        NotPermitted,
        ResourceError,
        RolledBack,
    )
    from factored_mwem.ledger.file import LedgerFile
    from factored_mwem.ledger.opening import create_ledger, open_ledger
    from factored_mwem.owner.attack.attack import attack
    from factored_mwem.owner.attack.result import Attack, Effort
    from factored_mwem.owner.draft import draft
    from factored_mwem.owner.evaluation.evaluate import Errors, evaluate
    from factored_mwem.owner.page.private_report import private_report
    from factored_mwem.owner.verifier.verify import Verified, verify
    from factored_mwem.pipeline.forecasts.planning import Planned, plan
    from factored_mwem.pipeline.learn_domain import learn
    from factored_mwem.pipeline.linked import release_tables
    from factored_mwem.pipeline.linked_rows import LinkedRelease
    from factored_mwem.pipeline.marginal import Marginal
    from factored_mwem.pipeline.progress import Progress, show_progress
    from factored_mwem.pipeline.record.manifest import Manifest
    from factored_mwem.pipeline.release import release
    from factored_mwem.pipeline.result import Release
    from factored_mwem.request.package import LinkedTable, Package, Reference
    from factored_mwem.request.policy import Policy
    from factored_mwem.sessions.graph.release import release_graph
    from factored_mwem.sessions.graph.result import GraphRelease
    from factored_mwem.sessions.online.asking import ask
    from factored_mwem.sessions.sketch.build import sketch
    from factored_mwem.sessions.sketch.released import Sketch
    from factored_mwem.sessions.statistic.column_statistic import Statistic, statistic
    from factored_mwem.tables.backends.sql import push_down
    from factored_mwem.workload.workload import Workload

    __version__: str

__all__ = [
    "Ambiguous", "Answer", "Attack", "Attribute", "BudgetExceeded", "Busy", "Cap", "Changed", "Domain",
    "Effort", "Errors", "FmwemError", "GraphRelease", "InputError", "LedgerFile", "LinkedRelease",
    "LinkedTable", "Lost", "Manifest", "Marginal", "Neighbours", "NotAccepted", "NotPermitted",
    "NothingLearnt", "Package", "Planned", "Policy", "Progress", "Reference", "Release", "ResourceError",
    "RolledBack", "Sketch", "Statistic", "Verified", "Workload", "ask", "attack", "combine",
    "create_ledger", "draft", "evaluate", "evidence", "learn", "open_ledger", "plan", "private_report",
    "push_down", "release", "release_graph", "release_tables", "report", "show_progress", "sketch",
    "statistic", "verify",
]  # fmt: skip
_HOME = {
    "Answer": "answers.answer", "Attack": "owner.attack.result", "Effort": "owner.attack.result",
    "attack": "owner.attack.attack",
    "Attribute": "domain.attribute", "Cap": "accounting.cap", "Domain": "domain.domain",
    "Errors": "owner.evaluation.evaluate", "LedgerFile": "ledger.file",
    "Manifest": "pipeline.record.manifest",
    "Marginal": "pipeline.marginal", "Neighbours": "accounting.unit", "Policy": "request.policy",
    "Progress": "pipeline.progress", "Release": "pipeline.result", "Verified": "owner.verifier.verify",
    "Workload": "workload.workload", "ask": "sessions.online.asking",
    "draft": "owner.draft", "evaluate": "owner.evaluation.evaluate",
    "combine": "answers.combining", "create_ledger": "ledger.opening", "open_ledger": "ledger.opening",
    "learn": "pipeline.learn_domain", "release": "pipeline.release", "verify": "owner.verifier.verify",
    "Planned": "pipeline.forecasts.planning", "plan": "pipeline.forecasts.planning",
    "GraphRelease": "sessions.graph.result", "release_graph": "sessions.graph.release",
    "Statistic": "sessions.statistic.column_statistic", "statistic": "sessions.statistic.column_statistic",
    "Sketch": "sessions.sketch.released", "sketch": "sessions.sketch.build",
    "private_report": "owner.page.private_report", "report": "documents.report",
    "evidence": "documents.evidence",
    "LinkedRelease": "pipeline.linked_rows", "release_tables": "pipeline.linked",
    "LinkedTable": "request.package", "Package": "request.package", "Reference": "request.package",
    "push_down": "tables.backends.sql", "show_progress": "pipeline.progress",
}  # fmt: skip
"""Modules of the public names; the others are errors."""


def __dir__() -> list[str]:
    return [*__all__, "__version__", *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> Any:
    """Load a public name at first use: importing the package alone stays cheap."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("factored-mwem")
        except PackageNotFoundError:
            return "not installed"
    if name not in __all__:
        raise AttributeError(f"module 'factored_mwem' has no attribute {name!r}")
    from factored_mwem.errors import check_system

    check_system()
    return getattr(import_module(f"factored_mwem.{_HOME.get(name, 'errors')}"), name)
