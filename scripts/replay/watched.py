"""The paper's learner, timed, and stopped before its model becomes too large. NOT PRIVATE."""

from __future__ import annotations

import math
import time

from factored_mwem.model.dense import ProductModel
from factored_mwem.privacy.session import Session
from replay.paper import Paper, PaperLearner, Task


class TooLarge(Exception):
    """Ends a run before it sweeps over a component of so many cells."""

    def __init__(self, cells: int) -> None:
        super().__init__(cells)
        self.cells = cells


class Watched(PaperLearner):
    """The paper's learner, with the processor seconds of its last update, which it refuses to make too
    large.
    """

    def __init__(self, session: Session, task: Task, paper: Paper, model: ProductModel, limit: int) -> None:
        super().__init__(session, task, paper, model)
        self.limit, self.seconds = limit, 0.0

    def update(self) -> None:
        started = time.process_time()
        kind, question, _ = self.measured[-1]
        parts = {id(part): part for part in map(self.dense.model.factor, kind.positions(question))}
        cells = math.prod(len(part.weights) for part in parts.values())
        if cells > self.limit:
            raise TooLarge(cells)
        super().update()
        self.seconds = time.process_time() - started
