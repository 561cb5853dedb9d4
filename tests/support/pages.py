"""Pages as a reader of HTML sees them, and a small table to make them of."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa

MOST_BYTES = 2_000_000
PEOPLE = {
    "fields": [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}, "bins": 10},
        {"name": "town", "categories": ["north", "south", "west"]},
        {"name": "member", "type": "boolean", "constraints": {"required": True}},
    ]
}
SIDE = {"name": "side", "categories": ["up", "down", "left"]}
VOID = {"meta", "br", "path", "circle", "rect"}
ALLOWED = set(
    re.findall(
        r"\w+",
        "html head meta title style body header footer main nav section h1 h2 h3 p ul ol li dl dt dd a b em "
        "strong span bdi br code pre div figure figcaption svg path g circle rect text table caption thead "
        "tbody tr th td details summary",
    )
)


class Page(HTMLParser):
    """What a page holds: its tags, which must be closed in their order, its attributes, its text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.rows: list[list[str]] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.words += data
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1] += data


def check_page(text: str) -> Page:
    """A page that is whole, small, and loads and runs nothing."""
    assert len(text.encode()) < MOST_BYTES
    page = Page(text)
    assert page.tags <= ALLOWED
    assert not re.search(r"https?:|url\(|@import|javascript:", text)
    for tag, name, value in page.attributes:
        assert not name.startswith("on") and name not in ("src", "srcset", "action", "data")
        assert name != "href" or (tag == "a" and value.startswith("#"))
    csp = [
        v for tag, name, v in page.attributes if tag == "meta" and name == "content" and "default-src" in v
    ]
    assert csp == ["default-src 'none'; style-src 'unsafe-inline'"]
    labels = [v for tag, name, v in page.attributes if tag == "svg" and name in ("aria-label", "aria-hidden")]
    assert all(labels)
    return page


def people(rows: int = 400) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "age": rng.integers(0, 100, rows),
            "town": rng.choice(["north", "south", "west"], rows, p=[0.6, 0.3, 0.1]),
            "member": rng.random(rows) < 0.3,
        }
    )


HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "</style><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "\u202egnp.exe\u2066",
    "{{ 7 * 7 }}{% raw %}",
    "a\nb\tc",
    "x" * 10_000,
    "<!--",
    "&lt;b&gt;",
]
