"""Evidence: all that speaks for a release in one folder, with an index and a list of digests to be signed.

Public files alone. Results of the owner's own checks go in only where they are named one by one, into a
folder of their own that says NOT-PRIVATE. No public file depends on them, or lists them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from factored_mwem.documents.card import cards, stem_of, to_json
from factored_mwem.documents.lawyer import lawyer_page
from factored_mwem.documents.material import material_at, other_record
from factored_mwem.documents.other import record_page
from factored_mwem.documents.owner import Owner
from factored_mwem.documents.page import figure, filled, plain
from factored_mwem.documents.public_page import public_page
from factored_mwem.documents.published import record_from
from factored_mwem.documents.report import PRIVATE_MARK
from factored_mwem.errors import InputError
from factored_mwem.files.files import in_words, read_text
from factored_mwem.pipeline.record.manifest import Manifest, read_record
from factored_mwem.pipeline.record.statement import Statement, tool_version
from factored_mwem.tables.inputs.uris import is_uri
from factored_mwem.tables.outputs.targets import LocalFile

INDEX, SUMS = "index.html", "SHA256SUMS"
MOST_BYTES = 2**28
"""Of a result of the owner's."""
CHECKS = {"scores": "attack", "pairs": "verify", "by_order": "evaluate", "tables": "evaluate"}
"""The commands whose results may go in, by a key that only theirs have."""
ABOUT = {
    ".manifest.json": "the release's record: the promise, every charge, the domain",
    ".report.html": "the report, for everybody",
    ".lawyer.html": "the same for readers who know no statistics",
    ".certificate.json": "the measured errors of the rows, with bounds",
    "_deployment.yaml": "a record for the registry of deployments",
    ".croissant.json": "a record for catalogues (Croissant)",
    "datapackage.json": "a record for catalogues (Frictionless); the rows lie elsewhere",
    ".odcs.yaml": "a data contract",
    ".card.md": "a card for people to read",
}
"""What a file is, by how its name ends."""


def evidence(
    manifest: str | Path,
    folder: str | Path,
    *,
    owner: Owner | None = None,
    private: Sequence[str | Path] = (),
) -> list[str]:
    """Write a new folder with all that speaks for a release.

    That is its record, the report, a page for lawyers, the certificate; with an `owner`'s answers the cards;
    an index; SHA256SUMS, to be signed. The rows are not copied.

    `private`: files with what `fmwem attack`, `fmwem verify --json` or `fmwem evaluate --json` said. NOT
    PRIVATE: they go into a folder of that name. The same files give the same bytes.

    Returns: the files' names inside, sorted. Raises InputError if there is no sound record, the folder
    exists, or a file of `private` is no such result, or an attack on other promises.

    >>> import pyarrow as pa
    >>> from factored_mwem import evidence, release
    >>> _ = release(pa.table({"age": [0, 1] * 50}), 1, domain={"age": 2}, rows=100).write("ages.parquet")
    >>> evidence("ages.manifest.json", "ages.evidence")
    ['SHA256SUMS', 'ages.lawyer.html', 'ages.manifest.json', 'ages.report.html', 'index.html']
    """
    if is_uri(str(folder)):
        raise InputError(f"{folder}: evidence is written on this machine; name a folder here")
    source, place = Path(manifest), Path(folder)
    if os.path.lexists(place):
        raise InputError(f"{place} exists; name a new folder with -o")
    texts, record = _public(source, owner)
    results = _private(private, record)
    texts |= {INDEX: _index(record, source, texts)}
    texts |= {SUMS: _sums(texts)}
    if results:
        inside = {f"{name}.json": to_json(facts) for name, facts in results.items()}
        inside |= {"README.txt": _warning(results)}
        inside |= {SUMS: _sums(inside)}
        texts |= {f"{PRIVATE_MARK}/{name}": text for name, text in inside.items()}
    with in_words(place):
        _put(texts, place)
    return sorted(texts)


