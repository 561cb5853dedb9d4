"""Sessions, graphs, sketches and statistics drawn with noise that is given."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from factored_mwem.pipeline.spending import FAKE_NOISE
from factored_mwem.privacy.noise import Noise


@contextlib.contextmanager
def drawing(noise: Noise | None) -> Iterator[None]:
    """Whatever is spent inside draws `noise` in place of OpenDP's; None: OpenDP's."""
    token = FAKE_NOISE.set(noise)
    try:
        yield
    finally:
        FAKE_NOISE.reset(token)
