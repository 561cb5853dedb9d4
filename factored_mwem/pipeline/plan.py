"""What is decided, and refused, from public facts before a private row is read."""

from __future__ import annotations

from collections.abc import Sequence

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import ResourceError
from factored_mwem.mechanisms.limits import Machine, limits_of, memory_limit
from factored_mwem.policy import Policy
from factored_mwem.privacy.counts import check_memory
from factored_mwem.privacy.discover import OTHER
from factored_mwem.tables.contributions import without
from factored_mwem.tables.profile import kind_of
from factored_mwem.tables.source import Table
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.workload import Workload


def without_id(
    policy: Policy, private: Table, declared: Domain | None, columns: Sequence[str] | None
) -> tuple[Table, Domain | None, Sequence[str] | None]:
    """Table, domain and columns as if the privacy id were not among them; as they are where there is none."""
    if declared is not None:  # whatever it says of itself, a domain that is handed in is declared
        declared = Domain(a.model_copy(update={"learnt": False}) for a in declared)
    if policy.privacy_id is None:
        return private, declared, columns
    if declared is not None and policy.privacy_id in declared:
        declared = declared.project([name for name in declared.names if name != policy.privacy_id])
    columns = None if columns is None else [name for name in columns if name != policy.privacy_id]
    return without(private, policy.privacy_id), declared, columns


def check_learnable(
    visible: Table, columns: Sequence[str] | None, workload: Workload, policy: Policy, machine: Machine
) -> None:
    """What can be refused before a domain is learnt: by the names and types of the columns, and as if each
    had a single code.
    """
    names = [name for name in visible.schema.names if columns is None or name in columns]
    workload.check(names)
    if not visible.text:
        workload.check_kinds({name: kind_of(visible.schema.field(name)) for name in names})
    if names and not workload.asked:
        least = Domain(
            Attribute.model_validate({"name": name, "categories": [OTHER], "constraints": {"required": True}})
            for name in names
        )
        usable(workload, least, policy, machine)


def missing_ids(policy: Policy, declared: Domain | None) -> tuple[str, ...]:
    """What the domain calls missing in the column that names the person."""
    if declared is None or policy.privacy_id is None or policy.privacy_id not in declared:
        return ()
    return declared[policy.privacy_id].missing_values or ()


def usable(workload: Workload, domain: Domain, policy: Policy, machine: Machine) -> tuple[Candidates, int]:
    """The candidates that fit the cell cap, and how many do not; ResourceError where they need more memory
    than the machine has to give.
    """
    candidates = workload.candidates(domain)
    if policy.engine == "tree":  # what is too large as it is may be measured at coarser levels
        limits_of(candidates, policy, machine)
        return candidates, 0
    for attribute in domain:
        if attribute.size > policy.cells:
            size, cap = attribute.size, policy.cells
            raise ResourceError(
                f"attribute {attribute.name!r} has {size:,} codes, more than --max-cells {cap:,}; use fewer "
                "bins or raise it"
            )
    fitting = candidates.keep(candidates.cells <= policy.cells)
    if workload.asked and len(fitting) < len(candidates):
        raise ResourceError(
            f"a question spans {candidates.cells.max():.3g} cells, more than --max-cells {policy.cells:,}; "
            "raise it or use fewer bins"
        )
    check_memory(fitting, memory_limit())  # of now: it decides nothing but whether to go on
    if policy.components == "one" and domain.cells > policy.cells:
        raise ResourceError(
            f"components='one' needs {domain.cells:,} cells, more than --max-cells {policy.cells:,}; raise "
            "it or use fewer columns"
        )
    return fitting, len(candidates) - len(fitting)
