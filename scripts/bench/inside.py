"""What `bench raw` asks of a package's inside, in a process of the checkout that is measured. NOT PRIVATE.

    python -P scripts/bench/inside.py draft table.csv out.domain.json
    python -P scripts/bench/inside.py codec table.csv domain.json out.parquet     # or a manifest

`draft` writes the drafted domain as it comes, reviewed by nobody; `codec` the real rows merely encoded and
decoded. What moves between versions is looked for by name in whatever module of the package has it.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import factored_mwem
from factored_mwem import Domain


def named(name: str) -> Any:
    """That function of the package."""
    root = Path(factored_mwem.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if re.search(rf"^def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
            return getattr(import_module(module), name)
    raise SystemExit(f"no {name} in {root}")


def recoded(domain: Domain, schema: pa.Schema, table: Any) -> pa.Table:
    """Rows encoded and decoded by a domain, without model or noise."""
    rng, decode = np.random.default_rng(), named("decode")
    codes = named("encode_table")(domain, table).columns
    columns = [decode(a, c, field, rng) for a, c, field in zip(domain, codes, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


if __name__ == "__main__":
    what, source, *files = sys.argv[1:]
    if what == "draft":
        facts = factored_mwem.draft(source).reviewed().to_dict()
        Path(files[0]).write_text(json.dumps(facts), encoding="utf-8")
    else:
        facts = json.loads(Path(files[0]).read_text(encoding="utf-8"))
        table = named("open_table")(source)
        domain, schema = named("fit_columns")(Domain.from_dict(facts.get("domain", facts)), table, None)
        pyarrow.parquet.write_table(recoded(domain, schema, table), files[1])
