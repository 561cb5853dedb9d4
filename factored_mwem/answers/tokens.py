"""Tokens: the words, quoted texts and signs of a query, and what each says as a value."""

from __future__ import annotations

import re
from typing import NamedTuple

from factored_mwem.answers.query import Value
from factored_mwem.errors import InputError, shown

MAX_LENGTH, MAX_TOKENS = 20_000, 4_000
KINDS = ("count", "share", "mean", "median", "quantile", "marginal", "cube")
EXAMPLES = (
    "ask such as count where age >= 40 by sex | avg hours group by sex | "
    "SELECT count(*) FROM t WHERE age < 30"
)
WORDS = {
    *KINDS,
    "people",
    "rows",
    "per",
    "where",
    "given",
    "by",
    "and",
    "minus",
    "between",
    "in",
    "is",
    "not",
    "missing",
}
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign><=|>=|!=|==|[<>=(),])"""
    r"""|(?P<word>[^\s<>=!(),"']+))""",
    re.DOTALL,
)
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


class Token(NamedTuple):
    """A text, and whether it was quoted; a quoted text is never a word of the grammar."""

    text: str
    quoted: bool


END = Token("", False)


def tokens_of(text: str) -> list[Token]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            open_quote = text[at:].lstrip()[:1] in ("'", '"')
            what = "a quote that is not closed" if open_quote else "a sign unknown here"
            raise InputError(f"{what} in the query, at {shown(text[at:].strip()[:20])}")
        word = match[0].strip()
        if quoted := match["quoted"]:
            word = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], quoted[1:-1], flags=re.DOTALL)
        tokens.append(Token(word, bool(quoted)))
        at = match.end()
        if len(tokens) > MAX_TOKENS:
            raise InputError(f"a query of more than {MAX_TOKENS:,} words is too long")
    return tokens


def value_of(token: Token) -> Value:
    """A number if the word is written like a Python number, else the text ("007" stays a text)."""
    if token.quoted or not NUMBER.fullmatch(token.text) or len(token.text) > 40:
        return token.text
    for kind in (int, float):
        try:
            value = kind(token.text)
        except ValueError:
            continue
        return value if str(value) == token.text else token.text
    return token.text
