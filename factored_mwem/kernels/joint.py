"""Kernels that read joint marginals off a calibrated clique tree, many in one pass, whether or not one clique
holds their variables.

For a clique M and a variable w outside it, any separator on the way to w makes w independent of the rest of
M. `conditionals` holds P(w | separator) for the last of them that M fixes, which is the smallest. A marginal
over variables that lie behind different separators is M's table contracted with one conditional after the
other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from factored_mwem.kernels import F8, I8, I8x2, entry, part
from factored_mwem.kernels.axes import add_steps, cells_over, codes_of, mark, steps_onto
from factored_mwem.kernels.dense import marginal_into
from factored_mwem.kernels.tree import BEGIN, HEADS, TAILS, Beliefs

CLIQUE, SEPARATOR, CELLS, START, WIDTH, BACK, FIRST, LAST = range(8)
"""Columns of `Reader.directions`, which lead from a clique M to its neighbour: that neighbour, where the
separator begins and its cells, where the conditional begins and its columns, the neighbour's steps back to
the separator, and its blocks (LAST is one beyond).
"""
COLUMN, STEPS, NEXT, STRIDE, COLUMNS = range(5)
"""Columns of `Reader.blocks`: the first column; the neighbour's steps to a later separator, or to a
variable's code; where these columns of that separator's conditional begin (-1: none), how far its rows are
apart; and how many columns there are.
"""


class Reader(NamedTuple):
    """How marginals are read off a tree.

    `cliques` is that of TreeArrays; `axes` lists the sizes of clique k's axes from `axis_of[k]` on, and
    `sizes` the codes of each variable. `steps` says, axis by axis, what each code of a clique adds to the
    cell of a separator or to the code of a variable: those of clique k towards variable w begin at
    `step_of[k, w]`. Where k does not fix w, the conditional of w begins at `given_of[k, w]` (else -1), its
    rows `stride_of[k, w]` apart. A conditional has a row for each cell of a separator, and columns for all
    variables beyond it.
    """

    cliques: I8x2
    axes: I8
    axis_of: I8
    sizes: I8
    steps: I8
    step_of: I8x2
    given_of: I8x2
    stride_of: I8x2
    directions: I8x2
    blocks: I8x2
    conditionals: F8


@entry
def fill_conditionals(beliefs: Beliefs, reader: Reader) -> None:
    """The conditionals of every direction, far ends first: each is made from those beyond it; in place."""
    blocks, conditionals = reader.blocks, reader.conditionals
    for d in range(len(reader.directions)):
        way = reader.directions[d]
        k, length, width = way[CLIQUE], way[CELLS], way[WIDTH]
        axes = reader.axes[reader.axis_of[k] : reader.axis_of[k + 1]]
        back = reader.steps[way[BACK] : way[BACK] + codes_of(axes)]
        out = conditionals[way[START] : way[START] + length * width]
        for c in range(len(out)):
            out[c] = 0.0
        table, known = np.empty(0), np.empty(len(axes), dtype=np.bool_)
        for b in range(way[FIRST], way[LAST]):
            next_, stride, columns = blocks[b, NEXT], blocks[b, STRIDE], blocks[b, COLUMNS]
            on = reader.steps[blocks[b, STEPS] : blocks[b, STEPS] + len(back)]
            needed = np.empty(len(axes), dtype=np.bool_)
            needed[:] = False
            mark(axes, back, needed)
            mark(axes, on, needed)
            same = len(table) > 0
            for a in range(len(axes)):
                same = same and needed[a] == known[a]
            if not same:  # else as in the block before
                table = np.empty(cells_over(axes, needed))
                table[:] = 0.0
                _reduce(beliefs.cliques, reader.cliques[k], axes, steps_onto(axes, needed), table)
                known = needed
            rows, codes = add_steps(axes, needed, back), add_steps(axes, needed, on)
            for u in range(len(table)):
                base, weight = rows[u] * width + blocks[b, COLUMN], table[u]
                if next_ < 0:
                    out[base + codes[u]] += weight
                else:
                    sink = out[base : base + columns]
                    begin = next_ + codes[u] * stride
                    conditional = conditionals[begin : begin + columns]
                    for x in range(columns):
                        sink[x] += weight * conditional[x]
        for s in range(length):
            mass = beliefs.separators[way[SEPARATOR] + s]
            share = 1.0 / mass if mass > 0.0 else 0.0  # where rules leave nothing, nothing is added up
            for x in range(width):
                out[s * width + x] *= share


@entry
def choose_meeting_cliques(way_to: I8x2, cells: F8, sizes: I8, views: I8x2, out: I8) -> None:
    """For each view the clique of least cost from which its variables lie behind different separators.

    `way_to: int64[clique, variable]` is the direction whose separator is the last on the way to a variable,
    -1 where the clique fixes it; `out: int64[view]` keeps its entry where no clique will do.
    """
    width = views.shape[1]
    for v in range(len(views)):
        least = np.inf
        for k in range(len(way_to)):
            cost = cells[k]
            for j in range(width):
                w = views[v, j]
                way = way_to[k, w] if w >= 0 else -1
                if way < 0:
                    continue
                cost *= 2.0 * math.sqrt(sizes[w])
                for i in range(j):
                    if views[v, i] >= 0 and way_to[k, views[v, i]] == way:
                        cost = np.inf
            if cost < least:
                least, out[v] = cost, k


class Splits(NamedTuple):
    """How variables are split up by shares alone: variable v of `sizes[v]` codes comes from one of
    `coarse[v]` codes, mostly itself. From `first[v]` on, `groups` has for each code that one's code, and
    `shares` its share of it.
    """

    sizes: I8
    coarse: I8
    first: I8
    groups: I8
    shares: F8


@entry
def split_up(tables: F8, begins: I8, splits: Splits, views: I8x2, starts: I8, out: F8) -> None:
    """Marginals over what `views` come from, one after the other in `tables`, split up to those over `views:
    int64[view, slot]` (padded with -1), into `out`.
    """
    first, groups, shares = splits.first, splits.groups, splits.shares
    width = views.shape[1]
    variables, strides = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int64)
    digits = np.empty(width, dtype=np.int64)
    for i in range(len(views)):
        count, rows, stride = 0, 1, 1
        for j in range(width - 1, -1, -1):  # from the last, whose codes follow each other
            v = views[i, j]
            if v >= 0:
                rows *= splits.sizes[v] if count else 1
                variables[count], strides[count], digits[count] = v, stride, 0
                stride *= splits.coarse[v]
                count += 1
        inner, size, at = first[variables[0]], splits.sizes[variables[0]], starts[i]
        for _ in range(rows):
            base, row = begins[i], out[at : at + size]
            for n in range(1, count):
                base += groups[first[variables[n]] + digits[n]] * strides[n]
            for y in range(size):
                row[y] = tables[base + groups[inner + y]]
            for n in range(count - 1, 0, -1):
                share = shares[first[variables[n]] + digits[n]]
                for y in range(size):
                    row[y] *= share
            for y in range(size):
                row[y] *= shares[inner + y]
            at += size
            n = 1
            while n < count:
                digits[n] += 1
                if digits[n] < splits.sizes[variables[n]]:
                    break
                digits[n] = 0
                n += 1


class ViewsRead(NamedTuple):
    """Marginals to be read: `views: int64[view, slot]` (padded with -1), of each a clique from which its
    variables lie behind different separators or inside (-1: none, and it is left out), in which order to
    bring its variables in, `slots: int64[view, slot]` with padding last, and where its cells begin.
    """

    views: I8x2
    meeting_cliques: I8
    slots: I8x2
    starts: I8


@entry
def joint_marginals(cells: F8, reader: Reader, read: ViewsRead, order: I8, out: F8) -> None:
    """The marginals that `order` lists, row-major, into `out`, in shares; `cells` are those of all cliques.
    What a view has in common with the one before it is not worked out again: `order` should bring like to
    like.
    """
    views, starts = read.views, read.starts
    width = views.shape[1]
    most = 1
    for k in range(len(reader.cliques)):
        most = max(most, reader.axis_of[k + 1] - reader.axis_of[k])
    known = np.empty(width, dtype=np.int64)
    needed, before = np.empty((width + 1, most), dtype=np.bool_), np.empty((width + 1, most), dtype=np.bool_)
    needed[:] = False
    before[:] = False
    begins, scratch = np.empty(width + 2, dtype=np.int64), np.empty(1024)
    last = np.int64(-1)
    for v in order:
        k = read.meeting_cliques[v]
        if k < 0:
            continue
        slots, count, fixed = read.slots[v], 0, True
        while count < width and views[v, slots[count]] >= 0:
            fixed = fixed and reader.given_of[k, views[v, slots[count]]] < 0
            count += 1
        target = out[starts[v] : starts[v + 1]]
        axes = reader.axes[reader.axis_of[k] : reader.axis_of[k + 1]]
        if fixed:  # the clique fixes all: one plain marginal
            same, steps, sink = 0, _steps_inside(reader, k, views[v], codes_of(axes)), target
        else:
            _mark_all(reader, k, views[v], slots[:count], needed)
            same = _alike(views[v], slots[:count], known, needed, before) if k == last else 0
            steps, length = steps_onto(axes, needed[0, : len(axes)]), cells_over(axes, needed[0, : len(axes)])
            if same == 0:
                scratch = _room(scratch, np.int64(0), length)
                begins[0], begins[1] = 0, length
            sink = scratch[:length]
        if same == 0:  # for both in one place, or it would be compiled twice
            _reduce(cells, reader.cliques[k], axes, steps, sink)
        if fixed:
            continue
        scratch = _joint(reader, k, views[v][slots[:count]], (needed, begins, scratch), max(same, 1))
        _permute(scratch[begins[count] : begins[count + 1]], views[v], slots[:count], reader.sizes, target)
        last, needed, before = k, before, needed
        for j in range(width):
            known[j] = views[v, slots[j]] if j < count else -1


@part
def _steps_inside(reader, k, view, codes):
    """The steps of the map onto variables that the clique fixes."""
    combined = np.empty(codes, dtype=np.int64)
    combined[:] = 0
    stride = 1
    for j in range(len(view) - 1, -1, -1):
        if view[j] >= 0:
            for c in range(codes):
                combined[c] += reader.steps[reader.step_of[k, view[j]] + c] * stride
            stride *= reader.sizes[view[j]]
    return combined


@part
def _mark_all(reader, k, view, slots, needed):
    """Which axes the slots from j on still need, into `needed[j]`."""
    axes = reader.axes[reader.axis_of[k] : reader.axis_of[k + 1]]
    codes = codes_of(axes)
    for a in range(len(axes)):
        needed[len(slots), a] = False
    for j in range(len(slots) - 1, -1, -1):
        for a in range(len(axes)):
            needed[j, a] = needed[j + 1, a]
        at = reader.step_of[k, view[slots[j]]]
        mark(axes, reader.steps[at : at + codes], needed[j])


@part
def _alike(view, slots, known, needed, before):
    """How many tables of the previous view can be used again: those that need the same axes, after the same
    variables.
    """
    same = 0
    for j in range(len(slots)):
        for a in range(needed.shape[1]):
            if needed[j, a] != before[j, a]:
                return same
        same += 1
        if view[slots[j]] != known[j]:
            return same
    for a in range(needed.shape[1]):
        if before[len(slots), a]:
            return same
    return same + 1  # the same view, or one that the view before it began with


@part
def _joint(reader, k, variables, tables, same):
    """One marginal, from clique k, with axes in the reverse order of `variables`: the last of `tables`, which
    are the axes that each needs, where they begin, and the cells of all. The first `same` of them are there
    already, at least the clique's own. Returns the cells, or a longer array of them.
    """
    needed, begins, scratch = tables
    axes = reader.axes[reader.axis_of[k] : reader.axis_of[k + 1]]
    steps, step_of, given_of, sizes = reader.steps, reader.step_of[k], reader.given_of[k], reader.sizes
    codes, columns, count = codes_of(axes), 1, len(axes)
    for j in range(len(variables)):
        w = variables[j]
        columns *= sizes[w]
        if j + 1 < same:
            continue
        at = add_steps(axes, needed[j, :count], steps[step_of[w] : step_of[w] + codes])
        conditional = reader.conditionals[:0]
        if given_of[w] >= 0:
            conditional = reader.conditionals[given_of[w] :]
            for u in range(len(at)):
                at[u] *= reader.stride_of[k, w]
        length = cells_over(axes, needed[j + 1, :count]) * columns
        begins[j + 2] = begins[j + 1] + length
        scratch = _room(scratch, begins[j + 1], length)
        _contract(
            scratch[begins[j] : begins[j + 1]],
            at,
            add_steps(axes, needed[j, :count], steps_onto(axes, needed[j + 1, :count])),
            conditional,
            sizes[w],
            scratch[begins[j + 1] : begins[j + 2]],
        )
    return scratch


@part
def _room(scratch, used, length):
    """`scratch`, or a longer copy of what is used of it, with zeros in the `length` cells after those."""
    if used + length > len(scratch):
        longer = np.empty(2 * (used + length))
        for c in range(used):
            longer[c] = scratch[c]
        scratch = longer
    for c in range(used, used + length):
        scratch[c] = 0.0
    return scratch


@part
def _reduce(cells, clique, axes, steps, out):
    """Add the clique's table up by the map that `steps` describes."""
    begin, heads, tails = clique[BEGIN], clique[HEADS], clique[TAILS]
    kept = np.empty(len(axes), dtype=np.bool_)
    kept[:] = False
    rows, split = 1, 0
    while rows < heads:
        kept[split] = True
        rows *= axes[split]
        split += 1
    head = add_steps(axes, kept, steps)
    for a in range(len(axes)):
        kept[a] = a >= split
    tail = add_steps(axes, kept, steps)
    marginal_into(cells[begin : begin + heads * tails], head, tail, out)


@part
def _contract(table, at, next_, conditional, size, fresh):
    """Bring one more variable in, as the first of the columns' axes: row u of `table` is added to row
    `next_[u]` of `fresh`, times the variable's probabilities from `conditional[at[u]]` on.

    Where the clique fixes the variable, `conditional` is empty and `at[u]` its code. Slices keep the inner
    loops free of index checks.
    """
    columns = len(table) // len(at)
    for u in range(len(at)):
        base = next_[u] * size * columns
        source = table[u * columns : (u + 1) * columns]
        if not len(conditional):
            sink = fresh[base + at[u] * columns : base + (at[u] + 1) * columns]
            for x in range(columns):
                sink[x] += source[x]
            continue
        row = conditional[at[u] : at[u] + size]
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


@part
def _permute(table, view, slots, sizes, out):
    """Write a table with axes in the reverse order of `slots` into `out`, with those of `view`."""
    width = len(slots)
    strides, digits = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int64)
    digits[:] = 0
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
