"""The shape that the privacy argument leans on, held by walking the code: one door to private numbers, noise
in one place. That imports go one way, import-linter holds: tests/system/test_layers.py.

Every rule is a function from source texts to complaints, so that each is shown a planted violation, too.
"""

from __future__ import annotations

import ast
import copy
import pickle
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise
from support.sources import Sources, sources

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.pipeline.release import make
from factored_mwem.policy import Policy
from factored_mwem.privacy.counts import PrivateCounts, PrivateRows, Sealed
from factored_mwem.tables.profile import ColumnProfile
from factored_mwem.tables.source import open_table
from factored_mwem.workload.workload import Workload

parsed = cache(ast.parse)
"""Every rule reads every module."""


ROOMS = (
    "accounting",
    "answers",
    "cli",
    "documents",
    "domain",
    "graphs",
    "interactive",
    "interactive.constructions",
    "kernels",
    "ledger",
    "mechanisms",
    "model",
    "pipeline",
    "privacy",
    "sparse",
    "statistics",
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
    "secrets": {
        "privacy.noise",  # for a discrete Cauchy, which OpenDP does not have: exact, from the same entropy
        "statistics.sample",  # a key by which rows go to blocks: any will do, but nobody may know it before
        "pipeline.release",
        "pipeline.result",
        "sparse.build",  # of a hash, which is public
        "ledger.database",
        "ledger.file",
        "ledger.run",
        "cli.jobs",
        "backends.spark",
        "pipeline.draw_on_spark",
        "graphs.release",
    },
    "psycopg": {"ledger.postgres"},
    "deltalake": {"tables.delta"},
    "pyiceberg": {"tables.iceberg"},
    "pickle": set(),
    "logging": {
        "ledger.run",
        "pipeline.release",
        "pipeline.learn_domain",
        "pipeline.writing",
        "pipeline.model_file",
        "graphs.release",
        "sparse.build",
        "sparse.sketch_file",
        "backends.spark_rows",  # which keeps quiet a log of PySpark that quotes rows
    },
    "pyspark": {"backends.spark", "backends.spark_rows", "pipeline.draw_on_spark"},
}
"""Libraries that only these modules may import. Those that log have rows sealed alone, or none."""
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
INSIDE_EVALUATE = {
    "readings": ["evaluate", "value_errors", "neutral_bins"],
    "value_errors": ["evaluate"],
    "correlations": ["evaluate"],
    "neutral_bins": ["evaluate"],
    "binned_errors": ["evaluate"],
}
DRAWN_AGAINST = ("readings", "binned_errors", "value_errors")
"""Of these, what the page that draws a release beside the real table is made with."""
NOT_PRIVATE = {
    "pipeline.evaluate": {"cli.jobs", "documents.private_page"},
    **{
        f"pipeline.{name}": {f"pipeline.{by}" for by in others}
        | ({"documents.against", "documents.private_page"} if name in DRAWN_AGAINST else set())
        for name, others in INSIDE_EVALUATE.items()
    },
    "documents.against": {"documents.private_page"},
    "documents.quality": {"documents.private_page"},
    "documents.private_page": {"documents.private_report"},
    "documents.private_report": {"cli.jobs"},
    "tables.draft": {"cli.drafts"},
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
            if (name, inside.get(id(node), ("",))[0]) not in DOORS:
                wrong.append(f"{name}:{node.lineno} reveals")
        slots = {id(word) for n in ast.walk(tree) if _is_slots(n) for word in ast.walk(n)}
        for node in attribute_calls(tree, "_contents"):
            owner = inside.get(id(node), ("",))[0]
            if (name != "privacy.counts" or owner not in INSIDERS) and id(node) not in slots:
                wrong.append(f"{name}:{node.lineno} reaches into a sealed object")
        for node in attribute_calls(tree, "_unseal_again"):
            if (name, inside.get(id(node), ("",))[0]) != ("privacy.session", "Session.exceeds"):
                wrong.append(f"{name}:{node.lineno} looks without paying")
        for node in attribute_calls(tree, "_unseal"):
            owner = inside.get(id(node), ("",))[0]
            if (name, owner) not in OPENERS:
                wrong.append(f"{name}:{node.lineno} opens private numbers in {owner or 'the module'}")
        for node in attribute_calls(tree, "noise"):
            of = ast.unparse(node.value) if isinstance(node, ast.Attribute) else ""
            here = "session" in of or (name, of) == ("privacy.session", "self")
            if here and (name, inside.get(id(node), ("",))[0]) not in OPENERS | TESTERS:
                wrong.append(f"{name}:{node.lineno} draws noise outside a reading")
    return wrong


def _is_slots(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__"


INSIDERS = (
    "Sealed.__init__",
    "Sealed.reveal",
    "PrivateRows.count",
    "PrivateRows.recode",
    "PrivateRows.foresee",
    "PrivateRows.answer",
    "PrivateRows.compare",
    "PrivateRows.asked",
    "PrivateRows.public_total",
    "PrivateRows.values",
    "PrivateRows.judge",
    "PrivateRows.blocks",
)
"""What handles sealed contents: Sealed itself, the steps that seal them again, in another domain, with the
counts of candidates, the answers to questions, the distances to public tables, as the values of a column,
as scores of hypotheses, as a function's results on blocks or for questions one by one, and the one that
tells the number of rows where it is public.
"""
DOORS = {("privacy.session", "Session._unseal"), ("privacy.session", "Session._unseal_again")}
"""Where sealed contents are given out: for a charge, or for a test that was charged when it began."""
TESTERS = {("privacy.session", "Session.begin"), ("privacy.session", "Session.exceeds")}
"""A sparse vector test pays when it begins, and then looks again and again."""
OPENERS = {
    ("privacy.session", "Session.select"),
    ("privacy.session", "Session.measure"),
    ("privacy.residuals", "measure_residuals"),
    ("privacy.smooth", "measure_smooth"),
    ("privacy.discover", "read_votes"),
    ("privacy.discover", "Reader.popular"),
    ("privacy.discover", "Reader.histogram"),
    ("privacy.projected", "measure_by_laplace"),
}
"""The functions that open private numbers: select, measure, the parts of discover, and the printed noise of a
sketch.
"""


def _functions(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{f.name}", f) for f in node.body if isinstance(f, ast.FunctionDef))


def charges_first(found: Sources) -> list[str]:
    """A door must charge, or find the charge of a test, in one statement and reveal in a later one, with
    nothing between them that could skip it; a test charges before it draws.
    """
    functions, wrong = dict(_functions(parsed(found["privacy.session"]))), []
    for name, whole in CHARGING.items():
        if name not in functions:
            continue
        statements = [
            ast.unparse(s)
            for s in functions[name].body  # type: ignore[attr-defined]
            if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        ]
        if statements[-len(whole) :] != whole:
            wrong.append(f"{name} is {statements}")
    return wrong if functions.keys() & CHARGING else ["no door is where it was"]


CHARGING = {
    "Session._unseal": ["self.accountant.charge(charge)", "return sealed.reveal()"],
    "Session._unseal_again": ["check_paid(test, self.accountant)", "return sealed.reveal()"],
    "Session.begin": [
        "self.accountant.charge(charge)",
        "return SparseVector(charge, sensitivity, for_tests(self.noise).begin(scale=scale))",
    ],
}
"""The last statements of what must pay first."""


def sealed_at_once(found: Sources) -> list[str]:
    """`discover` seals every profile in the statement that makes it, and hands it to its readings alone;
    learning hands the table to `discover` and to the encoding alone; rows that are sealed again are not
    looked at.
    """
    wrong = []
    for module, owner, words, whole in SEALING:
        function = dict(_functions(parsed(found[module]))).get(owner) if module in found else ast.Pass()
        if function is None:
            wrong.append(f"{module} has no {owner}")
            continue
        wrong += [f"{module} {owner}: {use}" for use in _uses(function, words) if use not in whole]
    return wrong


SEALING = (
    (
        "privacy.discover",
        "discover",
        ("table", "profile", "profiles"),
        {
            "profiles = {name: Sealed(found) for name, found in table.profile(names).items()}",
            "names = [name for name in table.schema.names if columns is None or name in columns]",
            "table.check_column(name)",
            "fields = [table.schema.field(name) for name in names]",
            "votes = [read_votes(session, name, profiles[name], first / len(names)) for name in names]",
            "reader = Reader(session, profiles[column.name], start)",
        },
    ),
    (
        "mechanisms.learn",
        "learn",
        ("table",),
        {
            "found = discover(session, table, columns, partial(discovery_share, policy, budget))",
            "session = session.encode(first, table)",
        },
    ),
    (
        "privacy.projected",
        "PrivateProjection.of",
        ("table", "profile"),
        {
            "return cls(Projected(table.profile([column])[column], universe, projection), column, "
            "projection.size)"
        },
    ),
    (
        "sparse.build",
        "make",
        ("source", "private", "sealed"),
        {
            "source = request.private",
            "source = source.bounded(policy.privacy_id, policy.contributions)",
            "sealed = PrivateProjection.of(source, request.column, universe, projection)",
            "measured = measure_by_laplace(session, sealed, cost=cost)",
            "measured = session.measure(sealed, (), cost=cost)",
        },
    ),
    (
        "privacy.counts",
        "PrivateRows.asked",
        ("_contents",),
        {"return PrivateQuestions(Counted(self._contents), self.names)"},
    ),
    (
        "interactive.asking",
        "asking",
        ("bounded",),
        {"session = session.encode(whole.modelled, scope.bounded())"},
    ),
    (
        "privacy.counts",
        "PrivateRows.recode",
        ("_contents", "recoded"),
        {
            "rows, at = (self._contents, [self.names.index(name) for name in domain.names])",
            "recoded = PrivateRows.__new__(PrivateRows)",
            "Sealed.__init__(recoded, Rows(rows.data, Levels.fine(domain.shape), columns, lookups))",
            "recoded.names = domain.names",
            "return recoded",
        },
    ),
)
"""By function, the words that stand for private rows, and every statement of it that may say them."""


def _uses(function: ast.AST, words: tuple[str, ...]) -> Iterator[str]:
    """The innermost statements that say one of the words."""
    for node in ast.walk(function):
        if isinstance(node, ast.stmt) and node is not function:
            inside = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
            said = {getattr(n, "id", getattr(n, "attr", None)) for child in inside for n in ast.walk(child)}
            if said & set(words):
                yield ast.unparse(node)


PROFILING = {
    "tables.profile",
    "tables.draft",
    "backends.source",
    "backends.spark",
    "backends.sql",
    "privacy.discover",
    "privacy.projected",  # sealed in the statement that makes it
}
WHO_SAYS = {
    "profile": PROFILING,
    "ColumnProfile": PROFILING,
    "recode": {"privacy.counts", "privacy.session", "mechanisms.learn"},
    "encode_table": {"backends.codes", "backends.source"},
    "encoded": {
        "backends.source",
        "backends.spark",
        "backends.sql",
        "privacy.counts",
        "pipeline.readings",
        "tables.decode",
    },
    "exact_counts": {
        "backends.datavectors",
        "backends.codes",
        "backends.held",
        "backends.spark_rows",
        "backends.sql",
        "privacy.counts",
        "pipeline.certificate",  # of released rows, which are public
    },
    "paid_by": {"privacy.session", "pipeline.attempts"},
    "bounded": {
        "backends.source",
        "backends.spark",
        "backends.sql",
        "mechanisms.plan",
        "pipeline.release",
        "pipeline.learn_domain",
        "interactive.asking",
        "statistics.rows",
        "graphs.request",  # on the way to PrivateEdges.read, which seals
        "sparse.build",
    },
    "read_edges": {"tables.edge_list", "privacy.edges"},
    "Edges": {"privacy.edges"},
    "bound_contributions": {"tables.contributions", "backends.source"},
    "OpenDPNoise": {
        "privacy.noise",
        "pipeline.release",
        "pipeline.learn_domain",
        "pipeline.task",
        "sparse.build",  # Laplace's, where rho pays for it
        "verifier.watch",
    },
    "public_total": {
        "privacy.counts",
        "privacy.session",
        "mechanisms.total",
        "mechanisms.certify",
        "statistics.column_statistic",
        "answers.evidence",  # a field of what was published, no reading
        "answers.looks",
        "answers.refits",
        "answers.dense_refit",
    },
    "Rows": {
        "privacy.counts",
        "privacy.distances",
        "privacy.residuals",
        "privacy.column",
        "privacy.hypotheses",
        "privacy.blocks",
        "privacy.asked",
        "pipeline.binned_errors",
        "verifier.sheet",
        "verifier.typed_sheet",
    },
    "TrueAnswers": {"privacy.counts"},
    "ColumnValues": {"privacy.column"},
    "HypothesisScores": {"privacy.hypotheses"},
    "BlockResults": {"privacy.blocks"},
    "GraphValues": {"privacy.graph_values"},
    "PrivateGraph": {"privacy.graph_values", "statistics.graph_statistic"},
    "Projected": {"privacy.projected"},
    "PrivateProjection": {"privacy.projected", "sparse.build"},
}
"""Names that lead to rows, exact answers or noise, and the modules that may say them."""
NO_WAY_ROUND = {"__getstate__", "__dict__", "__getattribute__", "get_referents", "attrgetter", "f_locals"}
GETATTR = ("workload.workload",)
"""Where a workload's kinds are asked for by their keys."""
BEGINS = ("pipeline.release", "pipeline.learn_domain", "pipeline.task", "accounting.accountant")
"""Where an accountant and a session begin; a part of an accountant is one that may spend less."""
ENCODES = ("pipeline.release", "mechanisms.learn", "statistics.rows", "interactive.asking")
"""Where a session is given the rows of a table, once."""
ENCODES = ("pipeline.release", "mechanisms.learn", "interactive.asking", "statistics.rows")
"""What hands a table to the door, once: a release, learning, a session of questions, a statistic."""
AUDITED = ("mechanisms.", "model.", "privacy.", "workload.", "interactive.", "pipeline.describe")


def no_way_round(found: Sources) -> list[str]:
    """Rows, exact answers, noise and the accountant's sums by any way but a session's verbs."""
    wrong = []
    for name, text in found.items():
        for node in ast.walk(parsed(text)):
            word = getattr(node, "attr", getattr(node, "id", getattr(node, "name", None)))
            if word in WHO_SAYS and name not in WHO_SAYS[word]:
                wrong.append(f"{name} says {word}")
            if word in NO_WAY_ROUND and name.startswith(AUDITED):
                wrong.append(f"{name} says {word}")
            wrong += [f"{name}:{getattr(node, 'lineno', 0)} {what}" for what in _ways(name, node)]
    return wrong


def _ways(name: str, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        of = ast.unparse(node.value)
        elsewhere = name.startswith(AUDITED) and name not in ("mechanisms.plan", "pipeline.describe")
        if node.attr == "private" and of.endswith("request") and elsewhere:
            yield "reaches for the table"
        if node.attr == "batches" and name.startswith(AUDITED):
            yield "reads rows"
        stored = isinstance(node.ctx, ast.Store) and node.attr in ("spent", "spent_delta", "charge")
        if stored and name != "accounting.accountant":
            yield "changes an accountant"
    if isinstance(node, ast.Call):
        function, named = ast.unparse(node.func), {k.arg for k in node.keywords}
        if function in ("Session", "Accountant") and name not in BEGINS:
            yield f"makes a {function}"
        parts = function.endswith("replace") and named & {"noise", "unit", "accountant", "_rows"}
        if parts and name != "privacy.session":
            yield "changes a part of a session"
        if function.endswith("session.encode") and name not in ENCODES:
            yield "encodes another table"
        draws = function.endswith(
            (
                ".noise.add",
                ".noise.select",
                ".noise.threshold",
                ".noise.begin",
                ".noise.exceeds",
                ".noise.spread",
                ".noise).spread",
            )
        )
        if draws and not name.startswith("privacy."):
            yield "draws noise"
        made_up = function == "getattr" and not isinstance(node.args[1], ast.Constant)
        if made_up and name.startswith(AUDITED) and name not in GETATTR:
            yield "asks for an attribute by a name put together"


def one_draw(found: Sources) -> list[str]:
    """Each opener reads once and draws once, at the scale that it charges, and says nothing after it has
    read.
    """
    wrong = []
    for name, text in found.items():
        for owner, function in _functions(parsed(text)):
            if (name, owner) in OPENERS:
                wrong += [f"{name} {owner}: {what}" for what in _unlike_an_opener(function)]
    return wrong


def _unlike_an_opener(function: ast.AST) -> Iterator[str]:
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call)]
    read = [c for c in calls if ast.unparse(c.func).endswith("._unseal")]
    drawn = [c for c in calls if ast.unparse(c.func).split(".")[-2:-1] in (["noise"], ["noise)"])]
    charged = [ast.unparse(c.args[3]) for c in calls if ast.unparse(c.func) == "Charge"]
    scales = [ast.unparse(k.value) for c in drawn for k in c.keywords if k.arg == "scale"]
    if len(read) != 1 or len(drawn) != 1 or charged != scales:
        yield f"{len(read)} readings, {len(drawn)} draws, charged {charged}, drawn {scales}"
        return
    for loop in ast.walk(function):
        if isinstance(loop, ast.For | ast.While | ast.ListComp | ast.GeneratorExp):
            inside = {id(n) for n in ast.walk(loop)}
            if (id(read[0]) in inside) != (id(drawn[0]) in inside):
                yield "a loop around one of them"
    for node in ast.walk(function):
        says = isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr)
        says |= isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
        if says and getattr(node, "lineno", 0) > read[0].lineno:
            yield "says something after a reading"


SEEDED = (
    "answers.worlds",
    "pipeline.result",
    "workload.queries.ranges",
    "verifier.verify",
    "graphs.rounding",
)
"""Where a generator is made: for sampling, of graphs too, and for worlds drawn from a public model, with a
simulation of the noise that was drawn long ago, for public workloads of random boxes, and for the neighbours
of a table that is verified.
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
                annotation_only = name in (
                    "model.drawing", "model.sampling", "tables.decode", "tables.derive", "model.refinement"
                )  # fmt: skip
                if (
                    name.startswith("privacy")
                    or (node.attr == "default_rng" and name not in SEEDED)
                    or not (annotation_only or name in SEEDED)
                ):
                    wrong.append(f"{name}:{node.lineno} uses numpy's randomness")
    return wrong


def log_is_quiet(found: Sources) -> list[str]:
    """The log is the caller's to set up: no handler, no level, and nothing so loud that Python would print it
    by itself.
    """
    wrong = []
    for name, text in found.items():
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of, verb = ast.unparse(node.func.value), node.func.attr
                loud = (of == "log" and verb not in ("info", "debug")) or (
                    of == "logging" and verb != "getLogger"
                )
                if loud or verb in ("addHandler", "setLevel"):
                    wrong.append(f"{name}:{node.lineno} calls {of}.{verb}")
    return wrong


RULES = {
    "at_home": at_home,
    "log_is_quiet": log_is_quiet,
    "one_door": one_door,
    "no_way_round": no_way_round,
    "one_draw": one_draw,
    "charges_first": charges_first,
    "sealed_at_once": sealed_at_once,
    "no_seed": no_seed,
}


@pytest.mark.parametrize("rule", list(RULES))
def test_the_code_keeps_the_rule(rule: str) -> None:
    assert RULES[rule](sources()) == []


OPENER = (
    "class Session:\n    def measure(self, sealed, what, cost):\n"
    "        c = self._unseal(sealed, Charge('measure', m, (), scale, s))\n        {}"
)
"""An opener that does something else once it has read."""
PLANTED = [
    ("no_way_round", "statistics.sample", "def f(run, domain, t):\n    return run.session.encode(domain, t)"),
    ("no_way_round", "statistics.grid", "def f(rows):\n    return ColumnValues(rows, 3).value(('rank', 1))"),
    ("no_way_round", "statistics.grid", "def f(s, v):\n    return for_smooth(s.noise).spread(v, 1.0)"),
    (
        "one_draw",
        "privacy.smooth",
        "def measure_smooth(session, sealed, what, noise):\n"
        "    charge = Charge('measure', kind, subject, noise.multiplier, beta, delta)\n"
        "    contents = session._unseal(sealed, charge)\n"
        "    return for_smooth(session.noise).spread(contents.value(what), 1.0, scale=noise.multiplier / 2)",
    ),
    ("at_home", "mechanisms.mwem", "from numba import njit"),
    ("at_home", "pipeline.release", "import opendp.prelude as dp"),
    ("at_home", "privacy.noise", "import random"),
    ("at_home", "privacy.session", "from secrets import randbits"),
    ("at_home", "pipeline.release", "from factored_mwem.pipeline.evaluate import evaluate"),
    ("at_home", "pipeline.release", "def f():\n    from factored_mwem.tables import draft"),
    ("at_home", "documents.report", "from factored_mwem.documents import private_page"),
    ("at_home", "documents.columns", "from factored_mwem.pipeline.readings import read_columns"),
    ("at_home", "pipeline.model_file", "import pickle"),
    ("at_home", "privacy.session", "import logging"),
    ("log_is_quiet", "ledger.run", "log.warning('spent')"),
    ("log_is_quiet", "pipeline.release", "logging.basicConfig(level=10)"),
    ("log_is_quiet", "ledger.run", "log.addHandler(logging.StreamHandler())"),
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
    (
        "charges_first",
        "privacy.session",
        "class Session:\n    def _unseal_again(self, sealed, test):\n        return sealed.reveal()",
    ),
    (
        "charges_first",
        "privacy.session",
        "class Session:\n    def begin(self, sensitivity):\n"
        "        begun = for_tests(self.noise).begin(scale=scale)\n"
        "        self.accountant.charge(charge)\n        return SparseVector(charge, sensitivity, begun)",
    ),
    ("one_door", "privacy.session", "def f(session, s, t):\n    return session._unseal_again(s, t)"),
    ("one_door", "privacy.counts", "peek = lambda rows: rows._contents.codes"),
    ("one_door", "privacy.counts", "if True:\n    def peek(rows):\n        return rows._contents.codes"),
    (
        "one_door",
        "mechanisms.tree",
        "def f(session, s, c):\n    open = session._unseal\n    return open(s, c)",
    ),
    (
        "no_way_round",
        "mechanisms.tree",
        "def f(session):\n    s = session\n    return s.noise.add([1], scale=1.0)",
    ),
    ("no_way_round", "mechanisms.tree", "def f(session):\n    return getattr(session, '_unse' + 'al')"),
    ("no_way_round", "mechanisms.tree", "def f(session):\n    return session.rows.__getstate__()"),
    ("no_way_round", "mechanisms.tree", "def f(session, n):\n    return replace(session, noise=n)"),
    ("no_way_round", "mechanisms.tree", "def f(session):\n    return session.rows.public_total(Unit())"),
    ("no_way_round", "mechanisms.tree", "def f(session):\n    session.accountant.spent = 0"),
    ("no_way_round", "mechanisms.tree", "def f(s):\n    return Session(Accountant(b), s.unit, s.noise)"),
    ("no_way_round", "mechanisms.tree", "def f(plan):\n    return list(plan.request.private.batches(['a']))"),
    ("no_way_round", "mechanisms.tree", "def f(plan, table):\n    return encode_table(plan.domain, table)"),
    ("no_way_round", "pipeline.describe", "def f(scope):\n    return scope.bounded()"),
    ("no_way_round", "mechanisms.tree", "def f(session, plan):\n    return session.encode(plan.domain, t)"),
    ("no_way_round", "mechanisms.tree", "def f(c):\n    return OpenDPNoise(c)"),
    ("no_way_round", "graphs.release", "def f(t, v, c):\n    return read_edges(t, v, c)"),
    ("no_way_round", "graphs.spectral", "def f(v, pairs):\n    return Edges(v, pairs).exact(Asked.PAIRS)"),
    ("one_door", "graphs.release", "def f(edges):\n    return edges._contents"),
    ("one_draw", "privacy.session", OPENER.format("return self.noise.add(c.exact(what), scale=scale / 2)")),
    ("one_draw", "privacy.session", OPENER.format("return c.exact(what)")),
    (
        "one_draw",
        "privacy.session",
        OPENER.format("return [self.noise.add(c.exact(what), scale=scale) for _ in range(9)]"),
    ),
    (
        "one_draw",
        "privacy.session",
        OPENER.format("print(c.answers)\n        return self.noise.add(c.exact(what), scale=scale)"),
    ),
    (
        "sealed_at_once",
        "privacy.discover",
        "def discover(session, table, columns, share):\n    found = profile(table, names)\n    return found",
    ),
    (
        "sealed_at_once",
        "privacy.discover",
        "def discover(session, table, columns):\n    if profiles[n].reveal().votes()[0]:\n        return 1",
    ),
    (
        "sealed_at_once",
        "mechanisms.learn",
        "def learn(session, table, columns, policy):\n    for row in table.read(columns):\n        pass",
    ),
    (
        "sealed_at_once",
        "privacy.counts",
        "class PrivateRows(Sealed):\n    def recode(self, domain, codes):\n"
        "        return self._contents.codes",
    ),
    (
        "sealed_at_once",
        "interactive.asking",
        "def asking(scope, session):\n    rows = scope.bounded()\n    print(rows)",
    ),
    ("no_way_round", "interactive.mechanism", "def f(session, plan):\n    return session.encode(d, t)"),
    ("one_door", "interactive.mechanism", "def f(s):\n    return s.sealed.reveal().exact(0)"),
    (
        "sealed_at_once",
        "sparse.build",
        "def make(request, task):\n    source = request.private\n    print(source.profile(['a']))",
    ),
    (
        "sealed_at_once",
        "privacy.projected",
        "class PrivateProjection:\n    def of(cls, table, column):\n"
        "        found = table.profile([column])\n        return cls(found)",
    ),
    ("no_way_round", "sparse.released", "def f(p):\n    return Projected(p).exact(())"),
    ("no_way_round", "mechanisms.learn", "def f(table):\n    return profile(table, ['a'])"),
    ("no_way_round", "mechanisms.tree", "def f(session, d):\n    return session.recode(d, {})"),
    ("no_way_round", "mechanisms.rounds", "def f(s):\n    return s.paid_by(s.accountant.whole)"),
    (
        "one_draw",
        "privacy.discover",
        "class Reader:\n    def histogram(self, edges, scale):\n"
        "        column = session._unseal(self.sealed, Charge('discover', m, (), scale, s))\n"
        "        return column.histogram(edges), session.noise.add(column.votes(), scale=scale / 2)",
    ),
    ("no_seed", "privacy.noise", "def add(values, *, seed=None): ..."),
    ("no_seed", "privacy.discover", "x = np.random.default_rng(0)"),
    ("no_seed", "mechanisms.mwem", "x = np.random.random(3)"),
    ("no_seed", "model.sampling", "rng = np.random.default_rng()"),
]


@pytest.mark.parametrize(("rule", "module", "text"), PLANTED, ids=range(len(PLANTED)))
def test_the_rule_sees_a_planted_violation(rule: str, module: str, text: str) -> None:
    assert RULES[rule]({module: text})


def test_every_door_that_must_pay_first_is_there() -> None:
    assert set(CHARGING) <= set(dict(_functions(parsed(sources()["privacy.session"]))))


def test_no_script_is_named_like_a_module_of_pythons() -> None:
    """A script that is run by its path comes first where modules are looked for: a neighbour called
    `statistics` would be everybody's.
    """
    scripts = [path.stem for path in (Path(__file__).parents[1] / "scripts").glob("*/**/*.py")]
    assert len(scripts) > 50
    assert not {name for name in scripts if not name.startswith("__")} & sys.stdlib_module_names


def test_type_checking_imports_are_exempt() -> None:
    planted = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from factored_mwem.tables import draft"
    )
    assert at_home({"pipeline.release": "from factored_mwem.tables import draft"})
    assert not at_home({"pipeline.release": planted})


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
    from factored_mwem.privacy.noise import Noise, OpenDPNoise, SmoothNoise, SparseVectorNoise

    kinds = (Noise, SparseVectorNoise, SmoothNoise)
    methods = {name for kind in kinds for name in vars(kind) if not name.startswith("_")}
    assert methods == {"select", "add", "threshold", "begin", "exceeds", "spread"}
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
