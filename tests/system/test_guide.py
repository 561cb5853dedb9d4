"""The examples of the README and of the guide run as they stand: a broken one is what a user meets first."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
from support.forked import environment, scripted

from factored_mwem.cli.main import main
from factored_mwem.documents.guide import TOPICS, page

Done = subprocess.CompletedProcess[str]
ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "factored_mwem" / "guide"
PAGES = {"README": ROOT / "README.md", **{topic: GUIDE / f"{topic}.md" for topic in TOPICS}}
LINKING = {**PAGES, "CONTRIBUTING": ROOT / ".github" / "CONTRIBUTING.md"}
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELL = ("sh", "bash")
TAGS = {*SHELL, "python", "sh tests", "text"}
"""What a block may be: `sh tests` is the command that runs this, `text` a picture, or what needs a server.
All else is run.
"""
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
SCRIPT = re.compile(r"`python (scripts/\w+)([^`]*)`")
MADE = {
    "README": "adult.synthetic.parquet adult.synthetic.manifest.json half.fmwem more.parquet "
    "draft.domain.json monday.parquet piped/part-00000.parquet adult.toml adult.synthetic.fmwem "
    "clinic/visits.parquet",
    "people": "visits.synthetic.parquet thousand.csv",
    "order": "ordered.parquet",
    "tables": "datapackage.json clinic/visits.parquet clinic/manifest.json more/drugs.parquet "
    "two/visits.parquet",
    "domain": "visits.synthetic.parquet domain.schema.json",
    "draft": "draft.json reviewed.json reviewed.parquet",
    "rules": "staff.synthetic.parquet",
    "learning": "people.synthetic.parquet people.domain.json",
    "workloads": "answers.parquet workload.schema.json paper.parquet",
    "certificate": "certified.parquet",
    "answers": "adult.fmwem",
    "questions": "adult.fmwem",
    "condition": "adult.fmwem old.parquet half.parquet known.csv completed.csv known.parquet",
    "graph": "club.csv club.manifest.json club.pairs.parquet asked.answers.csv",
    "ask": "adult.fmwem better.fmwem questions.txt",
    "sketch": "country.sketch countries.sketch queries.jsonl",
    "report": "adult.report.html again.html from_memory.html adult.NOT-PRIVATE.html adult.lawyer.html "
    "adult.evidence/SHA256SUMS",
    "attack": "adult.attack.NOT-PRIVATE.jsonl datapackage.attack.NOT-PRIVATE.jsonl",
    "ledger": "monday.parquet books.json",
    "inputs": "people.synthetic.parquet again.parquet shop.synthetic.parquet",
    "how-it-works": "half.fmwem more.parquet",
    "accuracy": "one.parquet",
    "reach": "lazy.parquet relation.parquet piped.parquet",
    "spark": "adult.parquet drawn/_SUCCESS",
    "jobs": "2026-11-22.parquet tuesday.parquet task-monday.parquet task-wednesday.manifest.json",
    "card": "adult_deployment.yaml adult.croissant.json datapackage.json adult.odcs.yaml",
    "python": "adult.fmwem duckdb.feather small.parquet",
}
"""What the examples of a page must leave behind."""
SAID = {
    "ledger": ["refused: 3", '"reused": true'],
    "draft": ["refused: 2"],
    "card": ["asked: 2", "adult_deployment.yaml"],
    "answers": ["95% intervals", "measured:"],
    "questions": ["mean hours-per-week by sex", "top 3 education"],
    "ask": ['"source": "measured"', '"bound"'],
    "sketch": ["Atlantis: ", "296,143,915 rows, 49 coefficients"],
    "guarantee": ["54.4 %", "73.2 %"],
}
"""What they must print."""
SHORT_LIVED = "spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC\n"
"""A Java machine that soon ends does not repay its best compiler: half of its CPU time."""
RUNNER = """
import json, subprocess, sys
names = {"__name__": "__main__"}
for shell, body in json.load(sys.stdin):
    sys.stderr.write(f"--- {body}")
    sys.stderr.flush()
    if shell:
        subprocess.run(["bash", "-euo", "pipefail", "-c", body], check=True)
    else:
        exec(compile(body, "<block>", "exec"), names)
