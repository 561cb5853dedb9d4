"""The replay of the paper: its data, its baselines and floors against published numbers, its marks, and runs
that go on where they stopped.
"""

from __future__ import annotations

import inspect
import json
import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay import baselines, command, data, figure4, table1
from replay.figure import FAILS, HOLDS, OPEN
from replay.noise import SeededNotPrivateNoise
from replay.paper import Paper, Task, paper_mwem
from rich.console import Console
from support.planted import planted4

from factored_mwem import InputError
from factored_mwem.accounting.conversion import Composition
from factored_mwem.kernels.linear import product_answer, product_step
from factored_mwem.model.dense import Factor, step
from factored_mwem.privacy.counts import SCORE_GRID
from factored_mwem.privacy.noise import Noise
from factored_mwem.privacy.session import Session
from factored_mwem.workload.queries.parities import Parities
from factored_mwem.workload.queries.ranges import Ranges

needs_files = pytest.mark.skipif(
    "FMWEM_DATASETS" not in os.environ, reason="FMWEM_DATASETS names no folder of data sets"
)
FLOORS = {
    "mildew": (1.54636, 1.49800, 0.10517, 0.01735),
    "czech": (0.55045, 0.22921, 0.01286, 0.00587),
    "rochdale": (1.75388, 0.64088, 0.10869, 0.04715),
}
"""Relative entropy of the data to its log-linear fits of all marginals of 0, 1, 2 and 3 attributes, in nats.
"""
FULL_FACTS = {"mildew": (70, 22, 64), "czech": (1841, 63, 64), "rochdale": (665, 91, 256)}


# ---- data


@pytest.mark.parametrize("name", FULL_FACTS)
def test_a_small_table_is_the_paper_s(name: str) -> None:
    """Table 1: records, and non-zero of all cells."""
    counts = data.small(name).histogram()
    assert (int(counts.sum()), int((counts > 0).sum()), len(counts)) == FULL_FACTS[name]


@needs_files
@pytest.mark.parametrize("name", FULL_FACTS)
def test_a_small_table_agrees_with_a_file_of_it(name: str) -> None:
    """The multiset of cell counts: files may name and order their attributes as they like."""
    columns = data.read(name, name)
    table, last = data.small(name), list(columns)[-1]
    if len(columns) > len(table.shape):  # one line a cell, its count last
        theirs = Counter(int(count) for count in columns[last] if int(count))
    else:
        theirs = Counter(Counter(zip(*columns.values(), strict=True)).values())
    assert theirs == Counter(int(count) for count in table.histogram() if count)


@needs_files
@pytest.mark.parametrize(
    ("name", "total", "distinct"),
    [("capital loss", 32_561, 92), ("age x hours", 32_561, 2_606), ("monetary", 748, None)],
)
def test_an_ordered_table_has_the_known_counts(name: str, total: int, distinct: int | None) -> None:
    table = data.ordered(name)
    counts = table.histogram()
    assert table.total == total and len(counts) == table.cells
    assert distinct is None or int((counts > 0).sum()) == distinct


def test_the_stand_in_is_never_taken_for_the_survey() -> None:
    """Its figure says that nothing can be compared, however good its rows look."""
    assert data.nltcs(data.STAND_IN).total == 21_574 and len(data.nltcs(data.STAND_IN).shape) == 16
    rows = [{**row, "data": data.STAND_IN} for row in planted4()]
    assert {claim.verdict for claim in figure4.judge(rows)} == {OPEN}


def write_bits(path: Path, bits: np.ndarray) -> None:
    header = ",".join(f"x{i}" for i in range(bits.shape[1]))
    np.savetxt(path, bits, fmt="%d", delimiter=",", header=header, comments="")


@pytest.fixture(scope="module")
def like_the_survey() -> np.ndarray:
    """Bits with the survey's known counts, and nothing else of it."""
    bits = ((np.arange(3152)[:, None] >> np.arange(16)) & 1).astype(np.int64)
    one = np.eye(16, dtype=np.int64)[:1]
    return np.vstack([bits, np.zeros((3852, 16), dtype=np.int64), one.repeat(21_574 - 3152 - 3852, axis=0)])


