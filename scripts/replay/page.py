"""index.html: every figure beside the paper's claims and their marks, in one file that needs no other."""

from __future__ import annotations

import base64
import html as escaping
import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numba
import numpy as np

from replay.figure import FAILS, HLM, HOLDS, OPEN, PAPER, PROJECT, Claim, Table

MARKS = {HOLDS: ("yes", "✓"), FAILS: ("no", "✗"), OPEN: ("open", "?")}
"""Verdict -> (CSS class, sign)."""
WHOSE = {PAPER: "The paper says", PROJECT: "This project adds"}
"""Whose claims -> what stands above them."""

UNDISCLOSED = (
    "The number of records is exact and public, as in the paper's code (“should be taken privately, we "
    "ignore”); privately it would cost a part of epsilon.",
    "Half of a round's epsilon pays for the choice and half for the answer, as in Figure 1 of the paper and "
    "in its listing (Figure 8).",
    "No run asks a question twice, as in the paper's listing (“rejecting prior queries”: “while "
    "(measurements.ContainsKey(qi))”), but for plain MWEM in Figure 3, which is Figure 1 of the paper, where "
    "nothing is rejected.",
    "A run ends with its last iterate, not with the average that Theorem 2.3 is about: “We do this in all of "
    "our experiments.” The same is said of replaying measurements.",
    "Departs from the paper's listing: a noisy answer is clipped to the range that the question can have (0 "
    "to n, or -n to n for parities) before a step; the listing clips nothing. Without this the step of Lemma "
    "A.3 can be longer than its proof allows.",
    "Departs from the paper's listing: where measurements are replayed, the newest one takes one step first, "
    "whatever its gap (without a guard); then sweeps, one fewer than stated, go over all measurements in the "
    "order in which they came, and end early once none takes a step; with a guard a measurement takes none "
    "where the model is within a stated number of standard deviations of its noise. The listing sweeps 100 "
    "times (“for (int iteration = 0; iteration < 100; iteration++)”) and has no guard; the text says “poorly "
    "reflected”.",
    "Not in the paper: where a run starts from a histogram, a stated part of epsilon pays for noisy counts "
    "of all cells; a noise scale is taken off each, what is then below zero is set to zero, and the result "
    "is mixed half and half with the uniform start, so that no cell begins at zero. The paper gives neither "
    "the part nor the mixture.",
    "Epsilon, T, the number of runs and how their generators are seeded are in the Settings of each figure; "
    "most are illegible in the text that was replayed, and then chosen here.",
    "The thresholds of the marks (noticeably, often, substantially, negligible, none, ...) are this page's "
    "own: the paper gives none.",
    "Noise is floating-point and from fixed seeds.",
)
"""What holds in every figure of the MWEM paper: what it says, what it does not, and what departs from it."""

STYLE = """
:root { color-scheme: light dark; --edge: color-mix(in srgb, currentColor 18%, transparent); }
* { box-sizing: border-box; }
html { scroll-padding-top: 3.5rem; -webkit-text-size-adjust: 100%; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem;
  background: Canvas; color: CanvasText; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 1rem; } h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p, li { max-width: 46rem; }
.stamp { display: inline-block; border: 2px solid #c0392b; color: #c0392b; font-weight: 700;
  font-size: .75rem; letter-spacing: .08em; padding: 0 .4rem; white-space: nowrap; vertical-align: middle; }
nav { position: sticky; top: 0; z-index: 1; display: flex; gap: .25rem; overflow-x: auto;
  margin: 1.5rem -1.25rem 0; padding: .5rem 1.25rem; background: Canvas; border-bottom: 1px solid var(--edge);
  scrollbar-width: thin; }
nav a { flex: none; padding: .35rem .6rem; border-radius: .4rem; white-space: nowrap; text-decoration: none;
  color: LinkText; }
nav a:hover { background: var(--edge); }
section { border-bottom: 1px solid var(--edge); padding: 2rem 0 1.5rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 30rem)); gap: 1rem;
  align-items: start; }
.panels img { width: 100%; height: auto; background: white; border-radius: 4px; }
.scroll { overflow-x: auto; margin: 1rem 0; max-width: 100%; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .35rem; }
th, td { padding: .25rem .75rem .25rem 0; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--edge); }
th:first-child, td:first-child { text-align: left; }
ul.claims { list-style: none; padding: 0; margin: 0; }
ul.claims li { display: grid; grid-template-columns: 13rem minmax(0, 1fr); gap: .15rem 1rem; margin: .8rem 0;
  max-width: none; }
.mark { font-weight: 600; grid-row: 1 / span 2; white-space: nowrap; }
.yes { color: #1e8449; } .no { color: #c0392b; } .open { color: #9a5b00; }
.why, .settings, .facts, .effort { font-size: .875rem; opacity: .85; overflow-wrap: anywhere; }
.why { grid-column: 2; max-width: 46rem; }
details summary { cursor: pointer; font-weight: 600; } details li { margin: .35rem 0; }
@media (prefers-color-scheme: dark) {
  .panels img { filter: invert(.92) hue-rotate(180deg); }
  .yes { color: #58d68d; } .no, .stamp { color: #ff7b6b; border-color: #ff7b6b; } .open { color: #f5b041; }
}
@media (max-width: 40rem) {
  body { padding: 1rem 1rem 3rem; } nav { margin: 1rem -1rem 0; padding: .5rem 1rem; }
  ul.claims li { grid-template-columns: minmax(0, 1fr); } .why { grid-column: 1; }
  .mark { grid-row: auto; }
}
"""


