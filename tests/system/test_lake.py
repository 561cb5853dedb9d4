"""Delta and Iceberg tables, written by their own libraries, are read as those read them: one version, its
rows alone, the same in every pass; what would be read wrongly is refused.
"""

from __future__ import annotations

import datetime
import json
import random
import string
import struct
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.commands import CANARY, Fmwem

from factored_mwem import release
from factored_mwem.errors import Changed, FmwemError, InputError
from factored_mwem.tables.inputs.contributions import bound_contributions
from factored_mwem.tables.inputs.fingerprint import fingerprint
from factored_mwem.tables.inputs.source import Table, open_table

deltalake = pytest.importorskip("deltalake", reason="no Delta tables: pip install 'factored-mwem[lake]'")
pytest.importorskip("pyiceberg.table", reason="no Iceberg tables: pip install 'factored-mwem[lake]'")
pytest.importorskip("sqlalchemy", reason="no catalog for the tests: pip install sqlalchemy")
pyroaring = pytest.importorskip("pyroaring", reason="comes with pyiceberg")

WHO = {"name": "who", "type": "integer", "constraints": {"minimum": 0, "maximum": 6}}
SECOND = datetime.datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=datetime.UTC)
ROWS = pa.table(
    {
        "who": pa.array([i % 7 for i in range(60)], pa.int64()),
        "k": [(CANARY, "a/b=%é", None, "x y", "__HIVE")[i % 5] for i in range(60)],
        "day": pa.array([datetime.date(2024, 1, 1 + i % 3) for i in range(60)], pa.date32()),
        "at": pa.array([SECOND if i % 4 else None for i in range(60)], pa.timestamp("us", "UTC")),
        "n": pa.array([i if i % 9 else None for i in range(60)], pa.int32()),
        "s": [f"{CANARY}{i % 11}" if i % 8 else None for i in range(60)],
    }
)


def in_order(table: Table, columns: list[str] | None = None) -> list[Any]:
    names = columns or table.schema.names
    return [tuple(row.values()) for batch in table.batches(names) for row in batch.to_pylist()]


def assert_reads_as(source: Any, whole: pa.Table) -> None:
    """Rows, types and, from pass to pass, the order; and any columns alone as they are beside the others."""
    table = open_table(source)
    assert table.schema.names == whole.schema.names
    for ours, theirs in zip(table.schema.types, whole.schema.types, strict=True):
        assert ours == theirs or {ours, theirs} <= {pa.string(), pa.large_string()}
    rows = in_order(table)
    assert Counter(rows) == Counter(tuple(row.values()) for row in whole.to_pylist())
    assert in_order(table) == rows == in_order(open_table(source))
    for at, name in enumerate(table.schema.names):
        assert in_order(table, [name]) == [(row[at],) for row in rows]


def one_line(source: Any, match: str, kind: type[FmwemError] = InputError) -> None:
    with pytest.raises(kind, match=match) as caught:
        in_order(open_table(source))
    said = str(caught.value)
    assert "\n" not in said and CANARY not in said and caught.value.__context__ is None


# Delta


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """Six versions: partitions, a column that came later, deleted rows."""
    path = tmp_path / "people"
    deltalake.write_deltalake(path, ROWS.slice(0, 25), partition_by=["k", "day"])
    deltalake.write_deltalake(path, ROWS.slice(25), mode="append")
    later = ROWS.slice(0, 9).append_column("z", pa.array([0.5, None, 2.0] * 3))
    deltalake.write_deltalake(path, later, mode="append", schema_mode="merge")
    deltalake.DeltaTable(path).delete("who = 3")
    deltalake.DeltaTable(path).optimize.compact()
    deltalake.DeltaTable(path).update({"n": "-1"}, predicate="who = 5")
    return path


def test_every_version_of_a_delta_table(delta: Path) -> None:
    for version in range(6):
        table = deltalake.DeltaTable(delta, version=version)
        assert_reads_as(table, table.to_pyarrow_table())
    whole = deltalake.DeltaTable(delta).to_pyarrow_table()
    assert {None, 0.5, 2.0} == set(whole["z"].to_pylist()) and 3 not in whole["who"].to_pylist()
    for source in (delta, str(delta), f"{delta}/", f"file://{delta}"):
        assert_reads_as(source, whole)


def test_an_empty_delta_table(tmp_path: Path) -> None:
    deltalake.DeltaTable.create(tmp_path / "none", ROWS.schema, partition_by=["k"])
    assert_reads_as(tmp_path / "none", ROWS.schema.empty_table())


