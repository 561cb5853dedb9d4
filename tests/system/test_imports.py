"""What importing loads, and that every kernel is compiled once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.processes import PYTHON, printed
from support.sources import sources


@pytest.mark.parametrize(
    ("modules", "watched", "loaded"),
    [
        # what every command and every completion pays for
        ("factored_mwem", "pandas polars duckdb numba opendp pyarrow numpy rich", []),
        # a page of help is there at once
        ("factored_mwem.cli.main", "numba pyarrow opendp pandas rich narwhals jinja2 matplotlib", []),
        ("factored_mwem.pipeline.release, factored_mwem.cli.jobs", "pandas opendp numba", []),
        # its prelude imports what is installed of these, a second or more
        (
            "factored_mwem.accounting.conversion; factored_mwem.accounting.conversion.load_opendp()",
            "opendp opendp.extras sklearn pandas polars scipy.stats",
            ["opendp"],
        ),
    ],
    ids=["the package", "help", "a release", "the noise library"],
)
def test_importing_loads_nothing_heavy(modules: str, watched: str, loaded: list[str]) -> None:
    """In a fresh process."""
    code = f"import sys, {modules}; print(*[m for m in sys.argv[1:] if m in sys.modules])"
    assert printed(*PYTHON, code, *watched.split()).split() == loaded


SPARED = """
import sys
from factored_mwem.cli.sparing import spare_imports
spare_imports()
import numpy as np, pyarrow as pa
from numba.core.registry import cpu_target
cpu_target.target_context.refresh()  # as the first call of a kernel does
table = pa.table({"name": ["x", None], "day": pa.array([0, None], pa.date32()), "n": np.arange(2)})
print(*[name for name in ("pandas", "scipy.linalg") if name in sys.modules])
frame = table.to_pandas()
import scipy.linalg
print(isinstance(frame, sys.modules["pandas"].DataFrame), *(pa.array(frame[n]).type for n in ("day", "n")))
"""


def test_commands_spare_imports_that_only_look_for_a_library_until_it_is_wanted() -> None:
    """Half a command's time, where they are installed."""
    assert printed(*PYTHON, SPARED).splitlines() == ["", "True date32[day] int64"]


LOADED = """
import sys
from factored_mwem.cli.main import main
try:
    main()
finally:
    print(sum(name.split(".")[0] == "factored_mwem" for name in sys.modules))
"""


def test_a_release_loads_no_room_that_it_does_not_enter(tmp_path: Path) -> None:
    """Of packages, of people, of learning: each module costs a millisecond and more."""
    table, out = Path(__file__).parents[2] / "datasets/adult.csv", tmp_path / "out.parquet"
    asked = ("--marginals", "2", "--columns", "age,sex", "-o", str(out))
    loaded = printed(*PYTHON, LOADED, "release", str(table), *asked)
    assert int(loaded.split()[-1]) <= 150


ON_WINDOWS = """
import sys
for name in ("fcntl", "resource"):
    sys.modules[name] = None  # as there
from types import SimpleNamespace
from factored_mwem import errors
errors.sys = SimpleNamespace(platform="win32")
try:
    from factored_mwem import release
except errors.InputError as error:
    print(error)
sys.argv = ["fmwem", *sys.argv[1:]]
sys.stderr = sys.stdout
from factored_mwem.cli.main import main
try:
    main()
except SystemExit as end:
    print(end.code)
"""


def test_windows_is_refused_in_a_sentence_by_python_and_by_the_command() -> None:
    """What it lacks is taken away; its name is set for the check alone, for much else asks for it."""
    first, second, code = printed(*PYTHON, ON_WINDOWS, "release", "people.csv").splitlines()
    assert second == f"fmwem: {first}" and "WSL" in first and code == "2"


