"""Files as a lake's log lists them: each counts once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.lake import LakeFile, lake_table
from factored_mwem.tables.inputs.places import Place


def test_a_data_file_that_is_listed_twice_is_refused(tmp_path: Path) -> None:
    """Its rows would count twice, and a person have more of them than was said."""
    people, path = pa.table({"age": [31, 45]}), tmp_path / "x.parquet"
    pq.write_table(people, path)
    file = LakeFile(Place("x.parquet", str(path)), b"", lambda there: ({"age": "age"}, {}))
    (batch,) = lake_table("the table", people.schema, [file]).read(["age"])
    assert batch.to_pydict() == {"age": [31, 45]}
    with pytest.raises(InputError, match="the table names a file twice"):
        lake_table("the table", people.schema, [file, file])
