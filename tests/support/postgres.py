"""A real PostgreSQL on this machine, started by the tests in a folder of its own and ended with them."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from support.processes import free_port

PASSWORD = "s3cret-CANARY"
"""Of the role `etl`, over TCP."""


def binary(name: str) -> str | None:
    found = shutil.which(name)
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return found or (str(installed[-1]) if installed else None)


def missing() -> str | None:
    """Why no server can be started here."""
    if not (binary("initdb") and binary("postgres")):
        return "no PostgreSQL is installed here: nothing was tried on a ledger in a database"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed: nothing was tried on a ledger in a database"
    return None


class Server:
    """A cluster that listens on a socket in its folder (everybody is `fmwem`) and on loopback (`etl`)."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fmwem-pg-", dir="/tmp"))  # a socket's path must be short
        self.port = free_port()
        self.user: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to be root
            self.user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self.folder, "nobody", "nogroup")
        how = ["--auth-local=trust", "--auth-host=scram-sha-256", "-E", "UTF8", "--no-locale", "-U", "fmwem"]
        command = [str(binary("initdb")), "-D", str(self.folder / "data"), *how]
        subprocess.run(command, check=True, capture_output=True, cwd="/", **self.user)
        self.process: subprocess.Popen[bytes] | None = None
        self.start()
        self.sql(f"CREATE ROLE etl LOGIN PASSWORD '{PASSWORD}'")

    def start(self, *options: str) -> None:
        """Ready for connections when it returns."""
        given = ["-D", str(self.folder / "data"), "-k", str(self.folder), "-h", "127.0.0.1"]
        given += ["-p", str(self.port), "-c", "max_connections=60"]
        command = [str(binary("postgres")), *given, *options]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self.user)
        for _ in range(600):
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            try:
                self.sql("SELECT 1")
            except Exception:  # noqa: BLE001 - it is not ready yet
                time.sleep(0.05)
            else:
                return
        raise AssertionError("PostgreSQL does not come up")

    def stop(self, how: int = signal.SIGINT) -> None:
        """SIGINT: cut all connections and end well; SIGQUIT: end as a crash would."""
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait()

    def remove(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def uri(self, database: str = "postgres") -> str:
        return f"postgresql://fmwem@/{database}?host={self.folder}&port={self.port}"

    def remote(self, database: str, password: str | None = PASSWORD) -> str:
        """As another machine would reach it."""
        word = "" if password is None else f":{password}"
        return f"postgresql://etl{word}@127.0.0.1:{self.port}/{database}"

    def fresh(self) -> str:
        """The URI of a new database that `etl` may make a ledger in, too."""
        name = f"d{secrets.token_hex(6)}"
        self.sql(f"CREATE DATABASE {name}")
        self.sql(f"GRANT CREATE ON DATABASE {name} TO etl")
        return self.uri(name)

    def sql(self, *statements: str, uri: str | None = None) -> list[Any]:
        """Rows of the last statement, each of which is a transaction, in the ledger's schema."""
        import psycopg

        rows: list[Any] = []
        with psycopg.connect(uri or self.uri(), autocommit=True, connect_timeout=5) as db:
            db.execute("SET search_path = fmwem_ledger, public")
            for statement in statements:
                done = db.execute(statement)
                rows = done.fetchall() if done.description else []
        return rows

    def cut(self, uri: str) -> None:
        """End every session with that database, as a network or a failover would."""
        name = uri.split("/")[3].split("?")[0]
        self.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


def started() -> Server:
    """Skips, and says why, where none can be started."""
    if (why := missing()) is not None:
        pytest.skip(why)
    return Server()
