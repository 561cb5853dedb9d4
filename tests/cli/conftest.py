"""Here a ledger is one that commands made."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def books(command_books: Path) -> Path:
    return command_books
