"""Assumptions: what the guarantee takes for granted, and which of it the program made sure of."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict

from factored_mwem.accounting.unit import Unit
from factored_mwem.errors import quoted_names
from factored_mwem.request.promise import Terms
from factored_mwem.tables.inputs.text_form import TextForm

CLUSTERS = ("Spark",)
"""The possible values of `Source.cluster`."""
RULES = "the rules of the domain were declared without looking at this table: they are public facts"


class Assumption(BaseModel):
    """A sentence that must be true for the guarantee to hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    statement: str
    enforced: bool
    """Whether this program made it so, or checked it."""


class DomainFacts(TypedDict, total=False):
    """Whether a domain was `learnt` in the release itself, whether it has `rules`, and what is known of
    columns that are `public` (the facts of `PublicColumns`).
    """

    learnt: bool
    rules: bool
    public: Mapping[str, Any] | None


def assumptions_of(
    policy: Terms,
    form: TextForm | None,
    *,
    ledger: bool,
    cluster: str | None = None,
    **domain_facts: Unpack[DomainFacts],
) -> dict[str, Assumption]:
    """The assumptions of a promise about a table, apart from mechanism and noise, by name: for a text file of
    a `form`, or a typed table, perhaps read by a `cluster`; with or without a ledger.
    """
    public = domain_facts.get("public")
    people = f"column {policy.privacy_id!r} names every person by one value of their own"
    columns = "the names of the columns, on the header line, are public"
    if form is not None and not form.header:
        columns = (
            "the names of the columns, as they were given, are public: no line of the file was read for them"
        )
    if form is None:
        columns = (
            "the names and types of the columns are public, also where a library chose a type by looking at "
            "values"
        )
    domain = _trust(
        "the domain is public: it was declared without looking at this table, or learnt from it in a release "
        "of its own, whose cost adds to this one's"
    )
    if domain_facts.get("learnt"):
        domain = _made_sure("the domain was learnt inside the budget")
    releases = _trust("no other release of these records is counted: the epsilons of several add up")
    if ledger:
        releases = _made_sure("all releases of this dataset under its ledger keep to its cap together")
    books = "every release of these records goes by this ledger, and no old copy of it is put back"
    listed = {
        "records": _records(form),
        "contributions": _contributions(policy, cluster),
        "people": _trust(people) if policy.privacy_id is not None else None,
        "rows": _rows(policy.unit),
        "columns": _trust(columns),
        "readable": _trust(_readable(form)),
        "domain": domain,
        "rules": _trust(RULES) if domain_facts.get("rules") else None,
        "public": _trust(_public(public)) if public is not None else None,
        "parameters": _trust(
            "columns, workload and all other settings were chosen without looking at this table"
        ),
        "releases": releases,
        "ledger": _trust(books) if ledger else None,
        "cluster": _trust(_among(cluster)) if cluster is not None else None,
        "surroundings": _trust(
            "nobody but the table's keeper sees how long the run takes, its memory, its exit code, the "
            "terminal, the ledger and its journals"
        ),
    }
    return {name: one for name, one in listed.items() if one is not None}


def possible(
    policy: Terms, *, ledger: bool, **domain_facts: Unpack[DomainFacts]
) -> list[dict[str, Assumption]]:
    """What a release may rest on, of a table of any form: typed or text, of one column, or of a cluster."""
    forms: list[TextForm | None] = [None]
    for (end, header), names in itertools.product(
        ((b"\n", True), (b"\r\n", True), (b"\n", False)), (("a",), ("a", "b"))
    ):
        forms.append(TextForm(names, ",", end, begins=0, packed="", records=policy.records, header=header))
    here = [assumptions_of(policy, form, ledger=ledger, **domain_facts) for form in forms]
    there = (assumptions_of(policy, None, ledger=ledger, cluster=name, **domain_facts) for name in CLUSTERS)
    return [*here, *there]


def from_public(public: Mapping[str, Any]) -> str:
    """Where the joint counts of public columns came from."""
    names = quoted_names(public["columns"])
    return (
        f"the public table {public['table']!r} ({public['rows']:,} rows, SHA-256 {public['sha256']}): {names}"
    )


def _public(public: Mapping[str, Any]) -> str:
    return (
        f"how often values come together was taken from {from_public(public)}; it was not made of this "
        "table, and that it is the same in this one was neither measured nor checked"
    )


def _records(form: TextForm | None) -> Assumption:
    if form is None:
        return _made_sure("a record is a row of the table")
    line = "a line feed" if form.line_end == b"\n" else "a carriage return and a line feed"
    if form.records == "multiline":
        return _trust(
            f"a record ends with {line} outside quotes: whoever wrote the file put every cell that holds a "
            "line break or a quote into quotes, and doubled the quotes in it (that no quote stays open, and "
            "none is followed by text, was checked before anything was spent)"
        )
    whole = (
        "whatever its quotes"
        if form.records == "lines"
        else "none of which ends inside quotes, as was checked before anything was spent"
    )
    kept = "a line" if len(form.names) == 1 else "a line that is not empty"
    wide = "is not as wide as the header" if form.header else "has not a cell for each name"
    return _made_sure(f"a record is {kept} and ends with {line}, {whole}; one that {wide} counts as nulls")


def _contributions(policy: Terms, cluster: str | None) -> Assumption:
    k = f"{policy.contributions} record{'s' * (policy.contributions > 1)}"
    if policy.privacy_id is not None:
        which = "" if cluster is None else ", those that come first by a hash of their own values"
        if policy.unit.grains:
            return _made_sure(
                f"at most {k} of each person by {policy.privacy_id!r} are used, drawn by a hash of it, none "
                "of a person without one, and all of a person together weigh one"
            )
        return _made_sure(
            f"at most {k} of each person by {policy.privacy_id!r} are used{which}, and none of a person "
            "without an id"
        )
    return _trust(f"no person has more than {k}")


def _among(cluster: str) -> str:
    return (
        f"nobody but the table's keeper sees the machines of the {cluster} cluster, its disks, its networks, "
        "or the logs and pages in which it shows its work, for rows and exact counts pass through them; and "
        "the table gives the same rows whenever it is read"
    )


def _rows(unit: Unit) -> Assumption | None:
    public = "the number of records is public: neighbours have the same"
    return _trust(public) if unit.total_is_public else None


def _readable(form: TextForm | None) -> str:
    if form is None:
        return (
            "that the table can be read is public: its file is whole, or its library made columns of one "
            "type each"
        )
    whole = "that the file can be read is public: it is whole"
    if form.records == "checked":
        return (
            f"{whole}, and no line ends inside quotes, is longer than a record may be, or holds a line end "
            "of another kind (one person's line may, and then there is no release)"
        )
    if form.records == "multiline":
        return f"{whole}, all its quotes are closed, and none is followed by text"
    return whole


def _made_sure(statement: str) -> Assumption:
    return Assumption(statement=statement, enforced=True)


def _trust(statement: str) -> Assumption:
    return Assumption(statement=statement, enforced=False)
