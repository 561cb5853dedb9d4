"""Spark, in this process: counts, what reaches the noise, whose rows stay, and what is refused."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", minversion="4", reason="PySpark is not installed (the extra `spark`)")
from support import people as of_people
from support import runs
from support import spark as of_spark
from support.commands import Fmwem, refused
from support.fakes import FakeNoise
from support.hostile_table import hostile_domain, hostile_table, hostile_views, oracle_counts

from factored_mwem import LinkedTable, Package, Policy, Reference
from factored_mwem.accounting.cap import Cap
from factored_mwem.accounting.unit import Neighbours, grains_of
from factored_mwem.domain.agreement import Grouping, groupings_in
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import Busy, Changed, FmwemError, InputError, Lost
from factored_mwem.kernels.counting import MAX_COUNT
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.mechanisms import worth
from factored_mwem.pipeline.draw_on_spark import draw_on_spark, plain_schema
from factored_mwem.pipeline.linked import make_linked
from factored_mwem.pipeline.linked_request import LinkedRequest
from factored_mwem.pipeline.linked_views import whole
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.request.request import Request
from factored_mwem.tables.backends import spark_rows
from factored_mwem.tables.backends import spark_tasks as tasks
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import IN_MEMORY, PeopleSource
from factored_mwem.tables.backends.spark import SparkSource


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with of_spark.session("local[2,4]", tmp_path_factory.mktemp("spark")) as session:
        yield session


SETTINGS = {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.ansi.enabled": "false",
}


@pytest.fixture
def settings(spark: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """Of the session, put back afterwards."""
    before = {name: spark.conf.get(name) for name in request.param}
    for name, value in request.param.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def counts(source: Any, domain: Domain, order: int) -> np.ndarray:
    return open_source(source).encoded(domain, IN_MEMORY).exact_counts(*hostile_views(domain, order))


# ---- counts


@pytest.mark.parametrize(
    ("rows", "parts", "order", "settings"),
    [(3000, 4, 3, {}), (3000, 1, 2, {}), (1, 3, 2, {}), (0, 2, 1, {}), (500, 3, 2, SETTINGS)],
    indirect=["settings"],
)
def test_counts_are_those_of_plain_python(
    spark: Any, tmp_path: Path, rows: int, parts: int, order: int, settings: None
) -> None:
    """Marginals of up to three columns, some at coarser levels, of up to 400 codes; shuffled, also empty
    parts; and whatever the session's time zone, rows a batch, large types, ANSI mode.
    """
    domain, table = hostile_domain(typed=True), hostile_table(rows, typed=True)
    found = counts(of_spark.frame(spark, table, tmp_path, parts), domain, order)
    assert found.dtype == np.int64
    assert np.array_equal(found, oracle_counts(domain, table, *hostile_views(domain, order)))


def test_a_task_that_fails_and_is_retried_changes_no_count(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every task dies once when its work is done: while encoding, counting, and adding up. Seen to fail:
    where what a second attempt counts is lost, or twice as much.
    """
    domain, table = hostile_domain(typed=True), hostile_table(800, typed=True)
    source = of_spark.frame(spark, table, tmp_path, 3)
    of_spark.fail_once(monkeypatch, tmp_path / "said")
    found = counts(source, domain, 2)
    assert np.array_equal(found, oracle_counts(domain, table, *hostile_views(domain, 2)))
    died = Counter(path.name.split("-")[0] for path in (tmp_path / "said").iterdir())
    assert died["FailingEncode"] == 3 and died["FailingCount"] == 3 and died["FailingAdd"] >= 2


def test_counts_beyond_32_bits_are_added_up() -> None:
    """Seen to fail: with int32 sums in `Add`, or parts that keep 32 bits whatever they hold."""
    counted = np.array([MAX_COUNT, 5, 0], dtype=np.int32)
    batches = [batch for _ in range(3) for batch in tasks.parts(0, counted)]
    added = list(tasks.Add()(batches))
    again = list(tasks.Add()([*added, *added]))
    ((_, sums),) = [pair for pair in tasks.all_parts(again) if pair[0] != tasks.MARK]
    assert tasks.counts_of(sums)[:3].tolist() == [6 * MAX_COUNT, 30, 0]


