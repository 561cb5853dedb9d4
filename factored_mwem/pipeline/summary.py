"""The summary of a release in a terminal and in a notebook: public facts, and a few synthetic rows."""

from __future__ import annotations

import html
from collections.abc import Iterable

import pyarrow as pa

from factored_mwem.errors import shortened, some_names
from factored_mwem.pipeline.saving.model_fields import Contents


def facts_of(contents: Contents) -> dict[str, str]:
    """Name and value of each fact, in printable lines that fit a screen."""
    manifest, trees = contents.manifest, [part.tree for part in contents.model.components]
    promised, domain = manifest.guarantee, contents.domain
    sizes = [(size, tree, i) for tree in trees for i, size in enumerate(tree.cells)]
    cells, tree, clique = max(sizes, key=lambda of: of[0])
    over = [domain.names[contents.model.levels.attribute[v]] for v in tree.cliques[clique]]
    measured = (
        _count(len(manifest.measurements), "marginal"),
        _count(sum(r.subsets for r in manifest.residuals), "residual"),
        _count(len(manifest.questions), "question"),
    )
    return {
        "engine": manifest.policy["engine"],
        "rows": f"{contents.rows:,}",
        "columns": f"{len(contents.schema):,}: {some_names(contents.schema.names)}",
        "promised": f"epsilon {promised.epsilon:g}, delta {promised.delta:g} ({promised.neighbours})",
        "spent": f"epsilon {promised.spent_epsilon:.6g}",
        "measured": ", ".join(phrase for phrase in measured if phrase[0] != "0") or "nothing",
        "model": f"{_count(len(sizes), 'clique')}, {_count(contents.model.cells, 'cell')}",
        "largest": f"{_count(cells, 'cell')} over {some_names(over)}",
    }


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def in_html(facts: dict[str, str], rows: pa.Table) -> str:
    """Two small tables, in which all text of the release is escaped."""
    columns = rows.slice(0, 5).to_pydict()
    head = _row(map(shortened, columns), cell="th")
    body = "".join(
        _row("" if v is None else str(v)[:80] for v in row) for row in zip(*columns.values(), strict=True)
    )
    table_rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(of)}</td></tr>" for name, of in facts.items()
    )
    plain = '<table class="tex2jax_ignore mathjax_ignore">'  # notebooks would typeset text between $ signs
    return f"{plain}<caption>Release</caption>{table_rows}</table>{plain}{head}{body}</table>"


def _row(values: Iterable[str], *, cell: str = "td") -> str:
    return f"<tr>{''.join(f'<{cell}>{html.escape(value)}</{cell}>' for value in values)}</tr>"
