"""One trial: a folder with a table and a ledger, the command run in forks, and what is found there."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq

from factored_mwem import Cap, Neighbours, Release, create_ledger, open_ledger
from factored_mwem.accounting.accountant import price
from factored_mwem.cli import main as cli
from factored_mwem.files import crashpoints as faults
from factored_mwem.files.files import sha256
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.record.manifest_check import check_books

from .plants import PLANTS

FILES = {"data": "out.parquet", "manifest": "out.manifest.json", "model": "out.fmwem"}
COMMAND = "fmwem release t.csv --marginals 2 -o out.parquet --model out.fmwem --dataset t --run-id r --json"
CASES = {"declared": "--epsilon 2 --engine mwem --rounds 4", "learnt": "--epsilon 2 --columns age,job,pay"}
"""More of the command, by name: an engine of rounds over a declared domain; a domain that is learnt, and then
the default engine.
"""
REQUIRED = {"required": True}
FIELDS = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 79, **REQUIRED}, "bins": 8},
    {"name": "job", "categories": ["a", "b", "c"], "constraints": REQUIRED},
    {"name": "pay", "type": "integer", "constraints": {"minimum": 0, "maximum": 999, **REQUIRED}, "bins": 5},
]
Hook = Callable[[str], None]


@dataclass
class Trial:
    """A folder with a table and a ledger that admits one release, and what was seen there."""

    folder: Path
    case: str
    ledger: str
    """Where it is."""

    @classmethod
    def of(cls, folder: Path, case: str, database: str | None = None) -> Trial:
        """`database`: a URI, in which the ledger is made anew; with none, it is a file in the folder."""
        folder.mkdir()
        trial = cls(folder, case, database or str(folder / "books"))
        if database is not None:
            import psycopg

            with psycopg.connect(database, autocommit=True) as db:
                db.execute("DROP SCHEMA IF EXISTS fmwem_ledger CASCADE")
        rng = random.Random(3)
        with open(folder / "t.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["age", "job", "pay"])
            writer.writerows([rng.randrange(80), rng.choice("abc"), rng.randrange(1000)] for _ in range(3000))
        if case == "declared":
            (folder / "t.domain.json").write_text(json.dumps({"fields": FIELDS}))
        create_ledger(trial.ledger).add("t", Cap.of(2.0, 1e-9), Neighbours.ADD_REMOVE, 1)
        return trial

    def fork(
        self, hook: Hook = lambda _: None, *, kill_after: float = 0.0, plant: str | None = None
    ) -> tuple[int, dict[str, object]]:
        """(exit code, or minus the signal; the JSON line) of the command in a process of its own."""
        child = os.fork()
        if not child:
            self._child(hook, plant)
        if kill_after:
            time.sleep(kill_after)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        lines = (self.folder / "stdout").read_text().splitlines()
        return os.waitstatus_to_exitcode(status), json.loads(lines[-1]) if lines else {}

    def _child(self, hook: Hook, plant: str | None) -> None:
        """Draws are noted in the file `truth`, a byte for each, before they are made."""
        code = 99

        def noting(point: str) -> None:
            if point == "before draw":
                with open("truth", "a", encoding="ascii") as file:
                    file.write("d")
            hook(point)

        try:
            os.chdir(self.folder)
            for heard in (signal.SIGINT, signal.SIGTERM):  # whoever started this may ignore them
                signal.signal(heard, signal.SIG_DFL)
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            sys.argv = [*COMMAND.split(), *CASES[self.case].split(), "--ledger", self.ledger]
            faults.hook = noting
            if plant:
                PLANTS[plant]()
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
            sys.stdout.flush()
        finally:
            os._exit(code)

    @property
    def draws(self) -> int:
        truth = self.folder / "truth"
        return truth.stat().st_size if truth.exists() else 0

    def visible(self) -> list[str]:
        """What is wrong with the files under their final names."""
        wrong, (data, manifest, model) = [], [self.folder / name for name in FILES.values()]
        for path, read in ((data, pq.read_table), (model, Release.load)):
            try:
                if path.exists():
                    read(path)
            except Exception:  # noqa: BLE001 - whatever it is, the file is not whole
                wrong.append(f"half a {'data' if path is data else 'model'} file")
        if manifest.exists():
            output = Manifest.model_validate_json(manifest.read_bytes()).output
            if not data.exists() or output is None or output.sha256 != sha256(data):
                wrong.append("a manifest beside other data")
        return wrong

    def booked(self) -> list[str]:
        """Whether the ledger says less than the truth, or its chain and its rows differ."""
        entries = open_ledger(self.ledger).entries("t")
        wrong = ["draws that the ledger does not know"] if self.draws and not entries else []
        wrong += ["two entries for one run"] if len(entries) > 1 else []
        return wrong + check_books(self.ledger)["problems"]

    def agreed(self) -> tuple[int, float, list[str]]:
        """(draws made twice, what the books say beyond the manifest's cost, what is wrong) after a run that
        ended well.
        """
        path = self.folder / FILES["manifest"]
        charges = Manifest.model_validate_json(path.read_bytes()).ledger
        entries, none = open_ledger(self.ledger).entries("t"), Fraction(0)
        prices = (price(c.mechanism, scale=c.scale, sensitivity=c.sensitivity) for c in charges)
        cost, delta = sum(prices, none), sum((Fraction(c.delta) for c in charges), none)
        booked = sum((e.cost.amount for e in entries), none)
        whole = (booked, sum((e.cost.delta for e in entries), none)) == (cost, delta)
        wrong = ([] if whole else ["the books and the manifest differ"]) + check_books(self.ledger, [path])[
            "problems"
        ]
        if [e.state for e in entries] != ["finished"]:
            wrong.append("the run is not finished in the books")
        elif {role: sha256(self.folder / name) for role, name in FILES.items()} not in entries[0].files:
            wrong.append("files differ from the books")
        return self.draws - len(charges), float(booked - cost), wrong