def test_every_type_goes_to_bytes_and_back() -> None:
    table = hostile_table(300, typed=True)
    more = [pa.array([1, None], kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.float32())]
    for column in (*(c.combine_chunks() for c in table.columns), *more):
        part = column[1:]
        assert tasks.cooked(tasks.raw(part), part.type).equals(part) or pa.types.is_floating(part.type)
        assert str(tasks.cooked(tasks.raw(part), part.type).to_pylist()) == str(part.to_pylist())


# ---- a whole release


def calls(source: Any, order: int = 3, **options: Any) -> list[tuple[Any, ...]]:
    """Every input to a noise that is none, over a whole fit."""
    noise = FakeNoise(offset=lambda values, _: values + np.arange(len(values)) % 3)
    make(Request.of(source, order, sample_seed=1, **options), noise=noise)
    return [(c.method, json.dumps(_plain(c.values)), c.scale, c.threshold) for c in noise.calls]


def _plain(values: Any) -> Any:
    return values.tolist() if isinstance(values, np.ndarray) else sorted(values.items())


LEAN = ["word", "blank", "age", "day", "member", "share", "seen", "price"]


@pytest.mark.parametrize("declared", [True, False])
def test_all_that_reaches_the_noise_is_the_same(
    spark: Any, tmp_path: Path, in_rounds: None, declared: bool
) -> None:
    """A declared domain and a learnt one, in rounds. Seen to fail: where Spark's counts are one too many."""
    table = hostile_table(4000, typed=True)
    options: dict[str, Any] = {"columns": LEAN, "epsilon": 2.0, "max_cells": 20_000}
    if declared:
        options["domain"] = hostile_domain(typed=True).project(LEAN)
    here = calls(table, **options)
    assert len(here) > 10
    assert calls(of_spark.frame(spark, table, tmp_path, 3), **options) == here
    assert of_spark.kept(spark) == 0


def test_text_that_is_no_text_is_null(spark: Any) -> None:
    """One person's cell, as anywhere; and whoever has such an id has none."""
    df = spark.sql(
        "select cast(x as string) as who, 1 as n from values (X'ff41'), (X'41'), (X'41ff') as t(x)"
    )
    domain = Domain.from_dict({"fields": [{"name": "who", "categories": ["A"]}]})
    assert counts(df, domain, 1)[:2].tolist() == [1, 2]
    assert open_source(df).profile(["who"])["who"].texts((), 0) == {"A": 1}
    by_people = open_source(df).bounded("who", 1).profile(["n"])["n"]
    assert by_people.votes().sum() == 1


# ---- privacy ids


