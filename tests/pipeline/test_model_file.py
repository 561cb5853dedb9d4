"""A model file gives the same rows again, holds every noisy answer, and can run no code when it is opened."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import safetensors.numpy
from support.fakes import FakeNoise
from support.model_files import parts_of, write

from factored_mwem import Domain, Release, release
from factored_mwem.errors import InputError
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.saving.model_fields import VERSION
from factored_mwem.pipeline.saving.model_file import packed
from factored_mwem.request.request import Request

DOMAIN = Domain.from_dict(
    {
        "fields": [
            {"name": "s", "categories": ["0311", "b"]},
            {"name": "n", "type": "number", "edges": [0, 0.25, 0.5, 0.75, 1]},
            {"name": "t", "type": "datetime", "edges": ["2020-01-01", "2020-07-01", "2020-12-31"]},
        ]
    }
)


@pytest.fixture(scope="module")
def made() -> Release:
    moments = pa.array([0, 1, 2] * 40, pa.timestamp("ms", tz="Europe/Berlin"))
    table = pa.table({"s": ["0311", "b", None] * 40, "n": [0.1, 0.5, 0.9] * 40, "t": moments})
    return release(table, 2, domain=DOMAIN, sample_seed=7)


BROAD = Domain.from_dict({"a": 40, "b": 30, "c": 3, "d": 2, "e": 5})


@pytest.fixture(scope="module")
def chained() -> Release:
    """A model with a clique tree of several cliques and with coarser levels; noise is left out."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 40, 6000)
    b, e = (a + rng.integers(0, 4, 6000)) % 30, rng.integers(0, 5, 6000)
    table = pa.table({"a": a, "b": b, "c": b // 10, "d": (e > 2).astype(int), "e": e})
    request = Request.of(table, 2, domain=BROAD, max_cells=1500, sample_seed=3)
    made = make(request, noise=FakeNoise())
    assert len(made.model.levels) > 5 and any(part.tree.edges for part in made.model.components)
    return made


@pytest.fixture
def tree_path(chained: Release, tmp_path: Path) -> Path:
    chained.save(tmp_path / "c.model")
    return tmp_path / "c.model"


def test_trees_and_levels_are_kept(chained: Release, tree_path: Path) -> None:
    """Levels, cliques, separators and tables, to the last bit; so the same rows and the same answers."""
    again = Release.load(tree_path)
    assert again.model.total == chained.model.total
    ours, theirs = chained.model.levels, again.model.levels
    assert [g.tolist() for g in theirs.groups] == [g.tolist() for g in ours.groups]
    assert theirs.attribute.tolist() == ours.attribute.tolist()
    for ours, theirs in zip(chained.model.components, again.model.components, strict=True):
        assert ours.tree.cliques == theirs.tree.cliques and ours.tree.edges == theirs.tree.edges
        assert np.array_equal(ours.beliefs.cliques, theirs.beliefs.cliques)
        np.testing.assert_allclose(ours.beliefs.separators, theirs.beliefs.separators, rtol=1e-9, atol=1e-15)
    for view in ((0, 2), (0, 3, 4), (1, 2, 4)):
        answers = [release.model.marginal(view) for release in (again, chained)]
        np.testing.assert_allclose(*answers, rtol=1e-9, atol=1e-9)
    assert again.to_arrow().equals(chained.to_arrow())


@pytest.fixture
def path(made: Release, tmp_path: Path) -> Path:
    made.save(tmp_path / "t.model")
    return tmp_path / "t.model"


def test_a_loaded_release_is_the_saved_one(made: Release, path: Path) -> None:
    again = Release.load(path)
    assert again.to_arrow().equals(made.to_arrow())
    assert again.sample(100, seed=3).equals(made.sample(100, seed=3))
    assert (again.schema, again.domain, again.manifest) == (made.schema, made.domain, made.manifest)
    assert again.manifest.recompute() == pytest.approx(made.manifest.recompute())
    assert Release.load(str(path)).rows == made.rows


@pytest.mark.parametrize("sizes", [[1], [1, 1, 1], [2, 1, 1], [1, 2, 3], [2]], ids=str)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("engine", ["tree", "mwem"])
def test_attributes_of_one_code_stay(sizes: list[int], neighbours: str, engine: str, tmp_path: Path) -> None:
    """Where a budget learns no category, every attribute has the one code `other`."""
    names = [f"a{i}" for i in range(len(sizes))]
    columns = {name: [i % size for i in range(60)] for name, size in zip(names, sizes, strict=True)}
    domain = Domain.from_dict(dict(zip(names, sizes, strict=True)))
    made = release(pa.table(columns), min(2, len(sizes)), domain=domain, neighbours=neighbours, engine=engine)
    made.save(tmp_path / "one.fmwem")
    loaded = Release.load(tmp_path / "one.fmwem")
    assert loaded.to_arrow() == made.to_arrow()
    assert loaded.manifest == made.manifest


def test_every_noisy_answer_is_in_the_file(made: Release, path: Path) -> None:
    """A third party can fit another model to the measurements; the manifest lists them in the same order."""
    again = Release.load(path)
    names = again.model.levels.names(again.domain.names)
    assert [m.noisy.tolist() for m in again.measurements] == [m.noisy.tolist() for m in made.measurements]
    found = [(tuple(names[v] for v in m.positions), m.scale.value) for m in again.measurements]
    assert found == [(m.attributes, m.scale) for m in made.manifest.measurements] and found


def test_the_file_holds_arrays_and_no_objects(path: Path) -> None:
    arrays = safetensors.numpy.load(path.read_bytes())
    assert {array.dtype for array in arrays.values()} <= {np.dtype(kind) for kind in ("u1", "i8", "f8")}
    assert json.loads(arrays["header"].tobytes())["fmwem_model"] == VERSION


def test_the_same_model_gives_the_same_bytes(chained: Release, tree_path: Path) -> None:
    """A run that goes on compares what it would write with what is there. Also after a file was read."""
    Release.load(tree_path).save(tree_path, overwrite=IfExists.VERIFY)
    chained.save(tree_path.with_name("again"))
    assert tree_path.with_name("again").read_bytes() == tree_path.read_bytes()


def test_saving_keeps_existing_files(made: Release, path: Path) -> None:
    with pytest.raises(InputError, match="exists; use --overwrite"):
        made.save(path)
    made.save(path, overwrite=True)
    assert sorted(os.listdir(path.parent)) == ["t.model"]


def changed(path: Path, edit: Any) -> None:
    """Rewrite the model file after `edit` has changed its header and arrays."""
    header, arrays = parts_of(path)
    edit(header, arrays)
    write(path, header, arrays)


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1, None, "1", True, [VERSION]])
def test_another_version_is_told_apart_from_damage(version: Any, path: Path) -> None:
    changed(path, lambda header, arrays: header.update(fmwem_model=version))
    check_refused(path, f"is a model file of version .*, this program reads version {VERSION}")


