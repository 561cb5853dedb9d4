"""The public page is made from public files alone, shows what they say, and takes no text for HTML."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from support.pages import HOSTILE, MOST_BYTES, PEOPLE, SIDE, check_page, people

from factored_mwem import InputError, Manifest, Release, Workload, release, report
from factored_mwem.answers.replicates import Bootstrap
from factored_mwem.documents.material import material_at
from factored_mwem.documents.page import figure, plain
from factored_mwem.documents.public_page import public_page
from factored_mwem.documents.report import page_of
from factored_mwem.pipeline.record.manifest import Certificate, CertifiedError


def written(folder: Path, made: Release, name: str = "people.parquet") -> Path:
    """The manifest of a release whose files all lie in `folder`."""
    made.write(folder / name)
    made.save(folder / "people.fmwem")
    return folder / "people.manifest.json"


@pytest.fixture
def made() -> Release:
    return release(people(), 2, domain=PEOPLE, epsilon=2.0)


def words_of(made: Release) -> str:
    """The text of its page, in one line."""
    return " ".join(check_page(page_of(made, made.manifest)).words.split())


@pytest.mark.parametrize("name", ["people.parquet", "people.csv", "people/"])
def test_the_same_bytes_with_the_table_and_without(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the same from memory, where the rows are drawn again, as from the files; and from the replicates
    that the first page kept.
    """
    table = tmp_path / "private.csv"
    csv.write_csv(people(), table)
    made = release(table, 2, domain=PEOPLE)
    manifest = made.write(f"{tmp_path}/{name}")
    made.save(tmp_path / "people.fmwem")
    first = Path(report(tmp_path / "people.manifest.json")).read_bytes()
    table.unlink()
    in_memory = page_of(made, manifest).encode()
    monkeypatch.setattr(Bootstrap, "all", None)  # nothing is fitted again
    again = report(tmp_path / "people.manifest.json", tmp_path / "again.html")
    assert Path(again).read_bytes() == first == in_memory


def test_what_it_shows_is_what_the_files_say(made: Release, tmp_path: Path) -> None:
    manifest = made.write(tmp_path / "people.parquet")
    made.save(tmp_path / "people.fmwem")
    page = check_page(public_page(material_at(tmp_path / "people.manifest.json")))
    words = " ".join(page.words.split())
    assert f"epsilon {manifest.guarantee.epsilon:g}" in words
    assert f"to epsilon {manifest.recompute():.6g}" in words
    assert manifest.output is not None and manifest.output.sha256 is not None
    assert manifest.output.sha256 in words and f"{manifest.output.rows:,}, drawn" in words
    rows = pq.read_table(tmp_path / "people.parquet")
    for name in ("town", "member"):
        for value in pc.unique(rows[name]).to_pylist():
            share = pc.sum(pc.equal(rows[name], pa.scalar(value)).fill_null(False)).as_py() / rows.num_rows
            label = "missing" if value is None else str(value)
            found = [row for row in page.rows if row[0] == label and row[1] == f"{100 * share:.2f}"]
            assert value is None or len(found) == 1, (name, value)
    assert any(row[0].startswith("measuring") for row in page.rows)
    shares = [
        float(row[1].removesuffix(" %")) for row in page.rows if len(row) == 6 and row[1].endswith(" %")
    ]
    assert sum(shares) == pytest.approx(100, abs=0.4)


def test_the_noisy_shares_are_least_squares_and_their_errors() -> None:
    """Of a column that was measured once, beside the number of rows: the normal equations by hand."""
    made = release(people(), Workload.of([("town",)]), domain=PEOPLE, columns=["town"], engine="mwem")
    (measured,) = [m for m in made.measurements if m.positions]
    (total,) = [m for m in made.measurements if not m.positions]
    design, answers = np.vstack([np.eye(4), np.ones(4)]), np.concatenate([measured.noisy, total.noisy])
    weights = np.array([measured.scale.value**-2] * 4 + [total.scale.value**-2])
    covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
    best = covariance @ design.T @ (weights * answers)
    page = check_page(page_of(made, made.manifest))
    for i, label in enumerate(("north", "south", "west", "missing")):
        (row,) = [row for row in page.rows if row[0] == label and len(row) == 5]
        half = 1.959964 * covariance[i, i] ** 0.5
        shares = [100 * v / made.model.total for v in (best[i], best[i] - half, best[i] + half)]
        assert [float(cell) for cell in row[2:]] == pytest.approx(shares, abs=0.0051)


