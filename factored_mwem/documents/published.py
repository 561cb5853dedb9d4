"""Published: a release as its manifest states it, checked before any record is written: the manifest may come
from anybody.
"""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

from factored_mwem.accounting.conversion import Composition, float_up
from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute, Scalar
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import FmwemError, InputError
from factored_mwem.files.files import MAX_TEXT_BYTES
from factored_mwem.pipeline.record.manifest import Certificate, Manifest, read_record
from factored_mwem.pipeline.record.manifest_check import check_policy, cost_of, doubts
from factored_mwem.pipeline.record.statement import Output, Statement
from factored_mwem.tables.outputs.descriptors import MEDIA_TYPES
from factored_mwem.tables.outputs.targets import LocalFile, Target, digest_of

MAX_FILES = 100_000
_EPOCH = datetime.datetime(1970, 1, 1)
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ColumnSection:
    """A column of the released rows. `type` is a Table Schema's.

    A domain says how the private table was read, this says what was written: for example, numbers with a text
    among the special values are written as text.
    """

    name: str
    type: str
    required: bool
    """Whether the column has no nulls."""
    minimum: Scalar | None = None
    maximum: Scalar | None = None
    values: tuple[Scalar, ...] | None = None
    """All possible values, if they are listed."""
    title: str | None = None
    description: str | None = None

    @classmethod
    def of(cls, attribute: Attribute) -> ColumnSection:
        low, high = _ends(attribute)
        listed = attribute.categories
        if not attribute.categorical and low is None:
            listed = attribute.special_values if len(attribute.cuts) == 1 else None
        return cls(
            name=attribute.name,
            type="string" if attribute.sentinels else attribute.type,
            required=not attribute.nullable,
            minimum=low,
            maximum=high,
            values=listed,
            title=attribute.title,
            description=attribute.description,
        )

    @property
    def limits(self) -> dict[str, Any]:
        """The constraints of a Table Schema that apply to the column."""
        constraints: dict[str, Any] = {"required": True} if self.required else {}
        ends = {"minimum": self.minimum, "maximum": self.maximum}
        constraints |= {key: value for key, value in ends.items() if value is not None}
        return constraints | ({"enum": list(self.values)} if self.values else {})


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of the released rows: its path from the manifest's folder, rows, and sha256."""

    path: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Published:
    """The facts on the cards, all of them from the manifest."""

    manifest: Manifest
    domain: Domain
    columns: tuple[ColumnSection, ...]
    files: tuple[PublishedFile, ...]
    output: Output
    rho: float | None
    """The sum of the charges in rho, rounded up; None if epsilons add up."""
    charged_delta: float
    """The part of delta that thresholds spent."""

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.files[0].path).suffix

    @property
    def media_type(self) -> str:
        return MEDIA_TYPES[self.suffix]

    @property
    def folder(self) -> str | None:
        """The folder that the rows are in, where they are in one."""
        return self.output.file.removesuffix("/") if self.output.file.endswith("/") else None

    @property
    def learnt(self) -> bool:
        """Whether this release paid for its domain: one learnt before is as public as a declared one."""
        known = self.manifest.guarantee.assumptions.get("domain")
        return known is not None and known.enforced

    @classmethod
    def of(cls, manifest: Manifest) -> Published:
        """Raises InputError if the manifest contradicts itself, or belongs to no file."""
        doubt = next(doubts(manifest), None)
        cost = cost_of(manifest)
        if doubt is not None or cost is None:
            raise InputError(str(doubt))
        check_policy(manifest)
        domain = _domain(manifest)
        _check_certificate(manifest.certificate)
        if manifest.output is None:
            raise InputError("it belongs to no file; write the release to one first")
        zcdp = manifest.guarantee.composition is Composition.ZCDP
        return cls(
            manifest=manifest,
            domain=domain,
            columns=_columns(manifest, domain),
            files=_files(manifest.output),
            output=manifest.output,
            rho=float_up(cost[0]) if zcdp else None,
            charged_delta=float_up(cost[1]) if cost[1] > Fraction(0) else 0.0,
        )


def record_from(target: Target) -> Published | Statement:
    """The published facts in a record's file: for a release those for catalogues, for other kinds the record
    itself. Raises InputError in one line if there is no sound record.
    """
    try:
        content = _content(target)
    except OSError as error:
        raise InputError(f"cannot read the manifest {target}: {error.strerror or error}") from None
    if len(content) > MAX_TEXT_BYTES:
        raise InputError(f"the manifest {target} is larger than {MAX_TEXT_BYTES >> 20} MB")
    try:
        record = read_record(content)
        if isinstance(record, Manifest):
            return Published.of(record)
        doubt = next(doubts(record), None)
    except FmwemError as error:
        doubt = str(error)
    if doubt is not None:
        raise InputError(f"{target} is no manifest that can be filed: {doubt}")
    return record


