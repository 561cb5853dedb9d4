"""Rules of a domain: rows that break one, errors and CPU beside a release without. NOT PRIVATE: it reads the
table.

    python scripts/bench rules                        # Adult, 5 runs at epsilon 0.1, 1 and 10
    python scripts/bench rules --rows 10000000 --epsilons 1 --runs 1

The rules are hand-written and public: a level of education has one number, husbands and wives are married and
of one sex. The few rows of Adult that break them are left out, so that the table obeys. `broken` counts rows
that break a rule among `--rows` fresh ones; errors are mean L1 distances of all marginals of an order.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from factored_mwem import Domain, Release, evaluate, release

DOMAIN = Path(__file__).resolve().parents[2] / "datasets" / "adult.domain.json"
LEVELS = (
    *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad"),
    *("Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"),
)
MARRIED = ["Married-civ-spouse", "Married-AF-spouse"]
RULES: list[dict[str, Any]] = [
    {"derive": "education-num", "from": "education", "map": {e: i + 1 for i, e in enumerate(LEVELS)}},
    {"if": {"relationship": "Husband"}, "then": {"sex": "Male", "marital-status": MARRIED}},
    {"if": {"relationship": "Wife"}, "then": {"sex": "Female", "marital-status": MARRIED}},
]


def breaks(rows: pd.DataFrame) -> pd.Series:
    """Whether each row breaks a rule, written without the package."""
    wrong = rows["education-num"] != rows["education"].map({e: i + 1 for i, e in enumerate(LEVELS)})
    for who, sex in (("Husband", "Male"), ("Wife", "Female")):
        wrong |= (rows["relationship"] == who) & ~(
            (rows["sex"] == sex) & rows["marital-status"].isin(MARRIED)
        )
    return wrong


def cpu() -> float:
    used = os.times()
    return used.user + used.system


def broken_rows(made: Release, rows: int) -> int:
    """How many of `rows` fresh rows break a rule; the first come as those of a release do, refined."""
    own = sum(int(breaks(batch.to_pandas()).sum()) for batch in made.batches(min(rows, 400_000), seed=1))
    more = max(rows - 400_000, 0)
    return own + sum(
        int(breaks(batch.to_pandas()).sum()) for batch in (made.batches(more, seed=2) if more else ())
    )


def measure(options: argparse.Namespace, folder: Path) -> None:
    whole = pd.read_csv(options.table, skipinitialspace=True, keep_default_na=False, na_values=["", "?"])
    real = folder / "real.csv"
    whole[~breaks(whole)].to_csv(real, index=False)
    plain = Domain.from_dict(json.loads(DOMAIN.read_text(encoding="utf-8")))
    ruled = Domain(plain.attributes, rules=RULES)
    print(f"{len(whole):,} rows, of which {int(breaks(whole).sum())} break a rule and are left out")
    for epsilon in options.epsilons:
        for name, domain in (("without", plain), ("with", ruled)):
            errors: list[list[float]] = []
            seconds, broken = [], 0
            for run in range(options.runs):
                begun = cpu()
                made = release(real, 3, domain=domain, epsilon=epsilon)
                made.write(folder / "made.csv", overwrite=True)
                seconds.append(cpu() - begun)
                by_order = evaluate(real, folder / "made.csv", 3, domain=plain).by_order
                errors.append([by_order[order][0] for order in (1, 2, 3)])
                broken += broken_rows(made, options.rows) if run == 0 or name == "with" else 0
            mean = [f"{statistics.mean(column):.4f}" for column in zip(*errors, strict=True)]
            spread = statistics.stdev(e[2] for e in errors) if options.runs > 1 else float("nan")
            print(
                f"epsilon {epsilon:g} {name:8} e1 e2 e3 {' '.join(mean)} (sd of e3 {spread:.4f}) "
                f"CPU {statistics.mean(seconds):.2f} s, {broken:,} rows break a rule",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench rules", description=__doc__.split("\n\n")[0])
    data = Path(os.environ.get("FMWEM_DATASETS", ".")) / "adult" / "adult.csv.gz"
    parser.add_argument("--table", type=Path, default=data, help="Adult as UCI has it, with a header")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="fresh rows to look at, of every run with"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(options, Path(folder))


if __name__ == "__main__":
    main()
