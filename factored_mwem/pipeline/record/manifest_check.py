"""Manifest check: whether manifests agree with the ledger about the release, its cost and the request."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from factored_mwem.accounting.accountant import price
from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.domain.rules import rules_of, written
from factored_mwem.errors import FmwemError, InputError, must
from factored_mwem.files.files import sha256
from factored_mwem.ledger.address import Address
from factored_mwem.ledger.consistency import inspect
from factored_mwem.ledger.entries import Entry, Snapshot, entry_of, fraction_of
from factored_mwem.pipeline.record.assumptions import possible
from factored_mwem.pipeline.record.manifest import Manifest, read_record
from factored_mwem.pipeline.record.statement import KINDS, Statement, tool_version
from factored_mwem.request.policy import Policy, split_policy
from factored_mwem.request.promise import Terms

NO_FILE = "the books list no file of this release: only its costs, policy, workload and domain were compared"
NO_WORDS = "it is of another version of this program: its statement and its assumptions were not compared"


OF_POLICIES = ("release", "tables", "domain", "ask")
"""Kinds whose promise is a whole policy."""


def check_books(place: str | Path | Address, manifests: Sequence[Path] = ()) -> dict[str, Any]:
    """Plain facts: what was checked, `problems`, a line for each contradiction, and `notes`."""
    books = inspect(place)
    checked = [check_manifest(books.kept, manifest) for manifest in manifests]
    problems = [*books.problems, *(problem for _, more, _ in checked for problem in more)]
    return {
        **books.facts,
        "manifests": [facts for facts, _, _ in checked],
        "fits": not problems,
        "problems": problems,
        "notes": [note for _, _, more in checked for note in more],
    }


def check_manifest(kept: Snapshot, path: Path) -> tuple[dict[str, Any], list[str], list[str]]:
    """The facts about a manifest, with a line for each contradiction to the ledger, and for what could not be
    compared.
    """
    facts: dict[str, Any] = {"manifest": str(path), "dataset": None, "release": None}
    try:
        record, digest = read_record(path.read_bytes()), sha256(path)
    except OSError as error:
        return facts, [f"{path}: cannot read it: {error.strerror}"], []
    except InputError as error:
        return facts, [f"{path}: {error}"], []
    cost = cost_of(record)
    problems, notes = [*_own(record, cost)], []
    try:
        row, missing = _release(kept, record)
        if row is None:
            problems.append(missing)
        else:
            facts |= {"dataset": str(row["dataset"]), "release": row["id"]}
            entry = entry_of(row)
            problems += [*_against(entry, record, cost, digest), *_unlike_request(entry, record)]
            notes += [] if any(entry.files) else [NO_FILE]
            notes += [] if _same_words(entry) else [NO_WORDS]
    except (KeyError, ValueError, TypeError, ArithmeticError, RecursionError, InputError):
        problems.append("the row of its release is not as this program writes it")
    return facts, [f"{path}: {problem}" for problem in problems], [f"{path}: {note}" for note in notes]


def doubts(record: Statement) -> Iterator[str]:
    """The contradictions within a manifest, a line for each."""
    yield from _own(record, cost_of(record))


def _own(record: Statement, cost: tuple[Fraction, Fraction] | None) -> Iterator[str]:
    """Where a record disagrees with itself; `cost`: its charges' exact sums, if it has any."""
    promise = record.guarantee
    stated = f"it states spent_epsilon {promise.spent_epsilon:g}"
    try:
        _check(record, cost)
        spent = record.recompute()
        if not math.isclose(spent, promise.spent_epsilon, rel_tol=1e-9):  # other machines round otherwise
            yield f"{stated}, and its charges amount to {spent:g}"
    except (ValueError, TypeError, ArithmeticError, FmwemError):
        yield "its charges cannot be added up"
    if promise.composition is Composition.PURE and cost is not None and not cost[1] <= promise.delta:
        yield f"its charges' deltas amount to {float(cost[1]):g}, more than the {promise.delta:g} it promises"
    if not promise.spent_epsilon <= promise.epsilon:
        yield f"{stated}, more than the epsilon {promise.epsilon:g} that it promises"