def _public(source: Path, owner: Owner | None) -> tuple[dict[str, str], Statement]:
    """(the texts of the public files by name, the record)."""
    target = LocalFile(source)
    published = record_from(target)  # whatever does not add up is refused here
    content = read_text(source, "manifest")
    stem, record = stem_of(target), read_record(content)
    texts = {f"{stem}.manifest.json": content}
    if isinstance(record, Manifest):
        material = material_at(source)
        texts |= {f"{stem}.report.html": public_page(material), f"{stem}.lawyer.html": lawyer_page(material)}
        if record.certificate is not None:
            texts[f"{stem}.certificate.json"] = to_json(record.certificate.model_dump(mode="json"))
    elif (other := other_record(source)) is not None:
        texts[f"{stem}.report.html"] = record_page(other, source.name)
    return texts | (cards(published, owner, stem) if owner is not None else {}), record


def _private(files: Sequence[str | Path], record: Statement) -> dict[str, dict[str, Any]]:
    """The results of the owner's checks by command; of an attack without the scores that it keeps."""
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        lines = read_text(Path(file), "result", MOST_BYTES).splitlines()
        try:
            facts = json.loads(lines[-1])
        except (ValueError, IndexError, RecursionError):
            facts = None
        facts = facts.get("result", facts) if isinstance(facts, dict) else {}
        name = next((CHECKS[key] for key in CHECKS if key in facts), None)
        if name is None or facts.get("private") is not False:
            what = "no finished result of fmwem attack, of fmwem verify --json or of fmwem evaluate --json"
            raise InputError(f"{file} is {what}")
        if name in found:
            raise InputError(f"{file} is a second result of fmwem {name}; name one")
        promised = facts.get("promised", {})
        for key, stated in (("epsilon", record.guarantee.epsilon), ("delta", record.guarantee.delta)):
            if promised.get(key, stated) != stated:
                raise InputError(f"{file} is of {key} {promised[key]:g}, and the release of {stated:g}")
        found[name] = facts
    return found


def _warning(results: Mapping[str, Any]) -> str:
    lines = [
        "NOT PRIVATE: these results look at the private table. They are for the owner, and for whoever is",
        "sworn to the same secrecy. Do not publish this folder; without it the one around it is whole.",
    ]
    said = {True: "it held", False: "IT DID NOT HOLD"}
    lines += [
        f"{name}.json: fmwem {name}: {said.get(r.get('holds'), 'errors')}" for name, r in results.items()
    ]
    return "\n".join([*lines, ""])


def _index(record: Statement, source: Path, texts: dict[str, str]) -> str:
    g, output = record.guarantee, record.output
    about = {name: next((a for end, a in ABOUT.items() if name.endswith(end)), "") for name in texts}
    return filled(
        "evidence.html",
        title=plain(output.file if output is not None else source.name, 80),
        promise=plain(g.statement, 400),
        spent=figure(g.spent_epsilon, 6),
        again=figure(record.recompute(), 6),
        files=[(name, what, _digest(texts[name])) for name, what in about.items()],
        sums=SUMS,
        private_mark=PRIVATE_MARK,
        output=[] if output is None else [(plain(output.file, 80), plain(output.sha256 or "", 64))],
        chain_head=plain(record.chain_head or "", 64),
        made=f"{record.created} by factored-mwem {plain(record.tool_version)}, noise by "
        f"{plain(record.noise_library)}",
        written=tool_version(),
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _sums(texts: Mapping[str, str]) -> str:
    """What `sha256sum --check` reads."""
    return "".join(f"{_digest(texts[name])}  {name}\n" for name in sorted(texts))


def _put(texts: Mapping[str, str], place: Path) -> None:
    """All files in a new folder, or none."""
    made = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.absolute().parent))
    try:
        for name, text in texts.items():
            path = made / name
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.write_bytes(text.encode())
        made.chmod(0o755)
        made.rename(place)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
