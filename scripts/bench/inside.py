"""What `bench raw` asks of a package's inside, in a process of the checkout that is measured. NOT PRIVATE.

    python -P scripts/bench/inside.py draft table.csv out.domain.json
    python -P scripts/bench/inside.py codec table.csv domain.json out.parquet     # or a manifest

`draft` writes the drafted domain as it comes, reviewed by nobody; `codec` the real rows merely encoded and
decoded. The one import that has moved between versions is taken from where it is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from factored_mwem import Domain, draft
from factored_mwem.backends.codes import encode_table
from factored_mwem.tables.codec import fit_columns
from factored_mwem.tables.source import open_table

try:
    from factored_mwem.tables.decode import decode
except ImportError:  # version 0.2.0
    from factored_mwem.tables.codec import decode  # type: ignore[attr-defined,no-redef]


def main() -> None:
    what, path, *files = sys.argv[1:]
    if what == "draft":
        facts = draft(path).reviewed().to_dict()
        Path(files[0]).write_text(json.dumps(facts), encoding="utf-8")
        return
    facts = json.loads(Path(files[0]).read_text(encoding="utf-8"))
    table = open_table(path)
    domain, schema = fit_columns(Domain.from_dict(facts.get("domain", facts)), table, None)
    codes, rng = encode_table(domain, table).columns, np.random.default_rng()
    columns = [decode(a, c, field, rng) for a, c, field in zip(domain, codes, schema, strict=True)]
    pyarrow.parquet.write_table(pa.Table.from_arrays(columns, schema=schema), files[1])


if __name__ == "__main__":
    main()
