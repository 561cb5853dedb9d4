"""Same: do two checkouts release the same bytes when the noise is the same?

    python scripts/bench/same.py --checkout OLD [--only PATTERN] [--keep FOLDER]

Runs this file once with each checkout's package (OLD's, then this one's) over the same small tables, with
noise, tokens, clock and machine replaced by fixed ones, and compares what was written: data files by bytes
and by rows, manifests, models as they load, what is printed, exit codes and ledgers. Models that OLD saved
are loaded on both sides, too. Exit code 1 where anything differs, or went otherwise than it should.

What is replaced is looked up by name in whatever modules the package has (the table below), so the two may be
arranged differently. Costs and scales are the program's own. `--keep` leaves all files of both sides for a
`diff -r`; PATTERN is a shell pattern of names, such as "mwem*".
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime
import fnmatch
import gzip
import hashlib
import importlib
import importlib.metadata
import io
import json
import os
import pkgutil
import re
import secrets
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

PACKAGE = "factored_mwem"
DISTRIBUTION = "factored-mwem"
NAMES = {
    "noise module": "factored_mwem.privacy.noise",
    "noise": "OpenDPNoise",  # its methods add, select and threshold are replaced
    "machine": "Machine",  # a class whose method `of` looks at the machine
    "memory": "memory_limit",  # a function: bytes that tables may take
}
"""What is replaced, by its name in the package."""
MACHINE = (2e9, 2e-9)
"""The machine that all runs see: bytes for tables, seconds a step."""
DROPPED = ("step",)
"""Fields of Policy that one of the sides may no longer have: left out of all that is written."""
PAPER = {"step": "paper"}
"""Choices of every run with engine "mwem", as far as Policy has such fields."""
IN_MODEL = {
    "beliefs": "beliefs",
    "groups": "groups",
    "attribute": "attribute",
    "total": "total",
    "cliques": "cliques",
    "edges": "edges",
    "noisy": "noisy",
    "weights": "weights",
    "positions": "positions",
    "scale": "scale",
    "value": "scale",
    "composition": "composition",
    "order": "order",
    "rows": "rows",
    "seed": "seed",
}
"""Fields of a loaded model's parts, and what the comparison calls them: where a side renames one, add it."""
APART = ("domain", "manifest", "schema", "layout")
"""Fields that are compared as a whole, or follow from the others."""
NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
ENDINGS = (".parquet", ".csv", ".feather", ".json", ".fmwem", ".stdout", ".stderr")
"""Files of a configuration that are compared."""
UNSURE = (
    (r"took +[\d.]+ s, peak memory \d+ MB", "took"),
    (r"at \w+\.py:\d+", "at PLACE"),
    (r"first run: [^\n]*\n", ""),
)
"""What may differ in what is printed."""


# ---- What is fixed


@dataclass
class Fixed:
    """All that is made up: it follows from the configuration's name and from how often it was asked for."""

    name: str = ""
    draws: int = 0
    stop: int | None = None
    error: type[BaseException] = KeyboardInterrupt
    asked: dict[str, int] = field(default_factory=dict)

    def begin(self, name: str) -> None:
        self.name, self.draws, self.stop, self.asked = name, 0, None, {}

    def draw(self, size: int, scale: float) -> np.ndarray:
        """int64[size]: the next noise; `error` where the run is to end here."""
        if self.stop is not None and self.draws >= self.stop:
            self.stop = None
            raise self.error
        self.draws += 1
        rng = np.random.default_rng(list(hashlib.sha256(f"{self.name}|{self.draws}".encode()).digest()))
        noise: np.ndarray = np.rint(rng.standard_normal(size) * float(scale)).astype(np.int64)
        return noise

    def token(self, kind: str, size: int) -> bytes:
        self.asked[kind] = self.asked.get(kind, 0) + 1
        return hashlib.shake_256(f"{self.name}|{kind}|{self.asked[kind]}".encode()).digest(size)


FIXED = Fixed()


class Stop(BaseException):
    """A run of the library ends here."""


def _add(self: Any, values: np.ndarray, *, scale: float) -> np.ndarray:
    noisy: np.ndarray = np.asarray(values, dtype=np.int64) + FIXED.draw(len(values), scale)
    return noisy


def _select(self: Any, scores: np.ndarray, *, scale: float) -> int:
    return int(np.argmax(np.asarray(scores, dtype=np.int64) + FIXED.draw(len(scores), scale)))


