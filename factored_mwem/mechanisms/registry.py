"""The mechanisms, by the name a policy gives them; each is loaded when it is chosen."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from factored_mwem.kernels import warmup
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.result import Fitted
from factored_mwem.mechanisms.rounds import Report
from factored_mwem.privacy.session import Session

ENGINES = ("tree", "mwem")
"""To add one, write its file, with a function `fit`, and name it here, and in `Policy.engine`."""


def mechanism(engine: str) -> Callable[[Session, Plan, Report], Fitted]:
    """What fits a model by this engine."""
    fit: Callable[[Session, Plan, Report], Fitted] = import_module(f"{__package__}.{engine}").fit
    return fit


def is_ready(engine: str) -> bool:
    """Whether the engine's kernels need not be compiled first."""
    return engine != "tree" or not warmup.is_cold()


def make_ready(engine: str) -> None:
    """Compile the engine's kernels where the cache on disk lacks them, before any row is in memory."""
    if engine == "tree":
        warmup.warm_up()
