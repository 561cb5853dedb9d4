"""Runs that die and go on: what was drawn is drawn once, what is not the same run is refused, and a journal
that cannot be trusted is not.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise
from support.places import Place
from support.runs import DOMAIN, Crash, die_at, died, entries, go, state, table

from factored_mwem import Workload, release
from factored_mwem.accounting.accountant import Accountant, Budget, Charge, Mechanism, price
from factored_mwem.accounting.cap import Cap
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.errors import BudgetExceeded, Busy, FmwemError, InputError, Lost
from factored_mwem.files import crashpoints as faults
from factored_mwem.ledger import journal as journal_module
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.ledger.journal_folder import JournalFile
from factored_mwem.ledger.ledger import Ledger
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.mechanisms import mwem
from factored_mwem.pipeline.publication import reusable
from factored_mwem.pipeline.release import make, spending_of
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Session
from factored_mwem.request.request import Request
from factored_mwem.tables.inputs.fingerprint import fingerprint
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.tables.outputs.release_files import ReleaseFiles
from factored_mwem.tables.outputs.targets import target_of

REQUEST = Request.of(table(), 2, domain=DOMAIN, epsilon=1.0, engine="mwem", rounds=4)
"""What `go` asks for."""


def begun(place: Place, version: str = "1") -> AbstractContextManager[Run]:
    return Run.begin(spending_of(REQUEST), Booking(str(place), "t", "r"), version=version)


@pytest.mark.parametrize(
    "choices",
    [{}, {"engine": "tree", "rounds": None}, {"domain": None, "source": table(12_000)}],
    ids=["mwem", "at once", "learnt"],
)
@pytest.mark.parametrize("nth", [1, 3])
def test_a_run_goes_on_to_the_very_same_release(
    anywhere: Place, tmp_path: Path, nth: int, choices: dict[str, Any]
) -> None:
    LedgerFile.create(tmp_path / "other").add("t", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    whole, _, once = go(tmp_path / "other", sample_seed=5, **choices)
    nth = min(nth, len(once.calls))
    before = died(anywhere, "before draw", nth, sample_seed=5, **choices)
    assert state(anywhere) == ["failed"] and len(before.calls) == nth - 1
    resumed, run, after = go(anywhere, sample_seed=5, **choices)
    assert run.resumed == nth - 1 and len(before.calls) + len(after.calls) == len(once.calls)
    elsewhere = whole.manifest.model_copy(
        update={"chain_head": resumed.manifest.chain_head}
    )  # entered in another ledger, under another mark
    assert resumed.manifest == elsewhere and resumed.to_arrow().equals(whole.to_arrow())
    assert state(anywhere) == ["finished"]
    again, run, nothing = go(anywhere, sample_seed=5, **choices)
    assert nothing.calls == [] and again.manifest == resumed.manifest and run.resumed == len(once.calls)


def test_a_draw_that_did_not_reach_the_journal_is_drawn_again(anywhere: Place) -> None:
    before = died(anywhere, "half journalled", 4)
    made, run, after = go(anywhere)
    assert run.resumed == len(before.calls) - 1 == 2  # the first record is the header
    assert len(after.calls) == len(made.manifest.ledger) - run.resumed


def test_the_sampling_seed_and_the_day_are_those_of_the_first_attempt(
    anywhere: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    died(anywhere, "after fit", 1)
    monkeypatch.setattr("factored_mwem.pipeline.spending.today", lambda: "2001-01-01")
    first, _, _ = go(anywhere)
    second, _, _ = go(anywhere)
    assert first.seed == second.seed and first.manifest.created == second.manifest.created
    assert first.manifest.created.year > 2001


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("parameters", {"epsilon": 0.9}),
        ("parameters", {"rounds": 3}),
        ("parameters", {"columns": ["a", "b"]}),
        ("parameters", {"rows": 10}),
        ("parameters", {"domain": {**DOMAIN, "a": 6}}),
        ("data", {"source": table(299)}),
        (
            "data",
            {
                "source": table()
                .slice(0, 299)
                .append_column("d", pa.array(range(299)))
                .select(["a", "b", "c"])
            },
        ),
    ],
)
def test_another_run_under_the_same_id_is_refused(anywhere: Place, word: str, change: dict[str, Any]) -> None:
    died(anywhere, "before draw", 2)
    before = anywhere.held()
    with pytest.raises(InputError, match=f"begun with other {word}") as refused:
        go(anywhere, **change)
    assert (
        refused.value.budget_spent and not refused.value.retryable
    )  # by the run of that id, and another id would spend again
    assert "another --run-id is a new release and spends again" in str(refused.value.advice)
    assert anywhere.held() == before
    go(anywhere)


def test_another_version_does_not_go_on(anywhere: Place) -> None:
    died(anywhere, "before draw", 2)
    with (
        pytest.raises(InputError, match="another version"),
        begun(anywhere, "2"),
    ):
        pass


def test_files_count_byte_by_byte_and_frames_by_their_values(tmp_path: Path) -> None:
    """Whatever the chunks and the metadata of a frame are."""
    key, path = b"k" * 32, tmp_path / "t.csv"
    path.write_text("a\n1\n")
    first = fingerprint(open_table(path), key)
    assert fingerprint(open_table(str(path)), key) == first
    assert fingerprint(open_table(path), b"j" * 32) != first
    path.write_text("a\n2\n")
    assert fingerprint(open_table(path), key) != first
    whole = table()
    parts = pa.concat_tables([whole.slice(0, 7), whole.slice(7)]).replace_schema_metadata({"index": "other"})
    frames = (whole, parts, whole.slice(7), pa.concat_tables([whole.slice(7), whole.slice(0, 7)]))
    found = [Request.of(frame, 1).private.fingerprint(key) for frame in frames]
    assert found[0] == found[1] and len(set(found)) == 3


def test_two_processes_do_not_share_a_run(anywhere: Place) -> None:
    with begun(anywhere):
        with pytest.raises(Busy, match="under way") as refused:
            go(anywhere)
        assert refused.value.retryable and not refused.value.budget_spent
    go(anywhere)


@pytest.mark.parametrize("point", ["after fit", "none"])
def test_nothing_is_drawn_after_all_was_drawn(anywhere: Place, point: str) -> None:
    """Once the books say "spent", the journal held all draws: if its end is lost, a fresh draw would be a
    second answer to one charge.
    """
    if point == "none":
        go(anywhere)
    else:
        died(anywhere, point, 1)
    anywhere.lose_last_record()
    noise = FakeNoise()
    with pytest.raises(Lost, match="drawn twice") as refused:
        go(anywhere, noise=noise)
    assert noise.calls == [] and not refused.value.retryable and "stays spent" in str(refused.value.advice)


def test_room_for_a_record_is_made_before_it_is_drawn(books: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is found full after the draw would make it depend on the draw whether it is made again."""

    def full(handle: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    before = died(books, "before draw", 3)
    monkeypatch.setattr(os, "posix_fallocate", full)
    noise = FakeNoise()
    with pytest.raises(Busy, match="No space left") as refused:
        go(books, noise=noise)
    assert noise.calls == [] and refused.value.budget_spent and refused.value.retryable
    monkeypatch.undo()
    assert go(books)[1].resumed == len(before.calls)


@pytest.mark.parametrize(
    "choices", [{}, {"engine": "tree", "rounds": None}, {"domain": None}], ids=["mwem", "at once", "learnt"]
)
def test_the_room_is_enough(books: Path, monkeypatch: pytest.MonkeyPatch, choices: dict[str, Any]) -> None:
    asked, written, room, append = [], [], JournalFile.make_room, JournalFile.append

    def appended(self: JournalFile, facts: dict[str, Any], numbers: np.ndarray) -> None:
        start = self._end
        append(self, facts, numbers)
        written.append(self._end - start)

    monkeypatch.setattr(
        JournalFile, "make_room", lambda self, size: (asked.append(size), room(self, size))[1]
    )
    monkeypatch.setattr(JournalFile, "append", appended)
    source = pa.table({"a": ["x", "yy"] * 1000, "b": ["u", "v"] * 1000}) if "domain" in choices else None
    go(books, source=source, **choices)
    frame = journal_module.HEAD.size + journal_module.CODE_BYTES
    assert asked and all(size + frame >= wrote for size, wrote in zip(asked, written[1:], strict=True))
    (path,) = Path(f"{books}.journals").iterdir()
    assert path.stat().st_size == sum(written), (
        "the room that was made for keys would tell how many there are"
    )


@pytest.mark.parametrize("slip", ["workload", "policy", "rows", "epsilon", "domain", "sample_seed"])
def test_no_row_shows_in_a_request_or_in_what_is_said_of_it(slip: str) -> None:
    """Arguments in the wrong order are a slip that everybody makes; their texts would be the table."""
    frame = pa.table({"name": ["CANARY"] * 3}).to_pandas()
    assert "CANARY" not in repr(Request.of(frame, 1))
    given = frame["name"] if slip in ("epsilon", "sample_seed") else frame
    with pytest.raises(InputError) as refused:
        Request.of(frame, **{"workload": 1, slip: given})
    assert "CANARY" not in str(refused.value)


def test_a_lost_journal_is_not_drawn_again(anywhere: Place) -> None:
    died(anywhere, "before draw", 3)
    anywhere.lose_journals()
    with pytest.raises(Lost, match="gone") as refused:
        go(anywhere)
    assert not refused.value.retryable and refused.value.budget_spent
    assert state(anywhere) == ["failed"]


def test_a_journal_of_another_run_is_not_taken(anywhere: Place) -> None:
    """Two runs that ask the same: with one's journal both would publish one draw and pay for two."""
    died(anywhere, "before draw", 3, epsilon=0.5)
    died(anywhere, "before draw", 3, epsilon=0.5, run_id="q")
    anywhere.copy_journal(*anywhere.journals())
    lost = 0
    for run_id in ("r", "q"):
        try:
            go(anywhere, epsilon=0.5, run_id=run_id)
        except Lost:
            lost += 1
    assert lost == 1


def test_a_journal_that_does_not_fit_ends_the_run(anywhere: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine may compute otherwise: a draw is not taken for another's, nor forgotten."""
    died(anywhere, "before draw", 6)
    scale = journal_module.Journaled._facts
    monkeypatch.setattr(
        journal_module.Journaled, "_facts", lambda self, m, n, s: {**scale(self, m, n, s), "number": 99}
    )
    with pytest.raises(Lost, match="cannot go on") as refused:
        go(anywhere)
    assert refused.value.budget_spent and not refused.value.retryable
    monkeypatch.undo()
    go(anywhere)
    monkeypatch.setattr(mwem, "fit", lambda *given: (_ for _ in ()).throw(AssertionError))
    with (
        pytest.raises(Lost, match="cannot go on"),
        begun(anywhere) as run,
    ):
        run.drawn(None)  # type: ignore[arg-type]  # a run that asks for less than was drawn


@pytest.mark.parametrize("fact", range(6))
def test_a_record_of_another_question_does_not_fit(
    anywhere: Place, monkeypatch: pytest.MonkeyPatch, fact: int
) -> None:
    """Stage, mechanism, attributes, scale, sensitivity and delta of the charge: with any of them other, the
    draw answers another question.
    """
    died(anywhere, "before draw", 4)
    facts = journal_module.Journaled._facts

    def other(self: Any, method: str, size: int, scale: float) -> dict[str, Any]:
        found = facts(self, method, size, scale)
        return {**found, "entry": [value if i != fact else "other" for i, value in enumerate(found["entry"])]}

    monkeypatch.setattr(journal_module.Journaled, "_facts", other)
    with pytest.raises(Lost):
        go(anywhere)


def test_the_books_hold_the_delta_of_learnt_categories(anywhere: Place) -> None:
    source = pa.table({"a": ["x", "y"] * 1000, "b": ["u", "v"] * 1000})
    made, _, _ = go(anywhere, source=source, domain=None, delta=1e-9)
    (entry,) = entries(anywhere)
    budget = Request.of(source, 2, epsilon=1.0, engine="mwem", rounds=4).budget
    assert entry.reserved.delta == budget.discovery_delta > 0
    assert entry.spent is not None
    assert entry.spent.delta == sum(Fraction(c.delta) for c in made.manifest.ledger) > 0
    assert entry.spent.amount == sum(
        price(c.mechanism, scale=c.scale, sensitivity=c.sensitivity) for c in made.manifest.ledger
    )


def test_a_refused_reservation_leaves_the_door_shut() -> None:
    """Nothing is revealed, and nothing is entered in the run's own ledger, where the books refuse."""
    opened: list[int] = []

    class Watched(Sealed):
        def reveal(self) -> Any:
            opened.append(1)

    def refuse() -> None:
        assert not ledger.entries and not opened
        raise BudgetExceeded("t", asked=Fraction(1), left=Fraction(0))

    ledger = Accountant(Budget.of(1.0, 0.0), refuse)
    entry = Charge("measure", Mechanism.LAPLACE, (), 10.0, 1)
    with pytest.raises(BudgetExceeded):
        Session(ledger, Unit(), FakeNoise())._unseal(Watched({}), entry)
    assert (ledger.entries, ledger.spent, opened) == ([], 0, [])


def test_overspending_touches_nothing(anywhere: Place, tmp_path: Path) -> None:
    go(anywhere)
    names = sorted(os.listdir(tmp_path))
    before = anywhere.held()
    with pytest.raises(BudgetExceeded, match="nothing is left") as refused:
        release(table(), 2, domain=DOMAIN, epsilon=0.01, ledger=str(anywhere), dataset="t", run_id="another")
    assert refused.value.exit_code == 3 and not refused.value.budget_spent
    assert sorted(os.listdir(tmp_path)) == names and anywhere.held() == before


def test_a_job_that_was_slower_is_refused_at_its_first_charge(anywhere: Place) -> None:
    """Between the early look and the first noise another job may have taken the budget."""
    noise = FakeNoise()

    def hook(point: str) -> None:
        if point == "before reserve":
            faults.hook = lambda _: None
            release(table(), 2, domain=DOMAIN, epsilon=1.0, ledger=str(anywhere), dataset="t")

    faults.hook = hook
    with pytest.raises(BudgetExceeded) as refused:
        go(anywhere, noise=noise)
    assert noise.calls == [] and not refused.value.budget_spent
    assert state(anywhere) == ["finished"]


@pytest.mark.parametrize(
    ("word", "choices"), [("--neighbours", {"neighbours": "replace"}), ("up to 2 rows", {"contributions": 1})]
)
def test_the_terms_of_the_cap_hold(tmp_path: Path, word: str, choices: dict[str, Any]) -> None:
    file = LedgerFile.create(tmp_path / "books")
    file.add("t", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 2)
    with pytest.raises(InputError, match=word):
        release(table(), 2, domain=DOMAIN, ledger=file.path, dataset="t", **{"contributions": 2, **choices})
    release(table(), 2, domain=DOMAIN, ledger=file.path, dataset="t", contributions=3)


def test_without_a_run_id_every_run_is_a_new_release(books: Path) -> None:
    for _ in range(2):
        release(table(), 2, domain=DOMAIN, epsilon=0.5, ledger=books, dataset="t")
    assert [(e.state, e.run_id) for e in entries(books)] == [("finished", None)] * 2
    assert sorted(os.listdir(f"{books}.journals")) == ["latest", "latest.lock"]


@pytest.mark.parametrize("given", [("ledger",), ("dataset",), ("run_id",), ("dataset", "run_id")])
def test_half_of_the_books_is_refused(given: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="go together"):
        release(table(), 2, domain=DOMAIN, **dict.fromkeys(given, "x"))  # type: ignore[arg-type]


# --- what may change between attempts, and what stands in for what ---


def test_limits_of_the_machine_may_change_between_attempts(anywhere: Place) -> None:
    """A learnt domain may turn out too large for --max-cells after its budget is spent: with more cells the
    same run goes on, and pays once.
    """
    source = pa.table({"a": [f"k{i % 12}" for i in range(4000)], "b": [f"k{i % 7}" for i in range(4000)]})
    choices: dict[str, Any] = {"source": source, "domain": None, "epsilon": 1.0, "rounds": 2}
    noise = FakeNoise()
    with pytest.raises(FmwemError, match="more than --max-cells 10") as refused:
        go(anywhere, noise=noise, max_cells=10, **choices)
    assert refused.value.budget_spent and not refused.value.retryable and len(noise.calls) >= 1
    assert "other --max-cells" in str(refused.value.advice)
    assert "the same run id goes on" in str(refused.value.advice)
    made, run, more = go(anywhere, max_cells=5000, **choices)
    assert run.resumed == len(noise.calls) and run.resumed + len(more.calls) == len(made.manifest.ledger)
    (entry,) = entries(anywhere)
    assert entry.state == "finished" and entry.spent is not None
    assert entry.spent.amount <= entry.reserved.amount


def test_a_run_that_does_not_fit_another_limit_says_which_one_fits(
    anywhere: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is told to pay again for a journal that fits as it began pays for nothing."""
    before = died(anywhere, "before draw", 4, max_cells=5000)
    facts = journal_module.Journaled._facts
    with monkeypatch.context() as patch:
        patch.setattr(
            journal_module.Journaled, "_facts", lambda self, m, n, s: {**facts(self, m, n, s), "number": 99}
        )
        with pytest.raises(Lost, match="--max-cells") as refused:
            go(anywhere, max_cells=4000)
    assert (
        refused.value.advice
        == "give --max-cells 5000, as when it began, and the same run id: it goes on from what was measured"
    )
    assert go(anywhere, max_cells=5000)[1].resumed == len(before.calls)


def test_what_was_asked_cannot_be_changed_after_the_first_noise(books: Path) -> None:
    """What a learnt domain cannot answer: the advice must not be to change it and go on."""
    (source := books.with_name("t.csv")).write_text(
        "a,b\n" + "x,u\ny,v\n" * 1000
    )  # of a text file nobody knows before what a column is
    r = Request.of(source, Workload.marginals(1) + Workload.ranges("a"), epsilon=1.0)
    with (
        pytest.raises(InputError, match="no order") as refused,
        Run.begin(spending_of(r), Booking(books, "t", "r"), version="1") as run,
    ):
        make(r, run, noise=FakeNoise())
    assert refused.value.budget_spent and not refused.value.retryable
    assert "another --run-id" in str(refused.value.advice)


def test_a_finished_run_needs_no_journal_and_no_same_version(anywhere: Place, tmp_path: Path) -> None:
    """Files that are as they were are the release; only to make them again takes the journal."""
    out = tmp_path / "out"
    out.write_text("rows")
    files = ReleaseFiles(target_of(out), target_of(out))
    with begun(anywhere) as run:
        make(REQUEST, run, noise=FakeNoise())
        run.finish(files.digests)
    for change in (lambda: None, anywhere.lose_journals):
        change()
        with begun(anywhere, "2") as again:
            assert reusable(again, files)
        with (
            pytest.raises(Lost, match="another version"),
            begun(anywhere, "2") as again,
        ):
            again.pin({})
    with pytest.raises(Lost, match="gone") as refused:
        go(anywhere)
    assert refused.value.budget_spent and state(anywhere) == ["finished"]


def test_one_entry_has_one_journal(books: Path, tmp_path: Path) -> None:
    """A ledger under two paths has two folders of journals: what one job draws, no other draws again."""
    other = tmp_path / "elsewhere" / "books"
    other.parent.mkdir()
    os.link(books, other)
    slower = FakeNoise()

    def hook(point: str) -> None:
        if point == "before reserve":  # the slower job has begun its journal by now
            died(other, "before draw", 2)

    faults.hook = hook
    with pytest.raises(Busy, match="another process entered run 'r'") as refused:
        go(books, noise=slower)
    faults.hook = lambda _: None
    assert refused.value.retryable and not refused.value.budget_spent
    with pytest.raises(Lost, match="gone"):
        go(books, noise=slower)
    assert slower.calls == []
    assert go(other)[1].resumed == 1


def test_another_ledger_leaves_a_journal_alone(books: Path, tmp_path: Path) -> None:
    """A ledger put in another's place by mistake must not cost the other's runs their journals."""
    died(books, "before draw", 3)
    before = {path: path.read_bytes() for path in Path(f"{books}.journals").iterdir()}
    shutil.move(books, tmp_path / "kept")
    LedgerFile.create(tmp_path / "new").add("t", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    shutil.move(tmp_path / "new", books)
    go(books)
    assert all(path.read_bytes() == data for path, data in before.items())
    shutil.move(tmp_path / "kept", books)
    assert go(books)[1].resumed == 2


def test_only_the_column_that_the_owner_names_bounds_rows(tmp_path: Path) -> None:
    """Any column may be called an id: one that differs in every row bounds nothing."""
    file = LedgerFile.create(tmp_path / "books")
    file.add("t", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 5, "person")
    file.add("u", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 5)
    source = (
        table()
        .append_column("person", pa.array(np.arange(300) // 5))
        .append_column("row", pa.array(np.arange(300)))
    )
    given: dict[str, Any] = {"domain": DOMAIN, "epsilon": 0.4, "ledger": file.path, "columns": list(DOMAIN)}
    for dataset, column, words in (
        ("t", "row", "goes by --privacy-id person"),
        ("u", "person", "no column that names the person"),
    ):
        for contributions in (1, 5):  # even so: where a person's rows go, others of the same value move up
            with pytest.raises(InputError, match=words):
                release(source, 2, dataset=dataset, privacy_id=column, contributions=contributions, **given)
    with pytest.raises(InputError, match="up to 5 rows of one person"):
        release(source, 2, dataset="t", **given)
    release(source, 2, dataset="t", privacy_id="person", **given)
    release(source, 2, dataset="u", contributions=5, **given)


def test_a_ledger_is_one_file_wherever_the_caller_goes(
    books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(books.parent)
    file = LedgerFile(Path("books"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    LedgerFile.create(elsewhere / "books").add("t", Cap.of(9.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    monkeypatch.chdir(elsewhere)
    assert file.dataset("t").cap.epsilon == 1


def test_a_child_process_does_not_keep_the_run(anywhere: Place) -> None:
    """A child that was forked meanwhile has the journal open too: the lock ends with the run."""
    with begun(anywhere):
        child = os.fork()
        if not child:
            time.sleep(60)
            os._exit(0)
    try:
        go(anywhere)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_record_is_on_disk_before_it_is_used(books: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw is followed by a sync of the journal before the next begins."""
    events: list[str] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("sync"), sync(handle))[1])
    faults.hook = lambda point: events.append(point) if point == "before draw" else None
    go(books)
    draws = [i for i, event in enumerate(events) if event == "before draw"]
    assert len(draws) > 5
    assert all("sync" in events[a:b] for a, b in zip(draws, [*draws[1:], len(events)], strict=True))
    monkeypatch.undo()


def test_points_are_reached(anywhere: Place, tmp_path: Path) -> None:
    """A point that no run comes to would be a hole in the crash matrix (those of files: scripts/crash)."""
    seen: set[str] = set()
    faults.hook = seen.add
    made, _, _ = go(anywhere)
    made.write(tmp_path / "out.parquet")
    assert seen == set(faults.POINTS)


def test_a_failure_of_the_books_does_not_hide_the_failure(
    anywhere: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise InputError("the ledger went away")

    monkeypatch.setattr(Ledger, "change", broken)
    die_at("before draw", 2)
    with pytest.raises(Crash):
        go(anywhere)
    faults.hook = lambda _: None
    monkeypatch.undo()
    assert state(anywhere) == ["reserved"]
    with pytest.raises(FmwemError):
        go(anywhere, epsilon=0.5)
    go(anywhere)
