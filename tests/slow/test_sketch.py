"""Sketches with the real noise, and SparseProject's bounds as inequalities, at the printed number of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2
from support.drawing import drawing
from support.fakes import Between
from support.goodness import fits, gaussian, laplace

from factored_mwem.accounting.conversion import Composition
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.sessions.sketch import Printed, SketchRequest, build
from factored_mwem.workload.projection import Projection

EMPTY = pa.table({"key": pa.array([None] * 5, pa.string())})
KINDS: dict[str, tuple[dict[str, Any], Any]] = {
    "gaussian": ({"epsilon": 100.0}, gaussian),
    "laplace in rho": ({"epsilon": 100.0, "noise": "laplace"}, laplace),
    "pure": ({"epsilon": 2.0**12, "delta": 0.0}, laplace),
}


def rows_of_nothing(kind: str, factor: float) -> tuple[np.ndarray, float]:
    """(noisy rows, scale as charged) of a table without keys, with noise at `factor` times its scale."""
    asked, _ = KINDS[kind]
    request = SketchRequest.of(EMPTY, "key", size=2**15, **asked)
    composition = Composition.ZCDP if kind == "gaussian" else Composition.PURE
    with drawing(Between(OpenDPNoise(composition), factor)):
        made = build.make_sketch(request, build.Run())
    return made.noisy, made.statement.ledger[0].scale


@pytest.mark.parametrize("kind", KINDS)
def test_rows_carry_the_noise_that_was_charged_and_half_of_it_is_seen(kind: str) -> None:
    for factor in (1.0, 0.5):
        noisy, scale = rows_of_nothing(kind, factor)
        assert fits(noisy, KINDS[kind][1], scale) == (factor == 1.0)


@pytest.mark.parametrize("factor", [1.0, 0.2, 4.0])
def test_answers_are_as_far_off_as_their_error_bars_say(factor: float) -> None:
    """Of noise alone, for a list of one key: sixty squared distances in standard deviations together, against
    the chi-squared distribution, outside of which lies one in 10^10. A fifth and four times the noise show:
    either would be inside less often still.
    """
    low, high = (float(chi2.ppf(p, 60)) for p in (5e-11, 1 - 5e-11))
    off = []
    for _ in range(60):
        request = SketchRequest.of(pa.table({"key": ["a"] * 70}), "key", size=64, keys=["a"])
        with drawing(Between(OpenDPNoise(Composition.ZCDP), factor)):
            answer = build.make_sketch(request, build.Run()).answer(["a"])
        off.append((answer.estimate - 70) / answer.noise_stderr)
    assert (low < float(np.square(off).sum()) < high) == (factor == 1.0)


TOLD = Printed(epsilon=1.0, delta=1e-9, beta=1e-10, m=1, k=2, n=1)
"""A record, and two queries: its key, and another one. Both bounds fail once in 2 10^10 times."""


def errors(independence: int) -> list[float]:
    """Of the noise-free answers to both queries, at the printed number of rows."""
    rng = np.random.default_rng(0)
    projection = Projection.of(TOLD.size, 1, independence, 4, rng.bytes(16 * independence))
    keys = np.array([3, 9], dtype=np.uint64)
    sums = projection.project(keys[:1], np.array([1]))
    answers = projection.reader(sums).sums(keys) / TOLD.size
    return [abs(answers[0] - 1), abs(answers[1])]


def test_the_printed_projection_keeps_its_bound() -> None:
    assert TOLD.size > 800_000 and TOLD.independence > 70
    assert max(errors(TOLD.independence)) <= TOLD.projection_error


def test_a_hash_without_independence_breaks_it() -> None:
    """One coefficient: all keys have the same signs, and the other key is answered by the record's count."""
    assert max(errors(1)) > TOLD.projection_error


@pytest.mark.parametrize("factor", [1.0, 12.0])
def test_the_printed_noise_keeps_its_bound(factor: float) -> None:
    """Of one sum over all rows; with twelve times the noise it is broken by one of a hundred sums."""
    rng, noise = np.random.default_rng(0), OpenDPNoise(Composition.PURE)
    scale = TOLD.scale(TOLD.size) * factor
    drawn = noise.add(np.zeros(TOLD.size, dtype=np.int64), scale=scale)
    number = 1 if factor == 1.0 else 100
    most = max(abs(float(rng.choice([-1, 1], TOLD.size) @ drawn)) / TOLD.size for _ in range(number))
    assert (most <= TOLD.noise_error) == (factor == 1.0)
    assert math.isfinite(most)
