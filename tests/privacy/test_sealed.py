"""A sealed object shows nothing: not in a log line, a pickle, a copy or its attributes' dictionary."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.pipeline.release import make, release
from factored_mwem.privacy.counts import PrivateCounts, PrivateRows
from factored_mwem.privacy.noise import Noise, OpenDPNoise
from factored_mwem.privacy.rows import Sealed
from factored_mwem.request.policy import Policy
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.workload.workload import Workload


def _counts() -> PrivateCounts:
    domain = Domain([Attribute(name="a", categories=("0", "1"), constraints={"required": True})])
    rows = PrivateRows.coded([np.array([0, 1, 1], dtype=np.uint8)], domain)
    return rows.count(Workload.marginals(1).candidates(domain))


@pytest.mark.parametrize(
    "sealed",
    [Sealed({"secret": 31415}), _counts(), open_table(pa.table({"a": [31415]}))],
    ids=["plain", "counts", "table"],
)
def test_a_sealed_object_shows_nothing(sealed: Sealed) -> None:
    """Not in a log line, a pickle, a copy or its attributes' dictionary."""
    states = (lambda s: s.__getstate__(), lambda s: pickle.dumps([s], protocol=2))
    for act in (pickle.dumps, copy.copy, copy.deepcopy, *states):
        with pytest.raises(TypeError, match="private"):
            act(sealed)
    for shown in (repr(sealed), str(sealed), f"{sealed}", f"{[sealed]}"):
        assert shown.strip("[]") == f"<{type(sealed).__name__}: private>"
    assert not hasattr(sealed, "__dict__")


def test_a_profile_shows_nothing() -> None:
    """A data class prints its fields by default, and error reports print locals."""
    profile = ColumnProfile()
    profile.add(pa.array(["CANARY"]))
    assert profile.texts(()) == {"CANARY": 1}
    assert "CANARY" not in repr(profile) + str(profile) + f"{[profile]}"


def test_fake_and_real_adapters_have_the_same_methods() -> None:
    """The fake stands for the protocol: a method it lacked would go untested."""
    methods = {name for name in vars(Noise) if not name.startswith("_")}
    assert methods == {"select", "add", "threshold", "begin", "exceeds", "spread"}
    for adapter in (FakeNoise, OpenDPNoise):
        assert methods <= set(dir(adapter))
        assert {n for n in vars(adapter) if not n.startswith("_")} - methods <= {"CHUNK", "scales"}


def test_no_test_switch_reaches_the_public_function() -> None:
    """`noise` is a parameter of the inner function alone."""
    assert "noise" in inspect.signature(make).parameters
    assert "noise" not in inspect.signature(release).parameters
    with pytest.raises(Exception, match="noise"):
        release(open_table(pa.table({"a": ["x"]})), 1, noise=FakeNoise())  # type: ignore[arg-type]
    assert "seed" not in " ".join(Policy.model_fields)
