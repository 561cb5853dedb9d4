"""`fmwem release`: a private table in, a synthetic one out."""

from __future__ import annotations

import json

from factored_mwem.cli.exits import unsaid
from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import PROMISED, Json, NoProgress, Quiet, Tables, Verbose, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import Stopped


@takes(*PROMISED, Group.LEARNING, Group.OUTPUT, Group.SAMPLING, Group.BOOKS, Group.CONFIG)
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

    silent = quiet or json_only
    if not silent and is_first_run(settings.policy.engine):
        console.say("first run: compiling for this machine, once; later runs start at once")
    done = None
    try:
        with console.progress(
            show=console.wants_progress(no_progress) and not silent, verbose=verbose
        ) as report:
            warn = (lambda _: None) if silent else console.say
            done = job.run(source_of(table), settings, report, warn)
        if console.for_scripts(json_only):
            print(json.dumps(done.facts), flush=True)
        if not silent:
            shown = (summary, details) if verbose else (summary,)
            console.say_made(line for part in shown for line in part(done))
    except (KeyboardInterrupt, Stopped, OSError) as error:
        if done is not None:
            raise unsaid(error, done.facts) from None
        if isinstance(error, KeyboardInterrupt):  # the parser would swallow it
            raise Stopped(130) from error
        raise
