"""The command line in this process, with a table to run it on."""

from __future__ import annotations

import csv
import json
import random
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from factored_mwem.errors import Stopped
from factored_mwem.files import crashpoints as faults

FMWEM = Path(sys.executable).with_name("fmwem")
JOB = ["release", "t.csv", "--marginals", 1, "--ledger", "books", "--dataset", "adult"]
CANARY = "CANARY-4711"


def program(line: str, *more: Any) -> list[str]:
    """`fmwem LINE` as what a process is started with."""
    return [str(FMWEM), *shlex.split(line), *map(str, more)]


class Run(NamedTuple):
    code: Any
    out: str
    err: str

    @property
    def facts(self) -> dict[str, Any]:
        """stdout, which must be exactly one JSON line."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


Fmwem = Callable[..., Run]


def _between(low: Any, high: Any, **more: Any) -> dict[str, Any]:
    return {"minimum": low, "maximum": high, **more}


ZIPS = ["0311", "0420", 'Zürich, "HB"\n8001']
YEARS, YEAR = ("1950-01-01", "2009-12-31"), ("2020-01-01", "2020-12-31T23:59:59")
DOMAIN = {
    "fields": [
        {"name": "zip", "categories": ZIPS},
        {"name": "age", "type": "integer", "constraints": _between(0, 99, required=True), "bins": 10},
        {"name": "pay", "type": "number", "constraints": _between(0, 1000), "bins": 8},
        {"name": "born", "type": "date", "constraints": _between(*YEARS, required=True), "bins": 6},
        {"name": "seen", "type": "datetime", "constraints": _between(*YEAR), "bins": 6},
        {"name": "smoker", "type": "boolean"},
    ]
}


def write_table(path: Path, rows: int = 400) -> None:
    rng = random.Random(1)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([field["name"] for field in DOMAIN["fields"]])
        for _ in range(rows):
            day = f"{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
            writer.writerow(
                [
                    rng.choice([*ZIPS, ""]),
                    rng.randint(0, 99),
                    rng.choice([f"{rng.random() * 1000:.2f}", ""]),
                    f"{rng.randint(1950, 2009)}-{day}",
                    rng.choice([f"2020-{day}T12:30:00", ""]),
                    rng.choice(["true", "false", ""]),
                ]
            )


def as_before(folder: Path, template: Path, make: Callable[[], None]) -> None:
    """The folder as `make` leaves it: made once, then copied from the template, which has nothing that
    another fixture put there before and `make` left alone.
    """
    if template.exists():
        shutil.copytree(template, folder, dirs_exist_ok=True)
        return
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    make()
    same = [name for name, at in before.items() if (folder / name).stat().st_mtime_ns == at]
    shutil.copytree(folder, template, ignore=lambda at, _: same if Path(at) == folder else ())


def shown(fmwem: Fmwem) -> dict[str, Any]:
    return fmwem("ledger show books --json").facts["datasets"][0]


def states(fmwem: Fmwem) -> list[str]:
    """Of the releases in the books."""
    return [entry["state"] for entry in shown(fmwem)["releases"]]


def refused(fmwem: Fmwem, line: str, said: str = "", code: int = 2) -> Run:
    """A mistake is one line with its code, which says so, and leaves every file as it was."""
    files = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    done = fmwem(line)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1) and said in done.err, done.err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == files
    return done


def killed_at(point: str) -> None:
    """A run dies there, the next time it comes to it."""

    def killed(reached: str) -> None:
        if reached == point:
            faults.hook = lambda _: None
            raise Stopped(137)

    faults.hook = killed
