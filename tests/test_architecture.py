"""The shape that the privacy argument leans on, held by walking the code: one door to private numbers,
imports one way, noise in one place.

Every rule is a function from source texts to complaints, so that each is shown a planted violation, too.
"""

from __future__ import annotations

import ast
import copy
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fakes import FakeNoise

import factored_mwem
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.pipeline.manifest_check import _release
from factored_mwem.policy import Policy
from factored_mwem.privacy.counts import PrivateCounts, Sealed
from factored_mwem.tables.profile import ColumnProfile
from factored_mwem.tables.source import open_table
from factored_mwem.workload.workload import Workload

ROOT = Path(factored_mwem.__file__).parent
Sources = dict[str, str]
"""Module name below the package, such as "privacy.access", to its text."""


def sources() -> Sources:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__") if name != "__init__" else name] = path.read_text(
            encoding="utf-8"
        )
    return found


ORDER = (
    "errors", "faults", "input_file", "kernels", "kernels.dense", "kernels.graph", "kernels.tree", "kernels.joint", "kernels.scoring",
    "kernels.counting", "kernels.rows", "kernels.linear", "kernels.text", "warmup", "attribute", "domain", "levels", "candidates", "delimited",
    "table", "reading", "contributions", "output", "privacy", "privacy.neighbours", "privacy.noise", "codec", "transform", "tree", "joints",
    "model", "queries", "queries.ranges", "queries.cuboids", "queries.parities", "workload", "forest", "answers", "counting", "counts", "profile",
    "privacy.ledger", "privacy.cap", "chain", "entries", "ledger_form", "ledger_file", "privacy.journal", "journals", "books", "privacy.access",
    "privacy.questions", "privacy.residuals", "plan", "limits", "fit", "privacy.discover", "hierarchy", "residual", "outcome", "estimate", "mwem",
    "asking", "offer", "engine", "assumptions", "manifest", "manifest_check", "book_check", "refine", "sample", "store", "check", "request",
    "run", "flow", "settings", "drafting", "evaluation", "verifier", "verifier.tap", "verifier.watch", "verifier.hostile", "verifier.sheet",
    "verifier.edits", "verifier.verify", "job", "datasets", "console", "endings", "subcommands", "cli",
)  # fmt: skip
"""A module imports only modules before it. To add one, put it as early as its imports allow."""


def imports(text: str, *, package: str = "factored_mwem") -> Iterator[tuple[str, int]]:
    """(module, line) of all imports, inside functions too; those for type checking alone do not count."""
    tree = ast.parse(text)
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
            if node.module in (package, f"{package}.privacy"):
                yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module or "", node.lineno


def one_way(found: Sources) -> list[str]:
    """Imports that go up the order; modules that are not in it."""
    wrong = [f"{name} is not in ORDER" for name in found if name not in (*ORDER, "__init__")]
    for name, text in found.items():
        for module, line in imports(text):
            target = module.removeprefix("factored_mwem.")
            if target in ORDER and name in ORDER and ORDER.index(target) >= ORDER.index(name):
                wrong.append(f"{name}:{line} imports {target}")
    return wrong


HOME = {
    "numba": {"kernels"},
    "opendp": {"privacy.noise", "verifier.tap"},
    "random": set(),
    "secrets": {"flow", "job", "ledger_file", "run"},
    "pickle": set(),
    "logging": set(),
}
"""Libraries that only these modules may import."""
NOT_PRIVATE = {
    "evaluation": {"job"}, "drafting": {"evaluation", "subcommands"}, "verifier.verify": {"job"},
    **{f"verifier.{name}": {"verifier.verify", *(f"verifier.{by}" for by in others)}
       for name, others in {"tap": ["watch"], "watch": [], "hostile": ["sheet"], "sheet": ["edits"], "edits": []}.items()},
}  # fmt: skip
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
    """Sealed contents outside Sealed and Access.open; Access.open outside select, measure and discover's
    helpers; noise without a reading.
    """
    wrong = []
    for name, text in found.items():
        tree = ast.parse(text)
        inside = {id(n): owner for owner in _functions(tree) for n in ast.walk(owner[1])}
        for node in attribute_calls(tree, "reveal"):
            if name != "privacy.access" or inside.get(id(node), ("",))[0] != "Access.open":
                wrong.append(f"{name}:{node.lineno} reveals")
        for node in attribute_calls(tree, "_contents"):
            if name != "counts" or inside.get(id(node), ("Sealed.",))[0] not in INSIDERS:
                wrong.append(f"{name}:{node.lineno} reaches into a sealed object")
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and node.attr == "open"
                and ast.unparse(node.value).split(".")[-1] in ("access", "Access")
            ):
                owner = inside.get(id(node), ("",))[0]
                if (name, owner) not in OPENERS:
                    wrong.append(f"{name}:{node.lineno} opens private numbers in {owner or 'the module'}")
            if (
                isinstance(node, ast.Attribute)
                and ast.unparse(node) == "access.noise"
                and (name, inside.get(id(node), ("",))[0]) not in OPENERS
            ):
                wrong.append(f"{name}:{node.lineno} draws noise outside a reading")
    return wrong