@dataclass(frozen=True)
class Section:
    """What the page says of a figure: its panels as PNGs, none where it could not be drawn, and `effort` then
    says why.
    """

    name: str
    title: str
    settings: str
    effort: str
    images: Sequence[bytes]
    claims: Sequence[Claim]
    tables: Sequence[Table] = field(default=())
    source: str = HLM


def machine() -> list[str]:
    """What the seconds were measured on."""
    versions = {"Python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__}
    return [
        platform.platform(),
        f"{os.cpu_count()} cores",
        *(f"{name} {version}" for name, version in versions.items()),
    ]


def counted(claims: Iterable[Claim], whose: str) -> str:
    """How many of whose claims have each mark."""
    marks = Counter(claim.verdict for claim in claims if claim.whose == whose)
    words = {HOLDS: "hold", FAILS: "do not hold", OPEN: OPEN}
    return ", ".join(f"{marks[verdict]} {word}" for verdict, word in words.items())


def by_source(sections: Sequence[Section]) -> list[str]:
    """A line for each source whose claims there are, in the order in which they come first."""
    found: dict[str, list[Claim]] = {}
    for section in sections:
        found.setdefault(section.source, []).extend(c for c in section.claims if c.whose == PAPER)
    return [f"{source}: {counted(claims, PAPER)}." for source, claims in found.items() if claims]


def html(sections: Sequence[Section], facts: Sequence[str]) -> str:
    claims = [claim for section in sections for claim in section.claims]
    links = "".join(
        f'<a href="#{section.name}">{escaping.escape(section.title.partition(":")[0])}</a>'
        for section in sections
    )
    body = "\n".join(map(drawn, sections))
    settings = "".join(f"<li>{escaping.escape(each)}</li>" for each in UNDISCLOSED)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The papers replayed</title><style>{STYLE}</style></head><body>
<h1>The papers replayed</h1>
<p><span class="stamp">NOT PRIVATE</span></p>
<p>The experiments of Hardt, Ligett and McSherry, "A Simple and Practical Algorithm for Differentially
Private Data Release", on the components, kernels and queries of factored-mwem, and the constructions of
Gupta, Roth and Ullman, "Iterative Constructions and Private Data Release", beside what the papers claim.
Everything here was made from the tables themselves, with an exact number of records and fixed seeds. Each
mark is computed from the numbers in the CSV file of its figure. Words in “quotes” are the paper's own.</p>
<p>{"<br>".join(map(escaping.escape, by_source(sections)))}<br>Claims of this project:
{counted(claims, PROJECT)}.</p>
<p class="facts">{escaping.escape(" · ".join(facts))}</p>
<nav>{links}</nav>
<section id="settings"><details open>
<summary>What is the same in all figures of the MWEM paper here, and where it departs from the paper</summary>
<ul>{settings}</ul></details></section>
{body}
</body></html>
"""


def drawn(section: Section) -> str:
    title = escaping.escape(section.title)
    return f"""<section id="{section.name}"><h2>{title} <span class="stamp">NOT PRIVATE</span></h2>
{_panels(section)}
{"".join(map(tabled, section.tables))}
{"".join(_claims(section.claims, whose) for whose in WHOSE)}
<h3>Settings</h3>
<p class="settings">{escaping.escape(section.settings)}</p>
<p class="effort">{escaping.escape(section.effort)}</p></section>"""


def _panels(section: Section) -> str:
    if not section.images:
        return "" if section.tables else "<p><b>Not drawn.</b></p>"
    many = len(section.images) > 1
    images = []
    for number, image in enumerate(section.images, start=1):
        alt = escaping.escape(section.title + (f", panel {number}" if many else ""))
        source = base64.b64encode(image).decode()
        images.append(f'<img alt="{alt}" src="data:image/png;base64,{source}">')
    return f'<div class="panels">{"".join(images)}</div>'


def tabled(table: Table) -> str:
    """A table that scrolls in itself where the page is narrower."""
    head = "".join(f'<th scope="col">{escaping.escape(cell)}</th>' for cell in table.header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escaping.escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    caption = escaping.escape(table.caption)
    return f"""<div class="scroll" tabindex="0"><table><caption>{caption}</caption>
<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"""


def _claims(claims: Sequence[Claim], whose: str) -> str:
    own = [claim for claim in claims if claim.whose == whose]
    return f'<h3>{WHOSE[whose]}</h3><ul class="claims">{"".join(map(claimed, own))}</ul>' if own else ""


def claimed(claim: Claim) -> str:
    style, sign = MARKS[claim.verdict]
    text, why = escaping.escape(claim.text), escaping.escape(claim.why)
    mark = f'<span class="mark {style}">{sign} {claim.verdict}</span>'
    return f'<li>{mark}<span>{text}</span><span class="why">{why}</span></li>'
