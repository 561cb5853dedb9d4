"""A ledger in a real PostgreSQL: what only a server can do to it, and workers that share no disk."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from support.commands import FMWEM, JOB, Fmwem
from support.fakes import FakeNoise
from support.postgres import PASSWORD, Server, binary
from support.processes import PYTHON, ended, line, printed, started
from support.runs import DOMAIN, died, entries, go, state, table

from factored_mwem import release
from factored_mwem.accounting.cap import Cap
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.cli.books import books_text
from factored_mwem.errors import Busy, InputError, Lost, RolledBack
from factored_mwem.files import crashpoints as faults
from factored_mwem.ledger import database, journal_table, postgres
from factored_mwem.ledger.address import Address
from factored_mwem.ledger.database import LedgerDatabase
from factored_mwem.ledger.opening import create_ledger, open_ledger
from factored_mwem.ledger.report import books as show
from factored_mwem.pipeline.record.manifest_check import check_books

TESTS = Path(__file__).parents[1]
CAP = (Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 1)


@pytest.fixture
def uri(server: Server) -> Iterator[str]:
    """A ledger with dataset `t` in a database of its own."""
    yield filled(server)
    faults.hook = lambda _: None


def filled(server: Server, folder: Path | None = None) -> str:
    """A new ledger with dataset `t`."""
    made = server.fresh()
    create_ledger(made, folder).add("t", *CAP)
    return made


def name_of(uri: str) -> str:
    """Of its database."""
    return uri.split("/")[3].split("?")[0]


def whole(uri: str) -> None:
    """One finished release, and nothing that contradicts it."""
    assert state(uri) == ["finished"] and check_books(uri)["problems"] == []


# ---- connections that are lost


CUTS = {
    "before reserve": [1],
    "before commit": [1, 2, 3],
    "after commit": [1, 2, 3],
    "after reserve": [1],
    "before draw": [2],
    "before journal": [1, 4],
    "half journalled": [1, 3],
    "after journal": [3],
    "before finish": [1],
}


@pytest.mark.parametrize(
    ("point", "nth"), [(point, nth) for point, all_nth in CUTS.items() for nth in all_nth]
)
def test_a_connection_that_is_cut_anywhere_costs_nothing_more(
    server: Server, uri: str, point: str, nth: int
) -> None:
    """Busy, and the same again goes on; or it was not noticed. No draw but the last is made twice."""
    seen = [0]

    def hook(reached: str) -> None:
        seen[0] += reached == point
        if reached == point and seen[0] == nth:
            server.cut(uri)

    faults.hook = hook
    first, second = FakeNoise(), FakeNoise()
    with contextlib.suppress(Busy):
        go(uri, noise=first)
    assert seen[0] >= nth
    faults.hook = lambda _: None
    made, _, _ = go(uri, noise=second)
    whole(uri)
    assert len(first.calls) + len(second.calls) - len(made.manifest.ledger) <= 1


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_without_an_answer_is_asked_for(
    uri: str, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """The error says truly whether budget was spent, and the run goes on under its own mark."""
    execute, commits = postgres.Link.execute, [0]

    def unanswered(self: Any, statement: str, values: Any = ()) -> Any:
        if statement == "COMMIT" and faults_seen and not commits[0]:
            commits[0] = 1
            if committed:
                execute(self, statement)
            self.db.close()
            raise postgres.driver_of().OperationalError("server closed the connection unexpectedly")
        return execute(self, statement, values)

    faults_seen: list[str] = []
    faults.hook = lambda point: faults_seen.append(point) if point == "before commit" else None
    monkeypatch.setattr(postgres.Link, "execute", unanswered)
    noise = FakeNoise()
    with pytest.raises(Busy, match="was lost") as refused:
        go(uri, noise=noise)
    assert commits == [1] and refused.value.retryable and noise.calls == []
    assert refused.value.budget_spent is committed and len(entries(uri)) == committed
    go(uri)
    whole(uri)


DYING = """
import os, sys, time
sys.path[:0] = [sys.argv[3]]
from support.runs import go
from support.postgres import Server
from factored_mwem.files import crashpoints as faults
import psycopg
uri = sys.argv[1]
def hook(point):
    if point == "before commit":  # of the entry: its journal's connection is gone first
        with psycopg.connect(uri, autocommit=True) as db:
            db.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND "
                       "pid != pg_backend_pid()")
        print("ready", flush=True)
        time.sleep(float(sys.argv[2]))
    if point == "after commit":
        os._exit(9)
