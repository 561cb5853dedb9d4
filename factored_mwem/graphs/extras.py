"""What the extra `graphs` brings, asked for before anything is spent."""

from __future__ import annotations

from importlib.util import find_spec

from factored_mwem.errors import InputError


def needed(library: str, what: str) -> None:
    """InputError where a library of the extra is not installed."""
    if find_spec(library) is None:
        raise InputError(f"{what} needs {library}: pip install 'factored-mwem[graphs]'")
