"""Terms: linear queries that are products of per-attribute weights, and their answers."""

from __future__ import annotations

import string
from dataclasses import dataclass

import numpy as np

from factored_mwem.model.forest import Forest


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """`k` queries over the same attributes: query i sums over all records the product of
    `weights[j][i, code]` over the attributes `support[j]`, ascending positions in the modelled domain.

    `weights[j]: float64[k, codes of support[j]]`; of a condition 0 and 1, of a mean the codes' values. No
    support: the number of records, for every query.
    """

    support: tuple[int, ...]
    weights: tuple[np.ndarray, ...]
    count: int

    def of_table(self, table: np.ndarray) -> np.ndarray:
        """float64[k]: the answers of a marginal over the support, `table: float64[codes, ...]`."""
        if not self.support:
            return np.full(self.count, float(table.sum()))
        letters = string.ascii_letters[: len(self.support)]
        operands = ",".join(f"Z{letter}" for letter in letters)
        return np.einsum(f"{letters},{operands}->Z", table, *self.weights, optimize=True)

    def of_forest(self, forest: Forest) -> np.ndarray:
        """float64[k]: the model's answers, in records."""
        if not self.support:
            return np.full(self.count, float(forest.total))
        shape = [int(forest.levels.sizes[a]) for a in self.support]
        return self.of_table(forest.marginal(self.support).reshape(shape))

    def of_rows(self, codes: np.ndarray) -> np.ndarray:
        """float64[k]: the answers of rows, `codes: int[attribute, row]`, in rows."""
        if not self.support:
            return np.full(self.count, float(codes.shape[1]))
        answers = np.empty(self.count)
        for i in range(self.count):
            product = self.weights[0][i][codes[self.support[0]]]
            for a, weights in zip(self.support[1:], self.weights[1:], strict=True):
                product = product * weights[i][codes[a]]
            answers[i] = product.sum()
        return answers
