"""Other records than those of releases: the page and the card of a graph, a sketch, a statistic, a session or
a learnt domain: what was promised, what was spent, what it rests on. They use the record alone, which may
come from anybody.
"""

from __future__ import annotations

import math
from typing import Any

from factored_mwem.documents.budget import mechanisms_of
from factored_mwem.documents.owner import Owner
from factored_mwem.documents.page import counted, figure, filled, plain
from factored_mwem.pipeline.record.statement import KINDS, Statement, charges_of

MOST_FACTS = 40
"""Settings, results and charges that are shown."""


def record_page(record: Statement, file: str) -> str:
    """The HTML of the page about a record in `file`: the same bytes from the same record."""
    g, output = record.guarantee, record.output
    return filled(
        "record.html",
        title=plain(file, 80),
        released=KINDS[record.kind].released,
        kind=record.kind,
        promise=plain(g.statement, 400),
        numbers=_numbers(record),
        facts=[(name, plain(value, 200)) for name, value in _facts(record)],
        charges=[
            (plain(c.stage), c.mechanism.value, plain(", ".join(c.target), 80), figure(c.scale, 6))
            for c in record.ledger[:MOST_FACTS]
        ],
        more=max(0, len(record.ledger) - MOST_FACTS),
        assumed=[(one.enforced, plain(one.statement, 600)) for one in g.assumptions.values()],
        digest=(plain(output.file, 80), plain(output.sha256 or "", 64)) if output is not None else None,
        chain_head=plain(record.chain_head or "", 64),
        written=f"{record.created} by factored-mwem {plain(record.tool_version)}",
    )


def record_card(record: Statement, owner: Owner) -> str:
    """A card in Markdown: the owner's answers, and what the record says. The catalogues' own forms are about
    tables of rows.
    """
    card = filled(
        "record.md",
        record=record,
        owner=owner,
        released=KINDS[record.kind].released,
        numbers=_numbers(record),
        facts=[(name, plain(value, 200)) for name, value in _facts(record)],
        mechanisms=", ".join(mechanisms_of(charges_of(record.ledger))),
    )
    return f"{card}\n"


def _numbers(record: Statement) -> list[tuple[str, str]]:
    """The promise in numbers; charges are added up again for it."""
    g, recomputed = record.guarantee, record.recompute()
    agrees = math.isclose(recomputed, g.spent_epsilon, rel_tol=1e-9)
    spent = figure(g.spent_epsilon, 6) + (
        "" if agrees else f", but its charges amount to {figure(recomputed, 6)}"
    )
    books = "a ledger keeps count of all releases" if "ledger" in g.assumptions else "no ledger kept count"
    return [
        ("promised", f"epsilon {figure(g.epsilon)}, delta {figure(g.delta)}"),
        ("spent", f"epsilon {spent}, in {counted(len(record.ledger), 'charge')}"),
        ("protected", f"inputs that differ in {plain(g.unit, 400)}"),
        ("books", books),
    ]


def _facts(record: Statement) -> list[tuple[str, Any]]:
    """What was released, and with which public settings."""
    both = [*record.result.items(), *record.settings.items()]
    return [(plain(name), value) for name, value in both if value is not None][:MOST_FACTS]