def _content(target: Target) -> bytes:
    """At most a byte more than a manifest may have, of a file on this disk."""
    if not isinstance(target, LocalFile):
        return target.read()
    with open(target.path, "rb") as file:
        return file.read(MAX_TEXT_BYTES + 1)


def _domain(manifest: Manifest) -> Domain:
    domain = Domain.from_dict(manifest.domain, where="its domain")
    stated = [(a.name, a.type, a.codes, a.nullable) for a in manifest.attributes]
    if stated != [(a.name, a.type, a.size, a.nullable) for a in domain]:
        raise InputError("its attributes are not those of its domain")
    return domain


def _columns(manifest: Manifest, domain: Domain) -> tuple[ColumnSection, ...]:
    """The columns of the rows; in a release of people the made-up id comes first, and the number of rows of a
    person is left out.
    """
    people, names = manifest.people, [facts.name for facts in manifest.columns]
    if people is None:
        return tuple(ColumnSection.of(domain[name]) for name in names)
    own = (ColumnSection.of(domain[name]) for name in names if name != ROWS_OF_PERSON)
    what = "A made-up person: rows of one person have the same value, which names nobody."
    made_up = ColumnSection(name=people.column, type=people.type, required=True, description=what)
    return (made_up, *own)


def _check_certificate(certificate: Certificate | None) -> None:
    """Raises InputError if a number is not finite, which JSON cannot express."""
    if certificate is None:
        return
    numbers = [certificate.share, certificate.confidence]
    for error in certificate.errors:
        numbers += [error.estimate, error.stderr, error.low, error.high]
    if not all(math.isfinite(number) for number in numbers):
        raise InputError("its certificate holds what is no number")


def _files(output: Output) -> tuple[PublishedFile, ...]:
    """The files of the rows. Raises InputError for paths that lead elsewhere, and digests that are none."""
    if output.sha256 is None or not _DIGEST.fullmatch(output.sha256) or output.rows < 0:
        raise InputError("its output has no sha256, or no number of rows")
    folder = output.file.endswith("/")
    name = output.file.removesuffix("/")
    _check_name(name)
    if not folder:
        files: tuple[PublishedFile, ...] = (PublishedFile(name, output.rows, output.sha256),)
    else:
        for part in output.parts:
            _check_name(part.file)
        files = tuple(PublishedFile(f"{name}/{part.file}", part.rows, part.sha256) for part in output.parts)
        if not 1 <= len(files) <= MAX_FILES:
            raise InputError(f"its folder has {len(files):,} parts; from 1 to {MAX_FILES:,} can be filed")
        fits = digest_of((part.file, part.sha256) for part in output.parts) == output.sha256
        if not fits or sum(file.rows for file in files) != output.rows:
            raise InputError("the parts of its folder do not fit its sha256 or its rows")
    if len({file.path for file in files}) < len(files):
        raise InputError("it lists a part twice")
    for file in files:
        if not _DIGEST.fullmatch(file.sha256) or file.rows < 0:
            raise InputError("its output has a part without a sha256, or without a number of rows")
    if PurePosixPath(files[0].path).suffix not in MEDIA_TYPES or len({f.path[-4:] for f in files}) > 1:
        raise InputError(f"its output is of no format that this program writes: {', '.join(MEDIA_TYPES)}")
    return files


def _check_name(name: str) -> None:
    """Raises InputError for a name that leads to another folder, or is hidden, which packages do not
    accept.
    """
    if not name or name[0] in ".~" or re.search(r"[/\\:\x00-\x1f]", name) or len(name) > 255:
        raise InputError("its output is no name of a file beside it, or one that begins with . or ~")


def _ends(attribute: Attribute) -> tuple[Scalar | None, Scalar | None]:
    """The least and greatest value of numbers or moments in bins, special values included; else None."""
    if attribute.categorical or attribute.sentinels or len(attribute.cuts) == 1:
        return None, None
    cuts, specials = attribute.cuts, attribute.specials
    low = cuts[0]
    # the last cut lies just above the greatest value
    high = math.nextafter(cuts[-1], -math.inf) if attribute.type == "number" else cuts[-1] - 1
    if len(specials):
        low, high = min(low, specials[0]), max(high, specials[-1])
    return _value(attribute.type, low), _value(attribute.type, high)


def _value(kind: str, unit: Any) -> Scalar:
    """A value from the unit of `Attribute.cuts`: moments as texts of ISO 8601."""
    if kind == "number":
        return float(unit)
    if kind == "integer":
        return int(unit)
    if kind == "date":
        return (_EPOCH.date() + datetime.timedelta(days=int(unit))).isoformat()
    return (_EPOCH + datetime.timedelta(microseconds=int(unit))).isoformat()
