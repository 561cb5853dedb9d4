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
from factored_mwem import crashpoints as faults
from factored_mwem.accounting.accountant import price
from factored_mwem.cli import main as cli
from factored_mwem.files import sha256
from factored_mwem.pipeline.manifest import Manifest
from factored_mwem.pipeline.manifest_check import check_books

from .plants import PLANTS

FILES = {"data": "out.parquet", "manifest": "out.manifest.json", "model": "out.fmwem"}
CASES = {
    "declared": ["--epsilon", "2", "--engine", "mwem", "--rounds", "4"],
    "learnt": ["--epsilon", "2", "--columns", "age,job,pay"],
}
"""Arguments by name: an engine of rounds over a declared domain; a domain that is learnt, and then the
default engine.
"""
Hook = Callable[[str], None]


@dataclass
class Trial:
    """A folder with a table and a ledger that admits one release, and what was seen there."""

    folder: Path
    case: str
    ledger: str = ""
    """Where it is."""

    @classmethod
    def of(cls, folder: Path, case: str, database: str | None = None) -> Trial:
        """`database`: a URI, in which the ledger is made anew; with none, it is a file in the folder."""
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
            ages, pays = ({"minimum": 0, "maximum": most, "required": True} for most in (79, 999))
            fields = [
                {"name": "age", "type": "integer", "constraints": ages, "bins": 8},
                {"name": "job", "categories": ["a", "b", "c"], "constraints": {"required": True}},
                {"name": "pay", "type": "integer", "constraints": pays, "bins": 5},
            ]
            (folder / "t.domain.json").write_text(json.dumps({"fields": fields}))
        books = create_ledger(trial.ledger)
        books.add("t", Cap.of(2.0, 1e-9), Neighbours.ADD_REMOVE, 1)
        return trial

    def arguments(self, run_id: str = "r") -> list[str]:
        books = ["--ledger", self.ledger, "--dataset", "t", "--run-id", run_id, "--json"]
        return [
            "fmwem",
            "release",
            "t.csv",
            "--marginals",
            "2",
            "-o",
            FILES["data"],
            "--model",
            FILES["model"],
            *CASES[self.case],
            *books,
        ]

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
        code = 99
        try:
            os.chdir(self.folder)
            for heard in (signal.SIGINT, signal.SIGTERM):  # whoever started this may ignore them
                signal.signal(heard, signal.SIG_DFL)
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            sys.argv = self.arguments()
            faults.hook = self._noting(hook)
            if plant:
                PLANTS[plant]()
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
            sys.stdout.flush()
        finally:
            os._exit(code)

    def _noting(self, hook: Hook) -> Hook:
        """`hook`, with a byte in the file `truth` for each draw that is about to be made."""

        def noting(point: str) -> None:
            if point == "before draw":
                with open("truth", "a", encoding="ascii") as file:
                    file.write("d")
            hook(point)

        return noting

    @property
    def draws(self) -> int:
        truth = self.folder / "truth"
        return truth.stat().st_size if truth.exists() else 0

    def visible(self) -> list[str]:
        """What is wrong with the files under their final names."""
        wrong, paths = [], {role: self.folder / name for role, name in FILES.items()}
        if paths["data"].exists() and not _readable(lambda: pq.read_table(paths["data"])):
            wrong.append("half a data file")
        if paths["model"].exists() and not _readable(lambda: Release.load(paths["model"])):
            wrong.append("half a model file")
        if paths["manifest"].exists():
            manifest = Manifest.model_validate_json(paths["manifest"].read_bytes())
            if (
                not paths["data"].exists()
                or manifest.output is None
                or manifest.output.sha256 != sha256(paths["data"])
            ):
                wrong.append("a manifest beside other data")
        return wrong

    def booked(self) -> list[str]:
        """Whether the ledger says less than the truth, or its chain and its rows differ."""
        entries = open_ledger(self.ledger).entries("t")
        wrong = ["draws that the ledger does not know"] if self.draws and not entries else []
        return (
            wrong
            + (["two entries for one run"] if len(entries) > 1 else [])
            + check_books(self.ledger)["problems"]
        )

    def agreed(self) -> tuple[int, float, list[str]]:
        """(draws made twice, what the books say beyond the manifest's cost, what is wrong) after a run that
        ended well.
        """
        manifest = Manifest.model_validate_json((self.folder / FILES["manifest"]).read_bytes())
        entries = open_ledger(self.ledger).entries("t")
        cost = sum(
            (price(c.mechanism, scale=c.scale, sensitivity=c.sensitivity) for c in manifest.ledger),
            Fraction(0),
        )
        delta = sum((Fraction(c.delta) for c in manifest.ledger), Fraction(0))
        booked = (
            sum((e.cost.amount for e in entries), Fraction(0)),
            sum((e.cost.delta for e in entries), Fraction(0)),
        )
        wrong = [] if booked == (cost, delta) else ["the books and the manifest differ"]
        wrong += check_books(self.ledger, [self.folder / FILES["manifest"]])["problems"]
        if [e.state for e in entries] != ["finished"]:
            return (
                self.draws - len(manifest.ledger),
                float(booked[0] - cost),
                [*wrong, "the run is not finished in the books"],
            )
        wrong += (
            ["files differ from the books"]
            if {r: sha256(self.folder / name) for r, name in FILES.items()} not in entries[0].files
            else []
        )
        return self.draws - len(manifest.ledger), float(booked[0] - cost), wrong


def _readable(read: Callable[[], object]) -> bool:
    try:
        read()
    except Exception:  # noqa: BLE001 - whatever it is, the file is not whole
        return False
    return True