RUN = """
import numpy as np, pyarrow as pa
from factored_mwem import Workload, release
from factored_mwem.answers import bootstrap_fit as refit
from factored_mwem.kernels import copies, counting, dense, drawing, graph, joint, rows, scoring, tree
rng = np.random.default_rng(0)
binary = pa.table({f"b{i}": pa.array(rng.random(500) < 0.5) for i in range(16)})
a, b, c = rng.integers(0, 50, 500), rng.normal(size=500), rng.choice(["x", "y", "z"], 500)
mixed = pa.table({"a": a, "b": b, "c": c})
mwem = {"engine": "mwem"}
paper = {"neighbours": "replace", "initial": "histogram", **mwem}
for table, choices in ((binary, {}), (mixed, {}), (binary, mwem), (mixed, paper)):
    release(table, 2, epsilon=9.0, rounds=3, **choices).to_arrow()
release(mixed, 3, epsilon=9.0, rounds=3, initial="none", replay=False, **mwem).to_arrow()
release(mixed, 3, epsilon=9.0, time_budget=60.0).to_arrow()
swept = Workload.marginals(3) + Workload.label("b0")
made = release(binary, swept, epsilon=1000.0, max_cells=40)
assert made.model.corrections
made.to_arrow()
hub = rng.random(500) < 0.5
leaves = {f"leaf{i}": pa.array(hub ^ (rng.random(500) < 0.1)) for i in range(5)}  # cliques that meet in one
star = release(pa.table({"hub": pa.array(hub), **leaves}), 2, epsilon=1000.0, max_cells=20)
for steps, count in ((refit.COLD_STEPS, 2), (10**12, 3)):  # fits from single columns, and from the model
    refit.COLD_STEPS = steps
    assert made.answer("count by b1, b2, b3, b4", replicates=count).basis == "model"
    assert star.answer("count by leaf0, leaf1, leaf2, leaf3, leaf4", replicates=count).basis == "model"
everything = {}
for module in (copies, counting, dense, drawing, graph, joint, rows, scoring, tree):
    everything |= vars(module)
for name, kernel in everything.items():
    if hasattr(kernel, "signatures"):
        print(name, len(kernel.signatures))
"""


def test_every_kernel_has_one_compiled_signature_after_a_run() -> None:
    """A second signature means that a wrapper hands over other types: it is compiled again, on a user's
    time.
    """
    counts = {name: int(n) for name, n in (line.split() for line in printed(*PYTHON, RUN).splitlines())}
    called = {
        alias.name
        for module, text in sources().items()
        for node in ast.walk(ast.parse(text))
        if not module.startswith("kernels")
        and isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("factored_mwem.kernels.")
        for alias in node.names
    }
    assert {name: count for name, count in counts.items() if name in called} == dict.fromkeys(
        called & set(counts), 1
    )
    assert (
        max(counts.values()) == 1
    )  # kernels that only kernels call count as 0 when they came from the disk cache
    assert len(called & set(counts)) >= 14


COUNTING = """
import numpy as np
from factored_mwem.tables.backends.counting import count_all
from factored_mwem.kernels import counting
read_only = np.zeros(70, dtype=np.uint8)
read_only.flags.writeable = False
columns = [read_only, np.zeros(140, dtype=np.uint16)[::2]]
columns += [np.zeros(70, dtype=np.uint32), np.zeros(70, dtype=np.uint8)]
members = np.array([[0, -1], [1, -1], [2, -1], [3, -1], [0, 3], [1, 2]], dtype=np.int32)
count_all(columns, np.array([2, 300, 20, 5]), members, np.array([0, 2, 302, 322, 327, 337, 6337]))
count_all([c.copy() for c in columns[::3]], np.array([1, 2]), members[:1], np.array([0, 1]))
print(*(len(getattr(counting, name).signatures) for name in ("add_rows", "add_bits", "complete")))
"""


def test_every_kernel_of_counting_is_compiled_once() -> None:
    assert printed(*PYTHON, COUNTING).split() == ["1", "1", "1"]


REFINEMENT = """
import numpy as np
from factored_mwem.kernels import rows
from factored_mwem.model.refinement import Refinement, RefinementTarget, refine

rng = np.random.default_rng(0)
for dtype, sizes, level in ((np.int32, (3, 4), np.int32), (np.int64, (5,), np.int64)):
    codes = np.array([rng.integers(0, s, size=50) for s in sizes], dtype=dtype)
    groups = [[np.arange(s, dtype=level), np.minimum(np.arange(s, dtype=level), 1)] for s in sizes]
    even = np.full(np.prod(sizes), 50 / np.prod(sizes))
    target = RefinementTarget(tuple((a, 0) for a in range(len(sizes))), even)
    refine(codes, Refinement(groups, [target]), 100, rng)
print(*(len(kernel.signatures) for kernel in (rows.charge, rows.improve)))
"""


def test_every_kernel_of_refinement_has_one_signature() -> None:
    """Whatever whole numbers come in, the kernels see one dtype and layout: a second one would be compiled at
    a user's first run.
    """
    assert printed(*PYTHON, REFINEMENT).split() == ["1", "1"]
