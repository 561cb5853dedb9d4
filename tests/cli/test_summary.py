"""The closing lines of a release: few, whatever the table, and text that stays text."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from scipy import stats
from support.commands import Fmwem

from factored_mwem import Release
from factored_mwem.cli.console import fates_text
from factored_mwem.cli.jobs import Done
from factored_mwem.cli.summary import attention, details, expectation, promise, summary
from factored_mwem.domain.domain import Domain
from factored_mwem.pipeline.record.manifest import (
    AttributeFacts,
    Certificate,
    CertifiedError,
    Manifest,
    MeasuredMarginal,
    PeopleFacts,
)
from factored_mwem.pipeline.record.statement import Output
from factored_mwem.tables.outputs.release_files import ReleaseFiles
from factored_mwem.tables.outputs.targets import target_of


def stated(made: Release, **changes: Any) -> Manifest:
    """Its manifest as one that was written."""
    return made.manifest.model_copy(update={"output": Output(file="a.parquet", rows=9000), **changes})


def done(manifest: Manifest, model: str | None = "a.fmwem", data: str = "a.parquet", **facts: Any) -> Done:
    files = ReleaseFiles(target_of(data), target_of("a.manifest.json"), target_of(model) if model else None)
    return Done(manifest, files, "none declared", facts, facts.get("reused", False))


def block(lines: list[str], word: str) -> list[str]:
    """The lines behind a word."""
    start = next((i for i, line in enumerate(lines) if line.startswith(word)), None)
    if start is None:
        return []
    rest = lines[start:]
    end = next((i for i, line in enumerate(rest[1:], 1) if not line.startswith(" ")), len(rest))
    return [line[12:] for line in rest[:end]]


def test_a_steward_reads_promise_quality_looks_and_next_steps(here: Path, fmwem: Fmwem) -> None:
    lines = fmwem("release t.csv --marginals 2").err.splitlines()
    words = list(dict.fromkeys(line[:12].strip() for line in lines if line[:1] != " "))
    assert [word for word in words if word != "look at"] == ["released", "promise", "expect", "next", "file"]
    assert len(lines) <= 15 and max(map(len, lines)) <= 100
    for hidden in ("rho", "clique", "rounds", "measurements", "peak memory", "components"):
        assert not any(hidden in line for line in lines)
    report, answer, sample = block(lines, "next")
    assert (
        report == "fmwem report t.synthetic.manifest.json"
        and sample == "fmwem sample t.synthetic.fmwem -n 1000"
    )
    assert re.fullmatch(r"fmwem answer t\.synthetic\.fmwem 'count by \w+'", answer)
    assert block(lines, "file") == ["t.synthetic.parquet", "t.synthetic.manifest.json", "t.synthetic.fmwem"]
    verbose = fmwem("release t.csv --marginals 2 --overwrite -v").err
    assert all(word in verbose for word in ("rho", "independent", "rounds ", "measurements", "peak memory"))


def test_what_an_earlier_release_left_is_named(here: Path, fmwem: Fmwem) -> None:
    """Its answers would be taken for those of the new rows."""
    first = fmwem("release t.csv --marginals 1 --report").err
    assert "earlier release" not in first
    again = fmwem("release t.csv --marginals 1 --no-model --overwrite").err
    assert "t.synthetic.fmwem is of an earlier release" in again
    assert "t.synthetic.report.html is of an earlier release" in again
    whole = fmwem("release t.csv --marginals 1 --report --overwrite").err
    assert "earlier release" not in whole


def test_a_summary_that_fails_ends_no_release(
    here: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are in place and its budget is spent: it has succeeded."""

    def fail(*_: Any) -> list[str]:
        raise ZeroDivisionError

    monkeypatch.setattr("factored_mwem.cli.summary.promise", fail)
    ended = fmwem("release t.csv --marginals 1")
    assert (ended.code, ended.err) == (0, "") and ended.facts["rows"] > 0


def test_what_is_next_is_copied_into_a_shell(made: Release) -> None:
    """Whatever the names are, a shell takes them for the file and nothing else."""
    manifest = stated(made)
    for name in ("a b.fmwem", "it's.fmwem", "$(reboot).fmwem", "-x.fmwem", "a;b.fmwem"):
        found = block(summary(done(manifest, name)), "next")
        report, answer, sample = map(shlex.split, found)
        assert report == ["fmwem", "report", "a.manifest.json"]
        assert answer[:2] == ["fmwem", "answer"] and answer[3] == f"count by {manifest.attributes[0].name}"
        assert sample[:2] == ["fmwem", "sample"] and sample[3:] == ["-n", "1000"]
        assert Path(sample[2]) == Path(answer[2]) == Path(name) and not sample[2].startswith("-")
    alike = manifest.attributes[0].model_copy(update={"name": "id", "codes": 1})  # all became `other`
    with_ids = manifest.model_copy(update={"attributes": (alike, *manifest.attributes)})
    assert block(summary(done(with_ids)), "next")[1].endswith(f"'count by {manifest.attributes[0].name}'")
    assert "no model was kept" in block(summary(done(manifest, None)), "next")[1]
    assert "nothing was spent" in summary(done(manifest, reused=True))[0]


