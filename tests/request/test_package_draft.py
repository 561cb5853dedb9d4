"""Keys that names tell: of packages as people write them, and of names that tell nothing."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from factored_mwem.errors import InputError
from factored_mwem.request.package import LinkedTable, Package
from factored_mwem.request.package_draft import drafted, guessed

GUESSES = [
    line.split(" => ")
    for line in """
users(user_id age) sessions(session_id user_id begun) => users.user_id sessions.session_id(user_id>users)
sessions(id userId) Users(ID name) => sessions.id(userId>Users) Users.ID
households(household area) persons(person household) => households.household persons.None(household>households)
persons(person) visits(person date) => persons.person visits.None(person>persons)
categories(category_id) people(person_id) => categories.category_id people.person_id
products(product_no category) categories(id) => products.product_no(category>categories) categories.id
boxes(box_key) client(id_client) account(account_id id_client box) => boxes.box_key client.id_client account.account_id(id_client>client,box>boxes)
customers(email age) orders(email day) => customers.email orders.None(email>customers)
users(user_id a) profiles(user_id b) => users.user_id profiles.None(user_id>users)
users(user_id) visits(user_id day) calls(user_id day) => users.user_id visits.None(user_id>users) calls.None(user_id>users)
users(user_id) visits(user_id day) stars(star_id day) => users.user_id visits.None(user_id>users) stars.star_id
person(person_id) people(person_id) => person.person_id people.person_id
a(x y z) b(x y) => a.None b.None
a(id) b(id) => a.id b.id
staff(id boss_id staff_id) => staff.id
用户(id) b(用户_id) => 用户.id b.None(用户_id>用户)
---(- --) b(--) => ---.-- b.None(-->---)
""".strip().splitlines()  # noqa: E501
]
"""Tables with their columns, and with the keys that are guessed: TABLE.KEY(COLUMN>TABLE,...)."""


@pytest.mark.parametrize(("tables", "found"), GUESSES)
def test_keys_follow_from_names(tables: str, found: str) -> None:
    columns = {name: each.split() for name, each in re.findall(r"(\S+?)\((.*?)\)", tables)}
    said = []
    for table in guessed(columns, dict.fromkeys(columns)):
        links = ",".join(f"{each.column}>{each.of}" for each in table.references)
        said.append(f"{table.name}.{table.key}" + (f"({links})" if links else ""))
    assert " ".join(said) == found


def test_a_draft_states_types_where_they_are_known() -> None:
    tables = guessed(
        {"users": ["id"], "visits": ["user_id"]}, {"users": "users.csv", "visits": "data/v.parquet"}
    )
    schemas = {"users": pa.schema({"id": pa.string()}), "visits": pa.schema({"user_id": pa.int64()})}
    users, visits = drafted(tables, schemas, {"users"})["resources"]
    assert users["schema"]["fields"] == [{"name": "id", "type": "any"}] and users["public"] is False
    assert visits["schema"]["fields"] == [{"name": "user_id", "type": "integer"}]
    assert visits["path"] == "data/v.parquet" and visits["format"] == "parquet"
    assert Package.of(tables).private[1].parent is not None


def test_a_draft_names_no_file_out_of_its_folder() -> None:
    for source in ("../users.csv", "/users.csv"):
        with pytest.raises(
            InputError, match=r"table 'users': its path .* leads out of the descriptor's folder"
        ):
            drafted([LinkedTable("users", source)], {"users": pa.schema({"id": pa.int8()})}, set())
