"""Same: do two checkouts release the same bytes when the noise is the same?

    python scripts/bench same --checkout OLD [--only PATTERN] [--leave-out FIELD ...] [--keep FOLDER]

Runs once with each checkout's package (OLD's, then this one's) over the same small tables, with noise,
tokens, clock and machine replaced by fixed ones, and compares what was written: data files by bytes
and by rows, manifests and other JSON by their fields, models by their arrays and headers, what is printed,
exit codes and ledgers. Models that OLD saved are loaded on both sides, too. Exit code 1 where anything
differs, or went otherwise than it should. What is run stands in same.toml.

What is replaced is looked up by name in whatever modules the package has (NAMES in same_fixed.py), so the
two may be arranged differently. Costs and scales are the program's own. `--keep` leaves all files of both
sides for a `diff -r`; PATTERN is a shell pattern of names, such as "mwem*"; each FIELD is left out of all
JSON.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import importlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import safetensors.numpy
from common.runner import parse

from bench.same_fixed import FIXED, PACKAGE, Stop, fix_package, fix_tokens
from bench.same_tables import CONFIGURATIONS, FRAMES, write_inputs

LEFT_OUT = ("manifest_version", "ledger_version", "fmwem_model")
"""Fields left out of all JSON of both sides: versions of formats. While there are any, hashes are, too."""
HASH = re.compile("[0-9a-f]{64}")
UNSURE = (
    (r"took +[\d.]+ s, peak memory \d+ MB", "took"),
    (r"at \w+\.py:\d+", "at PLACE"),
    (r"first run: [^\n]*\n", ""),
)
"""What may differ in what is printed, and what stands for it."""
APART_FROM = ("sets", "workloads", "texts", "inputs")
"""Sections of same.toml that are no configurations."""
ENDINGS = (".parquet", ".csv", ".feather", ".json", ".fmwem", ".stdout", ".stderr")
"""Files of a configuration that are compared."""


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
    def of(cls, checkout: Path, folder: Path) -> Side:
        project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        module, _, name = project["scripts"]["fmwem"].partition(":")
        main = getattr(importlib.import_module(module), name)
        return cls(importlib.import_module(PACKAGE), main, folder.parent / "models", folder.name == "old")


@dataclass(frozen=True)
class Call:
    """`release(...)` from Python, its files written; a workload as a dictionary or an order."""

    table: str
    workload: Any
    choices: dict[str, Any]
    out: str
    wanted: str
    stop: int | None

    def release(self, side: Side) -> Any:
        table, of = FRAMES[self.table]() if self.table in FRAMES else self.table, self.workload
        of = side.public.Workload.from_dict(of) if isinstance(of, dict) else of
        return side.public.release(table, of, **self.choices)

    def take(self, side: Side, number: int) -> str:
        FIXED.stop, FIXED.error = self.stop, Stop
        try:
            made = self.release(side)
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
            lines = [f"{key} = {json.dumps(value)}\n" for key, value in self.settings.items()]
            Path(f"{number}.toml").write_text("".join(lines), encoding="utf-8")
            arguments += ["--config", f"{number}.toml"]
        code: Any = 0
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                sys.argv = ["fmwem", *arguments]
                side.main()
            except SystemExit as ending:
                code = ending.code
        for name, stream in (("stdout", out), ("stderr", err)):
            text = stream.getvalue()
            for pattern, instead in ((re.escape(os.getcwd()), "FOLDER"), *UNSURE):
                text = re.sub(pattern, instead, text)
            Path(f"{number}.{name}").write_text(text, encoding="utf-8")
        return str(code or 0)


@dataclass(frozen=True)
class OldModel:
    """A model file that the old side saved, loaded on both sides."""

    call: Call
    wanted: str = "0"

    def take(self, side: Side, number: int) -> str:
        path = side.models / f"{FIXED.name.replace(':', '').replace(' ', '-')}.fmwem"
        if side.makes:
            self.call.release(side).save(path)
        Path("model.fmwem").write_bytes(path.read_bytes())
        side.public.Release.load(path).write("again.csv")
        more = ("sample", "model.fmwem", "-n", "500", "-o", "more.parquet", "--sample-seed", "5")
        return Command(more).take(side, number)


Step = Call | Command | OldModel


def configurations(only: str) -> Iterator[tuple[str, list[Step]]]:
    """Those of same.toml whose names are like the pattern, in the order of the file."""
    for section, entries in CONFIGURATIONS.items():
        for name, entry in {} if section in APART_FROM else entries.items():
            if fnmatch.fnmatch(f"{section}: {name}", only):
                yield f"{section}: {name}", [step(section, each) for each in steps_of(section, entry)]


def steps_of(section: str, entry: Any) -> list[Any]:
    entries = list(entry) if isinstance(entry, list) else [entry]
    if section == "refused":
        entries.append({**entry, "run": f"{entry['run']} --json"})
    if section == "ledger":
        own = isinstance(entries[0], str) and entries[0].startswith("cap ")
        cap = entries.pop(0).removeprefix("cap ") if own else "--epsilon 2"
        first = ("ledger init b.ledger", f"ledger add b.ledger --dataset p {cap}")
        last = ("show b.ledger --json", "show b.ledger", "export b.ledger", "verify b.ledger --json")
        entries = [*first, *entries, *(f"ledger {what}" for what in last)]
    return entries


def step(section: str, entry: Any) -> Step:
    given = {"run": entry} if isinstance(entry, str) else dict(entry)
    ending = {"wanted": given.pop("wanted", "0"), "stop": given.pop("stop", None)}
    sets, text = given.pop("sets", "" if "run" in given else "declared"), given.pop("run", None)
    table, of, out = (given.pop(*pair) for pair in (("table", "people"), ("of", 2), ("out", "out.parquet")))
    choices: dict[str, Any] = {}
    for name in sets.split():
        choices |= CONFIGURATIONS["sets"][name]
    choices |= given
    if text is not None:
        while "{" in text:
            text = text.format_map(CONFIGURATIONS["texts"])
        return Command(tuple(text.replace("IN/", "../inputs/").split()), choices, **ending)
    if section == "mwem" and "engine" not in choices:
        choices = {**CONFIGURATIONS["sets"]["six"], **choices}
    call = Call(table, CONFIGURATIONS["workloads"].get(str(of), of), choices, out, **ending)
    return OldModel(call) if section == "old model file" else call


# ---- What is compared


def digest(content: Any) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content, default=repr).encode()
    return hashlib.sha256(data).hexdigest()[:24]


def rows_digest(table: pa.Table) -> str:
    return digest([str(table.schema.remove_metadata()), repr(table.to_pydict())])


def text_digests(name: str, content: bytes, left_out: Sequence[str]) -> dict[str, str]:
    """Of a text; where it is a JSON object, of each of its fields, too. Fields to be left out are."""
    text = content.decode(errors="replace")
    parsed = _parsed(text)
    parsed = [_parsed(line) for line in text.splitlines()] if parsed is text else parsed
    kept = without(parsed, left_out)
    fields = kept if isinstance(kept, dict) else {}
    whole = digest(content if kept == parsed else kept)
    return {name: whole, **{f"{name} ({key})": digest(value) for key, value in fields.items()}}


def _parsed(text: str) -> Any:
    """The JSON that it is, or else itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def without(value: Any, left_out: Sequence[str]) -> Any:
    """JSON without these fields, and without the hashes that follow from them."""
    if isinstance(value, dict):
        return {key: without(part, left_out) for key, part in value.items() if key not in left_out}
    if isinstance(value, str) and left_out:  # an event of a ledger's chain is a text of JSON
        inner = _parsed(value) if value.startswith("{") else value
        return HASH.sub("HASH", value) if isinstance(inner, str) else without(inner, left_out)
    return [without(part, left_out) for part in value] if isinstance(value, list) else value


