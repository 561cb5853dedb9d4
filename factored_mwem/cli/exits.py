"""Exits: every command ends with one line, the documented exit code, and what budget was spent."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import typer

from factored_mwem.errors import COMPLETE, FmwemError, ResourceError, Stopped, check_system, told

PATIENCE = 20.0
"""Seconds after a signal during which another one is ignored."""


def run(app: Callable[..., Any]) -> NoReturn:
    """Run the command line's parser and commands; every failure is one line and the documented exit code."""
    _open_streams()
    _listen()
    as_json = "--json" in sys.argv
    try:
        check_system()
        code = app(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except (FmwemError, Stopped) as error:
        _fail(error, str(error), error.exit_code, as_json)
    except (KeyboardInterrupt, typer.Abort) as error:
        _fail(error, str(Stopped(130)), 130, as_json)
    except MemoryError as error:
        _fail(error, "out of memory; lower --max-cells or --max-memory", 4, as_json)
    except BrokenPipeError:
        _drop_output()
        sys.exit(1)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _fail(error, "no space left on the disk; free some", 4, as_json)
        _fail(error, _unexpected(error), 1, as_json)
    except Exception as error:  # noqa: BLE001 - the last line of defence
        # The text of an unknown error may quote the data, so it stays unsaid.
        shown = getattr(error, "format_message", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            print(shown() if shown else "see --help", file=sys.stderr)
            sys.exit(2)
        if shown is not None:  # the command-line parser's own complaints: usage, exit code 2
            _fail(error, str(shown()) or "see --help", getattr(error, "exit_code", 2), as_json)
        _fail(error, _unexpected(error), 1, as_json)


def _open_streams() -> None:
    """Open closed standard streams: else the next file gets their number, and what is printed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        if getattr(sys, name) is None:
            stream = open(os.devnull, "r+", encoding="utf-8")  # noqa: SIM115 - as long as the process lives
            setattr(sys, name, stream)


def _listen() -> None:
    """The first signal unwinds the stack, which removes temporary files. A second would disturb that."""
    codes = {
        getattr(signal, name): code
        for name, code in (("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129))
        if hasattr(signal, name)
    }
    signals: list[float] = []

    def stop(number: int, _: Any) -> None:
        if not signals or time.monotonic() - signals[-1] > PATIENCE:
            signals.append(time.monotonic())
            raise Stopped(codes[number])

    for number in codes:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, stop)


def unsaid(error: BaseException, facts: Mapping[str, Any]) -> BaseException:
    """The error for a release whose files are in place, but whose output could not be printed."""
    ending: Any = Stopped(getattr(error, "exit_code", 130))
    if isinstance(error, OSError):
        ending = ResourceError("cannot write to standard output or standard error")
    ending.budget_spent, ending.retryable = True, facts.get("run_id") is not None
    ending.advice = COMPLETE
    return ending


def _unexpected(error: BaseException) -> str:
    """An error by its type, and the nearest line of ours: no values, unlike a traceback's message."""
    import traceback

    ours = [f for f in traceback.extract_tb(error.__traceback__) if "factored_mwem" in f.filename]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "unknown place"
    return f"unexpected {type(error).__name__} at {place}; please report it"


def _fail(error: BaseException, message: str, code: int, as_json: bool) -> NoReturn:
    """One line and the exit code, also where a signal comes while the line is written."""
    try:
        _say(error, message, code, as_json)
    finally:
        sys.exit(code)


def _say(error: BaseException, message: str, code: int, as_json: bool) -> None:
    """Print an error, with what is known of its budget: whether any was spent, and whether to try again."""
    known = told(error)
    spent, retryable = (getattr(known, fact, False) for fact in ("budget_spent", "retryable"))
    plain = "run the same command again" if retryable else "change what the message names, then run again"
    advice = getattr(known, "advice", None) or plain
    with contextlib.suppress(OSError):
        if as_json:
            facts = {"error": message, "exit_code": code, "budget_spent": spent, "retryable": retryable}
            print(json.dumps(facts | {"advice": advice}), flush=True)
    with contextlib.suppress(OSError):
        more = f" (budget was spent; {advice})" if spent else ""
        print(f"fmwem: {message}{more}", file=sys.stderr, flush=True)
    _drop_output()


def _drop_output() -> None:
    """Keep the interpreter from ending with an exit code of its own because the output is full."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