def test_a_file_for_the_survey_is_checked_by_its_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, like_the_survey: np.ndarray
) -> None:
    """A row less, a row twice instead of another, an all-zero row with a 1, a column less, a 2: each says
    so."""
    write_bits(tmp_path / "good.csv", like_the_survey)
    monkeypatch.setenv("FMWEM_NLTCS", str(tmp_path / "good.csv"))
    assert data.nltcs_name() == "nltcs" and data.nltcs("nltcs").total == 21_574
    twice, with_1, two = (like_the_survey.copy() for _ in range(3))
    twice[5] = twice[6]
    with_1[3500] = with_1[6]
    two[9, 9] = 2
    wrong = {
        "21,573 rows": like_the_survey[:-1],
        "3,151 different rows": twice,
        "3,852 rows without a 1": with_1,
        "15 attributes": like_the_survey[:, 1:],
        "other values": two,
    }
    for i, (told, bits) in enumerate(wrong.items()):
        write_bits(tmp_path / f"{i}.csv", bits)
        monkeypatch.setenv("FMWEM_NLTCS", str(tmp_path / f"{i}.csv"))
        with pytest.raises(InputError, match=told):
            data.nltcs_name()


def test_a_wrong_path_to_the_survey_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line and no page, not a stand-in; without the variable the stand-in is drawn."""
    monkeypatch.setenv("FMWEM_NLTCS", str(tmp_path / "none.csv"))
    with pytest.raises(SystemExit, match=r"error: FMWEM_NLTCS names no file: .*none\.csv"):
        command.main(["table1", "--quick", "-o", str(tmp_path / "out")])
    assert not (tmp_path / "out" / "index.html").exists()
    monkeypatch.delenv("FMWEM_NLTCS")
    monkeypatch.setenv("FMWEM_DATASETS", str(tmp_path))
    assert data.nltcs_name() == data.STAND_IN


# ---- floors, bounds and baselines


@pytest.mark.parametrize("name", FLOORS)
def test_log_linear_fits_have_the_published_entropy(name: str) -> None:
    table = data.small(name)
    counts = table.histogram()
    uniform = baselines.relative_entropy(counts, np.full(len(counts), 1 / len(counts)))
    fits = [
        baselines.relative_entropy(
            counts, baselines.log_linear(counts, table.shape, order, sweeps=2000 if name == "mildew" else 400)
        )
        for order in (1, 2, 3)
    ]
    assert [uniform, *fits] == pytest.approx(FLOORS[name], abs=1e-4)


def gram(matrix: np.ndarray) -> np.ndarray:
    return matrix @ matrix.T


def test_the_svd_bound_has_its_identities() -> None:
    """Identity: N. Prefixes of 8 and all 36 ranges on 8: known values. Scaling by c: c^2. The order of rows
    does not matter.
    """
    prefix = np.tril(np.ones((8, 8)))
    every = Ranges.every((0,), (8,))
    assert baselines.svd_bound(gram(np.eye(7)), 7) == pytest.approx(7)
    assert baselines.svd_bound(gram(prefix), 8) == pytest.approx(16.5514, abs=1e-4)
    assert baselines.svd_bound(baselines.gram_of_ranges(every), 8) == pytest.approx(79.1723, abs=1e-4)
    assert baselines.svd_bound(gram(3 * prefix), 8) == pytest.approx(9 * baselines.svd_bound(gram(prefix), 8))
    shuffled = np.random.default_rng(0).permutation(8)
    assert baselines.svd_bound(gram(prefix[shuffled]), 8) == pytest.approx(
        baselines.svd_bound(gram(prefix), 8)
    )


def test_the_gram_of_ranges_is_that_of_their_matrix() -> None:
    boxes = Ranges.random((0, 1), (4, 5), 30, seed=3)
    inside = [
        [
            all(low <= x <= high for low, x, high in zip(boxes.low[q], cell, boxes.high[q], strict=True))
            for cell in np.ndindex(4, 5)
        ]
        for q in range(30)
    ]
    assert np.array_equal(baselines.gram_of_ranges(boxes), gram(np.array(inside, dtype=np.float64)))


def test_hierarchical_counts_are_consistent_least_squares() -> None:
    """Its cells are those of weighted least squares over all nodes of the tree with the root known, by
    numpy's solver.
    """
    rng, counts = np.random.default_rng(1), np.random.default_rng(2).integers(0, 9, 9)
    b = baselines.branching(9, 1)
    height = baselines.height_of(9, b)
    size = b**height
    nodes = [np.kron(np.eye(size // b**i), np.ones(b**i)) for i in range(height)]
    exact = np.pad(counts.astype(np.float64), (0, size - 9))
    noisy = [node @ exact + np.random.default_rng(1).laplace(scale=1) * 0 for node in nodes]
    draws = [rng.laplace(scale=height / 1.0, size=len(node)) for node in nodes]
    noisy = [value + draw for value, draw in zip(noisy, draws, strict=True)]
    heavy = 1e6  # the root is known
    system = np.vstack([*nodes, heavy * np.ones((1, size))])
    solved = np.linalg.lstsq(system, np.concatenate([*noisy, [heavy * exact.sum()]]), rcond=None)[0]
    assert baselines.hierarchy(counts, 1.0, np.random.default_rng(1)) == pytest.approx(solved[:9], abs=1e-4)


# ---- the update


def test_one_step_by_hand() -> None:
    """B = (3, 1), A = (2, 2), q = (1, 0), m = 3: A' = (2.12483749, 1.87516251); a hundred replays end next to
    m.
    """
    part = Factor((0,), (2,), np.array([0.5, 0.5]))
    query = Ranges((0,), (2,), np.array([[0]]), np.array([[0]]))
    step(part, query, 0, np.array([3.0]), 4.0, guard=0.0)
    assert 4 * part.weights == pytest.approx([2.12483749, 1.87516251], abs=1e-8)
    for _ in range(99):
        step(part, query, 0, np.array([3.0]), 4.0, guard=0.0)
    assert 4 * part.weights == pytest.approx([2.999966, 1.000034], abs=1e-5)


def drop(
    truth: np.ndarray, model: np.ndarray, signs: np.ndarray, measured: float, total: float
) -> tuple[float, float]:
    """(the fall of the relative entropy, what Lemma A.3 promises) for one step towards `measured`,
    unclipped.
    """
    weights, one = model / model.sum(), np.ones(1, dtype=np.int8)
    before = float((truth / total * np.log(truth / total / weights)).sum())
    answer, exact = total * product_answer(weights, one, signs), float(signs @ truth)
    product_step(weights, one, signs, (measured - answer) / (2 * total))
    after = float((truth / total * np.log(truth / total / weights)).sum())
    return before - after, ((answer - exact) / (2 * total)) ** 2 - ((measured - exact) / (2 * total)) ** 2


@settings(deadline=None, max_examples=300, derandomize=True)
@given(st.integers(2, 12), st.randoms(use_true_random=False), st.floats(-1, 1))
def test_the_potential_drops_as_the_lemma_says(cells: int, source: Any, share: float) -> None:
    rng = np.random.default_rng(source.randrange(2**32))
    truth, model = rng.dirichlet(np.ones(cells)) + 1e-6, rng.dirichlet(np.ones(cells)) + 1e-6
    total = 100.0
    truth *= total / truth.sum()
    signs = rng.choice(np.array([-1, 0, 1], dtype=np.int8), cells)
    fell, promised = drop(truth, model, signs, share * total, total)
    assert fell >= promised - 1e-9


def test_twice_the_step_breaks_the_promise() -> None:
    """The planted twin: Hoeffding's lemma leaves a factor of two to spare for any measurement, so twice the
    step is where the promise ends.
    """
    truth, signs, total = np.array([50.0, 50.0]), np.array([1, -1], dtype=np.int8), 100.0
    weights, one = np.array([0.6, 0.4]), np.ones(1, dtype=np.int8)
    answer, exact = total * product_answer(weights, one, signs), float(signs @ truth)
    product_step(weights, one, signs, 2 * (exact - 60.0 - answer) / (2 * total))
    before = float((truth / total * np.log(truth / total / np.array([0.6, 0.4]))).sum())
    fell = before - float((truth / total * np.log(truth / total / weights)).sum())
    assert fell < ((answer - exact) / (2 * total)) ** 2 - (60.0 / (2 * total)) ** 2


def test_a_run_goes_through_the_product_s_accountant_at_the_paper_s_scales(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HLM12 Fig. 1: exp(score epsilon / 4 T), Laplace noise of 2 T / epsilon; first counts a share."""
    table, sessions, make = data.small("mildew"), list[Session](), Task.session
    monkeypatch.setattr(Task, "session", lambda *a: sessions.append(make(*a)) or sessions[-1])
    task = Task.of(Parities.up_to(range(6), 3), table.domain, table.rows)
    paper = Paper(epsilon=2.0, rounds=3, init_share=0.25, joined=True)
    made = paper_mwem(task, paper, np.random.default_rng(5))
    (accountant,) = (session.accountant for session in sessions)
    rounds = [("select", 4 * 3 / 1.5 * SCORE_GRID), ("measure", 2 * 3 / 1.5)] * 3
    assert [entry.stage for entry in accountant.entries] == ["measure", *(stage for stage, _ in rounds)]
    assert [entry.scale for entry in accountant.entries] == pytest.approx([2.0, *(b for _, b in rounds)])
    assert [entry.target for entry in accountant.entries[2::2]] == [
        tuple(f"a{p}" for p in task.questions.positions(q)) for q in made.asked
    ]
    assert accountant.spent <= 2 and float(accountant.left) == pytest.approx(0, abs=1e-9)


