"""From the bytes of a person to what is released: hostile keys, types, names, drafts, empty tables."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.fakes import FakeNoise
from support.marks import others_slow

from factored_mwem import Domain, FmwemError, LedgerFile, Policy, Release, Workload, draft, release
from factored_mwem.accounting.conversion import Composition
from factored_mwem.cli.console import say, visible
from factored_mwem.errors import Changed, InputError, NothingLearnt
from factored_mwem.mechanisms import learn as learning
from factored_mwem.mechanisms import tree
from factored_mwem.pipeline import sampling as sample
from factored_mwem.pipeline.record.assumptions import assumptions_of
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.record.manifest_check import check_books
from factored_mwem.pipeline.release import make
from factored_mwem.privacy.discover import discover
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.request.request import Request
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.tables.inputs.text_form import TextForm

HOSTILE = [
    *("male", "male\0x", "male\0", "\0", "\0\0", "", "female", "f\0emale", "é", "é\0", "0", "1"),
    *("x" * 10_000, "x" * 10_000 + "\0"),
]


def test_keys_go_through_the_library_whole() -> None:
    """It takes C strings: "male\\0x" came out as "male", whose count was overwritten."""
    counts = {key: 10**9 * (i + 1) for i, key in enumerate(HOSTILE)}
    kept = OpenDPNoise(Composition.ZCDP).threshold(counts, scale=1.0, threshold=1000)
    assert set(kept) == set(counts)
    assert all(abs(kept[key] - counts[key]) < 1000 for key in counts)
    assert OpenDPNoise(Composition.ZCDP).threshold({}, scale=1.0, threshold=1000) == {}


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("line", ["male\0x,yes", "male\0,yes", '"male\0\0",no'])
def test_a_nul_deletes_no_category(tmp_path: Path, line: str) -> None:
    """4,000 rows, epsilon 1: with this line more, twenty times, for rarer values are left out before noise is
    drawn, `male` is gone 100 times out of 100 if keys go to the library as they are.
    """
    rows = ["male,yes", "female,no", "male,no", "female,yes"] * 1000
    (tmp_path / "t.csv").write_text("sex,answer\n" + "\n".join([*rows, *[line] * 20, *rows[:1]]) + "\n")
    for _ in range(3):
        assert set(release(tmp_path / "t.csv", 1, epsilon=1.0).domain["sex"].values) == {"male", "female"}


# --- types


DOMAIN = {"fields": [{"name": "c", "type": "string", "categories": ["v0", "v1", "other"], "other": "other"}]}


def type_of(source: Any, domain: Any = DOMAIN, **choices: Any) -> pa.DataType:
    """The type that column `c` leaves with."""
    made = release(source, 1, domain=domain, epsilon=1.0, rows=3, **choices)
    assert made.to_arrow().schema.field("c").type == made.schema.field("c").type
    return made.schema.field("c").type


@pytest.mark.parametrize("kind", ["frame", "parquet", "feather"])
def test_one_more_category_does_not_show_in_the_schema(tmp_path: Path, kind: str) -> None:
    """A pandas categorical of 129 values has codes of 16 bits; the released dictionary had them, too."""
    for size in (127, 129):
        frame = pd.DataFrame({"c": pd.Categorical([f"v{i}" for i in range(size)])})
        source: Any = frame if kind == "frame" else tmp_path / f"{size}.{kind}"
        if kind != "frame":
            getattr(frame, f"to_{kind}")(source)
        assert type_of(source) == pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize("values", [["1.25", "2.50"], ["1.25", "12345.5"], ["1", "2.123456789"]])
@pytest.mark.parametrize("kind", ["object", "category"])
def test_the_digits_of_one_decimal_do_not_show(values: list[str], kind: str) -> None:
    """Inferred decimal128(3, 2) refused a declared domain, and came out again."""
    decimals = [Decimal(v) for v in values]
    frame = pd.DataFrame({"c": pd.Series(decimals, dtype=object).astype(kind)})
    domain = {"fields": [{"name": "c", "type": "number", "constraints": {"minimum": 0, "maximum": 1000}}]}
    assert type_of(frame, domain) == pa.float64()
    declared = pa.decimal128(20, 9)  # a type that somebody chose stays
    assert type_of(pa.table({"c": pa.array(decimals, declared)}), domain) == declared


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text_leaves_as_plain_strings(kind: pa.DataType) -> None:
    assert type_of(pa.table({"c": pa.array(["v0"], kind)})) == pa.string()


def test_a_column_without_a_value_is_text(tmp_path: Path) -> None:
    """Its type is null, and string with one value more: one row decided whether there was a release."""
    pq.write_table(pa.table({"c": pa.nulls(3)}), tmp_path / "t.parquet")
    for source in (pd.DataFrame({"c": [None] * 3}), pa.table({"c": pa.nulls(3)}), tmp_path / "t.parquet"):
        assert type_of(source) == pa.string()


# --- names on a terminal


NAMES = ["speed [/h]", "[red]", "[/]", ":smile:", "a\x1b[31mb", "{0}", "%s", "\\[x]"]


def test_names_are_said_as_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        say(name)
    assert capfd.readouterr().err.splitlines() == [visible(name) for name in NAMES]


def test_what_steers_a_terminal_is_spelt_out() -> None:
    assert visible("a\x1b[31m\nb\u202ec\ré [/h]") == "a\\x1b[31m\nb\\u202ec\\ré [/h]"


def test_a_display_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise UnicodeEncodeError("ascii", "é", 0, 1, "no")

    monkeypatch.setattr("rich.console.Console.print", broken)
    say("text")


def test_a_callers_report_may_cancel() -> None:
    def cancel(_: Any) -> None:
        raise ZeroDivisionError

    table = pa.table({"a": ["x", "y"] * 50, "b": ["x", "y"] * 50})
    domain = {"fields": [{"name": n, "categories": ["x", "y"]} for n in "ab"]}
    with pytest.raises(ZeroDivisionError) as cancelled:
        release(table, 2, domain=domain, epsilon=1.0, rounds=2, report=cancel)
    assert cancelled.value.budget_spent  # type: ignore[attr-defined]


# --- tables without a row


EMPTY = pa.table({"a": pa.array([], pa.string()), "n": pa.array([], pa.int64())})


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"engine": "mwem"},
        {"neighbours": "replace"},
        {"neighbours": "replace", "engine": "mwem"},
        {"delta": 0.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_a_table_without_a_row_is_released_too(tmp_path: Path, kind: str, choices: dict[str, Any]) -> None:
    """That there is no row was told by a refusal, which its neighbour with one row does not get."""
    (tmp_path / "t.csv").write_text("a,n\n")
    pq.write_table(EMPTY, tmp_path / "t.parquet")
    source = EMPTY if kind == "frame" else tmp_path / f"t.{kind}"
    made = release(source, 2, domain={"a": 2, "n": 10}, epsilon=1.0, **choices)
    assert made.to_arrow().schema.names == ["a", "n"]
    assert made.manifest.recompute() <= 1.0


@pytest.mark.parametrize("text", ["a,n\n", "a,n"])
def test_of_a_table_without_a_row_nothing_is_learnt(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(NothingLearnt, match=r"to learn 2 columns takes some .* rows; there are too few rows"):
        make(Request.of(tmp_path / "t.csv", 1, rows=3), noise=FakeNoise())
    for source in (tmp_path / "t.csv", EMPTY):  # noise may say anything
        try:
            assert release(source, 1, epsilon=1.0, rows=3).to_arrow().num_rows == 3
        except NothingLearnt as nothing:
            assert nothing.budget_spent


def test_of_people_without_an_id_nobody_is_left(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who,a\n,x\n,y\n")
    domain, calls = {"fields": [{"name": "a", "categories": ["x", "y"]}]}, FakeNoise()
    make(Request.of(tmp_path / "t.csv", 1, domain=domain, privacy_id="who", rows=3), noise=calls)
    assert all(np.sum(call.values) == 0 for call in calls.calls if call.method == "add")


# --- what is known before anything is spent


ONE_CODE = {"c0": 2} | {f"c{i}": 1 for i in range(1, 70)}


@pytest.mark.slow
@pytest.mark.parametrize("choices", [{}, {"engine": "mwem"}, {"domain": ONE_CODE}])
def test_more_columns_than_an_array_has_axes(tmp_path: Path, choices: dict[str, Any]) -> None:
    """65 columns of one code each in one clique: rows could not be drawn once the budget was spent."""
    column = [0] * 20 if choices.get("domain") else ["x"] * 20_000
    made = release(pa.table(dict.fromkeys(ONE_CODE, column)), 1, epsilon=1.0, rows=5, **choices)
    assert made.to_arrow().num_rows == 5
    made.save(tmp_path / "m.fmwem")
    assert Release.load(tmp_path / "m.fmwem").sample(7).num_rows == 7


def floats(low: int, high: int, step: int, kind: pa.DataType) -> pa.Array:
    return pa.array(np.arange(low, high, step), pa.int64()).cast(kind, safe=False)


WIDE: dict[str, Any] = {
    "float32, whole to 10^8": floats(0, 10**8, 10**5, pa.float32()),
    "float32, whole above 2^24": floats(17 * 10**6, 2 * 10**7, 3000, pa.float32()),
    "float64, whole to 2 x 10^16": floats(0, 2 * 10**16, 2 * 10**13, pa.float64()),
    "dictionary of float32": floats(0, 10**8, 10**5, pa.float32()).dictionary_encode(),
    "decimal of one digit": pa.array([Decimal(i % 10) for i in range(1000)], pa.decimal128(3, 2)),
    "decimal of no digit": pa.array([Decimal("0.99"), Decimal(0)] * 500, pa.decimal128(2, 2)),
    "decimal near its end": pa.array([Decimal(10**18 - 1 - i) for i in range(1000)], pa.decimal128(18, 0)),
    "small decimal near its end": pa.array(
        [1 - Decimal(i + 1).scaleb(-18) for i in range(1000)], pa.decimal128(18, 18)
    ),
}


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("epsilon", others_slow([1.0, 50.0], lambda epsilon: epsilon == 50))
def test_learnt_bounds_fit_the_columns_type(kind: str, epsilon: float) -> None:
    """The domain was refused once it was learnt and paid for: "correct the domain", which nobody wrote."""
    column = pa.chunked_array([WIDE[kind]] * 3)  # of 1,000 rows noise said that they are too few
    for _ in range(2):
        made = release(pa.table({"c": column}), 1, epsilon=epsilon, rows=50)
        assert made.to_arrow().num_rows == 50


MARS = pa.timestamp("us", "Mars/Base")
RANGES = Workload.ranges("c", count=5)
KNOWN: dict[str, tuple[list[Any] | pa.Array, Any, dict[str, Any], str]] = {
    "ranges over text": (["x"], RANGES, {}, "its values have no order"),
    "ranges over truth": ([True], RANGES, {"engine": "mwem"}, "its values have no order"),
    "no such time zone": (pa.nulls(3, MARS), 1, {}, "a time zone that is not known"),
    "nor in a dictionary": (
        pa.nulls(3, pa.dictionary(pa.int8(), MARS)),
        1,
        {},
        "a time zone that is not known",
    ),
    "tens of units": (pa.nulls(3, pa.decimal128(5, -2)), 1, {}, "which Parquet cannot hold"),
    "no memory": (["x"], 1, {"max_memory": 1000}, "more than the"),
}


@pytest.mark.parametrize("what", KNOWN)
def test_what_is_known_is_refused_before_a_domain_is_learnt(what: str) -> None:
    column, workload, choices, message = KNOWN[what]
    with pytest.raises(FmwemError, match=message) as refused:
        release(pa.table({"c": column}), workload, epsilon=1.0, **choices)
    assert not refused.value.budget_spent


def of_texts(texts: list[str], rows: int) -> Release:
    """A release of a column of these categories."""
    domain = {"fields": [{"name": "c", "categories": texts}]}
    return release(pa.table({"c": texts * 200}), 1, domain=domain, epsilon=30.0, rows=rows)


def test_long_categories_come_in_shorter_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two categories of 200,000 characters in 12,000 rows were more than a column of text can hold."""
    monkeypatch.setattr(sample, "MAX_TEXT_BYTES", 10_000)
    made = of_texts(["a" * 1000, "b" * 1000], rows=100)
    assert max(batch.num_rows for batch in made.batches()) == 10 and made.to_arrow().num_rows == 100


