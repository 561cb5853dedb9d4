"""The replicates' file: a cache that may be stale, damaged or a stranger's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.model_files import parts_of, write

from factored_mwem.answers import replicates
from factored_mwem.errors import InputError
from factored_mwem.pipeline.release import release
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.saving.replicate_file import beside, kept

QUERY, COUNT = "share where a >= 2 and b = 1", 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model file and its replicates."""
    rng = np.random.default_rng(2)
    a = rng.integers(0, 4, 300)
    table = pa.table({"a": a, "b": (a + rng.integers(0, 2, 300)) % 3})
    folder = tmp_path_factory.mktemp("models")
    made = release(table, 1, domain={"a": 4, "b": 3}, epsilon=4.0, rounds=1, sample_seed=1)
    assert not made.residuals
    made.save(folder / "x.fmwem")
    Release.load(folder / "x.fmwem").answer(QUERY, replicates=COUNT)
    return folder


@pytest.fixture
def model(folder: Path, tmp_path: Path) -> Path:
    for name in ("x.fmwem", "x.fmwem.replicates"):
        shutil.copy(folder / name, tmp_path / name)
    return tmp_path / "x.fmwem"


def errors(model: Path, monkeypatch) -> tuple[float, bool]:
    """(the standard error of an answer, whether replicates were made for it)."""
    made = []
    real = replicates.Bootstrap
    monkeypatch.setattr(replicates, "Bootstrap", lambda *args: made.append(args) or real(*args))
    found = Release.load(model).answer(QUERY, replicates=COUNT)
    monkeypatch.undo()
    return float(found.stderr[0]), bool(made)


def test_replicates_are_made_once(model: Path, monkeypatch) -> None:
    stderr, again = errors(model, monkeypatch)
    assert stderr > 0 and not again
    before = beside(model).read_bytes()
    beside(model).unlink()
    assert errors(model, monkeypatch) == (stderr, True)
    assert beside(model).read_bytes() == before
    assert sorted(path.name for path in model.parent.iterdir()) == ["x.fmwem", "x.fmwem.replicates"]
    assert len(Release.load(model).answer(QUERY, replicates=3)) == 1  # six are more than three
    assert beside(model).read_bytes() == before


def edited(name: str, edit):
    def change(path: Path) -> None:
        header, arrays = parts_of(path)
        arrays[name] = edit(arrays[name].copy())
        write(path, header, arrays)

    return change


def headed(**changes):
    def change(path: Path) -> None:
        header, arrays = parts_of(path)
        write(path, {**header, **changes}, arrays)

    return change


def flipped(data: bytes) -> bytes:
    """The same but for a few bits near the end, whatever they were."""
    return data[:-9] + bytes([data[-9] ^ 0x55]) + data[-8:]


def put(array: np.ndarray, value: float) -> np.ndarray:
    array[1] = value
    return array


BAD = {
    "empty": lambda path: path.write_bytes(b""),
    "no file of arrays": lambda path: path.write_bytes(b"\xff" * 4000),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "a bit": lambda path: path.write_bytes(flipped(path.read_bytes())),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "another model's": headed(model="0" * 64),
    "another seed": headed(seed=99),
    "too few": headed(count=3),
    "too many": headed(count=12),
    "no number": headed(count="6"),
    "an older program's": headed(fmwem_replicates=0),
    "no header": lambda path: write(path, np.frombuffer(b"[]", dtype=np.uint8), parts_of(path)[1]),
    "a parameter that is none": edited("theta_0", lambda a: put(a, np.nan)),
    "an endless parameter": edited("theta_0", lambda a: put(a, np.inf)),
    "too few parameters": edited("theta_0", lambda a: a[:-1]),
    "parameters of another type": edited("theta_0", lambda a: a.astype(np.float64)),
    "no records": edited("totals", lambda a: put(a, 0.0)),
    "records without end": edited("totals", lambda a: put(a, np.inf)),
    "a code beyond": edited("codes_0", lambda a: put(a, 4)),
    "codes of another type": edited("codes_1", lambda a: a.astype(np.int64)),
    "codes missing": edited("codes_1", lambda a: a[:6]),
    "no codes": edited("codes_0", lambda a: a[:0]),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_does_not_fit_is_made_anew(bad: str, model: Path, monkeypatch) -> None:
    expected, _ = errors(model, monkeypatch)
    good = beside(model).read_bytes()
    BAD[bad](beside(model))
    assert errors(model, monkeypatch) == (expected, True)
    if bad != "a folder":
        assert beside(model).read_bytes() == good  # and put in its place


def test_parameters_beyond_all_numbers_are_refused(model: Path) -> None:
    edited("theta_0", lambda a: np.where(np.arange(len(a)) % 4, -2000, 2000).astype(np.float32))(
        beside(model)
    )
    made = Release.load(model)
    assert kept(model, made.evidence, made.seed, COUNT) is not None
    try:
        found = made.answer(QUERY, replicates=COUNT)
    except InputError as error:
        assert "remove that file" in str(error)
    else:
        assert np.isfinite(found.stderr).all()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_no_error(model: Path, monkeypatch) -> None:
    expected, _ = errors(model, monkeypatch)
    beside(model).unlink()
    model.parent.chmod(0o500)
    try:
        assert errors(model, monkeypatch) == (expected, True)
    finally:
        model.parent.chmod(0o700)
    assert not beside(model).exists()


def test_a_full_disk_is_no_error(model: Path, monkeypatch) -> None:
    beside(model).unlink()
    monkeypatch.setattr(Path, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    assert len(Release.load(model).answer(QUERY, replicates=COUNT)) == 1
    assert [path.name for path in model.parent.iterdir()] == ["x.fmwem"]


@pytest.mark.parametrize("count", [1, 0, -3, 10_001])
def test_how_many_is_a_whole_number_in_range(count: int, model: Path) -> None:
    with pytest.raises(InputError, match=r"^-?\d+ replicates: must be a whole number"):
        Release.load(model).answer(QUERY, replicates=count)
