"""Journals, in a folder and in a database: what was kept comes back, once, whole, to one process alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.places import Place, frames

from factored_mwem.errors import Busy, Lost
from factored_mwem.ledger.journal import CODE_BYTES, HEAD, Journal
from factored_mwem.ledger.opening import create_ledger, open_ledger

NAME, KEY = "0f" * 16, b"key"
HEADER = {"entry": "mark"}


def opened(place: Place, key: bytes = KEY) -> Journal:
    return open_ledger(str(place)).journals.open(NAME, key)


def written(place: Place, count: int = 4) -> None:
    journal = opened(place)
    journal.begin(HEADER)
    for i in range(count):
        journal.make_room(1000)
        journal.append({"draw": "add", "i": i}, np.arange(i, dtype=np.int64))
    journal.close()


def read(place: Place) -> list[tuple[int, list[int]]]:
    journal = opened(place)
    found = []
    while (record := journal.replay()) is not None:
        found.append((record[0]["i"], record[1].tolist()))
    journal.close()
    return found


WHOLE = [(i, list(range(i))) for i in range(4)]


def test_what_was_kept_comes_back_and_the_next_record_follows(new_place: Place) -> None:
    written(new_place)
    assert read(new_place) == WHOLE
    journal = opened(new_place)
    assert journal.header == HEADER and journal.waiting
    journal.append({"i": 9}, np.arange(9))
    journal.close()
    assert read(new_place) == [*WHOLE, (9, list(range(9)))]


def test_one_process_has_it(new_place: Place) -> None:
    held = opened(new_place)
    with pytest.raises(Busy, match="under way in another process"):
        opened(new_place)
    held.close()
    opened(new_place).close()


def test_a_lost_end_is_a_shorter_journal(new_place: Place) -> None:
    """In a file it may be torn; in a database nobody has seen it either."""
    written(new_place)
    new_place.lose_last_record()
    assert read(new_place) == WHOLE[:-1]


@pytest.mark.parametrize("number", range(4))
def test_what_follows_a_damaged_record_is_not_drawn_again(new_place: Place, number: int) -> None:
    written(new_place)
    new_place.damage_record(number)
    with pytest.raises(Lost, match="is damaged"):
        opened(new_place)


@pytest.mark.parametrize("number", range(4))
def test_a_record_that_was_taken_out_is_missed(new_place: Place, number: int) -> None:
    written(new_place)
    new_place.cut_record(number)
    with pytest.raises(Lost, match="is damaged"):
        opened(new_place)


def test_a_header_shows_once_a_draw_is_kept(new_place: Place) -> None:
    """While another process holds it, too; and with its own key alone."""
    journals = open_ledger(str(new_place)).journals
    assert journals.headers(lambda name: KEY) == {}
    journal = opened(new_place)
    journal.begin(HEADER)
    assert journals.headers(lambda name: KEY) == {}
    journal.append({"draw": 1}, np.arange(3))
    assert list(journals.headers(lambda name: KEY).values()) == [HEADER]
    assert journals.headers(lambda name: b"other") == {}
    journal.close()


def test_a_journal_is_begun_again_where_nothing_was_drawn(new_place: Place) -> None:
    written(new_place, count=0)
    journal = opened(new_place)
    journal.begin({"entry": "another"})
    journal.append({"draw": 1}, np.arange(3))
    journal.close()
    again = opened(new_place)
    assert again.header == {"entry": "another"} and again.replay() is not None and not again.waiting
    again.close()


def test_room_that_was_not_needed_is_not_kept(new_place: Place) -> None:
    """It would tell how many keys there are."""
    written(new_place)
    sizes = [HEAD.size + CODE_BYTES + len(text) for text in (b'{"entry": "mark"}\n',)]
    sizes += [HEAD.size + CODE_BYTES + len(b'{"draw": "add", "i": 0}\n') + 8 * i for i in range(4)]
    if new_place.folder is None:
        kept = [size for (size,) in new_place.rows("SELECT length(record) FROM journals ORDER BY number")]
        assert kept == sizes
    else:
        (path,) = new_place.folder.iterdir()
        assert path.stat().st_size == sum(sizes)


def test_a_full_store_is_said_and_leaves_no_record(new_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    written(new_place)
    journal = opened(new_place)

    def full(handle: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    if new_place.folder is None:
        new_place.sql(
            "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'no space' USING ERRCODE = 'disk_full'; END $$",
            "CREATE TRIGGER no_room BEFORE INSERT ON journals FOR EACH ROW EXECUTE FUNCTION no_room()",
        )
    else:
        monkeypatch.setattr(os, "write", full)
    with pytest.raises(Busy, match="space"):
        journal.append({"draw": "add"}, np.arange(3))
    monkeypatch.undo()
    if new_place.folder is None:
        new_place.sql("DROP FUNCTION no_room CASCADE")
    journal.close()
    assert read(new_place) == WHOLE


@pytest.mark.system
@pytest.mark.parametrize("new_place", ["database"], indirect=True)
def test_what_is_asked_of_the_server_does_not_depend_on_the_draw(
    new_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a full disk would refuse some draws and take others, and those it refuses are made again."""
    sizes: list[int] = []
    journal: Any = opened(new_place)
    execute = type(journal._db).execute

    def spying(self: Any, statement: str, values: Any = ()) -> Any:
        if statement.startswith("INSERT INTO journals"):
            sizes.append(len(values[2]))
        return execute(self, statement, values)

    journal.begin(HEADER)
    monkeypatch.setattr(type(journal._db), "execute", spying)
    for keys in ([], ["a"], ["a", "b" * 50]):
        journal.make_room(200)
        journal.append({"draw": "threshold", "keys": keys}, np.arange(len(keys)))
    journal.close()
    assert sizes == [HEAD.size + 200 + CODE_BYTES] * 3
    (storage,) = new_place.rows(
        "SELECT attstorage FROM pg_attribute WHERE attrelid = 'journals'::regclass AND attname = 'record'"
    )[0]
    assert storage == "e"  # nor is it compressed


