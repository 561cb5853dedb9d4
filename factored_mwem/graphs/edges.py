"""Edges: a private graph in whatever form it comes, as a table of two columns. Reads no edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem.backends.source import Local, Source, open_source
from factored_mwem.errors import InputError, shown
from factored_mwem.policy import Policy
from factored_mwem.tables.piped import STANDARD_INPUT
from factored_mwem.tables.source import is_text_file


def open_edges(given: Any, policy: Policy) -> Source:
    """The edges as a table: a file or any data frame with a column for each end, a networkx graph, whose
    nodes go by their `str`, or an integer array of two columns. InputError where it is none.

    A line of a text file is a record whatever its quotes, unless the policy says otherwise: no line can end
    the run.
    """
    if isinstance(given, np.ndarray):
        if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
            raise InputError("edges as an array are whole numbers in two columns")
        given = pa.table({"from": given[:, 0], "to": given[:, 1]})
    elif type(given).__module__.partition(".")[0] == "networkx" and hasattr(given, "edges"):
        ends = [(str(first), str(second)) for first, second, *_ in given.edges]
        columns = {"from": [first for first, _ in ends], "to": [second for _, second in ends]}
        given = pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})
    text = is_text_file(given) or str(given) == STANDARD_INPUT
    records = policy.records if text else "checked"
    source = open_source(given, records, policy.dialect, privacy_id=policy.privacy_id)
    if not isinstance(source, Local):
        raise InputError(f"edges={shown(given)}: edges are read on this machine; give a file or a data frame")
    return source
