"""What commands cost: ours, those of another checkout, and releases by other programs. NOT PRIVATE: it reads
the tables.

    python scripts/bench speed --checkout now=. old=PATH -o out.csv
    python scripts/bench speed --only Adult --peers mst swift --peer-python mst=PY1 swift=PY2
    python scripts/bench speed --only "0 million" --large --runs 1

Every run is a process of its own; programs take turns. CPU seconds are user and system time with children,
wall seconds run from the start of the process to its end, memory is the largest resident set of one process.
Ratios are of the first program's cost to the other's: below one, the first is faster. Ours were compiled
before (numba compiles once per installation), but for `first run`, which has an empty folder of kernels. It
is a release of the Adult rows that come with the project (3-way), and `check` is about these.

`Adult, epsilon E` releases adult_discretised of FMWEM_DATASETS (3-way marginals); `rows` a made-up table of
42 columns in Parquet (30 of texts, six of decimals, six of whole numbers; a declared domain, 2-way
marginals). 20 and 100 million rows are a million in as many files, alike, under `--max-memory 2GB`. `columns`
are 20,000 rows of made-up codes (2-way). The other commands are about `Adult, epsilon 1` and, where they say
42, the million rows. Peers are those of `bench accuracy`; they get the codes of the same rows. Epsilon is 1
where nothing else is said.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from common.runner import Benchmark, Row
from common.tables import BUNDLED

from bench.case import Case, prepare
from bench.peers import Task
from bench.program import Job, Program, Releases
from bench.runs import made_up

MILLION, COLUMNS = 1_000_000, 42
EPSILON = 1.0
QUESTION = "count where age >= 4 by sex"
SIZES = (2, 3, 5, 9, 12)
"""Of columns of texts, one after the other; a column of decimals and one of whole numbers follow."""
BINS = 32


@dataclass(frozen=True, kw_only=True)
class Timed(Releases):
    runs: int = 3
    only: Annotated[str, "commands whose name this pattern matches"] = ""
    large: Annotated[bool, "also 20 and 100 million rows: long, and 10 GB of disk"] = False


@dataclass(frozen=True)
class Command:
    """`line`: of a program and the file that it is to write. `peers`: it is a release that they make, too.
    `cold`: as of a Job.
    """

    name: str
    line: Callable[..., list[str]]
    cold: str = ""
    ending: str = ".parquet"
    peers: bool = False
    judge: Callable[[Path], Row] = lambda out: {}


@dataclass(frozen=True)
class Commands:
    """All that are timed, and the files that they need; of each program, for their formats may differ."""

    options: Timed
    folder: Path

    def listed(self) -> Iterator[Command]:
        for epsilon in self.options.epsilons:
            line = partial(self.adult_codes, epsilon)
            yield Command(f"Adult, epsilon {epsilon:g}", line, "adult", ".csv", True, self.errors)
        yield Command("a million rows x 42", self.many_rows, "many_rows", peers=True)
        for parts in (20, 100) if self.options.large else ():
            yield Command(f"{parts} million rows x 42", partial(self.parts, parts))
        for columns in (100, 1000):
            yield Command(f"{columns:,} columns", partial(self.many_columns, columns), "columns")
        yield Command("first run", self.first_run)
        yield Command("first answer", partial(self.answer, True), "first")
        yield Command("later answer", partial(self.answer, False), "later")
        yield Command("report", self.report, "report", ".html")
        yield Command("check", self.check, "check")
        yield Command("sample 1,000", partial(self.sample, self.adult, 1000), "sample")
        yield Command("sample a million x 15", partial(self.sample, self.adult, MILLION), "sample")
        yield Command("sample a million x 42", partial(self.sample, self.many_rows, MILLION), "sample")

    @cached_property
    def case(self) -> Case:
        return prepare("adult_discretised", self.folder)

    def errors(self, out: Path) -> Row:
        return {"e3": self.case.errors(out)["e3"]}

    def adult_codes(self, epsilon: float, program: Program, *, out: Path) -> list[str]:
        return program.command(self.case.task(epsilon, self.options.delta), out=out)

    def adult(self, program: Program, *, out: Path) -> list[str]:
        return self.adult_codes(EPSILON, program, out=out)

    def many_rows(self, program: Program, *more: object, out: Path) -> list[str]:
        table = mixed(self.folder, codes=not program.ours)
        if program.ours:
            return self.release(program, table, 2, "--domain", table.with_suffix(".json"), *more, out=out)
        files = (str(table.with_suffix(".csv")), str(table.with_suffix(".sizes.json")))
        task = Task(*files, EPSILON, self.options.delta, MILLION, 2)
        return program.command(task, out=out)

    def parts(self, parts: int, program: Program, *, out: Path) -> list[str]:
        """So many times the million rows, in as many files."""
        self.model(program, self.many_rows)  # compiles
        table = mixed(self.folder)
        others = [table.with_name(f"{table.stem}.{part}.parquet") for part in range(1, parts)]
        for other in others:
            if not other.exists():
                shutil.copy(table, other)
        return self.many_rows(program, *others, "--max-memory", "2GB", out=out)

    def many_columns(self, columns: int, program: Program, *, out: Path) -> list[str]:
        table = made_up(self.folder, 20_000, columns, 4)
        return self.release(program, table, 2, "--domain", table.with_suffix(".json"), out=out)

    def release(self, program: Program, table: Path, order: int, *more: object, out: Path) -> list[str]:
        return program.release(table, order, EPSILON, self.options.delta, *more, out=out)

    def first_run(self, program: Program, *, out: Path) -> list[str]:
        kernels = f"NUMBA_CACHE_DIR={tempfile.mkdtemp(dir=self.folder)}"
        return ["env", kernels, *self.release(program, BUNDLED / "adult.csv", 3, out=out)]

    def model(self, program: Program, release: Callable[..., list[str]]) -> Path:
        """Of that release, which is made once, unmeasured."""
        out = self.folder / f"{release.__name__}.{program.name}.parquet"
        if not out.exists():
            program.run(release(program, out=out), self.options.limit)
        return out.with_suffix(".fmwem")

    def answer(self, first: bool, program: Program, *, out: Path) -> list[str]:
        """The first one of a model makes its replicates, which are kept beside it."""
        kept = self.model(program, self.adult)
        fresh = self.folder / f"{'first' if first else 'later'}.{program.name}.fmwem"
        if first or not fresh.exists():
            fresh.with_name(fresh.name + ".replicates").unlink(missing_ok=True)
            shutil.copy(kept, fresh)
        return program.fmwem("answer", fresh, QUESTION)

    def report(self, program: Program, *, out: Path) -> list[str]:
        kept = self.model(program, self.adult).with_suffix(".manifest.json")
        return program.fmwem("report", kept, "-o", out, "--overwrite")

    def check(self, program: Program, *, out: Path) -> list[str]:
        return program.fmwem("check", BUNDLED / "adult.csv", "--marginals", 3)

    def sample(
        self, release: Callable[..., list[str]], rows: int, program: Program, *, out: Path
    ) -> list[str]:
        kept = self.model(program, release)
        return program.fmwem("sample", kept, "-n", rows, "-o", out, "--overwrite")


def mixed(folder: Path, rows: int = MILLION, codes: bool = False) -> Path:
    """A Parquet table of texts and numbers that go with two hidden ones, its domain beside it; where asked
    for, also its codes for peers.
    """
    table = folder / "mixed.parquet"
    if table.exists() and (not codes or table.with_suffix(".csv").exists()):
        return table
    rng = np.random.default_rng(5)
    hidden = rng.normal(size=(2, rows))
    columns: dict[str, np.ndarray] = {}
    coded: dict[str, tuple[np.ndarray, int]] = {}
    fields: list[Row] = []
    for number in range(COLUMNS):
        seen = np.clip(hidden[number % 2] * rng.uniform(0.2, 1) + rng.normal(size=rows), -3.99, 3.99)
        size, name = [*SIZES, BINS, BINS][number % 7], f"c{number}"
        if number % 7 < len(SIZES):
            cuts, words = np.sort(rng.uniform(-2, 2, size - 1)), [f"value {code}" for code in range(size)]
            code = np.searchsorted(cuts, seen).astype(np.int8)
            columns[name] = np.array(words)[code]
            kind, ends = {"type": "string", "categories": words}, {}
        else:
            whole = number % 7 > len(SIZES)
            scale, code = 1000 if whole else 10, ((seen + 4) * BINS / 8).astype(np.int8)
            values = np.round(seen * scale, 0 if whole else 2)
            columns[name] = values.astype(int) if whole else values
            kind = {"bins": BINS} | ({"type": "integer"} if whole else {"type": "number", "decimals": 2})
            ends = {"minimum": -4 * scale, "maximum": 4 * scale}
        fields.append({"name": name, **kind, "constraints": {**ends, "required": True}})
        coded[name] = (code, size)
    pyarrow.parquet.write_table(pa.table(columns), table)
    table.with_suffix(".json").write_text(json.dumps({"fields": fields}), encoding="utf-8")
    if codes:
        columns = {name: code for name, (code, _) in coded.items()}
        pyarrow.csv.write_csv(pa.table(columns), table.with_suffix(".csv"))
        sizes = {name: size for name, (_, size) in coded.items()}
        table.with_suffix(".sizes.json").write_text(json.dumps(sizes), encoding="utf-8")
    return table


def timed(options: Timed, folder: Path) -> Iterator[Row]:
    def jobs() -> Iterator[Job]:
        for command in Commands(options, folder).listed():
            for program in options.programs():
                if re.search(options.only, command.name) and (program.ours or command.peers):
                    about = {"command": command.name, "program": program.name}
                    line = partial(command.line, program)
                    yield Job(about, program, line, command.judge, command.ending, command.cold)

    return options.made(jobs(), folder)


SHOWN = (
    "CPU s = {cpu:.2f~} | CPU ratio = {/cpu:.2f} | wall s = {wall:.2f} | wall ratio = {/wall:.2f} | "
    "peak MB = {peak_mb:.0f} | 3-way mean = {e3:.4f}"
)
speed = Benchmark(Timed, timed, "command program", SHOWN)
