"""`fmwem ask` as a process: killed while somebody asks, and taken up again."""

from __future__ import annotations

import json
from pathlib import Path

from support.commands import Fmwem, program, states, write_table
from support.processes import line, started


def test_a_session_that_is_killed_goes_on(command_books: Path, fmwem: Fmwem) -> None:
    """kill -9 between two questions: the first answers come again for nothing; the books hold one entry."""
    write_table(Path("t.csv"), 4000)  # so many that the noisy count of them is never too small for alpha
    asking = (
        "ask --table t.csv --columns zip,smoker --alpha 0.2 --epsilon 1 --delta 0 --ledger books "
        "--dataset adult --run-id r -q"
    )
    process = started(*program(asking), stderr=None)
    assert process.stdin is not None
    first = []
    for question in ("count by zip", "count where smoker = true"):
        process.stdin.write(question + "\n")
        process.stdin.flush()
        first.append(json.loads(line(process)))
    process.kill()
    process.communicate()
    assert states(fmwem) == ["reserved"]
    later = ["count where smoker = true", "count by zip", "count by smoker, zip"]
    Path("q.txt").write_text("\n".join(later), encoding="utf-8")
    again = fmwem(asking, "--queries", "q.txt")
    assert again.code == 0, again.err
    told = [json.loads(each) for each in again.out.splitlines()]
    assert [each["groups"] for each in told[:2]] == [each["groups"] for each in reversed(first)]
    assert [each["source"] for each in told[:2]] == ["cached", "cached"]
    assert told[0]["spent"] == first[1]["spent"]
    assert states(fmwem) == ["finished"]
