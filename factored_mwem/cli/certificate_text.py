"""What a person is told of a certificate, measured or to come."""

from __future__ import annotations

from factored_mwem.cli.console import piece
from factored_mwem.pipeline.attempts import CertificateForecast
from factored_mwem.pipeline.manifest import Certificate, CertifiedError


def certificate_text(certificate: Certificate | None) -> list[str]:
    """A line for each mean, for the worst column and for the worst of all; none without a certificate."""
    if certificate is None:
        return []
    lines = [_line(error) for error in certificate.errors if error.what != "column"]
    columns = [error for error in certificate.errors if error.what == "column"]
    if columns:
        worst = max(columns, key=lambda error: error.high)
        lines.append(f"no column is off by more than {worst.high:.3g}, the bound of {_names(worst)}")
    lines.append(
        f"errors are L1 distances of shares, from 0 to 2; all bounds hold at {certificate.confidence:.0%}"
    )
    if certificate.criteria:
        tried = f", by try {certificate.tried} of {certificate.tries}" if certificate.tries > 1 else ""
        lines.append(f"accepted{tried}: {'; '.join(map(piece, certificate.criteria))}")
    return lines


def _names(error: CertifiedError) -> str:
    return ", ".join(repr(piece(name)) for name in error.attributes)


def _line(error: CertifiedError) -> str:
    of = f"{error.sets:,}" if error.sets == error.asked else f"{error.sets:,} (of {error.asked:,}, at random)"
    bounds = f"{error.estimate:.3g}, from {error.low:.3g} to {error.high:.3g}"
    if error.what == "mean":
        return f"mean error of {of} {error.order}-way marginals: {bounds}"
    return f"the worst of {of} marginals: {bounds}; {_names(error)}"


def planned_text(forecast: CertificateForecast | None) -> list[str]:
    """What a certificate will cost and how wide its bounds will be; none without one."""
    if forecast is None:
        return []
    means = ", ".join(f"{width:.2g} around the mean {k}-way error" for k, width in forecast.means.items())
    below, above = forecast.worst
    lines = [
        f"{forecast.share:.1%} of the budget, for bounds of about +- {means}, {forecast.column:.2g} "
        f"around a column's, -{below:.2g} and +{above:.2g} around the worst of {forecast.marginals:,}"
    ]
    if forecast.marginals < forecast.asked:
        lines.append(
            f"of {forecast.asked:,} marginals asked for, {forecast.marginals:,} are counted, at random"
        )
    if forecast.tries > 1:
        one = f"{forecast.each:.1%} of the budget and a certificate of {forecast.share / forecast.tries:.1%}"
        lines.append(f"up to {forecast.tries} tries, each with {one}; all are paid for beforehand")
    return lines
