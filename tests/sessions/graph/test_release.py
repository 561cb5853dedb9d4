"""A graph released: what is charged, what comes out, and that it follows from the noise alone."""

from __future__ import annotations

import json
import math
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from support.drawing import drawing
from support.fakes import FakeNoise
from support.graphs import KARATE, adjacency, packed, random_cut

from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.ledger.run import Run
from factored_mwem.sessions.graph import Cut, release_graph
from factored_mwem.sessions.graph.publish import answers_table, read_cuts
from factored_mwem.sessions.graph.release import make_graph
from factored_mwem.sessions.graph.request import GraphRequest
from factored_mwem.sessions.graph.result import GraphRelease
from factored_mwem.sessions.graph.tails import bound

EDGES = np.loadtxt(KARATE, delimiter=",", skiprows=1, dtype=int)
GRAPH = adjacency(34, EDGES)


def request(**options: object) -> GraphRequest:
    return GraphRequest.of(str(KARATE), 34, **{"epsilon": 2.0, "seed": 1, **options})  # type: ignore[arg-type]


def truth(cut: Cut) -> float:
    return float(packed(GRAPH)[cut.holds(*np.triu_indices(34, 1))].sum())


def released_by(asked: GraphRequest, noise: FakeNoise) -> GraphRelease:
    """A release outside the books."""
    with drawing(noise):
        return make_graph(asked, Run())


@pytest.mark.parametrize("method", ["lp", "spectral"])
def test_without_noise_the_graph_comes_back(method: str) -> None:
    """The fake adds nothing; of the spectral form, whose radius is that of the noise, most edges."""
    made = released_by(request(method=method), FakeNoise(Composition.PURE))
    assert made.noisy.tolist() == packed(GRAPH).tolist() and made.scale.value == 0.5
    graph = made.to_networkx()
    assert graph.number_of_nodes() == 34
    if method == "lp":
        assert sorted(map(sorted, graph.edges)) == sorted(map(sorted, nx.karate_club_graph().edges))
    else:
        assert 40 <= graph.number_of_edges() <= 120


def test_cuts_are_exact_without_noise_and_their_errors_are_stated() -> None:
    made = released_by(request(method="noise"), FakeNoise(Composition.PURE))
    rng = np.random.default_rng(1)
    for _ in range(50):
        cut = random_cut(rng, 34)
        told = made.cut(cut)
        assert told.value == truth(cut) and told.pairs == cut.pairs
        assert told.low <= told.value <= told.high
        p = math.exp(-2)
        assert told.stderr == pytest.approx(math.sqrt(2 * p * told.pairs) / (1 - p))
    assert made.cut([0, 1], [33, "32"]) == made.cut([33, 32], [0, 1])
    assert made.rank_one(np.ones(34), np.ones(34)).value == 156.0
    u, v = rng.integers(0, 9, (2, 34)) / 8
    each = np.triu(np.outer(u, v) + np.outer(v, u), 1)  # how often the noise of each pair counts
    assert made.rank_one(u, v).stderr == pytest.approx(math.sqrt(2 * p * (each**2).sum()) / (1 - p))
    with pytest.raises(InputError):
        made.rank_one([1.0], [1.0])
    with pytest.raises(InputError, match="no synthetic graph"):
        _ = made.edges
    assert made.to_arrow().num_rows == 561 and made.to_arrow()["weight"].to_pylist() == made.noisy.tolist()


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_intervals_hold_the_truth(delta: float) -> None:
    """OpenDP's noise: for all cuts at once; no interval is wider than Theorem 6.5 allows."""
    made = release_graph(str(KARATE), 34, epsilon=2.0, delta=delta, method="noise")
    rng = np.random.default_rng(2)
    for cut in [random_cut(rng, 34) for _ in range(400)]:
        each = made.cut(cut)
        assert abs(each.value - truth(cut)) <= each.bound
        reach = each.high - each.value
        assert reach == each.value - each.low <= bound(each.pairs, made.scale, math.log(40)) + 1
    assert made.statement.recompute() == made.statement.guarantee.spent_epsilon <= 2.0
    assert made.statement.ledger[0].sensitivity == 1 and len(made.statement.ledger) == 1
    assert made.statement.guarantee.unit == "one edge added or removed"


def test_what_comes_out_follows_from_noisy_weights_alone() -> None:
    """Another graph with the same noisy weights and seed gives the same edge list and statement."""
    answer = np.random.default_rng(3).integers(-2, 3, 561)
    ring = np.array([[i, (i + 1) % 34] for i in range(34)])
    made = []
    for given in (EDGES, ring):
        asked = GraphRequest.of(given, 34, epsilon=2.0, seed=5, columns=None)
        made.append(released_by(asked, FakeNoise(Composition.PURE, answers=[answer])))
    first, second = (each.to_arrow() for each in made)
    assert first.equals(second) and made[0].statement == made[1].statement


