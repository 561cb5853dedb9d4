"""The card: what catalogues are told of a release, judged by their own schemas and readers.

The manifest is all that is read, so the checks of what a manifest holds (tests/pipeline/test_leaks.py) hold
here, too; that nothing else gets in is tested with the table gone.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from support import catalogues
from support.catalogues import ALL_ANSWERS, OWNER, toml
from support.commands import CANARY, DOMAIN, Fmwem
from support.fakes import FakeNoise
from support.releases import run

from factored_mwem.documents import card
from factored_mwem.documents.card import cards, stem_of, write_cards
from factored_mwem.documents.owner import OPTIONAL, Owner, draft, required
from factored_mwem.documents.page import markdown
from factored_mwem.documents.published import ColumnSection, record_from
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.record.manifest import Certificate, CertifiedError, Manifest
from factored_mwem.pipeline.record.statement import Output, PartFile
from factored_mwem.pipeline.result import Release
from factored_mwem.request.policy import Policy
from factored_mwem.tables.outputs.targets import LocalFile, digest_of

RAW = pa.table(
    {
        "zip": ["0311", "0420", CANARY, None] * 100,
        "age": [30, 40, 987654, -987654] * 100,
        "pay": [1.5, 2.5, None, 987654.25] * 100,
        "born": ["1970-01-02", "1999-12-31", "1831-03-04", None] * 100,
        "seen": ["2020-02-03T04:05:06", None, "1831-03-04T05:06:07", "2020-12-31T23:59:59"] * 100,
        "smoker": [True, False, None, True] * 100,
    }
)
"""A table with values that its domain does not know."""
OUTSIDE = (CANARY, "987654", "1831")
MANY = pa.table({"city": ["Rome", "Oslo", "Bern", "Kiel"] * 500, "n": list(range(100)) * 20})
BY_ID = RAW.append_column("id", pa.array(range(400)))


def bounded(name: str, kind: str, low: Any, high: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "constraints": {"minimum": low, "maximum": high}, **more}


ODD = {
    "fields": [
        bounded("gain", "integer", 0, 99, bins=3, specialValues=[-9, 50, 1000]),
        bounded("code", "integer", 0, 9, specialValues=["N", 99]),
        bounded("rate", "number", -0.5, 0.75, decimals=1, bins=4),
        bounded("hour", "datetime", "2020-01-01T05:30:00", "2020-01-03T17:45:00", resolution="hour", bins=3),
        {"name": "level", "type": "integer", "categories": [1, 2, 5], "categoriesOrdered": True},
        {"name": "day", "type": "date", "edges": ["1950-01-01", "1960-01-01", "1999-12-31"]},
    ]
}
ODD["fields"][2]["constraints"]["required"] = True
"""Columns whose released values are of another type than they were read with, or beyond their bins."""
ODD_ROWS = pa.table(
    {
        "gain": [-9, 0, 50, 99, 1000, None] * 60,
        "code": ["N", "3", "99", "9", None, "0"] * 60,
        "rate": [-0.5, 0.75, 0.0, 0.7, -0.4, 0.1] * 60,
        "hour": ["2020-01-01T05:30:00", "2020-01-03T17:45:00", None] * 120,
        "level": [1, 2, 5, None, 1, 2] * 60,
        "day": ["1950-01-01", "1999-12-31", None] * 120,
    }
)
KINDS: dict[str, tuple[pa.Table, dict[str, Any] | None, dict[str, Any], list[str] | None]] = {
    "declared": (RAW, DOMAIN, {}, None),
    "learnt": (MANY, None, {"epsilon": 5.0}, None),
    "replace": (RAW, DOMAIN, {"neighbours": "replace"}, None),
    "pure": (RAW, DOMAIN, {"delta": 0.0}, None),
    "mwem": (RAW, DOMAIN, {"engine": "mwem", "rounds": 2}, ["zip", "smoker"]),
    "odd": (ODD_ROWS, ODD, {}, None),
    "by-id": (BY_ID, DOMAIN, {"privacy_id": "id", "contributions": 3}, ["zip", "age"]),
}
"""Table, domain, choices and columns of a release."""


def made_of(kind: str) -> Release:
    table, domain, choices, columns = KINDS[kind]
    policy, declared = Policy.of(**choices), domain and Domain.from_dict(domain)
    noise = FakeNoise(policy.budget(learn_domain=domain is None).composition)
    return run(table, policy, noise, domain=declared, columns=columns)


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The manifest of a release of a kind, written to a file of a name; each is made once."""
    made: dict[str, Any] = {}
    folder = tmp_path_factory.mktemp("card")

    def manifest(kind: str, name: str = "town.synthetic.parquet") -> Path:
        if kind not in made:
            made[kind] = made_of(kind)
        inside = folder / kind / ("parts" if name.endswith("/") else "file")  # of one name both are "town"
        inside.mkdir(parents=True, exist_ok=True)
        path = inside / (Path(name.rstrip("/")).stem + ".manifest.json")
        if not path.exists():
            made[kind].write(f"{inside}/{name}")
        return path

    return manifest


