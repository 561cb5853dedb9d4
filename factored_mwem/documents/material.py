"""Material: all that a public page is made from: the manifest, the model, the published rows. No private row.

Files may come from a stranger: everything in them that a page relies on is checked first.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.dialect import OUR_OWN
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.files.files import read_text
from factored_mwem.pipeline.record.manifest import Manifest, PeopleFacts, read_record
from factored_mwem.pipeline.record.manifest_check import doubts
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.saving.model_fields import sound_manifest
from factored_mwem.pipeline.saving.model_file import BROKEN
from factored_mwem.pipeline.saving.replicate_file import beside as replicates_beside
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.parsing import plain
from factored_mwem.tables.inputs.formats import TEXT_SUFFIXES
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.tables.outputs.targets import Folder, LocalFile, LocalPlace

ENDING = ".manifest.json"
NO_MODEL = (
    "No model file was given or found, so the noisy counts and their error bars are not shown: a manifest "
    "holds the scale of all noise, but not the noisy answers. fmwem release --model writes them."
)
NO_ROWS = "The file of rows was not found beside the manifest, so the rows' own shares are not shown."

MOST_ROWS = 2**17
"""The first rows of a table that are counted; their shares are within .3 % of those of all rows."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedRows:
    """The histogram of every column of the published rows, which are public: `counts[name]: int64[code]` of
    the first `rows` rows; of ROWS_OF_PERSON of their people.
    """

    counts: dict[str, np.ndarray]
    rows: int


def counted_rows(
    domain: Domain, batches: Iterable[pa.RecordBatch], people: PeopleFacts | None = None
) -> CountedRows:
    """The histograms over the codes of `domain` of the first rows of these batches, and of their people."""
    counts = {a.name: np.zeros(a.size, dtype=np.int64) for a in domain}
    rows, ids = 0, list[pa.Array]()
    for batch in batches:
        part = batch.slice(0, MOST_ROWS - rows)
        if people is not None:
            ids.append(plain(part.column(people.column)))
        for attribute in domain:
            if people is not None and attribute.name == ROWS_OF_PERSON:
                continue
            codes = encode(attribute, part.column(attribute.name))
            counts[attribute.name] += np.bincount(codes, minlength=attribute.size)
        rows += part.num_rows
        if rows >= MOST_ROWS:
            break
    if people is not None and ids:
        counts[ROWS_OF_PERSON] = _people_by_rows(domain[ROWS_OF_PERSON], pa.chunked_array(ids), rows)
    return CountedRows(counts, rows)


def _people_by_rows(attribute: Attribute, ids: pa.ChunkedArray, rows: int) -> np.ndarray:
    """int64[code]: how many people have so many rows; without the last, where rows may go on."""
    whose = ids.combine_chunks().drop_null().dictionary_encode()
    sizes = np.bincount(whose.indices.to_numpy(), minlength=len(whose.dictionary))
    sizes = sizes[:-1] if rows >= MOST_ROWS else sizes
    codes = encode(attribute, pa.array(sizes.astype(np.int32)))
    return np.bincount(codes, minlength=attribute.size)


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """`domain`: of the manifest's columns; `release`: the model with its noisy answers; `rows`: the counted
    rows. Each of these two is None if its file is not available; `lacking` says why.
    """

    manifest: Manifest
    domain: Domain
    release: Release | None
    rows: CountedRows | None
    lacking: tuple[str, ...] = ()

    def position(self, name: str) -> int | None:
        """A column's place in the model; None for one that follows from others by a rule."""
        return None if name in self.domain.derived else self.domain.modelled.names.index(name)


def material_of(release: Release, manifest: Manifest | None = None) -> Material:
    """The material of a release in memory, and of the `manifest` that was written with its rows, if they were
    written.
    """
    drawn, domain = release.drawn(), _of_columns(release.manifest, release.domain)
    batches = (drawn.batch(number) for number in range(len(drawn)))
    counted = counted_rows(domain, batches, release.manifest.people)
    return Material(manifest or release.manifest, domain, release, counted)


def _of_columns(manifest: Manifest, domain: Domain) -> Domain:
    """Without the companions, which come last, so that all others keep their places in the model."""
    return domain.project([facts.name for facts in manifest.columns])


def material_at(path: Path, model: Path | None = None) -> Material:
    """The material of a manifest's file, with its rows and its model: `model`, or else the one beside it."""
    manifest, domain = manifest_at(path)
    release = _model(path, manifest, model)
    rows = rows_beside(path, manifest)
    counted = None if rows is None else _counted(rows, domain, manifest.people)
    lacking = [why for why, known in ((NO_MODEL, release), (NO_ROWS, counted)) if known is None]
    return Material(manifest, domain, release, counted, tuple(lacking))