INSIDERS = ("Sealed.", "Sealed.__init__", "Sealed.reveal", "PrivateRows.count")
"""What handles sealed contents: Sealed itself, and the one step that seals them again, with the counts of
candidates.
"""
OPENERS = {
    ("privacy.access", "select"), ("privacy.access", "measure"), ("privacy.residuals", "measure_residuals"),
    ("privacy.questions", "select_question"), ("privacy.questions", "measure_question"),
    ("privacy.discover", "_votes"), ("privacy.discover", "_bounds"), ("privacy.discover", "_magnitude"), ("privacy.discover", "_categories"),
}  # fmt: skip
"""The functions that open private numbers: select, measure, and the parts of discover."""


def _functions(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{f.name}", f) for f in node.body if isinstance(f, ast.FunctionDef))


def charges_first(found: Sources) -> list[str]:
    """Access.open must charge in one statement and reveal in a later one, with nothing between them that
    could skip the charge.
    """
    (body,) = [f.body for name, f in _functions(ast.parse(found["privacy.access"])) if name == "Access.open"]
    statements = [
        ast.unparse(s) for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
    ]
    return (
        []
        if statements == ["self.ledger.charge(entry)", "return sealed.reveal()"]
        else [f"Access.open is {statements}"]
    )


SEEDED = ("flow", "queries.ranges", "verifier.verify")
"""Where a generator is made: for sampling, for public workloads of random boxes, and for the neighbours of a
table that is verified.
"""


def no_seed(found: Sources) -> list[str]:
    """No seed, generator or switch anywhere in privacy/, and none of numpy's randomness; elsewhere only where
    sampling is.
    """
    wrong = []
    for name, text in found.items():
        tree = ast.parse(text)
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
                annotation_only = name in ("sample", "codec", "refine")
                if (
                    name.startswith("privacy")
                    or (node.attr == "default_rng" and name not in SEEDED)
                    or not (annotation_only or name in SEEDED)
                ):
                    wrong.append(f"{name}:{node.lineno} uses numpy's randomness")
    return wrong


RULES = {
    "one_way": one_way,
    "at_home": at_home,
    "one_door": one_door,
    "charges_first": charges_first,
    "no_seed": no_seed,
}


@pytest.mark.parametrize("rule", list(RULES))
def test_the_code_keeps_the_rule(rule: str) -> None:
    assert RULES[rule](sources()) == []


PLANTED = [
    ("one_way", "domain", "from factored_mwem.pipeline.release import release"),
    ("one_way", "domain", "def f():\n    from factored_mwem import cli"),
    ("one_way", "surprise", "x = 1"),
    ("at_home", "mwem", "from numba import njit"),
    ("at_home", "flow", "import opendp.prelude as dp"),
    ("at_home", "privacy.noise", "import random"),
    ("at_home", "privacy.access", "from secrets import randbits"),
    ("at_home", "flow", "from factored_mwem.pipeline.evaluate import evaluate"),
    ("at_home", "flow", "def f():\n    from factored_mwem import drafting"),
    ("at_home", "store", "import pickle"),
    ("one_door", "mwem", "n = counts.reveal().marginal(())"),
    ("one_door", "privacy.access", "def select(counts):\n    return counts.reveal()"),
    ("one_door", "manifest", "def f(counts):\n    return getattr(counts, 'reveal')()"),
    ("one_door", "flow", "def f(counts):\n    return counts._contents.codes"),
    (
        "one_door",
        "counts",
        "class PrivateRows(Sealed):\n    def first(self):\n        return self._contents.codes[0][0]",
    ),
    ("one_door", "engine", "def f(rows):\n    return rows._contents"),
    ("one_door", "engine", "def f(rows):\n    return rows.reveal().marginal((0,))"),
    ("one_door", "mwem", "def peek(access, counts, entry):\n    return access.open(counts, entry)"),
    ("one_door", "fit", "def f(access):\n    return access.noise.add([1], scale=1.0)"),
    (
        "charges_first",
        "privacy.access",
        "class Access:\n    def open(self, sealed, entry):\n        return sealed.reveal()",
    ),
    (
        "charges_first",
        "privacy.access",
        "class Access:\n    def open(self, sealed, entry):\n        found = sealed.reveal()\n        "
        "self.ledger.charge(entry)\n        return found",
    ),
    ("no_seed", "privacy.noise", "def add(values, *, seed=None): ..."),
    ("no_seed", "privacy.discover", "x = np.random.default_rng(0)"),
    ("no_seed", "mwem", "x = np.random.random(3)"),
    ("no_seed", "sample", "rng = np.random.default_rng()"),
]


@pytest.mark.parametrize(("rule", "module", "text"), PLANTED, ids=range(len(PLANTED)))
def test_the_rule_sees_a_planted_violation(rule: str, module: str, text: str) -> None:
    assert RULES[rule]({**sources(), module: text})


def test_type_checking_imports_are_exempt() -> None:
    assert not one_way(
        {
            "store": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from factored_mwem.flow import Release"
        }
    )


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


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import factored_mwem` is what every command and every completion pays for."""
    code = "import sys, factored_mwem; print([m for m in ('pandas', 'numba', 'opendp', 'pyarrow', 'numpy', 'rich') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_release_loads_no_pandas() -> None:
    code = "import sys, factored_mwem.pipeline.release, factored_mwem.cli.jobs; print([m for m in ('pandas', 'opendp') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


RUN = """
import numpy as np, pyarrow as pa
from factored_mwem import release
from factored_mwem.kernels import counting, dense, graph, joint, rows, scoring, tree
rng = np.random.default_rng(0)
binary = pa.table({f"b{i}": pa.array(rng.random(500) < 0.5) for i in range(16)})
mixed = pa.table({"a": rng.integers(0, 50, 500), "b": rng.normal(size=500), "c": rng.choice(["x", "y", "z"], 500)})
mwem = {"engine": "mwem"}
paper = {"neighbours": "replace", "initial": "histogram", **mwem}
for table, choices in ((binary, {}), (mixed, {}), (binary, mwem), (mixed, paper)):
    release(table, 2, epsilon=9.0, rounds=3, **choices).to_arrow()
release(mixed, 3, epsilon=9.0, rounds=3, initial="none", replay=False, **mwem).to_arrow()
release(mixed, 3, epsilon=9.0, time_budget=60.0).to_arrow()
for name, kernel in {**vars(counting), **vars(dense), **vars(graph), **vars(joint), **vars(rows), **vars(scoring), **vars(tree)}.items():
    if hasattr(kernel, "signatures"):
        print(name, len(kernel.signatures))
"""


def test_every_kernel_has_one_compiled_signature_after_a_run() -> None:
    """A second signature means that a wrapper hands over other types: it is compiled again, on a user's
    time.
    """
    found = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True)
    counts = {name: int(count) for name, count in (line.split() for line in found.stdout.splitlines())}
    called = {
        alias.name
        for module, text in sources().items()
        for node in ast.walk(ast.parse(text))
        if not module.startswith("kernels")
        and isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("factored_mwem.kernels.")
        for alias in node.names
    }
    assert {name: count for name, count in counts.items() if name in called} == dict.fromkeys(
        called & set(counts), 1
    )
    assert (
        max(counts.values()) == 1
    )  # kernels that only kernels call count as 0 when they came from the disk cache
    assert len(called & set(counts)) >= 14


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

    assert "noise" in inspect.signature(_release).parameters
    assert "noise" not in inspect.signature(release).parameters
    with pytest.raises(Exception, match="noise"):
        release(open_table(pa.table({"a": ["x"]})), 1, noise=FakeNoise())  # type: ignore[arg-type]
    assert "seed" not in " ".join(Policy.model_fields)
