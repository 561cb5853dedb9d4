"""What `bench same` fixes in the package of either side: noise, tokens, machine and clock."""

from __future__ import annotations

import datetime
import hashlib
import importlib
import importlib.metadata
import importlib.util
import re
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

PACKAGE = "factored_mwem"
DISTRIBUTION = "factored-mwem"
NAMES = {
    "noise": ("OpenDPNoise",),  # a class whose methods add, select, threshold, spread are replaced
    "machine": ("Machine",),  # a class whose method `of` looks at the machine
    "memory": ("memory_limit",),  # a function: bytes that tables may take
}
"""What is replaced, by the names that a side may have for it."""
MACHINE = (2e9, 2e-9)
"""The machine that all runs see: bytes for tables, seconds a step."""
NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


@dataclass
class Fixed:
    """All that is made up: it follows from the configuration's name and from how often it was asked for."""

    name: str = ""
    draws: int = 0
    stop: int | None = None
    error: type[BaseException] = KeyboardInterrupt
    asked: dict[str, int] = field(default_factory=dict)

    def begin(self, name: str) -> None:
        self.name, self.draws, self.stop, self.asked = name, 0, None, {}

    def draw(self, size: int, scale: float) -> np.ndarray:
        """int64[size]: the next noise; `error` where the run is to end here."""
        if self.stop is not None and self.draws >= self.stop:
            self.stop = None
            raise self.error
        self.draws += 1
        rng = np.random.default_rng(list(hashlib.sha256(f"{self.name}|{self.draws}".encode()).digest()))
        noise: np.ndarray = np.rint(rng.standard_normal(size) * float(scale)).astype(np.int64)
        return noise

    def token(self, kind: str, size: int) -> bytes:
        self.asked[kind] = self.asked.get(kind, 0) + 1
        return hashlib.shake_256(f"{self.name}|{kind}|{self.asked[kind]}".encode()).digest(size)


FIXED = Fixed()


class Stop(BaseException):
    """A run of the library ends here."""


class FixedNoise:
    """The methods of the package's noise, with ours in it."""

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        noisy: np.ndarray = np.asarray(values, dtype=np.int64) + FIXED.draw(len(values), scale)
        return noisy

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        return int(np.argmax(np.asarray(scores, dtype=np.int64) + FIXED.draw(len(scores), scale)))

    def threshold(
        self, counts: dict[str, int], *, scale: float, threshold: int, listed: tuple[str, ...] = ()
    ) -> dict[str, int]:
        keys, public = sorted(counts), set(listed)
        draws = FIXED.draw(len(keys), scale)
        noisy = {key: counts[key] + int(draw) for key, draw in zip(keys, draws, strict=True)}
        return {key: count for key, count in noisy.items() if key in public or count >= threshold}

    def spread(self, value: int, bound: float, *, shape: Any, scale: float) -> int:
        return value + int(FIXED.draw(1, bound * scale)[0])

    def _laplace(self, value: int, scale: float) -> int:
        """Of the tests of sparse vectors."""
        return value + int(FIXED.draw(1, scale)[0])


def fix_tokens() -> None:
    """Tokens, seeds and the program's version; before the package is imported: it may take them by name. But
    after numpy's random numbers, which draw one when they are first imported, whenever that is.
    """
    importlib.import_module("numpy.random.mtrand")
    loose: Any = secrets
    loose.token_bytes = lambda size=32: FIXED.token("bytes", size)
    loose.token_hex = lambda size=32: FIXED.token("hex", size).hex()
    loose.randbits = lambda bits: int.from_bytes(FIXED.token("bits", -(-bits // 8)), "big") >> -bits % 8
    metadata: Any = importlib.metadata
    known = metadata.version
    metadata.version = lambda name: "0" if name == DISTRIBUTION else known(name)


def fix_package(checkout: Path) -> None:
    """Noise, machine and clock. The modules that have them are found by their text and loaded; those that
    load later get what is replaced from these.
    """
    spec = importlib.util.find_spec(PACKAGE)
    home = Path(spec.origin or "").resolve().parent if spec else Path()
    if checkout.resolve() not in home.parents:
        raise SystemExit(f"{PACKAGE} came from {home}, not from {checkout}")
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(home.rglob("*.py"))}
    (noise, _), (machine, _), (_, memory) = (_defined(home, texts, what) for what in NAMES)
    for name in [name for name in vars(FixedNoise) if hasattr(noise, name) and "__" not in name]:
        setattr(noise, name, vars(FixedNoise)[name])
    machine.of = classmethod(lambda cls, *_, **__: cls(*MACHINE))
    clocks = [path for path, text in texts.items() if re.search(r"\.(now|utcnow|today)\(", text)]
    for module in [_module(home, path) for path in clocks]:
        if "datetime" in vars(module):
            _fix_clock(module)
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] == PACKAGE and memory in vars(module):
            setattr(module, memory, lambda *_, **__: MACHINE[0])


def _defined(home: Path, texts: Mapping[Path, str], what: str) -> tuple[Any, str]:
    """What NAMES calls so, from the module that defines it, and its name there."""
    for path, text in texts.items():
        if found := re.search(rf"^(?:class|def) ({'|'.join(NAMES[what])})\b", text, re.MULTILINE):
            return getattr(_module(home, path), found[1]), found[1]
    raise SystemExit(f"no {' or '.join(NAMES[what])} in {PACKAGE}: say in NAMES what it is called")


def _module(home: Path, path: Path) -> ModuleType:
    parts = path.relative_to(home.parent).with_suffix("").parts
    return importlib.import_module(".".join(parts).removesuffix(".__init__"))


class _OfClass(type):
    """Real dates and moments are instances of the fixed ones, too."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.__mro__[1])


class _Moment(datetime.datetime, metaclass=_OfClass):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return NOW.astimezone(tz) if tz else NOW.replace(tzinfo=None)

    utcnow = today = now


class _Day(datetime.date, metaclass=_OfClass):
    @classmethod
    def today(cls) -> Any:
        return NOW.date()


def _fix_clock(module: Any) -> None:
    """A module that asks for the time has `datetime` as a module or as the class."""
    if isinstance(module.datetime, ModuleType):
        module.datetime = SimpleNamespace(**{**vars(datetime), "datetime": _Moment, "date": _Day})
    else:
        module.datetime = _Moment
        if "date" in vars(module):
            module.date = _Day
