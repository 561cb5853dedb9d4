"""Drawable: a model, and all that it takes to draw rows of it, before there is a release, too. Public."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import View
from factored_mwem.model.forest import Forest
from factored_mwem.pipeline.record.manifest import PeopleFacts
from factored_mwem.pipeline.sampling import Batches, aims_of
from factored_mwem.privacy.session import Measurement
from factored_mwem.request.policy import DEFAULT_MAX_ROWS
from factored_mwem.request.request import Request
from factored_mwem.workload.workload import Workload


def generator(seed: int, batch: int) -> np.random.Generator:
    """The generator for batch `batch` of the rows of `seed`: the same for whoever draws it, at any time.

    It uses a spawn key, not the list [seed, batch]: numpy joins the words of a list, so batch b of a seed
    below 2^32 would equal the first batch of seed + 2^32 * b.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(batch,)))


def aims_for(
    workload: Workload, domain: Domain, model: Forest, rows: int, policy: Mapping[str, Any]
) -> list[View]:
    """The marginals asked for, which rows are refined towards; none for engine mwem. `policy`: as JSON."""
    if policy["engine"] == "mwem":
        return []
    limit = policy["max_memory"]
    return aims_of(workload.candidates(domain), model, rows, float(limit) if limit else math.inf)


def number_of_rows(request: Request, estimated: int) -> int:
    """How many rows are released: as many as asked for, else the noisy count."""
    return min(estimated, DEFAULT_MAX_ROWS) if request.rows is None else request.rows


@dataclass(frozen=True, eq=False)
class Drawable:
    """A model, of rows or of people, the domain and the columns of its rows, and what each record weighs;
    `people`: the facts about them, where each weighs one; `measured`: what the model was fitted to.
    """

    model: Forest
    domain: Domain
    schema: pa.Schema
    unit: Unit
    people: PeopleFacts | None = None
    measured: Sequence[Measurement] = ()

    @cached_property
    def of_rows(self) -> Forest:
        """The model of rows: the model itself, unless that is of people."""
        if self.people is None:
            return self.model
        from factored_mwem.pipeline.people import rows_model

        return rows_model(self.model, self.domain, self.unit, self.people.most_rows)

    def released(self, rows: int, seed: int, workload: Workload, policy: Mapping[str, Any]) -> Batches:
        """`rows` as a release draws them, refined towards what the `workload` asks for; `policy`: as JSON."""
        if self.people is not None and self.people.order_by is not None:
            return self.drawn(rows, seed, ())  # moving a row would break the order of those after it
        return self.drawn(rows, seed, aims_for(workload, self.domain, self.of_rows, rows, policy))

    def drawn(self, rows: int, seed: int, aims: Sequence[View]) -> Batches:
        """So many rows, refined towards `aims`."""
        model, draw, people = self.of_rows, partial(generator, seed), self.people
        if people is None:
            return Batches(model, self.domain, self.schema, rows, draw, aims)
        from factored_mwem.pipeline.people import PeopleBatches, RowCounts, schema_of

        counts = RowCounts.in_model(self.model, self.domain, self.unit, people.most_rows)
        schema = schema_of(self.schema, people)
        facts = {"inner": self.schema, "people": people, "counts": counts, "of_people": self.model}
        if people.order_by is not None:
            from factored_mwem.pipeline.sequences import SequenceBatches

            noise = [m.stddev for m in self.measured if len(m.positions) > 1]
            facts |= {"order": people.order_by, "stddev": max(noise, default=0.0)}
            return SequenceBatches(model, self.domain, schema, rows, draw, (), **facts)
        if people.agreement:
            from factored_mwem.pipeline.usual import UsualBatches

            return UsualBatches(model, self.domain, schema, rows, draw, aims, **facts)
        return PeopleBatches(model, self.domain, schema, rows, draw, aims, **facts)
