"""Runs that die and go on, with noise that a test knows."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise

from factored_mwem.files import crashpoints as faults
from factored_mwem.ledger.entries import Entry
from factored_mwem.ledger.opening import open_ledger
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.pipeline.release import make, spending_of
from factored_mwem.pipeline.result import Release
from factored_mwem.request.request import Request

DOMAIN = {"a": 4, "b": 3, "c": 5}


class Crash(BaseException):
    """What a test raises where a process would die."""


def table(rows: int = 300) -> pa.Table:
    return pa.table({name: np.arange(rows) * 7919 % 9973 % size for name, size in DOMAIN.items()})


def die_at(point: str, nth: int) -> None:
    """The process 'dies' when it comes to `point` for the nth time."""
    seen = [0]

    def hook(reached: str) -> None:
        seen[0] += reached == point
        if reached == point and seen[0] == nth:
            raise Crash

    faults.hook = hook


def go(
    books: Any, source: Any = None, noise: FakeNoise | None = None, *, run_id: str = "r", **choices: Any
) -> tuple[Release, Run, FakeNoise]:
    """A run of dataset `t` with noise that a test knows."""
    noise = noise or FakeNoise(offset=lambda values, _: values + np.arange(len(values)) % 3)
    settings = {"domain": DOMAIN, "epsilon": 1.0, "engine": "mwem", "rounds": 4, **choices}
    r = Request.of(table() if source is None else source, 2, **settings)
    with Run.begin(spending_of(r), Booking(booked(books), "t", run_id), version="1") as run:
        made = make(
            r,
            run,
            noise=noise,
        )
        run.finish()
    return made, run, noise


def booked(books: Any) -> Any:
    """What a user gives for it."""
    return books if isinstance(books, str | Path) else str(books)


def died(books: Any, point: str, nth: int, **choices: Any) -> FakeNoise:
    """The noise of a run that died there."""
    noise = FakeNoise(offset=lambda values, _: values + np.arange(len(values)) % 3)
    die_at(point, nth)
    with pytest.raises(Crash) as crash:
        go(books, noise=noise, **choices)
    faults.hook = lambda _: None
    assert crash.value.budget_spent is (point != "before reserve")  # type: ignore[attr-defined]
    return noise


def entries(books: Any) -> list[Entry]:
    return open_ledger(booked(books)).entries("t")


def state(books: Any) -> list[str]:
    return [e.state for e in entries(books)]


def sql(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as db:
        for statement in statements:
            db.execute(statement)
    db.close()