def harvest(side: Side, left_out: Sequence[str]) -> dict[str, str]:
    """Digests by role of the files of a configuration, which lie in the present folder."""
    found: dict[str, str] = {}
    for path in sorted(path for path in Path().iterdir() if path.suffix in ENDINGS):
        name, content = path.name, path.read_bytes()
        if path.suffix == ".fmwem":
            parts = model_digests(side, path, left_out)
            found |= {f"{name} ({part})": value for part, value in parts.items()}
        elif path.suffix in (".json", ".stdout", ".stderr"):
            found |= text_digests(name, content, left_out)
        elif path.suffix == ".csv":
            found[name] = digest(content)
        else:  # with the record in them
            parquet = path.suffix == ".parquet"
            table = pa.parquet.read_table(path) if parquet else pa.feather.read_table(path)
            found[f"{name} (rows)"] = rows_digest(table)
            if parquet:
                pages = content[: -8 - int.from_bytes(content[-8:-4], "little")]  # all before the footer
                found[f"{name} (pages)"] = digest(pages)
            for key, text in (table.schema.metadata or {}).items():
                found |= text_digests(f"{name} ({key.decode()})", text, left_out)
    return found


def model_digests(side: Side, path: Path, left_out: Sequence[str]) -> dict[str, str]:
    """Of a model's arrays, of the fields of its header, and of 1,000 rows that are drawn from it."""
    arrays = safetensors.numpy.load(path.read_bytes())
    header = arrays.pop("header").tobytes()
    found = {name: digest(f"{array.dtype} ".encode() + array.tobytes()) for name, array in arrays.items()}
    found.pop("sha256")  # follows from the others
    rows = rows_digest(side.public.Release.load(path).sample(1000, seed=11))
    return {**found, **text_digests("header", header, left_out), "1,000 rows": rows}


