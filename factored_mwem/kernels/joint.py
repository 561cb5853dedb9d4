"""Kernels that read joint marginals off a calibrated clique tree, many in one pass, whether or not one clique
holds their variables.

For a clique M and a variable w outside it, the separator on the way to w makes w independent of the rest of
M: `conditionals` holds P(w | separator) for all pairs, and a marginal over variables that lie in different
directions from M is M's table contracted with one conditional after the other. `steps` says, axis by axis,
what each code of M adds to the cell of a separator or to the code of a variable.
"""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.kernels import entry, part
from factored_mwem.kernels.dense import marginal_into


@entry("(f8[::1], f8[::1], i8[:, ::1], i8[::1], i8[::1], i8[::1], i8[:, ::1], i8[:, ::1], f8[::1])")
def fill_conditionals(beliefs, separators, cliques, axes, axis_of, steps, directions, blocks, conditionals):
    """The conditionals of every direction in the tree: far ends first, so that each is made from those beyond
    it; in place.

    A direction leads from a clique M to its neighbour K. `directions: int64[direction, 8]` holds (K,
    separator's start and length, where the conditional begins, its columns, K's steps towards the separator,
    first and last block): the conditional is a table with a row for each cell of the separator, and columns
    for all variables beyond it. `blocks: int64[block, 4]` holds (first column, K's steps towards the next
    separator or a variable's code, where the next conditional begins or -1, its columns).
    """
    for d in range(len(directions)):
        k, separator, length, at = directions[d, 0], directions[d, 1], directions[d, 2], directions[d, 3]
        width, to, first, end = directions[d, 4], directions[d, 5], directions[d, 6], directions[d, 7]
        sizes = axes[axis_of[k] : axis_of[k + 1]]
        count = _codes(sizes)
        out = conditionals[at : at + length * width]
        for c in range(len(out)):
            out[c] = 0.0
        for b in range(first, end):
            column, on, next_, columns = blocks[b, 0], blocks[b, 1], blocks[b, 2], blocks[b, 3]
            needed = np.zeros(len(sizes), dtype=np.bool_)
            _mark(sizes, steps[to : to + count], needed)
            _mark(sizes, steps[on : on + count], needed)
            table = np.zeros(_product(sizes, needed))
            _reduce(beliefs, cliques[k], sizes, _strides(sizes, needed), table)
            rows = _cells(sizes, needed, steps[to : to + count])
            codes = _cells(sizes, needed, steps[on : on + count])
            for u in range(len(table)):
                base, weight = rows[u] * width + column, table[u]
                if next_ < 0:
                    out[base + codes[u]] += weight
                else:
                    sink = out[base : base + columns]
                    given = conditionals[next_ + codes[u] * columns : next_ + (codes[u] + 1) * columns]
                    for x in range(columns):
                        sink[x] += weight * given[x]
        for s in range(length):
            share = 1.0 / separators[separator + s]
            for x in range(width):
                out[s * width + x] *= share


@part
def _codes(sizes):
    """How many codes all axes have together."""
    count = 0
    for size in sizes:
        count += size
    return count


@part
def _mark(sizes, steps, needed):
    """Mark the axes on which `steps` depends."""
    at = 0
    for a in range(len(sizes)):
        for digit in range(sizes[a]):
            if steps[at + digit]:
                needed[a] = True
        at += sizes[a]


@entry("(i8[:, ::1], f8[::1], i8[::1], i8[:, ::1], i8[::1])")
def choose_medians(toward, cells, sizes, views, out):
    """For each view the clique of least cost from which its variables lie in different directions, `toward:
    int64[clique, variable]`.
    """
    width = views.shape[1]
    for v in range(len(views)):
        least = np.inf
        for k in range(len(toward)):
            cost = cells[k]
            for j in range(width):
                w = views[v, j]
                way = toward[k, w] if w >= 0 else -1
                if way < 0:
                    continue
                cost *= 2.0 * math.sqrt(sizes[w])
                for i in range(j):
                    if views[v, i] >= 0 and toward[k, views[v, i]] == way:
                        cost = np.inf
            if cost < least:
                least, out[v] = cost, k


@entry(
    "(f8[::1], i8[:, ::1], i8[::1], i8[::1], i8[::1], i8[:, ::1], i8[::1], i8[:, ::1], i8[:, ::1], i8[:, "
    "::1], i8[:, ::1], i8[::1], "
    "f8[::1], i8[::1], f8[::1])"
)
def joint_marginals(
    beliefs,
    cliques,
    axes,
    axis_of,
    steps,
    views,
    medians,
    step_of,
    given_of,
    stride_of,
    rows_of,
    sizes,
    conditionals,
    starts,
    out,
):
    """The marginal of each of `views: int64[view, slot]` (padded with -1), row-major, from `starts[view]` on
    in `out`, in shares.

    `medians: int64[view]` names a clique from which the view's variables lie in different directions (or
    inside); views without one (-1) are left out. `axes: int64` lists the sizes of clique k's axes from
    `axis_of[k]` to `axis_of[k + 1]`. `step_of[k, w]` is where the steps of clique k towards variable w begin,
    and `given_of[k, w]` where the conditional of w begins, or -1 where the clique fixes w; `stride_of[k, w]`
    lies between its rows, of which there are `rows_of[k, w]`.
    """
    slots = np.empty(views.shape[1], dtype=np.int64)
    for v in range(len(views)):
        k = medians[v]
        if k < 0:
            continue
        width = 0
        for j in range(
            views.shape[1]
        ):  # variables outside the clique first, those behind large separators before others
            w = views[v, j]
            if w < 0:
                continue
            at = width
            while at > 0 and rows_of[k, views[v, slots[at - 1]]] < rows_of[k, w]:
                slots[at] = slots[at - 1]
                at -= 1
            slots[at] = j
            width += 1
        _joint(beliefs, cliques[k], axes[axis_of[k] : axis_of[k + 1]], steps, views[v], slots[:width], step_of[k], given_of[k], stride_of[k], sizes,
               conditionals, out[starts[v] : starts[v + 1]])  # fmt: skip


