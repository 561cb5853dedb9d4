"""Projection: a matrix of signs with a column for every key that there can be, made by a hash family; public.

A record adds its key's column to a sum of T whole numbers. Its columns are not stored: an entry is the last
bit of a random polynomial over GF(2^s) at the number of its row and key. Source: SparseProject, Blum and Roth
2011 (arXiv 1111.6842); entries are theirs times sqrt(T), so that sums are exact.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from factored_mwem.errors import InputError
from factored_mwem.kernels import galois
from factored_mwem.kernels.linear import walsh

MAX_ROWS = 2**24
"""Most rows of a projection: 128 MB of numbers."""
MAX_COEFFICIENTS = 1024
MAX_BLOCKS = 1024
QUADRATIC = 7
"""Polynomials of up to this many coefficients have exponents of at most two bits: their last bit is a
quadratic form of the point's bits, and a Walsh transform takes the place of a sum over keys and rows.
"""
MAX_WORK = 2**30
"""Multiplications for a key where no quadratic form helps: two minutes."""
ZERO = np.zeros(1, dtype=np.uint64)
"""Key 0."""
PERSON = b"fmwem sketch"
"""Separates these hashes from others with the same key (a personalisation of BLAKE2b)."""


@dataclass(frozen=True, slots=True)
class Hashed:
    """Any text: its number is 64 bits of BLAKE2b, with a public key that nobody knew before.

    Two of N keys share a number with a probability of at most N^2 / 2^65 (1 in 37 million for a million
    keys): their counts are then added up. Privacy does not depend on this.
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


Universe = Hashed | Listed
"""Keys as numbers below 2^`bits`: `number` is a public function of the key alone; None if it has none."""


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """T = `size` rows of signs over keys of `key_bits` bits, in equal blocks, each with a polynomial of its
    own, of `coefficients: uint64[block, r, 2]`, (high, low) words.

    Row i of a block at key j is the value at i 2^key_bits + j, an element of GF(2^degree): the paper's |X| (i
    - 1) + j, with the size of the universe rounded up to a power of two. Any r entries are independent fair
    signs over the choice of all polynomials, so means and variances of answers are those of a single one.

    Why blocks: under a quadratic form two keys share either all rows of a block or none. With a single block,
    a rare key that collides with a common one would get its whole count; with B blocks a collision in one of
    them adds only a B-th of it.
    """

    coefficients: np.ndarray
    size: int
    key_bits: int

    def __post_init__(self) -> None:
        """Raises ValueError if the fields make no projection, or one that takes too much work."""
        blocks, independence, words = self.coefficients.shape
        sound = 1 <= independence <= MAX_COEFFICIENTS and words == 2 and self.coefficients.dtype == np.uint64
        sound &= 1 <= blocks <= self.size <= MAX_ROWS and self.size % blocks == 0 and 0 <= self.key_bits <= 64
        sound &= independence <= QUADRATIC or independence * self.size <= MAX_WORK
        if not sound or (self.coefficients > _largest(self.degree)).any():
            raise ValueError("not a projection")

    @classmethod
    def of(cls, size: int, blocks: int, independence: int, key_bits: int, entropy: bytes) -> Projection:
        """The projection that uniform random bytes stand for, 16 of them for each coefficient of a block."""
        words = np.frombuffer(entropy, dtype="<u8").reshape(blocks, independence, 2).astype(np.uint64)
        degree = key_bits + (size // blocks - 1).bit_length()
        return cls(words & _largest(degree), size, key_bits)

    @property
    def blocks(self) -> int:
        return len(self.coefficients)

    @property
    def independence(self) -> int:
        """r: any r entries are independent, over the choice of the polynomials."""
        return self.coefficients.shape[1]

    @property
    def row_bits(self) -> int:
        """Bits of the number of a row within its block."""
        return (self.size // self.blocks - 1).bit_length()

    @property
    def degree(self) -> int:
        """s of GF(2^s), the smallest that has a point for every row of a block and key."""
        return self.key_bits + self.row_bits

    @property
    def _families(self) -> list[galois.Family]:
        degree = max(1, self.degree)
        low = galois.modulus(degree)
        return [galois.Family(each, self.key_bits, degree, low) for each in self.coefficients]

    def signs(self, keys: np.ndarray) -> np.ndarray:
        """int8[key, row]: the columns of `keys: uint64`, entry by entry: one hash value for each."""
        return np.concatenate([self._signs(family, keys) for family in self._families], axis=1)

    def project(self, keys: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """int64[row]: the sum of the columns of `keys: uint64[key]` times their counts (int64); exact."""
        rows = self.size // self.blocks
        out = np.zeros((self.blocks, rows), dtype=np.int64)
        for family, block in zip(self._families, out, strict=True):
            if self.independence > QUADRATIC:
                galois.sum_into(family, keys, counts, block)
                continue
            signs, places = self._split(family, keys)
            table = np.zeros(1 << self.row_bits, dtype=np.int64)
            np.add.at(table, places, signs * counts)
            walsh(table)
            block[:] = table[:rows] * self._signs(family, ZERO)[0]
        return out.ravel()

    def reader(self, values: np.ndarray) -> ProjectionReader:
        """A reader that answers keys from `values: int64[row]`."""
        return ProjectionReader(self, values)

    def _signs(self, family: galois.Family, keys: np.ndarray) -> np.ndarray:
        """int8[key, row of a block]"""
        out = np.empty((len(keys), self.size // self.blocks), dtype=np.int8)
        galois.signs_into(family, keys, out)
        return out

    def _split(self, family: galois.Family, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(int64 signs, int64 places) of the columns of a block: see `galois.split_into`."""
        forms = np.zeros(self.row_bits, dtype=np.uint64)
        galois.forms_into(family, self.row_bits, forms)
        signs, places = np.empty(len(keys), dtype=np.int8), np.empty(len(keys), dtype=np.int64)
        galois.split_into(family, keys, forms, signs, places)
        return signs.astype(np.int64), places


def _largest(degree: int) -> np.ndarray:
    """uint64[2]: the words of the largest element of GF(2^degree)."""
    whole = (1 << degree) - 1
    return np.array([whole >> 64, whole & (2**64 - 1)], dtype=np.uint64)


class ProjectionReader:
    """Sums of a vector times columns, for any keys, one by one: the vector is transformed once."""

    def __init__(self, projection: Projection, values: np.ndarray) -> None:
        self._projection, self._families = projection, projection._families
        self._blocks = values.astype(np.float64).reshape(projection.blocks, -1)
        self._tables = np.zeros((projection.blocks, 1 << projection.row_bits))
        if projection.independence <= QUADRATIC:
            for family, block, table in zip(self._families, self._blocks, self._tables, strict=True):
                table[: len(block)] = block * projection._signs(family, ZERO)[0]
                walsh(table)

    def sums(self, keys: np.ndarray) -> np.ndarray:
        """float64[key]: for each of `keys: uint64`, the sum of signs times values; exact below 2^53."""
        total = np.zeros(len(keys))
        for family, block, table in zip(self._families, self._blocks, self._tables, strict=True):
            if self._projection.independence <= QUADRATIC:
                signs, places = self._projection._split(family, keys)
                total += signs * table[places]
            else:
                out = np.empty(len(keys))
                galois.weighted_sums(family, keys, block, out)
                total += out
        return total
