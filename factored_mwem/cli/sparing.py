"""Sparing: imports by which a library only finds out whether another one is there, answered with no.

Each takes longer than a small command's own work.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder


def spare_imports() -> None:
    """Called by every command that works on data, before it does: the process is ours alone.

    pyarrow imports pandas at its first array, to recognise pandas' own objects. The commands hand it none but
    those that it made itself, by `to_pandas`: that imports pandas, which is recognised from there on.

    numba imports SciPy's linear algebra for products of matrices, of which no kernel has any. Whoever else
    wants it gets it.
    """
    import pyarrow as pa

    pandas = _NotFor("pyarrow", "pandas")
    sys.meta_path.insert(0, pandas)
    try:
        pa.array([0])  # asked twice: by its Python, and by its C++ about the value
    finally:
        sys.meta_path.remove(pandas)
    sys.meta_path.insert(0, _NotFor("numba.np.linalg", "scipy.linalg"))


class _NotFor(MetaPathFinder):
    """Tells the module `asking` that `wanted` is not installed."""

    def __init__(self, asking: str, wanted: str) -> None:
        self.asking, self.wanted = asking, wanted

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        if fullname == self.wanted:
            frame = sys._getframe(1)
            while frame.f_back and "importlib" in frame.f_code.co_filename:
                frame = frame.f_back
            # compiled code, as pyarrow's, has no frame: the caller's stands there
            if frame.f_globals.get("__name__") in (self.asking, __name__):
                raise ModuleNotFoundError(name=fullname)
