"""The loop, once for all mechanisms: select what the model answers worst, measure it, update the model
(HLM12 Fig. 1).
"""

from __future__ import annotations

from typing import Any, Protocol

from factored_mwem.mechanisms.result import Progress, Report
from factored_mwem.mechanisms.schedule import Round, Schedule
from factored_mwem.privacy.counts import PrivateAnswers, PrivateCounts
from factored_mwem.privacy.session import Eligible, Measurement, Session


class Learner(Protocol):
    """A model that learns from measurements; all that it knows is public."""

    @property
    def private(self) -> PrivateCounts | PrivateAnswers:
        """The sealed numbers that its candidates are about."""

    def eligible(self, step: Round) -> Eligible:
        """The candidates of a round; none ends the loop."""

    def answers(self, eligible: Eligible) -> Any:
        """The model's answers, as `private` compares them with the truth."""

    def target(self, chosen: int) -> Any:
        """What to measure of a candidate: a view, or the number of a question."""

    def add(self, chosen: int, measured: Measurement) -> tuple[float, float] | None:
        """Learn from it. Returns the L1 gap it showed, and the gap that noise alone is expected to make
        (records); None where the price of rounds is not to follow it.
        """

    def progress(self, schedule: Schedule) -> Progress:
        """The round that is over, for a report."""


def rounds(session: Session, learner: Learner, schedule: Schedule, report: Report) -> int:
    """Run the rounds that the schedule hands out, as long as anything is eligible; returns how many were
    completed.
    """
    completed = 0
    for step in schedule if schedule.rounds else ():
        eligible = learner.eligible(step)
        if not len(eligible):
            break
        chosen = session.select(learner.private, learner.answers(eligible), eligible, cost=step.select)
        measured = session.measure(learner.private, learner.target(chosen), cost=step.measure)
        shown = learner.add(chosen, measured)
        if shown is not None:
            schedule.note(*shown)
        completed += 1
        report(learner.progress(schedule))
    return completed
