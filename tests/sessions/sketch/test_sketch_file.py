"""The sketch file: what was written comes back, and what a stranger wrote into one is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import safetensors.numpy

from factored_mwem.errors import InputError
from factored_mwem.pipeline.saving.model_file import packed
from factored_mwem.sessions.sketch import Sketch, sketch

TABLE = pa.table({"k": ["a", "b", "b", "\u00fc\n\x1b[31m"]})


@pytest.fixture(scope="module")
def made() -> Sketch:
    return sketch(TABLE, "k", size=32)


def parts(made: Sketch, path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    made.save(path, overwrite=True)
    arrays = safetensors.numpy.load(path.read_bytes())
    header = json.loads(arrays.pop("header").tobytes())
    del arrays["sha256"]
    return header, arrays


@pytest.mark.parametrize("keys", [None, ["a", "b", "\u00fc\n\x1b[31m"]], ids=["hashed", "listed"])
@pytest.mark.parametrize("promise", [{}, {"delta": 0.0}, {"noise": "laplace"}], ids=str)
def test_a_sketch_comes_back_whole(tmp_path: Path, keys: Any, promise: Any) -> None:
    one = sketch(TABLE, "k", size=33, keys=keys, **promise)
    one.save(tmp_path / "a.sketch")
    other = Sketch.load(tmp_path / "a.sketch")
    query = {"a": 0.5, "\u00fc\n\x1b[31m": 1}
    assert one.answer(query) == other.answer(query)
    assert (one.column, one.universe, one.scale, one.statement) == (
        other.column, other.universe, other.scale, other.statement,
    )  # fmt: skip
    other.save(tmp_path / "b.sketch")
    assert (tmp_path / "a.sketch").read_bytes() == (tmp_path / "b.sketch").read_bytes()
    with pytest.raises(InputError, match="exists"):
        one.save(tmp_path / "a.sketch")


Change = Callable[[dict[str, Any], dict[str, np.ndarray]], object]


def entry(header: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = header["statement"]["ledger"][0]
    return found


CHANGES: dict[str, Change] = {
    "version": lambda h, a: h.update(fmwem_sketch=2),
    "model": lambda h, a: h.update(fmwem_model=h.pop("fmwem_sketch")),
    "size": lambda h, a: h.update(size=31),
    "size of another kind": lambda h, a: h.update(size=32.0),
    "no rows": lambda h, a: (h.update(size=0), a.update(noisy=a["noisy"][:0])),
    "rows as floats": lambda h, a: a.update(noisy=a["noisy"].astype(np.float64)),
    "rows in two dimensions": lambda h, a: a.update(noisy=a["noisy"].reshape(4, 8)),
    "half a coefficient": lambda h, a: a.update(coefficients=a["coefficients"][:-1]),
    "no coefficients": lambda h, a: a.update(coefficients=a["coefficients"][:0]),
    "coefficients beyond the field": lambda h, a: a["coefficients"].__setitem__(0, 2**63),
    "too many coefficients": lambda h, a: a.update(coefficients=np.zeros(2**12, dtype=np.uint64)),
    "few coefficients": lambda h, a: a.update(coefficients=a["coefficients"][:4]),
    "no blocks": lambda h, a: h.update(blocks=0),
    "blocks that do not divide": lambda h, a: h.update(blocks=3),
    "more blocks": lambda h, a: h.update(blocks=2),
    "column": lambda h, a: h.update(column=7),
    "no column": lambda h, a: h.pop("column"),
    "no universe": lambda h, a: h.update(hash_key=None),
    "two universes": lambda h, a: h.update(keys=["a"]),
    "hash key": lambda h, a: h.update(hash_key="zz" * 16),
    "long hash key": lambda h, a: h.update(hash_key="aa" * 65),
    "keys": lambda h, a: h.update(hash_key=None, keys=[1, 2]),
    "keys twice": lambda h, a: h.update(hash_key=None, keys=["a", "a"]),
    "scale": lambda h, a: h.update(scale=-1.0),
    "no number": lambda h, a: h.update(scale=float("nan")),
    "scale of another entry": lambda h, a: h.update(scale=h["scale"] * 2),
    "composition": lambda h, a: h.update(composition="pure"),
    "no statement": lambda h, a: h.pop("statement"),
    "statement": lambda h, a: h["statement"].update(more=1),
    "no entry": lambda h, a: h["statement"].update(ledger=[]),
    "delta of an entry": lambda h, a: entry(h).update(delta="1/" + "9" * 999),
    "sensitivity": lambda h, a: entry(h).update(sensitivity=0),
    "huge sensitivity": lambda h, a: entry(h).update(sensitivity=10**400),
    "mechanism": lambda h, a: entry(h).update(mechanism="permute-and-flip"),
    "mechanism of another composition": lambda h, a: entry(h).update(mechanism="discrete laplace"),
    "guarantee": lambda h, a: h["statement"]["guarantee"].update(delta=0.0),
    "no promise": lambda h, a: h["statement"]["guarantee"].update(delta=2.0),
    "pure promise": lambda h, a: h["statement"]["guarantee"].update(composition="pure"),
    "neighbours": lambda h, a: h["statement"]["guarantee"].update(neighbours="friends"),
    "surrogate": lambda h, a: h["statement"]["guarantee"].update(unit="\ud800"),
    "a list": lambda h, a: h.update(statement=[1]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_strangers_file_is_refused_in_one_line(made: Sketch, tmp_path: Path, change: str) -> None:
    header, arrays = parts(made, tmp_path / "x.sketch")
    (tmp_path / "x.sketch").write_bytes(packed(header, arrays))
    assert Sketch.load(tmp_path / "x.sketch").statement == made.statement  # as it was
    CHANGES[change](header, arrays)
    (tmp_path / "x.sketch").write_bytes(packed(header, arrays))
    with pytest.raises(InputError) as refused:
        Sketch.load(tmp_path / "x.sketch")
    assert "\n" not in str(refused.value)


def test_a_damaged_file_is_refused(made: Sketch, tmp_path: Path) -> None:
    path = tmp_path / "x.sketch"
    made.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    broken = [whole[:n] for n in (0, 5, 100, len(whole) - 1)]
    for at in rng.integers(0, len(whole), 60):
        broken.append(whole[:at] + bytes([whole[at] ^ 1 << rng.integers(8)]) + whole[at + 1 :])
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(InputError):
            Sketch.load(path)
    with pytest.raises(InputError, match="no sketch file"):
        Sketch.load(tmp_path / "none.sketch")
    with pytest.raises(InputError):
        Sketch.load(tmp_path)