def test_unguarded_replay_diverges_on_mildew_and_the_guard_mends_it() -> None:
    table = data.small("mildew")
    counts, task = table.histogram(), Task.of(Parities.up_to(range(6), 3), table.domain, table.rows)
    found = {}
    for guard in (0.0, 1.0):
        paper = Paper(epsilon=0.5, rounds=12, sweeps=200, guard=guard)
        runs = [paper_mwem(task, paper, np.random.default_rng(seed)).model for seed in range(6)]
        found[guard] = np.mean(
            [baselines.relative_entropy(counts, model.marginal(range(6)) / 70) for model in runs]
        )
    assert found[0.0] > 2 * found[1.0] and math.isfinite(found[1.0])


# ---- marks


def test_the_marks_of_table_1_follow_its_rows() -> None:
    rows = [row for case in table1.cases(False) for row in table1.run(case)]
    verdicts = [claim.verdict for claim in table1.judge(rows)]
    assert verdicts[:3] == [HOLDS] * 3
    numeric = {name for row in rows for name, value in row.items() if isinstance(value, int)}
    worse = [{**row, **{name: row[name] + 1 for name in numeric & row.keys()}} for row in rows]
    assert FAILS in {claim.verdict for claim in table1.judge(worse)} and HOLDS not in {
        claim.verdict for claim in table1.judge(worse)
    }


