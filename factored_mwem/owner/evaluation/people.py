"""People: NOT PRIVATE. How many rows each has in the real table and in one whose people are made up."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem.errors import InputError
from factored_mwem.pipeline.record.manifest import Manifest, read_record
from factored_mwem.tables.codes.parsing import plain
from factored_mwem.tables.inputs.source import Table
from factored_mwem.tables.outputs.release_files import manifest_of
from factored_mwem.tables.outputs.targets import target_of


def made_up_ids(synthetic: Any) -> str | None:
    """The column of a release that names people who are made up, as the manifest beside its file says."""
    if isinstance(synthetic, str | Path):
        with contextlib.suppress(InputError, OSError, ValueError):
            record = read_record(manifest_of(target_of(synthetic)).read())
            if isinstance(record, Manifest) and record.people is not None:
                return record.people.column
    return None


def people_in_words(tables: Sequence[Table], person: str) -> str:
    """How far apart real and synthetic people are in how many rows they have: total variation, 0 to 1."""
    sizes = [rows_of_each(table, person) for table in tables]
    most = max((int(each.max(initial=0)) for each in sizes), default=0)
    shares = [np.bincount(each, minlength=most + 1) / max(len(each), 1) for each in sizes]
    apart = float(np.abs(shares[0] - shares[1]).sum() / 2)
    means = " and ".join(f"{each.mean() if len(each) else 0.0:.2f}" for each in sizes)
    return (
        f"{person!r} names people who are made up, so its values are not compared; rows a person: {means}, "
        f"distributions {apart:.4f} apart (0 to 1)"
    )


def rows_of_each(table: Table, person: str) -> np.ndarray:
    """int64[person]: how many rows each has; those of nobody are left out."""
    ids = [plain(batch.column(0)).cast(pa.string()) for batch in table.batches([person])]
    whole = pa.chunked_array(ids, pa.string()).drop_null().dictionary_encode().combine_chunks()
    counts = np.bincount(whole.indices.to_numpy(zero_copy_only=False), minlength=len(whole.dictionary))
    named = np.array([name != "" for name in whole.dictionary.to_pylist()], dtype=bool)
    return counts[named].astype(np.int64)
