"""What is asked for and what may be measured for it: counted by hand, and refused before it hurts."""

from __future__ import annotations

import itertools
import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from support.naive import closure

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.workload.queries import KINDS
from factored_mwem.workload.queries.cuboids import CubeRequest
from factored_mwem.workload.queries.labels import WEIGHT, LabelRequest
from factored_mwem.workload.queries.ranges import RangesRequest
from factored_mwem.workload.workload import MAX_CANDIDATES, Workload


def domain_of(*shape: int) -> Domain:
    return Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)})


def positions_of(workload: Workload, domain: Domain) -> list[tuple[int, ...]]:
    candidates = workload.candidates(domain)
    return [candidates.positions(c) for c in range(len(candidates))]


@pytest.mark.parametrize("seed", range(20))
def test_candidates_are_the_targets_and_all_inside_them(seed: int) -> None:
    """Each once, whether it comes from an order, a name, or both; names in any order and doubled."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 7))
    domain = domain_of(*rng.integers(1, 5, size=d).tolist())
    orders = [int(rng.integers(1, d + 1)) for _ in range(rng.integers(0, 3))]
    cliques = [rng.integers(0, d, size=rng.integers(1, d + 2)).tolist() for _ in range(rng.integers(0, 4))]
    if not orders and not cliques:
        orders = [1]
    workload = Workload.of([[f"a{p}" for p in clique] for clique in cliques])
    for order in orders:
        workload = workload + Workload.marginals(order)
    targets = {tuple(sorted(set(c))) for c in cliques} | {
        s for order in orders for s in itertools.combinations(range(d), order)
    }
    found = positions_of(workload, domain)
    assert len(found) == len(set(found)) and set(found) == closure(targets)


def test_sizes_cells_and_orders() -> None:
    domain = domain_of(2, 1, 5, 3)
    candidates = Workload.of([("a3", "a0", "a1")]).candidates(domain)
    assert candidates.members.dtype == np.int32
    for c in range(len(candidates)):
        positions = candidates.positions(c)
        padding = 3 - len(positions)
        assert candidates.members[c].tolist() == [*positions, *[-1] * padding]
        assert candidates.sizes[c].tolist() == [domain.shape[p] for p in positions] + [1] * padding
        assert candidates.cells[c] == math.prod(domain.shape[p] for p in positions)
        assert candidates.orders[c] == len(positions)
        assert candidates.clique(c) == tuple(domain.names[p] for p in positions)


def test_a_huge_marginal_has_a_huge_number_of_cells() -> None:
    """12 attributes of 10,000 values: 10^48 must not wrap round to something that looks small."""
    candidates = Workload.of([[f"a{i}" for i in range(12)]]).candidates(domain_of(*[10_000] * 12))
    assert candidates.cells.max() == pytest.approx(1e48)


def test_keep_takes_a_mask() -> None:
    candidates = Workload.marginals(2).candidates(domain_of(2, 3, 4))
    kept = candidates.keep(candidates.cells <= 6)
    assert [kept.positions(c) for c in range(len(kept))] == [(0,), (1,), (2,), (0, 1)]
    assert kept.domain is candidates.domain and kept.cells.tolist() == [2, 3, 4, 6]


# ---- files


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("w.toml", 'marginals = 2\ncliques = [["a0", "a1", "a2"]]\n'),
        ("w.json", '{"marginals": 2, "cliques": [["a0", "a1", "a2"]]}'),
    ],
)
def test_load_reads_toml_and_json(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert (
        Workload.load(path) == Workload.load(str(path)) == Workload(orders=(2,), named=(("a0", "a1", "a2"),))
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("w.toml", "marginal = 2", "marginal: Extra inputs are not permitted"),
        ("w.json", '{"marginals": 2, "epsilon": 1}', "epsilon: Extra inputs"),
        ("w.toml", "marginals = 0", "marginals.0: .*greater than 0"),
        ("w.toml", 'marginals = "two"', "marginals: "),
        ("w.toml", "cliques = [[]]", "lists an empty marginal"),
        ("w.json", '{"cliques": ["age"]}', "cliques.0: "),
        ("w.json", "[1]", "w.json: "),
        ("w.json", "{", "not a workload file"),
        ("w.toml", "marginals", "not a workload file"),
        ("w.toml", "\udcff", "not a workload file"),
    ],
)
def test_load_refuses_in_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=message) as refusal:
        Workload.load(path)
    assert "\n" not in str(refusal.value)


def test_load_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InputError, match="cannot read the workload file"):
            Workload.load(path)


# ---- refusals


@pytest.mark.parametrize("order", [0, -1])
def test_an_order_is_at_least_one(order: int) -> None:
    with pytest.raises(InputError, match="at least one attribute"):
        Workload.marginals(order)


@pytest.mark.parametrize("d", [600, 20_000])
def test_too_many_candidates_are_refused_at_once(d: int) -> None:
    """From the number of combinations alone: listing 36 million of them would fill the memory first.

    All orders count, not the last only: of 20,000 attributes together there is one, of half of them a number
    of 6,000 digits.
    """
    names, workload = [f"a{i}" for i in range(d)], Workload.marginals(3 if d == 600 else d)
    tracemalloc.start()
    with pytest.raises(ResourceError, match="lower --marginals"):
        workload.check(names)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**7


def test_named_cliques_count_towards_the_limit() -> None:
    domain = domain_of(*[2] * 25)
    cliques = [[f"a{i}" for i in c] for c in itertools.islice(itertools.combinations(range(25), 20), 20)]
    assert MAX_CANDIDATES < 20 * 2**20
    with pytest.raises(ResourceError, match="candidate marginals"):
        Workload.of(cliques).candidates(domain)


def test_many_candidates_are_listed_within_bounded_memory() -> None:
    """Half a million pairs: an index of 4 bytes a member, made without a Python object for each."""
    domain, workload = domain_of(*[2] * 1000), Workload.marginals(2)
    tracemalloc.start()
    candidates = workload.candidates(domain)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(candidates) == 1000 + 1000 * 999 // 2
    assert candidates.members[-1].tolist() == [998, 999] and candidates.members[1000].tolist() == [0, 1]
    assert peak < 3 * candidates.members.nbytes


# ---- cubes, ranges, parities


def some_workload(rng: np.random.Generator) -> Workload:
    """Any mix of all that can be asked, with every field at any value that it may have."""
    names = ["age", "a b", "\u00e9", 'q"', "x:y", "0"]
    found = Workload(tuple(rng.integers(1, 9, rng.integers(0, 3)).tolist()))
    for _ in range(rng.integers(0, 5)):
        some = rng.permutation(names)[: rng.integers(1, 7)].tolist()
        weight = float(rng.choice([1.0, 0.1, 1000.0, 1e-300, rng.random() + 1e-9]))
        order = None if rng.random() < 0.5 else int(rng.integers(1, len(some) + 1))
        count, which, seed = (
            int(rng.integers(1, 1_000_001)),
            ("random", "all", "prefix")[rng.integers(3)],
            int(rng.integers(0, 2**62)),
        )
        found = (
            found
            + (
                Workload.cube(*some, order=order, weight=weight),
                Workload.ranges(*some, count=count, which=which, seed=seed, weight=weight),  # type: ignore[arg-type]
                Workload.parities(int(rng.integers(1, 21)), weight=weight),
                Workload.of([some]),
                Workload.label(some[0], weight=weight),
            )[rng.integers(5)]
        )
    return found


@pytest.mark.parametrize("seed", range(100))
def test_every_workload_survives_its_written_form(seed: int, tmp_path: Path) -> None:
    """As a dictionary, as JSON and as a file: the same questions, kind by kind in the order asked."""
    workload = some_workload(np.random.default_rng(seed))
    again = Workload.from_dict(workload.to_dict())
    (tmp_path / "w.json").write_text(json.dumps(workload.to_dict()))
    assert again == Workload.load(tmp_path / "w.json") == Workload.from_dict(again.to_dict())
    assert (again.orders, again.named) == (workload.orders, workload.named)
    assert again.asked == tuple(a for kind in KINDS.values() for a in workload.asked if isinstance(a, kind))


def test_the_published_schema_names_every_field_of_what_is_written() -> None:
    """What `to_dict` gives has no key that the schema lacks, in any object; and the schema forbids others."""
    judge = Draft202012Validator(Workload.json_schema())
    written = (
        Workload.marginals(2)
        + Workload.cube("a", "b", order=1)
        + Workload.ranges("a")
        + Workload.parities(2)
        + Workload.label("a")
        + Workload.of([["a"]])
    ).to_dict()
    judge.validate(written)
    assert set(written) == set(judge.schema["properties"]) and not judge.is_valid({**written, "more": 1})
    for name in KINDS:
        for changed in ({"more": 1}, {"weight": 0}, {"weight": 1001}):
            assert not judge.is_valid({name: [{**written[name][0], **changed}]})


@pytest.mark.parametrize(
    "entry",
    [
        {"cubes": [{"attributes": []}]},
        {"cubes": [{"attributes": ["a"], "order": 0}]},
        {"cubes": [{"attributes": ["a"], "weight": 0}]},
        {"ranges": [{"attributes": ["a"], "weight": math.nan}]},
        {"ranges": [{"attributes": ["a"], "weight": math.inf}]},
        {"ranges": [{"attributes": ["a"], "count": 0}]},
        {"ranges": [{"attributes": ["a"], "count": 1_000_001}]},
        {"ranges": [{"attributes": list("abcdefg")}]},
        {"ranges": [{"attributes": ["a"], "which": "some"}]},
        {"ranges": [{"attributes": ["a"], "seed": -1}]},
        {"ranges": {"attributes": ["a"]}},
        {"labels": [{"column": ""}]},
        {"labels": [{"column": "a", "weight": 0}]},
        {"labels": [{"column": "a", "weight": math.nan}]},
        {"labels": [{"column": ["a", "b"]}]},
        {"labels": ["a"]},
        {"parities": [{"order": 0}]},
        {"parities": [{"order": 21}]},
        {"parities": [3]},
        {"parities": [{"order": 2, "colour": 1}]},
    ],
    ids=str,
)
def test_a_file_that_asks_for_nonsense_is_refused_in_one_line(entry: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refusal:
        Workload.from_dict(entry, where="w.toml")
    assert str(refusal.value).startswith("w.toml: ") and "\n" not in str(refusal.value)


ADULT = Domain.from_dict(
    {
        "fields": [
            {"name": "age", "type": "integer", "bins": 40, "constraints": {"minimum": 0, "maximum": 79}},
            {
                "name": "hours",
                "type": "integer",
                "bins": 5,
                "constraints": {"minimum": 0, "maximum": 99, "required": True},
            },
            {"name": "sex", "categories": ["m", "f"], "constraints": {"required": True}},
            {"name": "grade", "categories": ["low", "mid", "high"], "categoriesOrdered": True},
        ]
    }
)


def test_what_kinds_ask_is_measured_through_the_marginals_inside() -> None:
    """A mix's candidates, and their weights: of all that hold one the heaviest, over the heaviest."""
    workload = (
        Workload.marginals(1)
        + Workload.cube("sex", "hours", "grade", order=2, weight=4.0)
        + Workload.ranges("hours", "age", weight=2.0)
    )
    candidates = workload.candidates(ADULT)
    assert candidates.weights is not None
    found = {candidates.clique(c): float(candidates.weights[c]) for c in range(len(candidates))}
    single = {("age",): 0.5, ("hours",): 1.0, ("sex",): 1.0, ("grade",): 1.0}
    assert found == single | {
        ("age", "hours"): 0.5,
        ("hours", "sex"): 1.0,
        ("hours", "grade"): 1.0,
        ("sex", "grade"): 1.0,
    }
    assert candidates.ranged == (0, 1)
    assert (Workload.marginals(2) + Workload.ranges("age")).candidates(ADULT).weights is None