def test_a_carriage_return_comes_back_from_csv(tmp_path: Path) -> None:
    """It stood in the file without quotes: 1,498 rows were read where 999 had been released."""
    texts = ["x\ry", "z", "a\nb", "c\r\nd", 'q"q', "p,q"]
    of_texts(texts, rows=600).write(tmp_path / "o.csv")
    assert set(pd.read_csv(tmp_path / "o.csv", dtype=str)["c"].dropna()) == set(texts)
    again = pa.Table.from_batches(open_table(tmp_path / "o.csv", "multiline").batches(["c"]))
    assert len(again) == 600 and {*again["c"].to_pylist()} - {""} == set(texts)


def test_an_input_is_known_again_whatever_its_dictionaries_hold(books: Path) -> None:
    """Dictionaries with a null or of too many values could not be made one: a run id decided."""
    codes = pa.array([0, 1], pa.int8())
    parts = [pa.DictionaryArray.from_arrays(codes, pa.array([None, f"v{i}"])) for i in range(200)]
    table = pa.table({"c": pa.chunked_array(parts)})
    booked = {"ledger": books, "dataset": "t", "run_id": "r"}
    made = [release(table, 1, domain=DOMAIN, epsilon=1.0, rows=5, **booked) for _ in range(2)]
    assert made[0].to_arrow() == made[1].to_arrow() and len(LedgerFile(books).entries("t")) == 1


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.float32(), pa.decimal32(5, 1)], ids=str)
def test_an_id_of_a_type_that_names_nobody_is_refused(kind: pa.DataType) -> None:
    table = pa.table({"who": pa.nulls(2, kind), "c": ["v0", "v1"]})
    with pytest.raises(InputError, match=r"--privacy-id 'who' is a column of.* text or integers"):
        release(table, 1, domain=DOMAIN, epsilon=1.0, privacy_id="who")


