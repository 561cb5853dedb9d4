"""Card: the four files for catalogues about a release, from its manifest and its owner's answers."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from factored_mwem.documents.contract import contract
from factored_mwem.documents.croissant import dataset
from factored_mwem.documents.datapackage import package
from factored_mwem.documents.other import record_card
from factored_mwem.documents.owner import Owner, draft, required
from factored_mwem.documents.published import Published
from factored_mwem.documents.registry import record
from factored_mwem.errors import FmwemError, InputError, ResourceError
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.tables.outputs.targets import LocalFile, Target, write_text

MAX_CHARACTERS = 2**26
"""Most characters in a file of a card; the data package repeats the schema for each part."""
BESIDE = ".manifest.json"
_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Invisible characters, and those that change the direction of writing, because names in a manifest may come
from anybody. They are replaced by escapes in the finished text, where they always stand between double
quotes.
"""


def cards(release: Published | Statement, owner: Owner, stem: str) -> dict[str, str]:
    """The text of each file by its name; the same for the same manifest and answers.

    The registry accepts only names of small letters, digits and underscores. For records of other kinds than
    a release: a card for people to read.
    """
    if isinstance(release, Statement):
        return {f"{stem}.card.md": record_card(release, owner)}
    schema = len(to_json(dict(release.domain.to_dict())))
    if schema * len(release.files) > MAX_CHARACTERS:
        raise ResourceError(
            f"its {len(release.files):,} parts, each with a schema of {schema:,} characters, make a data "
            f"package of more than {MAX_CHARACTERS >> 20} MB; release into fewer files"
        )
    return {
        f"{underscored(stem)}_deployment.yaml": to_yaml(record(release, owner)),
        f"{stem}.croissant.json": to_json(dataset(release, owner)),
        "datapackage.json": to_json(package(release, owner)),
        f"{stem}.odcs.yaml": to_yaml(contract(release, owner)),
    }


def underscored(stem: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_") or "release"


def stem_of(manifest: Target) -> str:
    """`adult.synthetic.manifest.json` -> `adult.synthetic`."""
    name = manifest.name
    return name.removesuffix(BESIDE) if name.endswith(BESIDE) else name.removesuffix(manifest.suffix)


def answers(path: Path) -> Owner:
    """The owner's answers. If there is no such file, one is drafted, and an InputError says what to
    fill in.
    """
    if not path.exists():
        write_text(LocalFile(path), draft())
        raise InputError(
            f"wrote {path}: answer its questions ({', '.join(required())}), then run the same command again"
        )
    return Owner.load(path)


def write_cards(texts: dict[str, str], at: Callable[[str], Target], exists: IfExists) -> list[Target]:
    """Write all files; if one cannot be written, the new ones among them are removed."""
    targets = {name: at(name) for name in texts}
    for target in targets.values():
        target.check(exists)
    placed: list[Target] = []
    try:
        for name, target in targets.items():
            new = not target.there()
            write_text(target, texts[name], exists)
            placed += [target] if new else []
    except BaseException:
        for target in placed:
            with contextlib.suppress(FmwemError):  # what failed first is what to say
                target.remove()
        raise
    return list(targets.values())


def to_json(value: Any) -> str:
    """A JSON text with a line for each entry."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def to_yaml(value: Any) -> str:
    """A YAML text in blocks, texts of several lines as they are, for people to read and review."""
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]  # its package has no types
        """Knows no aliases, which few who edit YAML by hand do."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Dumper, data: str) -> Any:
        style = "|" if "\n" in data else None
        if _UNSEEN.search(data):
            style = '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, text)
    dumped = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)
    return _UNSEEN.sub(lambda match: f"\\U{ord(match[0]):08x}", dumped)
