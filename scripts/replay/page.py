"""index.html: every figure beside the paper's claims and their marks, in one file that needs no other."""

from __future__ import annotations

import base64
import html as escaping
import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

from replay.figure import FAILS, HOLDS, OPEN, Claim

MARKS = {HOLDS: ("yes", "✓"), FAILS: ("no", "✗"), OPEN: ("open", "?")}
"""Verdict -> (CSS class, sign)."""

STYLE = """
:root { color-scheme: light dark; --edge: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem;
  background: Canvas; color: CanvasText; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.2rem; margin: 0 0 .75rem; }
.stamp { display: inline-block; border: 2px solid #c0392b; color: #c0392b; font-weight: 700;
  letter-spacing: .08em; padding: .1rem .5rem; }
nav a { margin-right: 1rem; }
section { border-top: 1px solid var(--edge); margin-top: 2.5rem; padding-top: 1.5rem; }
img { max-width: 100%; height: auto; background: white; border-radius: 4px; }
ul.claims { list-style: none; padding: 0; }
ul.claims li { display: grid; grid-template-columns: 11rem 1fr; gap: .25rem 1rem; margin: .6rem 0; }
.mark { font-weight: 600; } .yes { color: #1e8449; } .no { color: #c0392b; } .open { color: #b9770e; }
.why, .settings, .facts, .effort { font-size: .875rem; opacity: .8; overflow-wrap: anywhere; }
.why { grid-column: 2; }
@media (prefers-color-scheme: dark) {
  .yes { color: #58d68d; } .no, .stamp { color: #ff7b6b; border-color: #ff7b6b; } .open { color: #f5b041; }
}
@media (max-width: 40rem) { ul.claims li { grid-template-columns: 1fr; } .why { grid-column: 1; } }
"""


@dataclass(frozen=True)
class Section:
    """What the page says of a figure; `image` is empty where it could not be drawn, and `effort` then says
    why.
    """

    name: str
    title: str
    settings: str
    effort: str
    image: bytes
    claims: Sequence[Claim]


def machine() -> list[str]:
    """What the seconds were measured on."""
    versions = {"Python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__}
    return [
        platform.platform(),
        f"{os.cpu_count()} cores",
        *(f"{name} {version}" for name, version in versions.items()),
    ]


def html(sections: Sequence[Section], facts: Sequence[str]) -> str:
    marks = Counter(claim.verdict for section in sections for claim in section.claims)
    counted = ", ".join(f"{marks[verdict]} {verdict}" for verdict in MARKS)
    links = "".join(f'<a href="#{section.name}">{section.name}</a>' for section in sections)
    body = "\n".join(map(drawn, sections))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The MWEM paper replayed</title><style>{STYLE}</style></head><body>
<h1>The MWEM paper replayed</h1>
<p><span class="stamp">NOT PRIVATE</span></p>
<p>The experiments of Hardt, Ligett and McSherry, "A Simple and Practical Algorithm for Differentially
Private Data Release", on the components, kernels and queries of factored-mwem, beside what the paper claims.
Everything here was made from the tables themselves, with an exact number of records and fixed seeds. Claims:
{counted}; each mark is computed from the numbers in the CSV file of its figure.</p>
<p class="facts">{escaping.escape(" · ".join(facts))}</p>
<nav>{links}</nav>
{body}
</body></html>
"""


def drawn(section: Section) -> str:
    image = base64.b64encode(section.image).decode()
    shown = (
        f'<img alt="{escaping.escape(section.title)}" src="data:image/png;base64,{image}">'
        if image
        else "<p><b>Not drawn.</b></p>"
    )
    title = escaping.escape(section.title)
    return f"""<section id="{section.name}"><h2>{title} <span class="stamp">NOT PRIVATE</span></h2>
{shown}
<ul class="claims">{"".join(map(claimed, section.claims))}</ul>
<p class="settings">{escaping.escape(section.settings)}</p>
<p class="effort">{escaping.escape(section.effort)}</p></section>"""


def claimed(claim: Claim) -> str:
    style, sign = MARKS[claim.verdict]
    text, why = escaping.escape(claim.text), escaping.escape(claim.why)
    mark = f'<span class="mark {style}">{sign} {claim.verdict}</span>'
    return f'<li>{mark}<span>{text}</span><span class="why">{why}</span></li>'
