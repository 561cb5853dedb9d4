"""Tables and outputs on servers on this machine: https:// as http://, and S3, as `moto` plays it."""

from __future__ import annotations

import functools
import http.server
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from support.commands import Fmwem, program
from support.processes import free_port, printed, serving

from factored_mwem import Release, release
from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.source import open_table

TABLE = pa.table({"a": list(range(50)), "b": ["x", "y"] * 25})


def rows_of(table: Any, *columns: str) -> int:
    return sum(batch.num_rows for batch in table.batches(list(columns)))


class Ranged(http.server.SimpleHTTPRequestHandler):
    """Serves parts of files, as stores do."""

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        asked, data = self.headers.get("Range"), Path(self.translate_path(self.path)).read_bytes()
        first, last = (int(n or len(data) - 1) for n in asked[6:].split("-")) if asked else (0, len(data) - 1)
        part = data[first : last + 1]
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(part)))
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
        self._mark()
        self.wfile.write(part)

    def do_HEAD(self) -> None:
        path = Path(self.translate_path(self.path))
        self.send_response(200 if path.exists() else 404)
        if path.exists():
            self.send_header("Content-Length", str(path.stat().st_size))
            self.send_header("Accept-Ranges", "bytes")
        self._mark()

    def _mark(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.exists():
            self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
        self.end_headers()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("fsspec", reason="http:// is fsspec's")
    pytest.importorskip("aiohttp", reason="http:// needs aiohttp")
    handler = functools.partial(Ranged, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_server_s_files(served: str, tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n")
    for name, rows in (("t.parquet", 50), ("t.csv?signature=CANARY", 2)):
        table = open_table(f"{served}/{name}")
        assert [rows_of(table, "a", "b") for _ in range(2)] == [rows, rows]
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,z\n")  # of the same size: its mark tells
    with pytest.raises(InputError, match="was changed while it was read") as refused:
        rows_of(table, "a")
    assert "CANARY" not in str(refused.value)
    with pytest.raises(InputError, match="no file http://"):
        open_table(f"{served}/none.csv")
    with pytest.raises(InputError, match=r"no file|does not answer"):
        open_table("http://127.0.0.1:9/t.csv")


def test_the_command_line_takes_uris(served: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "1,x\n2,y\n" * 50)
    fields = [{"name": "a", "categories": ["1", "2"]}, {"name": "b", "categories": ["x", "y"]}]
    (tmp_path / "d.json").write_text(json.dumps({"fields": fields}))
    command = f"release {served}/t.csv --marginals 2 --domain d.json -q"
    printed(*program(command), cwd=tmp_path)
    assert pq.read_schema(tmp_path / "t.synthetic.parquet").names == ["a", "b"]


# ---- S3


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    pytest.importorskip("moto.server", reason="no server for S3: pip install 'moto[server]'")
    number = free_port()
    with serving(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", number):
        yield number


@pytest.fixture
def bucket(port: int, monkeypatch: pytest.MonkeyPatch) -> pafs.FileSystem:
    """A store that has an empty `bucket`."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    where = {"endpoint_override": f"127.0.0.1:{port}", "scheme": "http", "allow_bucket_creation": True}
    store = pafs.S3FileSystem(**where)
    for _ in range(150):
        try:
            store.create_dir("bucket")
            break
        except OSError:  # it does not listen yet
            time.sleep(0.2)
    store.delete_dir_contents("bucket")
    return store


def keys(store: pafs.FileSystem) -> list[str]:
    found = store.get_file_info(pafs.FileSelector("bucket", recursive=True))
    return sorted(info.path for info in found if info.type == pafs.FileType.File)


def content(store: pafs.FileSystem, key: str) -> bytes:
    with store.open_input_stream(key) as stream:
        return stream.read()


def test_a_bucket_s_files(bucket: pafs.FileSystem, port: int) -> None:
    options = f"scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1&allow_bucket_creation=true"
    parts = [f"bucket/in/k={number}/x.parquet" for number in range(3)]
    for number, part in enumerate(parts):
        pq.write_table(TABLE.slice(number * 10, 10), part, filesystem=bucket)
    assert rows_of(open_table(f"s3://{parts[1]}?{options}"), "a") == 10
    table = open_table(f"s3://bucket/in?{options}")
    assert table.schema.names == ["a", "b", "k"]
    assert [rows_of(table, "a", "k") for _ in range(2)] == [30, 30]
    assert rows_of(open_table(f"s3://bucket/in/k=[12]/*.parquet?{options}"), "a") == 20
    pq.write_table(TABLE.slice(0, 10), parts[1], filesystem=bucket)
    with pytest.raises(InputError, match="was changed while it was read"):
        rows_of(table, "a")


def test_releases_reach_a_bucket(bucket: pafs.FileSystem, port: int, tmp_path: Path) -> None:
    domain = {"fields": [{"name": "s", "categories": ["a", "b"]}]}
    made = release(pa.table({"s": ["a", "b"] * 40}), 1, domain=domain, rows=50, sample_seed=1)
    made.write("s3://bucket/x/t.parquet")
    folder = made.write(f"s3://x:y@bucket/x/out/?endpoint_override=127.0.0.1:{port}&scheme=http")
    made.save("s3://bucket/t.fmwem")
    part = "bucket/x/out/part-00000.parquet"
    assert keys(bucket) == [
        *("bucket/t.fmwem", "bucket/x/out.manifest.json", part),
        *("bucket/x/t.manifest.json", "bucket/x/t.parquet"),
    ]
    assert pq.read_table(part, filesystem=bucket).to_pylist() == made.to_arrow().to_pylist()
    assert json.loads(content(bucket, "bucket/x/out.manifest.json")) == folder.model_dump(mode="json")
    (tmp_path / "t.fmwem").write_bytes(content(bucket, "bucket/t.fmwem"))
    assert Release.load(tmp_path / "t.fmwem").to_arrow() == made.to_arrow()
    other = replace(made, seed=5)
    for taken in ("s3://bucket/x/t.parquet", "s3://bucket/x/out/"):
        with pytest.raises(InputError, match="use --overwrite or another -o"):
            other.write(taken)
        other.write(taken, overwrite=True)
    assert pq.read_table(part, filesystem=bucket).to_pylist() == other.to_arrow().to_pylist()
    with pytest.raises(InputError, match="is all of a bucket; name a folder in it"):
        made.write("s3://bucket/", overwrite=True)


def test_a_bucket_that_is_not_there_costs_nothing(bucket: pafs.FileSystem, here: Path, fmwem: Fmwem) -> None:
    for where in ("s3://none/t.parquet", "s3://none/out/"):
        done = fmwem("release", "t.csv", "--marginals", 1, "-o", where, "--json")
        assert (done.code, done.facts["budget_spent"]) == (2, False)
        assert "there is no such bucket or folder; create it first" in done.facts["error"]
