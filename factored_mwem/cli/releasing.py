"""`fmwem release`: a private table in, a synthetic one out."""

from __future__ import annotations

from pathlib import Path

from factored_mwem.cli.exits import unsaid
from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import RELEASE, Json, NoProgress, Quiet, Tables, Verbose, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import Stopped


@takes(*RELEASE, Group.OUTPUT, Group.SAMPLING, Group.BOOKS, Group.CONFIG)
def release(
    table: Tables,
    settings: ReleaseSettings,
    json_only: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    no_progress: NoProgress = False,
) -> None:
    """Turn a private table into a synthetic one under differential privacy."""
    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job
    from factored_mwem.cli.summary import details, summary
    from factored_mwem.pipeline.progress import is_first_run
    from factored_mwem.request.data_package import is_descriptor

    silent = quiet or json_only
    if not silent and is_first_run(settings.policy.engine):
        console.say("first run: compiling for this machine, once; later runs start at once")
    source = source_of(table)
    if isinstance(source, Path) and is_descriptor(source):
        return _release_package(source, settings, json_only=json_only, quiet=quiet, show=not no_progress)
    done = None
    show = console.wants_progress(no_progress) and not silent
    try:
        with console.progress(show=show, verbose=verbose) as report:
            done = job.run(source, settings, report, (lambda _: None) if silent else console.say)
        parts = (summary, details) if verbose else (summary,)
        lines = (line for part in parts for line in part(done))
        console.closing(done.facts, lines, as_json=json_only, quiet=quiet)
    except (KeyboardInterrupt, Stopped, OSError) as error:
        if done is not None:
            raise unsaid(error, done.facts) from None
        if isinstance(error, KeyboardInterrupt):  # the parser would swallow it
            raise Stopped(130) from error
        raise


def _release_package(
    descriptor: Path, settings: ReleaseSettings, *, json_only: bool, quiet: bool, show: bool
) -> None:
    """Several tables in, as many out."""
    from factored_mwem.cli import console
    from factored_mwem.cli.packaging import package_summary, run_package

    shown = console.wants_progress(not show) and not (quiet or json_only)
    with console.progress(show=shown, verbose=False) as report:
        done = run_package(descriptor, settings, report)
    console.closing(done.facts, package_summary(done), as_json=json_only, quiet=quiet)
