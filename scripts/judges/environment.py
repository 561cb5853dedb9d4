"""One virtual environment per judge or peer: made once, asked through a subprocess.

A judge never shares an environment with another or with us, because each pins libraries of its own. What an
environment runs is a file in `runners/`, which gets the path of a task (JSON) and prints one JSON object as
its last line.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from factored_mwem import FmwemError, evaluate
from judges import values
from judges.runners import frames

RUNNERS = Path(__file__).parent / "runners"
MADE = "judges.json"
"""Written into an environment when it is complete; names what was installed."""


class NotRun(Exception):
    """Why a judge or a peer has no figure."""


@dataclass(frozen=True)
class Environment:
    """What is installed for a judge or a peer, and what runs in it."""

    name: str
    packages: tuple[str, ...]
    runner: Path
    figures: dict[str, str]
    """Key of its answer -> heading of the column; none for a peer, whose answer is rows."""
    of_codec: Literal["rows", "training"] | None = None
    """Which file of rows that were only encoded and decoded it judges: other rows than those they are set
    beside, for what learns to tell rows apart would find the pairs; or the same, without their luck; or none.
    """

    parts: tuple[str, ...] = ()
    """Further keys of its answer, which go to the file alone."""

    def python(self, folder: Path) -> Path:
        inside = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
        return (folder / self.name).joinpath(*inside)

    def make(self, folder: Path, base: str = sys.executable) -> None:
        """Make the environment in `folder` with the Python `base`, unless it is there; NotRun where that
        fails.
        """
        home, wanted = folder / self.name, {"packages": list(self.packages)}
        if (home / MADE).is_file() and json.loads((home / MADE).read_text(encoding="utf-8")) == wanted:
            return
        if home.exists() and not (home / "pyvenv.cfg").is_file():
            raise NotRun(f"{home} is in the way: no virtual environment")
        shutil.rmtree(home, ignore_errors=True)
        home.parent.mkdir(parents=True, exist_ok=True)
        _call(base, "-m", "venv", *(() if self.packages else ("--without-pip",)), home)
        if self.packages:
            pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            _call(self.python(folder), *pip, *self.packages)
        (home / MADE).write_text(json.dumps(wanted), encoding="utf-8")

    def ask(self, folder: Path, task: Path, limit: float) -> dict[str, Any]:
        """The runner's answer; NotRun where it fails, says something else, or takes over `limit` seconds."""
        found = _answer(self.python(folder), self.runner, task, limit=limit)
        if not set(self.figures) <= set(found):
            raise NotRun(f"figures missing in its answer: {found}")
        return found


class Marginals(Environment):
    """`factored_mwem.evaluate`, which runs here: L1 distances of marginals, 0 to 2, over bins that the real
    rows alone decide, and of single columns on exact values, where these repeat.
    """

    def make(self, folder: Path, base: str = sys.executable) -> None:
        """Nothing is installed for it."""

    def ask(self, folder: Path, task: Path, limit: float) -> dict[str, Any]:
        about = json.loads(task.read_text(encoding="utf-8"))
        sides = (frames.read(about[role], about["missing"]) for role in ("real", "rows"))
        try:
            errors = evaluate(*(side.mask(side == "", None) for side in sides), min(3, len(about["kinds"])))
        except FmwemError as why:
            raise NotRun(str(why)) from None
        exact = [column.distance for column in errors.columns if column.distance is not None]
        means = {f"e{k}": mean for k, (mean, _) in errors.by_order.items()}
        return {**means, "exact": sum(exact) / len(exact) if exact else None}


class Values(Marginals):
    """`judges.values`, which runs here: values nobody has, means, functions between columns, types."""

    def ask(self, folder: Path, task: Path, limit: float) -> dict[str, Any]:
        about = json.loads(task.read_text(encoding="utf-8"))
        return values.judge(
            *(frames.read(about[x], about["missing"]) for x in ("real", "rows")), about["kinds"]
        )


def _answer(*command: object, limit: float | None = None) -> dict[str, Any]:
    """The JSON object in the last line that a runner prints."""
    said = _call(*command, limit=limit).strip()
    try:
        return dict(json.loads(said.splitlines()[-1]))
    except (IndexError, TypeError, ValueError):
        raise NotRun(f"its last line is no answer: {said[-150:]!r}") from None


def _call(*command: object, limit: float | None = None) -> str:
    """Standard output of a command that shares no modules with us; NotRun with its last words otherwise."""
    apart = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if name not in apart}
    env |= {"OMP_NUM_THREADS": "1"}  # more of them wait for each other where cores are busy
    told: Any = {"env": env, "stdin": subprocess.DEVNULL, "timeout": limit, "text": True}
    try:
        done = subprocess.run([str(part) for part in command], check=False, capture_output=True, **told)
    except subprocess.TimeoutExpired:
        raise NotRun(f"did not finish within {limit:g} s") from None
    except OSError as error:
        raise NotRun(str(error)) from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip() and "WARNING" not in line]
        raise NotRun((lines or [f"exit code {done.returncode}"])[-1].strip()[:200])
    return done.stdout


SCIKIT = ("scikit-learn==1.9.1", "numpy==2.4.6", "pandas==2.3.3", "scipy==1.17.1")
TORCH = ("torch==2.13.0", "numpy==1.26.4", "pandas==2.1.0", "scikit-learn==1.5.0")
LEARNT = {
    f"{name}_{score.lower()}": f"{name} {score}"
    for name in ("logistic", "boosting")
    for score in ("AUC", "F1")
}
REPORTS = {"quality": "SDMetrics quality", "diagnostic": "SDMetrics diagnostic"}
OF_REPORTS = ("quality: Column Shapes", "quality: Column Pair Trends")
OF_REPORTS += ("diagnostic: Data Validity", "diagnostic: Data Structure")
CENSUS = {"k_marginal": "SDNist k-marginal", "pmse": "SDNist pMSE"}
TWO_SAMPLE = {"two_sample_auc": "two-sample AUC", "two_sample_told": "of told columns"}
SDMETRICS = ("sdmetrics==0.32.0", "copulas==0.14.1", *SCIKIT)
LEARNERS = RUNNERS / "learners.py"
ERRORS = {"e3": "3-way error", "e2": "2-way error", "e1": "1-way error", "exact": "exact 1-way error"}
JUDGES = (
    Marginals("marginals", (), RUNNERS, ERRORS, of_codec="training"),
    Values("values", (), RUNNERS, values.FIGURES, of_codec="training", parts=values.DETAILS),
    Environment("sdmetrics", SDMETRICS, RUNNERS / "quality.py", REPORTS, parts=OF_REPORTS),
    # its wheel pins numpy, pandas and scikit-learn itself
    Environment("sdnist", ("sdnist==2.4",), RUNNERS / "census.py", CENSUS, of_codec="training"),
    Environment("utility", SCIKIT, LEARNERS, LEARNT),
    Environment("twosample", SCIKIT, LEARNERS, TWO_SAMPLE, of_codec="rows"),
)
PEERS = (Environment("mst", ("dpmm==0.1.9", *TORCH), RUNNERS / "marginal_models.py", {}),)