Releases = Callable[..., Path]


def filed(
    manifest: Path, answers: dict[str, Any] = OWNER, *, to: Path | None = None
) -> dict[str, dict[str, Any]]:
    """What the cards of a manifest hold, each written to a file: registry, croissant, package, contract."""
    target = LocalFile(manifest)
    texts = cards(record_from(target), Owner(**answers), stem_of(target))
    folder = to or manifest.parent
    write_cards(texts, LocalFile(folder / "x").beside, IfExists.REPLACE)
    kinds = ("registry", "croissant", "package", "contract")
    loaded = (
        json.loads(text) if name.endswith(".json") else yaml.safe_load(text) for name, text in texts.items()
    )
    return dict(zip(kinds, loaded, strict=True))


def complaints(manifest: Path, *, read: bool = True) -> dict[str, list[str]]:
    """What the judges of the four files say, of those that they complain about."""
    folder, stem = manifest.parent, manifest.name.removesuffix(".manifest.json")
    plain = stem.replace(".", "_").replace("-", "_").lower()
    said = {
        "registry": catalogues.registry(folder, f"{plain}_deployment.yaml"),
        "croissant": catalogues.croissant(folder, f"{stem}.croissant.json", read=read),
        "package": catalogues.package(folder, "datapackage.json", read=read),
        "contract": catalogues.contract(folder, f"{stem}.odcs.yaml"),
    }
    return {kind: wrong for kind, wrong in said.items() if wrong}


def changed(manifest: Path, to: Path, **update: Any) -> Path:
    """A manifest of the same name in another folder, with other fields."""
    fields = json.loads(manifest.read_text()) | update
    (to / manifest.name).write_text(json.dumps(fields))
    return to / manifest.name


# ---- the judges


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, "town.csv") for kind in KINDS),
        *((kind, name) for kind in ("declared", "learnt") for name in ("town.synthetic.parquet", "town/")),
    ],
)
def test_every_catalogue_takes_its_file_and_reads_the_rows(kind: str, name: str, releases: Releases) -> None:
    manifest = releases(kind, name)
    filed(manifest)
    assert complaints(manifest) == {}


def test_every_catalogue_takes_all_answers(releases: Releases) -> None:
    manifest = releases("declared")
    found = filed(manifest, ALL_ANSWERS)
    assert complaints(manifest, read=False) == {}
    assert found["package"]["resources"][0]["path"] == "https://example.org/files/town.synthetic.parquet"
    assert found["registry"]["deployment"]["basic"]["publication_date"] == "2026-12-24"
    assert found["croissant"]["rai:personalSensitiveInformation"][0] == "health"
    assert found["contract"]["version"] == found["croissant"]["version"] == "2.0.0"