DAMAGE: dict[str, Any] = {
    "no beliefs": lambda header, arrays: arrays.pop("beliefs_0"),
    "no schema": lambda header, arrays: arrays.pop("schema"),
    "wrong shape": lambda header, arrays: arrays.update(beliefs_0=arrays["beliefs_0"][:-1]),
    "an attribute too few": lambda header, arrays: header["trees"].pop(),
    "an attribute twice": lambda header, arrays: (
        header["trees"].append(header["trees"][0])
        or arrays.update({f"beliefs_{len(header['trees']) - 1}": arrays["beliefs_0"]})
    ),
    "unknown attribute": lambda header, arrays: header["trees"][0]["cliques"][0].append(99),
    "no domain": lambda header, arrays: header.pop("domain"),
    "broken domain": lambda header, arrays: header.update(domain={"fields": [{"name": "s"}]}),
    "broken manifest": lambda header, arrays: header["manifest"].pop("ledger"),
    "unknown composition": lambda header, arrays: header["measurements"][0].update(composition="x"),
    "not an object": lambda header, arrays: header.update(measurements=5),
    "words for numbers": lambda header, arrays: header.update(total="many"),
    "short schema": lambda header, arrays: arrays.update(schema=arrays["schema"][:20]),
}


def _joined(header: dict[str, Any]) -> dict[str, Any]:
    """The first tree with an edge."""
    return next(tree for tree in header["trees"] if tree["edges"])


