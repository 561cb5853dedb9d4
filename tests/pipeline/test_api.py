"""What a newcomer meets first: the public names, what help and Tab show, and an example of each that runs."""

from __future__ import annotations

import doctest
import json
import math
import re
import subprocess
import sys
import tomllib
import typing
from fractions import Fraction
from pathlib import Path
from typing import get_type_hints

import pytest

import factored_mwem
from factored_mwem.accounting.accountant import GRID, SMOOTH, Mechanism, price
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.request.policy import Choices, Policy
from factored_mwem.request.promise import Terms, TermsChoices

ROOT = Path(factored_mwem.__file__).parents[1]
NAMES = ["factored_mwem", *factored_mwem.__all__]


def named(name: str) -> typing.Any:
    return factored_mwem if name == "factored_mwem" else getattr(factored_mwem, name)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_an_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    if name in ("ask", "learn"):
        request.getfixturevalue("quiet")
    (test,) = doctest.DocTestFinder(recurse=False).find(named(name), name, globs={})
    assert test.examples
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert not said, "".join(said)


def test_tab_shows_the_public_names() -> None:
    shown = [name for name in dir(factored_mwem) if not name.startswith("_")]
    assert shown == sorted(factored_mwem.__all__)
    assert set(factored_mwem._HOME) <= set(factored_mwem.__all__)
    for name in factored_mwem.__all__:
        assert named(name).__name__ == name and name in factored_mwem.__doc__
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = factored_mwem.nothing


def test_the_version_is_the_packages() -> None:
    from importlib.metadata import version

    assert factored_mwem.__version__ == version("factored-mwem")


def test_all_errors_a_user_can_catch_are_public() -> None:
    """All but the end that a signal asks for, which the command line raises and nobody should catch."""
    from factored_mwem import errors

    found = {n for n, of in vars(errors).items() if isinstance(of, type) and issubclass(of, BaseException)}
    assert found - {"Stopped"} == set(factored_mwem.__all__) - set(factored_mwem._HOME)


@pytest.mark.parametrize("name", factored_mwem.__all__)
def test_the_first_line_of_a_docstring_is_a_sentence(name: str) -> None:
    first = (named(name).__doc__ or "").splitlines()[0]
    assert 10 < len(first) <= 110 and first.endswith((".", ":"))


def test_choices_are_the_fields_of_a_policy() -> None:
    assert set(get_type_hints(Choices)) == set(Policy.model_fields)
    assert list(TermsChoices.__annotations__) == list(Terms.model_fields)


SNIPPET = """
from factored_mwem import Policy, release
release("t.csv", 2, epsilon=1.0, neighbours="replace", max_memory="2GB", rounds="adaptive")
release("t.csv", 2, epsilonn=1.0)
release("t.csv", 2, engine="other")
Policy.of(deltaa=0.0)
"""


@pytest.mark.system
def test_the_types_of_the_package_hold_and_a_misspelt_choice_is_seen(tmp_path: Path) -> None:
    (tmp_path / "snippet.py").write_text(SNIPPET)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    command += ["factored_mwem", str(tmp_path / "snippet.py")]  # at once: two runs take twice as long
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    wrong = [line for line in said.splitlines() if ": error: " in line]
    assert ["snippet.py" in line and int(line.split(":")[1]) for line in wrong] == [4, 5, 6], said
    assert "epsilonn" in wrong[0] and "other" in wrong[1] and "deltaa" in wrong[2]


def test_the_manifests_schema_says_what_an_entry_costs() -> None:
    """Whoever reads the schema alone recomputes every price."""
    schema = Manifest.model_json_schema()["$defs"]["ChargeRecord"]["properties"]["mechanism"]
    formulas = {
        mechanism: re.search(
            rf"^{re.escape(mechanism)}: ([^a-z]*[sb0-9 ()/*^]*) of (rho|epsilon)", schema["description"], re.M
        )
        for mechanism in Mechanism
        if mechanism not in SMOOTH.values()
    }
    for mechanism in SMOOTH.values():  # theirs are computed by hand below
        assert f"\n{mechanism}: " in schema["description"]
    for mechanism, found in formulas.items():
        assert found is not None, mechanism
        in_epsilon = (Mechanism.LAPLACE, Mechanism.PERMUTE_AND_FLIP, Mechanism.SPARSE_VECTOR)
        assert (found[2] == "rho") == (mechanism not in in_epsilon)
        for scale in (0.3, 1.0, 17.25):
            for sensitivity in (1, 2, 18):
                cost = eval(found[1].replace("^", "**"), {"s": sensitivity, "b": Fraction(scale)})
                told = Fraction(math.ceil(cost * GRID), GRID)
                assert told == price(mechanism, scale=scale, sensitivity=sensitivity)


@pytest.mark.parametrize("scale", [1.0, 2.7, 40.0])
@pytest.mark.parametrize("beta", [0.01, 0.3])
def test_the_schemas_formulas_of_smooth_sensitivity(scale: float, beta: float) -> None:
    s, delta, place = int(beta * 2**60), Fraction(1, 10**6), 1 / (2 * scale**2)
    t, u = s / 2**60 + 2**-26, 2 * math.pi * scale
    h = max(place, 2 * math.sinh(t / 2) ** 2 + math.exp(-t) * place)
    cauchy = 2 * math.asinh(math.sqrt(h / 2)) * (1 + u / math.sinh(u))
    second = math.log(2 / (1 + 1 / math.e) / delta) * math.expm1(t) - t / math.sinh(1)
    for mechanism, by_hand in (
        (Mechanism.SMOOTH_CAUCHY, cauchy),
        (Mechanism.SMOOTH_LAPLACE, 1 / scale + max(t, second)),
    ):
        told = price(mechanism, scale=scale, sensitivity=s, delta=delta)
        assert by_hand * (1 - 1e-14) <= told <= by_hand * (1 + 3e-12)


def test_pandas_comes_with_the_package() -> None:
    """`to_pandas()` works after a plain install; that importing loads none of it is test_architecture's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [need for need in project["dependencies"] if need.startswith("pandas")] == ["pandas>=2.2"]


def test_a_schema_shows_no_python() -> None:
    """What it says of a class is the class's docstring, but for the example."""
    for schema in (Manifest.model_json_schema(), factored_mwem.Domain.json_schema()):
        assert ">>>" not in json.dumps(schema)
    assert schema["$defs"]["Attribute"]["description"].startswith("A column and its finite set of codes.")
