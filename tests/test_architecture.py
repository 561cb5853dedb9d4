"""The shape that the privacy argument leans on, held by walking the code: one door to private numbers, noise
in one place. Who may import what, import-linter holds: tests/test_layers.py.

Every rule is a function from source texts to complaints, so that each is shown a planted violation, too.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from support.sources import Sources, sources
from support.violations import PLANTED

parsed = cache(ast.parse)
"""Every rule reads every module."""


@cache
def walked(tree: ast.AST) -> list[ast.AST]:
    return list(ast.walk(tree))


OPENERS = (
    "privacy.session.Session.select", "privacy.session.Session.measure",
    "privacy.residuals.measure_residuals", "privacy.discover.read_votes", "privacy.glance.glance",
    "privacy.glance.count_rows",
    "privacy.text_votes.vote_on_dates", "privacy.text_votes.vote_on_beside",
    "privacy.text_votes.vote_on_digits", "privacy.text_votes.is_rare",
    "privacy.discover.ColumnDiscovery.popular", "privacy.discover.ColumnDiscovery.rounded",
    "privacy.discover.ColumnDiscovery.histogram", "privacy.popular.popular_together",
    "privacy.single_values.counts_together",
    "privacy.discover.ColumnDiscovery.zone",
    "privacy.other.smooth.measure_smooth", "privacy.other.projected.measure_by_laplace",
)  # fmt: skip
"""The functions that open private numbers: charge, read and draw, once each."""
TESTERS = ("privacy.session.Session.begin", "privacy.session.Session.exceeds")
"""A sparse vector test pays when it begins, and then looks again and again."""
SEALED = ("privacy.rows.Sealed.__init__", "privacy.rows.Sealed.reveal")
WHO_OPENS = {
    "_contents": ("privacy.counts.PrivateRows.public_total", *SEALED),
    "reveal": ("privacy.session.Session._unseal", "privacy.session.Session._unseal_again"),
    "_unseal": OPENERS,
    "_unseal_again": TESTERS[1:],
}
"""Who may say what leads into a sealed object; `_contents` also what seals them again."""


def mentions(tree: ast.AST, attribute: str) -> Iterator[ast.AST]:
    """Every mention of `.attribute`, called or not (a bound method may be kept), and of its name."""
    for node in walked(tree):
        if attribute in (getattr(node, "attr", None), getattr(node, "value", None)):
            yield node


def functions(tree: ast.AST) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{f.name}", f) for f in node.body if isinstance(f, ast.FunctionDef))


def one_door(modules: Sources) -> list[str]:
    """Private numbers, opened or drawn for, by any function that may not."""
    wrong = []
    for name, text in modules.items():
        tree, owners = parsed(text), dict[int, str]()
        sealing = {id(word) for n in walked(tree) if _is_slots(n) for word in ast.walk(n)}
        for owner, function in functions(tree):
            owners |= {id(n): f"{name}.{owner}" for n in ast.walk(function)}
            if name.startswith("privacy.") and _seals(function):
                sealing |= {id(n) for n in ast.walk(function)}
        for word, who in WHO_OPENS.items():
            for node in mentions(tree, word):
                if owners.get(id(node)) not in who and not (word == "_contents" and id(node) in sealing):
                    wrong.append(f"{name}:{getattr(node, 'lineno', 0)} says {word}")
        for node in mentions(tree, "noise"):
            of = ast.unparse(node.value) if isinstance(node, ast.Attribute) else ""
            here = "session" in of or (name, of) == ("privacy.session", "self")
            if here and owners.get(id(node)) not in OPENERS + TESTERS:
                wrong.append(f"{name}:{getattr(node, 'lineno', 0)} draws noise outside a reading")
    return wrong


def _is_slots(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__"


def _seals(function: ast.FunctionDef) -> bool:
    """Whether a function gives something sealed, and nothing else, wherever it ends."""
    if function.returns is None or not ast.unparse(function.returns).startswith("Private"):
        return False
    ends = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    calls = [ast.unparse(end.func if isinstance(end, ast.Call) else end) for end in ends if end is not None]
    return len(calls) == len(ends) and all(c in ("cls", "self") or c.startswith("Private") for c in calls)


def charges_first(modules: Sources) -> list[str]:
    """A door charges, or finds the charge of a test, and reveals in its next statement, the last; a test
    charges before it draws.
    """
    own, wrong = dict(functions(parsed(modules["privacy.session"]))), []
    for name, function in own.items():
        body = [
            s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        ]
        pays = [i for i, s in enumerate(body) if isinstance(s, ast.Expr) and _full(s.value) in PAYMENTS]
        last = body[-1].value if isinstance(body[-1], ast.Return) else None
        if list(mentions(function, "reveal")) and (
            pays != [0] or len(body) != 2 or _called(last) != "reveal"
        ):
            wrong.append(f"{name} reveals what was not paid in the statement before")
        begins = [i for i, s in enumerate(body) if ".noise.begin" in ast.unparse(s)]
        if begins and not (pays and pays[0] < begins[0]):
            wrong.append(f"{name} draws before it pays")
    return wrong if own.keys() & PAYING else ["no door"]


PAYMENTS = ("self.accountant.charge", "check_paid")
PAYING = {"Session._unseal", "Session._unseal_again", "Session.begin"}


def _full(node: ast.AST | None) -> str:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def _called(node: ast.AST | None) -> str:
    return _full(node).split(".")[-1]


HANDED_TO = (
    "encode of counts_together discover orders_in popular_together relations_in single_values learn read "
    "read_edges seal_rows check_numbers isinstance"
)
"""What may be given a private table: it reads public facts alone, or seals what it reads."""
PUBLIC = "schema check_column check_domain text without bounded fingerprint form cluster zone "
"""What may be asked of one."""
READS = "profile weighed broken_rows encoded people_by_rows constancy pairs_alike"
"""What reads its rows: in privacy/ alone, in a statement that seals them."""


def sealed_at_once(modules: Sources) -> list[str]:
    """In privacy/, what is read is sealed in the same statement. There, in mechanisms/ and in sessions/, a
    private table (a parameter `table` of the first two, what `bounded` gives, a request's `private`) is
    handed on or asked for public facts, and nothing else.
    """
    wrong = []
    for name, text in modules.items():
        if name.startswith(("mechanisms.", "privacy.", "sessions.")):
            for owner, function in functions(parsed(text)):
                wrong += [f"{name} {owner}: {what}" for what in _looks_at_rows(name, function)]
    return wrong


def _looks_at_rows(name: str, function: ast.FunctionDef) -> Iterator[str]:
    inside, nodes, fine, tables = (
        name.startswith("privacy."),
        list(ast.walk(function)),
        set[int](),
        set[str](),
    )
    for parameter in function.args.args:
        if "ndarray" not in ast.unparse(parameter) and not name.startswith("sessions."):
            tables |= {parameter.arg} & {"table"}
    for node in nodes:
        if isinstance(node, ast.Call) and _called(node) in HANDED_TO.split():
            fine |= {id(getattr(argument, "value", argument)) for argument in node.args}
        if isinstance(node, ast.Attribute) and node.attr in (PUBLIC + READS * inside).split():
            fine.add(id(node.value))
        if isinstance(node, ast.Assign) and (
            _called(node.value) == "bounded" or getattr(node.value, "attr", "") == "private"
        ):
            tables |= {ast.unparse(target) for target in node.targets}
        whole = isinstance(node, ast.stmt) and not any(
            isinstance(n, ast.stmt) for n in ast.iter_child_nodes(node)
        )
        calls = {_called(n) for n in ast.walk(node)} if whole else set()
        if inside and calls & set(READS.split()) and not calls & {"Sealed", "cls"}:
            yield f"line {getattr(node, 'lineno', 0)} reads and does not seal"
    for node in nodes:
        loaded = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in tables
        if loaded and id(node) not in fine:
            yield f"line {getattr(node, 'lineno', 0)} looks at a private table"


WHO_SAYS = {
    "profile": (
        "owner.draft privacy.discover privacy.other.projected privacy.other.sets request.public_columns "
        "tables.backends.people "
        "tables.backends.local tables.backends.people_spark tables.backends.source tables.backends.spark "
        "tables.backends.sql tables.codes.profile"
    ),
    "weighed": (
        "privacy.popular privacy.single_values tables.backends.local tables.backends.people "
        "tables.backends.people_spark tables.backends.source tables.backends.spark tables.backends.sql "
        "tables.codes.rest"
    ),
    "ColumnProfile": (
        "owner.draft owner.relations privacy.discover privacy.glance privacy.text_votes "
        "privacy.other.projected privacy.other.sets privacy.popular privacy.single_values "
        "tables.backends.local tables.backends.people tables.backends.people_spark tables.backends.source "
        "tables.backends.spark tables.backends.spark_frame tables.backends.sql "
        "tables.codes.broken tables.codes.drafted tables.codes.profile tables.codes.rest"
    ),
    "broken_rows": (
        "privacy.functions tables.backends.local tables.backends.people tables.backends.people_spark "
        "tables.backends.source tables.backends.spark tables.backends.sql"
    ),
    "count_broken": "owner.relations tables.backends.local tables.backends.people tables.codes.broken",
    "recode": "mechanisms.learn privacy.counts privacy.session",
    "encode_table": "tables.backends.codes tables.backends.local tables.backends.people",
    "encoded": (
        "owner.evaluation.readings privacy.counts tables.backends.local tables.backends.people "
        "tables.backends.people_spark tables.backends.source tables.backends.spark tables.backends.sql "
        "tables.codes.decode"
    ),
    "exact_counts": (
        "pipeline.certificate privacy.rows tables.backends.codes tables.backends.datavectors "
        "tables.backends.people tables.backends.spark_rows tables.backends.sql_engine"
    ),
    "paid_by": "pipeline.attempts pipeline.linked pipeline.release privacy.session",
    "protecting": "pipeline.linked privacy.session",
    "LinkedViews": "owner.attack.packages owner.evaluation.packages pipeline.linked pipeline.linked_views",
    "people_by_rows": (
        "privacy.people tables.backends.people tables.backends.people_spark tables.backends.source "
        "tables.backends.sql"
    ),
    "constancy": (
        "privacy.people tables.backends.people tables.backends.people_spark tables.backends.source "
        "tables.backends.sql"
    ),
    "pairs_alike": (
        "privacy.people tables.backends.people tables.backends.people_spark tables.backends.source "
        "tables.backends.sql"
    ),
    "rows_of_people": (
        "owner.attack.packages tables.backends.local tables.backends.people tables.inputs.people"
    ),
    "FAKE_NOISE": "pipeline.spending",  # set by tests alone, and read where a session begins
    "bounded": (
        "pipeline.learn_domain pipeline.release request.table sessions.graph.request "
        "sessions.online.asking sessions.online.known sessions.sketch.build "
        "sessions.statistic.column_statistic "
        "sessions.statistic.learner sessions.statistic.sample tables.backends.local "
        "tables.backends.source tables.backends.spark tables.backends.sql"
    ),
    "read_edges": "privacy.other.edges tables.inputs.edge_list",
    "bound_contributions": "tables.backends.local tables.inputs.contributions",
    "OpenDPNoise": "owner.verifier.watch pipeline.spending privacy.noise",
    "public_total": (
        "answers.bootstrap_fit answers.evidence answers.projections mechanisms.certify mechanisms.result "
        "privacy.counts privacy.session sessions.statistic.column_statistic"
    ),
    "Rows": (
        "owner.evaluation.binned_errors privacy.counts privacy.functions privacy.distances "
        "privacy.other.column privacy.other.cuts privacy.residuals privacy.rows"
    ),
    "PrivateGraph": "privacy.other.graph_values sessions.statistic.graph_statistic",
    "PrivateProjection": "privacy.other.projected sessions.sketch.build",
    "read_here": (
        "owner.attack.attack owner.evaluation.packages owner.verifier.packages owner.verifier.sheet "
        "pipeline.linked_request "
        "request.public_columns sessions.graph.request sessions.statistic.sample tables.backends.local "
        "tables.backends.source"
    ),
}
"""Names that lead to rows, exact answers or noise, and the modules that may say them."""
NO_WAY_ROUND = {"__getstate__", "__dict__", "__getattribute__", "get_referents", "attrgetter", "f_locals"}
GETATTR = ("workload.workload",)
"""Where a workload's kinds are asked for by their keys."""
BEGINS = ("pipeline.spending", "accounting.accountant")
"""Where an accountant and a session begin; a part of an accountant is one that may spend less."""
ENCODES = (
    "pipeline.release", "mechanisms.learn", "sessions.online.asking", "sessions.online.known",
    "sessions.statistic.column_statistic",
    "sessions.statistic.learner", "sessions.statistic.sample",
)  # fmt: skip
"""What hands a table to the door, once: a release, learning, a session of questions, a statistic."""
AUDITED = ("mechanisms.", "model.", "privacy.", "workload.", "sessions.online.", "pipeline.record.describe")
DRAWS = ("add", "select", "threshold", "begin", "exceeds", "spread")


@cache
def contents() -> set[str]:
    """What sealed objects reveal: only privacy/ names these."""
    classes = {
        node
        for name, text in sources().items()
        if name.startswith("privacy.")
        for node in walked(parsed(text))
        if isinstance(node, ast.ClassDef)
    }
    private = {node.name for node in classes if "Private" in map(ast.unparse, node.bases)}
    return private - {"Rows", "Sealed", "NoisyThreshold"}


def no_way_round(modules: Sources) -> list[str]:
    """Rows, exact answers, noise and the accountant's sums by any way but a session's verbs."""
    wrong = []
    for name, text in modules.items():
        for node in walked(parsed(text)):
            word = getattr(node, "attr", getattr(node, "id", getattr(node, "name", None)))
            elsewhere = word in WHO_SAYS and name not in WHO_SAYS[word].split()
            if elsewhere or (word in contents() and not name.startswith("privacy.")):
                wrong.append(f"{name} says {word}")
            if word in NO_WAY_ROUND and name.startswith(AUDITED):
                wrong.append(f"{name} says {word}")
            wrong += [f"{name}:{getattr(node, 'lineno', 0)} {what}" for what in _ways(name, node)]
    return wrong


def _ways(name: str, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        of = ast.unparse(node.value)
        elsewhere = name.startswith(AUDITED) and name not in ("mechanisms.plan", "pipeline.record.describe")
        if node.attr == "private" and of.endswith("request.request") and elsewhere:
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
        of, _, verb = function.rpartition(".")
        if verb in DRAWS and of.endswith(".noise") and not name.startswith("privacy."):
            yield "draws noise"
        made_up = function == "getattr" and not isinstance(node.args[1], ast.Constant)
        if made_up and name.startswith(AUDITED) and name not in GETATTR:
            yield "asks for an attribute by a name put together"


def one_draw(modules: Sources) -> list[str]:
    """Each opener reads and draws once, at the scale that it charges, and says nothing afterwards."""
    wrong = []
    for name, text in modules.items():
        for owner, function in functions(parsed(text)):
            if f"{name}.{owner}" in OPENERS:
                wrong += [f"{name} {owner}: {what}" for what in _unlike_an_opener(function)]
    return wrong


def _unlike_an_opener(function: ast.AST) -> Iterator[str]:
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call)]
    read = [c for c in calls if ast.unparse(c.func).endswith("._unseal")]
    drawn = [c for c in calls if ast.unparse(c.func).split(".")[-2:-1] == ["noise"]]
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
    "answers.bootstrap_table owner.attack.attack pipeline.drawable workload.queries.ranges "
    "owner.attack.packages owner.verifier.packages owner.verifier.verify sessions.graph.result"
)
"""Where a generator is made: for sampling, of graphs too; for worlds drawn from a public model, and old noise
simulated; for workloads of random boxes; for the neighbours of a table that is verified, or attacked.
"""