def check_policy(manifest: Manifest) -> None:
    """Raises InputError where a manifest's guarantee is not that of its policy."""
    policy, promise = manifest.asked_policy, manifest.guarantee
    promised = (promise.epsilon, promise.delta, promise.neighbours, promise.contributions)
    if promised != (policy.epsilon, policy.delta, policy.neighbours.value, policy.contributions):
        raise InputError("its guarantee is not that of its policy")
    if (promise.composition is Composition.ZCDP) != (promise.delta > 0):
        raise InputError("its composition does not fit its delta")


def _check(record: Statement, cost: tuple[Fraction, Fraction] | None) -> None:
    """Raises ValueError if its numbers are impossible for a release; the file may come from anybody."""
    if cost is None:
        raise ValueError("charges")
    promise, delta = record.guarantee, cost[1]
    must(not any(charge.scale <= 0 or charge.sensitivity < 1 for charge in record.ledger), "charge")
    sound = 1e-200 <= promise.delta < 1 and Fraction(promise.delta) - delta >= Fraction(1e-300)
    must(promise.composition is not Composition.ZCDP or sound, "delta")


def cost_of(record: Statement) -> tuple[Fraction, Fraction] | None:
    """(amount, delta): the exact sums of its charges; None if they cannot be added up."""
    amount = delta = Fraction(0)
    try:
        for charge in record.ledger:
            own = fraction_of(charge.delta)
            amount += price(charge.mechanism, scale=charge.scale, sensitivity=charge.sensitivity, delta=own)
            # The books could not hold a longer sum; one would take all time.
            delta = fraction_of(str(delta + own))
    except (ValueError, TypeError, ArithmeticError):
        return None
    return amount, delta


def _release(kept: Snapshot, record: Statement) -> tuple[dict[str, Any] | None, str]:
    """The row of the record's release; or None, and why."""
    if record.chain_head is None:
        return None, "it has no chain_head, as every release in the books has"
    event = next((event for event in kept.events if event.head == record.chain_head), None)
    if event is None:
        where = "it was entered in another ledger, or in a newer copy of this one"
        return None, f"its chain_head is not in the chain: {where}"
    number = event.reserved
    row = next((row for row in kept.releases if number is not None and row["id"] == number), None)
    return row, "its chain_head is not that of a release in the books"


def _files(listed: list[dict[str, str]]) -> set[str]:
    return {digest for files in listed for digest in files.values()}


def _against(
    entry: Entry, record: Statement, cost: tuple[Fraction, Fraction] | None, digest: str
) -> Iterator[str]:
    """The differences between ledger and record, a line for each."""
    release = f"release {entry.number}"
    if entry.spent is None:
        yield f"the books do not say what {release} spent"
    elif cost is not None and (entry.spent.amount, entry.spent.delta) != cost:
        yield f"its charges do not add up to what {release} spent in the books"
    if record.guarantee.composition is not entry.reserved.composition:
        yield f"its composition is not that of {release} in the books"
    if any(entry.files) and digest not in _files(entry.files):
        yield f"it is not a file that {release} wrote, or was changed since"


def _same_words(entry: Entry) -> bool:
    """Whether this version wrote the manifest's sentences: another may have worded them differently."""
    return entry.tool_version.split(", ")[0] == tool_version()


