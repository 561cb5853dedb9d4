"""People in words: what `fmwem evaluate` prints of whose rows there are. NOT PRIVATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from factored_mwem.cli.console import aligned, piece

if TYPE_CHECKING:
    from factored_mwem.owner.evaluation.people import PeopleErrors
    from factored_mwem.owner.evaluation.people_columns import PeopleColumn, PeopleWith

SHOWN_COLUMNS, SHOWN_VALUES, LONGEST = 20, 3, 16
"""Columns and values that are listed, the worst and the most frequent first; characters of a name."""
EXPLAINED = """\
  any     distance (0 to 1) between the real and synthetic shares of people who have a value in some row;
          first, last: in that row; all: in all their rows, or several values; numbers are in bins
  same    % of the people with several rows who have one value in all of them
  agree   % of the pairs of a person's rows that have the same value
  corr    correlation of the numbers in two rows of a person (intraclass)
  next    distance of the pairs of a row's value and the next row's; in brackets, if rows were independent"""


def people_text(people: PeopleErrors) -> list[str]:
    """Lines of the whole, then a table of columns, then of each column who has its most frequent values."""
    numbers, rows = people.people, people.rows
    order = "as they stand" if people.order_by is None else f"by {piece(repr(people.order_by))}"
    lines = [
        f"people of {piece(repr(people.column))} (real/synthetic), each weighs one, rows {order}:",
        f"  {numbers[0]:,}/{numbers[1]:,} people, of {rows[0]:.2f}/{rows[1]:.2f} "
        f"rows on average; how many rows they have: distance {people.rows_distance:.3f} (0 to 1)",
    ]
    if (gaps := people.gaps) is not None:
        lines.append(
            f"  from row to row: mean {gaps.mean[0]:.4g}/{gaps.mean[1]:.4g}"
            f"{' days' if gaps.moments else ''}, KS {gaps.kolmogorov_smirnov:.3f}"
        )
    if not people.columns:
        return [*lines, ""]
    worst = sorted(people.columns, key=lambda column: -column.any)
    shown = worst[:SHOWN_COLUMNS]
    head = ("column", "any", "all", "first", "last", "same %", "agree %", "corr", "next")
    table = aligned([head, *map(_row, shown)])
    whose = (f"{_cut(c.name)}: {', '.join(map(_with, c.popular[:SHOWN_VALUES]))}" for c in shown if c.popular)
    left = len(worst) - len(shown)
    more = [f"  and {left:,} columns less far apart: --json has them"] if left else []
    popular = ["% of people with a value in any row; in all rows:", *(f"  {each}" for each in whose)]
    return [*lines, EXPLAINED, *table, *more, *popular, ""]


def _row(column: PeopleColumn) -> tuple[str, ...]:
    distances = (column.any, column.all, column.first, column.last)
    apart = column.transitions
    following = "-" if apart is None else f"{apart:.3f} ({column.independent:.3f})"
    related = "-" if column.correlation is None else "/".join(f"{each:.2f}" for each in column.correlation)
    percents = ("/".join(map(_percent, pair)) for pair in (column.same, column.agreement))
    return (_cut(column.name), *(f"{each:.3f}" for each in distances), *percents, related, following)


def _with(value: PeopleWith) -> str:
    shares = ("/".join(map(_percent, pair)) for pair in (value.any, value.all))
    return f"{_cut(str(value.value))} {'; '.join(shares)}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _cut(text: str) -> str:
    text = piece(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]}.."
