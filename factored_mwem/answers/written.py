"""Written: a query as its canonical text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from factored_mwem.answers.grammar import OF_COLUMN
from factored_mwem.answers.query import (
    MIDDLE,
    AnyOf,
    Between,
    Compare,
    Condition,
    Correlation,
    Count,
    Cube,
    Difference,
    Distinct,
    Extreme,
    OneOf,
    Quantile,
    Query,
    Share,
    Top,
    Value,
    Where,
)
from factored_mwem.answers.tokens import NUMBER, WORDS


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
    if plain and not NUMBER.fullmatch(text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
