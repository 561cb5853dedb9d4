"""The shape that the privacy argument leans on, held by walking the code: one door to private numbers, noise
in one place. That imports go one way, import-linter holds: tests/system/test_layers.py.

Every rule is a function from source texts to complaints, so that each is shown a planted violation, too.
"""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise
from support.sources import Sources, sources

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.pipeline.release import make
from factored_mwem.policy import Policy
from factored_mwem.privacy.counts import PrivateCounts, Sealed
from factored_mwem.tables.profile import ColumnProfile
from factored_mwem.tables.source import open_table
from factored_mwem.workload.workload import Workload

parsed = cache(ast.parse)
"""Every rule reads every module."""


ROOMS = (
    "accounting",
    "cli",
    "domain",
    "kernels",
    "ledger",
    "mechanisms",
    "model",
    "pipeline",
    "privacy",
    "tables",
    "verifier",
    "workload",
    "workload.queries",
)
"""`from factored_mwem.tables import draft` names the module `tables.draft`."""


def imports(text: str, *, package: str = "factored_mwem") -> Iterator[tuple[str, int]]:
    """(module, line) of all imports, inside functions too; those for type checking alone do not count."""
    tree = parsed(text)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in node.body
        for inner in ast.walk(child)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").removeprefix(f"{package}.") in (package, *ROOMS):
                yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module or "", node.lineno


HOME = {
    "numba": {"kernels"},
    "opendp": {"accounting.conversion", "privacy.noise", "verifier.tap"},
    "random": set(),
    "secrets": {"pipeline.release", "pipeline.result", "ledger.file", "ledger.run", "cli.jobs"},
    "pickle": set(),
    "logging": {"ledger.run"},
}
"""Libraries that only these modules may import."""
INSIDE_THE_VERIFIER = {
    "tap": ["comparison", "watch"],
    "comparison": ["watch"],
    "watch": [],
    "hostile": ["text_sheet", "typed_sheet"],
    "stranger": ["sheet", "text_sheet", "typed_sheet", "edits"],
    "text_sheet": ["sheet"],
    "typed_sheet": ["sheet"],
    "sheet": ["edits"],
    "edits": [],
}
NOT_PRIVATE = {
    "pipeline.evaluate": {"cli.jobs"},
    "tables.draft": {"pipeline.evaluate", "cli.admin"},
    "verifier.verify": {"cli.jobs"},
    **{
        f"verifier.{name}": {"verifier.verify", *(f"verifier.{by}" for by in others)}
        for name, others in INSIDE_THE_VERIFIER.items()
    },
}
"""Modules that read the data for free, and who may import them; `factored_mwem.__init__` hands them out by
name.
"""


def at_home(found: Sources) -> list[str]:
    wrong = []
    for name, text in found.items():
        for module, line in imports(text):
            top, own = module.split(".")[0], module.removeprefix("factored_mwem.")
            if name not in HOME.get(top, {name}) or (own in NOT_PRIVATE and name not in NOT_PRIVATE[own]):
                wrong.append(f"{name}:{line} imports {module}")
    return wrong


def attribute_calls(tree: ast.AST, attribute: str) -> Iterator[ast.AST]:
    """Every mention of `.attribute`, called or not: a bound method kept for later is a door, too. `getattr`
    with its name counts.
    """
    for node in ast.walk(tree):
        if (isinstance(node, ast.Attribute) and node.attr == attribute) or (
            isinstance(node, ast.Constant) and node.value == attribute
        ):
            yield node


def one_door(found: Sources) -> list[str]:
    """Sealed contents outside Sealed and Session._unseal; that one outside select, measure and the parts of
    discover; noise without a reading.
    """
    wrong = []
    for name, text in found.items():
        tree = parsed(text)
        inside = {id(n): owner for owner in _functions(tree) for n in ast.walk(owner[1])}
        for node in attribute_calls(tree, "reveal"):
            if (name, inside.get(id(node), ("",))[0]) != ("privacy.session", "Session._unseal"):
                wrong.append(f"{name}:{node.lineno} reveals")
        for node in attribute_calls(tree, "_contents"):
            if name != "privacy.counts" or inside.get(id(node), ("Sealed.",))[0] not in INSIDERS:
                wrong.append(f"{name}:{node.lineno} reaches into a sealed object")
        for node in attribute_calls(tree, "_unseal"):
            owner = inside.get(id(node), ("",))[0]
            if (name, owner) not in OPENERS:
                wrong.append(f"{name}:{node.lineno} opens private numbers in {owner or 'the module'}")
        for node in attribute_calls(tree, "noise"):
            of = ast.unparse(node.value) if isinstance(node, ast.Attribute) else ""
            here = "session" in of or (name, of) == ("privacy.session", "self")
            if here and (name, inside.get(id(node), ("",))[0]) not in OPENERS:
                wrong.append(f"{name}:{node.lineno} draws noise outside a reading")
    return wrong