def test_boxes_leave_missing_values_out() -> None:
    """Of 40 codes for values and one for missing ones: all, prefix and random boxes end at the 40th; ordered
    categories count as ordered.
    """
    for which, count in (("all", 820), ("prefix", 40), ("random", 500)):
        asked = RangesRequest(attributes=("age",), which=which, count=500)  # type: ignore[arg-type]
        questions = asked.questions(ADULT)
        assert len(questions.cells) == count and questions.low.min() == 0 and questions.high.max() == 39  # type: ignore[attr-defined]
        assert (questions.low <= questions.high).all()  # type: ignore[attr-defined]
    assert len(RangesRequest(attributes=("grade", "hours"), which="all").questions(ADULT).cells) == 6 * 15


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (Workload(), "the workload is empty"),
        (Workload.from_dict({}), "the workload is empty"),
        (Workload.marginals(5), "--marginals 5: the table has only 4 columns"),
        (Workload.of([("age", "b")]), "'b'"),
        (Workload.of([["age"] * 21]), "too many parts"),
        (Workload.ranges("sex"), "ranges over 'sex': its values have no order"),
        (Workload.ranges("nope"), "the workload names 'nope'"),
        (Workload.cube("age", "nope"), "the workload names 'nope'"),
        (Workload.cube("age", "sex", order=3), "a cube over 2 attributes has no marginals of 3"),
        (Workload.parities(2), "only 1 attributes have two values"),
        (Workload.label("nope"), "the workload names 'nope'"),
    ],
)
def test_a_workload_that_does_not_fit_is_refused(workload: Workload, message: str) -> None:
    with pytest.raises(InputError, match=message):
        workload.candidates(ADULT)


