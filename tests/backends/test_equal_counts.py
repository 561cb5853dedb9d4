"""Every backend gives the same counts of one hostile table, bit for bit, as plain Python does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from support.hostile_table import (
    codes_of,
    hostile_domain,
    hostile_table,
    hostile_views,
    oracle_counts,
)

from factored_mwem.backends.source import Spill, open_source
from factored_mwem.tables.codec import encode


def test_the_codec_agrees_with_plain_python() -> None:
    domain, table = hostile_domain(typed=True), hostile_table(3000, typed=True)
    for attribute, codes in zip(domain, codes_of(domain, table), strict=True):
        column = table[attribute.name].combine_chunks()
        assert encode(attribute, column).tolist() == codes, attribute.name
