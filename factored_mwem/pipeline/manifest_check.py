"""Auditing: whether a manifest is that of a release in the books, costs what they say, and promises what was
asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from factored_mwem.accounting.accountant import price
from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import FmwemError
from factored_mwem.files import sha256
from factored_mwem.ledger.chain import Event
from factored_mwem.ledger.entries import Entry, Snapshot, entry_of, fraction_of
from factored_mwem.pipeline.assumptions import possible
from factored_mwem.pipeline.manifest import Manifest, statement, tool_version
from factored_mwem.policy import Policy, split_policy

NO_FILE = "the books list no file of this release: only its costs, policy, workload and domain were compared"
NO_WORDS = "it is of another version of this program: its statement and its assumptions were not compared"


def check_manifest(kept: Snapshot, path: Path) -> tuple[dict[str, Any], list[str], list[str]]:
    """What the manifest at `path` is of; a line for each thing in it that does not fit the books; and one for
    each that could not be compared.
    """
    facts: dict[str, Any] = {"manifest": str(path), "dataset": None, "release": None}
    try:
        manifest, digest = Manifest.model_validate_json(path.read_bytes()), sha256(path)
    except OSError as error:
        return facts, [f"{path}: cannot read it: {error.strerror}"], []
    except (ValueError, RecursionError):
        return facts, [f"{path}: it is no manifest"], []
    cost = _cost(manifest)
    problems, notes = [*_own(manifest, cost)], []
    try:
        row, missing = _release(kept, manifest, digest)
        if row is None:
            problems.append(missing)
        else:
            facts |= {"dataset": str(row["dataset"]), "release": row["id"]}
            entry = entry_of(row)
            problems += [*_against(entry, manifest, cost, digest), *_asked(entry, manifest)]
            notes += [] if any(entry.files) else [NO_FILE]
            notes += [] if _same_words(entry) else [NO_WORDS]
    except (KeyError, ValueError, TypeError, ArithmeticError, RecursionError):
        problems.append("the row of its release is not as this program writes it")
    return facts, [f"{path}: {problem}" for problem in problems], [f"{path}: {note}" for note in notes]


def _own(manifest: Manifest, cost: tuple[Fraction, Fraction] | None) -> Iterator[str]:
    """Where a manifest disagrees with itself; `cost`: its charges' exact sums, if it has any."""
    promise = manifest.guarantee
    try:
        _check(manifest, cost)
        found = manifest.recompute()
        if not math.isclose(
            found, promise.spent_epsilon, rel_tol=1e-9
        ):  # another machine may round otherwise
            yield f"it states spent_epsilon {promise.spent_epsilon:g}, and its charges amount to {found:g}"
    except (ValueError, TypeError, ArithmeticError, FmwemError):
        yield "its charges cannot be added up"
    if not promise.spent_epsilon <= promise.epsilon:
        yield f"it states spent_epsilon {promise.spent_epsilon:g}, more than the epsilon {promise.epsilon:g} that it promises"


def _check(manifest: Manifest, cost: tuple[Fraction, Fraction] | None) -> None:
    """ValueError where its numbers are none that a release has: it may be anybody's file."""
    if cost is None:
        raise ValueError("charges")
    promise, delta = manifest.guarantee, cost[1]
    if any(charge.scale <= 0 or charge.sensitivity < 1 for charge in manifest.ledger):
        raise ValueError("charge")
    if promise.composition is Composition.ZCDP and not (
        1e-200 <= promise.delta < 1 and Fraction(promise.delta) - delta >= Fraction(1e-300)
    ):
        raise ValueError("delta")


def _cost(manifest: Manifest) -> tuple[Fraction, Fraction] | None:
    """(amount, delta): the exact sums of its charges; None where they cannot be added up, which is the
    manifest's fault and not the books'.
    """
    amount = delta = Fraction(0)
    try:
        for charge in manifest.ledger:
            amount += price(charge.mechanism, scale=charge.scale, sensitivity=charge.sensitivity)
            delta = fraction_of(
                str(delta + fraction_of(charge.delta))
            )  # the books could not hold a longer sum; one would take all time
    except (ValueError, TypeError, ArithmeticError):
        return None
    return amount, delta


