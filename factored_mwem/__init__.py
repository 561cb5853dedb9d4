"""Differentially private synthetic tables by factored MWEM.

>>> from factored_mwem import release, Workload, Domain, Policy
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from factored_mwem.attribute import Attribute
    from factored_mwem.domain import Domain
    from factored_mwem.drafting import draft
    from factored_mwem.errors import BudgetExceeded, FmwemError, InputError, ResourceError
    from factored_mwem.evaluation import evaluate
    from factored_mwem.flow import Release, release
    from factored_mwem.ledger_file import LedgerFile
    from factored_mwem.plan import Policy
    from factored_mwem.privacy.cap import Cap
    from factored_mwem.privacy.neighbours import Neighbours
    from factored_mwem.verifier.verify import Verified, verify
    from factored_mwem.workload import Workload

_HOME = {
    "release": "flow", "Release": "flow", "Workload": "workload", "Domain": "domain", "Attribute": "attribute", "Policy": "plan",
    "LedgerFile": "ledger_file", "Cap": "privacy.cap", "Neighbours": "privacy.neighbours", "draft": "drafting", "evaluate": "evaluation",
    "verify": "verifier.verify", "Verified": "verifier.verify",
    "FmwemError": "errors", "InputError": "errors", "BudgetExceeded": "errors", "ResourceError": "errors",
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
