"""Differentially private synthetic tables by factored MWEM.

>>> from factored_mwem import release, Workload, Domain, Policy
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from factored_mwem.accounting.cap import Cap
    from factored_mwem.accounting.unit import Neighbours
    from factored_mwem.domain.attribute import Attribute
    from factored_mwem.domain.domain import Domain
    from factored_mwem.errors import BudgetExceeded, FmwemError, InputError, ResourceError
    from factored_mwem.ledger.file import LedgerFile
    from factored_mwem.pipeline.evaluate import evaluate
    from factored_mwem.pipeline.release import release
    from factored_mwem.pipeline.result import Release
    from factored_mwem.policy import Policy
    from factored_mwem.tables.draft import draft
    from factored_mwem.verifier.verify import Verified, verify
    from factored_mwem.workload.workload import Workload

_HOME = {
    "Attribute": "domain.attribute", "BudgetExceeded": "errors", "Cap": "accounting.cap", "Domain": "domain.domain",
    "FmwemError": "errors", "InputError": "errors", "LedgerFile": "ledger.file", "Neighbours": "accounting.unit",
    "Policy": "policy", "Release": "pipeline.result", "ResourceError": "errors", "Verified": "verifier.verify",
    "Workload": "workload.workload", "draft": "tables.draft", "evaluate": "pipeline.evaluate",
    "release": "pipeline.release", "verify": "verifier.verify",
}  # fmt: skip
__all__ = [
    "Attribute", "BudgetExceeded", "Cap", "Domain", "FmwemError", "InputError", "LedgerFile", "Neighbours", "Policy", "Release",
    "ResourceError", "Verified", "Workload", "draft", "evaluate", "release", "verify",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a public name at first use: importing the package alone stays cheap."""
    if name not in _HOME:
        raise AttributeError(f"module 'factored_mwem' has no attribute {name!r}")
    return getattr(import_module(f"factored_mwem.{_HOME[name]}"), name)
