"""Grammar: queries as text, and back as one canonical text.

    QUERY     := SINGLE ["minus" SINGLE]
               | ("min" | "max") COLUMN           the ends of its domain
               | "count" "distinct" COLUMN [WHERE]
               | "top" NUMBER COLUMNS [WHERE]     the largest groups
    SINGLE    := "count" ["(*)"] [UNIT] [WHERE] [BY]
               | "share" [UNIT] [WHERE] ["given" CONDITIONS] [BY]
               | ("mean" | "avg" | "average" | "sum" | "std" | "stddev") [UNIT] COLUMN [WHERE] [BY]
               | ("median" | "quantile" NUMBER | "percentile" NUMBER | "p90") [UNIT] COLUMN [WHERE] [BY]
               | "correlation" [UNIT] COLUMN "," COLUMN [WHERE] [BY]
               | "marginal" [UNIT] COLUMNS        the same as "count [UNIT] by COLUMNS"
               | "cube" [UNIT] COLUMNS [WHERE]    counts by every subset of the columns
    UNIT      := "people" | "rows" | "per" "person"
    WHERE     := "where" CONDITIONS
    BY        := ["group"] "by" COLUMNS
    CONDITIONS:= ALL {"or" ALL}
    ALL       := CONDITION {"and" CONDITION}
    CONDITION := COLUMN ("=" | "!=" | "<" | "<=" | ">" | ">=") VALUE
               | NUMBER ("<" | "<=" | ">" | ">=") COLUMN [("<" | "<=" | ">" | ">=") VALUE]
               | COLUMN ["not"] "between" VALUE "and" VALUE
               | COLUMN ["not"] "in" "(" VALUE {"," VALUE} ")"
               | COLUMN "is" ["not"] ("missing" | "null")
               | "not" CONDITION | "(" CONDITIONS ")"
    COLUMNS   := COLUMN {"," COLUMN}

After its first word, the column of a query may stand in brackets. Words of the grammar may be in capitals; a
text that begins with `select` is read as SQL (`sql.py`).

A name or value is a word, or stands in quotes, ' or ", within which a backslash keeps the next character's
meaning (\\n a new line). Words of the grammar, and texts with blanks, commas, brackets, quotes or comparison
signs, need quotes.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from factored_mwem.answers.query import (
    MIDDLE,
    AnyOf,
    Between,
    Compare,
    Comparison,
    Condition,
    Correlation,
    Count,
    Counted,
    Cube,
    Deviation,
    Difference,
    Distinct,
    Extreme,
    Mean,
    Missing,
    OneColumn,
    OneOf,
    Quantile,
    Query,
    Share,
    Single,
    Top,
    Total,
    Value,
    Where,
)
from factored_mwem.errors import InputError, shown

MAX_LENGTH, MAX_TOKENS = 20_000, 4_000
KINDS = ("count", "share", "mean", "median", "quantile", "marginal", "cube")
SAME = {
    "avg": "mean", "average": "mean", "std": "std", "stddev": "std", "sum": "sum", "percentile": "percentile",
    "corr": "correlation", "correlation": "correlation", "min": "min", "max": "max", "top": "top",
}  # fmt: skip
"""More first words, each with what it means; names of columns elsewhere."""
EXAMPLES = (
    "ask such as count where age >= 40 by sex | avg hours group by sex | "
    "SELECT count(*) FROM t WHERE age < 30"
)
MAX_DEPTH = 50
"""Brackets in brackets."""
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
Literal = Compare | Between | OneOf | Missing
Clauses = list[tuple[Literal, ...]]
"""Of each at least one condition holds."""
MAX_CLAUSES = 64
TURNED: dict[str, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""A comparison from the other side."""
OPPOSITE: dict[str, Comparison] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
OF_COLUMN: dict[str, type[Mean | Total | Deviation]] = {"mean": Mean, "sum": Total, "std": Deviation}
T = TypeVar("T")


def parse(text: str) -> Query:
    """The query in a text. Raises InputError in one line if the text is not a query."""
    if len(text) > MAX_LENGTH:
        raise InputError(f"a query of {len(text):,} characters is too long; {MAX_LENGTH:,} is the most")
    if text.split(maxsplit=1)[:1] and text.split(maxsplit=1)[0].lower() == "select":
        from factored_mwem.answers.sql import parse_sql

        return parse_sql(text)
    return _Reader(text).query()


