"""What a parser under test is: a corpus of valid files, a way to make a hostile one, and what is done with
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from factored_mwem import FmwemError

Make = Callable[[Random, Sequence[bytes]], bytes]


@dataclass(frozen=True)
class Target:
    """`suffix` of the file; `corpus(folder)`: valid files; `make(random, corpus)`: a hostile one;
    `run(path)`: parse it and use what was parsed.
    """

    suffix: str
    corpus: Callable[[Path], list[bytes]]
    make: Make
    run: Callable[[Path], bool]


def allowed(act: Callable[..., Any], *arguments: Any) -> Any:
    """What `act` returns, or None where it refuses in one line; anything else that it raises goes on."""
    try:
        return act(*arguments)
    except FmwemError as error:
        text = str(error)
        assert text and text.isprintable(), f"not one printable line: {text[:200]!r}"
        return None