def test_a_table_of_300_columns_is_a_screen(made: Release) -> None:
    names = [f"column {i}" for i in range(300)]
    facts = [
        AttributeFacts(name=n, type="string", codes=9, nullable=True, domain="learnt", kept=1 - i / 400)
        for i, n in enumerate(names)
    ]
    facts = [f.model_copy(update={"other": i / 400, "clipped": 0.0}) for i, f in enumerate(facts)]
    warnings = ("delta is large", *(f"{n!r}: many of the rows became 'other'" for n in names[50:]))
    manifest = stated(
        made,
        attributes=tuple(facts),
        warnings=warnings,
        components=tuple((n,) for n in names),
        measurements=tuple(MeasuredMarginal(attributes=(n,), cells=9, scale=10.0) for n in names),
        workload={"marginals": [2]},
    )
    lines = summary(done(manifest))
    assert len(lines) <= 20 and max(map(len, lines)) <= 100
    look = "\n".join(block(lines, "look at"))
    assert look.splitlines()[0] == "delta is large"
    assert "'column 299'" in look and "'column 298'" in look and "'column 297'" not in look  # the worst
    assert 'and 248 more: "warnings" of a.manifest.json' in look and "column 0, column 1" in look
    assert "alone" not in "\n".join(attention(stated(made, workload={"marginals": [1]}), "m"))
    for word, left in (("off", {"off", "1234", "..."}), ("x" * 300, {"x" * 296, "..."})):
        long = attention(stated(made, warnings=(word + " 1234" * 80,)), "m")[0]
        assert {*long.split()} == left  # seen to fail: "123..."


def test_looks_say_what_helps_and_name_no_attribute_of_the_model_alone(made: Release) -> None:
    facts = [
        AttributeFacts(name=n, type="string", codes=9, nullable=True, domain="learnt")
        for n in ("ward", "drug", "rows_of_person", "previous ward", "previous drug", "gap of day")
    ]
    facts.append(facts[0].model_copy(update={"name": "id", "codes": 1}))  # seen to fail: it stood alone
    people = PeopleFacts(
        column="who", type="string", grains=840, most_rows=4, estimated=900,
        order_by="day", companions=tuple(f.name for f in facts[3:6]),
    )  # fmt: skip
    name = "a column with a long name, of which hardly any value is there often enough to be told from noise"
    helps = f"{name!r}: all became 'other', as each of its values is too rare; --drop-unique leaves it out"
    parts = (
        ("ward", "rows_of_person", "previous ward"),
        ("drug",),
        ("previous drug",),
        ("gap of day",),
        ("id",),
    )
    changes = {"attributes": tuple(facts), "components": parts, "warnings": (helps,), "people": people}
    looks = attention(stated(made, **changes, workload={"marginals": [2]}), "m")
    assert looks[0].endswith("--drop-unique leaves it out")
    assert looks[1:] == [
        "drug stands alone: no dependence on other columns was kept",
        "which value follows which was lost in noise for drug",
    ]


def test_the_noise_of_columns_is_that_of_its_distribution(made: Release) -> None:
    """The mean size of the noise, by another library's distributions."""
    measured = (
        MeasuredMarginal(attributes=("age",), cells=9, scale=60.0),
        MeasuredMarginal(attributes=("age",), cells=9, scale=30.0),
        MeasuredMarginal(attributes=("age in 4",), cells=4, scale=1.0),
        MeasuredMarginal(attributes=("age", "sex"), cells=4, scale=1.0),
        MeasuredMarginal(attributes=("id",), cells=1, scale=90.0),
    )
    manifest = stated(made, estimated_rows=10_000, measurements=measured)
    age = manifest.attributes[0].model_copy(update={"name": "age"})
    manifest = manifest.model_copy(update={"attributes": (age,)})
    for composition, law in (("zcdp", stats.halfnorm(scale=30)), ("pure", stats.expon(scale=30))):
        g = manifest.guarantee.model_copy(update={"composition": composition})
        (line,) = expectation(manifest.model_copy(update={"guarantee": g}))
        found = re.search(r"about ([0-9.]+) %.*; all shares by ([0-9.]+) together", line)
        assert found is not None and float(found[1]) == pytest.approx(law.mean() / 100, rel=0.05)
        assert float(found[2]) == pytest.approx(9 * law.mean() / 10_000, rel=0.05)
    two = manifest.model_copy(update={"attributes": (age, age.model_copy(update={"name": "sex"}))})
    assert "--certificate" in expectation(two)[1]
    alone = manifest.model_copy(update={"attributes": (age, age.model_copy(update={"name": "id"}))})
    assert "'id'" not in expectation(alone)[0]  # seen to fail: of a column that holds `other` alone
    assert expectation(stated(made, measurements=())) == []


