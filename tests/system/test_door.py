"""The door by whole commands: names on a terminal, drafts, and how text is read."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from factored_mwem import (
    evaluate,
    release,
)
from factored_mwem.errors import InputError

NAMES = ["speed [/h]", "[red]", "[/]", ":smile:", "a\x1b[31mb", "{0}", "%s", "\\[x]"]


@pytest.mark.parametrize("flags", [["-v"], []], ids=["verbose", "bar"])
def test_names_are_text_on_a_terminal(tmp_path: Path, flags: list[str]) -> None:
    """`speed [/h]` was taken for markup: with -v the run failed after spending, on a terminal after the files
    were written.
    """
    frame = pd.DataFrame({name: np.arange(60) % 3 for name in NAMES})
    frame.to_csv(tmp_path / "t.csv", index=False)
    fields = [
        {"name": n, "type": "integer", "constraints": {"minimum": 0, "maximum": 2, "required": True}}
        for n in NAMES
    ]
    (tmp_path / "t.domain.json").write_text(json.dumps({"fields": fields}))
    shown, ours = pty.openpty()  # a terminal, as wide as it likes
    command = ["fmwem", "release", "t.csv", "--marginals", "2", "--engine", "mwem", "--rounds", "3", *flags]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        stderr=ours,
        stdout=subprocess.PIPE,
        check=False,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(ours)
    text = b""
    while True:
        try:
            part = os.read(shown, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(shown)
    assert ended.returncode == 0, text
    assert (
        (tmp_path / "t.synthetic.parquet").exists() and b"Traceback" not in text and b"\x1b[31m" not in text
    )
    if flags:
        assert b"round 1: measured" in text


def test_a_draft_is_refused_until_a_person_has_looked(tmp_path: Path) -> None:
    """`fmwem domain draft X.csv > X.domain.json` was found beside the table, and the manifest called it
    declared.
    """
    (tmp_path / "t.csv").write_text("a,b\nx,1\ny,2\n")
    found = subprocess.run(
        ["fmwem", "domain", "draft", "t.csv"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (tmp_path / "t.domain.json").write_text(found.stdout)
    assert json.loads(found.stdout)["draft"] is True and '"draft": true' in found.stderr
    for command in ("release", "check"):
        refused = subprocess.run(
            ["fmwem", command, "t.csv", "--marginals", "2"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (
            refused.returncode == 2
            and "t.domain.json is a draft that was read off the data" in refused.stderr
        )
        assert 'remove its line "draft": true' in refused.stderr and "budget was spent" not in refused.stderr
    (tmp_path / "t.domain.json").write_text(found.stdout.replace(' "draft": true,\n', ""))
    assert (
        subprocess.run(
            ["fmwem", "release", "t.csv", "--marginals", "2", "-q"],
            cwd=tmp_path,
            check=False,
            capture_output=True,
        ).returncode
        == 0
    )


def test_reading_flags_are_for_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--lines says how the lines of a text file are read"):
        release(pa.table({"a": ["x"]}), 1, epsilon=1.0, records="lines")
    (tmp_path / "t.csv").write_text('a,b\n"x\ny",1\n')
    (tmp_path / "t.domain.json").write_text('{"a": 2, "b": 2}')
    both = subprocess.run(
        ["fmwem", "release", "t.csv", "--marginals", "1", "--lines", "--multiline"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert both.returncode == 2 and "give one of them" in both.stderr
    for flags, code in (([], 2), (["--lines"], 0), (["--multiline"], 0)):
        ended = subprocess.run(
            ["fmwem", "release", "t.csv", "--marginals", "1", "--overwrite", *flags],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        if not code:
            assert (
                json.loads((tmp_path / "t.synthetic.manifest.json").read_text())["policy"]["records"]
                == flags[0][2:]
            )


def test_reading_flags_of_evaluate_and_files(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text('a\n"x\ny"\nz\n')
    pq.write_table(pa.table({"a": ["x\ny", "z"]}), tmp_path / "t.parquet")
    assert evaluate(tmp_path / "r.csv", tmp_path / "t.parquet", 1, records="multiline").by_order[1][0] == 0
    assert evaluate(tmp_path / "t.parquet", tmp_path / "r.csv", 1, records="multiline").by_order[1][0] == 0
    with pytest.raises(InputError, match="leave it out with typed tables"):
        evaluate(tmp_path / "t.parquet", tmp_path / "t.parquet", 1, records="lines")
    (tmp_path / "r.domain.json").write_text('{"a": 2}')
    (tmp_path / "c.toml").write_text('records = "multiline"\nmarginals = 1\n')
    for flags, kind in (([], "multiline"), (["--lines"], "lines")):  # a flag wins over a file
        command = ["fmwem", "release", "r.csv", "--config", "c.toml", "--overwrite", "-q", *flags]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        assert json.loads((tmp_path / "r.synthetic.manifest.json").read_text())["policy"]["records"] == kind