faults.hook = hook
go(uri)
"""


def dying(uri: str, seconds: float) -> Popen[str]:
    """A process that lost its journal, and whose entry is committed that much later, when it dies."""
    running = started(*PYTHON, DYING, uri, seconds, TESTS, stderr=None)
    assert line(running) == "ready\n"
    return running


def test_a_run_waits_for_what_a_dead_process_is_still_entering(uri: str) -> None:
    running = dying(uri, 1.0)
    go(uri)
    assert running.wait() == 9
    whole(uri)


def test_a_run_that_does_not_wait_for_it_would_be_lost(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LedgerDatabase, "_settled", LedgerDatabase._reading)
    running = dying(uri, 5.0)  # time to come to the books, on a busy machine, too
    with pytest.raises(Busy, match="another process entered run"):
        go(uri)
    running.wait()
    with pytest.raises(Lost, match="gone"):
        go(uri)


@pytest.fixture
def own_server() -> Iterator[Server]:
    """One that may be stopped."""
    made = Server()
    yield made
    made.remove()


def test_a_server_that_restarts_in_the_middle_is_waited_for(own_server: Server) -> None:
    uri = filled(own_server)
    drawn: list[int] = []
    for how, point in ((signal.SIGINT, "before journal"), (signal.SIGQUIT, "before commit")):

        def hook(reached: str, how: int = how, point: str = point) -> None:
            if reached == point:
                faults.hook = lambda _: None
                own_server.stop(how)

        noise = FakeNoise()
        faults.hook = hook
        with pytest.raises(Busy) as refused:
            go(uri, noise=noise)
        drawn.append(len(noise.calls))
        with pytest.raises(Busy, match="cannot reach the server") as down:
            go(uri)
        assert refused.value.retryable and down.value.retryable and not down.value.budget_spent
        own_server.start()
    go(uri)
    whole(uri)
    assert drawn == [0, 0]


def test_a_server_that_would_lose_what_it_is_told_is_refused(own_server: Server) -> None:
    uri = filled(own_server)
    own_server.sql(f"ALTER DATABASE {name_of(uri)} SET synchronous_commit = off")
    with open_ledger(uri)._reading() as db:
        assert db.execute("SHOW synchronous_commit").fetchone() == ("on",)
    own_server.stop()
    own_server.start("-c", "fsync=off")
    with pytest.raises(InputError, match="fsync off"):
        go(uri)


def test_a_lock_that_stays_is_said(server: Server, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setattr(postgres, "LOCK_SECONDS", 0.2)
    with psycopg.connect(uri) as held:
        held.execute("LOCK TABLE fmwem_ledger.releases IN ROW EXCLUSIVE MODE")  # as any writer has it
        with pytest.raises(Busy, match="in use") as refused:
            go(uri)
    assert refused.value.retryable and not refused.value.budget_spent
    go(uri)


# ---- workers


WORK = """
import os, sys
sys.path[:0] = [sys.argv[2]]
from support.runs import go
from support.fakes import FakeNoise
from factored_mwem.files import crashpoints as faults
from factored_mwem.errors import Busy
def hook(point):
    hook.seen += point == "before draw"
    if point == "before draw" and hook.seen == 4:
        print("holding", flush=True)
        sys.stdin.readline()
hook.seen = 0
faults.hook = hook
noise = FakeNoise()
try:
    run = go(sys.argv[1], noise=noise)[1]
