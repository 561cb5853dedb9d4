"""SQL: queries written as one SELECT with one aggregate, read by sqlglot, which is imported for these alone.

What is read: count(*), count(column), count(distinct column), avg, sum, stddev, min, max, median, corr,
percentile_cont(p) within group (order by column); WHERE with comparisons, BETWEEN, IN, IS NULL, AND, OR and
NOT; GROUP BY columns; ORDER BY count(*) DESC LIMIT n. The table's name is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from factored_mwem.answers.clauses import Clauses, every, joined, negation, some
from factored_mwem.answers.query import (
    Between,
    Compare,
    Comparison,
    Correlation,
    Count,
    Deviation,
    Distinct,
    Extreme,
    Mean,
    Missing,
    OneOf,
    Quantile,
    Query,
    Top,
    Total,
    Value,
    Where,
    median,
)
from factored_mwem.answers.tokens import EXAMPLES
from factored_mwem.errors import InputError, shown

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

COMPARED: dict[str, Comparison] = {"eq": "=", "neq": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
OF_COLUMN: dict[str, type[Mean | Total | Deviation]] = {
    "avg": Mean, "sum": Total, "stddev": Deviation, "stddevpop": Deviation, "stddevsamp": Deviation,
}  # fmt: skip
ALLOWED = {"expressions", "from", "from_", "where", "group", "order", "limit", "kind", "hint"}
"""Parts of a SELECT that are read, or say nothing."""


def parse_sql(text: str) -> Query:
    """The query that a SELECT asks. Raises InputError in one line for what is not read."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        found = sqlglot.parse(text)
        if len(found) != 1 or found[0] is None or found[0].key != "select":
            raise InputError(f"ask one SELECT at a time; {EXAMPLES}")
        return _select(found[0])
    except RecursionError:
        raise InputError("this SQL has too many brackets; leave some out") from None
    except SqlglotError:
        raise InputError(f"this is no SQL; {EXAMPLES}") from None


def _select(select: Any) -> Query:
    other = [part for part, value in select.args.items() if value and part not in ALLOWED]
    if other:
        raise InputError(f"of SQL no {other[0].upper().rstrip('_')} is read; {EXAMPLES}")
    group, where = select.args.get("group"), select.args.get("where")
    by = tuple(_column(each) for each in group.expressions) if group else ()
    conditions = joined(_clauses(where.this)) if where else ()
    figures = [each.unalias() for each in select.expressions]
    wanted = [each for each in figures if not _named(each) or _column(each) not in by]
    if len(wanted) != 1:
        raise InputError(f"a SELECT asks one aggregate, beside the columns of its GROUP BY; {EXAMPLES}")
    query = _aggregate(wanted[0], conditions, by)
    limit, order = select.args.get("limit"), select.args.get("order")
    if limit is None and order is None:
        return query
    largest = (
        order is not None and len(order.expressions) == 1 and bool(order.expressions[0].args.get("desc"))
    )
    if not (isinstance(query, Count) and by and limit is not None and largest):
        raise InputError(f"ORDER BY and LIMIT are read as ORDER BY count(*) DESC LIMIT 5; {EXAMPLES}")
    return Top(int(_value(limit.expression)), by, conditions)


def _aggregate(figure: Any, where: Where, by: tuple[str, ...]) -> Query:
    inner = figure.this
    if figure.key == "count":
        if inner is None or inner.key == "star":
            return Count(where, by)
        if inner.key == "distinct" and len(inner.expressions) == 1 and not by:
            return Distinct(_column(inner.expressions[0]), where)
        return Count((*where, Missing(_column(inner), negated=True)), by)
    if figure.key in OF_COLUMN:
        return OF_COLUMN[figure.key](_column(inner), where, by)
    if figure.key in ("min", "max") and not by and not where:
        return Extreme(_column(inner), figure.key == "max")
    if figure.key == "median":
        return median(_column(inner), where, by)
    if figure.key == "corr":
        return Correlation(_column(inner), _column(figure.expression), where, by)
    if figure.key == "withingroup" and inner.key in ("percentilecont", "percentiledisc"):
        (ordered,) = figure.expression.expressions
        return Quantile(_column(ordered.this), float(_value(inner.this)), where, by)
    raise InputError(f"{shown(figure.sql()[:60])} is not read; {EXAMPLES}")


def _clauses(condition: Any) -> Clauses:
    """A condition as clauses, of each of which one has to hold."""
    if condition.key == "paren":
        return _clauses(condition.this)
    if condition.key == "not":
        return negation(_clauses(condition.this))
    if condition.key in ("and", "or"):
        both = [_clauses(condition.this), _clauses(condition.expression)]
        return every(both) if condition.key == "and" else some(both)
    if condition.key == "column":  # of truth values
        return [(Compare(_column(condition), "=", True),)]
    if condition.key in COMPARED and (_named(condition.this) or _named(condition.expression)):
        turned = not _named(condition.this)
        column, value = (
            (condition.expression, condition.this) if turned else (condition.this, condition.expression)
        )
        by = COMPARED[condition.key]
        by = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(by, by) if turned else by  # type: ignore[assignment]
        return [(Compare(_column(column), by, _value(value)),)]
    if condition.key == "between":
        low, high = (_value(condition.args[end]) for end in ("low", "high"))
        return [(Between(_column(condition.this), low, high),)]
    if condition.key == "in" and condition.expressions:
        return [(OneOf(_column(condition.this), tuple(map(_value, condition.expressions))),)]
    if condition.key == "is" and condition.expression.key == "null":
        return [(Missing(_column(condition.this)),)]
    raise InputError(f"the condition {shown(condition.sql()[:60])} is not read; {EXAMPLES}")


def _named(part: Expression) -> bool:
    """Whether it is a column, maybe of a name with hyphens that nobody quoted."""
    return part.key == "column" or (part.key == "sub" and _named(part.this) and _named(part.expression))


def _column(part: Any) -> str:
    if part.key == "sub" and _named(part):
        return f"{_column(part.this)}-{_column(part.expression)}"
    if part.key != "column":
        raise InputError(f"{shown(part.sql()[:60])} is no column; {EXAMPLES}")
    return str(part.name)


def _value(part: Any) -> Value:
    if part.key == "neg":
        value = _value(part.this)
        if isinstance(value, int | float):
            return -value
    if part.key == "cast" and part.this.key == "literal":  # DATE '2024-01-31'
        return _value(part.this)
    if part.key == "boolean":
        return bool(part.this)
    if part.key == "literal":
        if part.is_string:
            return str(part.this)
        number = float(part.this)
        return int(part.this) if part.this.isdecimal() else number
    if part.key == "column":  # in double quotes
        return str(part.name)
    raise InputError(f"{shown(part.sql()[:60])} is no value; {EXAMPLES}")
