"""Forecasts in words: what `fmwem check` and `fmwem plan` print of one table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from factored_mwem.cli.console import aligned, counted_in_words, lined, piece
from factored_mwem.pipeline.record.assumptions import from_public

if TYPE_CHECKING:
    from factored_mwem.pipeline.attempts import CertificateForecast
    from factored_mwem.pipeline.forecasts.forecast import Forecast, LearningForecast
    from factored_mwem.pipeline.forecasts.people import PeopleForecast
    from factored_mwem.pipeline.forecasts.planning import Planned, Prospect

UNREAD = "no row was read and nothing was spent"
MOST_COLUMNS = 30
"""Columns that are listed."""


def forecast_text(forecast: Forecast, rows: int, counted: str = "") -> dict[str, str]:
    """What a release under a declared domain would do, by the words that begin its lines. `counted`: what is
    counted, if neither rows nor people.
    """
    f, counted = forecast, counted or _counted(forecast.people)
    cells = f"{f.cells:,}" if f.cells < 10**9 else f"about 10^{len(str(f.cells)) - 1}"
    over = f"{f.left_out:,} exceed --max-cells and are left out; " if f.left_out else ""
    facts = {
        **_people(f.people),
        "public": _public(f.public),
        "columns": f"{len(f.attributes)}, with these numbers of values: {_listed(f.attributes)}",
        "domain": f"{cells} combinations of values",
        "candidates": f"{counted_in_words(f.candidates, 'set')} of columns; {over}the largest has "
        f"{f.largest_marginal:,} combinations",
        "memory": f"at most about {f.memory_megabytes:,.0f} MB, and what Python itself takes",
    }
    if f.at_once:
        facts["plan"] = (
            "no rounds: the domain is small, so all is measured at once; expected error of a set of columns "
            f"{f.predicted_error:.3f} (0 to 2)"
        )
    else:
        tree = f.engine == "tree"
        facts["rounds"] = (
            f"{'at most ' if tree else ''}{f.rounds} for a table of about {rows:,} {counted} "
            f"(--assume-{counted}; a release uses a noisy count)"
        )
        facts["noise"] = (
            f"of a count, in {counted}: {f.initial_noise:.1f} on average where columns are measured first "
            f"(with {f.initial_share:.0%} of the budget), {f.round_noise:.1f} in the sets that the "
            f"{'first rounds choose, less later' if tree else 'rounds choose'}"
        )
        if f.people is not None:
            share = min(f.initial_noise / rows, 1.0)
            facts["share"] = (
                f"those of about {rows:,} people are off by about {share:.2g} on average in single columns"
            )
        facts["sweep"] = f"then about {f.swept:,} small sets of columns at once" if f.swept else ""
    return facts | _certificate(f.certificate) | {"warning": f.warning or ""}


def learning_text(forecast: LearningForecast, rows: int, counted: str = "") -> dict[str, str]:
    """What a release without a declared domain would do, by the words that begin its lines. `counted`: what
    is counted, if neither rows nor people.
    """
    least, most = forecast.thresholds
    counted = counted or _counted(forecast.people)
    alone = (
        f", if they have no other rare value; {most:,.0f} in any case" if round(most) > round(least) else ""
    )
    held = f"that about {least:,.0f} {counted} have"
    if forecast.people is not None:
        held = f"whose rows weigh as much as about {least:,.0f} {counted}"
    return {
        **_people(forecast.people),
        "public": _public(forecast.public),
        "columns": f"{len(forecast.columns)}: {_listed(forecast.columns)}",
        "domain": "none is declared: the possible values are learnt from noisy counts, for at most "
        f"{forecast.discovery_share:.0%} of the budget",
        "values": f"a value {held} gets a code of its own{alone}; rarer texts become 'other', rarer numbers, "
        f"dates and times are joined to ranges of about as many {counted}",
        "refused": f"with fewer than about {_fewest(forecast)} {counted}: the first noisy counts show it, "
        "and the rest of the budget is not spent",
        "rounds": "as with a declared domain",
        "candidates": f"{counted_in_words(forecast.candidates, 'set')} of columns; how many combinations "
        "they have follows from the domain",
        "warning": forecast.warning or "",
        "for": f"a table of about {rows:,} {counted} (--assume-{counted}); a smaller one keeps less",
    }


def _public(public: Mapping[str, Any] | None) -> str:
    """Which columns are taken from a public table."""
    if public is None:
        return ""
    return f"as in {piece(from_public(public))} (free; that this table is alike is taken on trust)"


def _counted(people: PeopleForecast | None) -> str:
    return "rows" if people is None else "people"


def _people(people: PeopleForecast | None) -> dict[str, str]:
    """The unit (one person), how many of their rows are used, and which columns are the same in all of
    them.
    """
    if people is None:
        return {}
    lowered = (
        f", or fewer if at most about one person in 200 has more: a noisy count decides, for "
        f"{people.sizes_share:.1%} of the budget, up to five times as much if people are few"
    )
    if people.constant is None:
        same = "in all rows of a person: noisy counts decide which columns are, for "
        same += f"{people.constancy_share:.1%} of the budget, up to six times as much if people are few"
    else:
        same = (
            f"in all rows of a person: {_listed(dict.fromkeys(people.constant, 'learnt'))} (declared, free)"
        )
    together = (
        f"how often two rows of a person agree, in each other column: a noisy count tells, for "
        f"{people.agreement_share:.1%} of the budget, up to four times as much where people are few"
    )
    return {
        "unit": f"one person, whom column {piece(repr(people.column))} names, with all of their rows; each "
        "weighs one, however many rows they have",
        "rows used": f"at most {people.most_rows} of a person{lowered if people.sizes_share else ''}",
        "the same": same,
        "together": together if people.agreement_share else "",
    }


def _listed(columns: Mapping[str, object]) -> str:
    """The first columns, each with what is known of it."""
    first = ", ".join(
        f"{name} {about}" if about != "learnt" else name
        for name, about in list(columns.items())[:MOST_COLUMNS]
    )
    return first + (f", and {len(columns) - MOST_COLUMNS} more" if len(columns) > MOST_COLUMNS else "")


def _fewest(forecast: LearningForecast) -> str:
    texts, numbers = (f"{rows:,.0f}" for rows in forecast.fewest_rows)
    return texts if texts == numbers else f"{texts} (if all is text) or {numbers} (if nothing is)"


def _certificate(forecast: CertificateForecast | None) -> dict[str, str]:
    """What a certificate will cost and how wide its bounds will be; nothing without one."""
    if forecast is None:
        return {}
    means = ", ".join(f"{width:.2g} around the mean {k}-way error" for k, width in forecast.means.items())
    below, above = forecast.worst
    facts = {
        "certificate": f"{forecast.share:.1%} of the budget, for bounds of about +- {means}, "
        f"{forecast.column:.2g} around a column's, -{below:.2g} and +{above:.2g} around the worst of "
        f"{forecast.marginals:,}"
    }
    if forecast.marginals < forecast.asked:
        facts["sample"] = (
            f"of {forecast.asked:,} requested marginals {forecast.marginals:,} are counted, chosen at random"
        )
    if forecast.tries > 1:
        one = f"{forecast.each:.1%} of the budget and a certificate of {forecast.share / forecast.tries:.1%}"
        facts["tries"] = f"up to {forecast.tries}, each with {one}; all are paid for beforehand"
    return facts


def planned_text(planned: Planned) -> str:
    """A line for each epsilon; then what the columns mean, and what they rest on."""
    special = [(planned.likely, "error is expected"), (planned.safe, "range ends there")]
    rows = [(p, "") for p in planned.prospects] + [(p, why) for p, why in special if p is not None]
    rows.sort(key=lambda row: row[0].epsilon)
    lines, first = list[str](), rows[0][0] if rows else None
    if first is not None:
        last = ["noise a cell"] if first.kept_from is None else ["value kept from", "refused below"]
        head = ["epsilon", "guess", *(f"{e.order}-way" for e in first.errors), *last, ""]
        lines = aligned([head, *([*_cells(p), why] for p, why in rows)], left=(len(head) - 1,))
    lines += [
        *_answer(planned),
        "",
        *lined("guess", [f"how often a guess {planned.question} can be right, whatever else is known; a"]),
        *lined("", ["coin is right 50 %"]),
    ]
    if first is not None and first.errors:
        lines += lined(
            "1-way, ...", ["mean error (0 to 2) of the released shares of so many columns together"]
        )
    lines += _noise(first, _counted(planned.people))
    lines += [line for word, text in _people(planned.people).items() if text for line in lined(word, [text])]
    counted = _counted(planned.people)
    number = planned.assume_rows if planned.people is None else planned.assume_people
    lines += lined("for", [f"delta {planned.delta:g}, about {number:,} {counted} (--assume-{counted})"])
    lines += [line for note in planned.notes for line in lined("note", [note])]
    return "\n".join([*lines, UNREAD])


def _cells(p: Prospect) -> list[str]:
    errors = [f"{_short(e.error)} ({_short(e.low)} to {_short(e.high)})" for e in p.errors]
    return [f"{p.epsilon:g}", f"{math.ceil(p.guess * 1000) / 10:.1f} %", *errors, *_last(p)]


def _last(p: Prospect) -> list[str]:
    if p.kept_from is not None and p.fewest_rows is not None:
        return [" / ".join(f"{rows:,.0f}" for rows in pair) for pair in (p.kept_from, p.fewest_rows)]
    if p.column_noise is None:
        return [f"error {_short(p.noise_errors[-1])}"]
    noise = [n for n in (p.column_noise, p.round_noise) if n is not None]
    return [" / ".join(f"{n:,.1f}" for n in noise)]


def _noise(first: Prospect | None, counted: str) -> list[str]:
    """What the last column means, with its name."""
    if first is None:
        return []
    if first.kept_from is not None:
        have = "if about so many rows have it"
        if counted == "people":
            have = "if its rows weigh as much as about so many people"
        return [
            *lined("value kept", [f"{have}: if they hold no other rare value / in any case"]),
            *lined(
                "refused",
                [f"is a table with about so many {counted} or fewer: if all columns are text / if none is"],
            ),
        ]
    return lined(
        "noise",
        [
            f"mean error of a count, in {counted}: of single columns / of sets that the first rounds choose;",
            "or, for a small domain measured at once, the error of the largest sets by noise alone",
        ],
    )


def _answer(planned: Planned) -> list[str]:
    """The epsilons for the error that was asked for, if one was."""
    if planned.target is None:
        return []
    order, most = planned.target
    target = f"mean{order} <= {most:g}"
    if planned.likely is None:
        return ["", f"answer      {target} is not expected at any epsilon that was tried"]
    sure = "no epsilon" if planned.safe is None else f"epsilon {planned.safe.epsilon:g}"
    return ["", f"answer      {target} is expected at epsilon {planned.likely.epsilon:g}; to be safe, {sure}"]


def _short(error: float) -> str:
    """Two digits of an error."""
    return f"{error:.2f}" if error >= 0.095 else f"{error:.2g}" if error >= 1e-3 else f"{error:.0e}"