# --- files alone ---


@pytest.mark.slow
def test_a_file_torn_anywhere_keeps_what_is_whole(tmp_path: Path) -> None:
    """Cut after every byte, or filled with zeros from there, as after a power cut a file may have its length
    and not its content: never an error, always a prefix of the records, and the next record follows it.
    """
    create_ledger(str(tmp_path / "books"))
    place = Place(tmp_path / "books")
    written(place)
    (path,) = Path(f"{place}.journals").iterdir()
    data = path.read_bytes()

    def kept() -> list[Any]:
        journal = opened(place)
        header = [] if journal.header is None else [journal.header]
        journal.close()
        return [*header, *read(place)]

    for cut in range(len(data) + 1):
        for rest in {b"", bytes(len(data) - cut) if cut >= len(data) - 30 else b""}:
            path.write_bytes(data[:cut] + rest)
            found = kept()
            assert found == [HEADER, *WHOLE][: len(found)]
            journal = opened(place)
            journal.append({"i": 9}, np.zeros(0, dtype=np.int64))
            journal.close()
            assert kept() == [*found, (9, []) if found else {"i": 9}]
    assert found == [HEADER, *WHOLE]


def test_any_damage_before_the_last_record_is_seen(tmp_path: Path) -> None:
    """What follows it was drawn: to cut it off would be to draw it again. Of another key there is nothing."""
    create_ledger(str(tmp_path / "books"))
    place = Place(tmp_path / "books")
    written(place)
    other = opened(place, b"other")
    assert other.header is None and other.replay() is None
    other.close()
    (path,) = Path(f"{place}.journals").iterdir()
    data = path.read_bytes()
    for at in range(0, frames(data)[-1], 7):
        damaged = bytearray(data)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(Lost, match="damaged"):
            opened(place)