def test_all_ranges_that_are_too_many_and_cubes_too_wide_are_refused() -> None:
    bins = {"type": "integer", "bins": 50, "constraints": {"minimum": 0, "maximum": 99}}
    domain = Domain.from_dict({"fields": [{"name": name, **bins} for name in ("a0", "a1")]})
    with pytest.raises(InputError, match=r"all ranges over a0, a1 are .* boxes, more than 1,000,000"):
        Workload.ranges("a0", "a1", which="all").candidates(domain)
    names = [f"a{i}" for i in range(64)]
    with pytest.raises(ResourceError, match="20,000,000 candidate marginals"):
        Workload.cube(*names).check(names)


AGE, PAIR, TEXT = {"attributes": ("age",)}, {"attributes": ("A", "B")}, "Q1: age, in years"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age:1000", RangesRequest(**AGE, count=1000)),
        ("age, hours:2000@0.5", RangesRequest(attributes=("age", "hours"), count=2000, weight=0.5)),
        ("age:all", RangesRequest(**AGE, which="all")),
        ("age : prefix@3", RangesRequest(**AGE, which="prefix", weight=3.0)),
        ("\u00e9:1", RangesRequest(attributes=("\u00e9",), count=1)),
        ("A,B,C:2@3", CubeRequest(attributes=("A", "B", "C"), order=2, weight=3.0)),
        ("A", CubeRequest(attributes=("A",))),
        ("A,B@0.25", CubeRequest(**PAIR, weight=0.25)),
        # a label's name may hold what separates names elsewhere; the weight stands behind the last @
        ("income", LabelRequest(column="income", weight=WEIGHT)),
        ("income@3", LabelRequest(column="income", weight=3.0)),
        (f" {TEXT} @0.5", LabelRequest(column=TEXT, weight=0.5)),
        ("a@b@2", LabelRequest(column="a@b", weight=2.0)),
    ],
    ids=str,
)
def test_the_short_form_of_what_is_asked(text: str, expected: Any) -> None:
    assert type(expected).parse(text) == expected


