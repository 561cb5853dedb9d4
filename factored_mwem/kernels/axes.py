"""Parts of kernels that walk over the axes of a clique: `axes` are their sizes, `steps` what each code
of each axis adds to the cell of a smaller table.
"""

from __future__ import annotations

import numpy as np

from factored_mwem.kernels import part


@part
def codes_of(axes):
    """How many codes all axes have together."""
    count = 0
    for size in axes:
        count += size
    return count


@part
def mark(axes, steps, needed):
    """Mark the axes on which `steps` depends."""
    at = 0
    for a in range(len(axes)):
        for digit in range(axes[a]):
            if steps[at + digit]:
                needed[a] = True
        at += axes[a]


@part
def cells_over(axes, kept):
    """Cells over the kept axes."""
    cells = 1
    for a in range(len(axes)):
        if kept[a]:
            cells *= axes[a]
    return cells


@part
def steps_onto(axes, kept):
    """The steps of the map onto the kept axes, row-major: an entry for each code of each axis."""
    steps = np.empty(codes_of(axes), dtype=np.int64)
    steps[:] = 0
    stride, at = 1, len(steps)
    for a in range(len(axes) - 1, -1, -1):
        at -= axes[a]
        if kept[a]:
            for digit in range(axes[a]):
                steps[at + digit] = digit * stride
            stride *= axes[a]
    return steps


@part
def add_steps(axes, kept, steps):
    """int64[cells over the kept axes]: the sum of the steps of each cell's codes."""
    cells = np.empty(cells_over(axes, kept), dtype=np.int64)
    cells[:] = 0
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
