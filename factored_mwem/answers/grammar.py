"""Grammar: queries as text, and back as one canonical text.

    QUERY     := SINGLE ["minus" SINGLE]
    SINGLE    := "count" [UNIT] [WHERE] [BY]
               | "share" [UNIT] [WHERE] ["given" CONDITIONS] [BY]
               | "mean" [UNIT] COLUMN [WHERE] [BY]
               | "median" [UNIT] COLUMN [WHERE] [BY]
               | "quantile" [UNIT] NUMBER COLUMN [WHERE] [BY]
               | "marginal" [UNIT] COLUMNS       the same as "count [UNIT] by COLUMNS"
               | "cube" [UNIT] COLUMNS [WHERE]   counts by every subset of the columns
    UNIT      := "people" | "rows" | "per" "person"
    WHERE     := "where" CONDITIONS
    BY        := "by" COLUMNS
    CONDITIONS:= CONDITION {"and" CONDITION}
    CONDITION := COLUMN ("=" | "!=" | "<" | "<=" | ">" | ">=") VALUE
               | COLUMN "between" VALUE "and" VALUE
               | COLUMN ["not"] "in" "(" VALUE {"," VALUE} ")"
               | COLUMN "is" ["not"] "missing"
    COLUMNS   := COLUMN {"," COLUMN}

A name or value is a word, or stands in quotes, ' or ", within which a backslash keeps the next character's
meaning (\\n a new line). Words of the grammar, and texts with blanks, commas, brackets, quotes or comparison
signs, need quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from factored_mwem.answers.query import (
    MIDDLE,
    Between,
    Compare,
    Comparison,
    Condition,
    Count,
    Counted,
    Cube,
    Difference,
    Mean,
    Missing,
    OneOf,
    Quantile,
    Query,
    Share,
    Single,
    Value,
    Where,
)
from factored_mwem.errors import InputError, shown

MAX_LENGTH, MAX_TOKENS = 20_000, 4_000
KINDS = ("count", "share", "mean", "median", "quantile", "marginal", "cube")
UNITS: tuple[Counted, ...] = ("people", "rows", "per person")
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
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_COMPARISONS: dict[str, Comparison] = {
    "=": "=", "==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip


class Token(NamedTuple):
    """A text, and whether it was quoted; a quoted text is never a word of the grammar."""

    text: str
    quoted: bool


END = Token("", False)
T = TypeVar("T")


def parse(text: str) -> Query:
    """The query in a text. Raises InputError in one line if the text is not a query."""
    if len(text) > MAX_LENGTH:
        raise InputError(f"a query of {len(text):,} characters is too long; {MAX_LENGTH:,} is the most")
    return _Reader(text).query()


def parse_where(text: str) -> Where:
    """The conditions that a text puts, without the word `where`. Raises InputError in one line."""
    if len(text) > MAX_LENGTH:
        raise InputError(f"a condition of {len(text):,} characters is too long; {MAX_LENGTH:,} is the most")
    reader = _Reader(text, "condition")
    conditions = tuple(reader.listed(reader.condition, "and"))
    if reader.at < len(reader.tokens):
        raise reader.unexpected("the end of the condition or `and`")
    return conditions


def _tokens(text: str) -> list[Token]:
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


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, text: str, what: str = "query") -> None:
        self.tokens, self.what = _tokens(text), what
        self.at = 0

    @property
    def sign(self) -> str:
        """The next token where it is not in quotes; empty at the end."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else END
        return "" if token.quoted else token.text

    def query(self) -> Query:
        first = self.single()
        query: Query = Difference(first, self.single()) if self.takes("minus") else first
        if self.at < len(self.tokens):
            raise self.unexpected("the end of the query, `where`, `by` or `minus`")
        return query

    def single(self) -> Single:
        kind = self.sign
        if kind not in KINDS:
            raise self.unexpected(f"one of {', '.join(KINDS)}")
        self.at += 1
        unit = self.unit()
        if kind == "marginal":
            return Count(by=self.columns(), unit=unit)
        if kind == "cube":
            return Cube(self.columns(), self.conditions("where"), unit)
        if kind == "count":
            return Count(self.conditions("where"), self.by(), unit)
        if kind == "share":
            return Share(self.conditions("where"), self.conditions("given"), self.by(), unit)
        if kind == "mean":
            return Mean(self.column(), self.conditions("where"), self.by(), unit)
        at = MIDDLE if kind == "median" else self.number()
        return Quantile(self.column(), at, self.conditions("where"), self.by(), unit)

    def unit(self) -> Counted | None:
        for unit in UNITS:
            first, *rest = unit.split()
            if self.takes(first):
                for word in rest:
                    self.must(word)
                return unit
        return None

    def conditions(self, word: str) -> Where:
        return tuple(self.listed(self.condition, "and")) if self.takes(word) else ()

    def by(self) -> tuple[str, ...]:
        return self.columns() if self.takes("by") else ()

    def columns(self) -> tuple[str, ...]:
        return tuple(self.listed(self.column, ","))

    def listed(self, read: Callable[[], T], between: str) -> list[T]:
        """One or more of what `read` reads."""
        items = [read()]
        while self.takes(between):
            items.append(read())
        return items

    def condition(self) -> Condition:
        column = self.column()
        if self.takes("between"):
            low = self.value()
            self.must("and")
            return Between(column, low, self.value())
        if self.takes("is"):
            negated = self.takes("not")
            self.must("missing")
            return Missing(column, negated)
        negated = self.takes("not")
        if negated or self.sign == "in":
            self.must("in")
            self.must("(")
            values = self.listed(self.value, ",")
            self.must(")")
            return OneOf(column, tuple(values), negated)
        if self.sign not in _COMPARISONS:
            raise self.unexpected("a comparison (= != < <= > >=), `between`, `in` or `is missing`")
        comparison = _COMPARISONS[self.sign]
        self.at += 1
        return Compare(column, comparison, self.value())

    def column(self) -> str:
        return self.name("a column").text

    def value(self) -> Value:
        return value_of(self.name("a value"))

    def number(self) -> float:
        token = self.name("a number")
        if not _NUMBER.fullmatch(token.text) or len(token.text) > 40:
            what = shown(token.text[:40])
            raise InputError(f"{what} in the query is no number; a quantile is asked as `quantile 0.9 age`")
        return float(token.text)

    def name(self, what: str) -> Token:
        if self.at >= len(self.tokens):
            raise self.unexpected(what)
        token = self.tokens[self.at]
        if not token.quoted and (token.text in WORDS or token.text in "<=>=!==(),"):
            raise self.unexpected(f"{what} (a word of the grammar needs quotes)")
        self.at += 1
        return token

    def takes(self, word: str) -> bool:
        """Whether the next token is this word of the grammar, which is then read."""
        present = self.sign == word
        self.at += present
        return present

    def must(self, word: str) -> None:
        if not self.takes(word):
            raise self.unexpected(f"`{word}`")

    def unexpected(self, expected: str) -> InputError:
        if self.at < len(self.tokens):
            return InputError(
                f"{shown(self.tokens[self.at].text[:40])} in the {self.what}: expected {expected}"
            )
        return InputError(f"the {self.what} ends too soon: expected {expected}")


