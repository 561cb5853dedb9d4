"""Request: what is asked of a release, checked as far as public facts allow; nothing but names and types is
read.
"""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral
from pathlib import Path
from typing import Any, Unpack

from factored_mwem.accounting.accountant import Budget
from factored_mwem.backends.source import Source, open_source
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, shown
from factored_mwem.policy import Choices, Policy
from factored_mwem.workload.workload import Workload

OWN = ("domain", "columns", "spill", "rows", "sample_seed")
"""Options of a request that are not its policy's."""


class Options(Choices, total=False):
    """What a request may say as keyword arguments: its own options, and the fields of a policy."""

    domain: Domain | dict[str, Any] | str | Path | None
    columns: Sequence[str] | None
    rows: int | None
    sample_seed: int | None
    spill: str | Path | None


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A private table, what must come out right, and at what price."""

    private: Source = field(repr=False)
    workload: Workload
    policy: Policy
    declared: Domain | None
    columns: list[str] | None
    rows: int | None
    sample_seed: int | None
    spill: Path | None = None
    """Folder for codes that memory does not hold."""

    @classmethod
    def of(
        cls, table: Any, workload: Workload | int, policy: Policy | None = None, **options: Unpack[Options]
    ) -> Request:
        """InputError for what a typed caller could not have passed: better now than after the budget is
        spent. Options that are not the request's own are the policy's, where none is given.
        """
        choices: dict[str, Any] = dict(options)
        domain, columns, spill, *numbers = (choices.pop(name, None) for name in OWN)
        if isinstance(workload, Integral) and not isinstance(workload, bool):
            workload = Workload.marginals(int(workload))
        if isinstance(columns, str) or (columns is not None and not list(columns)):
            raise InputError(f"columns={shown(columns)}: must be a list of one column name or more")
        _check_arguments(workload, policy, choices, **dict(zip(OWN[3:], numbers, strict=True)))
        assert isinstance(workload, Workload)  # as the check has found
        rows, sample_seed = (None if n is None else int(n) for n in numbers)
        policy = policy if policy is not None else Policy.of(**choices)
        declared, columns = _declared(domain), None if columns is None else list(columns)
        folder = _folder(spill)
        private = _opened(table, policy, declared, columns, folder)
        return cls(private, workload, policy, declared, columns, rows, sample_seed, folder)

    def __repr__(self) -> str:
        columns = reprlib.repr(self.columns)
        return (
            f"Request({self.private!r}, {self.workload!r}, {self.policy!r}, declared={self.declared!r}, "
            f"columns={columns}, rows={self.rows}, sample_seed={self.sample_seed})"
        )

    @property
    def budget(self) -> Budget:
        return self.policy.budget(learn_domain=self.declared is None)

    def fingerprint(self, key: bytes) -> bytes:
        """A keyed digest of the private table."""
        return self.private.fingerprint(key)

    @property
    def certifying(self) -> Fraction:
        """What all certificates may spend together."""
        return self.budget.amount * Fraction(self.policy.certificate or 0)

    @property
    def fitting_all(self) -> Budget:
        """What the certificates leave of the budget; all, where there are none."""
        return self.budget.part(self.budget.amount - self.certifying)

    @property
    def fitting(self) -> Budget:
        """An equal part of that for each try."""
        return self.budget.part((self.budget.amount - self.certifying) / self.policy.tries)

    @property
    def parameters(self) -> dict[str, Any]:
        """All that decides what is released, but for the rows: public facts, as JSON."""
        found = {
            "policy": self.policy.model_dump(mode="json"),
            "workload": self.workload.to_dict(),
            "domain": self.declared.to_dict() if self.declared is not None else None,
            "schema": [[field.name, str(field.type)] for field in self.private.schema],
            "columns": self.columns,
            "rows": self.rows,
            "sample_seed": self.sample_seed,
        }
        return json.loads(json.dumps(found))


def _declared(domain: Domain | dict[str, Any] | str | Path | None) -> Domain | None:
    """The domain that somebody declared, whatever form it came in."""
    if isinstance(domain, str | Path):
        domain = Domain.load(domain)
    elif isinstance(domain, dict):
        domain = Domain.from_dict(domain)
    if domain is None:
        return None
    if not isinstance(domain, Domain):
        raise InputError(
            f"domain={shown(domain)}: must be a Domain, a dictionary or the path of a domain file"
        )
    domain.check_reviewed()
    return domain


def _opened(
    table: Any,
    policy: Policy,
    declared: Domain | None,
    columns: Sequence[str] | None,
    folder: Path | None,
) -> Source:
    """The table, its cells as policy and domain say that they are written."""
    dialect = policy.dialect.beside(declared.dialect if declared is not None else None)
    names = columns if columns is not None or declared is None else declared.names
    if names is not None and policy.privacy_id is not None and policy.privacy_id not in names:
        names = [*names, policy.privacy_id]
    return open_source(table, policy.records, dialect, names, declared, policy.privacy_id, folder)


def _folder(spill: Any) -> Path | None:
    """InputError where it is no folder that can be written."""
    if spill is None:
        return None
    fit = isinstance(spill, str | Path) and Path(spill).is_dir() and os.access(spill, os.W_OK | os.X_OK)
    if not fit:
        named = str(spill) if isinstance(spill, Path) else shown(spill)
        raise InputError(f"--spill {named}: must be a folder that can be written")
    return Path(spill)


def _check_arguments(workload: Any, policy: Policy | None, choices: Any, **numbers: Any) -> None:
    if not isinstance(workload, Workload) or workload == Workload():
        raise InputError(
            f"workload={shown(workload)}: must be a Workload, or the order K of all K-way marginals"
        )
    if policy is not None and not isinstance(policy, Policy):
        raise InputError(f"policy={shown(policy)}: must be a Policy, for example Policy.of(epsilon=1.0)")
    if policy is not None and choices:
        raise InputError(f"{next(iter(choices))} is given beside a policy; put it into the policy")
    for name, value in numbers.items():
        if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value < 0):
            raise InputError(f"{name}={shown(value)}: must be a whole number, 0 or more")
