"""PostgreSQL: how to reach a database with a ledger, what it must hold, and what its errors mean.

One database holds one ledger, in a schema of its own. Every change is a transaction that first locks the
tables against all other writers. So it reads what every earlier one has committed, and nobody else can spend
that budget meanwhile. This is like SQLite's BEGIN IMMEDIATE; no transaction has to be repeated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from factored_mwem.errors import Busy, FmwemError, InputError, NotPermitted
from factored_mwem.ledger.address import Address
from factored_mwem.ledger.schema import in_postgres

if TYPE_CHECKING:
    import psycopg

SCHEMA = "fmwem_ledger"
LOCK_SECONDS = 60.0
"""How long to wait for another process's transaction, each of which takes milliseconds."""
STATEMENT_SECONDS = 60.0
"""How long a statement may take after that; if it takes longer, the server is in trouble."""
SESSION = {
    "search_path": f"{SCHEMA},pg_temp",  # names are looked up in our schema only
    "default_transaction_isolation": "read\\ committed",  # a statement sees what was committed before it
    "client_min_messages": "error",
    "tcp_keepalives_idle": "60",  # a worker whose machine is gone lets go of its locks within two minutes
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
}
REACHING = {"application_name": "fmwem", "target_session_attrs": "read-write", "client_encoding": "UTF8"}
NETWORK = {
    "keepalives_idle": 60,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    "tcp_user_timeout": 60_000,
}
LOST = ("08", "40", "53", "55", "57", "58")
"""Classes of SQLSTATE after which a new try may succeed: connection, rollback, resources, in use, operator,
system.
"""
REFUSED = (
    "authentication failed",
    "no password supplied",
    "pg_hba.conf",
    "does not exist",
    "permission denied for database",
    "not permitted to log in",
    "certificate verify failed",
    "does not support SSL",
)
"""Words in errors that would come again at every try."""


class Link:
    """A connection that accepts our statements."""

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self.db = db

    def execute(self, statement: str, values: Any = (), /) -> Any:
        return self.db.execute(in_postgres(statement), values or None)  # type: ignore[call-overload, unused-ignore]

    def close(self) -> None:
        self.db.close()

    @contextlib.contextmanager
    def transaction(self, mode: str = "") -> Iterator[None]:
        """All or nothing."""
        self.execute(f"BEGIN {mode}")
        try:
            yield
            if self.execute("COMMIT").statusmessage != "COMMIT":  # also ends a failed transaction
                raise ValueError("rolled back")
        except BaseException:
            if not self.db.closed:
                with contextlib.suppress(driver_of().Error):
                    self.execute("ROLLBACK")
            raise


def driver_of() -> Any:
    try:
        import psycopg
    except ImportError:
        pass
    else:
        return psycopg
    raise InputError("a ledger in PostgreSQL needs psycopg: pip install 'factored-mwem[postgres]'")


def connect(address: Address, patience: float | None = None) -> Link:
    """A new session with the database, which waits up to `patience` seconds for others' locks.

    Raises Busy if the server cannot be reached now; InputError if it refuses, or could lose writes. The
    driver's messages are not repeated: they may quote a password from a URI that the driver cannot read.
    """
    driver, problem = driver_of(), None
    wait = LOCK_SECONDS if patience is None else patience
    milliseconds = {"lock_timeout": wait, "statement_timeout": wait + STATEMENT_SECONDS}
    session = {**SESSION, **{name: str(int(1000 * value)) for name, value in milliseconds.items()}}
    try:
        own = driver.conninfo.conninfo_to_dict(address.uri).get("options") or ""
        options = " ".join([own, *(f"-c {name}={value}" for name, value in session.items())]).strip()
        # libpq takes 2 seconds at least
        reaching = {**REACHING, **NETWORK, "connect_timeout": max(2, int(wait)), "options": options}
        db = Link(driver.connect(address.uri, autocommit=True, prepare_threshold=None, **reaching))
    except (driver.Error, UnicodeError) as error:
        problem = _not_reached(str(error), isinstance(error, driver.OperationalError), address.name)
    if problem is not None:
        raise problem
    try:
        _check_server(db, address.name)
    except BaseException:
        db.close()
        raise
    return db


def _not_reached(message: str, operational: bool, name: str) -> FmwemError:
    if not operational:
        return InputError(
            f"cannot read the URI of the ledger {name}: it has an unknown parameter; leave it out"
        )
    if any(words in message for words in REFUSED):
        how = "correct its user, database, password (PGPASSWORD, ~/.pgpass) or sslmode"
        return InputError(f"the server of the ledger {name} refuses the connection; {how}")
    return Busy(f"cannot reach the server of the ledger {name}; see that it runs, and try again")


def _check_server(db: Link, name: str) -> None:
    """Raises InputError if committed data could be lost, or if a connection pooler shares sessions."""
    with clear(name):
        # The server must not end a session that waits for its next draw, either.
        settings = dict(
            db.execute(
                "SELECT name, CASE WHEN name LIKE 'idle%' THEN set_config(name, '0', false) ELSE setting END "
                "FROM pg_settings WHERE name IN ('search_path', 'synchronous_commit', 'fsync', "
                "'idle_session_timeout', 'idle_in_transaction_session_timeout')"
            ).fetchall()
        )
        if settings["synchronous_commit"] in ("off", "local"):
            # a commit is on disk, here and where a standby must have it
            db.execute("SET synchronous_commit = on")
    if settings["fsync"] != "on":
        what = "runs with fsync off: what is entered could be lost"
        raise InputError(f"the server of the ledger {name} {what}")
    if settings["search_path"].replace(" ", "") != SESSION["search_path"]:
        what = "a connection pooler that shares sessions is in front of it"
        raise InputError(f"cannot use the ledger {name}: {what}; give the address of the server itself")


@contextlib.contextmanager
def clear(name: str) -> Iterator[None]:
    """Turn errors of the driver, or caused by damaged rows, into errors of one line."""
    driver = driver_of()
    try:
        yield
    except FmwemError:
        raise
    except driver.Error as error:
        raise _explained(error, name) from None
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        raise InputError(
            f"{name} holds no ledger, or it is damaged; put back its newest whole copy (a new or an older "
            "one forgets what was spent)"
        ) from None


def _explained(error: Any, name: str) -> FmwemError:
    driver, state = driver_of(), error.sqlstate or ""
    if isinstance(error, driver.errors.UniqueViolation):
        if error.diag.table_name == "events":  # the chain knows a release of this number, whose row is gone
            what = "`fmwem ledger verify` says where; put back its newest whole copy"
            return InputError(f"the ledger {name} is damaged: {what}")
        return Busy(f"another process entered this run in the ledger {name}; try again")
    if state in ("42501", "25006"):
        why = "its user lacks the permission; see `fmwem guide ledger`"
        return NotPermitted(f"cannot read or write the ledger {name}: {why}")
    if state in ("3F000", "42P01"):
        make = "or, if there never was one, `fmwem ledger init` makes it"
        return InputError(f"no ledger in {name} that its user may see; put it back (see the guide), {make}")
    if state[:2] == "53":
        return Busy(f"the server of the ledger {name} has no space or connection left; try again later")
    if state in ("55P03", "57014", "40P01"):
        return Busy(f"the ledger {name} is in use; try again")
    if state[:2] in LOST or (not state and isinstance(error, driver.OperationalError)):
        return Busy(f"the connection to the ledger {name} was lost; try again")
    return InputError(f"{name} holds no ledger, or it is damaged, or cannot hold what it was given")