"""
"""Runs blocks in order. The python blocks of a page share their names, as the cells of a notebook do."""


def blocks(text: str) -> list[tuple[str, str]]:
    """(tag, body) of all blocks of a page."""
    return BLOCK.findall(text)


def prose(text: str) -> str:
    """A page without its blocks."""
    return BLOCK.sub("", text)


def text_of(name: str) -> str:
    return LINKING[name].read_text(encoding="utf-8")


def run(command: list[str], folder: Path, *programs: Path, given: str = "") -> Done:
    return subprocess.run(
        command, cwd=folder, env=environment(*programs), input=given, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip


def run_blocks(text: str, folder: Path, forked: Path) -> Done:
    """The blocks of a page in a folder that has the bundled tables; nothing is installed."""
    if not (folder / "datasets").exists():
        shutil.copytree(ROOT / "datasets", folder / "datasets")
    kept = [(tag in SHELL, _without_pip(body)) for tag, body in blocks(text) if tag in (*SHELL, "python")]
    return run([str(forked / "python-c"), RUNNER], folder, forked, given=json.dumps(kept))


def _without_pip(body: str) -> str:
    return "".join(line for line in body.splitlines(True) if not line.startswith("python -m pip"))


@pytest.mark.parametrize("name", list(PAGES))
def test_every_block_of_a_page_runs(
    name: str, tmp_path: Path, forked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "spark":
        pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
        (tmp_path / "spark-defaults.conf").write_text(SHORT_LIVED)
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    text = text_of(name)
    done = run_blocks(text, tmp_path, forked)
    assert done.returncode == 0, done.stderr[-4000:]
    for made in MADE.get(name, "").split():
        assert made.endswith("_SUCCESS") or (tmp_path / made).stat().st_size, made
        assert (tmp_path / made).exists(), made
    for said in SAID.get(name, []):
        assert said in done.stdout


def test_the_readme_has_its_commands() -> None:
    commands = [line for tag, body in blocks(text_of("README")) if tag == "sh" for line in body.splitlines()]
    assert commands[:2] == ["python -m pip install .", "fmwem release datasets/adult.csv --marginals 3"]
    assert len(commands) >= 8
    assert ("sh tests", "python -m pip install '.[test]'\npython -m pytest\n") in blocks(text_of("README"))
    assert any(tag == "python" for tag, _ in blocks(text_of("README")))


@pytest.mark.parametrize("name", list(LINKING))
def test_no_block_is_left_out(name: str) -> None:
    """Every fence opens or closes a block of a known kind: one of another kind would not be run."""
    text = text_of(name)
    assert {tag for tag, _ in blocks(text)} <= TAGS
    assert "```" not in prose(text)


@pytest.mark.parametrize(
    ("was", "is_now"), [("Workload.marginals", "Workload.marginal"), ("fmwem check", "fmwem chek")]
)
def test_a_broken_block_would_be_seen(was: str, is_now: str, tmp_path: Path, forked: Path) -> None:
    tagged = [(tag, body) for tag, body in blocks(text_of("README")) if was in body]
    assert tagged
    tag, body = tagged[0]
    broken = f"```{tag}\n{body.replace(was, is_now)}```\n"
    assert run_blocks(broken, tmp_path, forked).returncode != 0


def test_a_failing_line_before_the_last_would_be_seen(tmp_path: Path, forked: Path) -> None:
    assert run_blocks("```sh\nfalse\ntrue\n```\n", tmp_path, forked).returncode != 0


@cache
def help_of(command: tuple[str, ...], flag: str = "--help") -> str:
    """All that a command of `fmwem` says of itself, in this process: there are fifty of them."""
    page = io.StringIO()
    plain = {"COLUMNS": "200", "NO_COLOR": "1"}
    argv = mock.patch.object(sys, "argv", ["fmwem", *command, flag])
    environment, printed = mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(page)
    with argv, environment, printed, pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    text = page.getvalue()
    return help_of(command, "--help-all") if flag == "--help" and "--help-all" in text else text


def commands(above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """All commands of `fmwem`, with those inside groups."""
    page = help_of(above)
    listed = page.partition("Options:")[2] if "COMMAND [ARGS]..." in page else ""  # panels of commands follow
    names = re.findall(r"^  ([a-z][\w-]*)\s{2,}\S", listed, re.MULTILINE)
    return [found for name in names for found in ((*above, name), *commands((*above, name)))]


def flags_of(command: tuple[str, ...]) -> set[str]:
    return set(FLAG.findall(help_of(command)))


def test_every_flag_named_in_a_page_exists() -> None:
    assert {("release",), ("ledger", "init")} <= set(commands())
    known = {"--help"}.union(*(flags_of(command) for command in commands()))
    for name in LINKING:
        text = SCRIPT.sub("", prose(text_of(name)))
        unknown = set(FLAG.findall(text)) - known
        assert not unknown, f"{name}: {unknown}"


def test_every_command_named_in_a_page_exists() -> None:
    known = {" ".join(command) for command in commands()} | {"guide"}
    for name in LINKING:
        for named in re.findall(r"`fmwem ((?:ledger |domain |workload )?[a-z]+)", prose(text_of(name))):
            assert named in known, f"{name}: fmwem {named}"


def test_the_table_of_options_is_whole() -> None:
    """Every flag of the table is one that `fmwem release --help-all` lists, and the other way round."""
    table = text_of("python").partition("## Every option")[2].partition("Every flag that sets")[0]
    assert set(FLAG.findall(table)) == flags_of(("release",)) - {"--help", "--help-all"}


@pytest.mark.parametrize("name", list(LINKING))
def test_every_link_resolves(name: str) -> None:
    links = [link for link in LINK.findall(prose(text_of(name))) if not link.startswith(("http:", "https:"))]
    for link in links:
        assert (LINKING[name].parent / link).exists(), link
    if name in TOPICS:
        assert {(LINKING[name].parent / link).resolve().parent for link in links} <= {GUIDE}


def test_the_readme_names_every_topic() -> None:
    text = text_of("README")
    for topic, about in TOPICS.items():
        assert f"| [{topic}](factored_mwem/guide/{topic}.md) | {about} |" in text


def test_topics_and_files_agree() -> None:
    assert set(TOPICS) == {path.stem for path in GUIDE.glob("*.md")}
    for topic in TOPICS:
        assert page(topic) == text_of(topic)
        assert page(topic).startswith("# ") and len(page(topic).splitlines()) <= 130, topic


def test_scripts_named_in_a_page_exist(forked: Path) -> None:
    """Where there is a checkout: `python scripts/NAME`, and the flags that a page gives it."""
    named = [(script, flags) for name in LINKING for script, flags in SCRIPT.findall(text_of(name))]
    assert named
    for script in dict(named):
        assert (ROOT / script / "__main__.py").exists(), script
    wanted: dict[tuple[str, ...], set[str]] = {}
    for script, rest in named:
        words = rest.split()
        part = words[:1] if words and not words[0].startswith("-") and script == "scripts/bench" else []
        wanted.setdefault((script, *part), set()).update(FLAG.findall(rest))
    for command, flags in wanted.items():
        if flags:
            told = run(scripted(*command, "--help"), ROOT, forked)
            assert flags <= set(FLAG.findall(told.stdout)), command


def test_the_replay_that_a_page_names_runs(tmp_path: Path) -> None:
    """The shortest of them, in a copy of what it expects around it."""
    named = [f"{script}{rest}" for script, rest in SCRIPT.findall(text_of("papers")) if " table1 " in rest]
    assert len(named) == 1
    for name in ("datasets", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    done = run([sys.executable, *named[0].split()], tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert (tmp_path / "results" / "index.html").stat().st_size > 0