def _release(kept: Snapshot, manifest: Manifest, digest: str) -> tuple[dict[str, Any] | None, str]:
    """The row of the manifest's release; or None, and why."""
    event = next((event for event in kept.events if event.head == manifest.chain_head), None)
    if manifest.chain_head is not None:
        if event is None:
            return (
                None,
                "its chain_head is not in the chain: it was entered in another ledger, or in a newer copy of "
                "this one",
            )
        row = next(
            (row for row in kept.releases if event.reserved is not None and row["id"] == event.reserved), None
        )
        return row, "its chain_head is not that of a release in the books"
    # A release that was entered before the ledger kept a chain has no head; by its files it can be known.
    old = [row for row in kept.releases if not _has_head(kept.events, row["id"])]
    row = next((row for row in old if digest in _files(json.loads(row["files"]))), None)
    return row, "it has no chain_head, and no release from before the chain lists this file"


def _has_head(events: list[Event], number: int) -> bool:
    return any(event.reserved == number for event in events)


def _files(listed: list[dict[str, str]]) -> set[str]:
    return {digest for files in listed for digest in files.values()}


def _against(
    entry: Entry, manifest: Manifest, cost: tuple[Fraction, Fraction] | None, digest: str
) -> Iterator[str]:
    """Where the books say other than the manifest."""
    release = f"release {entry.number}"
    if entry.spent is None:
        yield f"the books do not say what {release} spent"
    elif cost is not None and (entry.spent.amount, entry.spent.delta) != cost:
        yield f"its charges do not add up to what {release} spent in the books"
    if manifest.guarantee.composition is not entry.reserved.composition:
        yield f"its composition is not that of {release} in the books"
    if any(entry.files) and digest not in _files(entry.files):
        yield f"it is not a file that {release} wrote, or was changed since"


def _same_words(entry: Entry) -> bool:
    """Whether this version wrote the manifest's sentences, by what the books say: another may have put the
    same into other words.
    """
    return entry.tool_version.split(", ")[0] == tool_version()


def _asked(entry: Entry, manifest: Manifest) -> Iterator[str]:
    """Where the manifest says other than what was asked for, as the books keep it. ValueError where they do
    not keep that as we write it.
    """
    asked, promise = entry.parameters, manifest.guarantee
    policy = Policy.model_validate(asked["policy"])
    said = {
        "policy": (split_policy(manifest.policy)[0], split_policy(asked["policy"])[0]),
        "workload": (manifest.workload, asked["workload"]),
        "sample_seed": (manifest.sample_seed, asked["sample_seed"]),
        "guarantee.epsilon": (promise.epsilon, policy.epsilon),
        "guarantee.delta": (promise.delta, policy.delta),
        "guarantee.neighbours": (promise.neighbours, policy.neighbours.value),
        "guarantee.contributions": (promise.contributions, policy.contributions),
    }
    if manifest.output is not None and asked["rows"] is not None:
        said["output.rows"] = (manifest.output.rows, asked["rows"])
    wrong = [name for name, (here, there) in said.items() if here != there]
    if _same_words(entry):
        wrong += ["guarantee.statement"] if promise.statement != statement(policy, policy.delta) else []
        known = possible(policy, learnt=asked["domain"] is None, ledger=True)
        wrong += ["guarantee.assumptions"] if promise.assumptions not in known else []
    yield from (f"its {name} is not what release {entry.number} was asked for in the books" for name in wrong)
    yield from _domain(entry, manifest, policy.privacy_id)


def _domain(entry: Entry, manifest: Manifest, privacy_id: str | None) -> Iterator[str]:
    """Where the attributes are not those that were declared. What was learnt from the data is not in the
    books.
    """
    if entry.parameters["domain"] is None:
        return
    release = f"release {entry.number}"
    declared = _attributes(entry.parameters["domain"])
    try:
        here = _attributes(manifest.domain)
    except ValueError:
        yield "its domain is none"
        return
    columns = entry.parameters["columns"]
    chosen = set(declared if columns is None else columns) - {privacy_id}
    if set(here) != chosen:
        yield f"its domain is not of the columns that {release} was asked for in the books"
    for name in here:
        if name in declared and here[name] != declared[name]:
            yield f"its domain of {name!r} is not what was declared for {release} in the books"
    if [(a.name, a.type, a.domain) for a in manifest.attributes] != [
        (name, field.get("type"), "declared") for name, field in here.items()
    ]:
        yield "its attributes are not those of its domain"


def _attributes(domain: Any) -> dict[str, dict[str, Any]]:
    """The fields of a domain by name. Whatever a domain that is handed in says of itself, it is declared."""
    if (
        not isinstance(domain, dict)
        or not isinstance(fields := domain.get("fields"), list)
        or not all(isinstance(field, dict) for field in fields)
    ):
        raise ValueError("domain")
    found = {
        str(field.get("name")): {key: value for key, value in field.items() if key != "learnt"}
        for field in fields
    }
    if len(found) < len(fields):
        raise ValueError("domain")
    return found
