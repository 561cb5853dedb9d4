"""Programs as children of a process that has loaded everything: as they end and what they print is as of a
process of its own, without the second of CPU in which each would load the package, its libraries and kernels.

Not for tests of how a process starts, of what it loads, or of signals.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    asked = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(asked).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(asked)
    code = server.recv(4)
sys.exit(int(code) if code else "it died")
"""
"""What stands for the program: hands its streams to the server, and ends with the code of the child there."""
PROGRAMS = ("fmwem", "python-c")
"""The command, and `python -c`."""
_SCRIPT = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


def scripted(*command: object) -> list[str]:
    """The path of a script and its arguments as such a program, which is found on PATH."""
    return ["python-c", _SCRIPT, *map(str, command)]


def environment(*folders: Path, **more: str) -> dict[str, str]:
    """Ours without settings of the package, with the programs of `folders` before those installed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FMWEM_")}
    paths = [*map(str, folders), str(Path(sys.executable).parent), clean["PATH"]]
    return clean | {"PATH": os.pathsep.join(paths), "COLUMNS": "200", "NO_COLOR": "1", **more}


@contextlib.contextmanager
def programs() -> Iterator[Path]:
    """The folder where the programs are until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="fmwem-"))  # not deep: a socket's address is short
    address = str(folder / "socket")
    for name in PROGRAMS:
        (folder / name).write_text(CLIENT.format(python=sys.executable, address=address))
        (folder / name).chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, __file__, address],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        assert server.stdout.read(1) == b"."
        yield folder
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.communicate()
        shutil.rmtree(folder)


def _load() -> None:
    """What most programs would load, with a release of each engine; threads end with it."""
    import pandas as _pandas  # noqa: F401
    import pyarrow as pa

    from factored_mwem import Release, release
    from factored_mwem.cli import main as _main  # noqa: F401
    from factored_mwem.kernels import warmup

    warmup.compile_all([*warmup.HALVES[0], *warmup.HALVES[1]])
    sizes = {name: 3 + n % 4 for n, name in enumerate("abcdefgh")}
    table = pa.table({name: [i * i % size for i in range(900)] for name, size in sizes.items()})
    made: Release = release(table, 2, epsilon=1.0, domain=sizes, rounds=2)
    made.to_pandas()


def _serve(address: str) -> None:
    """Until whoever started it has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        os.write(1, b".")
        parent = 0  # a pipe that ends with it
        while parent not in select.select([listening.fileno(), parent], [], [])[0]:
            client, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _child(client)
            client.close()


def _child(client: socket.socket) -> None:
    """The program that a client asks for, with its streams, in its folder and environment."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, streams, _, _ = socket.recv_fds(client, 8, 3)
    argv, folder, environment = json.loads(client.makefile("rb").read(int.from_bytes(length, "big")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    code = _code_of(argv)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    client.sendall(str(code).encode())
    os._exit(code)


def _code_of(argv: list[str]) -> int:
    """The exit code of a program, once it has run."""
    name, *given = argv
    try:
        if Path(name).name == "fmwem":
            sys.argv = argv
            from factored_mwem.cli.main import main

            main()
        else:
            names: dict[str, Any] = {"__name__": "__main__"}
            sys.path.insert(0, "")
            sys.argv = ["-c", *given[1:]]
            exec(compile(given[0], "<string>", "exec"), names)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception:  # noqa: BLE001
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    _load()
    gc.freeze()  # else each child copies what it looks through
    _serve(sys.argv[1])
