"""Hostile files of every kind: a parser returns or refuses in one line, soon, in little memory, before
anything is spent; and runs no code of theirs.

Hypothesis drives the same targets as scripts/fuzz, which runs them in bulk; FMWEM_FUZZ=20 means twenty
times as many examples here. Below stand files of the kinds that once did harm.
"""

from __future__ import annotations

import json
import os
import random
import struct
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
from fuzz import command, tables
from fuzz.targets import TARGETS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.model_files import Parts, listed, parts_of, write

from factored_mwem import Domain, Policy, Release, Workload, release
from factored_mwem.cli.settings import ReleaseSettings, read_config
from factored_mwem.errors import FmwemError, InputError
from factored_mwem.files.files import MAX_TEXT_BYTES
from factored_mwem.tables.inputs import source as table
from factored_mwem.tables.inputs.source import open_table

# taken away at once: the command line refuses variables that it does not know
TIMES = int(os.environ.pop("FMWEM_FUZZ", "1"))
EXAMPLES = {"release": 20, "gzip": 60, "csv": 80, "parquet": 60, "feather": 120}
"""Of the slower targets; 250 of the others."""


@cache
def corpus(name: str) -> tuple[bytes, ...]:
    with tempfile.TemporaryDirectory() as folder:
        return tuple(TARGETS[name].corpus(Path(folder)))


def measured(act: Callable[[], Any], *, seconds: float = command.SECONDS, memory: int = command.MORE) -> Any:
    """What `act` gives; AssertionError where it takes longer, or more memory. Seconds are those of the
    processor: a busy machine is no slow parser.
    """
    command.reset_peak()
    before, start = command.memory("VmRSS"), time.process_time()
    try:
        return act()
    finally:
        took, more = time.process_time() - start, command.memory("VmHWM") - before
        assert took < seconds, f"{took:.0f} s"
        assert more < memory, f"{more >> 20} MB"


def well(name: str, data: bytes, folder: Path) -> bool:
    """Whether a target takes a file; AssertionError where it is not well."""
    path = folder / f"case{TARGETS[name].suffix}"
    path.write_bytes(data)
    return measured(lambda: TARGETS[name].run(path))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_files_are_refused_in_one_line(name: str, folder: Path) -> None:
    most, unchecked = EXAMPLES.get(name, 250) * TIMES, list(HealthCheck)

    @settings(
        max_examples=most, derandomize=True, database=None, deadline=None, suppress_health_check=unchecked
    )
    @given(st.randoms(use_true_random=False))
    def check(chance: random.Random) -> None:
        well(name, TARGETS[name].make(chance, corpus(name)), folder)

    check()


@pytest.mark.parametrize("name", TARGETS)
def test_a_valid_file_is_taken(name: str, folder: Path) -> None:
    """Else the test above would hold for a parser that refuses everything."""
    assert well(name, corpus(name)[0], folder) or well(name, corpus(name)[-1], folder)


def _refusing(message: str, *, spent: bool = False) -> Callable[..., Any]:
    def act(*_: Any, **__: Any) -> Any:
        error = InputError(message)
        error.budget_spent = spent
        raise error

    return act


def _breaking(*_: Any, **__: Any) -> Any:
    raise ValueError("unexpected")


PLANTED: dict[str, tuple[str, Any, str, Any]] = {
    "unexpected": ("domain", Domain, "from_dict", _breaking),
    "not one printable line": ("csv", table, "_open_path", _refusing("two\nlines")),
    "spent, then refused": ("release", tables, "release", _refusing("refused", spent=True)),
    "refused too late": ("csv", tables, "decode", _refusing("refused")),
}


@pytest.mark.parametrize("what", PLANTED)
def test_the_check_sees_what_is_not_well(what: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: another exception, a message of two lines, a refusal after the budget is spent, one of what
    was taken before.
    """
    name, where, attribute, act = PLANTED[what]
    data = corpus(name)[0]
    monkeypatch.setattr(where, attribute, act)
    with pytest.raises((AssertionError, ValueError), match=what):
        well(name, data, folder)


def test_the_check_sees_time_and_memory() -> None:
    with pytest.raises(AssertionError, match="MB"):
        measured(lambda: np.ones(2**24), memory=2**26)
    with pytest.raises(AssertionError, match=r"\d s"):
        measured(lambda: sum(range(10**6)), seconds=0.001)


# ---- models from strangers


def taken_apart(made: Release) -> Parts:
    """Header and arrays of a release's model file."""
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "m")
        return parts_of(Path(folder) / "m")


