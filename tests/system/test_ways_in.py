"""Recipes that need no orchestrator: make, GitHub Actions, R, the container; each as a stranger runs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml
from support.forked import environment
from support.processes import ended

from factored_mwem import LedgerFile
from factored_mwem.kernels import warmup

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "scripts" / "recipes"
COLUMNS = ["age", "sex", "income"]
"""Of the bundled table: three are quick."""


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(forked: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in a folder, with more variables."""
    for name in [name for name in os.environ if name.startswith(("FMWEM_", "MAKE"))]:
        monkeypatch.delenv(name)

    def run(folder: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        return ended(*command, cwd=folder, env=environment(forked, **more), timeout=300)

    return run


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    """A folder with people.csv, its domain, and a ledger with room for it."""
    pd.read_csv(ROOT / "datasets" / "adult.csv")[COLUMNS].to_csv(tmp_path / "people.csv", index=False)
    domain = json.loads((ROOT / "datasets" / "adult.domain.json").read_text(encoding="utf-8"))
    domain["fields"] = [each for each in domain["fields"] if each["name"] in COLUMNS]
    (tmp_path / "people.domain.json").write_text(json.dumps(domain), encoding="utf-8")
    for words in ("init budget.ledger", "add budget.ledger --dataset people --epsilon 3"):
        assert run(tmp_path, "fmwem", "ledger", *words.split()).returncode == 0
    return tmp_path


def releases(folder: Path) -> list[tuple[str | None, str]]:
    return [(entry.run_id, entry.state) for entry in LedgerFile(folder / "budget.ledger").entries("people")]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_make_pays_once_for_a_table_and_refuses_another_under_its_name(folder: Path, run: Run) -> None:
    make = ("make", "-f", str(RECIPES / "Makefile"), "people.report.html", "EPSILON=0.5")
    first = run(folder, *make)
    assert first.returncode == 0, first.stderr
    assert (folder / "people.report.html").stat().st_size and releases(folder) == [("people-1", "finished")]
    assert "up to date" in run(folder, *make).stdout
    os.utime(folder / "people.csv")
    touched = run(folder, *make)
    assert touched.returncode == 0 and '"reused": true' in touched.stdout and len(releases(folder)) == 1
    assert "up to date" in run(folder, *make).stdout
    with (folder / "people.csv").open("a") as table:
        table.write((folder / "people.csv").read_text().splitlines()[1] + "\n")
    changed = run(folder, *make)
    assert changed.returncode != 0 and "begun with other data" in changed.stderr
    assert releases(folder) == [("people-1", "finished")]


def test_the_action_that_is_run_again_pays_once_and_uploads_what_is_public(folder: Path, run: Run) -> None:
    job = yaml.safe_load((RECIPES / "github_release.yml").read_text(encoding="utf-8"))["jobs"]["release"]
    command, upload = job["steps"]
    given = {name: value.replace("${{ github.run_id }}", "7") for name, value in job["env"].items()}
    for reused in (False, True):  # run again, it has the same number
        done = run(folder, "bash", "-eo", "pipefail", "-c", command["run"], **given | {"TABLES": str(folder)})
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout).get("reused", False) is reused
    assert releases(folder) == [("week-7", "finished")]
    paths = upload["with"]["path"].replace("${{ github.run_id }}", "7").split()
    kept = {given["TABLES"] + "/" + path.name for path in folder.glob("week-7.*")}
    assert set(paths) == kept


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="there is no R here")
def test_r_reads_releases_answers_and_samples_as_data_frames(folder: Path, run: Run) -> None:
    if run(folder, "Rscript", "-e", "library(jsonlite)").returncode:
        pytest.skip("R has no jsonlite here")
    script = f"""
        source("{RECIPES / "fmwem.R"}")
        people <- read.csv("people.csv")
        people$zip <- sprintf("%05d", people$age %% 4)
        zips <- list(name = "zip", categories = as.list(sprintf("%05d", 0:3)),
                     constraints = list(required = TRUE))
        domain <- jsonlite::fromJSON("people.domain.json", simplifyVector = FALSE)
        domain$fields <- c(domain$fields, list(zips))
        writeLines(jsonlite::toJSON(domain, auto_unbox = TRUE, null = "null", digits = NA), "with.json")
        made <- fmwem_release(people, "made.csv", marginals = 2, epsilon = 1.5, domain = "with.json",
                              certificate = 0.05)
        stopifnot(names(made$rows) == names(people), is.character(made$rows$zip), nchar(made$rows$zip) == 5,
                  is.integer(made$rows$age), made$spent_epsilon <= 1.5)
        stopifnot(nrow(fmwem_sample(made$model, 100000)) == 1e5)
        told <- fmwem_answer(made$model, "count by sex", "median age")
        stopifnot(names(told) == c("count by sex", "median age"), told[[1]]$sex == c("Female", "Male"),
                  told[[1]]$low < told[[1]]$high, abs(sum(told[[1]]$estimate) - nrow(people)) < 1000)
        failed <- tryCatch(fmwem_release("none.csv", "x.csv"), error = conditionMessage)
        cat(failed, length(list.files(tempdir())))
    """
    done = run(folder, "Rscript", "-e", script)
    assert done.returncode == 0, done.stderr
    # of what R kept for the command only the sample is left, which is public
    assert done.stdout.endswith(
        "fmwem ended with 2: no file none.csv (change what the message names, then run again) 1"
    )


def test_the_containers_command_takes_kernels_where_it_may_write(tmp_path: Path, run: Run) -> None:
    """The workflow builds and runs the whole container; this needs no daemon."""
    text = (RECIPES / "Dockerfile").read_text(encoding="utf-8")
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "kept.nbi").write_bytes(b"index")
    entry = json.loads(re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[0])
    entry[2] = entry[2].replace("/opt/kernels", str(tmp_path / "kernels"))
    done = run(tmp_path, *entry, "--version", NUMBA_CACHE_DIR=str(tmp_path / "tmp"))
    assert done.returncode == 0 and (tmp_path / "tmp" / "kept.nbi").exists(), done.stderr
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        for name in line.split()[:-1]
    ]
    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "LICENSE", "README.md", "factored_mwem"} == set(copied)
    assert "warmup.warm_up()" in text and callable(warmup.warm_up)
    assert re.findall(r"^USER (\d+)$", text, re.MULTILINE) == ["10001"]