# --- a file that is written to


def test_a_file_rewritten_before_the_first_row_spends_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("c\nv0\n" * 50)
    table = open_table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("c\n" + "v1\n" * 100)
    with pytest.raises(Changed, match="was changed while it was read") as refused:
        release(table, 1, domain=DOMAIN, epsilon=1.0)
    assert not refused.value.budget_spent


def test_a_file_rewritten_between_two_passes_stops_before_more_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, books: Path
) -> None:
    """Between learning a domain and reading the codes, one person's rows became a hundred."""
    path, drawn = tmp_path / "t.csv", list[str]()

    def slow(table: Any, *rest: Any, **more: Any) -> Any:
        found = discover(table, *rest, **more)
        path.write_text("c\n" + "v1\n" * 5100)
        drawn.append("a domain")
        return found

    monkeypatch.setattr(learning, "discover", slow)
    monkeypatch.setattr(tree, "fit", lambda *_, **__: drawn.append("more"))
    for run_id, advice in (
        (None, "running again is a new release"),
        ("r", "with the input as it was when it began, the same run id goes on"),
    ):
        path.write_text("c\n" + "v0\n" * 5000)
        with pytest.raises(Changed) as refused:
            release(path, 1, epsilon=0.4, delta=4e-10, ledger=books, dataset="t", run_id=run_id)
        assert refused.value.budget_spent and str(refused.value.advice).startswith(advice)
    assert drawn == ["a domain"] * 2


