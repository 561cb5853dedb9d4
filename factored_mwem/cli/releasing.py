"""`fmwem release`: a private table in, a synthetic one out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from factored_mwem.cli.exits import unsaid
from factored_mwem.cli.inputs import LinkFlags, package_at, source_of
from factored_mwem.cli.options import RELEASE, Json, NoProgress, Quiet, Tables, Verbose, option, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import Stopped

if TYPE_CHECKING:
    from factored_mwem.cli.jobs import Done
    from factored_mwem.cli.packaging import PackageDone


@takes(*RELEASE, Group.OUTPUT, Group.SAMPLING, Group.BOOKS, Group.CONFIG)
def release(
    table: Tables,
    settings: ReleaseSettings,
    json_only: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    no_progress: NoProgress = False,
    child: Annotated[
        str | None,
        option("A second table, whose rows hang on those of the first: see `fmwem guide tables`.", "--with"),
    ] = None,
    key: Annotated[str | None, option("Of --with: the first table's column of keys.", "--key")] = None,
    foreign_key: Annotated[
        str | None,
        option("Of --with: the second table's column that holds them.  [default: --key]", "--foreign-key"),
    ] = None,
    public_tables: Annotated[
        str | None, option("Of a whole database: tables that are nobody's secret, by commas.")
    ] = None,
) -> None:
    """Turn a private table, or a package of tables, into synthetic ones under differential privacy."""
    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job
    from factored_mwem.cli.summary import details, summary
    from factored_mwem.pipeline.progress import is_first_run

    silent = quiet or json_only
    warn = (lambda _: None) if silent else console.say
    if not silent and is_first_run(settings.policy.engine):
        console.say("first run: compiling for this machine, once; later runs start at once")
    source = source_of(table)
    done: Done | PackageDone | None = None
    show = console.wants_progress(no_progress) and not silent
    try:
        package = package_at(source, LinkFlags(child, key, foreign_key, public_tables))
        with console.progress(show=show, verbose=verbose) as report:
            if package is not None:
                from factored_mwem.cli.package_text import package_summary
                from factored_mwem.cli.packaging import run_package

                done = run_package(package, source, settings, report, warn)
                lines = iter(package_summary(done))
            else:
                done = job.run(source, settings, report, warn)
                parts = (summary, details) if verbose else (summary,)
                lines = _lines(parts, done)
        console.closing(done.facts, lines, as_json=json_only, quiet=quiet)
    except (KeyboardInterrupt, Stopped, OSError) as error:
        if done is not None:
            raise unsaid(error, done.facts) from None
        if isinstance(error, KeyboardInterrupt):  # the parser would swallow it
            raise Stopped(130) from error
        raise


def _lines(parts: Sequence[Callable[[Done], list[str]]], done: Done) -> Iterator[str]:
    return (line for part in parts for line in part(done))
