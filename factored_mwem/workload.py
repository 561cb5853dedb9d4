"""Workload: the marginals that must come out right."""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from factored_mwem.candidates import Candidates
from factored_mwem.domain import Clique, Domain
from factored_mwem.errors import InputError, ResourceError

MAX_CANDIDATES = 20_000_000
"""More candidate marginals than this are refused: their index alone would fill the memory."""


class WorkloadFile(BaseModel):
    """The file form: `marginals` asks for all K-way marginals, `cliques` lists single ones by attribute names."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    marginals: int | None = Field(default=None, ge=1)
    cliques: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """Marginals by order (`orders`: all of that many attributes) and by name (`named`).

    >>> Workload.marginals(2) + Workload.of([("age", "sex", "race")])
    Workload(orders=(2,), named=(('age', 'sex', 'race'),))
    """

    orders: tuple[int, ...] = ()
    named: tuple[Clique, ...] = ()

    @classmethod
    def marginals(cls, order: int) -> Workload:
        """All marginals of `order` attributes, and with them all of fewer."""
        if order < 1:
            raise InputError(f"--marginals {order}: marginals have at least one attribute")
        return cls(orders=(order,))

    @classmethod
    def of(cls, cliques: Iterable[Sequence[str]]) -> Workload:
        """The marginals over these attribute names."""
        named = tuple(tuple(clique) for clique in cliques)
        if any(not clique for clique in named):
            raise InputError("a workload lists an empty marginal; name at least one attribute")
        return cls(named=named)

    @classmethod
    def load(cls, path: str | Path) -> Workload:
        """Read a workload file (TOML or JSON): `marginals = 3` and/or `cliques = [["age", "sex"], ...]`."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            data: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
            spec = WorkloadFile.model_validate(data)
        except OSError as error:
            raise InputError(f"cannot read the workload file {path}: {error.strerror or error}") from None
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        except ValueError as error:
            raise InputError(f"{path}: not a workload file ({error})") from None
        workload = cls.of(spec.cliques)
        return workload + cls.marginals(spec.marginals) if spec.marginals else workload

    def __add__(self, other: Workload) -> Workload:
        return Workload(self.orders + other.orders, self.named + other.named)

    def candidates(self, domain: Domain) -> Candidates:
        """The targets and every marginal inside one: a small marginal is often the cheaper way to a large one."""
        self.check(domain.names)
        top = max(self.orders, default=0)
        inside = {
            sub
            for clique in self.named
            for order in range(1, len(clique) + 1)
            for sub in itertools.combinations([domain.index(name) for name in domain.clique(clique)], order)
            if order > top
        }
        width = max([top, *(len(sub) for sub in inside)])
        parts = [_all_of(len(domain), order, width) for order in range(1, top + 1)]
        listed = [sub + (-1,) * (width - len(sub)) for sub in sorted(inside)]
        return Candidates(domain, np.concatenate([*parts, np.array(listed, dtype=np.int32).reshape(-1, width)]))

    def check(self, names: Sequence[str]) -> None:
        """InputError or ResourceError where the workload does not fit attributes of these names."""
        if not self.orders and not self.named:
            raise InputError("the workload is empty; give --marginals K or a workload file")
        for order in self.orders:
            if order > len(names):
                raise InputError(f"--marginals {order}: the table has only {len(names)} attributes")
        known = set(names)
        for clique in self.named:
            if len(clique) > 20:
                raise InputError(f"a marginal of {len(clique)} attributes has too many parts; 20 is the most")
            unknown = [name for name in clique if name not in known]
            if unknown:
                raise InputError(f"the workload names {unknown[0]!r}, which is not among the attributes")
        count = sum(2 ** len(c) for c in self.named)
        for order in range(1, max(self.orders, default=0) + 1):
            count += math.comb(len(names), order)
            if count > MAX_CANDIDATES:
                break
        if count > MAX_CANDIDATES:
            raise ResourceError(f"the workload has more than {MAX_CANDIDATES:,} candidate marginals; lower --marginals or use --columns")


def _all_of(attributes: int, order: int, width: int) -> np.ndarray:
    """int32[candidate, width]: all combinations of `order` attributes, padded; streamed, for there may be millions."""
    members = np.full((math.comb(attributes, order), width), -1, dtype=np.int32)
    flat = itertools.chain.from_iterable(itertools.combinations(range(attributes), order))
    members[:, :order] = np.fromiter(flat, dtype=np.int32, count=len(members) * order).reshape(-1, order)
    return members
