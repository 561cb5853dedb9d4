"""Warm-up: the first run after an installation compiles a release's kernels, in two processes at once."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from factored_mwem import kernels
from factored_mwem.kernels.joint import joint_marginals

HALVES = (("counting", "dense", "drawing", "scoring", "text", "tree"), ("rows", "graph", "joint"))
"""The modules of a release's kernels, in halves that take about as long to compile; the second goes to the
other process.
"""
LATER = ("evidence",)
"""The module of rows that complete known ones, as people's do: compiled when it is called."""
HELPER = (
    "import sys; sys.path[:] = sys.argv[1:]; from factored_mwem.kernels import warmup; "
    "warmup.compile_all(warmup.HALVES[1])"
)
"""The program of the other process: isolated from the folder it starts in, with our module path."""


def is_cold() -> bool:
    """Whether kernels can be kept on disk but are not there yet: asked of the one that the other process
    compiles last, without compiling it.

    numba's own index decides, which knows the source, the types, the processor and numba's version: a file's
    time alone says nothing after a reinstallation.
    """
    kernel = joint_marginals
    try:
        cache = kernel._cache
        if cache.cache_path is None:  # nowhere to keep them
            return False
        key = cache._index_key(kernel.argument_types, kernel.targetctx.codegen())
        data = cache._cache_file._load_index().get(key)
        return data is None or not Path(cache.cache_path, data).is_file()
    except AttributeError:  # compilation is switched off, or another numba: they are compiled when called
        return False


@functools.cache
def warm_up() -> None:
    """Compile, once in a process, what the cache on disk lacks."""
    if not is_cold():
        return
    other = _other_process()
    try:
        compile_all(HALVES[0])
        if other:
            other.wait()
    finally:
        if other:
            other.kill()
            other.wait()


def compile_all(modules: Iterable[str]) -> None:
    """Compile every entry kernel of these modules, or load it from the cache."""
    collecting = gc.isenabled()
    # compilation makes millions of small objects that live on: looking through them takes a tenth of its time
    gc.disable()
    try:
        for name in (f"factored_mwem.kernels.{module}" for module in modules):
            import_module(name)
            for kernel in kernels.ENTRIES:
                if kernel.py_func.__module__ == name:
                    kernel.compile(kernel.argument_types)
    finally:
        if collecting:
            gc.enable()


def _other_process() -> subprocess.Popen[bytes] | None:
    """A process that compiles the second half; without it those kernels are compiled when first called."""
    if not Path(sys.executable or "").name.startswith("python") or (os.cpu_count() or 1) < 2:
        return None
    quiet = subprocess.DEVNULL
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-c", HELPER, *sys.path], stdin=quiet, stdout=quiet, stderr=quiet
        )
    except OSError:
        return None
