"""`fmwem` with a clock beside it: how many seconds each room of the package takes.

    python -P scripts/bench/rooms.py SECONDS.json release TABLE ...

A sample every few milliseconds counts for the innermost room on the main thread's stack: libraries and
compiled kernels count for the room that calls them. A checkout without rooms is told by its modules.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path

EVERY = 0.005
"""Seconds between samples, which cost some microseconds each."""


class Clock(threading.Thread):
    """Seconds by room, of the thread that made it."""

    def __init__(self, package: Path) -> None:
        super().__init__(daemon=True)
        self.spent: Counter[str] = Counter()
        self._package, self._watched = f"{package}/", threading.get_ident()
        self._over = threading.Event()

    def run(self) -> None:
        since = time.perf_counter()
        while not self._over.wait(EVERY):
            now = time.perf_counter()
            self.spent[self.room()] += now - since
            since = now

    def room(self) -> str:
        frame = sys._current_frames().get(self._watched)
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self._package):
                return file.removeprefix(self._package).split("/")[0].removesuffix(".py")
            frame = frame.f_back
        return "other"

    def stop(self) -> dict[str, float]:
        self._over.set()
        self.join()
        return {room: round(seconds, 4) for room, seconds in self.spent.items()}


def main() -> None:
    import factored_mwem

    try:
        from factored_mwem.cli.main import main as fmwem
    except ModuleNotFoundError:
        from factored_mwem.cli import main as fmwem  # a checkout without rooms
    out, sys.argv = Path(sys.argv[1]), ["fmwem", *sys.argv[2:]]
    clock = Clock(Path(factored_mwem.__file__).parent)
    clock.start()
    try:
        fmwem()
    finally:
        out.write_text(json.dumps(clock.stop()), encoding="utf-8")


if __name__ == "__main__":
    main()