@cache
def chained() -> Parts:
    """A model with trees of several cliques, and levels."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 80, 4000)
    columns = {"a": a, "b": (a + rng.integers(0, 4, 4000)) % 30, "c": a // 27, "d": rng.integers(0, 2, 4000)}
    policy = Policy.of(epsilon=200.0, max_cells=900, rounds=8)
    header, arrays = taken_apart(
        release(pa.table(columns), 2, policy, domain={"a": 80, "b": 30, "c": 3, "d": 2}, sample_seed=1)
    )
    assert header["levels"].count(0) > 1 and any(tree["edges"] for tree in header["trees"])
    return header, arrays


def parts() -> Parts:
    header, arrays = chained()
    return json.loads(json.dumps(header)), {name: array.copy() for name, array in arrays.items()}


def tree(header: dict[str, Any]) -> dict[str, Any]:
    """The first tree with an edge."""
    return next(t for t in header["trees"] if t["edges"])


def level(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The first coarser level."""
    return arrays[f"level_{len(header['domain']['fields'])}"]


def second(header: dict[str, Any]) -> str:
    """The second coarser level of an attribute that has two."""
    fields, levels = len(header["domain"]["fields"]), header["levels"]
    return f"level_{fields + next(i for i in range(1, len(levels)) if levels[i] == levels[i - 1])}"


def coarsened(header: dict[str, Any]) -> None:
    """The first level takes the place of its attribute's own variable everywhere."""
    for clique in [clique for t in header["trees"] for clique in t["cliques"]]:
        clique[:] = [len(header["domain"]["fields"]) if v == header["levels"][0] else v for v in clique]


def renamed(arrays: dict[str, Any], field: pa.Field) -> None:
    """The file's schema with another first column."""
    schema = pa.ipc.read_schema(pa.py_buffer(arrays["schema"].tobytes()))
    arrays["schema"] = np.frombuffer(schema.set(0, field).serialize().to_pybytes(), dtype=np.uint8)


def edit_manifest(**facts: Any) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
    return lambda h, a: h["manifest"].update(facts)


def edit_charge(**facts: Any) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
    return lambda h, a: h["manifest"]["ledger"][0].update(facts)