TREE_DAMAGE: dict[str, Any] = {
    "a parent after its child": lambda header, arrays: _joined(header)["edges"][0].__setitem__(1, 1),
    "a parent that is none": lambda header, arrays: _joined(header)["edges"][0].__setitem__(1, -1),
    "an edge too few": lambda header, arrays: _joined(header)["edges"].pop(),
    "edges out of order": lambda header, arrays: _joined(header)["edges"][0].__setitem__(0, 2),
    "a separator outside its cliques": lambda header, arrays: _joined(header)["edges"][0][2].append(
        next(v for v in range(5) if v not in _joined(header)["cliques"][0])
    ),
    "a clique too few": lambda header, arrays: _joined(header)["cliques"].pop(),
    "an unknown variable": lambda header, arrays: _joined(header)["cliques"][0].__setitem__(0, 99),
    "a negative variable": lambda header, arrays: _joined(header)["cliques"][0].__setitem__(0, -1),
    "no level": lambda header, arrays: arrays.pop("level_5"),
    "a level of another length": lambda header, arrays: arrays.update(level_5=arrays["level_5"][:-1]),
    "a level of another type": lambda header, arrays: arrays.update(level_5=arrays["level_5"].astype(float)),
    "a level with a negative group": lambda header, arrays: arrays.update(level_5=arrays["level_5"] - 1),
    "a correction that no sweep measures": lambda header, arrays: (
        header["measurements"][0].update(positions=[0, 1, 2, 3])
        or arrays.update(noisy_0=np.zeros(40 * 30 * 3 * 2, dtype=np.int64))
    ),
    "a level of no attribute": lambda header, arrays: header["levels"].__setitem__(0, 77),
}


@pytest.mark.parametrize("kind", [*DAMAGE, *TREE_DAMAGE])
def test_a_model_that_contradicts_itself_is_refused(path: Path, tree_path: Path, kind: str) -> None:
    where = path if kind in DAMAGE else tree_path
    changed(where, (DAMAGE | TREE_DAMAGE)[kind])
    check_refused(where, r"is not a model file, or is damaged|needs at least one category")


def check_refused(path: Path, message: str = "is not a model file, or is damaged") -> None:
    with pytest.raises(InputError, match=message) as refused:
        Release.load(path)
    assert "\n" not in str(refused.value)


def test_files_that_are_no_models(path: Path) -> None:
    whole, other = path.read_bytes(), path.with_name("other")
    contents = [b"", b"random bytes" * 50, os.urandom(2000), whole[: len(whole) // 2], whole[:-1]]
    for content in (*contents, b"a,b\n1,2\n", b"\x93NUMPY\x01\x00v\x00{}", b"PK\x03\x04"):
        other.write_bytes(content)
        check_refused(other, "is not a model file, or is damaged; `fmwem release --model` writes them")
    model, record = path.with_name("near.fmwem"), path.with_name("near.manifest.json")
    model.write_bytes(whole)
    record.write_text("{}")
    check_refused(record, f"or is damaged; {model} is one")
    for members in ({"word/document.xml": b"<x/>"}, {"header.npy": b"nonsense"}, {"header": b"{}"}, {}):
        with zipfile.ZipFile(other, "w") as file:
            for name, data in members.items():
                file.writestr(name, data)
        check_refused(other)
    check_refused(path.parent, "is not a model file")
    check_refused(path.with_name("none"), "no model file")


def test_a_number_that_a_disk_has_changed_is_seen(path: Path) -> None:
    """Every byte: of the length, of the list of arrays, of an answer, of the digest itself."""
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    for position in {*range(8), *range(8, len(whole), 37), start - 1, start, len(whole) - 1}:
        for flip in (0x01, 0xFF):
            damaged = bytearray(whole)
            damaged[position] ^= flip
            path.write_bytes(damaged)
            if position != start - 1 or whole[position] != 0x20:  # a blank that fills the list up
                check_refused(path)


def test_a_pickle_is_not_opened(path: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"

    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (trap,))

    objects = np.array([Trap()], dtype=object)
    with open(path, "wb") as file:
        np.savez(file, header=objects, allow_pickle=True)
    check_refused(path, "is not a model file")
    objects.dump(path)
    check_refused(path, "is not a model file")
    assert not trap.exists()


def test_arrays_of_any_layout_are_saved_as_they_are(tmp_path: Path) -> None:
    """The library copies memory as it lies, whatever its strides."""
    grid = np.arange(12).reshape(3, 4)
    (tmp_path / "m").write_bytes(packed({}, {"strided": grid[:, 1], "whole": grid.ravel()}))
    assert parts_of(tmp_path / "m")[1]["strided"].tolist() == [1, 5, 9]
