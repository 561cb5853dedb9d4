"""Grammar: queries read from text; `written.py` writes them.

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

After its first word, the column of a query may stand in brackets, or after `of`. Words of the grammar may be
in capitals; a text that begins with `select` is read as SQL (`sql.py`).

A name or value is a word, or stands in quotes, ' or ", within which a backslash keeps the next character's
meaning (\\n a new line). Words of the grammar, and texts with blanks, commas, brackets, quotes or comparison
signs, need quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from factored_mwem.answers.clauses import Clauses, every, joined, negation, some
from factored_mwem.answers.query import (
    MIDDLE,
    Between,
    Compare,
    Comparison,
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
from factored_mwem.answers.tokens import (
    END,
    EXAMPLES,
    KINDS,
    MAX_LENGTH,
    NUMBER,
    WORDS,
    Token,
    tokens_of,
    value_of,
)
from factored_mwem.errors import InputError, shown

SAME = {
    "avg": "mean", "average": "mean", "std": "std", "stddev": "std", "sum": "sum", "percentile": "percentile",
    "corr": "correlation", "correlation": "correlation", "min": "min", "max": "max", "top": "top",
}  # fmt: skip
"""More first words, each with what it means; names of columns elsewhere."""
MAX_DEPTH = 50
"""Brackets in brackets."""
UNITS: tuple[Counted, ...] = ("people", "rows", "per person")
_COMPARISONS: dict[str, Comparison] = {
    "=": "=", "==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip


TURNED: dict[str, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""A comparison from the other side."""
OF_COLUMN: dict[str, type[Mean | Total | Deviation]] = {"mean": Mean, "sum": Total, "std": Deviation}
T = TypeVar("T")


def parse(text: str) -> Query:
    """The query in a text. Raises InputError in one line if the text is not a query."""
    if len(text) > MAX_LENGTH:
        raise InputError(f"a query of {len(text):,} characters is too long; {MAX_LENGTH:,} is the most")
    if is_sql(text):
        from factored_mwem.answers.sql import parse_sql

        return parse_sql(text)
    return _Reader(text).query()


def is_sql(text: str) -> bool:
    """Whether a text is read as SQL: its first word is `select`."""
    return [word.lower() for word in text.split(maxsplit=1)[:1]] == ["select"]


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


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, text: str, what: str = "query") -> None:
        self.tokens, self.what = tokens_of(text), what
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
            raise self.unexpected(f"the end of the query, `where`, `by` or `minus`; {EXAMPLES}")
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
        """What `read` reads, maybe in brackets; `mean of age` is `mean age`."""
        then = self.tokens[self.at + 1 :][:1]
        if self.sign.lower() == "of" and then and (then[0].quoted or then[0].text not in (*WORDS, ",")):
            self.at += 1
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
        if len(ordered) == 2 and NUMBER.fullmatch(ordered[0]) and ordered[1] in TURNED:
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
            signs = "a comparison (= != < <= > >=), `between`, `in` or `is missing`"
            raise self.unexpected(f"{signs} (names and values that hold blanks need quotes)")
        comparison = _COMPARISONS[self.sign]
        self.at += 1
        return Compare(column, comparison, self.value())

    def column(self) -> str:
        return self.name("a column").text

    def value(self) -> Value:
        return value_of(self.name("a value"))

    def number(self) -> float:
        token = self.name("a number")
        if not NUMBER.fullmatch(token.text) or len(token.text) > 40:
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
        present = self.sign.lower() == word
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