# ---- The two sides


def run_case(side: Side, name: str, steps: Sequence[Step], left_out: Sequence[str]) -> dict[str, str]:
    """The digests of a configuration; `unexpected` where a step ended otherwise than it should."""
    FIXED.begin(name)
    outcomes, began = [], time.process_time()
    try:
        outcomes = [step.take(side, number) for number, step in enumerate(steps)]
        found = harvest(side, left_out)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what came of this configuration
        traceback.print_exc()
        found = {"error": f"{type(error).__name__}: {error}"}
    found["outcomes"] = ", ".join(outcomes)
    if outcomes != [step.wanted for step in steps]:
        found["unexpected"] = f"ended in {outcomes}, not {[step.wanted for step in steps]}"
    print(f"{time.process_time() - began:6.2f} s  {name}", file=sys.stderr)
    return found


def run_side(given: Sides) -> None:
    """Every configuration with this checkout's package; the digests go to `digests.json` in its folder."""
    fix_tokens()
    fix_package(given.checkout)
    side, found = Side.of(given.checkout, given.side), {}
    for name, steps in configurations(given.only):
        needed = set(re.findall(r"\.\./inputs/([\w.]+)", repr(steps)))
        write_inputs(given.side / "inputs", given.checkout, needed)
        folder = given.side / re.sub(r"\W+", "-", name)
        folder.mkdir()
        os.chdir(folder)
        found[name] = run_case(side, name, steps, (*LEFT_OUT, *given.leave_out))
    (given.side / "digests.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


def started(checkout: Path, work: Path, given: Sides) -> dict[str, dict[str, str]]:
    """What `run_side` finds, in a process of its own."""
    work.mkdir(parents=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FMWEM_")}
    fixed = {"PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"}
    fixed |= {"COLUMNS": "110", "NO_COLOR": "1", "TZ": "UTC"}
    line = [sys.executable, Path(__file__).parent, "same", "--side", work, "--checkout", checkout]
    line += ["--only", given.only, *(("--leave-out", *given.leave_out) if given.leave_out else ())]
    began = time.monotonic()
    subprocess.run(line, cwd=work, env={**kept, **fixed}, check=True)
    print(f"{time.monotonic() - began:.0f} s for {checkout}", file=sys.stderr)
    found: dict[str, dict[str, str]] = json.loads((work / "digests.json").read_text(encoding="utf-8"))
    return found


def verdict(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    differ = ", ".join(role for role in {**old, **new} if old.get(role) != new.get(role))
    odd = [side[key] for side in (old, new) for key in ("error", "unexpected") if key in side]
    return "; ".join([*([f"DIFFERENT: {differ}"] if differ else []), *dict.fromkeys(odd)]) or "same"


def compare(given: Sides, folder: Path) -> int:
    """Run both sides and say what differs."""
    (folder / "models").mkdir(parents=True)
    before = started(given.checkout.resolve(), folder / "old", given)
    after = started(Path(__file__).resolve().parents[2], folder / "new", given)
    verdicts = {name: verdict(before.get(name, {}), after.get(name, {})) for name in {**before, **after}}
    for name, words in verdicts.items():
        print(f"{name:42} {words}")
    bad = sum(words != "same" for words in verdicts.values())
    print(f"{len(verdicts)} configurations, {bad} differ")
    return int(bad > 0 or not verdicts)


@dataclass(frozen=True)
class Sides:
    """`side`: a folder, given by the program itself."""

    checkout: Path
    only: str = "*"
    leave_out: tuple[str, ...] = ()
    keep: Path | None = None
    side: Path | None = None


def main(arguments: Sequence[str]) -> int:
    given = parse(Sides, __doc__, "bench same", arguments)
    if given.side:
        run_side(given)
        return 0
    with contextlib.ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return compare(given, folder.resolve())