INSIDERS = (
    "Sealed.",
    "Sealed.__init__",
    "Sealed.reveal",
    "PrivateRows.count",
    "PrivateRows.answer",
    "PrivateRows.public_total",
)
"""What handles sealed contents: Sealed itself, the steps that seal them again, with the counts of candidates
or the answers to questions, and the one that tells the number of rows where it is public.
"""
OPENERS = {
    ("privacy.session", "Session.select"),
    ("privacy.session", "Session.measure"),
    ("privacy.residuals", "measure_residuals"),
    ("privacy.discover", "_votes"),
    ("privacy.discover", "_bounds"),
    ("privacy.discover", "_magnitude"),
    ("privacy.discover", "_categories"),
}
"""The functions that open private numbers: select, measure, and the parts of discover."""


def _functions(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{f.name}", f) for f in node.body if isinstance(f, ast.FunctionDef))


def charges_first(found: Sources) -> list[str]:
    """Session._unseal must charge in one statement and reveal in a later one, with nothing between them that
    could skip the charge.
    """
    (body,) = [
        f.body for name, f in _functions(parsed(found["privacy.session"])) if name == "Session._unseal"
    ]
    statements = [
        ast.unparse(s) for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
    ]
    return (
        []
        if statements == ["self.accountant.charge(charge)", "return sealed.reveal()"]
        else [f"Session._unseal is {statements}"]
    )


SEEDED = ("pipeline.result", "workload.queries.ranges", "verifier.verify")
"""Where a generator is made: for sampling, for public workloads of random boxes, and for the neighbours of a
table that is verified.
"""


def no_seed(found: Sources) -> list[str]:
    """No seed, generator or switch anywhere in privacy/, and none of numpy's randomness; elsewhere only where
    sampling is.
    """
    wrong = []
    for name, text in found.items():
        tree = parsed(text)
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.arg)
                and name.startswith("privacy")
                and any(w in node.arg for w in ("seed", "rng", "random", "generator"))
            ):
                wrong.append(f"{name}:{node.lineno} takes {node.arg}")
            if (
                isinstance(node, ast.Attribute)
                and node.attr in ("random", "default_rng")
                and ast.unparse(node).startswith("np.random")
            ):
                annotation_only = name in ("model.sampling", "tables.codec", "model.refinement")
                if (
                    name.startswith("privacy")
                    or (node.attr == "default_rng" and name not in SEEDED)
                    or not (annotation_only or name in SEEDED)
                ):
                    wrong.append(f"{name}:{node.lineno} uses numpy's randomness")
    return wrong


RULES = {
    "at_home": at_home,
    "one_door": one_door,
    "charges_first": charges_first,
    "no_seed": no_seed,
}


@pytest.mark.parametrize("rule", list(RULES))
def test_the_code_keeps_the_rule(rule: str) -> None:
    assert RULES[rule](sources()) == []


