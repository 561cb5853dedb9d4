"""The first run compiles every kernel ahead, with the types that calls have: nothing is compiled twice, nothing again in the next run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from factored_mwem import kernels, warmup

RELEASE = """
import json
import numpy as np, pyarrow as pa
import factored_mwem as fm
from factored_mwem import kernels
sizes = {"a": 40, "b": 9, "c": 2, "d": 30, "e": 5}
table = pa.table({name: np.arange(3000) * 7919 % 9973 % size for name, size in sizes.items()})
fm.release(table, 3, epsilon=1.0, domain=sizes).to_arrow()
print(json.dumps({k.py_func.__name__: [list(k.signatures) == [types], sum(k.stats.cache_misses.values())] for k, types in kernels.ENTRIES}))
"""


def release(cache: Path) -> dict[str, list[int]]:
    """Of each entry kernel: whether it has the one signature it says it has, and what was not found on disk."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", RELEASE], env=env, check=True, capture_output=True, text=True)
    found: dict[str, list[int]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_second_run_finds_every_kernel_on_disk_with_the_types_it_calls(tmp_path: Path) -> None:
    first, second = release(tmp_path), release(tmp_path)
    assert [name for name, (one, _) in first.items() if not one] == []
    assert sum(misses for _, misses in first.values()) < len(first)  # the other process compiled some of them
    assert [name for name, (_, misses) in second.items() if misses] == []


def test_every_entry_belongs_to_one_half() -> None:
    for module in (module for half in warmup.HALVES for module in half):
        import_module(f"factored_mwem.kernels.{module}")
    modules = [kernel.py_func.__module__.rsplit(".", 1)[1] for kernel, _ in kernels.ENTRIES]
    assert sorted(set(modules)) == sorted(module for half in warmup.HALVES for module in half)