def value_of(token: Token) -> Value:
    """A number if the word is written like a Python number, else the text ("007" stays a text)."""
    if token.quoted or not _NUMBER.fullmatch(token.text) or len(token.text) > 40:
        return token.text
    for kind in (int, float):
        try:
            value = kind(token.text)
        except ValueError:
            continue
        return value if str(value) == token.text else token.text
    return token.text


def written(query: Query) -> str:
    """The canonical text, which `parse` reads back."""
    if isinstance(query, Difference):
        return f"{written(query.first)} minus {written(query.second)}"
    unit = f" {query.unit}" if query.unit else ""
    if isinstance(query, Cube):
        return f"cube{unit} {_names(query.columns)}{_where('where', query.where)}"
    by = f" by {_names(query.by)}" if query.by else ""
    if isinstance(query, Share):
        return f"share{unit}{_where('where', query.where)}{_where('given', query.given)}{by}"
    where = _where("where", query.where)
    if isinstance(query, Mean):
        return f"mean{unit} {_text(query.column)}{where}{by}"
    if isinstance(query, Quantile):
        kind = f"median{unit}" if query.at == MIDDLE else f"quantile{unit} {query.at!r}"
        return f"{kind} {_text(query.column)}{where}{by}"
    return f"count{unit}{where}{by}"


def _where(word: str, conditions: Where) -> str:
    return f" {word} " + " and ".join(map(_condition, conditions)) if conditions else ""


def _condition(condition: Condition) -> str:
    column, negated = _text(condition.column), " not" if getattr(condition, "negated", False) else ""
    if isinstance(condition, Compare):
        return f"{column} {condition.by} {_value(condition.value)}"
    if isinstance(condition, Between):
        return f"{column} between {_value(condition.low)} and {_value(condition.high)}"
    if isinstance(condition, OneOf):
        return f"{column}{negated} in ({', '.join(map(_value, condition.values))})"
    return f"{column} is{negated} missing"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_text, names))


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    """A word, in quotes where it would be read as something else."""
    plain = re.fullmatch(r"""[^\s<>=!(),"'\\]+""", text) and text not in WORDS
    if plain and not _NUMBER.fullmatch(text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