def test_a_certificate_speaks_in_place_of_a_forecast(made: Release) -> None:
    def error(what: Any, order: int, estimate: float, *names: str) -> CertifiedError:
        low, high = estimate - 0.01, estimate + 0.01
        return CertifiedError(
            what=what, order=order, attributes=names, estimate=estimate, stderr=0.005, low=low, high=high
        )

    errors = (
        error("mean", 1, 0.02),
        error("mean", 2, 0.05),
        *(error("column", 1, i / 100, f"c{i}") for i in range(5)),
        error("worst", 2, 0.3, "age", "sex"),
    )
    certificate = Certificate(
        share=0.03, confidence=0.95, errors=errors, criteria=("mean2 <= 0.1",), tries=3, tried=2
    )
    lines = expectation(stated(made, certificate=certificate))
    assert lines[1] == "mean error of 1 2-way marginals: 0.05, from 0.04 to 0.06"
    assert "'age', 'sex'" in lines[2] and lines[3] == "no column is off by more than 0.05, the bound of 'c4'"
    assert "95%" in lines[4] and lines[5] == "accepted, by try 2 of 3: mean2 <= 0.1"
    assert attention(stated(made, certificate=certificate, warnings=()), "x.manifest.json") == []
    far = certificate.model_copy(update={"errors": (error("mean", 1, 0.5), error("mean", 2, 1.16))})
    (line,) = attention(stated(made, certificate=far, warnings=()), "x.manifest.json")
    assert line.startswith(
        "58 of 100 rows would have to be others for a 2-way marginal to be right, on average:"
    )


def test_promises_in_words(made: Release) -> None:
    def words(**changes: Any) -> str:
        changed = stated(made).guarantee.model_copy(update=changes)
        return " ".join(promise(stated(made, guarantee=changed)))

    assert "2.718 times as likely (and 1e-09 more)" in words(epsilon=1.0, delta=1e-9)
    assert "without any one person (at most 1 row)" in words(neighbours="add-remove", contributions=1)
    assert "with any one person (at most 3 rows) exchanged" in words(neighbours="replace", contributions=3)
    pure = words(epsilon=0.5, delta=0.0)
    assert "1.649 times as likely as" in pure and "0.5-differential privacy" in pure
    assert "e^1000 times" in words(epsilon=1000.0)


def test_text_from_files_stays_within_its_line(made: Release) -> None:
    """A manifest or a model may be a stranger's, and columns are called as their owner likes."""
    lost = {"kept": 0.5, "other": 0.5, "clipped": 0.0, "missing": 0.0}
    fact = AttributeFacts(name="", type="string", codes=2, nullable=False, domain="learnt", **lost)
    evil = "a\n\x1b[31mfmwem: all is well\n\u202e"
    manifest = stated(
        made,
        warnings=(evil,),
        notes=(evil,),
        components=((evil,), ("b", "c")),
        policy={**made.manifest.policy, "privacy_id": evil},
        measurements=tuple(
            MeasuredMarginal(attributes=(n,), cells=2, scale=s) for n, s in ((evil, 9), ("b", 1))
        ),
        attributes=tuple(fact.model_copy(update={"name": n}) for n in (evil, "b")),
        workload={"marginals": [2]},
    )
    g = manifest.guarantee.model_copy(update={"neighbours": evil})
    manifest = manifest.model_copy(update={"guarantee": g, "domain": {evil: 2, "b": 2}})
    told = summary(done(manifest, f"{evil}.fmwem"))
    told += details(done(manifest))
    for line in told:
        assert line.isprintable() and not line.startswith("fmwem:"), line


def test_what_may_be_noise_is_not_said_to_be_lost() -> None:
    """Seen to fail: 'in female 9.5 % of the values were lost', where none was."""
    facts: dict[str, Any] = {
        "name": "x",
        "type": "integer",
        "codes": 2,
        "nullable": False,
        "domain": "learnt",
        "kept": 0.9,
    }
    for other, most, lost in ((0.0954, 0.178, 0.0), (0.0954, 0.12, 0.0954), (0.6, 0.01, 0.6)):
        assert AttributeFacts(**facts, other=other, clipped=0.0, moved_at_most=most).lost == lost
    assert AttributeFacts(**facts).lost == 0
    alone = AttributeFacts(**facts, spread_hidden=10.0)  # seen to fail: 1000.0%, of one value
    assert fates_text(Domain.from_dict({"x": 2}), {"x": alone})[1].split()[-1] == "unknown"