HARM: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "10^12 bins": lambda h, a: h.update(domain={"a": 10**12, "b": 30, "c": 3, "d": 2}),
    "10^7 bins, many times": lambda h, a: h.update(domain={f"a{i}": 10**7 for i in range(1000)}),
    "a clique of nothing": lambda h, a: tree(h)["cliques"].__setitem__(-1, []),
    "a variable twice": lambda h, a: tree(h)["cliques"][0].append(tree(h)["cliques"][0][-1]),
    "a clique upside down": lambda h, a: tree(h)["cliques"][0].reverse(),
    "a separator of nothing": lambda h, a: tree(h)["edges"][0].__setitem__(2, []),
    "a separator many times": lambda h, a: tree(h)["edges"][0].__setitem__(2, tree(h)["edges"][0][2] * 64),
    "cliques without end": lambda h, a: tree(h).update(
        cliques=[[3]] * 10**5, edges=[[i, 0, [3]] for i in range(1, 10**5)]
    ),
    "no finest variable": lambda h, a: coarsened(h),
    "levels out of order": lambda h, a: (
        h["levels"].reverse() if h["levels"][0] != h["levels"][-1] else h["levels"].append(-1)
    ),
    "a level of no attribute": lambda h, a: h["levels"].__setitem__(0, -1),
    "a level with a gap": lambda h, a: level(h, a).__setitem__(
        level(h, a) == level(h, a).max(), level(h, a).max() + 1
    ),
    "a level across another": lambda h, a: a.update({second(h): np.roll(a[second(h)], 1)}),
    "a measurement too short": lambda h, a: a.update(noisy_1=a["noisy_1"][:-1]),
    "a measurement of many variables": lambda h, a: h["measurements"][0].update(positions=[3] * 10**5),
    "noise that is not whole": lambda h, a: a.update(noisy_0=a["noisy_0"] + 0.5),
    "half a number each": lambda h, a: a.update(noisy_0=a["noisy_0"].astype(np.int32)),
    "a share of nan": lambda h, a: a["beliefs_0"].__setitem__(0, np.nan),
    "a share without bound": lambda h, a: a["beliefs_0"].__setitem__(0, np.inf),
    "a share below nothing": lambda h, a: a["beliefs_0"].__setitem__(0, -0.5),
    "no noise": lambda h, a: h["measurements"][0].update(scale=0),
    "a column of another name": lambda h, a: renamed(a, pa.field("z", pa.int64())),
    "a column of lists": lambda h, a: renamed(a, pa.field("a", pa.list_(pa.int64()))),
    "a column too narrow": lambda h, a: renamed(a, pa.field("a", pa.bool_())),
    "a time zone that is a path": lambda h, a: renamed(
        a, pa.field("a", pa.timestamp("us", "../../../../etc/passwd"))
    ),
    "no engine": edit_manifest(policy={}),
    "another engine": edit_manifest(policy={"engine": "x", "max_memory": None}),
    "less than no memory": edit_manifest(policy={"engine": "tree", "max_memory": -1}),
    "a workload that does not fit": edit_manifest(workload={"marginals": [5]}),
    "a workload without end": edit_manifest(workload={"marginals": [10**400]}),
    "a workload of strangers": edit_manifest(workload={"cliques": [["z"]]}),
    "a marginal of everything": edit_manifest(workload={"cliques": [["a"] * 10**5]}),
    "half a character": edit_manifest(warnings=["\ud800"]),
    "a delta that takes all memory": edit_charge(delta="1e999999999"),
    "a delta through nought": edit_charge(delta="1/0"),
    "deltas whose sum grows without end": edit_charge(delta="1/" + "9" * 300),
    "neighbours that steer a terminal": lambda header, _: header["manifest"]["guarantee"].update(
        neighbours="x\x1b]0;owned\x07"
    ),
    "all of delta": edit_charge(delta="1"),
    "a price of nan": edit_charge(scale=float("nan")),
    "a price without bound": edit_charge(scale=0.0),
    "rows without end": lambda h, a: h.update(rows=10**400),
    "no rows in all": lambda h, a: h.update(total=float("nan")),
}


LISTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "10^12 numbers declared": lambda e: e["noisy_0"].update(shape=[10**12]),
    "a terabyte declared": lambda e: e["noisy_0"].update(shape=[10**12 // 8], data_offsets=[0, 10**12]),
    "more numbers than 64 bits count": lambda e: e["noisy_0"].update(shape=[2**63, 2**63]),
    "numbers below nothing": lambda e: e["noisy_0"].update(shape=[-1]),
    "objects": lambda e: e["noisy_0"].update(dtype="O"),
    "an array of two dimensions": lambda e: e["noisy_0"].update(shape=[*e["noisy_0"]["shape"], 1]),
    "numbers of another width": lambda e: e["noisy_0"].update(dtype="F32"),
    "an array in the place of another": lambda e: e["noisy_0"].update(e["noisy_1"]),
    "an array before the first": lambda e: e["noisy_0"].update(data_offsets=[-8, 0]),
    "an array nobody lists": lambda e: e.pop("noisy_0") and None,
    "no list": lambda e: [],
    "a number for a list": lambda e: 7,
    "a list without end": lambda e: {**e, **{f"{i:0200}": e["header"] for i in range(20_000)}},
    "a list of nothing without end": lambda e: {
        **e, **{f"{i:060}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(30_000)}
    },
    "a shape without end": lambda e: e["noisy_0"].update(shape=[1] * 10**6),
    "shapes of shapes": lambda e: e["noisy_0"].update(shape=[[[[[1]]]]]),
}  # fmt: skip
"""Of what a file declares of its arrays."""


def refused_at_once(path: Path, *, memory: int) -> None:
    with pytest.raises(FmwemError) as refused:
        measured(lambda: Release.load(path), seconds=5, memory=memory)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("kind", HARM)
def test_a_model_that_would_do_harm_is_refused(kind: str, tmp_path: Path) -> None:
    """Before any memory is taken for what it declares, and before a row is drawn."""
    header, arrays = parts()
    HARM[kind](header, arrays)
    refused_at_once(write(tmp_path / "m", header, arrays), memory=2**29)


@pytest.mark.parametrize("kind", LISTS)
def test_a_model_whose_list_lies_is_refused(kind: str, tmp_path: Path) -> None:
    """Nothing of the size that it declares is made."""
    path = write(tmp_path / "m", *parts())
    path.write_bytes(listed(path.read_bytes(), LISTS[kind]))
    refused_at_once(path, memory=2**26)


def test_a_header_nested_deep_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "m", np.frombuffer(b"[" * 10**6, dtype=np.uint8), parts()[1])
    refused_at_once(path, memory=2**29)


def test_a_file_larger_than_a_model_may_be_is_not_read(tmp_path: Path) -> None:
    """Nor a list of its arrays, nor a header, that is too long; a file with holes takes no disk."""
    header, arrays = parts()
    path, words = write(tmp_path / "m", header, arrays), "MB of arrays, more than a model of up to 1,074 MB"
    os.truncate(path, 2**40)
    with pytest.raises(FmwemError, match=f"declares 1,099,512 {words}"):
        measured(lambda: Release.load(path), seconds=5, memory=2**26)
    with open(write(path, header, arrays), "r+b") as file:
        file.write((2**29).to_bytes(8, "little"))
        file.truncate(2**30)
    with pytest.raises(InputError, match="damaged"):
        measured(lambda: Release.load(path), seconds=5, memory=2**26)
    with pytest.raises(FmwemError, match="MB of arrays, more than"):
        Release.load(write(path, np.full(2**25 + 1, 32, dtype=np.uint8), arrays))


def test_the_model_itself_is_taken(tmp_path: Path) -> None:
    """Else the test above would hold for nothing; and what a schema says beside its types is left out."""
    header, arrays = parts()
    schema = pa.ipc.read_schema(pa.py_buffer(arrays["schema"].tobytes()))
    text = schema.with_metadata({b"pandas": b"{", b"x": b"y"}).serialize().to_pybytes()
    arrays["schema"] = np.frombuffer(text, dtype=np.uint8)
    made = Release.load(write(tmp_path / "m", header, arrays))
    assert not made.schema.metadata and made.to_pandas().shape == (made.rows, 4)


NAMES = [f"c{i}" for i in range(100)]
ENDLESS: dict[str, dict[str, Any]] = {
    "30 of 100": {"marginals": [30]},
    "5 of 100": {"marginals": [5]},
    "twenty names": {"cliques": [NAMES[i : i + 20] for i in range(20)]},
    "two of twenty names": {"cliques": [NAMES[:20], NAMES[20:40]]},
    "a cube of 64": {"cubes": [{"attributes": NAMES[:64]}]},
    "parities of 20": {"parities": [{"order": 20}]},
}


@cache
def wide() -> Parts:
    """A model of a hundred columns, and forty of its marginals measured."""
    bits = np.random.default_rng(2).integers(0, 2, (60, 100))
    columns = dict(zip(NAMES, bits.T, strict=True))
    return taken_apart(release(pa.table(columns), 1, domain=dict.fromkeys(NAMES, 2)))


def asking(path: Path, workload: dict[str, Any]) -> Path:
    """That model, whose manifest names another workload."""
    header, arrays = wide()
    return write(path, {**header, "manifest": {**header["manifest"], "workload": workload}}, arrays)


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_workload_inside_a_model_cannot_explode_when_rows_are_drawn(kind: str, tmp_path: Path) -> None:
    """Rows are refined towards the marginals that the manifest names: they are counted before they are
    listed.
    """
    path = asking(tmp_path / "m", ENDLESS[kind])
    with pytest.raises(FmwemError, match="candidate marginals"):
        measured(lambda: Release.load(path), seconds=5, memory=2**26)


@pytest.mark.parametrize("workload", [{"marginals": [4]}, {"cliques": [NAMES[:16]]}], ids=str)
def test_a_large_workload_inside_a_model_is_drawn_in_bounds(workload: dict[str, Any], tmp_path: Path) -> None:
    """Just below the limits: four million marginals, and a marginal of sixteen names with all inside it."""
    made = Release.load(asking(tmp_path / "m", workload))
    assert measured(lambda: made.sample(30).num_rows) == 30


# ---- tables


def feather(folder: Path, column: pa.Array) -> Path:
    pf.write_feather(pa.table({"a": column}), folder / "t.feather", compression="uncompressed")
    return folder / "t.feather"


def refusal(source: Any, words: str, *, field: dict[str, Any] | None = None) -> None:
    """A release is refused in these words, and nothing is spent."""
    domain = {"fields": [field or {"name": "a", "categories": ["x"]}]}
    with pytest.raises(FmwemError, match=words) as refused:
        measured(lambda: release(source, 1, domain=domain), seconds=5, memory=2**29)
    assert not refused.value.budget_spent and str(refused.value).isprintable()


@pytest.mark.parametrize("offsets", [(0, 3, 10**9), (0, -5, 9), (0, 10**6, 9)], ids=str)
def test_offsets_that_point_outside_an_arrow_file_are_not_followed(
    offsets: tuple[int, ...], tmp_path: Path
) -> None:
    """Seen to end in a segmentation fault, or in the reading of memory that is not the file's."""
    path, honest = feather(tmp_path, pa.array(["xyz", "xyzxyz"])), struct.pack("<3i", 0, 3, 9)
    data = path.read_bytes()
    assert data.count(honest) == 1
    path.write_bytes(data.replace(honest, struct.pack("<3i", *offsets)))
    refusal(path, "the file is damaged")


def test_text_that_is_none_is_null_in_every_format(tmp_path: Path) -> None:
    """One person's name must not decide whether there is a release."""
    column = pa.array([b"x", b"\xff\xfe", b"ab\xc3"], pa.binary()).view(pa.string())
    typed = pa.table({"a": column})
    pq.write_table(typed, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_bytes(b"a\nx\n\xff\xfe\nab\xc3\n")
    for source in (feather(tmp_path, column), tmp_path / "t.parquet", tmp_path / "t.csv", typed):
        batches = open_table(source).batches(["a"])
        assert [value for batch in batches for value in batch.column(0).to_pylist()] == ["x", None, None]


MOMENT = {"type": "datetime", "constraints": {"minimum": "2020-01-01", "maximum": "2021-01-01"}}
UNWRITABLE = [
    (pa.decimal128(5, -2), {"type": "number", "constraints": {"minimum": 0, "maximum": 10**6}},
     "which Parquet cannot hold"),
    (pa.timestamp("us", "Mars/Phobos"), MOMENT, "time zone that is not known"),
    (pa.struct([("a\nb", pa.int8())]), {"categories": ["x"]}, r"struct<a\\nb: int8>"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "field", "words"), UNWRITABLE, ids=range(3))
def test_types_that_cannot_be_written_are_refused_before_anything_is_spent(
    kind: pa.DataType, field: dict[str, Any], words: str, tmp_path: Path
) -> None:
    refusal(feather(tmp_path, pa.nulls(3, kind)), words, field={"name": "a", **field})


def test_many_columns_are_looked_at_in_time(tmp_path: Path) -> None:
    """A hundred thousand of one name once took the square of that; a learnt domain takes memory for each
    column, whatever is in it.
    """
    (tmp_path / "t.csv").write_text(",".join(["a"] * 100_000) + "\n")
    with pytest.raises(InputError, match="have the same name"):
        measured(lambda: open_table(tmp_path / "t.csv"), seconds=5)
    names = ",".join(f"c{i}" for i in range(20_000))
    (tmp_path / "u.csv").write_text(f"{names}\n" + ",".join(["1"] * 20_000) + "\n")
    with pytest.raises(FmwemError, match=r"up to 16,384 columns, not 20,000") as refused:
        measured(lambda: release(tmp_path / "u.csv", 1), seconds=9, memory=2**29)
    assert not refused.value.budget_spent


# ---- domains, workloads, settings

FIELD = b'{"fields": [{"name": "a", %b}]}'
SAME = json.dumps({"fields": [{"name": "a", "categories": ["x"]}] * 50_000}).encode()
WIDE = json.dumps({f"a{i}": 10**7 for i in range(10_000)}).encode()
TEXTS: list[tuple[str, Callable[[Path], Any], bytes, str]] = [
    ("d.json", Domain.load, b"[" * 10**6, "is not JSON"),
    ("d.json", Domain.load, b" " * (MAX_TEXT_BYTES + 1), "is larger than 32 MB"),
    ("d.json", Domain.load, b'{"a": 1000000000000}', "less than or equal to 10000000"),
    ("d.json", Domain.load, WIDE, "more than 16,777,216; use fewer bins"),
    ("d.json", Domain.load, b'{"": 5}', "at least 1 character"),
    ("d.json", Domain.load, FIELD % b'"categories": ["x"], "b\\nc": 1', "'b.nc': Extra inputs"),
    ("d.json", Domain.load, FIELD % b'"categories": ["\\ud800"]', "half of a surrogate pair"),
    ("d.json", Domain.load, FIELD % b'"categories": ["x"], "title": "\\udfff"', "half of a surrogate pair"),
    ("d.json", Domain.load, FIELD % b'"type": "integer", "categories": [1, 9223372036854775808]',
     "too large a number"),
    ("d.json", Domain.load, FIELD % b'"type": "number", "categories": [9007199254740993]',
     "no floating-point number"),
    ("d.json", Domain.load, SAME, "names 'a' twice"),
    ("w.toml", Workload.load, b"a." * 16_000 + b"a = 1", "a key of more than 64 parts"),
    ("w.toml", Workload.load, b"[" + b"a." * 16_000 + b"a]", "a key of more than 64 parts"),
    ("w.toml", Workload.load, b"x = " + b"[" * 10**5, "not a workload file"),
    ("w.toml", Workload.load, b"#" * (2**20 + 1), "larger than 1 MB"),
    ("w.json", Workload.load, b'{"a\\nb": 1}', "'a.nb': Extra inputs"),
    ("w.json", Workload.load, b"{" + b'"a":[' * 10**5, "not a workload file"),
    ("c.toml", read_config, b"x = {" + b"a." * 16_000 + b"a = 1}", "a key of more than 64 parts"),
    ("c.toml", read_config, b"x = " + b"{a=" * 10**5, "is not TOML"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "read", "content", "words"), TEXTS, ids=range(len(TEXTS)))
def test_a_text_that_would_do_harm_is_refused(
    name: str, read: Callable[[Path], Any], content: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FmwemError, match=words) as refused:
        measured(lambda: read(tmp_path / name), seconds=5, memory=2**29)
    assert str(refused.value).isprintable()


SENSELESS = [
    ("cube", ",".join(f"a{i}" for i in range(65))),
    ("ranges", "a,b,c,d,e,f,g:10"),
    ("cube", "a,b:" + "9" * 5000),
    ("ranges", "a:" + "9" * 5000),
    *((o, text) for o in ("cube", "ranges") for text in ("a\nb:x", "\x1b[31m:x", "a\u2028,b@x", "\udcff:x")),
]


@pytest.mark.parametrize(("option", "text"), SENSELESS, ids=range(len(SENSELESS)))
def test_a_request_that_makes_no_sense_is_refused(option: str, text: str) -> None:
    with pytest.raises(InputError) as refused:
        ReleaseSettings.of({option: [text]}).workload_of(None)
    assert str(refused.value).isprintable()


def test_a_dotted_value_is_no_deep_key(tmp_path: Path) -> None:
    """What the limit on keys must let through: many values with dots, and a long number."""
    cliques = ", ".join(f'["a.{i}", "b.c.d"]' for i in range(500))
    (tmp_path / "w.toml").write_text(f"marginals = 1\ncliques = [{cliques}]\n")
    assert len(Workload.load(tmp_path / "w.toml").named) == 500


def test_the_largest_domains_are_read_in_bounds(tmp_path: Path) -> None:
    """Just below the limits: a million categories, ten million bins."""
    field = {"name": "a", "categories": [f"v{i}" for i in range(10**6)]}
    (tmp_path / "d.json").write_text(json.dumps({"fields": [field]}))
    assert measured(lambda: Domain.load(tmp_path / "d.json")).shape == (10**6 + 1,)
    assert measured(lambda: Domain.from_dict({"a": 10**7, "b": 6 * 10**6})).shape == (10**7, 6 * 10**6)