PLANTED = [
    ("at_home", "mechanisms.mwem", "from numba import njit"),
    ("at_home", "pipeline.release", "import opendp.prelude as dp"),
    ("at_home", "privacy.noise", "import random"),
    ("at_home", "privacy.session", "from secrets import randbits"),
    ("at_home", "pipeline.release", "from factored_mwem.pipeline.evaluate import evaluate"),
    ("at_home", "pipeline.release", "def f():\n    from factored_mwem.tables import draft"),
    ("at_home", "pipeline.model_file", "import pickle"),
    ("one_door", "mechanisms.mwem", "n = counts.reveal().marginal(())"),
    ("one_door", "privacy.session", "def select(counts):\n    return counts.reveal()"),
    ("one_door", "pipeline.manifest", "def f(counts):\n    return getattr(counts, 'reveal')()"),
    ("one_door", "pipeline.release", "def f(counts):\n    return counts._contents.codes"),
    (
        "one_door",
        "privacy.counts",
        "class PrivateRows(Sealed):\n    def first(self):\n        return self._contents.codes[0][0]",
    ),
    ("one_door", "mechanisms.tree", "def f(rows):\n    return rows._contents"),
    ("one_door", "mechanisms.tree", "def f(rows):\n    return rows.reveal().marginal((0,))"),
    (
        "one_door",
        "mechanisms.mwem",
        "def peek(session, counts, charge):\n    return session._unseal(counts, charge)",
    ),
    ("one_door", "model.estimation", "def f(session):\n    return session.noise.add([1], scale=1.0)"),
    (
        "charges_first",
        "privacy.session",
        "class Session:\n    def _unseal(self, sealed, charge):\n        return sealed.reveal()",
    ),
    (
        "charges_first",
        "privacy.session",
        "class Session:\n    def _unseal(self, sealed, charge):\n        found = sealed.reveal()\n        "
        "self.accountant.charge(charge)\n        return found",
    ),
    ("no_seed", "privacy.noise", "def add(values, *, seed=None): ..."),
    ("no_seed", "privacy.discover", "x = np.random.default_rng(0)"),
    ("no_seed", "mechanisms.mwem", "x = np.random.random(3)"),
    ("no_seed", "model.sampling", "rng = np.random.default_rng()"),
]


@pytest.mark.parametrize(("rule", "module", "text"), PLANTED, ids=range(len(PLANTED)))
def test_the_rule_sees_a_planted_violation(rule: str, module: str, text: str) -> None:
    assert RULES[rule]({module: text})


def test_type_checking_imports_are_exempt() -> None:
    planted = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from factored_mwem.tables import draft"
    )
    assert at_home({"pipeline.release": "from factored_mwem.tables import draft"})
    assert not at_home({"pipeline.release": planted})


def _counts() -> PrivateCounts:
    domain = Domain([Attribute(name="a", categories=("0", "1"), constraints={"required": True})])
    return PrivateCounts([np.array([0, 1, 1], dtype=np.uint8)], Workload.marginals(1).candidates(domain))


@pytest.mark.parametrize("sealed", [Sealed({"secret": 31415}), _counts()], ids=["plain", "counts"])
def test_a_sealed_object_shows_nothing(sealed: Sealed) -> None:
    """Not in a log line, a pickle, a copy or its attributes' dictionary."""
    for act in (pickle.dumps, copy.copy, copy.deepcopy, lambda s: pickle.dumps([s], protocol=2)):
        with pytest.raises(TypeError, match="private"):
            act(sealed)
    for shown in (repr(sealed), str(sealed), f"{sealed}", f"{[sealed]}"):
        assert shown.strip("[]") == f"<{type(sealed).__name__}: private>"
    assert not hasattr(sealed, "__dict__")


def test_a_profile_shows_nothing() -> None:
    """A data class prints its fields by default, and error reports print locals."""
    profile = ColumnProfile(("string",))
    profile.texts["CANARY"] += 1
    assert "CANARY" not in repr(profile)


def test_fake_and_real_adapters_have_the_same_methods() -> None:
    """The fake stands for the protocol: a method it lacked would go untested."""
    from factored_mwem.privacy.noise import Noise, OpenDPNoise

    methods = {name for name in vars(Noise) if not name.startswith("_")}
    assert methods == {"select", "add", "threshold"}
    for adapter in (FakeNoise, OpenDPNoise):
        assert methods <= set(dir(adapter))
        assert {n for n in vars(adapter) if not n.startswith("_")} - methods <= {"CHUNK", "scales"}


def test_no_test_switch_reaches_the_public_function() -> None:
    """`noise` is a parameter of the inner function alone."""
    import inspect

    from factored_mwem.pipeline.release import release

    assert "noise" in inspect.signature(make).parameters
    assert "noise" not in inspect.signature(release).parameters
    with pytest.raises(Exception, match="noise"):
        release(open_table(pa.table({"a": ["x"]})), 1, noise=FakeNoise())  # type: ignore[arg-type]
    assert "seed" not in " ".join(Policy.model_fields)
