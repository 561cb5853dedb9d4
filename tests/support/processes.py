"""Programs as processes of their own: how they end, what they print, and what a terminal shows of them."""

from __future__ import annotations

import contextlib
import os
import pty
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

PYTHON = (sys.executable, "-c")
"""A program in Python follows, and its arguments."""


def ended(*command: object, env: dict[str, str] | None = None, **options: Any) -> Any:
    """How a command ended, whatever its code, its outputs as text; `env` is set beside what is set here."""
    options = {"env": {**os.environ, **(env or {})}, "capture_output": True, "text": True, **options}
    return subprocess.run(list(map(str, command)), check=False, **options)


def printed(*command: object, **options: Any) -> str:
    """What a command prints that must end well."""
    done = ended(*command, **options)
    assert done.returncode == 0, done.stderr[-4000:]
    return str(done.stdout)


def started(*command: object, **options: Any) -> subprocess.Popen[str]:
    """Its streams are pipes, and it hears signals, which a child of one that ignores them ignores."""
    pipe = subprocess.PIPE
    options = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "text": True, **options}
    return subprocess.Popen(list(map(str, command)), preexec_fn=_listening, **options)  # noqa: PLW1509


def _listening() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def line(process: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    return process.stdout.readline()


@contextlib.contextmanager
def serving(*command: object, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A server, until the block ends; it says nothing."""
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
    process = subprocess.Popen(list(map(str, command)), **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """None of those that the system gives to connections, which could take it before a server listens."""
    while True:
        port = secrets.choice(range(20_000, 32_000))
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def on_a_terminal(stream: str, *command: object, **environment: str) -> tuple[str, str]:
    """What a command writes to `stream`, a terminal, control codes and all; and to the other, a pipe."""
    ours, theirs = pty.openpty()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: theirs}
    env, shown = {**os.environ, "TERM": "xterm", **environment}, b""
    process = subprocess.Popen(list(map(str, command)), text=True, env=env, **streams)
    os.close(theirs)
    with contextlib.suppress(OSError):  # the other side is closed
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    piped = "".join(filter(None, process.communicate()))
    assert process.returncode == 0, shown.decode() + piped
    return shown.decode(), piped
