"""How a command ends: by signals, beside other jobs; and what it then says of the budget is true."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.commands import JOB, Fmwem, killed_at, refused, states

from factored_mwem.cli import exits as endings
from factored_mwem.errors import Busy, InputError, Stopped, told
from factored_mwem.files import crashpoints as faults
from factored_mwem.files.files import IfExists, replacing
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.ledger.journal_folder import JournalFile
from factored_mwem.request.policy import Policy

JOB_LINE = " ".join(map(str, JOB))
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Signals as a terminal leaves them: whoever started the tests may have had them ignored."""
    before = [signal.signal(number, signal.SIG_DFL) for number in SIGNALS]
    yield
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)
    faults.hook = lambda _: None


def strike(point: str, act: int | BaseException) -> None:
    """When the process comes to `point` it gets this signal, or meets this error, once."""

    def hook(reached: str) -> None:
        if reached == point:
            faults.hook = lambda _: None
            if isinstance(act, BaseException):
                raise act
            os.kill(os.getpid(), act)

    faults.hook = hook


@contextlib.contextmanager
def told_of(wanted: str, act: int | BaseException) -> Iterator[None]:
    """The same when the books are told of that state."""
    change = LedgerFile.change

    def struck(self: LedgerFile, number: int, state: str, **facts: Any) -> None:
        if state == wanted and isinstance(act, BaseException):
            raise act
        if state == wanted and isinstance(act, int):
            os.kill(os.getpid(), act)
        change(self, number, state, **facts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LedgerFile, "change", struck)
        yield


with_and_without_id = pytest.mark.parametrize("run_id", [(), ("--run-id", "r")], ids=["none", "r"])


@with_and_without_id
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_second_signal_changes_nothing(
    books: Path, fmwem: Fmwem, second: int, run_id: tuple[str, ...]
) -> None:
    """The second one comes while the books are told: it made the command say that nothing was spent."""
    strike("after fit", signal.SIGTERM)
    with told_of("failed", second):
        ended = fmwem(*JOB, *run_id, "--json")
    assert ended.code == ended.facts["exit_code"] == 143
    assert ended.facts["budget_spent"] and ended.facts["retryable"] is bool(run_id)
    advice = "run the same command again" if run_id else "running again is a new release"
    assert ended.facts["advice"].startswith(advice)
    assert states(fmwem) == ["failed"]


def test_a_signal_during_another_failure_does_not_hide_what_was_spent(
    books: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch
) -> None:
    strike("after fit", ZeroDivisionError())
    monkeypatch.setattr("factored_mwem.ledger.run.Run.drawn", lambda *_: None)
    with told_of("failed", Stopped(143)):
        ended = fmwem(*JOB, "--json")
    assert (ended.code, ended.facts["budget_spent"], ended.facts["retryable"]) == (143, True, False)