def people(rows: int, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    who = [["ann", "Ann", "ann ", "bob", "", None, "none", "eve", "zoë"][i] for i in rng.integers(0, 9, rows)]
    value = [None if i == 0 else int(i) for i in rng.integers(0, 40, rows)]
    share = [[0.0, -0.0, float("nan"), None, 0.5][i] for i in rng.integers(0, 5, rows)]
    return pa.table({"who": who, "value": pa.array(value, pa.int64()), "share": pa.array(share)})


def plain(value: int | None, share: float | None) -> str:
    """A row as text, without the sign of a zero."""
    return str((value, None if share is None else share or 0.0))


def kept_rows(source: Any, most: int) -> Counter[str]:
    """The rows that stay, once for each time."""
    bounded = open_source(source).bounded("who", most, ("none",))
    assert isinstance(bounded, SparkSource) and bounded.schema.names == ["value", "share"]
    rows = bounded._rows(["value", "share"]).toArrow().to_pylist()
    return Counter(plain(row["c1"], row["c2"]) for row in rows)


@pytest.mark.parametrize("most", [1, 5])
def test_whose_rows_stay_depends_on_their_own_rows_alone(spark: Any, tmp_path: Path, most: int) -> None:
    """Against a plain count: whoever has an id keeps `most` rows, or all; nobody else's stay, or change what
    stays of theirs; whatever the parts and the order.
    """
    table = people(400)
    found = kept_rows(of_spark.frame(spark, table, tmp_path, 1), most)
    shuffled = table.take(np.random.default_rng(1).permutation(len(table)))
    for parts in (4, 7):
        assert kept_rows(of_spark.frame(spark, shuffled, tmp_path, parts), most) == found
    alone: Counter[str] = Counter()
    for who in ("ann", "Ann", "ann ", "bob", "eve", "zoë"):
        own = table.filter(pc.equal(table["who"], who))
        some = kept_rows(of_spark.frame(spark, own, tmp_path, 2), most)
        assert some.total() == min(most, len(own))
        assert some <= Counter(plain(*row.values()) for row in own.drop_columns("who").to_pylist())
        alone += some
    assert alone == found


def test_a_release_by_people_is_the_same_whatever_the_parts(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_rounds: None
) -> None:
    """Also where a domain is learnt: both passes are over the same rows, few as they are."""
    monkeypatch.setattr(worth, "rows_for_a_text", lambda *_: -1e9)
    table = people(3000)
    options: dict[str, Any] = {"order": 2, "privacy_id": "who", "contributions": 50, "epsilon": 500.0}
    first = calls(of_spark.frame(spark, table, tmp_path, 1), **options)
    order = random.Random(2).sample(range(len(table)), len(table))
    assert calls(of_spark.frame(spark, table.take(order), tmp_path, 5), **options) == first
    assert of_spark.kept(spark) == 0


def test_collations_join_no_values(spark: Any, tmp_path: Path) -> None:
    """Where upper and lower case are equal to Spark, they stay two people, and two values."""
    from pyspark.sql import functions as F

    plain = of_spark.frame(spark, people(200), tmp_path, 2)
    loose = plain.withColumn("who", F.collate("who", "UTF8_LCASE"))
    assert kept_rows(loose, 4) == kept_rows(plain, 4)
    domain = Domain.from_dict({"fields": [{"name": "who", "categories": ["ann", "Ann", "bob"]}]})
    assert np.array_equal(counts(loose, domain, 1), counts(plain, domain, 1))
    found = open_source(loose).profile(["who"])["who"]
    assert found.texts((), 0) == open_source(plain).profile(["who"])["who"].texts((), 0)
    assert {"ann", "Ann"} <= set(found.texts((), 0))


def test_an_id_that_may_be_spelt_twice_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="may have several spellings"):
        open_source(of_spark.frame(spark, people(5), tmp_path, 1)).without("share")


# ---- people who weigh one


