"""The whole matrix of `fmwem verify`: every engine, question, relation and kind of input."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit.matrix import Configuration, matrix

PAIRS = 10
"""Of each configuration: 1,100 in all, more than the thousand of `python scripts/audit verify`. Planted bugs
are shown with as many as each needs, in tests/owner/verifier.
"""


@pytest.mark.parametrize("made", matrix(), ids=lambda made: made.name)
def test_the_matrix_holds(made: Configuration, tmp_path: Path) -> None:
    found = made.run(tmp_path, PAIRS)
    assert found.holds, "\n".join(map(str, found.failures))
