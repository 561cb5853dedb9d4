"""One public record: what each command that spends writes, the ledger, the report and the card read. On the
code before, `ledger verify` said "it is no manifest" of a graph's, `report` and `card` refused it, and
`statistic`, `domain learn` and `ask` wrote none by themselves.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.catalogues import OWNER, toml
from support.commands import Fmwem

from factored_mwem import InputError, ask, learn, release_graph, sketch
from factored_mwem.pipeline.record.manifest import Manifest, read_record
from factored_mwem.pipeline.record.manifest_check import doubts
from factored_mwem.pipeline.record.statement import KINDS

TABLE = "age,sex\n" + "".join(f"{20 + i % 50},{'FM'[i % 2]}\n" for i in range(600))
DOMAIN = {
    "fields": [
        {"name": "sex", "categories": ["F", "M"]},
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
    ]
}
BOUNDS = ("--lower", 0, "--upper", 99)
COMMANDS = {
    "release": ("release", "t.csv", "--marginals", 1, "--domain", "d.json", "-o", "t.parquet"),
    "domain": ("domain", "learn", "t.csv", "-o", "learnt.json"),
    "statistic": ("statistic", "t.csv", "--column", "age", "--what", "median", *BOUNDS),
    "graph": ("graph", "e.csv", "--vertices", 12, "--delta", 0),
    "sketch": ("sketch", "build", "t.csv", "--key", "sex", "--size", 64),
    "ask": ("ask", "--table", "t.csv", "--domain", "d.json", "--queries", "q.txt", "--alpha", 0.2),
}
WRITES = {
    "release": "t.manifest.json",
    "domain": "learnt.manifest.json",
    "statistic": "age.median.manifest.json",
    "graph": "e.synthetic.manifest.json",
    "sketch": "t.sketch.manifest.json",
    "ask": "t.ask.manifest.json",
}


@pytest.fixture
def books(tmp_path: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TABLE)
    Path("e.csv").write_text("from,to\n" + "".join(f"{i},{(i + 1) % 12}\n" for i in range(12)))
    Path("d.json").write_text(json.dumps(DOMAIN))
    Path("q.txt").write_text("count where sex = F\n")
    Path("owner.toml").write_text(toml(OWNER))
    fmwem("ledger", "init", "b.ledger")
    fmwem("ledger", "add", "b.ledger", "--dataset", "d", "--epsilon", 100, "--delta", 1e-6)
    return "b.ledger"


@pytest.mark.parametrize("kind", COMMANDS)
def test_every_command_writes_a_record_that_every_reader_takes(kind: str, fmwem: Fmwem, books: str) -> None:
    epsilon = ("--epsilon", 4, "--ledger", books, "--dataset", "d")
    run = fmwem(*COMMANDS[kind], *epsilon)
    assert run.code == 0, run.err
    path = WRITES[kind]
    record = read_record(Path(path).read_bytes())
    assert record.kind == kind in KINDS and isinstance(record, Manifest) == (kind == "release")
    g = record.guarantee
    assert record.recompute() == g.spent_epsilon <= g.epsilon == 4 and g.assumptions
    assert g.unit in g.statement and record.manifest_version == 1
    checked = fmwem("ledger", "verify", books, path, "--json")
    assert checked.code == 0 and checked.facts["problems"] == [], checked.out
    assert fmwem("report", path).code == 0
    page = Path(path.replace(".manifest.json", ".report.html")).read_text()
    assert g.statement.split(",")[0] in page
    for one in g.assumptions.values():
        assert one.statement[:20] in page
    cards = fmwem("card", path, "-o", "cards/")
    assert cards.code == 0, cards.err
    if kind != "release":
        (card,) = Path("cards").iterdir()
        assert g.statement[:40] in card.read_text() and "taken on trust" in card.read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r["guarantee"].update(statement="nothing is promised"), "guarantee.statement"),
        (lambda r: r["settings"].update(vertices=13), "settings"),
        (lambda r: r.update(kind="sketch"), "kind"),
        (lambda r: r["ledger"][0].update(scale=9.0), "do not add up"),
        (lambda r: r.update(manifest_version=2), "version 2, and this program reads version 1"),
        (lambda r: r.update(kind="poem"), "is not one of"),
    ],
)
def test_a_graphs_record_that_was_changed_does_not_fit_the_books(
    change: object, words: str, fmwem: Fmwem, books: str
) -> None:
    fmwem(*COMMANDS["graph"], "--ledger", books, "--dataset", "d")
    path = Path(WRITES["graph"])
    facts = json.loads(path.read_text())
    change(facts)  # type: ignore[operator]
    path.write_text(json.dumps(facts))
    checked = fmwem("ledger", "verify", books, str(path), "--json")
    assert checked.code == 2 and any(words in problem for problem in checked.facts["problems"])


def test_a_statistic_that_was_made_is_read_again(fmwem: Fmwem, books: str) -> None:
    """The number itself is in the record, and a finished run is not paid for again."""
    asked = (*COMMANDS["statistic"], "--ledger", books, "--dataset", "d", "--run-id", "one", "-o", "m.json")
    first, again = fmwem(*asked), fmwem(*asked)
    assert first.facts["value"] == read_record(Path("m.json").read_bytes()).result["value"]
    assert again.facts == {**first.facts, "reused": True}


@pytest.mark.parametrize("kind", ["release", "domain", "statistic", "graph", "sketch"])
def test_a_run_that_was_finished_says_that_it_is_reused(kind: str, fmwem: Fmwem, books: str) -> None:
    """Of a sketch it said "reused": false, of a learnt domain nothing."""
    asked = (*COMMANDS[kind], "--epsilon", 4, "--ledger", books, "--dataset", "d", "--run-id", "one")
    first, again = fmwem(*asked), fmwem(*asked)
    assert (first.code, again.code) == (0, 0), again.err
    assert again.facts == {**first.facts, "reused": True} and first.facts["reused"] is False
    assert len(fmwem("ledger", "show", books, "--json").facts["datasets"][0]["releases"]) == 1


def test_charges_are_priced_with_their_delta(fmwem: Fmwem, books: str) -> None:
    """Smooth sensitivity with a delta: before, no finite cost was found for its charge."""
    which = ("--what", "max", "--epsilon", 1, "--delta", 1e-7, "-o", "m.json")
    run = fmwem("statistic", "t.csv", "--column", "age", *BOUNDS, *which, "--ledger", books, "--dataset", "d")
    assert run.code == 0, run.err
    record = read_record(Path("m.json").read_bytes())
    assert [charge.delta for charge in record.ledger] != ["0"] and record.recompute() <= 1
    checked = fmwem("ledger", "verify", books, "m.json", "--json")
    assert checked.facts["problems"] == [] and checked.code == 0
    for delta in (1e-9, 0.0, float("nan")):  # before, epsilon alone was compared with what is promised
        promise = record.guarantee.model_copy(update={"delta": delta})
        (doubt,) = doubts(record.model_copy(update={"guarantee": promise}))
        assert "deltas amount to 1e-07, more than" in doubt


@pytest.mark.parametrize("policy", ["x", 3, {"epsilon": 1.0}])
def test_what_is_no_policy_is_refused(policy: Any) -> None:
    """Before: an AttributeError."""
    table = pa.table({"a": [1, 2], "b": [2, 3]})
    for call in (learn, partial(release_graph, vertices=4), partial(sketch, column="a")):
        with pytest.raises(InputError, match="must be a Policy"):
            call(table, policy=policy)
    with pytest.raises(InputError, match="must be a Policy"), ask(table, domain={"a": 3}, policy=policy):
        pass


def test_a_strangers_record_steers_no_page(fmwem: Fmwem, books: str) -> None:
    """What a record says of its program and its file went into the card as it stood."""
    assert fmwem(*COMMANDS["statistic"]).code == 0
    path = Path(WRITES["statistic"])
    facts, evil = json.loads(path.read_text()), "`x`\n\n# <script>alert(1)</script>"
    facts |= {"tool": evil, "tool_version": evil, "noise_library": evil, "settings": {evil: evil}}
    facts["output"] = {"file": evil, "sha256": evil}
    facts["guarantee"]["unit"] = evil
    facts["guarantee"]["assumptions"][evil] = {"statement": evil, "enforced": False}
    path.write_text(json.dumps(facts))
    assert fmwem("card", str(path), "-o", "cards/").code == 0 and fmwem("report", str(path)).code == 0
    (card,), page = Path("cards").iterdir(), Path("age.median.report.html").read_text()
    for text in (card.read_text(), page):
        assert "<script>" not in text and "\n# &lt;" not in text


def test_a_record_is_not_written_over(fmwem: Fmwem, books: str) -> None:
    assert fmwem(*COMMANDS["statistic"]).code == 0
    before = Path(WRITES["statistic"]).read_bytes()
    refused = fmwem(*COMMANDS["statistic"])
    assert refused.code == 2 and "--overwrite" in refused.err and "budget was spent" not in refused.err
    assert Path(WRITES["statistic"]).read_bytes() == before
    assert fmwem(*COMMANDS["statistic"], "--overwrite").code == 0
