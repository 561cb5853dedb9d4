"""The residuals of all small sets of attributes of a dense table, and their transpose; one pass an attribute.

Attribute subsets are bit masks: bit i is the i-th attribute with more than one code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def question(size: int, *, gaussian: bool) -> np.ndarray:
    """int64[answer, code]: the residual queries on one attribute; on several, their Kronecker product.

    Two codes: their difference. More: size I - 11' for Gaussian noise, whose columns sum to zero; the counts
    themselves for Laplace noise, where their L1 sensitivity is less (1 against 2 (size - 1)) than what the
    lower orders inside them cost.
    """
    if size == 2:
        return np.array([[1, -1]])
    return size * np.eye(size, dtype=np.int64) - 1 if gaussian else np.eye(size, dtype=np.int64)


class Transform:
    """The answers of all subsets of at most `order` attributes at once, and the transpose: linear."""

    def __init__(self, shape: Sequence[int], order: int, *, gaussian: bool) -> None:
        self.shape, self.order = tuple(k for k in shape if k > 1), order
        self._questions = [question(k, gaussian=gaussian) for k in self.shape]
        blocks = [np.zeros(1, dtype=np.int64)] + [np.zeros(0, dtype=np.int64)] * order
        self._rows = [[len(b) for b in blocks]]
        for i, q in enumerate(self._questions):
            finer = [np.repeat(b | 1 << i, len(q)) for b in blocks]
            blocks = [blocks[0]] + [np.concatenate([blocks[c], finer[c - 1]]) for c in range(1, order + 1)]
            self._rows.append([len(b) for b in blocks])
        self.masks = np.concatenate(blocks)
        """int64[answer]: each one's subset; those of one subset are row-major over its attributes."""

    def forward(self, table: np.ndarray) -> np.ndarray:
        """The answers for `table` (row-major over all attributes), of its dtype: exact for int64."""
        blocks = [table.reshape(1, -1)] + [np.empty((0, table.size), table.dtype)] * self.order
        for k, q, rows in zip(self.shape, self._questions, self._rows[1:], strict=True):
            rest = blocks[0].shape[1] // k
            new = [np.empty((r, rest), table.dtype) for r in rows]
            for c, block in enumerate(blocks):
                parts, kept = block.reshape(-1, k, rest), len(block)
                if k == 2:
                    np.add(parts[:, 0], parts[:, 1], out=new[c][:kept])
                else:
                    np.sum(parts, axis=1, out=new[c][:kept])
                if c < self.order and kept:
                    out = new[c + 1][len(blocks[c + 1]) :].reshape(kept, len(q), rest)
                    if k == 2:
                        np.subtract(parts[:, 0], parts[:, 1], out=out[:, 0])
                    elif q[0, 1]:
                        np.multiply(parts, k, out=out)
                        out -= new[c][:kept, None]
                    else:
                        out[:] = parts
            blocks = new
        return np.concatenate([b[:, 0] for b in blocks])

    def transpose(self, answers: np.ndarray) -> np.ndarray:
        """float64[cells]: the sum of `answers: float64[answer]` times their questions, for every cell."""
        blocks = [b.reshape(-1, 1) for b in np.split(answers, np.cumsum(self._rows[-1])[:-1])]
        for k, q, rows in zip(self.shape[::-1], self._questions[::-1], self._rows[-2::-1], strict=True):
            rest = blocks[0].shape[1]
            old = []
            for c, kept in enumerate(rows):
                out = np.empty((kept, k, rest))
                summed = blocks[c][:kept]
                if c == self.order or not kept:
                    out[:] = summed[:, None]
                else:
                    part = blocks[c + 1][rows[c + 1] :].reshape(kept, len(q), rest)
                    if k == 2:
                        np.add(summed, part[:, 0], out=out[:, 0])
                        np.subtract(summed, part[:, 0], out=out[:, 1])
                    elif q[0, 1]:
                        np.multiply(part, k, out=out)
                        out += (summed - part.sum(axis=1))[:, None]
                    else:
                        np.add(part, summed[:, None], out=out)
                old.append(out.reshape(kept, k * rest))
            blocks = old
        return blocks[0][0]
