"""Real orchestrators that run a recipe of scripts/recipes, each from a virtual environment of its own.

RECIPE_VENVS names a folder that holds the environments `airflow`, `dagster`, `dbt` and `prefect`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.processes import free_port

from factored_mwem import Cap, LedgerFile, Neighbours

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0
"""Seconds that an orchestrator has for a step; none of them takes a tenth of it on an idle machine."""
HOOK = """
import os, pathlib, signal

from factored_mwem.files import crashpoints
from factored_mwem.errors import Busy

folder = pathlib.Path(os.environ["RECIPE_FOLDER"])


def once(name):
    try:
        (folder / name).open("x").close()
    except FileExistsError:
        return False
    return True


def hook(point):
    if point == "before draw":
        with (folder / "draws").open("a") as file:
            file.write(f"{os.getpid()}\\n")
    if point == "after journal" and (folder / "draws").exists():
        drawn = len((folder / "draws").read_text().split())
        if drawn == 3 and once("killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        if drawn == 6 and once("busy"):
            raise Busy("the disk is full for a moment")


crashpoints.hook = hook
"""
"""What every interpreter of a trial begins with: it notes each draw, dies by SIGKILL after the third, and
meets an error that may be retried after the sixth.
"""


@dataclass
class Place:
    """A folder with a recipe, its table, domain and ledger, and the environment that the recipe runs in."""

    folder: Path
    venv: Path

    @classmethod
    def of(cls, folder: Path, name: str, *, epsilon: float, change: Callable[[str], str]) -> Place:
        """The ledger admits `epsilon`; `change` is made to the recipe's text."""
        place = cls(folder, Path(os.environ["RECIPE_VENVS"], name))
        for path in (ROOT / "datasets").glob("adult.*"):
            if "manifest" not in path.name:
                shutil.copy(path, folder)
        for path in (ROOT / "scripts" / "recipes").glob(f"{name}_release.*"):
            (folder / "recipe").mkdir(exist_ok=True)
            (folder / "recipe" / path.name).write_text(change(path.read_text()))
        (folder / "hook").mkdir()
        (folder / "hook" / "sitecustomize.py").write_text(HOOK)
        books = LedgerFile.create(folder / "budget.ledger")
        books.add("adult", Cap.of(epsilon, 1e-9), Neighbours.ADD_REMOVE, 1)
        return place

    def environment(self, **more: str) -> dict[str, str]:
        """Nothing of the caller's settings, and a home of its own."""
        kept = {k: v for k, v in os.environ.items() if k in ("LANG", "NUMBA_CACHE_DIR", "TMPDIR")}
        kept |= {"HOME": str(self.folder), "PATH": f"{self.venv / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        paths = (self.folder / "hook", ROOT)
        kept |= {"PYTHONPATH": os.pathsep.join(map(str, paths)), "RECIPE_FOLDER": str(self.folder)}
        return {**kept, "DO_NOT_TRACK": "1", "NO_COLOR": "1", **more}

    def call(self, *command: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment to its end."""
        done = subprocess.run(
            [str(self.venv / "bin" / command[0]), *command[1:]],
            cwd=self.folder,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert not check or done.returncode == 0, f"{command}: {(done.stdout + done.stderr)[-3000:]}"
        return done

    @contextlib.contextmanager
    def running(self, *command: str, **more: str) -> Iterator[Path]:
        """A server of the environment, until the block ends; yields its log."""
        log = self.folder / f"{command[0]}-{command[1]}.log"
        with log.open("w") as file:
            server = subprocess.Popen(
                [str(self.venv / "bin" / command[0]), *command[1:]],
                cwd=self.folder,
                env=self.environment(**more),
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield log
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(server.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(15)


def until(what: str, ask: Callable[[], Any]) -> Any:
    """What `ask` answers, as soon as that is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(OSError, sqlite3.OperationalError):
            if answer := ask():
                return answer
        time.sleep(0.3)
    raise AssertionError(f"no {what} in {PATIENCE:g} seconds")


def answers(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return bool(answer.status == 200)


@dataclass(frozen=True)
class Told:
    """What an orchestrator says: how often it tried the run that was killed, whether that ended well, and the
    manifest that it shows; the same of a run that the budget has no room for; and its own log of the tasks.
    """

    tries: int
    ended_well: bool
    manifest: dict[str, Any] | None
    refused_tries: int
    refused: bool
    log: str


def airflow(place: Place) -> Told:
    """A scheduler with a LocalExecutor and an API server; the scheduler retries."""
    port = str(free_port())
    settings = {
        "AIRFLOW_HOME": str(place.folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(place.folder / "recipe"),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "1",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__API_AUTH__JWT_SECRET": os.urandom(32).hex(),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    place.call("airflow", "db", "migrate", **settings)
    place.call("airflow", "dags", "reserialize", **settings)
    place.call("airflow", "dags", "unpause", "release_adult", "-y", **settings)

    def ask(query: str) -> list[Any]:
        with contextlib.closing(sqlite3.connect(place.folder / "airflow.db", timeout=5)) as db:
            return db.execute(query).fetchall()

    def ended(run: str) -> tuple[int, str]:
        place.call("airflow", "dags", "trigger", "release_adult", "--run-id", run, **settings)
        over = f"SELECT state FROM dag_run WHERE run_id = '{run}' AND state IN ('success', 'failed')"
        (state,) = until(f"end of run {run}", lambda: ask(over))[0]
        return ask(f"SELECT try_number FROM task_instance WHERE run_id = '{run}'")[0][0], state

    server = ("api-server", "--host", "127.0.0.1", "--port", port, "--workers", "1")
    with place.running("airflow", *server, **settings):
        until("server", lambda: answers(f"http://127.0.0.1:{port}/api/v2/version"))
        with place.running("airflow", "scheduler", "--skip-serve-logs", **settings):
            tries, state = ended("monday")
            shown = ask("SELECT extra FROM asset_event")
            refused_tries, refused = ended("tuesday")
    manifest = json.loads(shown[0][0])["manifest"] if shown else None
    log = "".join(path.read_text() for path in sorted((place.folder / "logs").rglob("attempt=*.log")))
    return Told(tries, state == "success", manifest, refused_tries, refused == "failed", log)


DAGSTER = """
import json, dagster
instance = dagster.DagsterInstance.get()
found = instance.get_latest_materialization_event(dagster.AssetKey("synthetic")).asset_materialization
tries, passed = [], []
for run in reversed(instance.get_runs()):
    events = [one.dagster_event for one in instance.all_logs(run.run_id) if one.is_dagster_event]
    tries.append(1 + sum(one.event_type_value == "STEP_UP_FOR_RETRY" for one in events))
    checks = [one for one in events if one.event_type_value == "ASSET_CHECK_EVALUATION"]
    passed.append(run.is_success and all(one.event_specific_data.passed for one in checks) and bool(checks))
print(json.dumps({"manifest": found.metadata["manifest"].value, "tries": tries, "passed": passed}))
"""


def dagster(place: Place) -> Told:
    """Its command, whose executor starts a process for every step and retries it."""
    (place.folder / "home").mkdir()
    logs = {"managed_python_loggers": ["factored_mwem"], "python_log_level": "INFO"}
    configured = {"telemetry": {"enabled": False}, "python_logs": logs}
    (place.folder / "home" / "dagster.yaml").write_text(json.dumps(configured))
    settings = {"DAGSTER_HOME": str(place.folder / "home")}
    done = []
    for day in ("2026-01-05", "2026-01-06"):
        asked = ("--select", "synthetic", "--partition", day, "-f", "recipe/dagster_release.py")
        done.append(place.call("dagster", "asset", "materialize", *asked, check=False, **settings))
    found = json.loads(place.call("python", "-c", DAGSTER, **settings).stdout)
    (tries, refused_tries), (passed, not_refused) = found["tries"], found["passed"]
    log = done[0].stdout + done[0].stderr
    return Told(tries, passed, found["manifest"], refused_tries, not not_refused, log)


def prefect(place: Place) -> Told:
    """A server, and a runner that serves the flow: it reports the crash, and takes the run up again when the
    same flow run is retried. The error after that is retried by the task itself.
    """
    port = str(free_port())
    api = f"http://127.0.0.1:{port}/api"
    settings = {"PREFECT_HOME": str(place.folder / "home"), "PREFECT_API_URL": api}
    settings |= {"PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    settings |= {"PREFECT_LOGGING_EXTRA_LOGGERS": "factored_mwem", "PREFECT_LOGGING_ROOT_LEVEL": "INFO"}

    def ask(path: str, given: dict[str, Any]) -> list[Any]:
        asked = urllib.request.Request(
            f"{api}/{path}/filter", json.dumps(given).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return json.load(answer)

    def run(states: tuple[str, ...], *, newest: int) -> dict[str, Any] | None:
        runs = sorted(ask("flow_runs", {}), key=lambda one: one["created"])
        return runs[newest] if len(runs) > newest and runs[newest]["state"]["type"] in states else None

    def tries_in(said: str) -> int:
        return said.count(" - Beginning flow run ") + len(re.findall(r" - Retry \d/\d will start", said))

    ends = ("COMPLETED", "FAILED")
    server = ("server", "start", "--host", "127.0.0.1", "--port", port, "--no-services", "--no-ui")
    flow = ("flow", "serve", "recipe/prefect_release.py:synthetic", "--name", "nightly")
    with place.running("prefect", *server, **settings):
        until("server", lambda: answers(f"{api}/health"))
        with place.running("prefect", *flow, **settings) as log:
            until("flow", lambda: "is being served" in log.read_text())
            place.call("prefect", "deployment", "run", "synthetic/nightly", **settings)
            crashed = until("crash", lambda: run(("CRASHED", *ends), newest=0))
            place.call("prefect", "flow-run", "retry", crashed["id"], **settings)
            done = until("end of the run", lambda: run(ends, newest=0))
            before = log.read_text()
            place.call("prefect", "deployment", "run", "synthetic/nightly", **settings)
            refused = until("end of the second run", lambda: run(ends, newest=1))
    tries, refused_tries = tries_in(before), tries_in(log.read_text()[len(before) :])
    well, badly = done["state"]["type"] == ends[0], refused["state"]["type"] == ends[1]
    return Told(tries, well, None, refused_tries, badly, before)


def dbt(place: Place) -> Told:
    """Its command, killed as a whole and called again with the same run id: dbt itself never retries."""
    (place.folder / "dbt_project.yml").write_text("name: trial\nprofile: trial\nmodel-paths: [recipe]\n")
    duck = {"type": "duckdb", "path": "warehouse.duckdb"}
    (place.folder / "profiles.yml").write_text(
        json.dumps({"trial": {"target": "dev", "outputs": {"dev": duck}}})
    )

    def dbt_run(run_id: str) -> subprocess.CompletedProcess[str]:
        flags = ("--vars", json.dumps({"run_id": run_id}), "--profiles-dir", ".")
        return place.call("dbt", "run", *flags, check=False, DBT_SEND_ANONYMOUS_USAGE_STATS="false")

    done = [dbt_run("monday")]
    while done[-1].returncode in (1, -signal.SIGKILL) and len(done) < 5:
        said = done[-1].stdout
        if done[-1].returncode == 1 and "(run it again)" not in said:
            break
        done.append(dbt_run("monday"))
    refused = dbt_run("tuesday")
    asked = "(run it again)" in refused.stdout
    return Told(len(done), done[-1].returncode == 0, None, 2 if asked else 1, refused.returncode == 1, "")


ORCHESTRATORS = {"airflow": airflow, "dagster": dagster, "dbt": dbt, "prefect": prefect}
PACKAGES = {"airflow": "apache-airflow", "dagster": "dagster", "dbt": "dbt-core", "prefect": "prefect"}