# ---- the command


def test_an_interrupted_replay_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """A torn last line is not counted; the cases that were there are not run again; the CSV is the same."""
    quiet = Console(quiet=True)
    command.replay(["table1"], tmp_path, quiet, full=False)
    whole, csv_ = (tmp_path / "table1.cases.jsonl").read_text(), (tmp_path / "table1.csv").read_bytes()
    lines = whole.splitlines()
    marked = json.loads(lines[0])
    marked["seconds"] = 1234.0  # would change if the case were run again
    (tmp_path / "table1.cases.jsonl").write_text(json.dumps(marked) + "\n" + lines[1][:20])
    (tmp_path / "table1.csv").unlink()
    command.replay(["table1"], tmp_path, quiet, full=False)
    again = [
        json.loads(line)
        for line in (tmp_path / "table1.cases.jsonl").read_text().splitlines()
        if line.endswith("}")
    ]
    assert (tmp_path / "table1.csv").read_bytes() == csv_
    assert [entry for entry in again if entry["seconds"] == 1234.0] == [marked] and len(again) == len(lines)


def test_the_page_stands_alone(tmp_path: Path) -> None:
    """No link, script or image from elsewhere; stamped; every claim is there."""
    sections = command.replay(["table1"], tmp_path, Console(quiet=True), full=False)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "NOT PRIVATE" in text and "<table" in text
    assert not any(word in text for word in ("http://", "https://", "<script", 'src="/', "url("))
    assert all(claim.verdict in text.lower() for section in sections for claim in section.claims)