def _threshold(self: Any, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
    keys = sorted(counts)
    noisy = [counts[key] + int(draw) for key, draw in zip(keys, FIXED.draw(len(keys), scale), strict=True)]
    return {key: count for key, count in zip(keys, noisy, strict=True) if count >= threshold}


def fix_tokens() -> None:
    """Tokens, seeds and the program's version; before the package is imported: it may take them by name."""
    loose: Any = secrets
    loose.token_bytes = lambda size=32: FIXED.token("bytes", size)
    loose.token_hex = lambda size=32: FIXED.token("hex", size).hex()
    loose.randbits = lambda bits: int.from_bytes(FIXED.token("bits", -(-bits // 8)), "big") >> -bits % 8
    metadata: Any = importlib.metadata
    known = metadata.version
    metadata.version = lambda name: "0" if name == DISTRIBUTION else known(name)


def package_modules() -> list[ModuleType]:
    """All modules of the package, loaded."""
    package = importlib.import_module(PACKAGE)
    for found in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    return [module for name, module in sorted(sys.modules.items()) if name.split(".")[0] == PACKAGE]


def fix_package(modules: Sequence[ModuleType]) -> None:
    """Noise, machine and clock."""
    noise = getattr(importlib.import_module(NAMES["noise module"]), NAMES["noise"])
    noise.add, noise.select, noise.threshold = _add, _select, _threshold
    machines = {id(found): found for m in modules if isinstance(found := vars(m).get(NAMES["machine"]), type)}
    if not machines:
        raise SystemExit(f"no class {NAMES['machine']} in {PACKAGE}: say in NAMES what it is called")
    for machine in machines.values():
        machine.of = classmethod(lambda cls, *_, **__: cls(*MACHINE))  # type: ignore[attr-defined]
    for module in modules:
        if NAMES["memory"] in vars(module):
            setattr(module, NAMES["memory"], lambda *_, **__: MACHINE[0])
        if "datetime" in vars(module) and re.search(r"\.(now|utcnow|today)\(", _source(module)):
            _fix_clock(module)


def _source(module: ModuleType) -> str:
    return Path(module.__file__).read_text(encoding="utf-8") if module.__file__ else ""


class _OfClass(type):
    """Real dates and moments are instances of the fixed ones, too."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.__mro__[1])


class _Moment(datetime.datetime, metaclass=_OfClass):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return NOW.astimezone(tz) if tz else NOW.replace(tzinfo=None)

    utcnow = today = now


class _Day(datetime.date, metaclass=_OfClass):
    @classmethod
    def today(cls) -> Any:
        return NOW.date()


def _fix_clock(module: ModuleType) -> None:
    """A module that asks for the time has `datetime` as a module or as the class."""
    if isinstance(module.datetime, ModuleType):
        module.datetime = SimpleNamespace(**{**vars(datetime), "datetime": _Moment, "date": _Day})  # type: ignore[attr-defined]
    else:
        module.datetime = _Moment  # type: ignore[attr-defined]
        if "date" in vars(module):
            module.date = _Day  # type: ignore[attr-defined]


def leave_out(policy: Any, leave: bool) -> None:
    """Whether what is written of a policy lacks the fields that one of the sides may not have."""
    for name in DROPPED:
        if name in policy.model_fields:
            policy.model_fields[name].exclude = leave or None
    policy.model_rebuild(force=True)


# ---- The tables


def people(rows: int = 2000) -> pa.Table:
    """Whole numbers, text, decimals, dates, truth values, moments; some missing."""
    rng = np.random.default_rng(12)
    age = np.clip(rng.normal(40, 18, rows), 0, 90).astype(int)
    pay = np.round(np.exp(rng.normal(6, 1, rows)) + age * 3, 2)
    job = rng.choice(
        ["clerk", "smith", 'naïve, "quoted"', "cook", "judge", "rare"],
        rows,
        p=[0.4, 0.25, 0.15, 0.12, 0.075, 0.005],
    )
    first, start = datetime.date(2015, 1, 1), datetime.datetime(2020, 1, 1)
    days, seconds = rng.integers(0, 3600, rows), rng.integers(0, 366 * 86400, rows)
    hours = np.where(rng.random(rows) < 0.5, 40, rng.integers(0, 100, rows))
    columns = {
        "age": pa.array(
            [None if u < 0.03 else int(a) for a, u in zip(age, rng.random(rows), strict=True)], pa.int64()
        ),
        "job": pa.array(job.tolist(), pa.string()),
        "pay": pa.array(
            [None if u < 0.05 else float(p) for p, u in zip(pay, rng.random(rows), strict=True)], pa.float64()
        ),
        "joined": pa.array([first + datetime.timedelta(days=int(d)) for d in days], pa.date32()),
        "member": pa.array((age + rng.normal(0, 20, rows) > 40).tolist(), pa.bool_()),
        "smoker": pa.array(
            np.where(rng.random(rows) < 0.2 + 0.3 * (job == "smith"), "yes", "no").tolist(), pa.string()
        ),
        "level": pa.array(rng.choice(["low", "mid", "high"], rows, p=[0.5, 0.3, 0.2]).tolist(), pa.string()),
        "hours": pa.array(hours.tolist(), pa.int64()),
        "seen": pa.array([start + datetime.timedelta(seconds=int(s)) for s in seconds], pa.timestamp("us")),
    }
    return pa.table(columns)


def people_domain() -> dict[str, Any]:
    must = {"required": True}
    fields: list[dict[str, Any]] = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 90}, "bins": 10},
        {
            "name": "job",
            "categories": ["clerk", "smith", 'naïve, "quoted"', "cook", "judge", "else"],
            "other": "else",
            "constraints": must,
        },
        {"name": "pay", "type": "number", "constraints": {"minimum": 0, "maximum": 5000}, "bins": 12},
        {
            "name": "joined",
            "type": "date",
            "constraints": {"minimum": "2015-01-01", "maximum": "2025-01-01", **must},
            "bins": 8,
        },
        {"name": "member", "type": "boolean", "constraints": must},
        {"name": "smoker", "categories": ["no", "yes"], "constraints": must},
        {
            "name": "level",
            "categories": ["low", "mid", "high"],
            "categoriesOrdered": True,
            "constraints": must,
        },
        {"name": "hours", "type": "integer", "constraints": {"minimum": 0, "maximum": 99, **must}},
        {
            "name": "seen",
            "type": "datetime",
            "constraints": {"minimum": "2020-01-01", "maximum": "2021-01-01", **must},
            "bins": 6,
        },
    ]
    return {"fields": fields}


def visits() -> pa.Table:
    """Up to several rows a person, some of nobody."""
    rng = np.random.default_rng(13)
    table = people().select(["age", "job", "hours", "smoker", "member"])
    persons = [
        None if u < 0.02 else f"p{int(n)}"
        for n, u in zip(rng.integers(0, 700, len(table)), rng.random(len(table)), strict=True)
    ]
    return table.add_column(0, "person", pa.array(persons, pa.string()))


def bits() -> pa.Table:
    rng = np.random.default_rng(14)
    base = rng.integers(0, 2, 2000)
    return pa.table({f"b{i}": (base ^ (rng.random(2000) < 0.1 * i)).astype(np.int64) for i in range(6)})


def notes() -> pa.Table:
    """Cells with line breaks and quotes."""
    rng = np.random.default_rng(15)
    words = ["plain", "two\nlines", 'a "word"', "with, comma", ""]
    return pa.table({"note": rng.choice(words, 400).tolist(), "n": rng.integers(0, 9, 400)})


FRAMES: dict[str, Callable[[], Any]] = {
    "people": people,
    "visits": visits,
    "bits": bits,
    "pandas": lambda: people().to_pandas(),
    "polars": lambda: importlib.import_module("polars").from_arrow(people()),
    "one column": lambda: people().select(["job"]),
    "one row": lambda: people().slice(0, 1),
    "empty": lambda: people().slice(0, 0),
    "nulls": lambda: pa.table(
        {**_columns(people(500)), "none": pa.nulls(500, pa.int64()), "nil": pa.nulls(500, pa.string())}
    ),
    "large": lambda: people(60_000).select(["age", "job", "pay", "joined", "smoker", "hours"]),
    "categories": lambda: people().set_column(1, "job", people()["job"].dictionary_encode()),
}
"""Tables in memory, by name."""


def _columns(table: pa.Table) -> dict[str, Any]:
    return {name: table[name] for name in ("age", "job", "pay", "joined", "member")}


def odd_lines() -> list[str]:
    """Numbers and words between semicolons, some cells missing, some lines too short."""
    rng = np.random.default_rng(16)
    numbers, words = rng.integers(0, 50, 600), rng.choice(["ja", "nein", '"vielleicht; bald"', ""], 600)
    return [
        "zahl;wort;rest",
        *(f"{n};{w};{n % 3}" if n else f"{n};{w}" for n, w in zip(numbers, words, strict=True)),
    ]


def write_inputs(folder: Path, checkout: Path) -> None:
    """The same tables as files, domains, workloads, and a table of the checkout's own."""
    folder.mkdir()
    table = people()
    pa.parquet.write_table(table, folder / "people.parquet")
    pa.feather.write_feather(table, folder / "people.feather")
    pa.parquet.write_table(visits(), folder / "visits.parquet")
    for name, found, comma in (
        ("people.csv", table, ","),
        ("people.tsv", table, "\t"),
        ("notes.csv", notes(), ","),
        ("bits.csv", bits(), ","),
        ("large.csv", people(60_000), ","),
    ):
        with open(folder / name, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=comma, lineterminator="\n")
            writer.writerow(found.column_names)
            writer.writerows(zip(*(column.to_pylist() for column in found.columns), strict=True))
    (folder / "people.csv.gz").write_bytes(gzip.compress((folder / "people.csv").read_bytes(), mtime=0))
    with gzip.open(folder / "people.csv.gz", "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    (folder / "odd.csv").write_bytes(
        b"\xef\xbb\xbf" + "\r\n".join(odd_lines()).encode() + b"\r\n1;\xff;x\r\n"
    )
    lines[5], lines[9] = '40,"clerk,100', lines[9] + ",one more"
    (folder / "lines.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    domain = people_domain()
    texts = {
        "people.json": domain,
        "draft.json": {**domain, "draft": True},
        "visits.json": {"fields": [f for f in domain["fields"] if f["name"] in visits().column_names]},
        "bits.json": {f"b{i}": 2 for i in range(6)},
        "mixture.json": {
            "marginals": [1],
            "cubes": [{"attributes": ["job", "smoker", "level"], "order": 2, "weight": 3}],
        },
    }
    for name, content in texts.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "mixture.toml").write_text(MIXTURE, encoding="utf-8")
    for name in ("adult.csv", "adult.domain.json"):
        (folder / name).write_bytes((checkout / "datasets" / name).read_bytes())


MIXTURE = """
marginals = 1
cliques = [["age", "smoker"]]
[[cubes]]
attributes = ["job", "member"]
weight = 2
[[ranges]]
attributes = ["hours"]
count = 60
weight = 5
[[ranges]]
attributes = ["age", "joined"]
count = 40
[[parities]]
order = 2
weight = 0.5
"""


# ---- What is run


@dataclass
class Side:
    """A checkout's public functions."""

    public: ModuleType
    main: Callable[[], None]
    models: Path
    makes: bool
    """Whether it is the side that saves the models which both load."""

    @classmethod
    def of(cls, checkout: Path, models: Path, makes: bool) -> Side:
        project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        module, _, name = project["scripts"]["fmwem"].partition(":")
        return cls(
            importlib.import_module(PACKAGE), getattr(importlib.import_module(module), name), models, makes
        )

    def choices(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """With what every run with engine "mwem" is given, where Policy knows it."""
        known = self.public.Policy.model_fields
        more = (
            {key: value for key, value in PAPER.items() if key in known}
            if given.get("engine") == "mwem"
            else {}
        )
        return {**more, **given}


@dataclass(frozen=True)
class Call:
    """`release(...)` from Python, its files written; a workload as a dictionary or an order."""

    table: str
    workload: Any
    choices: dict[str, Any] = field(default_factory=dict)
    out: str = "out.parquet"
    wanted: str = "0"
    stop: int | None = None

    def take(self, side: Side, number: int) -> str:
        FIXED.stop, FIXED.error = self.stop, Stop
        asked = (
            side.public.Workload.from_dict(self.workload)
            if isinstance(self.workload, dict)
            else self.workload
        )
        table = FRAMES[self.table]() if self.table in FRAMES else self.table
        try:
            made = side.public.release(table, asked, **side.choices(self.choices))
            made.write(self.out, overwrite=True)
            made.save(Path(self.out).with_suffix(".fmwem"), overwrite=True)
        except side.public.FmwemError as error:
            Path(f"{number}.stderr").write_text(str(error), encoding="utf-8")
            return type(error).__name__
        except Stop:
            return "stopped"
        return "0"


@dataclass(frozen=True)
class Command:
    """The command line; `settings` go to a file that --config names."""

    arguments: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    wanted: str = "0"
    stop: int | None = None

    def take(self, side: Side, number: int) -> str:
        FIXED.stop, FIXED.error = self.stop, KeyboardInterrupt
        arguments = list(self.arguments)
        if self.settings:
            lines = [f"{key} = {json.dumps(value)}\n" for key, value in side.choices(self.settings).items()]
            Path(f"{number}.toml").write_text("".join(lines), encoding="utf-8")
            arguments += ["--config", f"{number}.toml"]
        code, out, err = in_process(side.main, arguments)
        Path(f"{number}.stdout").write_text(sure(out), encoding="utf-8")
        Path(f"{number}.stderr").write_text(sure(err), encoding="utf-8")
        return code


def sure(text: str) -> str:
    """What is printed, without what may differ."""
    for pattern, instead in ((re.escape(os.getcwd()), "FOLDER"), *UNSURE):
        text = re.sub(pattern, instead, text)
    return text


def in_process(main: Callable[[], None], arguments: Sequence[str]) -> tuple[str, str, str]:
    """(exit code, stdout, stderr) of the command line."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["fmwem", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code: Any = 0
    except SystemExit as ending:
        code = ending.code
    finally:
        sys.argv = before
    return str(code or 0), out.getvalue(), err.getvalue()


@dataclass(frozen=True)
class OldModel:
    """A model file that the old side saved, as the policy then was, loaded on both sides."""

    call: Call
    wanted: str = "0"

    def take(self, side: Side, number: int) -> str:
        path = side.models / f"{FIXED.name.replace(':', '').replace(' ', '-')}.fmwem"
        if side.makes:
            self._make(side, path)
        found = side.public.Release.load(path)
        Path("model.fmwem").write_bytes(path.read_bytes())
        found.write("again.csv")
        return Command(
            ("sample", "model.fmwem", "-n", "500", "-o", "more.parquet", "--sample-seed", "5")
        ).take(side, number)

    def _make(self, side: Side, path: Path) -> None:
        call, policy = self.call, side.public.Policy
        leave_out(policy, False)
        try:
            given = {
                key: value
                for key, value in call.choices.items()
                if key in policy.model_fields or key not in PAPER
            }
            asked = (
                side.public.Workload.from_dict(call.workload)
                if isinstance(call.workload, dict)
                else call.workload
            )
            side.public.release(FRAMES[call.table](), asked, **given).save(path)
        finally:
            leave_out(policy, True)


Step = Call | Command | OldModel


def command(text: str, wanted: str = "0", stop: int | None = None, **settings: Any) -> Command:
    """`IN/` is the folder of the inputs."""
    return Command(tuple(text.replace("IN/", "../inputs/").split()), settings, wanted, stop)


DECLARED = {"domain": "../inputs/people.json"}
BITS = {"domain": "../inputs/bits.json"}
MUCH = {"epsilon": 8.0}
"""What it takes to learn the bounds of numbers from so few rows."""
FEW = {**DECLARED, "columns": ["job", "smoker", "level", "member"]}
CUBE = {"cubes": [{"attributes": ["job", "smoker", "level"]}]}
Asked = tuple[str, Any, dict[str, Any]]


def ranges(*attributes: str, **more: Any) -> dict[str, Any]:
    return {"ranges": [{"attributes": attributes, **more}]}


TREE: dict[str, Asked] = {
    "marginals 1": ("people", 1, DECLARED),
    "marginals 2": ("people", 2, DECLARED),
    "marginals 3": ("people", 3, DECLARED),
    "named marginals": ("people", {"cliques": [["age", "job", "smoker"], ["hours"]]}, DECLARED),
    "learnt": ("people", 2, MUCH),
    "learnt, too few rows": ("people", 2, {}),
    "learnt, much for the domain": ("people", 1, {"domain_budget": 0.5, "epsilon": 3.0}),
    "learnt, replace": ("people", 2, {**MUCH, "neighbours": "replace"}),
    "replace": ("people", 2, {**DECLARED, "neighbours": "replace"}),
    "pure": ("people", 2, {**DECLARED, "delta": 0.0}),
    "pure, replace": ("people", 2, {**DECLARED, "delta": 0.0, "neighbours": "replace"}),
    "contributions 3": ("people", 2, {**DECLARED, "contributions": 3}),
    "contributions 3, learnt": ("people", 2, {"epsilon": 20.0, "contributions": 3}),
    "contributions 3 by id": ("visits", 2, {**MUCH, "contributions": 3, "privacy_id": "person"}),
    "contributions 1 by id, replace": ("visits", 2, {"privacy_id": "person", "neighbours": "replace"}),
    "contributions 2 by id, declared": (
        "visits",
        2,
        {"domain": "../inputs/visits.json", "privacy_id": "person", "contributions": 2, "delta": 0.0},
    ),
    "cube": ("people", CUBE, DECLARED),
    "cube of order 2": ("people", {"cubes": [{"attributes": ["job", "smoker", "age"], "order": 2}]}, MUCH),
    "ranges random": ("people", ranges("hours", count=100), DECLARED),
    "ranges random of two": ("people", ranges("hours", "age", count=100, seed=4), DECLARED),
    "ranges all": ("people", ranges("hours", which="all"), DECLARED),
    "ranges prefix": ("people", ranges("pay", which="prefix"), MUCH),
    "ranges and marginals": ("people", {"marginals": [2], **ranges("hours", count=200, weight=9)}, DECLARED),
    "parities": ("bits", {"parities": [{"order": 3}]}, BITS),
    "mixture": ("people", {"marginals": [1], **ranges("hours", count=50), **CUBE}, DECLARED),
    "max cells": ("people", 3, {**DECLARED, "max_cells": 400}),
    "max memory": ("people", 2, {**DECLARED, "max_memory": "51MB"}),
    "time budget": ("people", 2, {**DECLARED, "time_budget": 2.2}),
    "time budget too short": ("people", 2, {**DECLARED, "time_budget": 0.001}),
    "rounds": ("people", 2, {**DECLARED, "rounds": 5}),
    "rows and seed": ("people", 2, {**DECLARED, "rows": 321, "sample_seed": 7}),
    "many rows": ("people", 1, {**DECLARED, "rows": 150_000}),
    "columns": ("people", 2, {**DECLARED, "columns": ["smoker", "age", "hours"]}),
    "small epsilon": ("people", 2, {**DECLARED, "epsilon": 0.01, "rows": 1000}),
    "large epsilon": ("people", 2, {**DECLARED, "epsilon": 20.0}),
    "all at once": ("bits", 2, {**BITS, "epsilon": 0.2}),
    "all at once, pure": ("bits", 2, {**BITS, "epsilon": 0.2, "delta": 0.0}),
    "one column": ("one column", 1, {}),
    "one row": ("one row", 1, {}),
    "one row, declared": ("one row", 2, DECLARED),
    "empty": ("empty", 1, {}),
    "empty, replace": ("empty", 2, {**DECLARED, "neighbours": "replace"}),
    "nulls": ("nulls", 2, MUCH),
    "from pandas": ("pandas", 2, MUCH),
    "from polars": ("polars", 2, DECLARED),
    "from categories": ("categories", 1, MUCH),
    "large table": ("large", 3, {}),
}
"""The tree engine from Python."""
MWEM: dict[str, Asked] = {
    "marginals 2": ("people", 2, DECLARED),
    "marginals 3, default rounds": ("people", 3, {**FEW, "rounds": None}),
    "learnt": ("people", 2, {**MUCH, "columns": ["age", "job", "smoker", "hours"]}),
    "pure": ("people", 2, {**DECLARED, "delta": 0.0}),
    "replace": ("people", 2, {**DECLARED, "neighbours": "replace"}),
    "rounds adaptive": ("people", 2, {**FEW, "rounds": "adaptive"}),
    "rounds adaptive, asked": ("people", CUBE, {**FEW, "rounds": "adaptive", "epsilon": 5.0}),
    "histogram": ("people", 2, {**FEW, "initial": "histogram", "components": "one"}),
    "histogram of each": ("people", 2, {**DECLARED, "initial": "histogram"}),
    "no initial": ("people", 2, {**FEW, "initial": "none"}),
    "components one": ("people", 2, {**FEW, "components": "one"}),
    "average": ("people", 2, {**FEW, "components": "one", "iterate": "average", "initial": "none"}),
    "replay off": ("people", 2, {**FEW, "replay": False}),
    "shares": ("people", 2, {**FEW, "select_share": 0.4, "initial_share": 0.3}),
    "max cells": ("people", 2, {**DECLARED, "max_cells": 300}),
    "by id": ("visits", 2, {**MUCH, "contributions": 3, "privacy_id": "person"}),
    "cube": ("people", CUBE, DECLARED),
    "ranges": ("people", ranges("hours", "age", count=80), {**DECLARED, "replay": False}),
    "ranges all": ("people", ranges("hours", which="all"), DECLARED),
    "parities": ("bits", {"parities": [{"order": 3}]}, BITS),
    "mixture": ("people", {**ranges("hours", count=30, weight=2), "marginals": [1], **CUBE}, DECLARED),
    "mixture, pure": (
        "people",
        {**ranges("hours", count=30), **CUBE},
        {**DECLARED, "delta": 0.0, "initial": "none"},
    ),
    "one component, asked": ("people", CUBE, {**FEW, "components": "one"}),
    "large table": ("large", 2, {}),
}
"""The faithful engine from Python, in six rounds where nothing else is said."""
SIX: dict[str, Any] = {"engine": "mwem", "rounds": 6}
OF = "release IN/people.csv --domain IN/people.json"
TO = "--model out.fmwem --json"
FILES: dict[str, Sequence[Step]] = {
    "csv, summary": [command(f"{OF} --marginals 2 -o out.csv --model out.fmwem -v --no-progress")],
    "csv, summary learnt": [
        command("release IN/people.csv --marginals 1 -o o.csv --max-cells 900 --no-progress")
    ],
    "csv.gz, learnt": [command(f"release IN/people.csv.gz --marginals 2 --epsilon 8 -o out.parquet {TO}")],
    "csv, large": [command(f"release IN/large.csv --marginals 2 -o out.csv {TO}")],
    "tsv": [command("release IN/people.tsv --marginals 1 -o out.feather --domain IN/people.json --json")],
    "semicolons, byte order mark": [command(f"release IN/odd.csv --marginals 1 --epsilon 8 -o out.csv {TO}")],
    "multi-line": [command(f"release IN/notes.csv --marginals 2 --epsilon 8 --multiline -o out.csv {TO}")],
    "multi-line, parquet": [command(f"release IN/notes.csv --marginals 1 --multiline -o out.parquet {TO}")],
    "lines": [
        command("release IN/lines.csv --marginals 1 --lines -o o.parquet --domain IN/people.json --json")
    ],
    "lines, learnt": [command(f"release IN/lines.csv --marginals 1 --lines -o out.csv --epsilon 8 {TO}")],
    "parquet": [
        command("release IN/people.parquet --marginals 2 --rows 100 --sample-seed 3 --epsilon 8 --json")
    ],
    "feather": [command(f"release IN/people.feather --marginals 2 --epsilon 8 -o out.csv {TO}")],
    "by id": [
        command(
            f"release IN/visits.parquet --marginals 2 --privacy-id person --contributions 3 -o out.csv {TO}"
        )
    ],
    "workload toml": [command(f"{OF} --workload IN/mixture.toml --epsilon 0.7 -o out.feather {TO}")],
    "workload json": [command(f"{OF} --workload IN/mixture.json --epsilon 0.7 -o out.feather {TO}")],
    "workload mwem": [command(f"{OF} --workload IN/mixture.toml -o out.csv {TO}", engine="mwem", rounds=8)],
    "options": [
        command(f"{OF} --cube job,level:2@2 --ranges hours:50 --ranges age:prefix --parities 1 {TO}")
    ],
    "config": [
        command("release IN/people.csv", marginals=2, columns=["job", "age"], epsilon=9.0, output="c.csv")
    ],
    "mwem": [command(f"{OF} --marginals 2 -o out.csv {TO}", engine="mwem", rounds=4)],
    "adult": [command("release IN/adult.csv --marginals 2 --rounds 6 -o out.csv --model out.fmwem --json")],
    "adult mwem": [command("release IN/adult.csv --marginals 2 --columns age,sex,income --json", **SIX)],
    "adult marginals 3": [command("release IN/adult.csv --marginals 3 --json")],
    "check": [
        command("check IN/people.csv --domain IN/people.json --marginals 3 --json"),
        command("check IN/people.csv --domain IN/people.json --ranges hours:100 --time-budget 4 --json"),
        command("check IN/adult.csv --marginals 2"),
    ],
    "check mwem": [
        command(
            "check IN/people.csv --domain IN/people.json --workload IN/mixture.toml --json", engine="mwem"
        ),
        command("check IN/people.csv --domain IN/people.json --marginals 2", engine="mwem"),
    ],
    "evaluate": [
        command(f"{OF} --marginals 2 -o out.csv --json"),
        command(
            "evaluate IN/people.csv out.csv --domain IN/people.json --ranges age:90 --cube job,level --json"
        ),
        command("evaluate IN/people.csv out.csv --marginals 2 --columns job,age,seen"),
    ],
    "sample": [
        command(f"{OF} --marginals 2 -o out.csv {TO}"),
        *(
            command(f"sample out.fmwem -n 700 -o more.{kind} --sample-seed 4")
            for kind in ("parquet", "csv", "feather")
        ),
        command("sample out.fmwem -n 70"),
    ],
    "draft": [command(f"domain draft IN/{name}") for name in ("people.csv", "people.parquet", "adult.csv")],
    "schemas": [command("domain schema"), command("workload schema")],
}
"""Files of every kind by the command line, and the commands beside `release`."""


def books(*steps: Step, cap: str = "--epsilon 2") -> list[Step]:
    """The steps between a new ledger, with a dataset `p`, and what it shows at the end."""
    begin = [command("ledger init b.ledger"), command(f"ledger add b.ledger --dataset p {cap}")]
    shown = ("show b.ledger --json", "show b.ledger", "export b.ledger", "verify b.ledger --json")
    return [*begin, *steps, *(command(f"ledger {what}") for what in shown)]


RUN = f"{OF} --marginals 2 --epsilon 0.5 -o out.parquet --ledger b.ledger --dataset p {TO}"
FIRST = f"{RUN} --run-id r"
SMALL = f"{FIRST} --columns job,smoker,level"
LEARNT = (
    "release IN/people.csv --marginals 2 --epsilon 8 -o o.csv --ledger b.ledger --dataset p --run-id r --json"
)
HELD = {**DECLARED, "ledger": "b.ledger", "dataset": "p", "run_id": "r", "epsilon": 0.5}
LEDGERS: dict[str, Sequence[Step]] = {
    "without run id": books(command(RUN), command(f"{RUN} --overwrite")),
    "resumed at 0": books(command(FIRST, "130", 0), command(FIRST)),
    "resumed at 3": books(command(FIRST, "130", 3), command(FIRST)),
    "resumed twice": books(command(FIRST, "130", 2), command(FIRST, "130", 15), command(FIRST)),
    "resumed learnt": books(command(LEARNT, "130", 17), command(LEARNT), cap="--epsilon 30"),
    "resumed mwem": books(command(SMALL, "130", 4, **SIX), command(SMALL, **SIX)),
    "resumed call": books(Call("people", 2, HELD, wanted="stopped", stop=5), Call("people", 2, HELD)),
    "resumed call, mwem": books(
        Call("people", CUBE, {**HELD, **SIX}, wanted="stopped", stop=5),
        Call("people", CUBE, {**HELD, **SIX}),
    ),
    "repeated": books(command(FIRST), command(FIRST)),
    "repeated mwem": books(command(SMALL, **SIX), command(SMALL, **SIX)),
    "other parameters": books(command(FIRST), command(f"{FIRST} --contributions 2", "2")),
    "pure": books(
        *(command(f"{RUN} --delta 0 --run-id {i} --overwrite") for i in "ab"), cap="--epsilon 1 --delta 0"
    ),
    "rho": books(command(FIRST), cap="--rho 0.5"),
    "spent": books(command(FIRST, "3"), cap="--epsilon 0.1"),
    "spent by the first": books(command(RUN), command(f"{RUN} --overwrite", "3"), cap="--epsilon 0.6"),
    "other terms": books(command(FIRST, "2"), cap="--epsilon 2 --neighbours replace"),
}
"""Ledgers, runs that died after so many draws, runs that were finished."""
REFUSED: dict[str, tuple[str, str]] = {
    "unknown column": (f"{OF} --marginals 1 --columns nobody", "2"),
    "epsilon 0": (f"{OF} --marginals 1 --epsilon 0", "2"),
    "draft": ("release IN/people.csv --marginals 1 --domain IN/draft.json", "2"),
    "no workload": (OF, "2"),
    "marginals of too many": (f"{OF} --marginals 12", "2"),
    "no table": ("release IN/none.csv --marginals 1", "2"),
    "open quote": ("release IN/lines.csv --marginals 1 --domain IN/people.json", "2"),
    "ranges of words": (f"{OF} --ranges job:10", "2"),
    "parities of few": (f"{OF} --parities 5", "2"),
    "too many cells": (f"{OF} --marginals 1 --max-cells 5", "4"),
    "too many cells, mwem": (f"{OF} --marginals 1 --max-cells 5 --engine mwem", "4"),
    "mwem with memory": (f"{OF} --marginals 1 --engine mwem --max-memory 1GB", "2"),
    "learnt, pure": ("release IN/people.csv --marginals 1 --delta 0", "2"),
    "no ledger": (f"{OF} --marginals 1 --ledger none.ledger --dataset p", "2"),
    "unknown ending": (f"{OF} --marginals 1 -o out.xls", "2"),
    "unknown option": (f"{OF} --marginal 2", "2"),
    "check without domain": ("check IN/people.csv --marginals 2", "2"),
}
"""What the command line refuses: arguments and exit code; the message is compared."""
REFUSED_CALLS: dict[str, Asked] = {
    "average": ("people", {"parities": [{"order": 1}]}, {**SIX, **DECLARED, "iterate": "average"}),
    "average of what is asked": ("people", CUBE, {**SIX, **FEW, "iterate": "average", "components": "one"}),
    "initial": ("people", 1, {**DECLARED, "initial": "none"}),
    "rounds": ("people", 1, {**DECLARED, "rounds": "adaptive"}),
    "no such column": ("people", {"cliques": [["age", "nobody"]]}, DECLARED),
}
DENSE = {**DECLARED, **SIX, "columns": ["job", "smoker", "level", "age"]}
OLD_MODELS: dict[str, Asked] = {
    "tree": ("people", 2, DECLARED),
    "tree learnt": ("people", 2, MUCH),
    "tree by ranges": ("people", {"marginals": [1], **ranges("hours", count=80)}, DECLARED),
    "tree, pure": ("people", 3, {**DECLARED, "delta": 0.0, "neighbours": "replace"}),
    "at once": ("bits", 2, {**BITS, "epsilon": 0.2}),
    "mwem as it was": ("people", 2, DENSE),
    "mwem by the paper": ("people", 2, {**DENSE, **PAPER}),
    "mwem asked": ("people", {**ranges("age", count=20), **CUBE}, DENSE),
}
"""Models of before: trees with levels, residuals, dense components by both steps."""


def all_cases() -> dict[str, Sequence[Step]]:
    """Every configuration by its name."""
    cases: dict[str, Sequence[Step]] = {f"tree: {name}": [Call(*asked)] for name, asked in TREE.items()}
    cases["tree: to csv"] = [Call("people", 2, DECLARED, "out.csv")]
    cases["tree: to feather"] = [Call("people", 2, DECLARED, "out.feather")]
    cases["tree: from feather, to csv"] = [Call("../inputs/people.feather", 2, {}, "out.csv")]
    for name, (table, what, choices) in MWEM.items():
        cases[f"mwem: {name}"] = [Call(table, what, {**SIX, **choices})]
    cases |= {f"files: {name}": steps for name, steps in FILES.items()}
    cases |= {f"ledger: {name}": steps for name, steps in LEDGERS.items()}
    for name, (text, code) in REFUSED.items():
        cases[f"refused: {name}"] = [command(text, code), command(f"{text} --json", code)]
    cases["refused: sample of no model"] = [command("sample none.fmwem -n 5", "2")]
    for name, asked in REFUSED_CALLS.items():
        cases[f"refused call: {name}"] = [Call(*asked, wanted="InputError")]
    return {
        **cases,
        **{f"old model file: {name}": [OldModel(Call(*asked))] for name, asked in OLD_MODELS.items()},
    }


# ---- What is compared


def digest(content: Any) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content, default=repr).encode()
    return hashlib.sha256(data).hexdigest()[:24]


def rows_digest(table: pa.Table) -> str:
    return digest([str(table.schema.remove_metadata()), repr(table.to_pydict())])


def harvest(side: Side) -> dict[str, str]:
    """Digests by role of the files of a configuration, which lie in the present folder."""
    found: dict[str, str] = {}
    for path in sorted(Path().iterdir()):
        if path.suffix not in ENDINGS:
            continue
        if path.suffix == ".fmwem":
            found |= {f"{path.name} ({part})": value for part, value in model_digests(side, path).items()}
            continue
        found[path.name] = digest(path.read_bytes())
        if path.suffix == ".parquet":
            found[f"{path.name} (rows)"] = rows_digest(pa.parquet.read_table(path))
        elif path.suffix == ".feather":
            found[f"{path.name} (rows)"] = rows_digest(pa.feather.read_table(path))
    return found


def model_digests(side: Side, path: Path) -> dict[str, str]:
    """What a loaded model holds, by the names of fields; its domain, its manifest and 1,000 of its rows."""
    release = side.public.Release.load(path)
    parts: dict[str, list[Any]] = {}
    for name, value in walk(release, set()):
        parts.setdefault(name, []).append(value)
    found = {name: digest(values) for name, values in parts.items()}
    found["domain"] = digest(release.domain.to_dict())
    found["manifest"] = digest(release.manifest.model_dump_json().encode())
    return {**found, "1,000 rows": rows_digest(release.sample(1000, seed=11))}


def walk(thing: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """(name in the comparison, content) of the fields of IN_MODEL in everything that `thing` is made of."""
    if id(thing) in seen or not type(thing).__module__.startswith((PACKAGE, "builtins")):
        return
    seen.add(id(thing))
    if isinstance(thing, list | tuple | dict):
        for part in thing.values() if isinstance(thing, dict) else thing:
            yield from walk(part, seen)
        return
    fields = thing.__dataclass_fields__ if is_dataclass(thing) else getattr(thing, "__dict__", ())
    for name in sorted(set(fields) - {*APART}):
        value = getattr(thing, name)
        if name == "beliefs" and hasattr(value, "cliques"):  # with what follows from them
            value = value.cliques
        if name in IN_MODEL and not is_dataclass(value):
            yield IN_MODEL[name], plain(value)
        else:
            yield from walk(value, seen)


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [
            str(value.dtype),
            list(value.shape),
            hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest(),
        ]
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return repr(value)


# ---- The two sides


def run_case(side: Side, name: str, steps: Sequence[Step], folder: Path) -> dict[str, str]:
    """The digests of a configuration; `unexpected` where a step ended otherwise than it should."""
    folder.mkdir()
    os.chdir(folder)
    FIXED.begin(name)
    outcomes, began = [], time.process_time()
    try:
        outcomes = [step.take(side, number) for number, step in enumerate(steps)]
        found = harvest(side)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what came of this configuration
        traceback.print_exc()
        found = {"error": f"{type(error).__name__}: {error}"}
    found["outcomes"] = ", ".join(outcomes)
    if outcomes != [step.wanted for step in steps]:
        found["unexpected"] = f"ended in {outcomes}, not {[step.wanted for step in steps]}"
    print(f"{time.process_time() - began:6.2f} s  {name}", file=sys.stderr)
    return found


def run_side(checkout: Path, work: Path, models: Path, makes: bool, only: str) -> None:
    """Every configuration with this checkout's package; the digests go to `digests.json` in `work`."""
    fix_tokens()
    modules = package_modules()
    home = Path(modules[0].__file__ or "").resolve()
    if checkout.resolve() not in home.parents:
        raise SystemExit(f"{PACKAGE} came from {home}, not from {checkout}")
    fix_package(modules)
    side = Side.of(checkout, models, makes)
    leave_out(side.public.Policy, True)
    write_inputs(work / "inputs", checkout)
    found = {}
    for name, steps in all_cases().items():
        if fnmatch.fnmatch(name, only):
            found[name] = run_case(side, name, steps, work / re.sub(r"\W+", "-", name))
    (work / "digests.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


def started(checkout: Path, work: Path, models: Path, makes: bool, only: str) -> dict[str, dict[str, str]]:
    """What `run_side` finds, in a process of its own."""
    work.mkdir(parents=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FMWEM_")}
    fixed = {
        "PYTHONPATH": str(checkout),
        "PYTHONHASHSEED": "0",
        "COLUMNS": "110",
        "NO_COLOR": "1",
        "TZ": "UTC",
    }
    arguments = ["--side", str(work), "--checkout", str(checkout), "--models", str(models), "--only", only]
    command_line = [
        sys.executable,
        str(Path(__file__).resolve()),
        *arguments,
        *(["--makes"] if makes else []),
    ]
    began = time.monotonic()
    subprocess.run(command_line, cwd=work, env={**kept, **fixed}, check=True)
    print(f"{time.monotonic() - began:.0f} s for {checkout}", file=sys.stderr)
    found: dict[str, dict[str, str]] = json.loads((work / "digests.json").read_text(encoding="utf-8"))
    return found


def verdict(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    differ = [role for role in {**old, **new} if old.get(role) != new.get(role)]
    odd = [side[key] for side in (old, new) for key in ("error", "unexpected") if key in side]
    return (
        "; ".join((["DIFFERENT: " + ", ".join(differ)] if differ else []) + list(dict.fromkeys(odd)))
        or "same"
    )


def compare(old: Path, folder: Path, only: str) -> int:
    """Run both sides and say what differs."""
    models = folder / "models"
    models.mkdir(parents=True)
    before = started(old, folder / "old", models, True, only)
    after = started(Path(__file__).resolve().parents[2], folder / "new", models, False, only)
    verdicts = {name: verdict(before.get(name, {}), after.get(name, {})) for name in {**before, **after}}
    for name, words in verdicts.items():
        print(f"{name:42} {words}")
    bad = sum(words != "same" for words in verdicts.values())
    print(f"{len(verdicts)} configurations, {bad} differ")
    return int(bad > 0 or not verdicts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkout", type=Path, required=True, help="the checkout to compare this one with")
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help='configurations by name, such as "mwem*"'
    )
    parser.add_argument("--keep", type=Path, help="a new folder for all files of both sides")
    for hidden in ("--side", "--models"):
        parser.add_argument(hidden, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--makes", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        sys.path = [entry for entry in sys.path if entry != str(Path(__file__).resolve().parent)]
        run_side(given.checkout, given.side, given.models, given.makes, given.only)
        return
    with contextlib.ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sys.exit(compare(given.checkout.resolve(), folder.resolve(), given.only))


if __name__ == "__main__":
    main()
