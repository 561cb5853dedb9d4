"""Adult as the paper took it: eight categorical attributes of the complete rows of adult.data, as codes or as
27 bits.

The bits are those of the authors' own file, rebuilt from the table that UCI publishes: codes by first
appearance, most significant bit first, and one record of zeros that their file has beside the 30,162 people.
ONES says how many records have each bit.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from factored_mwem import Domain
from replay import data

BITS = {
    "native-country": 6, "sex": 1, "race": 3, "relationship": 3,
    "occupation": 4, "marital-status": 3, "education": 4, "workclass": 3,
}  # fmt: skip
"""Attribute -> bits, in the order in which they are joined."""
ONES = (
    212, 745, 1002, 1431, 1036, 1181, 9782, 231, 1181, 3103, 4101, 5872, 17818, 7704, 9509, 12623, 14302,
    1787, 5411, 14456, 3905, 10091, 5598, 20493, 3155, 23243, 4516,
)  # fmt: skip


def codes() -> tuple[Domain, data.Exact]:
    """The eight attributes and the 30,162 people without a missing value in any column; codes by first
    appearance.
    """
    table = data.read("adult", data.ADULT, data.ROWS_OF_ADULT_DATA)
    complete = table[(table != "?").all(axis=1)]
    coded = {name: pd.factorize(complete[name]) for name in BITS}
    domain = {name: len(values) for name, (_, values) in coded.items()}
    columns = [column.astype(np.uint8) for column, _ in coded.values()]
    return Domain.from_dict(domain), data.Exact(columns, list(domain.values()))


def bits() -> np.ndarray:
    """uint8[27, 30163]: the authors' binarised Adult, its record of zeros last."""
    columns = codes()[1].codes
    of_each = [
        (column >> shift) & 1
        for column, width in zip(columns, BITS.values(), strict=True)
        for shift in reversed(range(width))
    ]
    return np.pad(np.array(of_each, dtype=np.uint8), [(0, 0), (0, 1)])


def binary(columns: np.ndarray) -> tuple[Domain, data.Exact]:
    """A domain of bits and the rows over it, from `columns: uint8[attribute, row]`."""
    domain = Domain.from_dict({f"bit {i}": 2 for i in range(len(columns))})
    return domain, data.Exact(list(columns), domain.shape)