def _unlike_request(entry: Entry, record: Statement) -> Iterator[str]:
    """The differences between a record and its request; raises ValueError if the ledger is not ours."""
    parameters, promise = entry.parameters, record.guarantee
    policy = (Policy if parameters["kind"] in OF_POLICIES else Terms).model_validate(parameters["policy"])
    pairs = {
        "kind": (record.kind, parameters["kind"]),
        "guarantee.epsilon": (promise.epsilon, policy.epsilon),
        "guarantee.delta": (promise.delta, policy.delta),
        "guarantee.neighbours": (promise.neighbours, policy.neighbours.value),
        "guarantee.contributions": (promise.contributions, policy.contributions),
    }
    if record.kind != parameters["kind"]:
        pairs = {"kind": pairs["kind"]}
    elif isinstance(record, Manifest):
        pairs |= _of_release(record, parameters)
    else:
        pairs["settings"] = (record.settings, parameters["settings"])
    wrong = [name for name, (here, there) in pairs.items() if here != there]
    words = KINDS[record.kind]
    if _same_words(entry) and record.kind == parameters["kind"]:
        sentences = (policy.in_words(words.thing), policy.statement(words.thing, words.inputs))
        wrong += ["guarantee.statement"] if (promise.unit, promise.statement) != sentences else []
        if isinstance(record, Manifest) and not _rests_on_what_a_release_may(record, policy, parameters):
            wrong.append("guarantee.assumptions")
    yield from (f"its {name} is not what release {entry.number} was asked for in the books" for name in wrong)
    if isinstance(record, Manifest) and record.kind == parameters["kind"]:
        yield from _domain(entry, record, policy.privacy_id)


def _of_release(manifest: Manifest, parameters: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """(stated, requested) pairs of a manifest, by name."""
    settings = parameters["settings"]
    pairs: dict[str, tuple[Any, Any]] = {
        "policy": (split_policy(manifest.policy)[0], split_policy(parameters["policy"])[0]),
        "workload": (manifest.workload, settings["workload"]),
        "sample_seed": (manifest.sample_seed, settings["sample_seed"]),
        "public": (manifest.model_dump(mode="json")["public"], settings.get("public")),
    }
    if manifest.output is not None and settings["rows"] is not None:
        pairs["output.rows"] = (manifest.output.rows, settings["rows"])
    return pairs


def _rests_on_what_a_release_may(manifest: Manifest, policy: Terms, parameters: dict[str, Any]) -> bool:
    learnt = parameters["settings"]["domain"] is None
    rules = not learnt and bool(manifest.domain.get("rules"))
    public = parameters["settings"].get("public")
    allowed = possible(policy, ledger=True, learnt=learnt, rules=rules, public=public)
    return manifest.guarantee.assumptions in allowed


def _domain(entry: Entry, manifest: Manifest, privacy_id: str | None) -> Iterator[str]:
    """Contradictions between the attributes and the declared domain; learnt ones are not in the ledger."""
    if entry.parameters["settings"]["domain"] is None:
        return
    release = f"release {entry.number}"
    declared = _attributes(entry.parameters["settings"]["domain"])
    try:
        here = _attributes(manifest.domain)
        rules = [_rules(domain, here) for domain in (manifest.domain, entry.parameters["settings"]["domain"])]
    except (ValueError, FmwemError):
        yield "its domain is none"
        return
    columns = entry.parameters["settings"]["columns"]
    chosen = set(declared if columns is None else columns) - {privacy_id}
    if manifest.people is not None:
        chosen |= {ROWS_OF_PERSON, *manifest.people.companions}
    if set(here) != chosen:
        yield f"its domain is not of the columns that {release} was asked for in the books"
    for name in here:
        if name in declared and here[name] != declared[name]:
            yield f"its domain of {name!r} is not what was declared for {release} in the books"
    if rules[0] != rules[1]:
        yield f"its rules are not what was declared for {release} in the books"
    if [(a.name, a.type, a.domain) for a in manifest.attributes] != [
        (name, field.get("type"), "declared") for name, field in here.items()
    ]:
        yield "its attributes are not those of its domain"


def _rules(domain: dict[str, Any], names: Collection[str]) -> list[dict[str, Any]]:
    """The rules of a domain about these columns."""
    left = [rule.among(names) for rule in rules_of(domain.get("rules", []))]
    return [written(rule) for rule in left if rule is not None]


def _attributes(domain: Any) -> dict[str, dict[str, Any]]:
    """The fields of a domain by name. Whatever a domain that is handed in says of itself, it is declared."""
    fields: Any = domain.get("fields") if isinstance(domain, dict) else None
    must(isinstance(fields, list) and all(isinstance(field, dict) for field in fields), "domain")
    by_name = {
        str(field.get("name")): {key: value for key, value in field.items() if key != "learnt"}
        for field in fields
    }
    must(len(by_name) == len(fields), "domain")
    return by_name
