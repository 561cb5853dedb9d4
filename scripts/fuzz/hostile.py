"""Hostile input: values that break programs, and ways to damage what is valid.

Every choice comes from a `random.Random`, so that a seed repeats a case and hypothesis, which hands out such
generators too, can shrink one.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    *(
        0,
        -1,
        1,
        2,
        7,
        30,
        1000,
        2**31,
        2**53 + 1,
        2**62,
        2**63 - 1,
        -(2**63),
        2**64,
        10**7,
        10**7 + 1,
        10**9,
        10**12,
        10**30,
        10**300,
    ),
    *(math.nan, math.inf, -math.inf, 1e308, -1e308, 1e300, 5e-324, 0.1, 0.5, -0.0, True, False, None),
)
TEXTS = (
    *(
        "",
        " ",
        "\x00",
        "a\x00b",
        "\n",
        "a\nb",
        "\r",
        "\x1b[31m",
        '"',
        "'",
        "\\",
        "\u2028",
        "\ufeff",
        "\u202e",
        "\ud800",
        "\udfff\ud800",
        "\U0001f600",
    ),
    *(
        "nan",
        "NaN",
        "inf",
        "-inf",
        "1e999",
        "-1e999",
        "1e-999",
        "9" * 400,
        "9" * 5000,
        "-0",
        "+1",
        "+-1",
        "0x10",
        "1_0",
        "1,5",
        "\u0661",
        "1e5",
        "00311",
    ),
    *(
        "2020-02-31",
        "9999-12-31",
        "9999-12-31T23:59:59.999999999+99:99",
        "0000-00-00",
        "0001-01-01",
        "24:00",
        "2020-01-01T00:00:00Z",
        "-2020-01-01",
    ),
    *(
        "true",
        "null",
        "NULL",
        "NA",
        "other",
        "=1+1",
        "+cmd",
        "-1+1",
        "@SUM(A1)",
        "a.b",
        ".a",
        "[0]",
        "a,b",
        "a;b",
        "a\tb",
        "../../x",
        "/dev/zero",
        "%",
        "%Q",
    ),
    *(
        "%Y" * 50,
        "%s%n",
        "{}",
        "{0.__class__}",
        "$(x)",
        "1/3",
        "1e999999",
        "x" * 1000,
        "x" * 10**6,
        "a" * 64,
        "a.b",
        "integer",
        "date",
        "mwem",
    ),
)
DEEP = 50_000
"""Levels of nesting."""
MOST = 2_000_000
"""Characters of a table."""


def value(random: Random, depth: int = 0) -> Any:
    """Any value that JSON can hold, most of them strange."""
    kind = random.randrange(10)
    if kind < 4:
        return random.choice(NUMBERS)
    if kind < 8 or depth > 2:
        return random.choice(TEXTS)
    if kind == 8:
        return [value(random, depth + 1) for _ in range(random.randrange(4))]
    return {random.choice(TEXTS[:60]): value(random, depth + 1) for _ in range(random.randrange(3))}


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value inside a tree of lists and dictionaries."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        at = waiting.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        found += [(at, key) for key in keys]
        waiting += [at[key] for key in keys]
    return found


def changed(tree: Any, random: Random) -> Any:
    """A copy of a tree with one to three of its values replaced, moved, repeated, nested, renamed or gone."""
    tree = json.loads(json.dumps(tree))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = _places(tree)
        if not places:
            return value(random)
        holder, key = random.choice(places)
        kind = random.randrange(9)
        if kind < 3:
            holder[key] = value(random)
        elif kind == 3:
            del holder[key]
        elif kind == 4:
            other, from_key = random.choice(places)
            holder[key] = (
                json.loads(json.dumps(other[from_key]))
                if from_key in (other if isinstance(other, dict) else range(len(other)))
                else None
            )
        elif kind == 5:
            holder[key] = [holder[key]] * random.choice((1, 2, 3, 50))
        elif kind == 6 and isinstance(holder, dict):
            holder[random.choice((*TEXTS, *map(str, holder)))] = holder.pop(key)
        elif kind == 7 and isinstance(holder[key], int | float):
            holder[key] = random.choice(
                (
                    holder[key] + 1,
                    holder[key] - 1,
                    -holder[key],
                    holder[key] * 2,
                    str(holder[key]),
                    [holder[key]],
                )
            )
        elif isinstance(holder[key], list):
            random.shuffle(holder[key])
            holder[key] = holder[key] * random.choice((1, 1, 2))
        else:
            holder[key] = {"x": holder[key]}
    return tree


def as_json(tree: Any, random: Random) -> bytes:
    """The tree as JSON; now and then with a key twice, or with something nested far too deep."""
    text = json.dumps(tree, ensure_ascii=random.random() < 0.5)
    return _spoilt(text, random, "{", '"x": 1, ').encode("utf-8", "surrogatepass")


def as_toml(tree: Any, random: Random) -> bytes:
    """The tree as TOML, in inline values; it need not be valid."""
    if not isinstance(tree, dict):
        return repr(tree).encode("utf-8", "surrogatepass")
    text = "\n".join(f"{_toml_key(key, random)} = {_toml(inside, random)}" for key, inside in tree.items())
    return _spoilt(text, random, "\n", "x = 1\n").encode("utf-8", "surrogatepass")


def _spoilt(text: str, random: Random, after: str, extra: str) -> str:
    kind = random.randrange(40)
    at = random.randrange(len(text) + 1)
    if kind == 0:
        opening, closing = random.choice(
            (("[", "]"), ('{"a":', "}"), ("{a=", "}"), ("a.", ""), ("[[", ""), ("(", ""), ("'''", ""))
        )
        deep = random.choice((90, 900, 990, DEEP))
        return text[:at] + opening * deep + random.choice(("", "1")) + closing * deep + text[at:]
    if kind == 1:
        return text.replace(after, after + extra)
    return text


def _toml_key(key: str, random: Random) -> str:
    return key if random.random() < 0.9 and key.isidentifier() else json.dumps(key)


def _toml(tree: Any, random: Random) -> str:
    if isinstance(tree, dict):
        return (
            "{"
            + ", ".join(f"{_toml_key(key, random)} = {_toml(inside, random)}" for key, inside in tree.items())
            + "}"
        )
    if isinstance(tree, list):
        return "[" + ", ".join(_toml(inside, random) for inside in tree) + "]"
    if isinstance(tree, bool):
        return str(tree).lower()
    return json.dumps(tree, ensure_ascii=False) if isinstance(tree, str) else repr(tree)


def damaged(data: bytes, random: Random, others: Sequence[bytes] = ()) -> bytes:
    """The bytes with one to four places flipped, overwritten, cut out, repeated or spliced, or the end
    missing.
    """
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(found) + 1)
        far = random.choice((random.randrange(1, 9), random.randrange(len(found) + 1)))
        _DAMAGE[random.randrange(len(_DAMAGE))](found, at, far, random, others)
    return bytes(found)


def _flip(found: bytearray, at: int, far: int, random: Random, others: Sequence[bytes]) -> None:
    if at < len(found):
        found[at] ^= 1 << random.randrange(8)


def _write(found: bytearray, at: int, far: int, random: Random, others: Sequence[bytes]) -> None:
    """A number that some field of a format may take for a size."""
    size = random.choice(
        (0, 1, -1, 2**15, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63), len(found))
    )
    code = random.choice("bhiq")
    bits = 8 * struct.calcsize(code)
    found[at : at + bits // 8] = struct.pack("<" + code, (size + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1))


def _cut(found: bytearray, at: int, far: int, random: Random, others: Sequence[bytes]) -> None:
    del found[at : at + far]


def _end(found: bytearray, at: int, far: int, random: Random, others: Sequence[bytes]) -> None:
    del found[at:]


def _repeat(found: bytearray, at: int, far: int, random: Random, others: Sequence[bytes]) -> None:
    found[at:at] = found[at : at + far]


def _splice(found: bytearray, at: int, far: int, random: Random, others: Sequence[bytes]) -> None:
    other = random.choice(others) if others else bytes(found)
    start = random.randrange(len(other) + 1)
    found[at : at + random.choice((0, far))] = other[start : start + far]


def _insert(found: bytearray, at: int, far: int, random: Random, others: Sequence[bytes]) -> None:
    found[at:at] = random.choice(TEXTS[:-10]).encode("utf-8", "surrogatepass")


_DAMAGE: tuple[Callable[[bytearray, int, int, Random, Sequence[bytes]], None], ...] = (
    _flip,
    _flip,
    _write,
    _write,
    _cut,
    _end,
    _repeat,
    _splice,
    _insert,
)


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
    quote: Callable[[str], str] = random.choice((_quoted, _quoted, _quoted, str))
    delimiter, line = (
        random.choice((",", ",", ",", ";", "\t", "|")),
        random.choice(("\n", "\n", "\r\n", "\r")),
    )
    text = line.join(delimiter.join(quote(cell) for cell in row) for row in [names, *table]) + random.choice(
        ("", line, line * 2, '"', "\x1a")
    )
    encoding = random.choice(("utf-8", "utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-32"))
    return text[:MOST].encode(encoding, "surrogatepass" if encoding.startswith("utf") else "replace")


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if any(c in cell for c in ',;\t"\r\n|') else cell
