"""Lines to a set of pairs: one line, whatever its bytes, changes the set by one pair at most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import KARATE

from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError
from factored_mwem.privacy.other.edges import AllEdges
from factored_mwem.request.promise import Terms
from factored_mwem.sessions.graph.request import GraphRequest, open_edges
from factored_mwem.tables.inputs.edge_list import end_columns, read_edges

FOUR = Vertices.of(4)
PLAIN = [b"0,1", b"2,3", b"1,0", b"1,2"]
HOSTILE = [
    b'"0,1', b'0,"1', b'"', b"0,1,2", b"0", b",", b"", b"0,0", b"3,3", b"9,1", b"0,99999999999999999999",
    b"-1,2", b"0x1,2", b"1e0,2", b"\x00,1", b"0,\x00", b"\xff\xfe,1", b"0,1\x00", b"1.0,2", b"01,2",
    b" 3 , 0 ", b"3,0", b"0,3", b"nan,1", b"=1,2", b"\xef\xbb\xbf0,2", b"0,2" + b"x" * 70_000, b'"0","2"',
    b"0;2",
]  # fmt: skip


LINE = st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")) | st.sampled_from(HOSTILE[:-3])


def pairs(lines: list[bytes], vertices: Vertices = FOUR) -> set[int]:
    text = b"a,b\n" + b"".join(line + b"\n" for line in lines)
    Path("edges.csv").write_bytes(text)
    return pairs_of("edges.csv", vertices)


def pairs_of(given: object, vertices: Vertices = FOUR, **options: object) -> set[int]:
    source = open_edges(given, Terms.given(None, options, delta=0.0, records="lines"))  # type: ignore[arg-type]
    return set(read_edges(source.table, vertices, end_columns(source, vertices, None)).tolist())


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_pair_numbers_are_the_upper_triangle() -> None:
    for n in (2, 3, 7):
        vertices = Vertices.of(n)
        low, high = np.triu_indices(n, 1)
        assert vertices.pair_numbers(low, high).tolist() == list(range(vertices.pairs))
        assert [e.tolist() for e in vertices.ends(np.arange(vertices.pairs))] == [low.tolist(), high.tolist()]
    vertices = Vertices.of(60_000)  # beyond 32 bits
    ends = np.array([59_998]), np.array([59_999])
    last = vertices.pair_numbers(*ends)
    assert last == vertices.pairs - 1 and [e.tolist() for e in vertices.ends(last)] == [[59_998], [59_999]]


def test_a_pair_counts_once_in_either_order() -> None:
    assert pairs(PLAIN) == pairs(PLAIN[:2] + PLAIN[3:]) == {0, 3, 5}


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: repr(line[:12]))
def test_a_hostile_line_changes_its_own_pair_at_most(line: bytes) -> None:
    """Wherever it stands; and never an error."""
    base = pairs(PLAIN)
    for at in range(len(PLAIN) + 1):
        found = pairs([*PLAIN[:at], line, *PLAIN[at:]])
        assert len(found ^ base) <= 1 and base <= found


def test_what_names_no_pair_is_left_out() -> None:
    """Those that do name one are spelt as a vertex, blanks aside."""
    named = {line: pairs([line]) for line in HOSTILE}
    kept = {line for line, found in named.items() if found}
    assert kept == {b" 3 , 0 ", b"3,0", b"0,3", b'"0","2"'}


@settings(max_examples=60, deadline=None)
@given(st.lists(LINE, max_size=6), LINE, st.integers(0, 6))
def test_any_bytes_in_a_line_move_one_pair(lines: list[bytes], one: bytes, at: int) -> None:
    """The header line says that a line ends with a line feed: bytes with one in them are several lines."""
    assert len(pairs(lines) ^ pairs([*lines[:at], one, *lines[at:]])) <= 1


def test_typed_tables_frames_graphs_and_arrays_name_the_same_pairs() -> None:
    ends = np.array([[0, 1], [3, 2], [2, 3], [7, 1], [2, 2]])
    expected = pairs([b"0,1", b"3,2"])
    graph = nx.Graph([(0, 1), (3, 2), (2, 2), (7, 1)])
    wide = pa.table({"u": pa.array(ends[:, 0], pa.uint64()), "v": pa.array(ends[:, 1].astype("i1"))})
    texts = pa.table({"u": pa.array(["0", "3", None], pa.large_string()), "v": ["1", "2", "1"]})
    coded = pa.table({"u": pa.array(["0", "3"]).dictionary_encode(), "v": ["1", "2"]})
    for form in (ends, graph, nx.DiGraph(graph), wide, texts, coded):
        assert pairs_of(form) == expected


def test_vertices_by_name(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("ann\nbob\n\n eve \n")
    vertices = Vertices.of(str(tmp_path / "names.txt"))
    assert vertices.names == ("ann", "bob", "eve")
    assert pairs([b"ann,eve", b"Ann,bob", b"bob,eve"], vertices) == {1, 2}
    for wrong in ("a\na\n", "a\n", "", b"\xff\nb\n"):
        (tmp_path / "names.txt").write_bytes(wrong if isinstance(wrong, bytes) else wrong.encode())
        with pytest.raises(InputError):
            Vertices.of(tmp_path / "names.txt")
    for wrong in (1, True, None, 10**8, "missing.txt", 3.5):
        with pytest.raises(InputError):
            Vertices.of(wrong)


@pytest.mark.parametrize(
    "table",
    [
        *(pa.table({"u": [1]}), pa.table({"u": [1.0], "v": [2.0]}), pa.table({"u": [b"1"], "v": [b"2"]})),
        *(pa.table({"u": [[1]], "v": [[2]]}), np.zeros((3, 3), dtype=int), np.zeros((3, 2)), "edges.csv"),
    ],
    ids=str,
)
def test_what_is_no_edge_list_is_refused_by_names_and_types(table: Any) -> None:
    Path("edges.csv").write_text("0,1\n2,3\n")
    with pytest.raises(InputError, match="header" if isinstance(table, str) else None):
        pairs_of(table)


def test_a_person_has_as_many_edges_as_the_policy_allows() -> None:
    Path("edges.csv").write_text("who,u,v\na,0,1\na,0,2\na,0,3\nb,1,2\n,2,3\n")
    for options in ({"columns": ["u", "v"]}, {}):
        person = {"privacy_id": "who", "contributions": 2, "method": "noise", **options}
        request = GraphRequest.of("edges.csv", 4, epsilon=1.0, **person)  # type: ignore[arg-type]
        assert request.ends == ("u", "v")
        # two of a's, b's, none of nobody's
        assert request.sealed().reveal().exact(AllEdges.COUNT).tolist() == [3]


def test_karate_is_read_whole() -> None:
    """78 edges of 34 vertices, which another library holds, too."""
    vertices = Vertices.of(34)
    found = pairs_of(str(KARATE), vertices)
    known = nx.karate_club_graph()
    assert found == pairs_of(known, vertices) and len(found) == 78