@part
def _joint(beliefs, clique, axes, steps, view, slots, step_of, given_of, stride_of, sizes, conditionals, out):
    width, count = len(slots), len(axes)
    if given_of[view[slots[0]]] < 0:  # the clique fixes all: one plain marginal
        combined = np.zeros(_codes(axes), dtype=np.int64)
        stride = 1
        for j in range(len(view) - 1, -1, -1):
            if view[j] >= 0:
                for c in range(len(combined)):
                    combined[c] += steps[step_of[view[j]] + c] * stride
                stride *= sizes[view[j]]
        _reduce(beliefs, clique, axes, combined, out)
        return
    needed = np.zeros((width + 1, count), dtype=np.bool_)  # which axes the slots from j on still need
    for j in range(width - 1, -1, -1):
        for a in range(count):
            needed[j, a] = needed[j + 1, a]
        at = step_of[view[slots[j]]]
        _mark(axes, steps[at : at + _codes(axes)], needed[j])
    table = np.zeros(_product(axes, needed[0]))
    _reduce(beliefs, clique, axes, _strides(axes, needed[0]), table)
    columns = 1
    for j in range(width):
        w = view[slots[j]]
        at = _cells(axes, needed[j], steps[step_of[w] : step_of[w] + _codes(axes)])
        next_ = _cells(axes, needed[j], _strides(axes, needed[j + 1]))
        table = _contract(
            table,
            columns,
            at,
            next_,
            _product(axes, needed[j + 1]),
            sizes[w],
            given_of[w],
            stride_of[w],
            conditionals,
        )
        columns *= sizes[w]
    _permute(table, view, slots, sizes, out)


@part
def _product(axes, kept):
    cells = 1
    for a in range(len(axes)):
        if kept[a]:
            cells *= axes[a]
    return cells


@part
def _strides(axes, kept):
    """The steps of the map onto the kept axes, row-major: an entry for each code of each axis."""
    steps = np.zeros(_codes(axes), dtype=np.int64)
    stride, at = 1, len(steps)
    for a in range(len(axes) - 1, -1, -1):
        at -= axes[a]
        if kept[a]:
            for digit in range(axes[a]):
                steps[at + digit] = digit * stride
            stride *= axes[a]
    return steps


@part
def _cells(axes, kept, steps):
    """int64[cells over the kept axes]: the sum of the steps of each cell's codes."""
    cells = np.zeros(_product(axes, kept), dtype=np.int64)
    filled, at = 1, 0
    for a in range(len(axes)):
        if kept[a]:
            for c in range(filled - 1, -1, -1):
                base = cells[c]
                for digit in range(axes[a]):
                    cells[c * axes[a] + digit] = base + steps[at + digit]
            filled *= axes[a]
        at += axes[a]
    return cells


@part
def _reduce(beliefs, clique, axes, steps, out):
    """Add the clique's table up by the map that `steps` describes."""
    start, heads, tails = clique[0], clique[1], clique[2]
    kept = np.zeros(len(axes), dtype=np.bool_)
    rows, split = 1, 0
    while rows < heads:
        kept[split] = True
        rows *= axes[split]
        split += 1
    head = _cells(axes, kept, steps)
    for a in range(len(axes)):
        kept[a] = a >= split
    tail = _cells(axes, kept, steps)
    marginal_into(beliefs[start : start + heads * tails], head, tail, out)


@part
def _contract(table, columns, at, next_, rows, size, given, stride, conditionals):
    """Bring one more variable in, as the first of the columns' axes: cell u of `table` goes to row
    `next_[u]`, times its conditional's entries.

    `at[u]` names the row of the conditional or, where the clique fixes the variable, its code. Slices keep
    the inner loops free of index checks.
    """
    fresh = np.zeros(rows * columns * size)
    for u in range(len(at)):
        base = next_[u] * size * columns
        source = table[u * columns : (u + 1) * columns]
        if given < 0:
            sink = fresh[base + at[u] * columns : base + (at[u] + 1) * columns]
            for x in range(columns):
                sink[x] += source[x]
            continue
        row = conditionals[given + at[u] * stride : given + at[u] * stride + size]
        if columns == 1:
            sink = fresh[base : base + size]
            weight = source[0]
            for y in range(size):
                sink[y] += weight * row[y]
            continue
        for y in range(size):
            sink = fresh[base + y * columns : base + (y + 1) * columns]
            weight = row[y]
            for x in range(columns):
                sink[x] += weight * source[x]
    return fresh


@part
def _permute(table, view, slots, sizes, out):
    """Write a table with axes in the reverse order of `slots` into `out`, whose axes are in the order of the
    view.
    """
    width = len(slots)
    strides, digits = np.empty(width, dtype=np.int64), np.zeros(width, dtype=np.int64)
    for j in range(width):
        stride = 1
        for later in range(slots[j] + 1, len(view)):
            if view[later] >= 0:
                stride *= sizes[view[later]]
        strides[j] = stride
    cell = 0
    for t in range(len(table)):
        out[cell] = table[t]
        j = 0
        while j < width:
            digits[j] += 1
            cell += strides[j]
            if digits[j] < sizes[view[slots[j]]]:
                break
            cell -= strides[j] * digits[j]
            digits[j] = 0
            j += 1
