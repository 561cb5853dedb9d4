"""The recipes of scripts/recipes under the orchestrators themselves, which try again what was killed: it is
paid for once.

Each trial dies by SIGKILL after its third draw of noise, and its second try meets an error that may be
retried. After that the ledger must hold one release, finished; every draw must have been made once, whoever
made it; and the files must be whole. A second run, which the budget has no room for, must be tried once.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.orchestrators import ORCHESTRATORS, PACKAGES, ROOT, Place, Told

from factored_mwem import LedgerFile
from factored_mwem.accounting.conversion import epsilon_of
from factored_mwem.files.files import sha256
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.record.manifest_check import check_books

RECIPES = ROOT / "scripts" / "recipes"
WAIT = {"airflow": "retry_delay=60", "dagster": "delay=60", "prefect": "retry_delay_seconds=60"}
"""What a recipe waits before it tries again; a test does not."""
RUN_ID = {
    "airflow": '{ti.task_id} {run_id}"',
    "dagster": 'synthetic {context.partition_key}"',
    "prefect": 'publish {flow_run.id}"',
    "dbt": 'synthetic {run_id}"',
}
"""The run id that a recipe is to use."""
SAID = (
    "goes on as release 1 of dataset 'adult'",
    "ended early, after noise was paid for: run the same command again",
    "spent epsilon 0.5 of 0.5",
)
"""Of the job's log, by way of the orchestrator's; what was said just before the kill may be lost."""


DAILY = 'schedule="@daily"'
"""What Airflow runs by itself, too, within some two hours after midnight (UTC): a test triggers its runs."""


def at_once(name: str) -> Callable[[str], str]:
    """The recipe without its wait, and without a schedule."""

    def change(text: str) -> str:
        text = text.replace(DAILY, "schedule=None")
        wait = WAIT.get(name)
        if wait is None or wait not in text:
            return text
        return text.replace(wait, wait.removesuffix("60") + "0")

    return change


def forgetful(name: str) -> Callable[[str], str]:
    """Planted: every try has a run id of its own."""

    def change(text: str) -> str:
        return at_once(name)(text.replace(RUN_ID[name], RUN_ID[name][:-1] + " {__import__('os').getpid()}\""))

    return change


def tried(folder: Path, name: str, change: Callable[[str], str]) -> tuple[Told, dict[str, object]]:
    """What an orchestrator says of a recipe, and the line for the log."""
    if not Path(os.environ.get("RECIPE_VENVS", ""), name, "bin", "python").exists():
        pytest.skip(f"RECIPE_VENVS holds no environment {name!r} with {PACKAGES[name]}")
    place = Place.of(folder, name, epsilon=0.6, change=change)
    asked = f"from importlib.metadata import version as v; print(v('{PACKAGES[name]}'))"
    version = place.call("python", "-c", asked)
    began = time.monotonic()
    told = ORCHESTRATORS[name](place)
    entries = LedgerFile(folder / "budget.ledger").entries("adult")
    spent = epsilon_of(sum((entry.cost.amount for entry in entries), Fraction(0)), Fraction(1, 10**9))
    drawn = Counter((folder / "draws").read_text().split())
    return told, {
        "orchestrator": f"{PACKAGES[name]} {version.stdout.strip()}",
        "killed_at": f"after draw {next(iter(drawn.values()))} of {drawn.total()}",
        "tries": told.tries,
        "releases": len(entries),
        "spent_epsilon": round(spent, 6),
        "seconds": round(time.monotonic() - began),
    }


@pytest.mark.parametrize("name", ORCHESTRATORS)
def test_a_job_that_is_killed_and_tried_again_pays_once(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told, line = tried(tmp_path, name, at_once(name))
    with capsys.disabled():
        print(f"\n{json.dumps(line)}")
    assert (tmp_path / "killed").exists() and (tmp_path / "busy").exists()
    assert (told.tries, told.ended_well) == (3, True)  # killed, stopped by a full disk, done
    (entry,) = LedgerFile(tmp_path / "budget.ledger").entries("adult")
    assert entry.state == "finished"
    (data,) = (path for path in tmp_path.glob("*.parquet"))
    manifest = Manifest.model_validate_json(data.with_suffix(".manifest.json").read_bytes())
    drawn = Counter((tmp_path / "draws").read_text().split())
    assert next(iter(drawn.values())) == 3 and drawn.total() == len(manifest.ledger)
    assert manifest.output is not None and manifest.output.sha256 == sha256(data)
    assert manifest.output.rows == pq.read_metadata(data).num_rows and manifest.recompute() <= 0.5
    assert check_books(tmp_path / "budget.ledger", [data.with_suffix(".manifest.json")])["problems"] == []
    assert told.manifest in (None, json.loads(manifest.model_dump_json()))
    assert not list(tmp_path.glob(".*.tmp"))
    assert name == "dbt" or all(line in told.log for line in SAID)  # dbt shows no log but its own
    assert (told.refused_tries, told.refused) == (1, True)


def test_a_recipe_that_forgets_its_run_would_be_seen(tmp_path: Path) -> None:
    """What died keeps what it had reserved, so that the budget has no room for the next try."""
    told, line = tried(tmp_path, "dbt", forgetful("dbt"))
    assert not told.ended_well and line["tries"] == 2


@pytest.mark.parametrize("name", ORCHESTRATORS)
def test_a_recipe_is_short_and_names_its_run(name: str) -> None:
    """Here, without any orchestrator: short enough to copy, with the words that the trials change."""
    texts = {path.name: path.read_text() for path in RECIPES.glob(f"{name}_release.*")}
    assert sum(text.count("\n") for text in texts.values()) <= 25
    recipe = texts[f"{name}_release.py"]
    compile(recipe, name, "exec")
    assert recipe.count(RUN_ID[name]) == 1 and WAIT.get(name, "") in recipe
    assert forgetful(name)(recipe) != at_once(name)(recipe)
