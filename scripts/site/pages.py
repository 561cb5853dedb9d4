"""What the site shows beside the guide's own pages: the README as its first page, the reference of every
public name, the tutorials, and pages of `.github/`. mkdocs calls the functions by their names.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from griffe import Extension
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]  # of this checkout, whatever is installed

import notebooks  # noqa: E402

import factored_mwem  # noqa: E402
from factored_mwem.documents.guide import TOPICS  # noqa: E402

GUIDE = "factored_mwem/guide/"
MOVED = {
    "README.md": "index.md",
    "datasets/README.md": "datasets.md",
    ".github/CONTRIBUTING.md": "contributing.md",
    ".github/CHANGELOG.md": "changelog.md",
    ".github/SECURITY.md": "security.md",
}
TOLD = {f"scripts/site/tutorials/{name}.ipynb": f"tutorial-{name}.md" for name in notebooks.TUTORIALS}
"""Files outside the guide, and the pages that they become: as they are, and notebooks."""
LICENCE = "https://www.apache.org/licenses/LICENSE-2.0"


def on_config(config: Any) -> Any:
    """The menu: the guide in the order of `fmwem guide`."""
    guide = [{name.replace("-", " "): f"{name}.md"} for name in TOPICS]
    project = [{Path(page).stem: page} for page in list(MOVED.values())[1:]]
    config.nav = [
        {"factored-mwem": "index.md"}, {"Tutorials": list(TOLD.values())}, {"Guide": guide},
        {"Reference": "reference.md"}, {"Project": project},
    ]  # fmt: skip
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here."""
    for source, page in MOVED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_relinked(text, source)))
    for source, page in TOLD.items():
        text = notebooks.markdown(notebooks.load(Path(source).stem))
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "reference.md", content=_reference()))
    return files


def _relinked(text: str, source: str) -> str:
    """The text of a file, with its links to other files as links to their pages."""

    def page(link: re.Match[str]) -> str:
        target = (Path(source).parent / link[1]).as_posix()
        if target == "LICENSE":
            return f"]({LICENCE})"
        return f"]({(MOVED | TOLD).get(target, target.removeprefix(GUIDE))})"

    return re.sub(r"\]\((?!https?:|#)([^)\s]+)\)", page, text)


def _reference() -> str:
    """Every public name, in one page."""
    names = [f"::: factored_mwem.{factored_mwem._HOME.get(n, 'errors')}.{n}" for n in factored_mwem.__all__]
    told = (factored_mwem.__doc__ or "").partition("\n\nA synthetic table")[0]
    summary, _, table = told.partition("\n\n")
    return "\n\n".join(["# Reference", summary, f"```text\n{table}\n```", *names])


class Fenced(Extension):
    """Examples of docstrings as code: `>>>` would begin a quotation."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with its paragraphs that begin with `>>>` as blocks of code."""
    parts = text.split("\n\n")
    return "\n\n".join(f"```pycon\n{p}\n```" if p.startswith(">>>") else p for p in parts)
