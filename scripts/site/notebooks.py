"""The tutorials: notebooks that keep the outputs of a run, which the site shows and the tests make anew.

`python scripts/site/notebooks.py [NAME.ipynb ...]` runs them and writes their outputs; each runs in a folder
of its own with the bundled tables. Jupyter is not needed: a cell is run as Jupyter runs it, in one process.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TUTORIALS = ("release", "answers", "pipeline", "linked")
"""In reading order."""
PLOTTED = {"svg.fonttype": "none", "svg.hashsalt": "tutorial", "figure.figsize": (6.4, 2.8), "font.size": 9}
"""Of figures: small files, text as text."""
SHOWN = ("image/svg+xml", "text/html", "text/plain")
"""What a cell may show, the first that there is."""


def load(name: str) -> dict[str, Any]:
    """A tutorial by its name."""
    return json.loads((HERE / "tutorials" / f"{name}.ipynb").read_text(encoding="utf-8"))


def run(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with the outputs of a run in `folder`, which gets the bundled tables. Raises what a
    cell raises.
    """
    if not (folder / "datasets").exists():
        shutil.copytree(HERE.parents[1] / "datasets", folder / "datasets")
    import matplotlib
    from matplotlib import pyplot

    names: dict[str, Any] = {"__name__": "__main__"}
    cells: list[dict[str, Any]] = []
    with contextlib.chdir(folder), matplotlib.rc_context({"backend": "svg", **PLOTTED}):
        pyplot.close("all")  # what was drawn in this process before is no cell's
        for cell in notebook["cells"]:
            code = cell["cell_type"] == "code"
            made = {"outputs": _outputs("".join(cell["source"]), names)} if code else {}
            cells.append(cell | made)
    return notebook | {"cells": cells}


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs a cell: what it prints, the value of its last line, and its figures, in the notebook's format."""
    body, last, said = ast.parse(source).body, None, io.StringIO()
    if body and isinstance(body[-1], ast.Expr):
        last = ast.Expression(body.pop().value)  # type: ignore[attr-defined]
    value = None
    with contextlib.redirect_stdout(said):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(last, "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if said.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": said.getvalue()})
    figures = list(_figures())
    if value is not None and not figures:
        html = value._repr_html_() if hasattr(value, "_repr_html_") else None
        outputs.append(_display({"text/html": html} if html else {"text/plain": repr(value)}))
    return outputs + [_display({"image/svg+xml": svg}) for svg in figures]


def _figures() -> list[str]:
    """The figures that a cell has drawn; they are closed."""
    from matplotlib import pyplot

    texts = []
    for number in pyplot.get_fignums():
        drawn = io.StringIO()
        pyplot.figure(number).savefig(drawn, format="svg", bbox_inches="tight", metadata={"Date": None})
        texts.append(drawn.getvalue()[drawn.getvalue().index("<svg") :])
    pyplot.close("all")
    return texts


def _display(data: dict[str, str]) -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": data}


def markdown(notebook: dict[str, Any]) -> str:
    """The notebook as a page. HTML loses its empty lines, which would end it in Markdown, and its styles."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            kind, text = kind_of(output)
            text = re.sub(r"<style.*?</style>|<\?.*?\?>|<!DOC.*?>", "", text.strip(), flags=re.DOTALL)
            text = re.sub(r"<(table|tr)\b[^>]*>", r"<\1>", text)
            text = re.sub(r"\n\s*\n", "\n", text)
            parts.append(f"```text\n{text}\n```" if kind == "text/plain" else f"<div>\n{text}\n</div>")
    return "\n\n".join(parts) + "\n"


def kind_of(output: dict[str, Any]) -> tuple[str, str]:
    """The media type of an output, and its text."""
    if output["output_type"] == "stream":
        return "text/plain", "".join(output["text"])
    kind = next(kind for kind in SHOWN if kind in output["data"])
    return kind, "".join(output["data"][kind])


def main() -> None:
    """Write the outputs of a run into the notebooks."""
    for name in [Path(given).stem for given in sys.argv[1:]] or TUTORIALS:
        with tempfile.TemporaryDirectory() as folder:
            made = run(load(name), Path(folder))
        path = HERE / "tutorials" / f"{name}.ipynb"
        path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(os.path.relpath(path))


if __name__ == "__main__":
    main()
