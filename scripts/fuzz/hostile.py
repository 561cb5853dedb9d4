"""Hostile input: ways to damage what is valid, with values from the package's table of hostile ones.

Every choice comes from a `random.Random`, so that a seed repeats a case and hypothesis, which hands out such
generators too, can shrink one.
"""

from __future__ import annotations

import csv
import io
import json
import struct
from collections.abc import Sequence
from random import Random
from typing import Any

from factored_mwem.owner.verifier.hostile import CHARACTERS, FLOATS, INTEGERS, WORDS

NUMBERS: tuple[Any, ...] = (
    *(*INTEGERS, *FLOATS, 2, 30, 1000, 10**7, 10**7 + 1, 10**9, 10**12, 2**64, 10**30, 10**300),
    *(1e300, 0.5, True, False, None),
)
SHORT = (*CHARACTERS, *(text for texts in WORDS.values() for text in texts))
TEXTS = (*SHORT, "9" * 5000, "%Y" * 50, "a" * 64, "x" * 1000, "x" * 10**6)
VALID = tuple(text for text in TEXTS if "\ud800" not in text)
"""Texts that can be UTF-8."""
DEEP = 50_000
"""Levels of nesting."""
MOST = 2_000_000
"""Characters of a table."""
SIZES = (0, 1, -1, 2**15, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
"""Numbers for a field that a format may take for a size."""


def value(random: Random, depth: int = 0) -> Any:
    """Any value that JSON can hold, most of them strange."""
    kind = random.randrange(10)
    if kind < 4:
        return random.choice(NUMBERS)
    if kind < 8 or depth > 2:
        return random.choice(TEXTS)
    if kind == 8:
        return [value(random, depth + 1) for _ in range(random.randrange(4))]
    return {random.choice(SHORT): value(random, depth + 1) for _ in range(random.randrange(3))}


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value inside a tree of lists and dictionaries."""
    places, waiting = list[tuple[Any, Any]](), [tree]
    while waiting:
        at = waiting.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        places += [(at, key) for key in keys]
        waiting += [at[key] for key in keys]
    return places


def changed(tree: Any, random: Random) -> Any:
    """A copy of a tree with one to three of its values replaced, moved, repeated, nested, renamed or gone."""
    tree = json.loads(json.dumps(tree))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = _places(tree)
        if not places:
            return value(random)
        holder, key = random.choice(places)
        old, kind = holder[key], random.randrange(9)
        if kind == 3:
            del holder[key]
        elif kind == 6 and isinstance(holder, dict):
            holder[random.choice((*TEXTS, *map(str, holder)))] = holder.pop(key)
        elif kind < 3:
            holder[key] = value(random)
        elif kind == 4:
            other, from_key = random.choice(places)
            holder[key] = json.loads(json.dumps(other[from_key]))
        elif kind == 5:
            holder[key] = [old] * random.choice((1, 2, 3, 50))
        elif kind == 7 and isinstance(old, int | float):
            holder[key] = random.choice((old + 1, old - 1, -old, old * 2, str(old), [old]))
        elif isinstance(old, list):
            random.shuffle(old)
            holder[key] = old * random.choice((1, 1, 2))
        else:
            holder[key] = {"x": old}
    return tree


def as_json(tree: Any, random: Random) -> bytes:
    """The tree as JSON; now and then with a key twice, or with something nested far too deep."""
    text = json.dumps(tree, ensure_ascii=random.random() < 0.5)
    return _spoilt(text, random, "{", '"x": 1, ').encode("utf-8", "surrogatepass")


def as_toml(tree: Any, random: Random) -> bytes:
    """The tree as TOML, in inline values; it need not be valid."""
    if not isinstance(tree, dict):
        return repr(tree).encode("utf-8", "surrogatepass")
    text = "\n".join(_toml_pairs(tree, random))
    return _spoilt(text, random, "\n", "x = 1\n").encode("utf-8", "surrogatepass")


def _spoilt(text: str, random: Random, after: str, extra: str) -> str:
    kind, at = random.randrange(40), random.randrange(len(text) + 1)
    if kind == 0:
        pairs = (("[", "]"), ('{"a":', "}"), ("{a=", "}"), ("a.", ""), ("[[", ""), ("(", ""), ("'''", ""))
        (opening, closing), deep = random.choice(pairs), random.choice((90, 900, 990, DEEP))
        return text[:at] + opening * deep + random.choice(("", "1")) + closing * deep + text[at:]
    return text.replace(after, after + extra) if kind == 1 else text


def _toml_pairs(tree: dict[str, Any], random: Random) -> list[str]:
    keys = [key if random.random() < 0.9 and key.isidentifier() else json.dumps(key) for key in tree]
    return [f"{key} = {_toml(inside, random)}" for key, inside in zip(keys, tree.values(), strict=True)]


def _toml(tree: Any, random: Random) -> str:
    if isinstance(tree, dict):
        return "{" + ", ".join(_toml_pairs(tree, random)) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(_toml(inside, random) for inside in tree) + "]"
    if isinstance(tree, bool):
        return str(tree).lower()
    return json.dumps(tree, ensure_ascii=False) if isinstance(tree, str) else repr(tree)


def damaged(data: bytes, random: Random, others: Sequence[bytes] = ()) -> bytes:
    """The bytes with one to four places flipped, overwritten, cut out, repeated or spliced, or the end
    missing.
    """
    spoilt = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(spoilt) + 1)
        far = random.choice((random.randrange(1, 9), random.randrange(len(spoilt) + 1)))
        kind = random.choice(("flip", "flip", "write", "write", "cut", "end", "repeat", "splice", "insert"))
        if kind == "flip" and at < len(spoilt):
            spoilt[at] ^= 1 << random.randrange(8)
        elif kind == "write":
            size, code = random.choice((*SIZES, len(spoilt))), random.choice("bhiq")
            bits = 8 * struct.calcsize(code)
            whole = (size + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
            spoilt[at : at + bits // 8] = struct.pack("<" + code, whole)
        elif kind == "cut":
            del spoilt[at : at + far]
        elif kind == "end":
            del spoilt[at:]
        elif kind == "repeat":
            spoilt[at:at] = spoilt[at : at + far]
        elif kind == "splice":
            other = random.choice(others) if others else bytes(spoilt)
            start = random.randrange(len(other) + 1)
            spoilt[at : at + random.choice((0, far))] = other[start : start + far]
        elif kind == "insert":
            spoilt[at:at] = random.choice(SHORT).encode("utf-8", "surrogatepass")
    return bytes(spoilt)


def csv_text(names: Sequence[str], rows: Sequence[Sequence[str]], random: Random) -> bytes:
    """A table of text with hostile cells, lines, delimiters, quotes and encodings."""
    names, table = list(names), [list(row) for row in rows]
    for _ in range(random.randrange(6)):
        row = random.choice(table)
        row[random.randrange(len(row))] = random.choice(TEXTS)
    if random.random() < 0.15:
        names[random.randrange(len(names))] = random.choice(TEXTS)
    if random.random() < 0.1:
        random.choice(table).append("extra")
    if random.random() < 0.05:
        names = names * random.choice((2, 100))
    if random.random() < 0.05:
        table = table * random.choice((0, 300))
    quoted = random.choice((True, True, True, False))
    delimiter, end = random.choice(",,,;\t|"), random.choice(("\n", "\n", "\r\n", "\r"))
    text = end.join(line(r, delimiter) if quoted else delimiter.join(r) for r in [names, *table])
    text += random.choice(("", end, end * 2, '"', "\x1a"))
    encoding = random.choice((*["utf-8"] * 4, "utf-8-sig", "utf-16", "latin-1", "utf-32"))
    return text[:MOST].encode(encoding, "surrogatepass" if encoding.startswith("utf") else "replace")


def line(cells: Sequence[str], delimiter: str) -> str:
    """A line without its end, as a conforming writer has it."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow(cells)
    return text.getvalue().removesuffix("\n")