except Busy as busy:
    print("busy", busy, flush=True)
else:
    print("done", run.resumed, len(noise.calls), flush=True)
"""


def worker(uri: str, folder: Path) -> Popen[str]:
    """A process with an empty disk of its own."""
    folder.mkdir()
    return started(*PYTHON, WORK, uri, TESTS, cwd=folder, stderr=None)


def test_two_machines_do_not_share_a_run_and_a_third_goes_on(uri: str, tmp_path: Path) -> None:
    """The first is killed once the second was refused; what it drew is not drawn again."""
    first = worker(uri, tmp_path / "first")
    assert line(first) == "holding\n"
    second = worker(uri, tmp_path / "second")
    assert line(second).startswith("busy ")
    first.kill()
    first.wait()
    third = worker(uri, tmp_path / "third")
    assert line(third) == "holding\n"
    said, _ = third.communicate("\n")
    made, run, noise = go(uri)
    assert said.split() == ["done", "3", str(len(made.manifest.ledger) - 3)]
    assert noise.calls == [] and run.resumed == len(made.manifest.ledger)
    whole(uri)
    assert all(not list((tmp_path / name).iterdir()) for name in ("first", "second", "third"))


def test_without_its_lock_a_run_is_still_drawn_once(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pooler may hand one session to two: then no number is taken twice, and the slower one ends."""
    monkeypatch.setattr(journal_table.JournalRows, "_take_hold", lambda self: None)
    slower = FakeNoise()
    met: list[BaseException] = []

    def hook(point: str) -> None:
        if point == "before journal" and len(slower.calls) == 2:
            faults.hook = lambda _: None
            go(uri)  # the faster one goes on from one draw

    faults.hook = hook
    try:
        go(uri, noise=slower)
    except Busy as error:
        met.append(error)
    assert len(met) == 1 and len(slower.calls) == 2
    whole(uri)
    go(uri, noise=(after := FakeNoise()))
    assert after.calls == []


