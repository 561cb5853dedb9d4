"""Tables that belong together, released as one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from factored_mwem import InputError, LinkedTable, Package, Policy, Reference, create_ledger, release_tables
from factored_mwem.accounting.cap import Cap
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import BudgetExceeded, NothingLearnt
from factored_mwem.files.files import IfExists
from factored_mwem.mechanisms.shares import NUMBERS_TIMES
from factored_mwem.pipeline.linked import _told
from factored_mwem.pipeline.linked_request import LinkedRequest
from factored_mwem.pipeline.linked_rows import LinkedModels, LinkedRelease, _seen
from factored_mwem.pipeline.linked_views import count_attribute
from factored_mwem.pipeline.saving.package_file import load_package, save_package
from factored_mwem.privacy.session import Measurement, NoiseScale
from factored_mwem.tables.outputs.targets import target_of

HOMES = 1500
FIELDS = {
    "homes": [{"name": "region", "categories": ["north", "south"], "constraints": {"required": True}}],
    "persons": [{"name": "sex", "categories": ["F", "M"], "constraints": {"required": True}}],
    "visits": [{"name": "ward", "categories": ["a", "b", "c"], "constraints": {"required": True}}],
}
"""Ward c is of women of the north alone: grandparent, parent and child hang together."""
DOMAINS = {name: {"fields": fields} for name, fields in FIELDS.items()}


def town() -> Package:
    rng = np.random.default_rng(1)
    region = rng.choice(["north", "south"], HOMES)
    home = np.repeat(np.arange(HOMES), rng.integers(0, 4, HOMES))
    sex = rng.choice(["F", "M"], len(home))
    person = np.repeat(np.arange(len(home)), rng.integers(0, 3, len(home)))
    apart = (region[home[person]] == "north") & (sex[person] == "F")
    ward = np.where(apart, "c", rng.choice(["a", "b"], len(person)))
    tables = {
        "homes": pa.table({"home": np.arange(HOMES) + 10, "region": region}),
        "persons": pa.table({"id": [f"p{n}" for n in range(len(home))], "sex": sex, "home": home + 10}),
        "visits": pa.table({"ward": ward, "person": [f"p{n}" for n in person]}),
    }
    return Package.of(
        [
            LinkedTable("visits", tables["visits"], None, Reference("person", "persons")),
            LinkedTable("homes", tables["homes"], "home"),
            LinkedTable("persons", tables["persons"], "id", Reference("home", "homes")),
        ]
    )


@pytest.fixture(scope="module")
def exact() -> LinkedRelease:
    """Released with hardly any noise."""
    return release_tables(town(), 3, Policy.of(epsilon=1000.0), domains=DOMAINS, sample_seed=7)


def test_a_release_holds_and_shows_no_private_row(exact: LinkedRelease) -> None:
    assert [each.source for each in exact.package.private] == [None] * 3
    assert "north" not in repr(town()) + repr(exact) and "p17" not in repr(town()) + repr(exact)


def is_whole(tables: dict[str, pa.Table]) -> bool:
    """Whether each row hangs on one that is there, and keys are different."""
    persons, homes = tables["persons"], tables["homes"]
    for keys in (persons["id"], homes["home"]):
        if len(pc.unique(keys)) < len(keys) or keys.null_count:
            return False
    links = ((persons["home"], homes["home"]), (tables["visits"]["person"], persons["id"]))
    return all(pc.all(pc.is_in(own, value_set=keys)).as_py() is not False for own, keys in links)


def test_tables_come_out_as_they_went_in_with_keys_whole(exact: LinkedRelease) -> None:
    tables, private = exact.tables(), {each.name: each.source for each in town().private}
    assert list(tables) == ["homes", "persons", "visits"] and is_whole(tables)
    assert {name: t.schema.types for name, t in tables.items()} == {
        name: t.schema.types for name, t in private.items()
    }
    assert {name: t.schema.names for name, t in tables.items()} == {
        name: t.schema.names for name, t in private.items()
    }
    for key, name in (("home", "homes"), ("id", "persons")):
        assert not pc.any(pc.is_in(tables[name][key], value_set=private[name][key].combine_chunks())).as_py()
    broken = tables | {"homes": tables["homes"].slice(5)}
    assert not is_whole(broken)


def shares(tables: dict[str, pa.Table]) -> dict[tuple[str, ...], float]:
    """The share of visits by region, sex and ward."""
    whole = tables["visits"].join(tables["persons"], "person", "id").join(tables["homes"], "home", "home")
    counted = whole.group_by(["region", "sex", "ward"]).aggregate([([], "count_all")])
    return {(r["region"], r["sex"], r["ward"]): r["count_all"] / len(whole) for r in counted.to_pylist()}


def test_what_grandparents_say_of_grandchildren_is_kept(exact: LinkedRelease) -> None:
    made, real = shares(exact.tables(6000)), shares({each.name: each.source for each in town().private})
    assert sum(abs(made.get(k, 0.0) - real.get(k, 0.0)) for k in made | real) / 2 < 0.03
    lost = {k: sum(real.get((r, s, k[2]), 0.0) for r in ("north", "south") for s in "FM") / 4 for k in real}
    assert sum(abs(lost[k] - real[k]) for k in real) / 2 > 0.15  # if the three did not hang together


def test_how_many_rows_hang_on_each_is_kept(exact: LinkedRelease) -> None:
    made, real = exact.tables(6000), {each.name: each.source for each in town().private}

    def numbers(tables: dict[str, pa.Table]) -> np.ndarray:
        each = tables["persons"].group_by("home").aggregate([([], "count_all")])["count_all"].to_numpy()
        counted = np.bincount(each, minlength=5)[:5]
        counted[0] = len(tables["homes"]) - len(each)
        return counted / counted.sum()

    assert np.abs(numbers(made) - numbers(real)).sum() / 2 < 0.03


@pytest.mark.slow
def test_rows_that_hang_on_one_row_are_alike_as_often_as_real_ones() -> None:
    """At the second level, too: there two wards of a person were the same by chance alone, .34 of pairs for
    .86. Seen to fail, with .57, where all pairs of a home are counted.
    """
    rng = np.random.default_rng(4)
    person = np.repeat(np.arange(HOMES), rng.integers(1, 5, HOMES))
    usual = rng.choice(["a", "b", "c"], HOMES)[person]
    ward = np.where(rng.random(len(person)) < 0.9, usual, rng.choice(["a", "b", "c"], len(person)))
    homes, persons = town().private[0], np.arange(HOMES)
    sexes = np.where(persons % 2, "F", "M")
    package = Package.of(
        [
            homes,
            LinkedTable(
                "persons",
                pa.table({"id": persons, "sex": sexes, "home": persons // 2 + 10}),
                "id",
                Reference("home", "homes"),
            ),
            LinkedTable(
                "visits",
                pa.table({"person": person, "ward": ward}),
                None,
                Reference("person", "persons"),
            ),
        ]
    )
    made = release_tables(package, 2, Policy.of(epsilon=1000.0), domains=DOMAINS, sample_seed=2)

    def in_pairs(tables: Mapping[str, pa.Table]) -> float:
        visits = tables["visits"].to_pandas()
        pairs = visits.assign(row=range(len(visits))).merge(
            visits.assign(row=range(len(visits))), on="person"
        )
        pairs = pairs[pairs.row_x != pairs.row_y]
        return float((pairs.ward_x == pairs.ward_y).groupby(pairs.person).mean().mean())

    real = in_pairs({"visits": package.private[2].source})
    assert 0.8 < real < 0.9 and abs(in_pairs(made.tables()) - real) < 0.1  # from seed to seed .014


def in_lines(order_by: str | None) -> Package:
    """Homes of one to three persons: a head, of age 40, then a spouse, and then a child."""
    homes, each = town().root, np.random.default_rng(3).integers(1, 4, HOMES)
    home, line = np.repeat(np.arange(HOMES) + 10, each), np.concatenate([np.arange(n) + 1 for n in each])
    who = pa.array(np.array(["head", "spouse", "child"])[line - 1])
    persons = pa.table({"home": home, "line": line, "who": who})
    return Package.of(
        [homes, LinkedTable("persons", persons, None, Reference("home", "homes"), order_by=order_by)]
    )


LINES = {"homes": DOMAINS["homes"], "persons": {"fields": [
    {"name": "line", "type": "integer", "constraints": {"minimum": 1, "maximum": 3, "required": True}},
    {"name": "who", "categories": ["head", "spouse", "child"], "constraints": {"required": True}},
]}}  # fmt: skip


def of_one_head(made: LinkedRelease) -> float:
    """The share of homes that have one head."""
    persons = made.tables()["persons"].to_pandas()
    return float(((persons.who == "head").groupby(persons.home).sum() == 1).mean())


def test_rows_of_a_root_come_in_order(tmp_path: Path) -> None:
    policy = Policy.of(epsilon=1000.0)
    made = release_tables(in_lines("line"), 2, policy, domains=LINES, sample_seed=1)
    assert of_one_head(made) > 0.99
    persons = made.tables()["persons"].to_pandas()
    assert (persons.who == persons.line.map({1: "head", 2: "spouse", 3: "child"})).mean() > 0.99
    assert persons.groupby("home", sort=False).line.is_monotonic_increasing.all()
    save_package(made, target_of(tmp_path / "model.fmwem"), IfExists.REFUSE)
    loaded = load_package(tmp_path / "model.fmwem")
    assert loaded.tables() == made.tables() and loaded.package.private == made.package.private
    assert of_one_head(release_tables(in_lines(None), 2, policy, domains=LINES, sample_seed=1)) < 0.8


def test_what_puts_rows_in_order_is_a_column_of_theirs() -> None:
    for name, line in (
        ("lin", "no column 'lin' of its own to order it by .did you mean 'line'"),
        ("who", "'who' is a column of type"),
    ):
        with pytest.raises(InputError, match=line):
            release_tables(in_lines(name), 2, domains=LINES)


def test_what_rows_hang_on_is_told_by_the_tables_before(exact: LinkedRelease) -> None:
    """How persons, and homes, are distributed over visits, each home weighing one."""
    package = town()
    request = LinkedRequest.of(package, 3, Policy.of(epsilon=1000.0), domains=DOMAINS)
    told = _told(request, package.private[2], exact.releases, 64, 1)
    assert _told(request, package.root, exact.releases, 64, 1) == {}
    homes, persons, visits = (each.source for each in package.private)
    whole = visits.join(persons, "person", "id").join(homes, "home", "home").to_pandas()
    each = whole.groupby("home").ward.transform("size")
    for name, column in (("persons.sex", whole.sex), ("homes.region", whole.region), (ROWS_OF_PERSON, each)):
        made = pd.Series(told[name].weights).groupby(told[name].cells.to_pandas()).sum()
        real = (1 / each).groupby(column).sum()
        assert (made / made.sum()).sub(real / real.sum(), fill_value=0).abs().sum() / 2 < 0.04, name


def test_what_is_told_is_not_paid_for_again() -> None:
    own = {"homes": DOMAINS["homes"], "persons": DOMAINS["persons"]}
    homes, persons, _ = town().private
    made = release_tables(Package.of([homes, persons]), 2, epsilon=3.0, domains=own, rounds=3)
    ledger = made.releases["persons"].manifest.ledger
    first = next(at for at, each in enumerate(ledger) if each.target == ("sex",))
    before_rounds = itertools.takewhile(lambda each: each.stage == "measure", ledger[first:])
    assert [each.target for each in before_rounds] == [("sex",)]


def test_a_row_far_down_knows_how_many_its_root_has() -> None:
    """Ward c is of homes with more visits than any of their persons has."""
    rng = np.random.default_rng(4)
    home, person = np.repeat(np.arange(1500), 2), np.repeat(np.arange(3000), rng.integers(1, 3, 3000))
    many = np.bincount(home[person])[home[person]] == 4
    visits = pa.table({"person": person, "ward": np.where(many, "c", rng.choice(["a", "b"], len(person)))})
    package = Package.of(
        [
            LinkedTable("homes", pa.table({"home": np.arange(1500), "region": ["north"] * 1500}), "home"),
            LinkedTable(
                "persons",
                pa.table({"id": np.arange(3000), "home": home, "sex": ["F"] * 3000}),
                "id",
                Reference("home", "homes"),
            ),
            LinkedTable("visits", visits, None, Reference("person", "persons")),
        ]
    )
    made = release_tables(package, 2, Policy.of(epsilon=1000.0), domains=DOMAINS).tables()
    whole = made["visits"].join(made["persons"], "person", "id").to_pandas()
    many = whole.groupby("home").ward.transform("size") == 4
    assert ((whole.ward == "c") == many).mean() > 0.9


def test_numbers_slope_within_their_classes() -> None:
    """Of 50 to 64 rows, a class, most homes have few: 54.7 on average, and 57 where all are as frequent."""
    each = np.random.default_rng(5).choice(np.arange(32, 65), 600, p=np.arange(33, 0, -1) / 561)
    package = Package.of(
        [
            LinkedTable("homes", pa.table({"home": np.arange(600), "region": ["north"] * 600}), "home"),
            LinkedTable(
                "persons",
                pa.table({"home": np.repeat(np.arange(600), each), "sex": ["F"] * each.sum()}),
                None,
                Reference("home", "homes"),
            ),
        ]
    )
    own = {"homes": DOMAINS["homes"], "persons": DOMAINS["persons"]}
    made = release_tables(package, 1, Policy.of(epsilon=1000.0), domains=own)
    homes = LinkedModels(made.package, made.releases, made.schemas).rows({"homes"}, 100_000, 1)["homes"].cells
    numbers = homes["rows of persons"].to_numpy()
    assert 54 < numbers[numbers >= 50].mean() < 56.4


def test_how_many_rows_hang_on_roots_is_fitted_as_it_was_counted_for_the_cap(exact: LinkedRelease) -> None:
    """Though with so little noise all residuals would be measured at once, which takes no earlier counts."""
    homes, real = exact.releases["homes"], {each.name: each.source for each in town().private}
    at = homes.domain.modelled.index("rows of persons")
    seen = [m.noisy for m in homes.measurements if m.positions == (at,)]
    each = real["persons"].group_by("home").aggregate([([], "count_all")])["count_all"].to_numpy()
    counted = np.bincount(each, minlength=4)
    counted[0] = HOMES - len(each)
    assert len(seen) > 1 and all(np.abs(noisy - counted).max() < 15 for noisy in seen)
    told = [*homes.manifest.warnings, *homes.answer("count").notes, homes.manifest.asked_policy.left_out]
    assert not any("in no count" in text for text in told)  # seen to fail: "of each person by 'root' 1 row"
    first = {m.positions: m.stddev * m.noisy.size ** (1 / 3) for m in reversed(homes.measurements)}
    assert first[(at,)] == pytest.approx(NUMBERS_TIMES**-0.5 * first[(1 - at,)], rel=0.01)  # gets more


def test_a_root_alone_leaves_nothing_out_and_is_warned_of_short_years(tmp_path: Path) -> None:
    """Both went by what hangs on a root: "of each person by 'root' 1 row", and no word of the century."""
    born = ["03/05/61", "07/08/99"] * 400
    people = pd.DataFrame({"id": range(800), "born": born, "rows of none": born})
    people.to_csv(tmp_path / "people.csv", index=False)
    package = Package.of([LinkedTable("people", tmp_path / "people.csv", "id")])
    made = release_tables(package, 1, epsilon=100.0, date_format="%d/%m/%y").releases["people"]
    told = "\n".join([*made.manifest.warnings, *made.answer("count").notes])
    assert "'born', 'rows of none': years of two digits" in told and "in no count" not in told


def test_numbers_that_noise_alone_put_into_far_classes_are_drawn_anew() -> None:
    """Of 1,000 homes 300 are drawn in classes of which noisy counts say that 0, or 35, have so many."""
    own = count_attribute("rows of persons", (1, 2, 4, 8, 16))
    few = [1000, 9, 0, 0, 5, -5]  # noise hides whether any home has rows: not said that none has
    cases = (([500, 400, 100, 0, 5, -5], 2, 0), ([500, 400, 65, 0, 5, 30], 2, 35), (few, 1, 0))
    for noisy, last, kept in cases:
        scale = NoiseScale(30.0, Composition.ZCDP)
        measured = [Measurement((0,), np.array(noisy), scale)] * 2
        release = SimpleNamespace(domain=Domain([own]), measurements=measured)
        codes = np.repeat(np.arange(6), [300, 300, 100, 100, 100, 100])
        share = np.bincount(codes) / 1000
        made = _seen(release, own.name, codes, share, np.random.default_rng(1))
        counts = np.bincount(made, minlength=6)
        assert counts[last + 1 :].sum() == share[last + 1 :].sum() == 0 and counts.sum() == 1000
        had = np.array([300, 300, 100, 100, 100, 100])[: last + 1]
        again = (1000 - had.sum() - kept) * had / had.sum()
        again[last] += kept
        assert np.abs(counts[: last + 1] - had - again).max() < 40
        assert (made[codes <= last] == codes[codes <= last]).all()
    hidden = SimpleNamespace(domain=Domain([own]), measurements=[Measurement((0,), np.zeros(6), scale)])
    far, codes_of_few = np.array([0, 0, 0, 0, 0, 5.0]), np.full(9, 5)
    made = _seen(hidden, own.name, codes_of_few, far, np.random.default_rng(1))
    assert (made == 1).all() and far.tolist() == [0, 1, 0, 0, 0, 0]  # it ended a paid release in a traceback
    release.measurements = []
    assert (_seen(release, own.name, codes, share, np.random.default_rng(1)) == codes).all()


def test_the_same_seed_gives_the_same_tables_and_a_file_the_same_release(
    exact: LinkedRelease, tmp_path: Path
) -> None:
    assert exact.tables(200, 3) == exact.tables(200, 3) != exact.tables(200, 4)
    path = tmp_path / "model.fmwem"
    save_package(exact, target_of(path), IfExists.REFUSE)
    loaded = load_package(path)
    assert loaded.tables() == exact.tables() and loaded.statement == exact.statement
    whole = path.read_bytes()
    for at in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(InputError):
            load_package(path)


def test_the_record_adds_up_and_the_ledger_has_one_entry(tmp_path: Path) -> None:
    ledger = create_ledger(tmp_path / "books")
    ledger.add("town", Cap.of(2.0, 1e-6), Neighbours.ADD_REMOVE, 1)
    booked = {"ledger": tmp_path / "books", "dataset": "town", "run_id": "one"}
    made = release_tables(town(), 2, epsilon=0.7, delta=1e-9, domains=DOMAINS, **booked)
    assert made.statement.recompute() == made.statement.guarantee.spent_epsilon <= 0.7
    assert made.statement.guarantee.spent_epsilon > 0.69
    assert "one row of the root table" in made.statement.guarantee.unit
    assert [entry.state for entry in ledger.entries("town")] == ["finished"]
    again = release_tables(town(), 2, epsilon=0.7, delta=1e-9, domains=DOMAINS, **booked)
    assert again.tables() == made.tables() and len(ledger.entries("town")) == 1
    with pytest.raises(BudgetExceeded):
        release_tables(town(), 2, epsilon=3.0, domains=DOMAINS, ledger=tmp_path / "books", dataset="town")


def test_a_learnt_domain_and_odd_rows_do_not_break_keys() -> None:
    """Keys that are doubled, missing or lead nowhere, and one root with 10,000 children."""
    homes = pa.table({"home": [1, 1, None, *range(2, 900)], "region": ["n", "s", "n", *["s", "n"] * 449]})
    home = [1] * 10_000 + [None] * 50 + [9999] * 50 + list(range(2, 900)) * 2
    sex = (["F", "M"] * len(home))[: len(home)]
    persons = pa.table({"id": [str(n % 11_000) for n in range(len(home))], "home": home, "sex": sex})
    package = Package.of(
        [
            LinkedTable("homes", homes, "home"),
            LinkedTable("persons", persons, "id", Reference("home", "homes")),
        ]
    )
    made = release_tables(package, 2, epsilon=20.0, domains={"homes": DOMAINS["homes"]})
    tables = made.tables() | {"visits": pa.table({"person": pa.array([], pa.string())})}
    assert is_whole(tables)
    assert made.statement.result["tables"]["persons"]["estimated_rows"] < 4000


PUBLIC = pa.table({"code": ["a", "b", "c"], "name": ["Anna ward", "Bed", "Cell"]})


def test_public_tables_are_published_as_they_are_and_their_keys_are_values() -> None:
    homes, persons, visits = town().private
    package = Package.of(
        [
            homes,
            persons,
            LinkedTable("visits", visits.source, None, visits.parent, (Reference("ward", "wards"),)),
            LinkedTable("wards", PUBLIC, "code", public=True),
        ]
    )
    own = {name: DOMAINS[name] for name in ("homes", "persons")}
    tables = release_tables(package, 2, epsilon=10.0, domains=own).tables()
    assert tables["wards"] == PUBLIC and is_whole(tables)
    assert set(tables["visits"]["ward"].to_pylist()) <= {"a", "b", "c", None}


@pytest.mark.parametrize("choice", [{"people": True, "privacy_id": "home"}, {"certificate": 0.03}])
def test_what_is_of_one_table_is_refused(choice: dict[str, object]) -> None:
    with pytest.raises(InputError, match="for a single table"):
        release_tables(town(), 2, Policy.of(**choice))  # type: ignore[arg-type]


def test_names_that_would_meet_are_refused() -> None:
    homes, persons, visits = town().private
    odd = homes.source.append_column("rows of persons", pa.array([1] * HOMES))
    package = Package.of([LinkedTable("homes", odd, "home"), persons, visits])
    with pytest.raises(InputError, match="rename yours"):
        release_tables(package, 2)


def test_too_few_roots_are_told_before_the_tables_are_paid_for(tmp_path: Path) -> None:
    homes, persons, visits = town().private
    package = Package.of(
        [homes, LinkedTable("persons", persons.source.slice(0, 9), "id", persons.parent), visits]
    )
    ledger = create_ledger(tmp_path / "books")
    ledger.add("town", Cap.of(2.0, 1e-6), Neighbours.ADD_REMOVE, 1)
    with pytest.raises(NothingLearnt, match=r"roots have rows of '(persons|visits)'"):
        release_tables(
            package, 2, ledger=tmp_path / "books", dataset="town", domains={"homes": DOMAINS["homes"]}
        )
    (entry,) = ledger.entries("town")
    assert entry.spent is not None and entry.spent.amount < entry.reserved.amount / 6


def test_a_dot_in_the_name_of_a_column_does_not_part_it_from_what_hangs_on_it() -> None:
    rng = np.random.default_rng(3)
    kind, home = rng.choice(["a", "b"], 800), np.repeat(np.arange(800), 2)
    homes = pa.table({"home": np.arange(800), "kind.of": kind})
    persons = pa.table({"home": home, "kind": kind[home]})
    links = [
        LinkedTable("homes", homes, "home"),
        LinkedTable("persons", persons, None, Reference("home", "homes")),
    ]
    kinds = {"categories": ["a", "b"], "constraints": {"required": True}}
    domains = {
        name: {"fields": [{"name": column, **kinds}]}
        for name, column in (("homes", "kind.of"), ("persons", "kind"))
    }
    tables = release_tables(Package.of(links), 2, Policy.of(epsilon=1000.0), domains=domains).tables()
    both = tables["persons"].join(tables["homes"], "home", "home")
    assert pc.mean(pc.equal(both["kind"], both["kind.of"]).cast(pa.float64())).as_py() > 0.97