# ---- labels


def weights_of(workload: Workload, domain: Domain) -> dict[tuple[str, ...], float]:
    candidates = workload.candidates(domain)
    weights = candidates.weights if candidates.weights is not None else np.ones(len(candidates))
    return {candidates.clique(c): float(w) for c, w in enumerate(weights)}


def test_a_label_is_asked_with_each_other_column_and_with_no_pair_of_others() -> None:
    domain = domain_of(2, 3, 4, 5)
    pairs = {("a0", "a2"), ("a1", "a2"), ("a2", "a3")}
    assert set(weights_of(Workload.label("a2"), domain)) == {("a0",), ("a1",), ("a2",), ("a3",)} | pairs
    assert LabelRequest(column="a2").targets(domain) == sorted(pairs)
    questions = LabelRequest(column="a2").questions(domain)
    assert {questions.positions(q) for q in range(len(questions.cells))} == {(0, 2), (1, 2), (2, 3)}
    assert questions.cells.tolist() == [8, 12, 20]


def test_a_label_weighs_more_than_plain_marginals_and_less_where_that_is_asked() -> None:
    """Over the heaviest: what a label is in, 1; the rest, one over its weight. A weight below 1 leaves what
    is asked anyway at 1; of two labels each pair has the heavier.
    """
    domain, names = domain_of(2, 3, 4, 5), [f"a{i}" for i in range(4)]
    found = weights_of(Workload.marginals(3) + Workload.label("a2", weight=8.0), domain)
    pairs = {pair for pair in itertools.combinations(names, 2) if "a2" in pair}
    assert found == {
        clique: 1.0 if len(clique) == 1 or clique in pairs else 1 / 8
        for k in (1, 2, 3)
        for clique in itertools.combinations(names, k)
    }
    assert set(weights_of(Workload.marginals(2) + Workload.label("a2", weight=0.5), domain).values()) == {1.0}
    two = Workload.marginals(2) + Workload.label("a0", weight=4.0) + Workload.label("a1", weight=8.0)
    found = weights_of(two, domain)
    assert [found[c] for c in (("a0", "a1"), ("a0", "a2"), ("a1", "a3"), ("a2", "a3"))] == [1, 0.5, 1, 0.125]