def test_the_guess_is_rounded_up_and_at_least_the_accountings(made: Release) -> None:
    """At epsilon 1, delta 1e-9: 54.33 %, from rho .01497 by Pinsker's inequality."""
    one = release(people(), 1, domain=PEOPLE, epsilon=1.0, delta=1e-9)
    words = words_of(one)
    assert "54.4 %" in words and "54.3 %" not in words
    pure = release(people(), 1, domain=PEOPLE, epsilon=1.0, delta=0.0)
    assert "73.2 %" in page_of(pure, pure.manifest)  # e / (1 + e) = .73106


def test_the_guess_counts_tries_that_never_came() -> None:
    """When to stop depends on the table: one try of four spends a quarter, and V is bounded by all."""
    asked: Any = {"epsilon": 1.0, "delta": 1e-9, "certificate": 0.1, "accept": ["mean1 <= 1.9"]}
    one = release(people(3000), 1, tries=4, domain=PEOPLE, **asked)
    stated = one.manifest.certificate
    assert stated is not None and stated.tried < stated.tries and one.manifest.guarantee.spent_epsilon < 0.9
    words = words_of(one)
    assert "54.4 %" in words
    assert "each with an equal part of the budget" in words and "all of them paid" not in words


def test_a_changed_number_changes_the_page(made: Release, tmp_path: Path) -> None:
    path = written(tmp_path, made)
    before = public_page(material_at(path))
    stated = Manifest.model_validate_json(path.read_text())
    charge = stated.ledger[-1].model_copy(update={"scale": stated.ledger[-1].scale * 3})
    path.write_text(stated.model_copy(update={"ledger": (*stated.ledger[:-1], charge)}).model_dump_json())
    (tmp_path / "people.fmwem").unlink()
    after = public_page(material_at(path))
    assert "which is what the manifest states" in before
    assert "but the manifest states" in after


CANARIES = ("CANARY-mauve", "718281828459045", "2.718281828459")


@pytest.mark.slow
@pytest.mark.parametrize("domain", [PEOPLE, None], ids=["declared", "learnt"])
def test_no_private_value_reaches_the_page(domain: Any, tmp_path: Path) -> None:
    table = people(3000)
    strange = pa.table({"age": [718281828459045], "town": ["CANARY-mauve"], "member": [True]})
    table = pa.concat_tables([table, strange.cast(table.schema)])
    made = release(table, 2, domain=domain, epsilon=3.0)
    text = public_page(material_at(written(tmp_path, made)))
    check_page(text)
    assert not any(canary in text for canary in CANARIES)
    planted = made.manifest.model_copy(update={"notes": (f"a value was {CANARIES[0]}",)})
    assert CANARIES[0] in page_of(made, planted)  # so the search would find one


def test_hostile_names_and_values_are_text() -> None:
    fields = [
        {"name": name, "categories": HOSTILE, "title": HOSTILE[0], "description": name} for name in HOSTILE
    ]
    table = pa.table(dict.fromkeys(HOSTILE, HOSTILE * 10))
    made = release(table, 2, domain={"fields": fields}, rows=50)
    manifest = made.manifest.model_copy(update={"warnings": tuple(HOSTILE), "notes": tuple(HOSTILE)})
    stages = [HOSTILE[i % len(HOSTILE)] + str(i) for i in range(2000)]
    charges = tuple(made.manifest.ledger[0].model_copy(update={"stage": name}) for name in stages)
    update = {"ledger": charges, "chain_head": HOSTILE[3] + HOSTILE[6], "noise_library": HOSTILE[0]}
    text = page_of(made, manifest.model_copy(update=update))
    page = check_page(text)
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)
    assert "x" * 1000 not in text and "49" not in [row[0] for row in page.rows]
    assert "</script><img" in page.words and "\\u202e" in page.words and "a\\nb" in page.words
    assert len(text) < MOST_BYTES


def test_the_search_sees_what_is_not_escaped() -> None:
    """Planted: a page in which a name is HTML."""
    with pytest.raises(AssertionError):
        check_page("<p>" + HOSTILE[0] + "</p>")
    with pytest.raises(AssertionError):
        check_page('<p onclick="x">a</p>')


@cache
def wide() -> Release:
    rng = np.random.default_rng(2)
    table = pa.table({f"column {i}": rng.integers(0, 2 + i % 7, 200) for i in range(60)})
    domain = {f"column {i}": 2 + i % 7 for i in range(60)}
    return release(table, 2, domain=domain, rounds=2)


