"""index.html: every figure beside the paper's claims and their marks, in one file that needs no other."""

from __future__ import annotations

import base64
import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import jinja2
import numba
import numpy as np

from replay.figure import FAILS, HLM, HOLDS, OPEN, PAPER, PROJECT, Claim, Table

MARKS = {HOLDS: ("yes", "✓"), FAILS: ("no", "✗"), OPEN: ("open", "?")}
"""Verdict -> (CSS class, sign)."""
WHOSE = {PAPER: "The paper says", PROJECT: "This project adds"}
"""Whose claims -> what stands above them."""


class Section(NamedTuple):
    """What the page says of a figure: its panels as PNGs, none where it could not be drawn, and `effort` then
    says why.
    """

    name: str
    title: str
    settings: str
    source: str = HLM
    effort: str = ""
    images: Sequence[bytes] = ()
    claims: Sequence[Claim] = ()
    tables: Sequence[Table] = ()


def machine() -> list[str]:
    """What the seconds were measured on."""
    versions = {"Python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__}
    return [platform.platform(), f"{os.cpu_count()} cores", *(f"{of} {at}" for of, at in versions.items())]


def counted(claims: Iterable[Claim], whose: str) -> str:
    """How many of whose claims have each mark."""
    marks = Counter(claim.verdict for claim in claims if claim.whose == whose)
    words = {HOLDS: "hold", FAILS: "do not hold", OPEN: OPEN}
    return ", ".join(f"{marks[verdict]} {word}" for verdict, word in words.items())


def html(sections: Sequence[Section], facts: Sequence[str]) -> str:
    """The page; the claims of papers are counted by source, in the order in which the sources come first."""
    claims = [(section.source, claim) for section in sections for claim in section.claims]
    sources = dict.fromkeys(source for source, claim in claims if claim.whose == PAPER)
    room = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    room.filters["base64"] = lambda image: base64.b64encode(image).decode()
    template = room.from_string(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    return template.render(
        sections=sections,
        facts=facts,
        sources=[(name, counted((c for of, c in claims if of == name), PAPER)) for name in sources],
        own=counted((claim for _, claim in claims), PROJECT),
        marks=MARKS,
        whose=WHOSE,
    )
