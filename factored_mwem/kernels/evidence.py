"""The kernel that draws rows given codes of some attributes, wherever in a tree these lie: for each row, sums
from the leaves to the root, then a cell of each clique from the root to the leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from factored_mwem.kernels import F8, I8, F8x2, I8x2, entry, part

TABLE, FREE, COUNT, PARENT, SEPARATOR, UP, DOWN, ACTIVE, ORDER, FIRST = range(10)
"""Columns of `EvidenceTree.cliques`: where its cells begin; where its free cells begin, and how many there
are; its parent; where its separator begins; its map to that, and its parent's; whether its subtree holds
evidence; where its cells of weight begin in `order`, and the ends of its groups in `first`.
"""


class EvidenceTree(NamedTuple):
    """A tree with the cells that the evidence leaves possible; children come after their parent.

    `free: int64`: cells of each clique whose given axes are at code 0. `maps`: cells of a clique to those of
    a separator. `tables`: beliefs of all cliques; `inverse`: 1 over those of all separators, 0 where they are
    0. `order`, `ends`, `first`: the cells of each clique by the cell of its separator, see `Conditional`; the
    running sums of a clique begin one place further than its cells do for each clique before it, and so do
    the ends of its groups. `children`: the children of each clique whose subtree holds evidence, but for
    those whose separator is given: the rest of the tree does not depend on what is in them.
    """

    cliques: I8x2
    free: I8
    maps: I8
    tables: F8
    inverse: F8
    order: I8
    ends: F8
    first: I8
    children: I8
    first_child: I8


class Weighing(NamedTuple):
    """Weights of the codes of an attribute: a cell of `clique` (-1: of none) weighs `weights: float64[row,
    code]` times as much, by `code_of: int64[its cell]`.
    """

    clique: int
    code_of: I8
    weights: F8x2


class Ties(NamedTuple):
    """What codes of some attributes must be, or must not be: in the cells of clique k tie j, from `first[k]`
    to `first[k + 1]`, is on code c // stride[j] % size[j] of a cell c, which in row r is `code[r, j]` where
    `alike[r, j]`, and any other where not (of code -1: any).
    """

    first: I8
    stride: I8
    size: I8
    code: I8x2
    alike: I8x2


@part
def _allowed(ties: Ties, clique: int, row: int, cell: int) -> bool:
    """Whether a cell of a clique has the codes that a row must have."""
    for j in range(ties.first[clique], ties.first[clique + 1]):
        same = cell // ties.stride[j] % ties.size[j] == ties.code[row, j]
        if same != (ties.alike[row, j] == 1):
            return False
    return True


@part
def _of_group(tree: EvidenceTree, clique: int, group: int, luck: float) -> int:
    """A cell of a clique among those of a cell of its separator, by its share."""
    q = tree.cliques[clique]
    low, high = tree.first[q[FIRST] + group], tree.first[q[FIRST] + group + 1]
    begin = q[ORDER] + clique  # of its running sums
    goal = tree.ends[begin + low] + luck * (tree.ends[begin + high] - tree.ends[begin + low])
    at, end = low, high - 1
    while at < end:
        middle = (at + end) // 2
        if tree.ends[begin + middle + 1] > goal:
            end = middle
        else:
            at = middle + 1
    return tree.order[q[ORDER] + at]


@part
def _gather(tree: EvidenceTree, clique: int, base: int, work: F8, message: F8) -> None:
    """Multiply the weights of a clique's free cells, in `work`, by what its children say."""
    q = tree.cliques[clique]
    begin, end = q[FREE], q[FREE] + q[COUNT]
    for h in range(tree.first_child[clique], tree.first_child[clique + 1]):
        child = tree.children[h]
        down, separator = tree.cliques[child, DOWN] + base, tree.cliques[child, SEPARATOR]
        for j in range(begin, end):
            s = separator + tree.maps[down + tree.free[j]]
            work[j] *= message[s] * tree.inverse[s]


@entry
def draw_given(
    tree: EvidenceTree, base: I8x2, weighing: Weighing, ties: Ties, luck: F8x2, cells: I8x2
) -> int:
    """Put a cell of each clique, int64[row, clique], into `cells`; -1 in the root if the evidence of the row
    and its ties have weight 0. Returns how many such rows there are. What is the same in successive rows is
    summed once, so rows that have much in common should follow each other.

    `base: int64[row, clique]`: the cell of the codes in evidence, with all other codes 0. `luck:
    float64[row, clique]`, in [0, 1).
    """
    many, failed, whole = len(tree.cliques), 0, 1.0
    work, message = np.zeros(len(tree.free)), np.zeros(len(tree.inverse))
    anew = np.zeros(many, dtype=np.int64)
    for r in range(len(base)):
        for k in range(many - 1, -1, -1):
            q = tree.cliques[k]
            if not q[ACTIVE]:
                continue
            begin, end, b = q[FREE], q[FREE] + q[COUNT], base[r, k]
            anew[k] = r == 0 or k == weighing.clique or ties.first[k] < ties.first[k + 1]
            anew[k] |= r > 0 and b != base[r - 1, k]
            for h in range(tree.first_child[k], tree.first_child[k + 1]):
                anew[k] |= anew[tree.children[h]]
            if not anew[k]:  # all below is as it was in the row before
                continue
            for j in range(begin, end):
                work[j] = tree.tables[q[TABLE] + b + tree.free[j]]
            if ties.first[k] < ties.first[k + 1]:
                for j in range(begin, end):
                    if not _allowed(ties, k, r, b + tree.free[j]):
                        work[j] = 0.0
            if k == weighing.clique:
                for j in range(begin, end):
                    work[j] *= weighing.weights[r, weighing.code_of[b + tree.free[j]]]
            _gather(tree, k, b, work, message)
            if k == 0:
                whole = 0.0
                for j in range(begin, end):
                    whole += work[j]
            else:
                up, separator = q[UP] + b, q[SEPARATOR]
                for j in range(
                    begin, end
                ):  # only the cells that this row adds to: all messages are far longer
                    message[separator + tree.maps[up + tree.free[j]]] = 0.0
                for j in range(begin, end):
                    message[separator + tree.maps[up + tree.free[j]]] += work[j]
        if not whole > 0.0:
            cells[r, 0] = -1
            failed += 1
            continue
        for k in range(many):
            q = tree.cliques[k]
            s = tree.maps[q[DOWN] + cells[r, q[PARENT]]] if k else 0
            if not q[ACTIVE]:
                cells[r, k] = _of_group(tree, k, s, luck[r, k])
                continue
            goal = luck[r, k] * (message[q[SEPARATOR] + s] if k else whole)
            last = -1  # the last possible cell, should rounding leave some of the goal
            up, b = q[UP] + base[r, k], base[r, k]
            for j in range(q[FREE], q[FREE] + q[COUNT]):
                if work[j] > 0.0 and (k == 0 or tree.maps[up + tree.free[j]] == s):
                    last = b + tree.free[j]
                    goal -= work[j]
                    if goal < 0.0:
                        break
            if last < 0:  # of what is cut off from the root
                cells[r, 0] = -1
                failed += 1
                break
            cells[r, k] = last
    return failed
