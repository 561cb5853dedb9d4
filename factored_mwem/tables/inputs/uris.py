"""Places beyond the local disk: `s3://`, `gs://`, `abfs://`, `hdfs://` by Arrow's own file systems, any other
(`https://`, `memory://`) by fsspec.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from factored_mwem.errors import InputError

ARROW_SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "file")
"""Served by pyarrow.fs, without another package."""
_CONTAINERS = ("abfs", "abfss")
"""Of these a name before the host is that of the container."""
DATABASES = ("duckdb", "postgresql", "postgres", "bigquery", "snowflake")
"""Schemes that name a table in a database, see databases.py."""
SPARK = "spark:"
"""Begins the name of a table in the catalog of a Spark session."""
STANDARD_INPUT = "-"
"""What a command is given instead of a path."""
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


def is_uri(text: Any) -> bool:
    """Whether a text names a place by a scheme, as `s3://bucket/key` does."""
    return isinstance(text, str) and _SCHEME.match(text) is not None


def is_database(source: Any) -> bool:
    """Whether a text names a table in a database."""
    return is_uri(source) and source.split("://", 1)[0].lower() in DATABASES


def place_of(uri: str) -> tuple[Any, str]:
    """(pyarrow file system, path in it) of a URI. Raises InputError if its scheme is unknown, or what it
    needs is not installed; nothing is asked of the place itself.
    """
    import pyarrow as pa
    import pyarrow.fs as pafs

    place, scheme = shown(uri), uri.partition("://")[0].lower()
    if scheme in ARROW_SCHEMES:
        try:
            return pafs.FileSystem.from_uri(uri)
        except (pa.ArrowException, OSError, ValueError):
            how = f"correct it, and see that what {scheme}:// needs (credentials, a driver) is in place"
        raise InputError(f"cannot reach {place}: {how}")
    if scheme == "sqlite":
        how = "write the table as Parquet or CSV, or read it into a data frame for release()"
        raise InputError(f"{place}: tables in SQLite are not read; {how}")
    try:
        import fsspec
    except ImportError:
        raise InputError(f"{scheme}:// needs fsspec: pip install 'factored-mwem[remote]'") from None
    try:
        system, path = fsspec.core.url_to_fs(uri)
    except (ImportError, ValueError):
        how = f"no package knows {scheme}://; pip install 'factored-mwem[remote]' brings https"
        raise InputError(f"cannot reach {place}: {how}") from None
    return pafs.PyFileSystem(pafs.FSSpecHandler(system)), path


def shown(uri: str) -> str:
    """The URI without what may be secret in it: name and password before the host, and all parameters."""
    scheme, _, rest = uri.partition("://")
    address, _, more = rest.partition("?")
    if "@" in more and "@" not in address and ":" in address.partition("/")[0]:
        return f"{scheme}://..."  # a password with a `?` in it, perhaps
    user = address.partition("/")[0].rpartition("@")[0]
    container = user.partition(":")[0] if scheme in _CONTAINERS else ""
    return f"{scheme}://{container}{'@' if container else ''}{without_user(address)}"


def without_user(rest: str) -> str:
    """What stands behind a URI's `://`, without a name and password before the host. Behind a colon all is
    taken for a password up to the last `@`: it may hold a slash; a store's key may hold a `@`, too.
    """
    host = rest.partition("/")[0]
    return rest.rpartition("@")[2] if ":" in host else host.rpartition("@")[2] + rest[len(host) :]


def name_of(uri: str) -> str:
    """The last part of a URI's path: `s3://bucket/people/adult.csv` -> `adult.csv`."""
    return PurePosixPath(uri.split("://", 1)[1].split("?", 1)[0]).name