def other_record(path: Path) -> Statement | None:
    """The record in a file, where it is a sound one, and not of a release."""
    with contextlib.suppress(InputError, ValueError, OSError):
        record = read_record(read_text(path, "manifest"))
        if not isinstance(record, Manifest) and next(doubts(record), None) is None:
            return record
    return None


def manifest_at(path: Path) -> tuple[Manifest, Domain]:
    """A manifest and the domain of its columns. Raises InputError if the file is not a manifest that a
    release can have.
    """
    if not path.is_file():
        raise InputError(f"no manifest {path}")
    try:
        facts = json.loads(read_text(path, "manifest"))
        if not isinstance(facts, dict) or "manifest_version" not in facts:
            raise ValueError("another file")
        domain = Domain.from_dict(facts["domain"])
        manifest = sound_manifest(domain, facts)
        if tuple(a.name for a in manifest.attributes) != domain.names:
            raise ValueError("columns of another domain")
        parts = [name for part in manifest.components for name in part]
        if not all(manifest.components) or len(set(parts)) < len(parts):
            raise ValueError("components that are no parts of the columns")
    except (*BROKEN, InputError):
        raise InputError(f"{path} is not a manifest, or is damaged; `fmwem release` writes them") from None
    return manifest, _of_columns(manifest, domain)


def _model(path: Path, manifest: Manifest, named: Path | None) -> Release | None:
    """The model of the same release; a model beside the manifest that belongs to another release is
    ignored.
    """
    if named is not None:
        release = Release.load(named)
        if not _same(release.manifest, manifest):
            raise InputError(f"{named} is the model of another release than {path}; name its own, or none")
        return release
    for place in _models(path):
        if place.is_file():
            release = Release.load(place)
            if _same(release.manifest, manifest):
                return release
    return None


def _models(path: Path) -> list[Path]:
    """Where the model of a manifest may lie beside it."""
    name = path.name.removesuffix(ENDING)
    return [path.with_name(f"{one}.fmwem") for one in dict.fromkeys((name, name.removesuffix(".synthetic")))]


def beside(path: Path) -> list[Path]:
    """The model and the rows beside a manifest, and what is kept beside the model: nothing takes their place.
    Raises InputError if the file is no manifest.
    """
    if (record := other_record(path)) is not None:
        return [path] if record.output is None else [path, path.with_name(Path(record.output.file).name)]
    manifest, _ = manifest_at(path)
    models, rows = _models(path), rows_beside(path, manifest)
    return [*models, *(replicates_beside(model) for model in models), *([rows] if rows is not None else [])]


def _same(one: Manifest, other: Manifest) -> bool:
    """Whether two manifests are about the same release; the rows drawn from it may differ."""
    noisy = ("estimated_rows", "components", "attributes", "warnings")  # of two runs with the same settings
    facts = ("created", "guarantee", "ledger", "domain", "measurements", "chain_head", *noisy)
    certified = {each.certificate.model_dump_json() for each in (one, other) if each.certificate is not None}
    return len(certified) < 2 and all(getattr(one, fact) == getattr(other, fact) for fact in facts)


def rows_beside(path: Path, manifest: Manifest) -> Path | None:
    """The rows that a manifest names, in its own folder. Raises InputError if their sha256 differs."""
    output = manifest.output
    if output is None:
        return None
    name = output.file.removesuffix("/")
    if name in ("", "..") or name != Path(name).name or not name.isprintable():
        raise InputError(f"{path} names a file of rows in another folder; that is no manifest of a release")
    rows = path.with_name(name)
    whole = LocalFile(rows) if rows.is_file() else Folder(LocalPlace(rows)) if rows.is_dir() else None
    if whole is None or not whole.there():
        return None
    if whole.sha256() != output.sha256:
        raise InputError(f"{rows} is not what {path} names, by its sha256: put that back, or move this away")
    return rows


def _counted(rows: Path, domain: Domain, people: PeopleFacts | None) -> CountedRows:
    names = list(domain.names)
    if people is not None:
        names = [people.column, *(name for name in names if name != ROWS_OF_PERSON)]
    try:
        return counted_rows(domain, batches_of(rows, names), people)
    except (*BROKEN, InputError):
        raise InputError(f"{rows} does not hold the columns of its manifest") from None


def batches_of(rows: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Published rows, as they were written: in a text file all quotes are closed."""
    table = open_table(rows, "multiline" if rows.suffix in TEXT_SUFFIXES else "checked", OUR_OWN)
    for batch in table.batches(names):
        yield pa.RecordBatch.from_arrays(batch.columns, names=list(names))