def parse_where(text: str) -> tuple[OneColumn, ...]:
    """The conditions that a text puts, without the word `where`. Raises InputError in one line."""
    if len(text) > MAX_LENGTH:
        raise InputError(f"a condition of {len(text):,} characters is too long; {MAX_LENGTH:,} is the most")
    reader = _Reader(text, "condition")
    clauses = reader.clauses()
    if any(len(clause) > 1 for clause in clauses):
        raise InputError("a condition on rows takes no `or`: ask for values of one column with `in (...)`")
    if reader.at < len(reader.tokens):
        raise reader.unexpected("the end of the condition or `and`")
    return tuple(clause[0] for clause in clauses)


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


def every(parts: Sequence[Clauses]) -> Clauses:
    """All of them."""
    return [clause for part in parts for clause in part]


def some(parts: Sequence[Clauses]) -> Clauses:
    """At least one of them, multiplied out. Raises InputError if that is too much."""
    if math.prod(len(part) for part in parts) > MAX_CLAUSES:
        raise InputError("too many conditions joined by `or`, `and` and `not`; ask for fewer at a time")
    return [tuple(dict.fromkeys(itertools.chain(*clauses))) for clauses in itertools.product(*parts)]


def negation(clauses: Clauses) -> Clauses:
    """The opposite. As in SQL a missing value meets neither a comparison nor its opposite."""
    return some([[_opposite(literal) for literal in clause] for clause in clauses])


def _opposite(literal: Literal) -> tuple[Literal, ...]:
    if isinstance(literal, Compare):
        return (Compare(literal.column, OPPOSITE[literal.by], literal.value),)
    if isinstance(literal, Between):
        below = Compare(literal.column, "<", literal.low)
        return below, Compare(literal.column, ">", literal.high)
    return (replace(literal, negated=not literal.negated),)


