"""SparseProject's printed parameters: identities, values, and the printed proof's ledger."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest

from factored_mwem.accounting.accountant import Mechanism, price
from factored_mwem.accounting.conversion import epsilon_of
from factored_mwem.errors import InputError
from factored_mwem.sessions.sketch import Printed

GRID = [
    Printed(epsilon, delta, beta, m, k, n)
    for epsilon, delta, beta, (m, k, n) in itertools.product(
        (0.1, 1.0, 5.0), (1e-3, 1e-9), (0.05, 0.9), ((4, 10, 10), (16, 100, 100), (1, 1, 1))
    )
]


@pytest.mark.parametrize("told", GRID, ids=str)
def test_the_number_of_rows_is_both_forms_of_the_identity(told: Printed) -> None:
    square = 8192 * math.log(1 / told.tau) * (told.m + told.n**2) ** 2 / math.sqrt(told.m)
    assert told.size == pytest.approx(square, rel=1e-9, abs=1)
    assert told.tau == told.beta / (4 * told.k)
    assert told.independence == math.ceil(2 * math.log(told.k * told.size / (2 * told.beta)))


def test_values_of_the_theory() -> None:
    assert Printed(1.0, 1e-9, 0.05, 4, 10, 10).size == pytest.approx(2.96e8, rel=1e-3)
    assert Printed(1.0, 1e-9, 0.05, 16, 100, 100).size == pytest.approx(1.85e12, rel=2e-3)


@pytest.mark.parametrize("size", [1, 100, 10**8])
@pytest.mark.parametrize("told", GRID, ids=str)
def test_the_printed_ledger_closes(told: Printed, size: int) -> None:
    """sqrt(2 T ln(1/delta)) e0 + 2 T e0^2 = e/2 + e^2/(4 ln(1/delta)) <= e, whatever T is."""
    logs = math.log(1 / told.delta)
    assert told.composed(size) == pytest.approx(told.epsilon / 2 + told.epsilon**2 / (4 * logs))
    assert told.composed(size) <= told.epsilon
    assert told.sigma == pytest.approx(told.epsilon / math.sqrt(8 * logs))


@pytest.mark.parametrize("told", GRID, ids=str)
def test_the_printed_noise_costs_less_than_the_proof_says(told: Printed) -> None:
    """In rho it is sigma^2 / 2, as the accountant charges for whole numbers, and the same promise holds."""
    for size in (64, 4096):
        exact = Fraction(told.scale(size))
        charged = price(Mechanism.LAPLACE_IN_RHO, scale=float(exact), sensitivity=size)
        assert charged == pytest.approx(float(told.rho(size)), rel=1e-9)
        assert float(told.rho(size)) == pytest.approx(told.sigma**2 / 2)
        assert epsilon_of(told.rho(size), Fraction(told.delta)) < told.composed(size) * (1 + 1e-9)


def test_bounds_in_records() -> None:
    told = Printed(1.0, 1e-9, 0.05, 4, 10, 10)
    root = math.sqrt(2 * math.sqrt(4)) / (4 + 100)  # s; (s / 2) (m + n^2)
    assert told.projection_error == pytest.approx(root / 2 * (4 + 100))
    assert told.noise_error == pytest.approx(math.sqrt(8 * 8 * math.log(800)) / told.sigma)


WRONG = [("epsilon", 0.0), ("epsilon", 50.0), ("epsilon", math.nan), ("delta", 0.0), ("beta", 1.0), ("m", 0)]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_what_the_proof_does_not_cover_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError):
        Printed(**{"epsilon": 1.0, "delta": 1e-9, "beta": 0.1, "m": 1, "k": 1, "n": 1, name: value})