def test_rows_written_meanwhile_are_not_seen_and_a_vacuum_stops_the_run(delta: Path) -> None:
    table = open_table(delta)
    rows, code = in_order(table), fingerprint(table, b"k")
    deltalake.write_deltalake(delta, ROWS.slice(0, 9), mode="append", schema_mode="merge")
    deltalake.DeltaTable(delta).delete("who = 1")
    assert in_order(table) == rows and fingerprint(table, b"k") == code
    assert fingerprint(open_table(delta), b"k") != code
    deltalake.DeltaTable(delta).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(Changed, match=r"people at version 5: .* was changed while") as caught:
        in_order(table)
    assert CANARY not in str(caught.value)
    one_line(deltalake.DeltaTable(delta, version=5), "is not whole")
    assert_reads_as(delta, deltalake.DeltaTable(delta).to_pyarrow_table())


def edited(path: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """A table whose first entry of the log says something else."""
    deltalake.write_deltalake(path, ROWS.select(["who", "n"]))
    log = path / "_delta_log" / "00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        edit(line)
    log.write_text("\n".join(map(json.dumps, lines)))
    return path


def features(*names: str) -> Callable[[dict[str, Any]], None]:
    def edit(line: dict[str, Any]) -> None:
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7}
            line["protocol"] |= {"readerFeatures": names, "writerFeatures": names}

    return edit


def vector(line: dict[str, Any]) -> None:
    stored = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
    if "add" in line:
        line["add"]["deletionVector"] = stored | {"sizeInBytes": 40, "cardinality": 1}


def with_vector(line: dict[str, Any]) -> None:
    features("deletionVectors")(line)
    vector(line)


