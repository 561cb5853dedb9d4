"""The page against the real table: named and stamped so that none mistakes it, with evaluate's numbers."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.pages import HOSTILE, PEOPLE, check_page, people

from factored_mwem import InputError, evaluate, private_report, release, report
from factored_mwem.domain.dialect import Dialect
from factored_mwem.domain.domain import Domain
from factored_mwem.owner.evaluation.binned_errors import CodedPair
from factored_mwem.owner.page import quality
from factored_mwem.owner.page.against import same_rows
from factored_mwem.owner.page.quality import k_marginal_score, sdmetrics_quality


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    release(people(), 2, domain=PEOPLE).write(tmp_path / "people.parquet")
    return tmp_path / "people.manifest.json"


@pytest.fixture
def page(manifest: Path, tmp_path: Path) -> str:
    return Path(private_report(manifest, people(), tmp_path / "people.NOT-PRIVATE.html")).read_text()


def test_it_says_so_everywhere(page: str, manifest: Path) -> None:
    found = check_page(page)
    assert page.index("<title>NOT PRIVATE") < page.index("NOT PRIVATE - do not publish")
    assert found.words.count("NOT PRIVATE") > 6
    banner = page[page.index(".banner{") :]
    assert banner.startswith(".banner{position:fixed;top:0;left:0;right:0")
    printed = page[page.index("@page{margin:20mm") :]
    assert '@top-center{content:"NOT PRIVATE' in printed
    assert 'name="robots" content="noindex, noarchive"' in page
    assert "NOT PRIVATE" not in Path(report(manifest)).read_text()


def test_its_numbers_are_those_of_evaluate(page: str, tmp_path: Path) -> None:
    found = check_page(page)
    errors = evaluate(people(), tmp_path / "people.parquet", 3)
    for order, (mean, worst) in errors.by_order.items():
        words = f"{order} column{'s' * (order > 1)}"
        assert [words, f"{mean:.4f}", f"{worst:.4f}"] in found.rows
    for clique, error in errors.worst:
        assert [" x ".join(clique), f"{error:.4f}"] in found.rows
    assert f"{1000 * (1 - errors.by_order[3][0] / 2):.0f}k-marginal score" in found.words.replace("\n", "")


def test_what_does_not_read_as_it_was_released_is_named_not_drawn(manifest: Path, tmp_path: Path) -> None:
    strange = people().set_column(0, people().schema.names[0], pa.array(["n1"] * people().num_rows))
    page = Path(private_report(manifest, strange, tmp_path / "strange.NOT-PRIVATE.html")).read_text()
    assert "holds text in the real table, and numbers in the synthetic one" in page


def test_its_shares_are_those_of_both_tables(page: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    found = check_page(page)
    tables = [people(), pq.read_table(tmp_path / "people.parquet")]
    for town in ("north", "south", "west"):
        shares = [100 * table["town"].to_pylist().count(town) / table.num_rows for table in tables]
        said = [f"{share:.2f}" for share in shares]
        assert any(row[0] == town and row[1:3] == said for row in found.rows)


def test_its_matches_are_those_of_all_rows_by_hand(page: str) -> None:
    """One to one: a released row is matched once. Counting every real row that has its like is the planted
    bug.
    """
    domain = Domain.from_dict({"a": 3, "b": 2})
    real = [np.array([0, 0, 0, 1, 2]), np.array([0, 0, 0, 1, 1])]
    released = [np.array([0, 0, 1, 2, 2, 0]), np.array([0, 0, 1, 0, 0, 1])]
    assert same_rows(CodedPair(domain, real, released)) == (3 / 5, 2 / 6, 1 / 6)
    assert np.mean([pair in {(0, 0), (1, 1)} for pair in zip(*real, strict=True)]) == 4 / 5
    assert "can be matched one to one" in check_page(page).words


def test_the_score_is_a_thousand_less_half_the_distance() -> None:
    """By its definition: (2 - mean L1 distance) x 500, of tables whose marginals are counted here by hand."""
    assert [k_marginal_score(mean) for mean in (0.0, 0.5, 2.0)] == [1000, 750, 0]
    rng = np.random.default_rng(3)
    tables = [pa.table({n: rng.integers(0, 3, 200) for n in "abc"}) for _ in range(2)]
    distances = []
    for a, b in itertools.combinations("abc", 2):
        shares = []
        for table in tables:
            pairs = list(zip(table[a].to_pylist(), table[b].to_pylist(), strict=True))
            shares.append({pair: pairs.count(pair) / 200 for pair in set(pairs)})
        keys = shares[0].keys() | shares[1].keys()
        distances.append(sum(abs(shares[0].get(key, 0) - shares[1].get(key, 0)) for key in keys))
    by_hand = (2 - np.mean(distances)) * 500
    assert k_marginal_score(evaluate(*tables, 2).by_order[2][0]) == pytest.approx(by_hand)


@pytest.mark.parametrize("name", ["people.report.html", "people.html", "people.manifest.json"])
def test_it_takes_no_public_name(name: str, manifest: Path, tmp_path: Path) -> None:
    report(manifest)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match="NOT-PRIVATE"):
        private_report(manifest, people(), tmp_path / name, overwrite=True)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_by_default_it_lies_in_the_current_folder(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert private_report(manifest, people()) == "people.NOT-PRIVATE.html"
    with pytest.raises(InputError, match="exists"):
        private_report(manifest, people())


def test_the_rows_must_be_there(manifest: Path, tmp_path: Path) -> None:
    (tmp_path / "people.parquet").unlink()
    with pytest.raises(InputError, match="not beside it"):
        private_report(manifest, people(), tmp_path / "x.NOT-PRIVATE.html")


def test_hostile_values_of_the_real_table_are_text(manifest: Path, tmp_path: Path) -> None:
    table = people()
    strange = [HOSTILE[i % len(HOSTILE)] for i in range(table.num_rows)]
    table = table.set_column(1, "town", pa.array(strange)).append_column(HOSTILE[0], table["age"])
    check_page(Path(private_report(manifest, table, tmp_path / "x.NOT-PRIVATE.html")).read_text())


def test_some_columns(manifest: Path, tmp_path: Path) -> None:
    path = private_report(manifest, people(), tmp_path / "x.NOT-PRIVATE.html", columns=["age"])
    words = check_page(Path(path).read_text()).words
    assert "1 column" in words and "2 columns" not in words


def test_without_sdmetrics_it_says_so(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sdmetrics", None)
    monkeypatch.setitem(sys.modules, "sdmetrics.reports.single_table", None)
    page = Path(private_report(manifest, people(), tmp_path / "x.NOT-PRIVATE.html")).read_text()
    assert "SDMetrics is not installed" in page


def test_sdmetrics_quality_is_its_own() -> None:
    reports = pytest.importorskip("sdmetrics.reports.single_table", reason="SDMetrics is not installed")
    domain, tables = Domain.from_dict(PEOPLE), (people(), people(300))
    found = sdmetrics_quality(domain, *tables)
    theirs = reports.QualityReport()
    kinds = {"age": "numerical", "town": "categorical", "member": "categorical"}
    metadata = {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}}
    theirs.generate(*(table.to_pandas() for table in tables), metadata, verbose=False)
    assert found.overall == pytest.approx(theirs.get_score()) and not found.why
    assert quality.KINDS["integer"] == "numerical"


def test_dates_are_read_as_the_release_was_told(tmp_path: Path) -> None:
    """Seen to fail: the manifest forgot the domain file's dialect, and all dates fell into the first bin."""
    table = tmp_path / "t.csv"
    table.write_text("day\n" + "".join(f"{1 + i % 28:02}.{1 + i % 12:02}.2020\n" for i in range(600)))
    ends = {"minimum": "2020-01-01", "maximum": "2020-12-31"}
    field = {"name": "day", "type": "date", "constraints": ends, "bins": 6}
    told = {"dateFormat": "%d.%m.%Y"}
    made = release(table, 1, domain=Domain.from_dict({"dialect": told, "fields": [field]}))
    assert made.manifest.domain["dialect"] == told
    made.write(tmp_path / "out.parquet")
    pages = [
        Path(
            private_report(tmp_path / "out.manifest.json", table, tmp_path / f"{i}.NOT-PRIVATE.html", **said)
        )
        for i, said in enumerate(({}, {"dialect": Dialect.of(dateFormat="%d.%m.%Y")}))
    ]
    assert pages[0].read_text() == pages[1].read_text()
