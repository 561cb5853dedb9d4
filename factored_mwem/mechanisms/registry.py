"""The mechanisms, by the name a policy gives them."""

from __future__ import annotations

from collections.abc import Callable

from factored_mwem.mechanisms import mwem, tree
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.result import Fitted, Report
from factored_mwem.privacy.session import Session

MECHANISMS: dict[str, Callable[[Session, Plan, Report], Fitted]] = {"tree": tree.fit, "mwem": mwem.fit}
"""To add one, write its file and name it here, and in `Policy.engine`."""