def test_a_figure_without_its_data_says_so_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for somebody who has no data folder: no crash, one line for each figure, the page is written."""
    monkeypatch.setenv("FMWEM_DATASETS", str(tmp_path / "none"))
    sections = command.replay(
        ["figure5", "figure7", "table1"], tmp_path / "out", Console(quiet=True), full=False
    )
    assert [{claim.verdict for claim in section.claims} for section in sections[:2]] == [{OPEN}, {OPEN}]
    assert all("FMWEM_DATASETS" in claim.why for section in sections[:2] for claim in section.claims)
    assert (tmp_path / "out" / "index.html").exists() and (tmp_path / "out" / "table1.csv").exists()


MUST_HOLD = {
    "theorem": ("with probability at least",),
    "table1": ("mildew has", "czech has", "rochdale has"),
    "figure2": ("The bounds are drawn right",),
    "figure3": ("(in place of Fienberg et al.)", "noticeably improve"),
    "figure5": ("too quickly conflated",),
    "figure6": ("independent components", "instantaneous success"),
    "figure7": ("“maximum error”", "Irrelevant bits stay out"),
    "iterative": ("No update sequence", "Algorithm 1 answers", "Remark 5.3"),
    "ablation": ("a guard at the noise mends it", "never spend more than epsilon"),
}
"""Claims about error and structure that the quick replay bears out; seeds are fixed, so that a change means a
change of the code.
"""


@needs_files
@pytest.mark.slow
def test_the_quick_replay_bears_out_the_claims_about_error_and_structure(tmp_path: Path) -> None:
    sections = command.replay(list(command.NAMES), tmp_path, Console(quiet=True), full=False)
    claims = {section.name: section.claims for section in sections}
    assert set(claims) == set(command.NAMES) and all(claims.values())
    for name, texts in MUST_HOLD.items():
        for text in texts:
            assert {claim.verdict for claim in claims[name] if text in claim.text} == {HOLDS}, (name, text)
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".png", ".jsonl", ".html"}


def test_the_seeded_noise_is_that_of_the_paper_and_repeats() -> None:
    """The methods of the product's noise, by name and parameters; odds exp(score / scale); Laplace of scale
    b has mean absolute value b.
    """
    for method in ("select", "add", "threshold"):
        ours, theirs = (getattr(of, method) for of in (SeededNotPrivateNoise, Noise))
        assert inspect.signature(ours) == inspect.signature(theirs)
    first, again = SeededNotPrivateNoise(3), SeededNotPrivateNoise(3)
    scores = np.array([0, 3], dtype=np.int64)
    chosen = [first.select(scores, scale=2.0) for _ in range(4000)]
    assert chosen == [again.select(scores, scale=2.0) for _ in range(4000)]
    assert abs(np.mean(chosen) - 1 / (1 + math.exp(-1.5))) < 0.03
    noisy = first.add(np.full(4000, 7), scale=5.0) - 7
    assert abs(np.abs(noisy).mean() - 5.0) < 0.4
    spread = SeededNotPrivateNoise(4, Composition.ZCDP).add(np.zeros(4000, dtype=np.int64), scale=5.0).std()
    assert abs(spread - 5.0) < 0.3
    assert first.threshold({"many": 100, "none": 0}, scale=2.0, threshold=50).keys() == {"many"}