def joined(clauses: Clauses) -> Where:
    """Clauses as the conditions of a query."""
    return tuple(AnyOf(clause) if len(clause) > 1 else clause[0] for clause in clauses)


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, text: str, what: str = "query") -> None:
        self.tokens, self.what = _tokens(text), what
        self.at = self.depth = 0

    @property
    def sign(self) -> str:
        """The next token where it is not in quotes; empty at the end."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else END
        return "" if token.quoted else token.text

    def query(self) -> Query:
        query = self.alone()
        if query is None:
            first = self.single()
            query = Difference(first, self.single()) if self.takes("minus") else first
        if self.at < len(self.tokens):
            raise self.unexpected("the end of the query, `where`, `by` or `minus`")
        return query

    def alone(self) -> Query | None:
        """A query that is no part of a difference, if the text is one."""
        kind, then = self.sign.lower(), self.tokens[self.at + 1 :][:1]
        if kind in ("min", "max"):
            self.at += 1
            return Extreme(self.inner(self.column), kind == "max")
        if kind == "top":
            self.at += 1
            number = self.number()
            if number != int(number) or number < 1:
                raise InputError("`top` takes a whole number, 1 or more: top 5 education")
            return Top(int(number), self.columns(), self.conditions("where"))
        if kind == "count" and then and not then[0].quoted and then[0].text.lower() in ("distinct", "("):
            at, self.at = self.at, self.at + 1
            brackets = self.takes("(")
            if self.takes("distinct"):
                column = self.column()
                if brackets:
                    self.must(")")
                return Distinct(column, self.conditions("where"))
            self.at = at
        return None

    def single(self) -> Single:
        kind = self.sign.lower()
        kind = SAME.get(kind, kind)
        percent = re.fullmatch(r"p(\d\d?)", kind)
        if kind not in (*KINDS, *SAME.values()) and not percent:
            raise self.unexpected(f"a question; {EXAMPLES}")
        self.at += 1
        unit = self.unit()
        if kind == "marginal":
            return Count(by=self.columns(), unit=unit)
        if kind == "cube":
            return Cube(self.columns(), self.conditions("where"), unit)
        if kind == "count":
            if self.takes("("):
                self.must("*")
                self.must(")")
            return Count(self.conditions("where"), self.by(), unit)
        if kind == "share":
            return Share(self.conditions("where"), self.conditions("given"), self.by(), unit)
        if kind == "correlation":
            first, second = self.inner(self.pair)
            return Correlation(first, second, self.conditions("where"), self.by(), unit)
        if kind in OF_COLUMN:
            column = self.inner(self.column)
            return OF_COLUMN[kind](column, self.conditions("where"), self.by(), unit)
        if percent or kind == "percentile":
            at = (float(percent[1]) if percent else self.number()) / 100
        else:
            at = MIDDLE if kind == "median" else self.number()
        return Quantile(self.inner(self.column), at, self.conditions("where"), self.by(), unit)

    def pair(self) -> tuple[str, str]:
        first = self.column()
        self.must(",")
        return first, self.column()

    def inner(self, read: Callable[[], T]) -> T:
        """What `read` reads, maybe in brackets."""
        brackets = self.takes("(")
        found = read()
        if brackets:
            self.must(")")
        return found

    def unit(self) -> Counted | None:
        for unit in UNITS:
            first, *rest = unit.split()
            if self.takes(first):
                for word in rest:
                    self.must(word)
                return unit
        return None

    def conditions(self, word: str) -> Where:
        return self.all_of() if self.takes(word) else ()

    def by(self) -> tuple[str, ...]:
        if self.takes("group"):
            self.must("by")
            return self.columns()
        return self.columns() if self.takes("by") else ()

    def all_of(self) -> Where:
        """Conditions as clauses that all hold."""
        return joined(self.clauses())

    def clauses(self, *, negated: bool = False) -> Clauses:
        found = self.listed(lambda: self.conjunction(negated), "or")
        return every(found) if negated else some(found)

    def conjunction(self, negated: bool) -> Clauses:
        found = self.listed(lambda: self.clause(negated), "and")
        return some(found) if negated else every(found)

    def clause(self, negated: bool) -> Clauses:
        while self.takes("not"):
            negated = not negated
        if self.takes("("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise InputError(f"the {self.what} has more than {MAX_DEPTH} brackets; leave some out")
            found = self.clauses(negated=negated)
            self.must(")")
            return found
        return negation(self.condition()) if negated else self.condition()

    def columns(self) -> tuple[str, ...]:
        return tuple(self.listed(self.column, ","))

    def listed(self, read: Callable[[], T], between: str) -> list[T]:
        """One or more of what `read` reads."""
        items = [read()]
        while self.takes(between):
            items.append(read())
        return items

    def condition(self) -> Clauses:
        """One condition of a column; of `20 <= age < 30` two."""
        ordered = [token.text for token in self.tokens[self.at : self.at + 2] if not token.quoted]
        if len(ordered) == 2 and _NUMBER.fullmatch(ordered[0]) and ordered[1] in TURNED:
            value, turned = self.value(), TURNED[self.sign]
            self.at += 1
            column = self.column()
            first = Compare(column, turned, value)
            return [(first,), (self.compared(column),)] if self.sign in TURNED else [(first,)]
        column = self.column()
        if self.takes("is"):
            negated = self.takes("not")
            if not self.takes("null"):
                self.must("missing")
            return [(Missing(column, negated),)]
        negated = self.takes("not")
        if self.takes("between"):
            low = self.value()
            self.must("and")
            between = Between(column, low, self.value())
            return negation([(between,)]) if negated else [(between,)]
        if negated or self.sign.lower() == "in":
            self.must("in")
            self.must("(")
            values = self.listed(self.value, ",")
            self.must(")")
            return [(OneOf(column, tuple(values), negated),)]
        return [(self.compared(column),)]

    def compared(self, column: str) -> Compare:
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
        present = self.sign in (word, word.upper())
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
    if isinstance(query, Extreme):
        return f"{'max' if query.greatest else 'min'} {_text(query.column)}"
    where = _where("where", query.where)
    if isinstance(query, Distinct):
        return f"count distinct {_text(query.column)}{where}"
    if isinstance(query, Top):
        return f"top {query.number} {_names(query.columns)}{where}"
    unit = f" {query.unit}" if query.unit else ""
    if isinstance(query, Cube):
        return f"cube{unit} {_names(query.columns)}{where}"
    by = f" by {_names(query.by)}" if query.by else ""
    if isinstance(query, Share):
        return f"share{unit}{where}{_where('given', query.given)}{by}"
    if isinstance(query, Correlation):
        return f"correlation{unit} {_names((query.column, query.other))}{where}{by}"
    if isinstance(query, Quantile):
        kind = f"median{unit}" if query.at == MIDDLE else f"quantile{unit} {query.at!r}"
        return f"{kind} {_text(query.column)}{where}{by}"
    if isinstance(query, Count):
        return f"count{unit}{where}{by}"
    kind = next(kind for kind, of in OF_COLUMN.items() if isinstance(query, of))
    return f"{kind}{unit} {_text(query.column)}{where}{by}"


def _where(word: str, conditions: Where) -> str:
    return f" {word} " + " and ".join(map(_condition, conditions)) if conditions else ""


def _condition(condition: Condition) -> str:
    if isinstance(condition, AnyOf):
        return f"({' or '.join(map(_condition, condition.parts))})"
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
    word = text in WORDS or (text.isupper() and text.lower() in WORDS)
    plain = re.fullmatch(r"""[^\s<>=!(),"'\\]+""", text) and not word
    if plain and not _NUMBER.fullmatch(text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
