"""One runner of all scripts: options from the fields of a dataclass, rows as they are measured, one table.

A benchmark is a class of options, a generator of rows (dictionaries, one for each run) and the columns of a
table. Each row is told on standard error as soon as it is there, and written to `-o FILE` (CSV, or JSON lines
by its ending), so that a long benchmark that breaks off leaves what it has. The table, at the end, has a line
for each kind of run: the rows that agree in all fields of the key.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import statistics
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from string import Formatter
from tempfile import TemporaryDirectory
from types import UnionType
from typing import Annotated, Any, ClassVar, NoReturn, TypeVar

Row = dict[str, Any]
T = TypeVar("T")
ALSO = {"output": ["-o"], "keep": ["--folder"]}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of every benchmark. A field with a default is an option of that name; those of `places` are
    given by their place. What a name leaves open, its annotation says.
    """

    places: ClassVar[tuple[str, ...]] = ()
    output: Annotated[Path | None, "file of all runs: CSV, or JSON lines where it ends in .jsonl"] = None


def parse(options: type[Any], doc: str | None, name: str, arguments: Sequence[str] | None = None) -> Any:
    """An instance of a dataclass of options from the command line; lists of numbers may have commas, too."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        name, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    types = typing.get_type_hints(options, include_extras=True)
    for each in fields(options):
        kind, default = types[each.name], each.default
        words = typing.get_args(kind)[1:] if typing.get_origin(kind) is Annotated else ()
        kind = typing.get_args(kind)[0] if words else kind
        if typing.get_origin(kind) in (typing.Union, UnionType):
            kind = next(part for part in typing.get_args(kind) if part is not type(None))
        many = typing.get_origin(kind) is tuple
        kind = typing.get_args(kind)[0] if many else kind
        shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
        said = () if shown in (MISSING, None, "", False) else (f"default: {shown}",)
        given: Row = {"help": "; ".join([*words, *said])}
        given["default"] = argparse.SUPPRESS  # the class has it
        choices = typing.get_args(kind)
        if kind is bool:
            given["action"] = "store_true"
        else:
            given |= {"type": whole if kind is int else str if choices else kind}
            given |= {"choices": choices} if choices else {"metavar": each.name.upper()}
        if many:
            given |= {"nargs": "*" if default is None else "+", "action": "extend"}
        if each.name in getattr(options, "places", ()):
            given |= {} if many or default is MISSING else {"nargs": "?", "default": default}
            parser.add_argument(each.name, **given)
        else:
            flag = f"--{each.name.replace('_', '-')}"
            parser.add_argument(flag, *ALSO.get(each.name, []), required=default is MISSING, **given)
    apart = (text.split(",") if set(text) <= set("0123456789.e,") else [text] for text in arguments)
    found = vars(parser.parse_args([*itertools.chain(*apart)]))
    if found.get("quick") and found.get("full"):
        parser.error("--quick and --full exclude each other")
    return options(**{name: tuple(v) if isinstance(v, list) else v for name, v in found.items()})


def whole(text: str) -> int:
    """2e6 is a whole number, too."""
    if float(text) % 1:
        raise ValueError(text)
    return int(float(text))


@dataclass(frozen=True)
class Benchmark:
    """`rows(options, folder)` measures. `key`: the fields that tell kinds of runs apart. `columns`: of the
    table, "TITLE = FORMAT | ...", of the fields that `Figures` has. `base`: last field of the key of the kind
    that ratios are to; without it, the first that agrees in the rest of the key. `also`: fields of the file
    alone.
    """

    options: type[Any]
    rows: Callable[[Any, Path], Iterator[Row]]
    key: str
    columns: str
    base: str | None = None
    also: tuple[str, ...] = ()

    def main(self, name: str, arguments: Sequence[str]) -> None:
        made = parse(self.options, sys.modules[self.rows.__module__].__doc__, f"bench {name}", arguments)
        with ExitStack() as stack:
            folder = getattr(made, "keep", None) or Path(stack.enter_context(TemporaryDirectory()))
            folder.mkdir(parents=True, exist_ok=True)
            rows = list(self.recorded(self.rows(made, folder), made.output))
        print("\n".join(self.table([*rows, *earlier(getattr(made, "beside", ()))])))

    @property
    def fields(self) -> list[str]:
        """Of the file: the key, the number of the run, all that a column names, and what a process costs."""
        names = [part[1].strip("/") for part in Formatter().parse(self.columns) if part[1]]
        known = [*self.key.split(), "run", *names, *self.also]
        return list(dict.fromkeys([*known, "cpu", "wall", "peak_mb", "status"]))

    def kind(self, row: Row) -> tuple[Any, ...]:
        """What a run is one of."""
        return tuple(row.get(name, "") for name in self.key.split())

    def recorded(self, rows: Iterable[Row], out: Path | None) -> Iterator[Row]:
        """The same rows, each told and written as soon as it is there."""
        with open(out or "/dev/null", "w", encoding="utf-8", newline="") as file:
            lines = out is not None and out.suffix == ".jsonl"
            writer = csv.DictWriter(file, self.fields, extrasaction="ignore")
            if not lines:
                writer.writeheader()
            for row in rows:
                tell(" ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()))
                if lines:
                    print(json.dumps(row), file=file)
                else:
                    writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
                file.flush()
                yield row

    def table(self, rows: Iterable[Row]) -> Iterator[str]:
        titles, lines = tabulated(rows, self.key, self.columns, self.base)
        yield from markdown(lines, " | ".join(titles)).splitlines()


def tabulated(
    rows: Iterable[Row], key: str, columns: str, base: str | None = None
) -> tuple[list[str], list[list[str]]]:
    """(titles, lines of cells): a line for each kind of run, in the order in which the first of each came.
    See Benchmark for the rest.
    """
    names, kinds = key.split(), dict[tuple[Any, ...], list[Row]]()
    for row in rows:
        kinds.setdefault(tuple(row.get(name, "") for name in names), []).append(row)
    titles, specs = zip(*(column.split(" = ") for column in columns.split(" | ")), strict=True)
    firsts, lines = dict[tuple[Any, ...], list[Row]](), list[list[str]]()
    for kind, runs in kinds.items():
        firsts.setdefault(kind[:-1], runs)
        beside = firsts[kind[:-1]] if base is None else kinds.get((*kind[:-1], base), [])
        good = [run for run in runs if run.get("status", "ok") == "ok"]
        *start, last = (_plain(part) for part in kind)
        of = f" ({len(good)} of {len(runs)} runs)" if 0 < len(good) < len(runs) else ""
        figures = Figures(good, beside)
        shown = [spec.format_map(figures) for spec in specs] if good else [runs[0]["status"]]
        lines.append([*start, f"{last}{of}", *shown, *[""] * (len(specs) - len(shown))])
    return [*names, *titles], lines


class Figures(dict[str, "Figure"]):
    """The fields of the runs of one kind. `name` is a field; `name/` its ratio to the base's, `/name` the
    base's to it.
    """

    def __init__(self, runs: Sequence[Row], base: Sequence[Row]) -> None:
        self.runs, self.base = runs, base

    def __missing__(self, name: str) -> Figure:
        field = name.strip("/")
        own, others = (
            [value for row in side if (value := row.get(field)) not in (None, "") and value == value]
            for side in (self.runs, self.base)
        )
        if field == name:
            return Figure(own)
        above, below = (own, others) if name.endswith("/") else (others, own)
        ratio = own and others and statistics.mean(below)
        return Figure([statistics.mean(above) / ratio] if ratio else [])


@dataclass(frozen=True)
class Figure:
    """What the runs of a kind say of one thing: formatted as their mean; with `~` after the format also their
    standard deviation.
    """

    values: list[Any]

    def __format__(self, spec: str) -> str:
        if not self.values:
            return "-"
        if isinstance(self.values[0], str):
            return ", ".join(dict.fromkeys(self.values))
        plain = spec.rstrip("~")
        shown = format(statistics.mean(self.values), plain)
        spread = spec != plain and len(self.values) > 1
        return f"{shown} ({statistics.stdev(self.values):{plain}})" if spread else shown


def _plain(value: Any) -> str:
    return format(value, "g" if isinstance(value, float) else "," if isinstance(value, int) else "")


def printed(head: str, results: Iterable[T], cells: Callable[[T], Sequence[object]]) -> list[T]:
    """The results, each printed as a line of a table as soon as it is there; the titles of `head` stand above
    the first.
    """
    shown: list[T] = []
    for result in results:
        line = markdown([cells(result)]) if shown else markdown([cells(result)], head)
        print(line, flush=True)
        shown.append(result)
    if shown:
        print()
    return shown


def markdown(rows: Iterable[Sequence[object]], head: str = "") -> str:
    """Lines of a table, below titles that are joined by " | "."""
    titles = [head.split(" | "), ["---"] * len(head.split(" | "))] if head else []
    lines = ("".join(f"| {cell} " if cell != "" else "| " for cell in cells) for cells in (*titles, *rows))
    return "\n".join(f"{line}|" for line in lines)


def earlier(paths: Iterable[Path]) -> Iterator[Row]:
    """Rows of runs in CSV files that were written before."""
    import pandas as pd

    for path in paths:
        for row in pd.read_csv(path).dropna(subset="run").astype(object).to_dict("records"):
            yield {name: value for name, value in row.items() if pd.notna(value)}


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def refuse(line: str) -> NoReturn:
    """Exit code 2, as for any other option that is wrong."""
    tell(line)
    sys.exit(2)
