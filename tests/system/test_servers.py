"""Tables that a server on loopback serves: https:// as http://, and S3 where moto is installed."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from factored_mwem.errors import InputError
from factored_mwem.tables.source import open_table

pytestmark = pytest.mark.system
TABLE = pa.table({"a": list(range(50)), "b": ["x", "y"] * 25})


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
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Ranged, directory=str(tmp_path))
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_server_s_files(served: str, tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n")
    for name, rows in (("t.parquet", 50), ("t.csv?signature=CANARY", 2)):
        table = open_table(f"{served}/{name}")
        for _ in range(2):
            assert sum(batch.num_rows for batch in table.batches(["a", "b"])) == rows
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,z\n")  # of the same size: its mark tells
    with pytest.raises(InputError, match="was changed while it was read") as refused:
        list(table.batches(["a"]))
    assert "CANARY" not in str(refused.value)
    with pytest.raises(InputError, match="no file http://"):
        open_table(f"{served}/none.csv")
    with pytest.raises(InputError, match=r"no file|does not answer"):
        open_table("http://127.0.0.1:9/t.csv")


def test_the_command_line_takes_uris(served: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "1,x\n2,y\n" * 50)
    (tmp_path / "d.json").write_text(
        '{"fields": [{"name": "a", "categories": ["1", "2"]}, {"name": "b", "categories": ["x", "y"]}]}'
    )
    command = ["fmwem", "release", f"{served}/t.csv", "--marginals", "2", "--domain", "d.json", "-q"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert pq.read_schema(tmp_path / "t.synthetic.parquet").names == ["a", "b"]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("moto", reason="an S3 server to test against is moto's")
    import pyarrow.fs as pafs

    port = 5123 + os.getpid() % 1000
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    options = f"scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1&allow_bucket_creation=true"
    system, _ = pafs.FileSystem.from_uri(f"s3://people/?{options}")
    for _ in range(100):
        try:
            system.create_dir("people")
            break
        except OSError:
            time.sleep(0.2)
    yield system, options
    server.kill()
    server.wait()


def test_a_bucket_s_files(bucket: Any) -> None:
    system, options = bucket
    for number in range(3):
        with system.open_output_stream(f"people/in/k={number}/x.parquet") as sink:
            pq.write_table(TABLE.slice(number * 10, 10), sink)
    one = open_table(f"s3://people/in/k=1/x.parquet?{options}")
    assert sum(batch.num_rows for batch in one.batches(["a"])) == 10
    table = open_table(f"s3://people/in?{options}")
    assert table.schema.names == ["a", "b", "k"]
    for _ in range(2):
        assert sum(batch.num_rows for batch in table.batches(["a", "k"])) == 30
    some = open_table(f"s3://people/in/k=[12]/*.parquet?{options}")
    assert sum(batch.num_rows for batch in some.batches(["a"])) == 20
    with system.open_output_stream("people/in/k=1/x.parquet") as sink:
        pq.write_table(TABLE.slice(0, 10), sink)
    with pytest.raises(InputError, match="was changed while it was read"):
        list(table.batches(["a"]))