SHAPES: dict[str, Callable[[], Release]] = {
    "one column": lambda: release(pa.table({"a": [0, 1] * 20}), 1, domain={"a": 2}),
    "all null": lambda: release(
        pa.table({"town": pa.nulls(50, pa.string()), "age": pa.nulls(50, pa.int64())}),
        2,
        domain={"fields": PEOPLE["fields"][:2]},
    ),
    "no rows": lambda: release(people(), 2, domain=PEOPLE, rows=0),
    "empty table": lambda: release(people(0), 1, domain=PEOPLE, rows=10),
    "learnt": lambda: release(people(4000), 2, epsilon=2.0),
    "replace": lambda: release(people(), 2, domain=PEOPLE, neighbours="replace"),
    "pure": lambda: release(people(), 2, domain=PEOPLE, delta=0.0),
    "mwem": lambda: release(people(), 2, domain=PEOPLE, engine="mwem"),
    "ranges": lambda: release(people(), Workload.ranges("age", count=20), domain=PEOPLE, engine="mwem"),
    "at once": lambda: release(
        pa.table({n: [0, 1, 1, 0] * 30 for n in "abcd"}), 2, domain=dict.fromkeys("abcd", 2), epsilon=30.0
    ),
    "three rows a person": lambda: release(people(), 2, domain=PEOPLE, contributions=3),
    "rules": lambda: release(
        people().append_column("side", pa.array(["up"] * 400)),
        2,
        domain={
            "fields": [*PEOPLE["fields"], SIDE],
            "rules": [
                {"derive": "side", "from": "town", "map": {"north": "up", "south": "down", "west": "left"}}
            ],
        },
    ),
    "sixty columns": wide,
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", list(SHAPES))
def test_every_kind_of_release_has_a_page(shape: str, tmp_path: Path) -> None:
    made = SHAPES[shape]()
    page = check_page(public_page(material_at(written(tmp_path, made))))
    names = [plain(name) for name in made.domain.names]
    assert all(name in page.words for name in names)
    assert "nan" not in page.words.lower().split()


def test_sets_measured_at_once_are_ties() -> None:
    made = SHAPES["at once"]()
    assert made.residuals
    words = words_of(made)
    assert "6 of 6" in words and "No column stands alone" in words


def test_columns_that_stand_alone_are_named() -> None:
    table = pa.table({n: [0, 1, 1, 0] * 30 for n in "abc"})
    made = release(table, Workload.of([("a", "b"), ("c",)]), domain={"a": 2, "b": 2, "c": 3}, epsilon=30.0)
    words = words_of(made)
    assert "Columns that stand alone: c." in words and "1 of 3" in words


def test_a_manifest_alone_says_what_is_lacking(made: Release, tmp_path: Path) -> None:
    path = written(tmp_path, made)
    (tmp_path / "people.fmwem").unlink()
    no_model = check_page(public_page(material_at(path)))
    assert "No model file was given or found" in no_model.words
    (tmp_path / "people.parquet").unlink()
    neither = check_page(public_page(material_at(path)))
    assert "The file of rows was not found" in neither.words


def test_what_is_refused(made: Release, tmp_path: Path) -> None:
    path = written(tmp_path, made)
    other = release(people(), 1, domain=PEOPLE)
    other.save(tmp_path / "other.fmwem")
    damaged = tmp_path / "damaged.manifest.json"
    damaged.write_text(path.read_text().replace('"scale":', '"scale":-'))
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("no manifest", lambda: report(tmp_path / "nothing.manifest.json")),
        ("is not a manifest", lambda: report(tmp_path / "people.parquet")),
        ("is not a manifest", lambda: report(damaged)),
        ("another release", lambda: report(path, model=tmp_path / "other.fmwem")),
        ("no model file", lambda: report(path, model=tmp_path / "none.fmwem")),
        ("NOT-PRIVATE", lambda: report(path, tmp_path / "people.NOT-PRIVATE.html")),
        ("is an input", lambda: report(path, path, overwrite=True)),
        ("give the path of its page", lambda: report(made)),
    ]
    for words, ask in cases:
        with pytest.raises(InputError, match=words) as refused:
            ask()
        assert "\n" not in str(refused.value)
    assert not list(tmp_path.glob("*.html"))
    report(path)
    with pytest.raises(InputError, match="exists"):
        report(path)
    report(path, overwrite=True)
    other.write(tmp_path / "people.parquet", overwrite=True)
    path.write_text(
        made.write(tmp_path / "x.parquet").model_dump_json().replace("x.parquet", "people.parquet")
    )
    with pytest.raises(InputError, match="sha256"):
        report(path, overwrite=True)