def test_the_seed_is_of_the_drawing_alone() -> None:
    one, same, other = (
        released_by(request(seed=seed), FakeNoise(Composition.PURE, offset=lambda v, s: v - v % 3))
        for seed in (1, 1, 2)
    )
    assert one.to_arrow().equals(same.to_arrow()) and (one.noisy == other.noisy).all()


def test_k_edges_of_a_person_cost_k_times_the_noise() -> None:
    for options, scale, sensitivity in (
        ({"contributions": 3}, 1.5, 3),
        ({"neighbours": "replace"}, 1.0, 2),
        ({"neighbours": "replace", "contributions": 3}, 3.0, 6),
    ):
        made = released_by(request(method="noise", **options), FakeNoise(Composition.PURE))
        assert (made.scale.value, made.statement.ledger[0].sensitivity) == (scale, sensitivity)
        assert ("at most 3 edges" in made.statement.guarantee.unit) == ("contributions" in options)


def test_what_cannot_be_done_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    hidden = tmp_path / "edges.csv"
    hidden.write_text("from,to\n0,1\n")
    for options, words in (
        ({"vertices": 100, "method": "lp"}, "64 vertices"),
        ({"vertices": 34, "method": "magic"}, "must be one of"),
        ({"vertices": 34, "rounds": 3}, "rounds means nothing here"),
        ({"vertices": 34, "time_zone": "UTC"}, "time_zone says how values are written"),
        ({"vertices": 34, "decimal": ","}, "decimal says how values are written"),
        ({"vertices": 34, "date_format": "%d.%m.%Y"}, "date_format says how values are written"),
        ({"vertices": 34, "seed": -1}, "seed"),
        ({"vertices": 34, "epsilon": -1.0}, "epsilon"),
        ({"vertices": 34, "columns": ["from", "who"]}, "no column"),
        ({"vertices": 34, "columns": ["from"]}, "two columns"),
        ({"vertices": 34, "privacy_id": "who"}, "who"),
    ):
        with pytest.raises(InputError, match=words):
            release_graph(hidden, **options)  # type: ignore[arg-type]
    with pytest.raises(ResourceError):
        release_graph(hidden, 20_000)


def test_without_its_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factored_mwem.sessions.graph.linear_program.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'factored-mwem\[graphs\]'"):
        release_graph(str(KARATE), 34, method="lp")
    made = release_graph(str(KARATE), 34)  # which needs none for so few
    with pytest.raises(InputError, match="graphs"):
        made.to_networkx()


def test_a_file_of_cuts(tmp_path: Path) -> None:
    vertices, path = Vertices.of(["ann", "bob", "eve"]), tmp_path / "cuts.jsonl"
    path.write_text('{"from": ["ann"]}\n\n{"from": ["ann", "bob"], "to": ["eve"]}\n')
    first, second = read_cuts(path, vertices)
    assert first == Cut.of(vertices, ["ann"]) and second.pairs == 2
    made = release_graph(pa.table({"a": ["ann"], "b": ["bob"]}), vertices.names, epsilon=100.0)
    assert made.to_arrow().schema.types == [pa.string(), pa.string()]
    table = answers_table(made, [first, second])
    assert table.column_names == ["query", "value", "stderr", "low", "high", "bound", "pairs"]
    assert table["value"].to_pylist() == [1, 0]
    wrong = ["{}", "[]", "{", '{"from": "ann"}', '{"from": ["who"]}', '{"from": [], "too": []}']
    for line in (*wrong, '{"from": [[1]]}', '{"from": null}'):
        path.write_text(f'{{"from": []}}\n{line}\n')
        with pytest.raises(InputError, match="line 2"):
            read_cuts(path, vertices)
    path.write_bytes(b"\xff\n")
    with pytest.raises(InputError):
        read_cuts(path, vertices)


def test_settings_are_public_facts() -> None:
    made = released_by(request(method="lp"), FakeNoise(Composition.PURE))
    text = made.statement.model_dump_json()
    settings = json.loads(text)["settings"]
    assert str(KARATE) not in text and "/" not in json.dumps(settings)
    assert len(settings.pop("vertices_sha256")) == 64
    assert settings == {"vertices": 34, "columns": ["from", "to"], "method": "lp", "sample_seed": 1}