def test_people_weigh_one_as_anywhere(spark: Any, tmp_path: Path) -> None:
    """Grains of every cell, and numbers of people, against plain Python; where not all rows are used, whose
    they are, whatever the parts and the order.
    """
    most, unit = 5, grains_of(5)
    table, domain = of_people.table_of_people(700), of_people.modelled(most)
    small = of_people.table_of_people(700, most=most)
    small = small.filter(pc.not_equal(small["who"].fill_null(""), "NA"))

    def opened(some: pa.Table, parts: int) -> PeopleSource:
        source = open_source(of_spark.frame(spark, some, tmp_path, parts))
        return source.people("who", most, lambda n: unit // n, ("NA",))

    source = opened(small, 3)
    cells = of_people.every_cell(source.encoded(domain, IN_MEMORY), domain.shape)
    assert cells == of_people.grains(small, most, unit, of_people.persons(small))
    here = open_source(small).people("who", most, lambda n: unit // n, ("NA",))
    assert source.people_by_rows(most).tolist() == here.people_by_rows(most).tolist()
    names = of_people.DOMAIN.names
    assert source.constancy(names).tolist() == here.constancy(names).tolist()
    groupings = {**groupings_in(domain, ("word",)), "age": (Grouping(3, 1), Grouping(3, 2))}
    alike = [each.pairs_alike(domain, groupings, IN_MEMORY).tolist() for each in (source, here)]
    assert alike[0] == alike[1] and min(alike[0]) > 0
    shuffled = table.take(np.random.default_rng(1).permutation(len(table)))
    first, second = (
        of_people.every_cell(opened(t, parts).encoded(domain, IN_MEMORY), domain.shape)
        for t, parts in ((table, 1), (shuffled, 4))
    )
    assert first == second
    assert sum(first.values()) == sum(
        unit // min(most, len(own)) * min(most, len(own)) for own in of_people.persons(table).values()
    )


@pytest.mark.parametrize("declared", [True, False])
def test_of_people_all_that_reaches_the_noise_is_the_same(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: bool
) -> None:
    """A declared domain and a learnt one, where nobody has more rows than are used."""
    monkeypatch.setattr(worth, "rows_for_a_text", lambda *_: -1e9)
    table = of_people.table_of_people(3000, people=700, most=5)
    options: dict[str, Any] = {"contributions": 5, "epsilon": 500.0, "rounds": 3}
    if declared:
        options["domain"] = of_people.DOMAIN
    here = of_people.noise_inputs(table, 2, **options)
    assert len(here) > 5
    assert of_people.noise_inputs(of_spark.frame(spark, table, tmp_path, 3), 2, **options) == here
    assert of_spark.kept(spark) == 0


@pytest.mark.parametrize("verb", ["certificate", "cube", "mwem, ranges", "label"])
def test_of_people_the_noise_gets_the_same_whatever_is_asked(spark: Any, tmp_path: Path, verb: str) -> None:
    table = of_people.table_of_people(900, people=200, most=of_people.MOST)
    there = of_people.inputs_of_verb(of_spark.frame(spark, table, tmp_path, 3), verb)
    assert len(there) >= 4 and there == of_people.inputs_of_verb(table, verb)


# ---- tables that belong together


def test_tables_that_hang_together_come_as_files_of_the_same_rows_do(spark: Any, tmp_path: Path) -> None:
    """Whatever the parts: the same bits as of tables whose rows are in the order of their cells. Of visits,
    on which nothing hangs, at most 9 of a person come here, if no more are used.
    """
    rng = np.random.default_rng(2)
    homes = pa.table(
        {"home": np.arange(90), "built": pa.array(rng.integers(0, 9, 90), pa.int32()).cast(pa.date32())}
    )
    keys = [f"k{i}" for i in rng.integers(0, 150, 200)]  # some come twice, also in two homes
    persons = pa.table({"key": keys, "home": rng.integers(-5, 95, 200), "sex": rng.choice(["F", "M"], 200)})
    visits = pa.table({"of": rng.choice([*keys, "", "nobody"], 700), "ward": rng.choice(["a", "b"], 700)})
    real = {"homes": homes, "persons": persons, "visits": visits}
    here = {
        name: table.sort_by([(c, "ascending") for c in table.column_names]) for name, table in real.items()
    }
    fields = {
        "built": {"type": "date"},
        "sex": {"categories": ["F", "M"]},
        "ward": {"categories": ["a", "b"]},
    }
    fields["built"] |= {"edges": [f"1970-01-{day:02}" for day in range(1, 11)]}
    own = dict(zip(real, ([{"name": name} | about] for name, about in fields.items()), strict=True))

    def asked(sources: dict[str, Any], most: int) -> LinkedRequest:
        package = Package.of(
            [
                LinkedTable("homes", sources["homes"], "home"),
                LinkedTable("persons", sources["persons"], "key", Reference("home", "homes")),
                LinkedTable("visits", sources["visits"], None, Reference("of", "persons")),
            ]
        )
        policy = Policy.of(epsilon=50.0, contributions=most)
        domains = {name: {"fields": each} for name, each in own.items()}
        return LinkedRequest.of(package, 2, policy, domains=domains, sample_seed=3)

    reached = []
    for parts in (0, 1, 4):
        there = {name: of_spark.frame(spark, table, tmp_path, parts or 1) for name, table in real.items()}
        noise = FakeNoise(offset=lambda values, _: values + np.arange(len(values)) % 3)
        made = make_linked(asked(there if parts else here, 64), noise=noise)
        calls = [(c.method, json.dumps(_plain(c.values)), c.scale) for c in noise.calls]
        reached.append((calls, {name: table.to_pydict() for name, table in made.tables().items()}))
    assert reached[0] == reached[1] == reached[2]
    assert "cluster" in made.statement.guarantee.assumptions
    few = {name: whole(table) for name, table in asked(there, 9).tables().items()}
    assert few["persons"].equals(here["persons"])
    wanted = {key: min(n, 9) for key, n in Counter(visits["of"].to_pylist()).items() if key}
    assert Counter(few["visits"]["of"].to_pylist()) == wanted and max(wanted.values()) == 9


# ---- rows that change


def test_the_fingerprint_is_of_rows_in_any_order(spark: Any, tmp_path: Path) -> None:
    table, key = people(200), b"k" * 32

    def taken(some: pa.Table, parts: int = 2, key: bytes = key) -> bytes:
        return open_source(of_spark.frame(spark, some, tmp_path, parts)).fingerprint(key)

    first = taken(table)
    assert taken(table.take(np.arange(200)[::-1]), 5) == first
    other = [
        taken(table.slice(1)),
        taken(pa.concat_tables([table, table.slice(0, 1)])),
        taken(pa.concat_tables([table.slice(1), table.slice(1, 1)])),
        taken(table.rename_columns(["who", "v", "share"])),
        taken(table, key=b"l" * 32),
    ]
    nulls = [pa.table({"a": pa.array(a, pa.int32()), "b": pa.array(b, pa.int32())}) for a, b in NULLS]
    assert len({first, *other, *map(taken, nulls)}) == 1 + len(other) + len(NULLS)


NULLS = [([1], [None]), ([None], [1]), ([None], [None])]
"""Spark's own hash passes over nulls, wherever they are."""


def write(path: Path, values: list[int]) -> None:
    pq.write_table(pa.table({"a": values, "b": values}), path)


A = Domain.from_dict({"fields": [{"name": n, "type": "integer", "categories": [0, 1, 2]} for n in "ab"]})
PLACES = hostile_views(A, 1)


def test_blocks_that_are_encoded_again_from_other_rows_are_seen(spark: Any, tmp_path: Path) -> None:
    """Seen to fail: without the comparison in `exact_counts`."""
    write(tmp_path / "t.parquet", [0, 1, 1, 2])
    data = open_source(spark.read.parquet(str(tmp_path / "t.parquet"))).encoded(A, IN_MEMORY)
    first = data.exact_counts(*PLACES)
    write(tmp_path / "t.parquet", [0, 1, 2, 2])
    assert np.array_equal(data.exact_counts(*PLACES), first)  # as Spark has kept them
    of_spark.lose_blocks(spark)
    with pytest.raises(Changed, match="not those that it read before"):
        data.exact_counts(*PLACES)


def test_blocks_that_are_lost_are_encoded_again(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "t.parquet", [0, 1, 1, 2])
    data = open_source(spark.read.parquet(str(tmp_path / "t.parquet"))).encoded(A, IN_MEMORY)
    of_spark.lose_blocks(spark)
    assert data.exact_counts(*PLACES)[:3].tolist() == [1, 2, 1]


def test_rows_that_change_between_passes_are_seen(spark: Any, tmp_path: Path) -> None:
    """Between the fingerprint, the profile and the encoding."""
    write(tmp_path / "t.parquet", [0, 1, 1, 2])
    source = open_source(spark.read.parquet(str(tmp_path / "t.parquet")))
    source.profile(["a"])
    source.encoded(A.project(["a"]), IN_MEMORY)
    write(tmp_path / "t.parquet", [0, 1, 2, 2])
    with pytest.raises(Changed):
        source.encoded(A.project(["a"]), IN_MEMORY)
    source = open_source(spark.read.parquet(str(tmp_path / "t.parquet")))
    source.fingerprint(b"key")
    write(tmp_path / "t.parquet", [0, 1, 1, 2])
    with pytest.raises(Changed):
        source.profile(["b"])
    with pytest.raises(Changed):
        whole(source.gathered(None, 9))


def test_a_release_stops_before_noise_over_other_rows(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They change between the encoding and the first count."""
    write(tmp_path / "t.parquet", [0, 1, 1, 2] * 50)
    real = spark_rows.SparkRows.exact_counts

    def late(self: Any, *arguments: Any) -> np.ndarray:
        write(tmp_path / "t.parquet", [0, 1, 2, 2] * 50)
        of_spark.lose_blocks(spark)
        return real(self, *arguments)

    monkeypatch.setattr(spark_rows.SparkRows, "exact_counts", late)
    noise = FakeNoise()
    with pytest.raises(Changed):
        make(Request.of(spark.read.parquet(str(tmp_path / "t.parquet")), 2, domain=A), noise=noise)
    assert noise.calls == []


def test_a_run_is_taken_up_with_the_same_rows_alone(spark: Any, tmp_path: Path, in_rounds: None) -> None:
    """All draws of a finished run come from its journal, also by people, and however the rows lie."""
    rng = np.random.default_rng(4)
    rows = {name: rng.integers(0, size, 300) for name, size in runs.DOMAIN.items()}
    table = pa.table({**rows, "who": rng.integers(0, 40, 300)})
    options: dict[str, Any] = {"privacy_id": "who", "contributions": 1}
    books = LedgerFile.create(tmp_path / "books").path
    LedgerFile(books).add("t", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 1, "who")
    made, _, noise = runs.go(books, of_spark.frame(spark, table, tmp_path, 3), **options)
    assert noise.calls
    mixed = of_spark.frame(spark, table.take(rng.permutation(300)), tmp_path, 5)
    again, run, quiet = runs.go(books, mixed, **options)
    assert not quiet.calls and run.resumed == len(noise.calls)
    assert again.to_arrow().equals(made.to_arrow())
    with pytest.raises(Lost, match="other data"):
        runs.go(books, of_spark.frame(spark, table.slice(1), tmp_path, 2), **options)


# ---- what is refused


def test_types_that_no_release_can_hold(spark: Any) -> None:
    """Only where they are asked for."""
    df = spark.sql(
        "select 1 as a, array(1) as l, map('a', 1) as m, named_struct('x', 1) as s, interval '1' month as i, "
        "parse_json('{}') as v, cast('x' as binary) as b, null as n"
    )
    domain = dict.fromkeys("almsivb", 2) | {"n": 1}
    make(Request.of(df, 1, domain=domain, columns=["a", "n"]), noise=FakeNoise())
    for name in "lmsivb":
        with pytest.raises(InputError, match=f"column '{name}'") as error:
            make(Request.of(df, 1, domain=domain, columns=["a", name]), noise=FakeNoise())
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="which fmwem cannot release"):
        make(Request.of(df, 1), noise=FakeNoise())


def test_names_that_spark_takes_for_the_same_or_for_a_path(spark: Any) -> None:
    df = spark.createDataFrame(pa.table({"a.b": [1, 2], "A": [0, 1], "a": [1, 1], "`": [2, 2]}))
    domain = {"a.b": 3, "A": 3, "a": 3, "`": 3}
    noise = FakeNoise()
    make(Request.of(df, 1, domain=domain), noise=noise)
    assert {str(c.values) for c in noise.calls} >= {"[0 1 1]", "[1 1 0]", "[0 2 0]", "[0 0 2]"}
    with pytest.raises(InputError, match="two columns named 'a'"):
        open_source(df.select(df["`a.b`"].alias("a"), df["`a.b`"].alias("a")))


def test_what_spark_raises_is_not_told(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Its message quotes the value that it could not read. Seen to fail: with `raise ... from error`."""
    df = spark.sql("select cast(x as int) as a from values ('1'), ('CANARY-4711') as t(x)")
    with pytest.raises(Busy) as caught:
        make(Request.of(df, 1, domain={"a": 3}), noise=FakeNoise())
    error: BaseException | None = caught.value
    while error is not None:
        assert "CANARY" not in repr(error) and isinstance(error, FmwemError)
        error = error.__cause__ or error.__context__
    assert caught.value.retryable and not caught.value.budget_spent
    assert "CANARY" not in "".join(capfd.readouterr())


def test_workers_that_cannot_run_the_package_are_named(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = spark.createDataFrame(pa.table({"a": [0, 1]}))
    with (
        monkeypatch.context() as patch,
        pytest.raises(InputError, match=r"has factored-mwem .*, this is 9\.9"),
    ):
        patch.setattr(tasks, "version", lambda _: "9.9")
        make(Request.of(df, 1, domain={"a": 3}), noise=FakeNoise())
    blocked = "import sys\nsys.modules['factored_mwem'] = None\n"
    (tmp_path / "usercustomize.py").write_text(blocked)
    (tmp_path / "sitecustomize.py").write_text(blocked)
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", str(tmp_path))
    with pytest.raises(InputError, match=r"has no module 'factored_mwem'.*pip install") as error:
        make(Request.of(df, 1, domain={"a": 3}), noise=FakeNoise())
    assert "\n" not in str(error.value)


def test_a_stream_is_refused(spark: Any) -> None:
    with pytest.raises(InputError, match="stream"):
        open_source(spark.readStream.format("rate").load())


# ---- the command line


def test_a_table_of_the_catalog(spark: Any, here: Path, fmwem: Fmwem) -> None:
    spark.createDataFrame(pa.table({"a": [0, 1, 1, 2] * 100})).createOrReplaceTempView("people")
    (here / "d.json").write_text(json.dumps(A.project(["a"]).to_dict()))
    done = fmwem("release spark:people --marginals 1 --domain d.json -o out.parquet -q")
    assert done.code == 0, done.err
    assert pq.read_table(here / "out.parquet").schema.names == ["a"]
    refused(fmwem, "release spark:nobody --marginals 1 -q", "has no such table")


# ---- drawing


def test_rows_drawn_on_spark_are_those_drawn_here(spark: Any, made: Release) -> None:
    """In three batches, one of them short, over as many tasks. Seen to fail: with a generator a task."""
    rows = 2 * 2**17 + 11
    drawn = draw_on_spark(made, spark, rows, seed=5)
    order = [(name, "ascending") for name in made.schema.names]
    here = made.sample(rows, seed=5).sort_by(order)
    there = drawn.toArrow().sort_by(order)
    assert there.equals(here.cast(there.schema))
    assert draw_on_spark(made, spark, 0, seed=5).count() == 0
    with pytest.raises(InputError, match="0 or more"):
        draw_on_spark(made, spark, -1)


def test_types_that_spark_lacks_come_as_wider_ones(spark: Any) -> None:
    zoned = pa.array([0, 86_400 * 10**9], pa.timestamp("ns"))
    values = [pa.array([0, 255], pa.uint8()), pa.array([0, 2**63], pa.uint64())]
    texts = pa.array(["a", "b"]).dictionary_encode()
    table = pa.table({"a": values[0], "b": values[1], "t": texts, "z": zoned})
    fields = [
        {"name": "a", "type": "integer", "categories": [0, 255]},
        {"name": "b", "type": "integer", "categories": [0, 2**62]},
        {"name": "t", "categories": ["a", "b"]},
        {"name": "z", "type": "datetime", "categories": ["1970-01-01", "1970-01-02"]},
    ]
    asked = Request.of(table, 1, domain={"fields": fields}, rows=4, sample_seed=1)
    made = make(asked, noise=FakeNoise())
    there, here = draw_on_spark(made, spark, 50, seed=1).toArrow(), made.sample(50, seed=1)
    plain = here.cast(plain_schema(here.schema))
    assert Counter(map(str, there.to_pylist())) == Counter(map(str, plain.to_pylist()))
