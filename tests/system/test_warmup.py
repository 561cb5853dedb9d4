"""The first run compiles every kernel ahead, with the types that calls have: nothing twice or again."""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from support.processes import PYTHON, printed

from factored_mwem import kernels
from factored_mwem.kernels import warmup

RELEASE = """
import json, sys
import numpy as np, pyarrow as pa
import factored_mwem as fm
from factored_mwem import kernels
sizes = {"a": 40, "b": 9, "c": 2, "d": 30, "e": 5}
table = pa.table({name: np.arange(3000) * 7919 % 9973 % size for name, size in sizes.items()})
fm.release(table, 3, epsilon=1.0, domain=sizes).to_arrow()
found = {}
for kernel in kernels.ENTRIES:
    misses = sum(kernel.stats.cache_misses.values())
    found[kernel.py_func.__name__] = [list(kernel.signatures) == [kernel.argument_types], misses]
print(json.dumps([found, "numba.cpython.cmathimpl" in sys.modules]))
"""


def release(cache: Path) -> tuple[dict[str, list[int]], bool]:
    """Of each entry kernel: whether it has its one signature, and what was not found on disk. And whether
    numba filled its register of all that can be compiled.
    """
    said = printed(*PYTHON, RELEASE, env={"NUMBA_CACHE_DIR": str(cache)})
    found, register = json.loads(said.splitlines()[-1])
    return found, register


def test_the_second_run_finds_every_kernel_on_disk_with_the_types_it_calls(tmp_path: Path) -> None:
    (first, _), (second, register) = release(tmp_path), release(tmp_path)
    assert [name for name, (one, _) in first.items() if not one] == []
    assert sum(misses for _, misses in first.values()) < len(first)  # the other process compiled some of them
    assert [name for name, (_, misses) in second.items() if misses] == []
    assert not register  # it takes a quarter of a second


def test_every_entry_belongs_to_one_half_or_is_compiled_later() -> None:
    """And a release enters none of the latter: `factored_mwem.kernels.ENTRIES` above would show it."""
    for module in iter_modules(kernels.__path__):
        import_module(f"factored_mwem.kernels.{module.name}")
    modules = {kernel.py_func.__module__.rsplit(".", 1)[1] for kernel in kernels.ENTRIES}
    assert sorted(modules) == sorted([*warmup.HALVES[0], *warmup.HALVES[1], *warmup.LATER])


def test_where_no_process_can_start_the_kernels_still_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may refuse a fork, and sys.executable may name nothing."""
    monkeypatch.setattr(sys, "executable", "/nonexistent/bin/python3")
    assert warmup._other_process() is None
    compiled: list[object] = []
    monkeypatch.setattr(warmup, "is_cold", lambda: True)
    monkeypatch.setattr(warmup, "compile_all", compiled.append)
    warmup.warm_up.__wrapped__()
    assert compiled == [warmup.HALVES[0]]


def test_looking_whether_kernels_are_there_compiles_nothing(tmp_path: Path) -> None:
    """A first run that fails before it compiles must not be taken for one that has compiled."""
    code = "from factored_mwem.kernels import warmup; print(warmup.is_cold())"
    env = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert [printed(*PYTHON, code, env=env).strip() for _ in range(2)] == ["True", "True"]
    assert not list(tmp_path.rglob("*.nb*"))
    assert printed(*PYTHON, code, env={**env, "NUMBA_DISABLE_JIT": "1"}).strip() == "False"


KERNEL = """
from beside import first
from factored_mwem.kernels import F8, entry

@entry
def joint_marginals(cells: F8) -> float:
    return first(cells)
"""
BESIDE = """
from factored_mwem.kernels import part

@part
def first(cells):
    return cells[0]
"""
ASKED = """
import sys
from factored_mwem.kernels import ENTRIES, warmup
sys.path.insert(0, sys.argv[1])
import installed
warmup.joint_marginals = installed.joint_marginals
kernel = ENTRIES[-1]
said = warmup.is_cold()
kernel.compile(kernel.argument_types)
print(said, sum(kernel.stats.cache_misses.values()) > 0)
"""


def asked(folder: Path, cache: Path) -> tuple[bool, bool]:
    """(what a process says that finds the kernel of `folder`, whether numba then compiles it)."""
    said, compiles = printed(*PYTHON, ASKED, folder, env={"NUMBA_CACHE_DIR": str(cache)}).split()
    return said == "True", compiles == "True"


COLD_ONCE = [(True, True), (False, False)]
"""What two processes say, one after the other."""


def install(folder: Path, when: float, **changes: str) -> None:
    """The kernel, and a part of it in another file."""
    folder.mkdir(exist_ok=True)
    for name, text in {"installed": KERNEL, "beside": BESIDE, **changes}.items():
        (folder / f"{name}.py").write_text(text)
        os.utime(folder / f"{name}.py", (when, when))


@pytest.mark.parametrize(("hours", "changed"), [(-5, "beside"), (0, "installed"), (5, "beside")])
def test_after_a_reinstallation_the_first_run_at_most_is_cold(
    tmp_path: Path, hours: int, changed: str
) -> None:
    """Whatever time the new file bears, also a later one than all that is cached ever will. A change of a
    part counts, of which numba alone would not know: seen to fail without the sources in the key.
    """
    now = time.time()
    install(tmp_path / "a", now)
    assert [asked(tmp_path / "a", tmp_path) for _ in range(2)] == COLD_ONCE
    install(tmp_path / "a", now + 3600 * hours)
    said, compiles = asked(tmp_path / "a", tmp_path)
    assert said == compiles  # numbas differ in what they take for another source
    assert asked(tmp_path / "a", tmp_path) == (False, False)
    text = {"installed": KERNEL, "beside": BESIDE}[changed]
    install(tmp_path / "a", now + 3600 * hours, **{changed: f"{text}# changed"})
    assert [asked(tmp_path / "a", tmp_path) for _ in range(2)] == COLD_ONCE


def test_a_shared_cache_folder_does_not_pass_for_ones_own(tmp_path: Path) -> None:
    """Another installation's kernels, those of another Python, and an index whose data are gone."""
    for name in ("a", "b"):
        install(tmp_path / name, time.time())
        assert [asked(tmp_path / name, tmp_path / "cache") for _ in range(2)] == COLD_ONCE
    assert asked(tmp_path / "a", tmp_path / "cache") == (False, False)
    for index in (tmp_path / "cache").rglob("*.nbi"):
        index.rename(index.with_name(index.name.replace(".py3", ".py2")))
    assert [asked(tmp_path / "a", tmp_path / "cache") for _ in range(2)] == COLD_ONCE
    for data in (tmp_path / "cache").rglob("*.nbc"):
        data.unlink()
    assert [asked(tmp_path / "a", tmp_path / "cache") for _ in range(2)] == COLD_ONCE
