"""`verify` of packages: it holds, and sees what one root would do to others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from audit.plants import VERIFIED

from factored_mwem import LinkedTable, Package, Reference
from factored_mwem.owner.verifier.packages import verify_tables
from factored_mwem.owner.verifier.verify import Verified
from factored_mwem.pipeline import linked, linked_views
from factored_mwem.pipeline.linked_request import LinkedRequest
from factored_mwem.pipeline.linked_views import LinkedViews, whole
from factored_mwem.request.request import ToldColumn
from factored_mwem.tables.inputs import people

pytestmark = pytest.mark.slow
DOMAINS = {
    "homes": {"fields": [{"name": "region", "categories": ["n", "s"]}]},
    "persons": {"fields": [{"name": "sex", "categories": ["F", "M"]}]},
    "visits": {"fields": [{"name": "ward", "categories": ["a", "b", "c"]}]},
}


def town(order_by: str | None = None) -> Package:
    rng = np.random.default_rng(2)
    homes = pa.table({"home": np.arange(50), "region": rng.choice(["n", "s"], 50)})
    home = np.repeat(np.arange(50), rng.integers(0, 4, 50))
    persons = pa.table({"id": np.arange(len(home)), "home": home, "sex": rng.choice(["F", "M"], len(home))})
    if order_by is not None:
        persons = persons.append_column(order_by, pa.array(rng.integers(0, 5, len(home))))
    person = rng.integers(0, len(home), 160)
    visits = pa.table({"person": person, "ward": rng.choice(["a", "b", "c"], 160)})
    return Package.of(
        [
            LinkedTable("homes", homes, "home"),
            LinkedTable("persons", persons, "id", Reference("home", "homes"), order_by=order_by),
            LinkedTable("visits", visits, None, Reference("person", "persons")),
        ]
    )


AGE = {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 4}}


def verified(pairs: int = 20, order_by: str | None = None, contributions: int = 2, **more: Any) -> Verified:
    """Few rows of a root are used, so that it shows which; of three or more noisy counts say how many."""
    domains = DOMAINS
    if order_by is not None:
        domains = DOMAINS | {"persons": {"fields": [*DOMAINS["persons"]["fields"], AGE]}}
    facts = {"domains": domains, "epsilon": 3.0, "contributions": contributions, "seed": 1}
    return verify_tables(town(order_by), 2, pairs=pairs, **facts, **more)


def test_a_package_keeps_its_promise() -> None:
    done = verified()
    assert done.holds and done.draws > 100 and done.worst > 0.9, done


def test_a_package_whose_rows_come_in_order_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what was before a row is taken from whoever's row is before it in the table."""
    assert verified(order_by="age").holds
    honest = people._window

    def of_anybody(*facts: Any) -> tuple[np.ndarray, ...]:
        person, used, number, previous = honest(*facts)
        return person, used, number, np.arange(len(previous)) - 1

    monkeypatch.setattr(people, "_window", of_anybody)
    assert verified(order_by="age").failed


def test_both_looks_at_how_many_rows_hang_on_a_root_are_replayed() -> None:
    """Of persons and of visits, beside the number of homes. Planted: each row counts, not each root."""
    done = verified(10, contributions=3)
    compared = {stage.name: stage.compared for stage in done.stages}
    assert done.holds and compared["discover rows"] > 4 * done.pairs, done
    with VERIFIED["rows counted for people"].plant():
        failures = verified(25, contributions=3).failures
    assert any(each.stage == "discover rows" for each in failures)


def test_rows_that_are_chosen_by_the_number_of_a_root_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: who else is there decides which rows of a root are used."""
    monkeypatch.setattr(LinkedViews, "_named", lambda self, table: pa.array(self._rows[table.name].root))
    assert verified().failed


def test_a_key_that_the_first_root_keeps_for_itself_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: of a key that two roots claim, the first alone has the row."""
    honest = linked_views.first_of
    monkeypatch.setattr(linked_views, "first_of", lambda keys, root=None: honest(keys))
    assert any(verified(40).failed for _ in range(9))  # a run with few draws of it may miss it


def test_what_is_told_from_private_rows_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: how what rows hang on is distributed follows from the private tables, for free."""
    honest = linked._told

    def peeking(request: LinkedRequest, *rest: Any) -> dict[str, ToldColumn]:
        homes = whole(request.sources["homes"].read_here("planted"))
        told = honest(request, *rest)
        if len(homes) % 2:
            told = {
                name: each._replace(weights=np.arange(len(each.weights)) ** 9.0)
                for name, each in told.items()
            }
        return told

    assert verified(rounds=4).holds
    monkeypatch.setattr(linked, "_told", peeking)
    assert verified(rounds=4).failed