def test_a_strangers_manifest_names_no_file_elsewhere(made: Release, tmp_path: Path) -> None:
    path = written(tmp_path, made)
    text = path.read_text()
    for name in ("../people.parquet", "/etc/passwd", "a\\u0000b"):
        path.write_text(text.replace('"people.parquet"', f'"{name}"'))
        with pytest.raises(InputError):
            report(path)


def test_figures_have_sensible_digits() -> None:
    said = {0.0149712: "0.015", 1234.5: "1,234", 12.0: "12", float("nan"): "-", 1e-9: "1e-09", 0.5: "0.5"}
    assert {value: figure(value) for value in said} == said or figure(float("nan")) == "-"
    assert figure(2e20) == "2e+20" and plain("a" * 99).endswith("…") and len(plain("a" * 99)) == 60


def test_the_certificate_stands_apart_from_what_the_model_expects(made: Release) -> None:
    figures = ("estimate", "stderr", "low", "high")
    errors = tuple(
        CertifiedError(**about, **dict(zip(figures, numbers, strict=True)))
        for about, numbers in (
            ({"what": "mean", "order": 2, "sets": 3, "asked": 3}, (0.123, 0.004, 0.111, 0.135)),
            ({"what": "mean", "order": 3, "sets": 50, "asked": 1234}, (0.2, 0.1, 0.1, 0.3)),
            ({"what": "column", "order": 1, "attributes": ("town",)}, (0.02, 0.01, 0.0, 0.045)),
        )
    )
    tries = {"criteria": ("mean2 <= 0.2",), "tries": 3, "tried": 2}
    found = Certificate(share=0.03, confidence=0.95, errors=errors, **tries)
    page = check_page(page_of(made, made.manifest.model_copy(update={"certificate": found})))
    assert any(row[0] == "mean over 50 sets (of 1,234, drawn at random) of 3 columns" for row in page.rows)
    assert ["mean over 3 sets of 2 columns", "0.123", "0.004", "0.111", "0.135"] in page.rows
    assert ["column town", "0.020", "0.010", "0.000", "0.045"] in page.rows
    words = " ".join(page.words.split())
    assert "With 1.0 % of the budget" in words and "mean2 <= 0.2" in words and "try 2 of up to 3" in words
    assert words.index("Certificate: measured") < words.index("Expected, by the model")
    assert "has no certificate" in check_page(page_of(made, made.manifest)).words


@pytest.mark.slow
def test_what_is_expected_comes_from_replicates(made: Release) -> None:
    """More noise, a larger error: of the same table at a tenth of the budget."""
    rows = []
    for epsilon in (5.0, 0.2):
        loud = release(people(), 2, domain=PEOPLE, epsilon=epsilon, sample_seed=1)
        page = check_page(page_of(loud, loud.manifest))
        rows.append([float(row[2]) for row in page.rows if row[0] in ("single columns", "pairs of columns")])
        assert page_of(loud, loud.manifest) == page_of(loud, loud.manifest)
    assert all(quiet < loud for quiet, loud in zip(*rows, strict=True)) and len(rows[0]) == 2


def test_what_no_manifest_says_is_refused(made: Release, tmp_path: Path) -> None:
    """So many components would take hours; the others lead to other folders."""
    path = written(tmp_path, made)
    stated = Manifest.model_validate_json(path.read_text())
    assert stated.output is not None
    strange: list[dict[str, Any]] = [
        {"output": stated.output.model_copy(update={"file": name})} for name in ("", "..", "../", "a/b")
    ]
    for update in [*strange, {"components": (("age",),) * 3}, {"components": ((),) * 3}]:
        path.write_text(stated.model_copy(update=update).model_dump_json())
        with pytest.raises(InputError, match=r"is not a manifest|is no manifest"):
            report(path, tmp_path / "page.html")


def test_the_model_of_another_run_with_the_same_settings_is_none(tmp_path: Path) -> None:
    """Their manifests differ in what is noisy alone."""
    asked: Any = {"domain": PEOPLE, "epsilon": 5.0, "rounds": 1}
    first, second = (release(people(rows), 1, **asked) for rows in (300, 3000))
    path = written(tmp_path, second)
    assert material_at(path).release is not None
    first.save(tmp_path / "people.fmwem", overwrite=True)
    assert material_at(path).release is None
    with pytest.raises(InputError, match="is the model of another release"):
        report(path, tmp_path / "page.html", model=tmp_path / "people.fmwem")