@pytest.mark.skipif(catalogues.originals() is None, reason="CATALOGUE_SCHEMAS names no published forms")
def test_the_restated_form_is_no_wider_than_the_original(releases: Releases) -> None:
    """With the registry's file at hand: every field and word of ours is one of its own."""
    original = catalogues._original("deployments-schema.yaml")

    def narrower(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
        assert set(ours.get("properties", {})) <= set(theirs.get("properties", {}))
        assert set(ours.get("enum", [])) <= set(theirs.get("enum", []))
        assert set(theirs.get("required", [])) <= set(ours.get("required", []))
        for name, inner in ours.get("properties", {}).items():
            narrower(inner, theirs["properties"][name])

    assert original is not None
    narrower(catalogues.REGISTRY, original)


BROKEN: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "no region": ("registry", lambda d: d["deployment"]["basic"].pop("data_product_region")),
    "unknown variant": ("registry", lambda d: d["deployment"]["dp_variant"].update(variant_name="DP")),
    "epsilon in words": (
        "registry",
        lambda d: d["deployment"]["privacy_loss"]["privacy_parameters"].update(epsilon="one"),
    ),
    "wrong hash of a package": ("package", lambda d: d["resources"][0].update(hash="sha256:" + "0" * 64)),
    "a narrower bound": (
        "package",
        lambda d: d["resources"][0]["schema"]["fields"][1]["constraints"].update(maximum=10),
    ),
    "a value too few": (
        "package",
        lambda d: d["resources"][0]["schema"]["fields"][0]["constraints"].update(enum=["0311"]),
    ),
    "wrong hash of a dataset": ("croissant", lambda d: d["distribution"][0].pop("sha256")),
    "a column that is not there": (
        "croissant",
        lambda d: d["recordSet"][0]["field"][0]["source"]["extract"].update(column="nobody"),
    ),
    "no licence": ("croissant", lambda d: d.pop("license")),
    "unknown type": ("contract", lambda d: d["schema"][0]["properties"][0].update(logicalType="text")),
    "no status": ("contract", lambda d: d.pop("status")),
    "an unknown word": ("contract", lambda d: d.update(epsilon=1.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", list(BROKEN))
def test_a_broken_file_would_be_seen(bug: str, releases: Releases, tmp_path: Path) -> None:
    manifest = releases("declared", "town.csv")
    (tmp_path / "town.csv").write_bytes(manifest.with_name("town.csv").read_bytes())
    copied = changed(manifest, tmp_path)
    kind, spoil = BROKEN[bug]
    data = filed(copied)[kind]
    spoil(data)
    names = {"registry": "town_deployment.yaml", "croissant": "town.croissant.json"}
    names |= {"package": "datapackage.json", "contract": "town.odcs.yaml"}
    text = json.dumps(data) if names[kind].endswith("json") else yaml.safe_dump(data, sort_keys=False)
    (tmp_path / names[kind]).write_text(text)
    assert complaints(copied).keys() == {kind}, bug


# ---- what is said


def test_the_promise_is_the_manifests(releases: Releases) -> None:
    for kind in KINDS:
        path = releases(kind, "town.csv")
        manifest, found = Manifest.model_validate_json(path.read_bytes()), filed(path)
        promise = manifest.guarantee
        numbers = found["registry"]["deployment"]["privacy_loss"]["privacy_parameters"]
        variant = found["registry"]["deployment"]["dp_variant"]["variant_name"]
        said = {entry["property"]: entry["value"] for entry in found["contract"]["customProperties"]}
        told = found["package"]["differentialPrivacy"]
        activity = found["croissant"]["prov:wasGeneratedBy"]["additionalProperty"]
        values = {entry["name"]: entry["value"] for entry in activity}
        for one in (numbers, said, told, values):
            assert one["epsilon"] == promise.epsilon
            assert one.get("delta", 0.0) == promise.delta
        if kind == "pure":
            assert variant == "Pure DP" and not any("rho" in one for one in (numbers, said, told, values))
        else:
            rho = by_hand(manifest)
            assert variant == "Approximate DP"
            for one in (numbers, said, told, values):
                assert rho <= one["rho"] <= rho * (1 + 1e-9)


def by_hand(manifest: Manifest) -> float:
    """rho by the table of the guide: s / (2 b^2), and s^2 / (2 b^2) of a selection, rounded down."""
    total = Fraction(0)
    for charge in manifest.ledger:
        squared = charge.sensitivity if "gaussian" in charge.mechanism else charge.sensitivity**2
        total += Fraction(squared) / (2 * Fraction(charge.scale) ** 2)
    return float(total) * (1 - 1e-12)


def test_each_kind_says_what_it_is(releases: Releases) -> None:
    said = {kind: json.dumps(filed(releases(kind, "town.csv"))["registry"]["deployment"]) for kind in KINDS}
    assert "added or removed" in said["declared"] and "exchanged" not in said["declared"]
    assert "exchanged for those of another" in said["replace"]
    assert "the number of records is public" in said["replace"]
    assert "the number of records is public" not in said["declared"]
    assert "learnt inside the budget" in said["learnt"] and "learnt inside" not in said["declared"]
    is_open = {kind: json.loads(text)["dp_variant"]["unprotected_quantities"] for kind, text in said.items()}
    assert "domain" in is_open["declared"] and "domain" not in is_open["learnt"]
    assert "of delta in addition" in said["learnt"] and "gaussian threshold" in said["learnt"]
    assert "epsilons of" in said["pure"] and "rho" not in said["pure"]
    assert "multiplicative weights" in said["mwem"] and "clique trees" in said["declared"]
    assert "one person with at most 3 rows (bounded by 'id')" in said["by-id"]


def test_a_table_that_is_gone_is_not_missed_and_the_bytes_are_the_same(
    releases: Releases, tmp_path: Path
) -> None:
    """From the manifest alone: no rows, no model, no private table."""
    manifest = changed(releases("declared"), tmp_path)
    filed(manifest)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(first) == 5
    filed(manifest)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


@pytest.mark.parametrize("kind", ["declared", "replace", "pure", "mwem", "by-id"])
def test_no_value_outside_of_the_domain_gets_in(kind: str, releases: Releases) -> None:
    """The table is full of them; rows of the release have none, for its domain does not."""
    manifest = releases(kind, "town.csv")
    filed(manifest)
    written = b"".join(
        path.read_bytes() for path in manifest.parent.iterdir() if path.suffix in (".yaml", ".json")
    )
    for value in OUTSIDE:
        assert value.encode() not in written
    assert b"0311" in written


def test_a_certificate_is_a_quality_of_the_contract(releases: Releases, tmp_path: Path) -> None:
    error = CertifiedError(
        what="column", order=1, attributes=("age",), estimate=0.125, stderr=0.01, low=0.1, high=0.15
    )
    held = Certificate(
        share=0.03, confidence=0.95, errors=(error,), criteria=("mean3 <= 0.15",), tries=3, tried=2
    )
    manifest = changed(releases("declared"), tmp_path, certificate=held.model_dump())
    found = filed(manifest)
    quality = found["contract"]["schema"][0]["quality"][1]
    values = {entry["property"]: entry["value"] for entry in quality["customProperties"]}
    assert values | {"low": 0.1, "high": 0.15, "columns": ["age"], "confidence": 0.95} == values
    assert "from 0.1 to 0.15 with 95% confidence" in found["croissant"]["rai:dataLimitations"][-1]
    assert "try 2 of up to 3" in json.dumps(found["registry"])
    assert complaints(manifest, read=False) == {}
    broken = json.loads(manifest.read_text())
    broken["certificate"]["errors"][0]["low"] = float("nan")
    manifest.write_text(json.dumps(broken))
    with pytest.raises(InputError):
        record_from(LocalFile(manifest))


def test_a_folder_of_parts_is_listed_part_by_part(releases: Releases, tmp_path: Path) -> None:
    parts = [PartFile(file=f"part-{i:05}.parquet", rows=i, sha256=f"{i:064x}") for i in (1, 2, 3)]
    whole = Output(
        file="town/", rows=6, sha256=digest_of((p.file, p.sha256) for p in parts), parts=tuple(parts)
    )
    manifest = changed(releases("declared"), tmp_path, output=whole.model_dump())
    found = filed(manifest)
    assert [r["path"] for r in found["package"]["resources"]] == [f"town/{p.file}" for p in parts]
    assert [r["hash"] for r in found["package"]["resources"]] == [f"sha256:{p.sha256}" for p in parts]
    listed = found["croissant"]["distribution"]
    assert [f["sha256"] for f in listed[:3]] == [p.sha256 for p in parts]
    assert listed[3]["@type"] == "cr:FileSet"
    assert complaints(manifest, read=False) == {}


# ---- columns


def test_a_column_is_as_it_was_written() -> None:
    ends = {"minimum": 0, "maximum": 99}
    number = Attribute(name="x", type="number", constraints=ends, bins=4)
    beyond = Attribute(name="x", type="integer", constraints=ends, specialValues=(-9, 50), bins=4)
    text = Attribute(name="x", type="integer", constraints=ends, specialValues=("N",))
    day = Attribute(name="x", type="date", edges=("1950-01-01", "1999-12-31"))
    alone = Attribute(name="x", type="integer", specialValues=(3, 7))
    assert ColumnSection.of(number).limits == {"minimum": 0.0, "maximum": 99.0}
    assert ColumnSection.of(beyond).limits == {"minimum": -9, "maximum": 99}
    assert (ColumnSection.of(text).type, ColumnSection.of(text).limits) == ("string", {})
    assert ColumnSection.of(day).limits == {"minimum": "1950-01-01", "maximum": "1999-12-31"}
    assert ColumnSection.of(alone).limits == {"enum": [3, 7]}
    assert ColumnSection.of(Attribute(name="x", type="boolean", constraints={"required": True})).limits == {
        "required": True
    }


# ---- the owner's file


def test_the_draft_asks_every_question_once_and_answers_none() -> None:
    data = tomllib.loads(draft())
    assert list(data) == [*required(), *OPTIONAL] and set(data) == set(Owner.model_fields)
    assert not any(data.values())
    assert all(len(line) <= 110 for line in draft().splitlines())


@pytest.mark.parametrize("name", required())
def test_a_question_without_an_answer_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / "owner.toml"
    for empty in ({}, {name: [] if isinstance(OWNER[name], list) else ""}):
        path.write_text(toml({k: v for k, v in OWNER.items() if k != name} | empty))
        with pytest.raises(InputError, match=f"not answered yet: {name}$"):
            Owner.load(path)
    path.write_text(toml(OWNER))
    assert Owner.load(path) == Owner(**OWNER)


@pytest.mark.parametrize(
    "text",
    [
        "name = ",
        "name = 3",
        'releases = "twice"',
        'url = "javascript:alert(1)"',
        'colour = "red"',
        'sector = "Mining"',
        "a = " + "[" * 5000,
        '"a\\u001b[2J" = 1',
        "\ufeffname = 1\n",
    ],
)
def test_a_wrong_answer_is_one_line(text: str, tmp_path: Path) -> None:
    """All else is answered: that alone is wrong."""
    path = tmp_path / "owner.toml"
    path.write_text(toml({k: v for k, v in OWNER.items() if k != text.split(" ")[0]}) + text)
    with pytest.raises(InputError) as told:
        Owner.load(path)
    assert str(told.value).isprintable() and len(str(told.value)) < 500
    assert "not answered" not in str(told.value)


# ---- manifests of strangers

HOSTILE = 'a"<script>\u202e\u200b\U000e0041`*[x](y)\\\\$_%/#\x1b[2J'


def test_hostile_names_are_kept_and_harm_nothing(tmp_path: Path) -> None:
    fields = [{"name": HOSTILE, "categories": ["x", 'y\n---\n- &a !!python/object "<b>', "\x07"]}]
    fields.append({"name": "- no: 1e3", "categories": ["yes", "null", "p\u200bq"]})
    table = pa.table({HOSTILE: ["x", "y", None] * 30, "- no: 1e3": ["yes", "null", None] * 30})
    made = run(table, Policy.of(), FakeNoise(), domain=Domain.from_dict({"fields": fields}))
    made.write(tmp_path / "h.parquet")
    found = filed(tmp_path / "h.manifest.json", OWNER | {"name": HOSTILE})
    assert found["package"]["resources"][0]["schema"]["fields"][0]["name"] == HOSTILE
    assert found["contract"]["schema"][0]["properties"][0]["name"] == HOSTILE
    values = found["contract"]["schema"][0]["properties"][1]["quality"][0]["arguments"]["validValues"]
    assert values == ["yes", "null", "p\u200bq"]
    assert found["croissant"]["recordSet"][0]["field"][0]["source"]["extract"]["column"] == HOSTILE
    assert found["package"]["resources"][0]["schema"]["fields"][0]["constraints"]["enum"][1].startswith("y\n")
    said = found["registry"]["deployment"]["dp_variant"]["data_domain"]
    assert "<script>" not in said and "`" not in said and "\\" not in said and "script" in said
    for path in tmp_path.iterdir():
        if path.suffix == ".yaml" or path.name.endswith(("croissant.json", "datapackage.json")):
            text = path.read_text(encoding="utf-8")
            assert all(c.isprintable() or c == "\n" for c in text), path
    assert set(complaints(tmp_path / "h.manifest.json", read=False)) <= {"registry"}  # the owner's own name


WRONG: dict[str, Callable[[dict[str, Any]], Any]] = {
    "path": lambda m: m["output"].update(file="../x.parquet"),
    "absolute": lambda m: m["output"].update(file="/x.parquet"),
    "uri": lambda m: m["output"].update(file="file:x.parquet"),
    "no output": lambda m: m.update(output=None),
    "no hash": lambda m: m["output"].update(sha256=None),
    "hash": lambda m: m["output"].update(sha256="0" * 63 + "G"),
    "format": lambda m: m["output"].update(file="x.exe"),
    "rows": lambda m: m["output"].update(rows=-1),
    "no parts": lambda m: m["output"].update(file="town/"),
    "spent": lambda m: m["guarantee"].update(spent_epsilon=0.5),
    "epsilon": lambda m: m["guarantee"].update(epsilon=0.5),
    "delta": lambda m: m["guarantee"].update(delta=0.0),
    "not finite": lambda m: m["guarantee"].update(epsilon=float("nan")),
    "neighbours": lambda m: m["guarantee"].update(neighbours="replace"),
    "contributions": lambda m: m["guarantee"].update(contributions=2),
    "policy": lambda m: m.update(policy={"epsilon": "one"}),
    "domain": lambda m: m.update(domain={"fields": []}),
    "another domain": lambda m: m["domain"]["fields"][0].update(name="other"),
    "version": lambda m: m.update(manifest_version=99),
    "a word too many": lambda m: m.update({"\x1b[2J": 1}),
    "mechanism": lambda m: m["ledger"][0].update(mechanism="magic"),
    "scale": lambda m: m["ledger"][0].update(scale=0.0),
    "half of a surrogate pair": lambda m: m["domain"]["fields"][0].update(name="\ud800"),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_a_wrong_manifest_is_one_line(wrong: str, releases: Releases, tmp_path: Path) -> None:
    fields = json.loads(releases("declared").read_text())
    WRONG[wrong](fields)
    path = tmp_path / "w.manifest.json"
    path.write_text(json.dumps(fields))
    with pytest.raises(InputError) as told:
        record_from(LocalFile(path))
    assert str(told.value).isprintable() and len(str(told.value)) < 500


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[" * 10**6, b"\xff", b'{"x": "\\ud800"}', b" " * (2**25 + 1)]
)
def test_what_is_no_manifest_is_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "w.manifest.json"
    path.write_bytes(content)
    with pytest.raises(InputError):
        record_from(LocalFile(path))


def test_schemas_of_too_many_parts_are_refused(
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a few MB a stranger could make a card of many GB."""
    monkeypatch.setattr(card, "MAX_CHARACTERS", 50_000)
    parts = tuple(PartFile(file=f"part-{i:05}.parquet", rows=1, sha256="0" * 64) for i in range(99))
    digest = digest_of((part.file, part.sha256) for part in parts)
    whole = Output(file="town/", rows=len(parts), sha256=digest, parts=parts)
    manifest = changed(releases("declared"), tmp_path, output=whole.model_dump())
    with pytest.raises(ResourceError):
        filed(manifest)


# ---- the command


def test_the_command_drafts_then_refuses_then_writes(here: Path, fmwem: Fmwem) -> None:
    assert fmwem("release", "t.csv", "--marginals", 1, "-o", "town.csv", "-q").code == 0
    (here / "t.csv").unlink()
    before = set(here.iterdir())
    first = fmwem("card", "town.manifest.json")
    assert first.code == 2 and "wrote owner.toml" in first.err and "region" in first.err
    assert set(here.iterdir()) - before == {here / "owner.toml"}
    drafted = (here / "owner.toml").read_bytes()
    again = fmwem("card", "town.manifest.json")
    assert again.code == 2 and "not answered yet: name" in again.err
    assert (here / "owner.toml").read_bytes() == drafted
    (here / "me.toml").write_text(toml(OWNER))
    done = fmwem("card", "town.manifest.json", "--owner", "me.toml")
    assert done.code == 0 and len(done.facts["files"]) == 4
    assert complaints(here / "town.manifest.json") == {}
    refused = fmwem("card", "town.manifest.json", "--owner", "me.toml")
    assert refused.code == 2 and "exists" in refused.err
    assert fmwem("card", "town.manifest.json", "--owner", "me.toml", "--overwrite").code == 0
    assert fmwem("card", "town.manifest.json", "--owner", "me.toml", "-o", "new/").code == 0
    assert {path.name for path in (here / "new").iterdir()} == {Path(one).name for one in done.facts["files"]}
    assert fmwem("card", "town.manifest.json", "--owner", "me.toml", "-o", "nowhere").code == 2
    assert fmwem("card", "none.manifest.json").code == 2


def test_all_files_or_none(tmp_path: Path) -> None:
    """The third cannot be written once the first two are; what was there before is not taken away."""

    class Late(LocalFile):
        def replacing(self, *arguments: Any) -> Any:
            if self.name == "c":
                raise InputError("no")
            return super().replacing(*arguments)

    (tmp_path / "b").write_text("mine")
    with pytest.raises(InputError):
        write_cards(dict.fromkeys("abcd", "x"), lambda name: Late(tmp_path / name), IfExists.REPLACE)
    assert {path.name for path in tmp_path.iterdir()} == {"b"}
    with pytest.raises(InputError):
        write_cards(dict.fromkeys("abcd", "x"), lambda name: LocalFile(tmp_path / name), IfExists.REFUSE)
    assert {path.name for path in tmp_path.iterdir()} == {"b"}


def test_sentences_are_escaped_for_a_page_that_reads_markup() -> None:
    said = markdown("x <img src=x> [a](b) `c` \\\\(d\\\\) a_b _e_")
    assert not set("<>[]`\\") & set(said)
    assert "a_b" in said
