"""The log of a job: what its operator wants to find there, and nothing that noise does not hide.

That no private value shows in it, tests/pipeline/test_leaks.py asks of every command, at DEBUG.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise
from support.runs import DOMAIN, table

from factored_mwem import Cap, LedgerFile, Neighbours, learn, release
from factored_mwem.errors import BudgetExceeded, InputError
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.mechanisms import mwem
from factored_mwem.pipeline.release import make, spending_of
from factored_mwem.request.request import Request
from factored_mwem.tables.codes import codec


def lines(log: pytest.LogCaptureFixture, level: int = logging.DEBUG) -> list[str]:
    return [r.getMessage() for r in log.records if r.name == "factored_mwem" and r.levelno >= level]


def test_the_log_of_a_job_that_dies_and_goes_on(books: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="factored_mwem")
    choices: dict[str, Any] = {"domain": DOMAIN, "engine": "mwem", "rounds": 4, "rows": 50}
    facts: dict[str, Any] = {"ledger": books, "dataset": "t", "run_id": "r", **choices}

    def fail(*_: Any) -> int:
        raise OSError("gone")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError, match="gone"):
        patch.setattr(mwem, "rounds", fail)
        release(table(), 2, **facts)
    first = lines(caplog)
    assert first[0] == "entered as release 1 of dataset 't' in the ledger"
    assert first[1].startswith("ended early, after noise was paid for: run the same command again")
    caplog.clear()
    made = release(table(), 2, **facts)
    data = books.with_name("o.parquet")
    made.write(data)
    made.save(books.with_name("o.fmwem"))
    spent = made.manifest.guarantee.spent_epsilon
    assert lines(caplog) == [
        "goes on as release 1 of dataset 't', run 'r' (failed): no noise is paid for twice",
        f"resumed: {len(made.manifest.attributes) + 1} draws came from the journal of an earlier attempt",
        f"measured in {made.manifest.rounds} rounds; spent epsilon {spent:.6g} of 1",
        f"wrote {str(data)!r}: 50 rows; then {str(books.with_name('o.manifest.json'))!r}",
        f"wrote {str(books.with_name('o.fmwem'))!r}: the model",
    ]


def test_what_was_learnt_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="factored_mwem")
    people = pa.table({"sex": ["F", "M"] * 2000, "children": [0, 1, 2, 0] * 1000})
    release(people, 2, epsilon=2.0, rows=10)
    learn(people, epsilon=1.0)
    found = [line for line in lines(caplog) if line.startswith("learnt")]
    assert found[0] == "learnt the domain of 2 columns, left out []"
    assert found[1].startswith("learnt the domain of 2 columns, left out []; spent epsilon ")


def test_a_refusal_before_a_charge_tells_nothing(books: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The error says it all, and the books know nothing of it."""
    caplog.set_level(logging.DEBUG, logger="factored_mwem")
    with pytest.raises(BudgetExceeded):
        release(table(), 2, domain=DOMAIN, epsilon=3.0, ledger=books, dataset="t")
    with pytest.raises(InputError):
        release(table(), 2, domain=DOMAIN, epsilon=-1.0)
    assert lines(caplog) == []


def test_a_round_is_a_line_of_its_own_and_names_are_spelt_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="factored_mwem")
    odd = pa.table({name: [0, 1] * 20 for name in ("a\n\x1b[2J", "b", "c")})
    release(odd, 2, domain=dict.fromkeys(odd.column_names, 2), rounds=2, rows=5, engine="mwem")
    rounds = [line for line in lines(caplog) if line.startswith("round ")]
    assert len(rounds) == 2 and rounds[0].startswith("round 1: measured [")
    assert "\n" not in "".join(rounds) and "\x1b" not in "".join(rounds)


# ---- with noise that hides everything, all tables have the same log


def blind() -> FakeNoise:
    """Noise that answers the same whatever it is asked of: epsilon 0."""
    flat = lambda values, _: 9999 - np.arange(len(values))  # noqa: E731
    return FakeNoise(winner=0, offset=flat, kept=["x", "y"])


TABLES = (
    pa.table({"a": ["x", "y"] * 30, "n": [1, 2] * 30, "m": [0.5, None] * 30}),
    pa.table({"a": [f"person {i}" for i in range(500)], "n": range(500), "m": np.arange(500) / 7}),
)
BOUNDED = [{"name": n, "type": t, "edges": [0, 50, 99]} for n, t in (("n", "integer"), ("m", "number"))]
DECLARED = {"domain": {"fields": [{"name": "a", "categories": ["x", "y"]}, *BOUNDED]}}
LEARNT = {"columns": ["n", "m"]}


def heard(source: pa.Table, books: Path, caplog: pytest.LogCaptureFixture, **choices: Any) -> list[str]:
    caplog.clear()
    shutil.rmtree(books.parent, ignore_errors=True)  # with the marks of its releases
    books.parent.mkdir()
    LedgerFile.create(books).add("t", Cap.of(2.0, 1e-6), Neighbours.ADD_REMOVE, 1)
    request = Request.of(source, 2, epsilon=1.0, rows=50, **choices)
    with Run.begin(spending_of(request), Booking(books, "t"), version="1") as run:
        make(request, run, noise=blind()).write(books.with_name("o.parquet"), overwrite=True)
        run.finish()
    return lines(caplog)


@pytest.mark.slow
@pytest.mark.parametrize("domain", [DECLARED, LEARNT], ids=["declared", "learnt"])
@pytest.mark.parametrize("choices", [{"engine": "mwem", "rounds": 2}, {}], ids=["mwem", "tree"])
def test_the_log_follows_from_noisy_answers_alone(
    domain: dict[str, Any],
    choices: dict[str, Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: the coder tells how many rows it was given."""
    caplog.set_level(logging.DEBUG, logger="factored_mwem")
    first, second = (heard(t, tmp_path / "books" / "b", caplog, **domain, **choices) for t in TABLES)
    assert first == second and len(first) >= 3
    for name in ("_listed_codes", "_binned_codes"):
        monkeypatch.setattr(codec, name, telling(getattr(codec, name)))
    first, second = (heard(t, tmp_path / "books" / "b", caplog, **domain, **choices) for t in TABLES)
    assert first != second


def telling(real: Any) -> Any:
    def coded(attribute: Any, column: Any, *rest: Any) -> Any:
        logging.getLogger("factored_mwem").debug("coded %d values", len(column))
        return real(attribute, column, *rest)

    return coded


# ---- a library's manners

QUIET = """
import logging, sys
from factored_mwem import release
import pyarrow as pa
release(pa.table({"a": [0, 1] * 9}), 1, domain={"a": 2}, engine="mwem", rounds=1, rows=3)
loggers = [logging.root, logging.getLogger("factored_mwem")]
assert [(one.handlers, one.level) for one in loggers] == [([], logging.WARNING), ([], logging.NOTSET)]
"""


@pytest.mark.system
def test_nothing_is_printed_and_no_handler_is_set() -> None:
    """Where the caller sets up no logging, there is none."""
    done = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