# --- drafts


def test_a_draft_object_is_refused_until_it_is_reviewed(tmp_path: Path) -> None:
    table = pa.table({"a": ["x", "y"]})
    found = draft(table)
    for domain in (found, found.to_dict(), found.project(["a"]), Domain(found)):
        with pytest.raises(InputError, match="is a draft that was read off the data"):
            release(table, 1, domain=domain, epsilon=1.0)
    assert release(table, 1, domain=found.reviewed(), epsilon=1.0).manifest.attributes[0].domain == "declared"
    with pytest.raises(InputError, match='"draft" must be true'):
        Domain.from_dict({"draft": "yes", "fields": []})
    with pytest.raises(InputError, match="no rows to draft a domain from"):
        draft(pa.table({"a": pa.array([], pa.string())}))


# --- what the guarantee rests on


def test_the_manifest_says_what_the_guarantee_rests_on(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who,a\n" + "".join(f"p{i},x\n" for i in range(5000)))
    made = release(tmp_path / "t.csv", 1, epsilon=1.0, privacy_id="who", rows=2)
    found = Manifest.model_validate_json(made.manifest.model_dump_json()).guarantee
    assert found.statement.endswith("under the assumptions listed")
    known = found.assumptions
    assert known["contributions"].enforced and known["records"].enforced
    assert "none of a person without an id" in known["contributions"].statement
    checked = "none of which ends inside quotes, as was checked before anything was spent"
    assert checked in known["records"].statement
    names = [name for name, _ in found.taken_on_trust()]
    assert names == ["people", "columns", "readable", "parameters", "releases", "surroundings"]


@pytest.mark.parametrize(
    ("records", "enforced", "words"),
    [("lines", True, "whatever its quotes"), ("multiline", False, "outside quotes: whoever wrote the file")],
)
def test_the_reading_that_was_chosen_is_among_them(records: Any, enforced: bool, words: str) -> None:
    form = TextForm(("a",), ",", b"\r\n", 3, False, records)
    found = assumptions_of(Policy.of(records=records), form, learnt=False, ledger=True)
    record = found["records"]
    assert record.enforced is enforced and words in record.statement
    assert "carriage return" in record.statement
    assert not found["contributions"].enforced and not found["domain"].enforced
    assert found["releases"].enforced and not found["ledger"].enforced  # nobody knows what goes past it
    replaced = assumptions_of(Policy.of(neighbours="replace"), None, learnt=True, ledger=False)
    assert "rows" in replaced and replaced["domain"].enforced and "people" not in replaced


@pytest.mark.parametrize(
    ("text", "choices"),
    [("c\nv0\n", {}), ("c,d\r\nv0,1\r\n", {"columns": ["c"]}), ('c\n"v\n0"\n', {"records": "multiline"})],
)
def test_the_books_know_the_assumptions_of_every_form(
    tmp_path: Path, books: Path, text: str, choices: dict[str, Any]
) -> None:
    path, manifest = tmp_path / "t.csv", tmp_path / "o.manifest.json"
    path.write_bytes(text.encode())
    made = release(path, 1, domain=DOMAIN, epsilon=1.0, ledger=books, dataset="t", **choices)
    made.write(tmp_path / "o.parquet")
    assert check_books(books, [manifest])["problems"] == []
    forged = json.loads(manifest.read_text())
    del forged["guarantee"]["assumptions"]["records"]
    manifest.write_text(json.dumps(forged))
    assert any("guarantee.assumptions" in problem for problem in check_books(books, [manifest])["problems"])