def test_a_label_has_a_weight_unless_it_is_given_one() -> None:
    assert Workload.label("income").asked == (LabelRequest(column="income", weight=WEIGHT),)
    assert Workload.from_dict({"labels": [{"column": "income"}]}) == Workload.label("income")


def test_a_label_needs_another_column() -> None:
    with pytest.raises(InputError, match="--label a0: there is no other column to predict it from"):
        (Workload.marginals(1) + Workload.label("a0")).candidates(domain_of(2))


@pytest.mark.slow
def test_a_label_of_a_wide_table_is_listed_and_counted_as_its_pairs_alone() -> None:
    """Of 9,000 columns as many pairs, not the 40 million of all; beyond the limit it is refused at once."""
    names = [f"a{i}" for i in range(9000)]
    candidates = (Workload.marginals(1) + Workload.label("a7")).candidates(domain_of(*[2] * 9000))
    assert len(candidates) == 9000 + 8999
    with pytest.raises(ResourceError, match="candidate marginals"):
        (Workload.marginals(2) + Workload.label("a7")).check(names)


def test_a_label_with_columns_that_follow_from_others_is_asked_with_their_sources() -> None:
    """Each pair alone: a label that follows, one that others follow from, and a pair inside one source."""
    fields = [
        {"name": n, "type": "integer", "constraints": {"minimum": 0, "maximum": most, "required": True}}
        for n, most in (("a", 2), ("b", 2), ("c", 2), ("d", 2), ("s", 4))
    ]
    domain = Domain.from_dict({"fields": fields, "rules": [{"sum": "s", "of": ["a", "b"]}]})
    of_source = set(weights_of(Workload.label("a"), domain))
    assert {c for c in of_source if len(c) > 1} == {("a", "b"), ("a", "c"), ("a", "d")}
    derived = set(weights_of(Workload.label("s"), domain))
    assert {c for c in derived if len(c) == 3} == {("a", "b", "c"), ("a", "b", "d")}
    assert ("c", "d") not in derived and ("a", "b") in derived
