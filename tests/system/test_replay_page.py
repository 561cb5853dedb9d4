"""The replay's page: every claim once, marks counted by whose they are, tables as text, nothing from
elsewhere.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest
from replay import command, page
from replay.drawing import canvas, key, make_room, save
from replay.figure import FAILS, HLM, HOLDS, OPEN, PAPER, PROJECT, Claim, Table, filled, told

PIXEL, GRU = b"\x89PNG", "Theorems of Gupta, Roth and Ullman"
CLAIMS = [
    Claim("the paper's first <b>", HOLDS, "why 1 & 2"),
    Claim("the paper's second", FAILS, "why 2", PAPER),
    Claim("the paper's third", OPEN, "why 3", PAPER),
    Claim("the project's first", FAILS, "why 4", PROJECT),
]
TABLE = Table("caption <u>", ("a", "b & c"), (("1", "<2>"), ("3", "4")))


def section(name: str, claims: list[Claim], *tables: Table, source: str = HLM) -> page.Section:
    return page.Section(
        name, f"{name}: <title> & more", "settings <i>", source, "1 s", [PIXEL], claims, tables
    )


TEXT = page.html([section("one", CLAIMS[:2]), section("two", CLAIMS[2:], TABLE)], ["<facts>"])


class Seen(HTMLParser):
    """Tags that are open, and attributes that point somewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.open, self.targets, self.ids = set[str](), list[str](), list[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)
        self.targets += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]
        self.ids |= {value or "" for name, value in attrs if name == "id"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_claim_is_shown_once_with_its_mark_under_whose_it_is() -> None:
    for claim in CLAIMS:
        assert html.unescape(TEXT).count(claim.text) == html.unescape(TEXT).count(claim.why) == 1
    marks = re.findall(r'class="mark (\w+)">. ([a-z ]+)<', TEXT)
    assert [verdict for _, verdict in marks] == [claim.verdict for claim in CLAIMS]
    one, two = html.unescape(TEXT).split('id="two"')
    places = [two.index(words) for words in (page.WHOSE[PAPER], CLAIMS[2].text, page.WHOSE[PROJECT])]
    assert places == sorted(places) and places[-1] < two.index(CLAIMS[3].text)
    assert page.WHOSE[PROJECT] not in one


def test_the_counts_are_by_paper_and_of_the_project() -> None:
    """Each source apart; the project's all together, and none of it counted under a paper."""
    text = " ".join(page.html([section("one", CLAIMS), section("two", CLAIMS[:2], source=GRU)], []).split())
    assert f"{HLM}: 1 hold, 1 do not hold, 1 cannot be compared.<br>" in text
    assert f"{GRU}: 1 hold, 1 do not hold, 0 cannot be compared.<br>" in text
    assert "Claims of this project: 0 hold, 1 do not hold, 0 cannot be compared." in text
    beside = "Counts and theorems of Hardt, Ligett and McSherry (Table 1, Theorem 2.3)"
    sources = {name: told(import_module(f"replay.{name}"), "source") for name in command.NAMES}
    others = {"iterative": GRU, "table1": beside, "theorem": beside}
    assert sources == dict.fromkeys(command.NAMES, HLM) | others


def test_the_page_stands_alone_and_its_links_lead_somewhere() -> None:
    seen = Seen(TEXT)
    assert not seen.open and not {"script", "link", "iframe"} & seen.tags
    inside = [target[1:] for target in seen.targets if target.startswith("#")]
    assert inside == ["one", "two"] and set(inside) < seen.ids
    assert all(target.startswith(("data:image/png;base64,", "#")) for target in seen.targets)
    assert not any(words in TEXT for words in ("@import", "url(", "http")) and "NOT PRIVATE" in TEXT


def test_text_from_a_figure_is_escaped_and_tables_scroll_in_themselves() -> None:
    assert not re.search(r"<(title> &|i>|facts>|2>|b>|u>)", TEXT.partition("</head>")[2])
    assert '<div class="scroll" tabindex="0"><table><caption>caption &lt;u&gt;</caption>' in TEXT
    assert re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", TEXT) == ["a", "b &amp; c", "1", "&lt;2&gt;", "3", "4"]
    assert ".scroll { overflow-x: auto;" in TEXT


def test_what_the_paper_says_and_what_departs_from_it_is_on_the_page() -> None:
    """The listing rejects queries that were asked and sweeps a hundred times: it is not silent on either."""
    text = " ".join(html.unescape(TEXT).split())
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
    settings = told(import_module(f"replay.{name}"), "settings")
    assert "default generator" in settings and "epsilon" in settings.lower() and "{" not in settings


def test_words_take_numbers_lists_and_values_at_keys() -> None:
    values = {"n": 1234.5, "each": (0.5, 2.0), "at": {0.1: 1.0, "monetary": 2.0}}
    assert filled("{n:,.0f}:\n {each:g}; {each[0]}; {at:.1f}", values) == (
        "1,234: 0.5, 2; 0.5; 1.0 at 0.1, 2.0 at monetary"
    )


def test_a_figure_that_was_not_drawn_says_so() -> None:
    empty = page.Section("one", "One", "", effort="no data", claims=[Claim("what", OPEN, "no data")])
    assert "Not drawn." in page.html([empty], []) and "Not drawn." not in TEXT


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
    make_room(drawn)
    drawn.canvas.draw()
    for axis in axes:
        (legend,) = (key.get_window_extent() for key in axis.get_figure(root=False).legends)
        frame = axis.get_window_extent()
        assert legend.y1 <= axis.xaxis.label.get_window_extent().y1 < frame.y0
        others = [other for other in axes if other is not axis]
        assert not any(legend.overlaps(other.get_window_extent()) for other in others)
        assert frame.width > 3 * drawn.dpi and frame.height > 2 * drawn.dpi
    (tmp_path / "figure-9.png").write_bytes(PIXEL)
    files = save(drawn, tmp_path / "figure.png")
    assert files == [tmp_path / f"figure-{i}.png" for i in range(1, len(axes) + 1)]
    assert {*tmp_path.iterdir()} == {tmp_path / "figure.png", *files}
    widths = [int.from_bytes(file.read_bytes()[16:20], "big") for file in files]
    assert all(2 * 350 < width < 2.3 * 480 for width in widths)  # twice as dense as it is shown


def test_a_key_of_a_whole_figure_is_refused(tmp_path: Path) -> None:
    """A panel is shown alone, and would have none."""
    drawn, (axis, _) = canvas(2)
    axis.plot([0, 1], [0, 1], label="line")
    drawn.legend()
    with pytest.raises(ValueError, match="belongs to its panel"):
        save(drawn, tmp_path / "figure.png")