def test_of_a_chain_of_errors_the_told_one_speaks() -> None:
    inner: Any = ValueError()
    inner.budget_spent = True
    try:
        try:
            raise inner
        except ValueError as error:
            raise KeyError from error
    except KeyError as error:
        assert told(error) is inner
    assert told(last := ValueError()) is last


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_after_the_last_rename_says_that_the_release_is_complete(
    books: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    say = print

    def late(text: str, **options: Any) -> None:
        os.kill(os.getpid(), number)
        say(text, **options)

    with monkeypatch.context() as patch:
        patch.setattr("factored_mwem.cli.console.print", late, raising=False)
        ended = fmwem(*JOB, "--run-id", "r", "--json")
    assert ended.code == ended.facts["exit_code"] == code
    assert ended.facts["budget_spent"] and ended.facts["retryable"] and "is complete" in ended.facts["advice"]
    assert fmwem(*JOB, "--run-id", "r", "--json").facts["reused"] is True


@pytest.mark.parametrize(
    ("point", "entered"), [("before reserve", False), ("before commit", False), ("after commit", True)]
)
def test_a_signal_at_the_reservation_says_whether_it_was_made(
    books: Path, fmwem: Fmwem, point: str, entered: bool
) -> None:
    strike(point, signal.SIGTERM)
    ended = fmwem(*JOB, "--json")
    assert (ended.code, ended.facts["budget_spent"], len(states(fmwem))) == (143, entered, entered)


@with_and_without_id
def test_books_that_cannot_be_told_of_the_end_leave_a_release(
    books: Path, fmwem: Fmwem, run_id: tuple[str, ...]
) -> None:
    with told_of("finished", Busy("the ledger is in use; try again")):
        ended = fmwem(*JOB, *run_id, "--json")
    assert (ended.code, ended.facts["budget_spent"], ended.facts["retryable"]) == (4, True, bool(run_id))
    assert "is complete" in ended.facts["advice"] and (books.parent / "t.synthetic.manifest.json").exists()
    assert states(fmwem) == ["spent"]
    if run_id:
        assert fmwem(*JOB, *run_id).code == 0
        assert states(fmwem) == ["finished"]


def test_a_signal_once_the_books_are_closed_says_so_too(books: Path, fmwem: Fmwem) -> None:
    strike("after finish", signal.SIGTERM)
    ended = fmwem(*JOB, "--json")
    assert (ended.code, ended.facts["budget_spent"]) == (143, True) and "is complete" in ended.facts["advice"]
    assert states(fmwem) == ["finished"]


def test_what_ignores_a_hangup_goes_on_ignoring_it() -> None:
    """`nohup fmwem ...`: the terminal may go."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    endings._listen()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL


def test_too_little_memory_is_not_tried_again_as_it_is(books: Path, fmwem: Fmwem) -> None:
    strike("after fit", MemoryError())
    ended = fmwem(*JOB, "--run-id", "r", "--json")
    assert (ended.code, ended.facts["budget_spent"], ended.facts["retryable"]) == (4, True, False)
    assert "--max-cells" in ended.facts["error"] and "the same run id goes on" in ended.facts["advice"]
    again = fmwem(*JOB, "--run-id", "r", "--max-cells", 10**5, "--json")
    assert again.code == 0 and len(states(fmwem)) == 1


# --- beside other jobs ---


def test_another_format_does_not_take_the_first_ones_manifest(books: Path, fmwem: Fmwem) -> None:
    """a.parquet and a.csv would share a manifest, which must go on speaking of the first."""
    assert fmwem(*JOB, "--run-id", "r", "-o", "a.parquet").code == 0
    refused(fmwem, f"{JOB_LINE} --run-id r -o a.csv", "a.manifest.json exists")
    assert fmwem(*JOB, "--run-id", "r", "-o", "b.csv").code == 0


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appeared_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def none(*_: Any) -> None:
        raise OSError(1, "Operation not permitted")

    path = tmp_path / "a"
    if not links:
        monkeypatch.setattr(os, "link", none)
    with replacing(path) as temporary:
        temporary.write_text("one")
    assert os.listdir(tmp_path) == ["a"] and path.read_text() == "one"
    with replacing(path, IfExists.REPLACE) as temporary:
        temporary.write_text("two")
    assert path.read_text() == "two"
    path.unlink()
    with pytest.raises(InputError, match="a exists"), replacing(path) as temporary:
        temporary.write_text("mine")
        path.write_text("another's")
    assert os.listdir(tmp_path) == ["a"] and path.read_text() == "another's"


@pytest.mark.parametrize("step", ["link", "unlink"])
@pytest.mark.parametrize("after", [False, True])
def test_a_signal_between_two_steps_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    real, seen = getattr(os, step), [0]

    def struck(*given: Any) -> None:
        seen[0] += 1
        if seen[0] > 1:  # clearing up is not disturbed
            return real(*given)
        if after:
            real(*given)
        raise Stopped(143)

    monkeypatch.setattr(os, step, struck)
    with pytest.raises(Stopped), replacing(tmp_path / "a") as temporary:
        temporary.write_text("mine")
    assert os.listdir(tmp_path) == []


def test_a_run_that_goes_on_leaves_another_jobs_manifest(books: Path, fmwem: Fmwem) -> None:
    """Seen: its model took the other's manifest away before the data were compared."""
    assert fmwem(*JOB, "--run-id", "r", "-o", "mine.csv").code == 0
    assert fmwem("release t.csv --marginals 1 -o other.csv").code == 0
    refused(fmwem, f"{JOB_LINE} --run-id r -o other.csv --model new.fmwem")


@pytest.mark.parametrize("name", ["dangling.csv", "n" * 228 + ".csv", "n" * 300 + ".csv"])
def test_names_that_cannot_be_written_are_refused_before_anything_is_spent(
    books: Path, fmwem: Fmwem, name: str
) -> None:
    (books.parent / "dangling.csv").symlink_to("nowhere.csv")
    told = fmwem(*JOB, "-o", name, "--json").facts
    assert told["exit_code"] == 2 and not told["budget_spent"]
    assert "exists" in told["error"] or "too long a name" in told["error"]
    assert states(fmwem) == []


def test_files_of_two_jobs_are_not_one_release(books: Path, fmwem: Fmwem) -> None:
    """With --overwrite two may write at once: one's data beside the other's manifest is no release."""
    data, seen = books.parent / "t.synthetic.parquet", [0]

    def hook(point: str) -> None:
        seen[0] += point == "after rename"
        if point == "after rename" and seen[0] == 2:  # data, manifest
            data.write_bytes(b"another's")

    faults.hook = hook
    ended = fmwem(*JOB, "--run-id", "r", "--json")
    assert ended.code == 4 and "another process wrote" in ended.facts["error"] and ended.facts["budget_spent"]
    faults.hook = lambda _: None
    assert states(fmwem) == ["failed"]
    assert fmwem(*JOB, "--run-id", "r", "-o", "own.parquet").code == 0


# --- what is said ---


def test_no_advice_is_to_forget_what_was_spent(books: Path, fmwem: Fmwem) -> None:
    """A ledger that is gone held what was spent: a new one in its place would give it out again."""
    books.write_bytes(b"SQLite format 3\0" + b"x" * 100)
    assert "put back" in fmwem(*JOB).err and "forgets what was spent" in fmwem(*JOB).err
    books.unlink()
    assert "put it back" in fmwem(*JOB).err


def test_what_is_left_is_said_in_what_can_be_asked_for(books: Path, fmwem: Fmwem) -> None:
    assert fmwem("ledger add books --dataset zc --rho 0.1").code == 0
    job = [*JOB[:-1], "zc", "--delta", "1e-9"]
    said = fmwem(*job, "--epsilon", 9, "--json").facts["error"]
    left = said.split("--epsilon ")[1].split()[0]
    assert "rho 0.1 is left" in said and "--delta 1e-9 would fit" in said
    assert fmwem(*job, "--epsilon", left).code == 0
    assert fmwem(*job, "--epsilon", 0.5, "--overwrite").code == 3


def test_the_books_say_what_was_promised_and_what_states_mean(books: Path, fmwem: Fmwem) -> None:
    killed_at("after fit")
    fmwem(*JOB, "--epsilon", 0.5, "--run-id", "r")
    text = fmwem("ledger show books").out
    assert "(0.5, 1e-09)-DP, counts rho" in text and "up to 1 row of one person" in text
    assert "failed: ended by an error" in text
    assert fmwem(*JOB, "--epsilon", 0.5, "--run-id", "r").code == 0
    assert "failed: ended" not in fmwem("ledger show books").out
    (line,) = json.loads(fmwem("ledger export books").out)["datasets"][0]["releases"]
    assert line["promised"] == {"epsilon": 0.5, "delta": 1e-9, "privacy_id": None}


def test_an_argument_in_the_wrong_place_is_not_quoted_behind_the_error() -> None:
    frame = pa.table({"name": ["CANARY"] * 3}).to_pandas()
    with pytest.raises(InputError) as refused:
        Policy.of(engine=frame)
    error: BaseException | None = refused.value
    while error is not None:
        assert "CANARY" not in f"{error!s}{error!r}"
        error = error.__cause__ or error.__context__


def test_who_waits_is_told_what_another_id_costs(books: Path) -> None:
    file = LedgerFile(books)
    file.journals.path.mkdir()
    held = JournalFile(file.journals.path / "x", b"k")
    with pytest.raises(Busy, match="pays again"):
        JournalFile(file.journals.path / "x", b"k")
    held.close()


def test_a_signal_while_the_last_line_is_written_leaves_code_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def struck(*_: Any, **__: Any) -> None:
        raise Stopped(130)

    monkeypatch.setattr("builtins.print", struck)
    with pytest.raises(SystemExit) as ended:
        endings._fail(InputError("x"), "x", 2, as_json=False)
    assert ended.value.code == 2