def test_a_run_that_was_begun_beside_it_is_not_wiped(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor by one that looked before the other had entered anything."""
    monkeypatch.setattr(journal_table.JournalRows, "_take_hold", lambda self: None)
    begin = journal_table.JournalRows._clear

    def late(self: Any) -> None:
        monkeypatch.setattr(journal_table.JournalRows, "_clear", begin)
        died(uri, "before draw", 3)
        begin(self)

    monkeypatch.setattr(journal_table.JournalRows, "_clear", late)
    with pytest.raises(Busy):
        go(uri)
    assert go(uri)[1].resumed == 2


# ---- older copies


def test_a_restored_database_spends_nothing_until_its_owner_accepts_it(server: Server, uri: str) -> None:
    name = name_of(uri)
    server.cut(uri)
    server.sql(f"CREATE DATABASE {name}old TEMPLATE {name}")
    died(uri, "before draw", 3)
    server.cut(uri)
    server.sql(f"DROP DATABASE {name}", f"ALTER DATABASE {name}old RENAME TO {name}")
    noise = FakeNoise()
    for run_id in ("r", "another"):
        with pytest.raises(RolledBack, match="was restored") as refused:
            go(uri, noise=noise, run_id=run_id)
        assert not refused.value.retryable and not refused.value.budget_spent
    with pytest.raises(RolledBack):
        open_ledger(uri).add("u", *CAP)
    assert noise.calls == [] and entries(uri) == []
    assert show(uri)["older_than_its_journals"] and "no release will start" in books_text(show(uri))
    assert any("fmwem ledger accept" in problem for problem in check_books(uri)["problems"])
    open_ledger(uri).accept()
    go(uri)
    whole(uri)
    assert "copy accepted" in " ".join(event.text for event in open_ledger(uri).snapshot().events)


def test_restored_tables_are_noticed_too(server: Server, uri: str, tmp_path: Path) -> None:
    """A dump put back into the same database."""
    binaries = Path(str(binary("initdb"))).resolve().parent
    if ended(binaries / "pg_dump", "-d", uri, "-f", tmp_path / "dump.sql").returncode:
        pytest.skip("no pg_dump of the server's version")
    died(uri, "before draw", 3)
    server.sql("DROP SCHEMA fmwem_ledger CASCADE", uri=uri)
    printed(binaries / "psql", "-q", "-d", uri, "-f", tmp_path / "dump.sql")
    assert LedgerDatabase(Address(uri)).dataset("t").cap == CAP[0]
    with pytest.raises(RolledBack, match="was restored"):
        go(uri)


def test_books_older_than_their_journals_are_noticed(server: Server, uri: str) -> None:
    """Rows taken back by hand, in the very tables."""
    died(uri, "before draw", 3)
    server.sql("DELETE FROM events WHERE number > 1", "DELETE FROM releases", uri=uri)
    with pytest.raises(RolledBack, match="older than its journals"):
        go(uri, run_id="another")
    assert any("the books do not know" in problem for problem in check_books(uri)["problems"])


def test_files_of_a_server_put_back_are_noticed_by_a_folder_of_journals(
    own_server: Server, tmp_path: Path
) -> None:
    """Nothing in the database can tell: its place is the same. So the guide says."""
    for folder in (None, tmp_path / "journals"):
        if folder is not None:
            folder.mkdir()
        uri = filled(own_server, folder)
        own_server.stop()
        data, kept = own_server.folder / "data", own_server.folder / "kept"
        shutil.rmtree(kept, ignore_errors=True)
        printed("cp", "-a", data, kept)
        own_server.start()
        died(uri, "before draw", 3)
        own_server.stop()
        shutil.rmtree(data)
        kept.rename(data)
        own_server.start()
        if folder is None:
            go(uri)
        else:
            with pytest.raises(RolledBack, match="older than its journals"):
                go(uri)


# ---- what the database must be


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE more (x int)",
        "CREATE VIEW more AS SELECT 1 AS x",
        "ALTER TABLE releases ADD COLUMN more int",
        "ALTER TABLE releases ALTER COLUMN amount TYPE varchar(9)",
        "ALTER TABLE releases ALTER COLUMN amount DROP NOT NULL",
        "ALTER TABLE releases DROP CONSTRAINT releases_dataset_run_id_key",
        "ALTER TABLE releases ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE journals SET UNLOGGED",
        "ALTER TABLE journals DROP CONSTRAINT journals_pkey",
        "CREATE RULE forgive AS ON INSERT TO releases DO INSTEAD NOTHING",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; "
        "CREATE TRIGGER forgive BEFORE INSERT ON releases FOR EACH ROW EXECUTE FUNCTION f()",
        "DROP TABLE events",
        "DELETE FROM secret",
        "INSERT INTO secret VALUES ('\\x00')",
        "DELETE FROM form",
    ],
)
def test_a_schema_with_more_or_less_than_our_tables_is_no_ledger(
    server: Server, uri: str, statement: str
) -> None:
    server.sql(statement, uri=uri)
    with pytest.raises(InputError, match=r"no ledger|not a ledger|put it back"):
        go(uri)


def test_another_version_and_no_ledger_at_all(server: Server, uri: str) -> None:
    for version in (0, 3):
        server.sql(f"UPDATE form SET version = {version}", uri=uri)
        with pytest.raises(InputError, match=f"version {version}, this program reads version 1 alone"):
            open_ledger(uri)
    with pytest.raises(InputError, match="never overwritten"):
        create_ledger(uri)
    with pytest.raises(InputError, match="ledger init"):
        open_ledger(server.fresh())


GRANTS = (
    "GRANT USAGE ON SCHEMA fmwem_ledger TO etl",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fmwem_ledger TO etl",
)


def test_who_may_use_it_is_granted(server: Server, uri: str) -> None:
    """As the guide says it."""
    etl = server.remote(name_of(uri))
    with pytest.raises(InputError, match=r"no ledger in .* that its user may see"):
        go(etl)
    server.sql(GRANTS[0], uri=uri)
    with pytest.raises(InputError, match="lacks the permission"):
        go(etl)
    server.sql(GRANTS[1].replace(", INSERT, UPDATE, DELETE", ""), uri=uri)
    with pytest.raises(InputError, match="lacks the permission") as refused:
        release(table(), 1, domain=DOMAIN, ledger=etl, dataset="t")  # enters itself late, and may not
    assert not refused.value.budget_spent and entries(uri) == []
    server.sql(*GRANTS, uri=uri)
    go(etl)
    whole(etl)
    guide = (Path(database.__file__).parents[1] / "guide" / "ledger.md").read_text()
    assert all(grant in " ".join(guide.split()) for grant in GRANTS)


CHANGES = {
    "UPDATE releases SET amount = '1/7'": "release 1: amount in the books is not what the chain says",
    "UPDATE releases SET fingerprint = '\\x00'": "of the chain",
    "UPDATE datasets SET epsilon = 2.5": "dataset 't': epsilon in the books is not what the chain says",
    "UPDATE events SET event = replace(event, '1', '2') WHERE number = 2": "of the chain",
    "DELETE FROM events WHERE number = 2": "of the chain",
    "UPDATE secret SET key = decode(repeat('00', 32), 'hex')": "of the chain",
}


@pytest.mark.parametrize("statement", list(CHANGES))
def test_what_was_changed_is_named(server: Server, uri: str, statement: str) -> None:
    go(uri)
    server.sql(statement, uri=uri)
    found = check_books(uri)
    assert not found["fits"] and any(CHANGES[statement] in problem for problem in found["problems"])


# ---- the command, and passwords


def nowhere(folder: Path, *texts: str) -> None:
    """The password is in no file below the folder, nor in the texts."""
    assert all(PASSWORD not in text for text in texts)
    for path in folder.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path


def test_the_command_takes_a_uri_wherever_it_takes_a_file(here: Path, server: Server, fmwem: Fmwem) -> None:
    """By flag, variable and configuration file; the password shows nowhere."""
    name = name_of(server.fresh())
    uri = server.remote(name)
    shown = server.remote(name, None)
    made, job = fmwem("ledger init", uri), "release t.csv --marginals 1 --epsilon 0.2 --json --dataset adult"
    assert made.facts == {"ledger": shown}
    (here / "c.toml").write_text(f'ledger = "{uri}"\n')
    said = [
        made,
        fmwem("ledger add", uri, "--dataset", "adult", "--epsilon", 9),
        fmwem(job, "--ledger", uri, "--run-id", "a", "-o", "a.parquet"),
        fmwem(f"{job} --run-id b -o b.parquet", FMWEM_LEDGER=uri),
        fmwem(f"{job} --run-id c -o c.parquet --config c.toml"),
        fmwem(f"{job} --run-id a -o a.parquet", FMWEM_LEDGER=shown, PGPASSWORD=PASSWORD),
        fmwem("domain learn t.csv --dataset adult --epsilon 4 -o d --ledger", uri),
        *(fmwem("ledger", word, uri) for word in ("show", "export", "verify", "accept")),
        fmwem("ledger verify", uri, "a.manifest.json", "b.manifest.json"),
    ]
    assert [run.code for run in said] == [0] * len(said) and said[5].facts["reused"]
    job += " -o big.parquet --ledger"
    wrong = [
        fmwem(job, uri, "--epsilon", 50),
        fmwem(job, uri, "--dataset", "none"),
        fmwem(job, uri.replace(PASSWORD, "wr0ng-CANARY")),
        fmwem(job, f"{uri}?pass word=x"),
        fmwem(job, f"{uri}?nonsense={PASSWORD}"),
    ]
    assert [run.code for run in wrong] == [3, 2, 2, 2, 2]
    assert all(run.err.count("\n") == 1 and "CANARY" not in run.err + run.out for run in wrong)
    (here / "c.toml").unlink()
    nowhere(here, *(run.out + run.err for run in said + wrong))


def test_a_password_shows_in_no_error_of_a_run_that_dies(server: Server, caplog: Any) -> None:
    name = name_of(server.fresh())
    uri = server.remote(name)
    create_ledger(uri).add("t", *CAP)
    caplog.set_level("DEBUG")
    said = [repr(Address(uri)), repr(open_ledger(uri)), repr(vars(open_ledger(uri)))]

    def hook(point: str) -> None:
        if point == "after journal":
            server.cut(server.uri(name))

    faults.hook = hook
    with pytest.raises(Busy) as refused:
        go(uri)
    faults.hook = lambda _: None
    error: BaseException | None = refused.value
    while error is not None:
        said += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    assert all(PASSWORD not in text for text in [*said, caplog.text])


def test_what_cannot_be_reached_is_said_in_one_line(server: Server) -> None:
    free = "postgresql://etl:CANARY@127.0.0.1:1/books"
    with pytest.raises(
        Busy, match=r"cannot reach the server of the ledger postgresql://etl@127\.0\.0\.1:1/books;"
    ):
        open_ledger(free)
    for wrong in (server.remote("postgres", "CANARY"), server.remote("none"), server.uri("none")):
        with pytest.raises(InputError, match="refuses the connection") as refused:
            open_ledger(wrong)
        assert "CANARY" not in str(refused.value) and "\n" not in str(refused.value)


def job_at(uri: str) -> list[Any]:
    return [*(uri if word == "books" else word for word in JOB), "--run-id", "r", "--json"]


def test_a_killed_command_is_run_again_elsewhere_and_pays_once(
    here: Path, server: Server, fmwem: Fmwem, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The real command, killed by SIGKILL while it draws, then run in another folder with the table alone."""
    uri = server.fresh()
    create_ledger(uri).add("adult", *CAP)
    job = job_at(uri)
    code = (
        "import os, sys; from factored_mwem.files import crashpoints as faults\n"
        "from factored_mwem.cli.main import main\n"
        "def hook(point):\n"
        "    hook.seen += point == 'after journal'\n"
        "    if hook.seen == 3: os.kill(os.getpid(), 9)\n"
        "hook.seen = 0; faults.hook = hook; sys.argv[0] = 'fmwem'; main()\n"
    )
    assert ended(*PYTHON, code, *job).returncode == -9 and not list(here.glob("*.parquet"))
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in ("t.csv", "t.domain.json"):
        shutil.copy(here / name, elsewhere)
    facts = json.loads(printed(FMWEM, *job, cwd=elsewhere))
    assert facts["resumed"] == 2 and facts["spent_epsilon"] <= 1
    (entry,) = open_ledger(uri).entries("adult")
    assert entry.state == "finished"
    manifest = next(elsewhere.glob("*.manifest.json"))
    assert check_books(uri, [manifest])["problems"] == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_heard_while_the_server_is_waited_for(
    here: Path, server: Server, fmwem: Fmwem, number: int, code: int
) -> None:
    """A lock is held, so the run waits at its entry when the signal comes."""
    import psycopg

    uri = server.fresh()
    create_ledger(uri).add("adult", *CAP)
    job = job_at(uri)
    with psycopg.connect(uri) as held:
        held.execute("LOCK TABLE fmwem_ledger.datasets IN ROW EXCLUSIVE MODE")
        running = started(FMWEM, *job)
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation IS NOT NULL"
        while running.poll() is None and not server.sql(waits, uri=uri):
            time.sleep(0.05)
        running.send_signal(number)
        # the books are asked whether they hold an entry, and wait for the lock, too
        time.sleep(1.0)
    out, err = running.communicate(timeout=60)
    told = json.loads(out)
    assert running.returncode == told["exit_code"] == code and told["retryable"] and err.count("\n") == 1
    assert fmwem(*job).code == 0 and len(open_ledger(uri).entries("adult")) == 1
