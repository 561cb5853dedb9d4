"""Projection: a matrix of signs with a column for every key that there can be, made by a hash family; public.

A record adds its key's column to a sum of T whole numbers. Its columns are not stored: an entry is the last
bit of a random polynomial over GF(2^s) at the number of its row and key. Source: SparseProject, Blum and Roth
2011 (arXiv 1111.6842); entries are theirs times sqrt(T), so that sums are exact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from factored_mwem.errors import InputError
from factored_mwem.kernels import galois
from factored_mwem.kernels.linear import walsh

MAX_ROWS = 2**24
"""Of a projection: 128 MB of numbers."""
MAX_COEFFICIENTS = 1024
MAX_BLOCKS = 1024
QUADRATIC = 7
"""Polynomials of up to this many coefficients have exponents of at most two bits: their last bit is a
quadratic form of the point's bits, and a Walsh transform takes the place of a sum over keys and rows.
"""
MAX_WORK = 2**30
"""Multiplications for a key where no quadratic form helps: two minutes."""
PERSON = b"fmwem sketch"
"""Tells these hashes from others by the same key."""


class Universe(Protocol):
    """Keys as numbers below 2^`bits`."""

    @property
    def bits(self) -> int: ...

    def number(self, key: str) -> int | None:
        """The key's number, if it has one: a public function of the key alone."""


@dataclass(frozen=True, slots=True)
class Hashed:
    """Any text: its number is 64 bits of BLAKE2b, with a public key that nobody knew before.

    Two of N keys share a number with a probability of at most N^2 / 2^65 (1 in 37 million for a million
    keys): their counts are then added up. Nothing is assumed of this for privacy.
    """

    key: bytes
    bits: int = 64

    def number(self, key: str) -> int:
        text = key.encode("utf-8", "surrogatepass")
        code = hashlib.blake2b(text, digest_size=8, key=self.key, person=PERSON)
        return int.from_bytes(code.digest(), "little")

    def probability_of_collision(self, keys: int) -> float:
        """At most, that any two of so many keys share a number."""
        return min(1.0, keys * (keys - 1) / 2.0 ** (self.bits + 1))