NUMPYS = (
    "model.drawing", "model.evidence", "pipeline.sampling", "model.refinement", "pipeline.completed",
    "pipeline.linked_rows", "pipeline.people", "pipeline.scales", "pipeline.sequences", "pipeline.usual",
    "tables.codes.decode", "tables.codes.derive", "tables.codes.tie",
)  # fmt: skip
"""Where one that was made elsewhere is used."""


def no_seed(modules: Sources) -> list[str]:
    """No seed, generator or switch anywhere in privacy/, and none of numpy's randomness; elsewhere only where
    sampling is.
    """
    wrong = []
    for name, text in modules.items():
        inside = name.startswith("privacy")
        for node in walked(parsed(text)):
            if isinstance(node, ast.arg) and inside and re.search("seed|rng|random|generator", node.arg):
                wrong.append(f"{name}:{node.lineno} takes {node.arg}")
            word = node.attr if isinstance(node, ast.Attribute) else ""
            if word in ("random", "default_rng") and ast.unparse(node).startswith("np.random"):
                allowed = name in SEEDED.split() or (name in NUMPYS and word != "default_rng")
                if inside or not allowed:
                    wrong.append(f"{name}:{getattr(node, 'lineno', 0)} uses numpy's randomness")
    return wrong


def log_is_quiet(modules: Sources) -> list[str]:
    """The log is the caller's to set up: no handler, no level, and nothing so loud that Python would print it
    by itself.
    """
    wrong = []
    for name, text in modules.items():
        for node in walked(parsed(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of, verb = getattr(node.func.value, "id", ""), node.func.attr
                loud = (of == "log" and verb not in ("info", "debug")) or (
                    of == "logging" and verb != "getLogger"
                )
                if loud or verb in ("addHandler", "setLevel"):
                    wrong.append(f"{name}:{node.lineno} calls {of}.{verb}")
    return wrong


RULES = (log_is_quiet, one_door, no_way_round, one_draw, charges_first, sealed_at_once, no_seed)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_code_keeps_the_rule(rule: Callable[[Sources], list[str]]) -> None:
    assert rule(sources()) == []
    assert set(dict(functions(parsed(sources()["privacy.session"])))) >= PAYING


@pytest.mark.parametrize(("rule", "module", "text"), PLANTED, ids=range(len(PLANTED)))
def test_the_rule_sees_a_planted_violation(rule: str, module: str, text: str) -> None:
    assert globals()[rule]({module: text})


def test_no_script_is_named_like_a_module_of_pythons() -> None:
    """A script's neighbours come first where modules are looked for: `statistics` would be everybody's."""
    scripts = [path.stem for path in (Path(__file__).parents[1] / "scripts").glob("*/**/*.py")]
    assert len(scripts) > 20
    assert not {name for name in scripts if not name.startswith("__")} & sys.stdlib_module_names
