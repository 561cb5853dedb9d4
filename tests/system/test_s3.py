"""Outputs to S3, as a server on this machine plays it: `moto`, where it is installed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from support.commands import Fmwem

from factored_mwem import Release, release
from factored_mwem.errors import InputError

pytest.importorskip("moto.server", reason="no server for S3: pip install 'moto[server]'")
pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(number)]
    server = subprocess.Popen(command, stdout=quiet, stderr=quiet)
    try:
        for _ in range(300):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", number)) == 0:
                    break
            time.sleep(0.1)
        yield number
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def bucket(port: int, monkeypatch: pytest.MonkeyPatch) -> pafs.FileSystem:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    store = pafs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{port}", scheme="http", allow_bucket_creation=True
    )
    store.create_dir("bucket")
    store.delete_dir_contents("bucket")
    return store


def keys(store: pafs.FileSystem) -> list[str]:
    found = store.get_file_info(pafs.FileSelector("bucket", recursive=True))
    return sorted(info.path for info in found if info.type == pafs.FileType.File)


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
    with bucket.open_input_stream("bucket/x/out.manifest.json") as stream:
        assert json.loads(stream.read()) == folder.model_dump(mode="json")
    with bucket.open_input_stream("bucket/t.fmwem") as stream:
        (tmp_path / "t.fmwem").write_bytes(stream.read())
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
