"""The replay's page: every claim once, marks counted by whose they are, tables as text, nothing from
elsewhere.
"""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest
from replay import command, figure, page
from replay.figure import (
    BESIDE,
    FAILS,
    GRU,
    HLM,
    HOLDS,
    OPEN,
    PAPER,
    PROJECT,
    Claim,
    Table,
    canvas,
    key,
    panels,
    save,
)

PIXEL = b"\x89PNG"


def section(name: str, claims: list[Claim], tables: list[Table] | None = None) -> page.Section:
    return page.Section(name, f"{name}: <title> & more", "settings <i>", "1 s", [PIXEL], claims, tables or ())


CLAIMS = [
    Claim("the paper's first <b>", HOLDS, "why 1 & 2"),
    Claim("the paper's second", FAILS, "why 2", PAPER),
    Claim("the paper's third", OPEN, "why 3", PAPER),
    Claim("the project's first", FAILS, "why 4", PROJECT),
]
TABLE = Table("caption <u>", ("a", "b & c"), (("1", "<2>"), ("3", "4")))


class Seen(HTMLParser):
    """Tags that were opened, and attributes that point somewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.targets: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)
        self.targets += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def seen(text: str) -> Seen:
    parser = Seen()
    parser.feed(text)
    return parser


def test_every_claim_is_shown_once_with_its_mark_under_whose_it_is() -> None:
    text = page.html([section("one", CLAIMS[:2]), section("two", CLAIMS[2:], [TABLE])], ["facts"])
    for claim in CLAIMS:
        assert text.count(html.escape(claim.text)) == 1 and text.count(html.escape(claim.why)) == 1
    marks = re.findall(r'class="mark (\w+)">. ([a-z ]+)<', text)
    assert [verdict for _, verdict in marks] == [claim.verdict for claim in CLAIMS]
    two = text[text.index('id="two"') :]
    heads = [two.index(page.WHOSE[whose]) for whose in (PAPER, PROJECT)]
    texts = [two.index(html.escape(claim.text)) for claim in CLAIMS[2:]]
    assert heads[0] < texts[0] < heads[1] < texts[1]
    assert page.WHOSE[PROJECT] not in text[: text.index('id="two"')]


def test_the_counts_are_by_paper_and_of_the_project() -> None:
    """Each source apart; the project's all together, and none of it counted under a paper."""
    theirs = replace(section("two", CLAIMS[:2]), source=GRU)
    text = " ".join(page.html([section("one", CLAIMS), theirs], []).split())
    assert f"{HLM}: 1 hold, 1 do not hold, 1 cannot be compared.<br>" in text
    assert f"{GRU}: 1 hold, 1 do not hold, 0 cannot be compared.<br>" in text
    assert "Claims of this project: 0 hold, 1 do not hold, 0 cannot be compared." in text
    sources = {name: getattr(import_module(f"replay.{name}"), "SOURCE", HLM) for name in command.NAMES}
    others = {"iterative": GRU, "table1": BESIDE, "theorem": BESIDE}
    assert sources == dict.fromkeys(command.NAMES, HLM) | others


def test_nothing_comes_from_elsewhere_and_links_lead_somewhere() -> None:
    found = seen(page.html([section("one", CLAIMS, [TABLE]), section("two", CLAIMS)], ["facts"]))
    assert not found.open and not {"script", "link", "iframe"} & set(found.tags)
    inside = [target[1:] for target in found.targets if target.startswith("#")]
    assert inside == ["one", "two"] and set(inside) < set(found.ids)
    assert all(target.startswith(("data:image/png;base64,", "#")) for target in found.targets)
    assert "@import" not in page.STYLE and "url(" not in page.STYLE and "http" not in page.STYLE


def test_text_from_a_figure_is_escaped() -> None:
    text = page.html([section("one", CLAIMS, [TABLE])], ["<facts>"])
    assert not re.search(r"<(title> &|i>|facts>|2>|b>)", text.partition("</head>")[2])
    assert "<u>" not in text and "&lt;2&gt;" in text


def test_tables_are_text_that_scrolls_in_itself() -> None:
    text = page.html([section("one", CLAIMS, [TABLE])], [])
    assert '<div class="scroll" tabindex="0"><table><caption>caption &lt;u&gt;</caption>' in text
    assert re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", text) == ["a", "b &amp; c", "1", "&lt;2&gt;", "3", "4"]
    assert ".scroll { overflow-x: auto;" in page.STYLE and "nav {" in page.STYLE


def test_what_the_paper_says_and_what_departs_from_it_is_on_the_page() -> None:
    """The listing rejects queries that were asked and sweeps a hundred times: it is not silent on either."""
    text = html.unescape(page.html([section("one", CLAIMS)], []))
    for words in (
        "clipped to the range",
        "mixed half and half with the uniform start",
        "“while (measurements.ContainsKey(qi))”",
        "“for (int iteration = 0; iteration < 100; iteration++)”",
        "“We do this in all of our experiments.”",
        "Departs from the paper's listing",
        "thresholds of the marks",
    ):
        assert words in text
    assert "the paper does not say" not in text.lower()


@pytest.mark.parametrize("name", [name for name in command.NAMES if name != "table1"])
def test_settings_list_seeds_and_epsilon(name: str) -> None:
    """Table 1 counts, and draws nothing."""
    settings = import_module(f"replay.{name}").SETTINGS
    assert "default generator" in settings and "epsilon" in settings.lower()


def test_a_figure_that_was_not_drawn_says_so() -> None:
    empty = page.Section("one", "One", "", "no data", [], [Claim("what", OPEN, "no data")])
    assert "Not drawn." in page.html([empty], [])


@pytest.mark.parametrize(("rows", "lines", "words"), [(1, 3, 3), (2, 4, 6), (1, 12, 8)])
def test_a_key_lies_below_its_panel_and_takes_nothing_off_it(
    tmp_path: Path, rows: int, lines: int, words: int
) -> None:
    """Also keys that are wide, or have many lines; and panels have files of their own."""
    drawn, axes = canvas(2, rows)
    for axis in axes:
        for line in range(lines):
            axis.plot([0, 1], [line, 1], label=" ".join(["word"] * words) + f" {line}")
        axis.set(xlabel="across", ylabel="up")
        key(axis)
    figure._make_room(drawn)
    drawn.canvas.draw()
    for axis in axes:
        legend, frame = axis.get_legend().get_window_extent(), axis.get_window_extent()
        assert legend.y1 <= axis.xaxis.label.get_window_extent().y1 < frame.y0
        others = [other for other in axes if other is not axis]
        assert not any(legend.overlaps(other.get_window_extent()) for other in others)
        assert not any(legend.overlaps(other.get_legend().get_window_extent()) for other in others)
        assert frame.width > 3 * drawn.dpi and frame.height > 2 * drawn.dpi
    (tmp_path / "figure-9.png").write_bytes(PIXEL)
    save(drawn, tmp_path / "figure.png")
    files = panels(tmp_path / "figure.png")
    assert [file.name for file in files] == [f"figure-{i}.png" for i in range(1, len(axes) + 1)]
    widths = [int.from_bytes(file.read_bytes()[16:20], "big") for file in files]
    assert all(2 * 350 < width < 2.3 * 480 for width in widths)  # twice as dense as it is shown


def test_a_key_of_a_whole_figure_is_refused(tmp_path: Path) -> None:
    """A panel is shown alone, and would have none."""
    drawn, (axis, _) = canvas(2)
    axis.plot([0, 1], [0, 1], label="line")
    drawn.legend()
    with pytest.raises(ValueError, match="belongs to its panel"):
        save(drawn, tmp_path / "figure.png")