def inline_vector(line: dict[str, Any]) -> None:
    """Rows 1 and 4 are deleted: the bitmap stands in the log, in the letters of Z85."""
    features("deletionVectors")(line)
    bitmap = pyroaring.BitMap([1, 4]).serialize()
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    assert len(data) % 4 == 0
    letters, text = f"{string.digits}{string.ascii_letters}.-:+=^!/*?&<>()[]{{}}@%$#", ""
    for (word,) in struct.iter_unpack(">I", data):
        text += "".join(letters[word // 85**power % 85] for power in (4, 3, 2, 1, 0))
    if "add" in line:
        vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": 2}
        line["add"]["deletionVector"] = vector


def mapped(line: dict[str, Any]) -> None:
    features("columnMapping")(line)
    if "metaData" in line:
        schema = json.loads(line["metaData"]["schemaString"])
        for number, field in enumerate(schema["fields"], 1):
            name = field["name"]
            field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}
        line["metaData"]["schemaString"] = json.dumps(schema)
        line["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"


def elsewhere(line: dict[str, Any]) -> None:
    if "add" in line:
        line["add"]["path"] = "file:///somewhere/x.parquet"


def narrower(line: dict[str, Any]) -> None:
    if "metaData" in line:
        line["metaData"]["schemaString"] = line["metaData"]["schemaString"].replace("long", "short")


@pytest.mark.parametrize(
    "edit, match",
    [
        (features("typeWidening"), "typeWidening"),
        (features("zauber"), "needs what its library does not know"),
        (mapped, "columnMapping"),
        (vector, "deletion vectors"),
        (with_vector, "deletion vectors"),
        (inline_vector, "it has deletion vectors"),
        (elsewhere, "outside of its folder"),
        (narrower, "column 'who' is int64 in .*, and int16 in the table"),
    ],
)
def test_what_would_be_read_wrongly_is_refused(tmp_path: Path, edit: Any, match: str) -> None:
    one_line(edited(tmp_path / "t", edit), match)


def test_a_table_that_may_have_deletion_vectors_and_has_none(tmp_path: Path) -> None:
    path = edited(tmp_path / "t", features("deletionVectors"))
    assert Counter(in_order(open_table(path))) == Counter(
        zip(ROWS["who"].to_pylist(), ROWS["n"].to_pylist(), strict=True)
    )


def test_one_cell_decides_nothing(tmp_path: Path) -> None:
    """Text that is none, and a time beyond what a table can say, in files that another engine wrote."""
    for at, s in ((2**62, b"\xff\xfe"), (0, b"ok")):
        path = tmp_path / str(at)
        deltalake.write_deltalake(path, pa.table({"at": [SECOND] * 3, "s": ["a", "b", "c"]}))
        (file,) = path.glob("*.parquet")
        text = pa.StringArray.from_buffers(3, *pa.array([b"a", s, b"c"]).buffers()[1:])
        pq.write_table(pa.table({"at": pa.array([0, at, 1], pa.timestamp("ms", "UTC")), "s": text}), file)
        rows = in_order(open_table(path))
        assert [rows[0][1], rows[2][1]] == ["a", "c"]
        assert [row[0].timestamp() for row in (rows[0], rows[2])] == [0, 0.001]


# Iceberg


def catalog(folder: Path) -> Any:
    from pyiceberg.catalog.memory import InMemoryCatalog

    found = InMemoryCatalog("tests", warehouse=f"file://{folder}")
    found.create_namespace("n")
    return found


@pytest.fixture
def iceberg(tmp_path: Path) -> Any:
    """Partitions that came later; columns renamed, added, replaced and widened; deleted rows."""
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DoubleType, LongType, StringType

    table = catalog(tmp_path).create_table("n.t", schema=ROWS.schema)
    table.append(ROWS.slice(0, 10))
    with table.update_spec() as spec:
        spec.add_field("k", IdentityTransform(), "k")
        spec.add_field("day", IdentityTransform(), "day")
    table.append(ROWS.slice(10, 20))
    with table.update_schema() as schema:
        schema.rename_column("s", "text")
        schema.add_column("z", DoubleType())
        schema.update_column("n", LongType())
    with table.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("at")
    with table.update_schema() as schema:
        schema.add_column("at", StringType())
    rest = ROWS.slice(30).drop_columns(["at"]).rename_columns(["who", "k", "day", "n", "text"])
    wide = rest.set_column(3, "n", rest["n"].cast(pa.int64()))
    table.append(wide.append_column("z", pa.array([1.5] * 30)).append_column("at", pa.array(["x"] * 30)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table.delete("who = 3")
    return table


def test_every_snapshot_of_an_iceberg_table(iceberg: Any) -> None:
    whole = iceberg.scan().to_arrow()
    assert 3 not in whole["who"].to_pylist() and set(whole["at"].to_pylist()) == {None, "x"}
    for source in (iceberg, iceberg.scan(), iceberg.metadata_location, iceberg.metadata_location[7:]):
        assert_reads_as(source, whole)
    for snapshot in iceberg.snapshots():
        scan = iceberg.scan(snapshot_id=snapshot.snapshot_id)
        assert_reads_as(scan, scan.to_arrow())
    few = iceberg.scan(selected_fields=("z", "k"))
    assert_reads_as(few, few.to_arrow())


def test_an_empty_iceberg_table(tmp_path: Path) -> None:
    table = catalog(tmp_path).create_table("n.t", schema=ROWS.schema)
    assert_reads_as(table, table.scan().to_arrow())


def test_files_that_others_wrote_are_read_by_name(tmp_path: Path) -> None:
    table = catalog(tmp_path).create_table("n.t", schema=ROWS.schema)
    pq.write_table(ROWS.select(["s", "n"]), tmp_path / "x.parquet")
    table.add_files([f"file://{tmp_path}/x.parquet"])
    assert_reads_as(table, table.scan().to_arrow())


def test_rows_deleted_by_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the library reads the same plan; it cannot write such deletes itself."""
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.table import DataScan, FileScanTask
    from pyiceberg.typedef import Record

    table = catalog(tmp_path).create_table("n.t", schema=ROWS.schema)
    table.append(ROWS.slice(0, 30))
    table.append(ROWS.slice(30))
    tasks = list(table.scan().plan_files())
    gone = [(task.file.file_path, place) for task in tasks for place in (0, 7, 29)][:5]
    deletes = set()
    for number, chosen in enumerate((gone[::2], gone[1::2])):
        path = tmp_path / f"d{number}.parquet"
        paths, places = zip(*chosen, strict=True)
        pq.write_table(pa.table({"file_path": paths, "pos": pa.array(places, pa.int64())}), path)
        file = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES, file_path=f"file://{path}", partition=Record(),
            file_format=FileFormat.PARQUET, record_count=len(chosen), file_size_in_bytes=path.stat().st_size,
        )  # fmt: skip
        file.spec_id = 0
        deletes.add(file)
    plan = [FileScanTask(task.file, deletes) for task in tasks]
    monkeypatch.setattr(DataScan, "plan_files", lambda _: plan)
    scan = table.scan()
    theirs = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter).to_table(plan)
    assert theirs.num_rows == 55
    assert_reads_as(table, theirs)
    monkeypatch.setattr("factored_mwem.tables.inputs.typed_files.MAX_BATCH_ROWS", 4)
    assert_reads_as(table, theirs)


def test_a_file_without_the_column_of_its_partition(iceberg: Any) -> None:
    """As other engines write: its value stands in the manifest alone."""
    for task in iceberg.scan().plan_files():
        if task.file.spec_id != 0:
            path = task.file.file_path[7:]
            pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["k", "day"]), path)
    whole = iceberg.scan().to_arrow()
    assert {CANARY, None, "x y"} < set(whole["k"].to_pylist())
    assert_reads_as(iceberg, whole)


def test_a_snapshot_stays_and_its_files_must(iceberg: Any) -> None:
    table = open_table(iceberg)
    rows = in_order(table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        iceberg.delete("who = 1")
    assert in_order(table) == rows and len(in_order(open_table(iceberg))) < len(rows)
    file = Path(next(iter(table.origin.places)).path)  # type: ignore[union-attr]
    data = file.read_bytes()
    file.unlink()
    with pytest.raises(Changed, match="was changed while") as caught:
        in_order(table)
    assert CANARY not in str(caught.value)
    file.write_bytes(data)
    with pytest.raises(Changed):
        in_order(table)


def test_what_of_iceberg_is_refused(iceberg: Any, tmp_path: Path) -> None:
    one_line(iceberg.scan(limit=3), "a scan with a limit or a filter")
    one_line(iceberg.scan(row_filter="who = 2"), "a scan with a limit or a filter")
    one_line(tmp_path / "n" / "t", r"is an Iceberg table: .* metadata/\*\.metadata\.json")
    (tmp_path / "x.metadata.json").write_text(f'{{"{CANARY}": 1}}')
    one_line(tmp_path / "x.metadata.json", "cannot read .*x.metadata.json")
    one_line(tmp_path / "none.metadata.json", "cannot read .*none.metadata.json")


# Both


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_damage_is_one_line(kind: str, request: pytest.FixtureRequest) -> None:
    """Bytes changed or cut off: rows, or one line that quotes none. Not of Iceberg's manifests, over which
    its own reader of Avro dies, before anything is spent.
    """
    made = request.getfixturevalue(kind)
    source = made if kind == "delta" else Path(made.metadata_location[7:])
    folder = source if kind == "delta" else source.parents[1]
    kinds = (".json", ".parquet") if kind == "delta" else (".parquet",)
    data = [path for path in folder.rglob("*") if path.is_file() and (path.suffix in kinds or path == source)]
    random_ = random.Random(5)

    def refused(file: Path, damaged: bytes) -> bool:
        whole = file.read_bytes()
        file.write_bytes(damaged)
        try:
            in_order(open_table(source))
        except FmwemError as error:
            assert "\n" not in str(error) and CANARY not in str(error) and error.__context__ is None
            return True
        finally:
            file.write_bytes(whole)
        return False

    for _ in range(120):
        file = random_.choice(data)
        damaged = bytearray(file.read_bytes())
        for _ in range(min(random_.choice((1, 20)), len(damaged))):
            damaged[random_.randrange(len(damaged))] = random_.randrange(256)
        refused(file, bytes(damaged))
    for share in (0.0, 0.3, 0.9):  # a Parquet file ends in its own length
        cut = [refused(file, file.read_bytes()[: int(share * file.stat().st_size)]) for file in data]
        assert any(hit and file.suffix == ".parquet" for hit, file in zip(cut, data, strict=True))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_person_s_first_rows_are_the_same_in_every_pass(kind: str, request: pytest.FixtureRequest) -> None:
    table = bound_contributions(open_table(request.getfixturevalue(kind)), "who", 2)
    rows = in_order(table)
    assert len(rows) == 12 and in_order(table) == rows  # seven people, without who = 3


@pytest.mark.parametrize("name, extra", [("deltalake", "delta"), ("pyiceberg.table", "iceberg")])
def test_a_missing_library_is_named(
    name: str, extra: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = request.getfixturevalue(extra)
    source = made if extra == "delta" else made.metadata_location
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"pip install 'factored-mwem\[lake\]'"):
        open_table(source)


def test_a_command_releases_a_delta_table(delta: Path, fmwem: Fmwem, tmp_path: Path) -> None:
    days = {"minimum": "2024-01-01", "maximum": "2024-01-03"}
    domain = {"fields": [WHO, {"name": "day", "type": "date", "constraints": days}]}
    (tmp_path / "people.domain.json").write_text(json.dumps(domain))
    out = tmp_path / "out.parquet"
    done = fmwem("release --marginals 1 --columns who,day --epsilon 1e6 -o", out, delta)
    assert done.code == 0, done.err
    real = deltalake.DeltaTable(delta).to_pyarrow_table()
    made = pq.read_table(out)
    for name in ("who", "day"):
        assert Counter(made[name].to_pylist()) == Counter(real[name].to_pylist())


def test_both_release_as_the_same_rows_in_memory(delta: Path, iceberg: Any) -> None:
    wholes = (deltalake.DeltaTable(delta).to_pyarrow_table(), iceberg.scan().to_arrow())
    for source, whole in zip((delta, iceberg), wholes, strict=True):
        made = release(source, 1, domain={"fields": [WHO]}, columns=["who"], epsilon=1e6).to_arrow()
        assert Counter(made["who"].to_pylist()) == Counter(whole["who"].to_pylist())