@dataclass(frozen=True, slots=True)
class Listed:
    """A finite universe by its list, which is public: a key's number is its place."""

    keys: tuple[str, ...]
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", {key: place for place, key in enumerate(self.keys)})
        if not self.keys or len(self._places) < len(self.keys):
            raise InputError("a list of keys must name at least one, and each of them once")

    @property
    def bits(self) -> int:
        return max(1, (len(self.keys) - 1).bit_length())

    def number(self, key: str) -> int | None:
        return self._places.get(key)


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """T = `size` rows of signs over keys of `key_bits` bits, by `coefficients: uint64[r, 2]` of a polynomial.

    Row i of key j is the value at i 2^key_bits + j, an element of GF(2^degree): the paper's |X| (i - 1) + j,
    with the size of the universe rounded up to a power of two.
    """

    coefficients: np.ndarray
    size: int
    key_bits: int

    def __post_init__(self) -> None:
        rows, words = self.coefficients.shape
        high = (1 << self.degree) - 1 >> 64
        fits = self.coefficients[:, 0] <= np.uint64(high)
        if self.degree < 64:
            fits &= self.coefficients[:, 1] < np.uint64(1 << self.degree)
        fits &= rows <= QUADRATIC or rows * self.size <= MAX_WORK
        sound = 1 <= rows <= MAX_COEFFICIENTS and words == 2 and self.coefficients.dtype == np.uint64
        if not sound or not 1 <= self.size <= MAX_ROWS or not 0 <= self.key_bits <= 64 or not fits.all():
            raise ValueError("not a projection")

    @classmethod
    def of(cls, size: int, independence: int, key_bits: int, entropy: bytes) -> Projection:
        """The projection that uniform random bytes stand for, 16 of them for each of r = `independence`
        coefficients: its entries are r-wise independent fair signs.
        """
        degree = key_bits + (size - 1).bit_length()
        words = np.frombuffer(entropy, dtype="<u8").reshape(independence, 2).astype(np.uint64)
        whole = (1 << degree) - 1
        words = words & np.array([whole >> 64, whole & (2**64 - 1)], dtype=np.uint64)
        return cls(np.ascontiguousarray(words), size, key_bits)

    @property
    def independence(self) -> int:
        """r: any r entries are independent, over the choice of the polynomial."""
        return len(self.coefficients)

    @property
    def row_bits(self) -> int:
        return (self.size - 1).bit_length()

    @property
    def degree(self) -> int:
        """s of GF(2^s), the smallest that has a point for every row and key."""
        return self.key_bits + self.row_bits

    @property
    def _family(self) -> galois.Family:
        degree = max(1, self.degree)
        return galois.Family(self.coefficients, self.key_bits, degree, galois.modulus(degree))

    def signs(self, keys: np.ndarray) -> np.ndarray:
        """int8[key, row]: the columns of `keys: uint64`, entry by entry: one hash value for each."""
        out = np.empty((len(keys), self.size), dtype=np.int8)
        galois.signs_into(self._family, keys, out)
        return out

    def project(self, keys: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """int64[row]: the sum of the columns of `keys: uint64[key]` times their counts (int64); exact."""
        out = np.zeros(self.size, dtype=np.int64)
        if self.independence > QUADRATIC:
            galois.sum_into(self._family, keys, counts, out)
            return out
        signs, places = self._split(keys)
        table = np.zeros(1 << self.row_bits, dtype=np.int64)
        np.add.at(table, places, signs * counts)
        walsh(table)
        return table[: self.size] * self._base()

    def reader(self, values: np.ndarray) -> ProjectionReader:
        """What answers keys by `values: int64[row]`."""
        return ProjectionReader(self, values)

    def _base(self) -> np.ndarray:
        """int64[row]: the signs of key 0."""
        return self.signs(np.zeros(1, dtype=np.uint64))[0].astype(np.int64)

    def _split(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(int64 signs, int64 places) of columns: see `galois.split_into`."""
        forms = np.zeros(self.row_bits, dtype=np.uint64)
        galois.forms_into(self._family, self.row_bits, forms)
        signs, places = np.empty(len(keys), dtype=np.int8), np.empty(len(keys), dtype=np.int64)
        galois.split_into(self._family, keys, forms, signs, places)
        return signs.astype(np.int64), places


class ProjectionReader:
    """Sums of a vector times columns, for any keys, one by one: the vector is transformed once."""

    def __init__(self, projection: Projection, values: np.ndarray) -> None:
        self.projection = projection
        self._values = values.astype(np.float64)
        self._table: np.ndarray | None = None
        if projection.independence <= QUADRATIC:
            self._table = np.zeros(1 << projection.row_bits)
            self._table[: projection.size] = self._values * projection._base()
            walsh(self._table)

    def sums(self, keys: np.ndarray) -> np.ndarray:
        """float64[key]: for each of `keys: uint64`, the sum of signs times values; exact below 2^53."""
        if self._table is not None:
            signs, places = self.projection._split(keys)
            return signs * self._table[places]
        out = np.empty(len(keys))
        galois.weighted_sums(self.projection._family, keys, self._values, out)
        return out


class Stack:
    """T = `size` rows as equal blocks, each with a polynomial of its own: any r entries are as independent as
    within a block, so means and variances of answers are those of a single polynomial.

    What blocks are for: under a quadratic form two keys share all rows of a block, or nothing of it. In a
    single block a rare key that falls together with a common one is answered by that one's whole count; of B
    blocks one does, for a B-th of it.
    """

    def __init__(self, parts: Sequence[Projection]) -> None:
        """Raises ValueError if the parts are not alike, or are too much work together."""
        self.parts = tuple(parts)
        self.size = sum(part.size for part in self.parts)
        alike = {(part.size, part.independence, part.key_bits) for part in self.parts}
        work = 0 if self.parts and self.independence <= QUADRATIC else self.size * self.independence
        if len(alike) != 1 or self.size > MAX_ROWS or work > MAX_WORK:
            raise ValueError("not a stack of projections")

    @classmethod
    def of(cls, size: int, blocks: int, independence: int, key_bits: int, entropy: bytes) -> Stack:
        """The stack that uniform random bytes stand for, 16 of them for each coefficient of each block."""
        each = 16 * independence
        parts = (entropy[at : at + each] for at in range(0, blocks * each, each))
        return cls([Projection.of(size // blocks, independence, key_bits, part) for part in parts])

    @property
    def independence(self) -> int:
        """r: any r entries are independent, over the choice of all polynomials."""
        return self.parts[0].independence

    def signs(self, keys: np.ndarray) -> np.ndarray:
        """int8[key, row]: see `Projection`, block after block."""
        return np.concatenate([part.signs(keys) for part in self.parts], axis=1)

    def project(self, keys: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """int64[row]: see `Projection`, block after block."""
        return np.concatenate([part.project(keys, counts) for part in self.parts])

    def reader(self, values: np.ndarray) -> StackReader:
        """What answers keys by `values: int64[row]`."""
        blocks = np.split(values, len(self.parts))
        return StackReader([part.reader(block) for part, block in zip(self.parts, blocks, strict=True)])


class StackReader:
    """Sums over the blocks of a stack."""

    def __init__(self, readers: Sequence[ProjectionReader]) -> None:
        self.readers = readers

    def sums(self, keys: np.ndarray) -> np.ndarray:
        """float64[key]: see `ProjectionReader`."""
        return np.sum([reader.sums(keys) for reader in self.readers], axis=0)
