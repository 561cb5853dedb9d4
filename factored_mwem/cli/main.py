"""The command line `fmwem`: every command a few lines over the library. stdout is for machines, stderr for
people.

Heavy modules are imported inside the commands, so that `--help` and mistakes answer at once.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from factored_mwem.cli.admin import datasets_app, domain_app, ledger_app, workload_app
from factored_mwem.cli.exits import run, unsaid
from factored_mwem.cli.settings import names_of
from factored_mwem.errors import Stopped

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Differentially private synthetic tables.",
)
app.add_typer(domain_app, name="domain")
app.add_typer(ledger_app, name="ledger")
app.add_typer(datasets_app, name="datasets")
app.add_typer(workload_app, name="workload")

CLI_MAX_ROWS = 10**12  # more rows than this are a slip of the keyboard: they would fill any disk

TablePath = Annotated[Path, typer.Argument(help="CSV (also .gz), TSV, Parquet or Feather file.")]
Marginals = Annotated[
    Optional[int], typer.Option("--marginals", envvar="FMWEM_MARGINALS", help="Keep all K-way marginals.")
]
WorkloadPath = Annotated[
    Optional[Path], typer.Option("--workload", envvar="FMWEM_WORKLOAD", help="Workload file (TOML or JSON).")
]
Cube = Annotated[
    Optional[list[str]],
    typer.Option("--cube", envvar="FMWEM_CUBE", help="Keep all marginals over A,B,C[:K]; repeatable."),
]
Ranges = Annotated[
    Optional[list[str]],
    typer.Option(
        "--ranges",
        envvar="FMWEM_RANGES",
        help="Keep ranges over A or A,B: A:1000 random ones, A:all, A:prefix; repeatable.",
    ),
]
Parities = Annotated[
    Optional[int],
    typer.Option(
        "--parities", envvar="FMWEM_PARITIES", help="Keep all parities of at most K binary columns."
    ),
]
DomainPath = Annotated[
    Optional[Path],
    typer.Option(
        "--domain", envvar="FMWEM_DOMAIN", help="Domain file; default: NAME.domain.json beside the table."
    ),
]
Epsilon = Annotated[
    Optional[float], typer.Option(envvar="FMWEM_EPSILON", help="Privacy loss epsilon.  [default: 1]")
]
Delta = Annotated[
    Optional[float],
    typer.Option(envvar="FMWEM_DELTA", help="Privacy loss delta; 0 is pure epsilon-DP.  [default: 1e-9]"),
]
NeighbourRelation = Annotated[
    Optional[str],
    typer.Option(
        "--neighbours", envvar="FMWEM_NEIGHBOURS", help="add-remove or replace.  [default: add-remove]"
    ),
]
Contributions = Annotated[
    Optional[int], typer.Option(envvar="FMWEM_CONTRIBUTIONS", help="Most rows of one person.  [default: 1]")
]
PrivacyId = Annotated[
    Optional[str],
    typer.Option(
        envvar="FMWEM_PRIVACY_ID",
        help="Column that names the person: at most --contributions rows of each are kept, the column is dropped.",
    ),
]
Lines = Annotated[
    Optional[bool],
    typer.Option(
        "--lines", envvar="FMWEM_LINES", help="Text files: every line is a record, whatever its quotes."
    ),
]
Multiline = Annotated[
    Optional[bool],
    typer.Option(
        "--multiline",
        envvar="FMWEM_MULTILINE",
        help="Text files: cells in quotes may hold line breaks; the writer closes all quotes.",
    ),
]
Rounds = Annotated[Optional[str], typer.Option(envvar="FMWEM_ROUNDS", help="Rounds to run, or 'adaptive'.")]
MaxCells = Annotated[
    Optional[int],
    typer.Option(envvar="FMWEM_MAX_CELLS", help="Most cells of all clique trees together.  [default: 2^19]"),
]
MaxMemory = Annotated[
    Optional[str],
    typer.Option(
        envvar="FMWEM_MAX_MEMORY", help="Memory for tables, such as 100MB.  [default: half of the machine's]"
    ),
]
TimeBudget = Annotated[
    Optional[float],
    typer.Option(
        envvar="FMWEM_TIME_BUDGET", help="Seconds to plan for; the plan is made before a row is read."
    ),
]
Engine = Annotated[
    Optional[str],
    typer.Option(
        envvar="FMWEM_ENGINE",
        help="tree, or mwem: the paper's algorithm on dense components.  [default: tree]",
    ),
]
DomainBudget = Annotated[
    Optional[float],
    typer.Option(
        envvar="FMWEM_DOMAIN_BUDGET",
        help="Share of the budget to learn a domain nobody declared.  [default: 0.1]",
    ),
]
Columns = Annotated[
    Optional[str],
    typer.Option(envvar="FMWEM_COLUMNS", help="Columns to release, separated by commas.  [default: all]"),
]
Config = Annotated[
    Optional[Path], typer.Option(envvar="FMWEM_CONFIG", help="TOML file with any of these settings.")
]
Overwrite = Annotated[
    Optional[bool], typer.Option("--overwrite", envvar="FMWEM_OVERWRITE", help="Replace existing files.")
]
SampleSeed = Annotated[
    Optional[int],
    typer.Option(envvar="FMWEM_SAMPLE_SEED", help="Seed of the sampling only: noise has no seed.", min=0),
]
Rows = Annotated[
    Optional[int],
    typer.Option(
        envvar="FMWEM_ROWS", help="Synthetic rows.  [default: the noisy count]", min=0, max=CLI_MAX_ROWS
    ),
]
LedgerPath = Annotated[
    Optional[Path],
    typer.Option("--ledger", envvar="FMWEM_LEDGER", help="Ledger file that the cost is entered in."),
]
DatasetName = Annotated[
    Optional[str], typer.Option("--dataset", envvar="FMWEM_DATASET", help="The table's name in the ledger.")
]
RunId = Annotated[
    Optional[str],
    typer.Option(
        "--run-id",
        envvar="FMWEM_RUN_ID",
        help="Name of this run: the same again goes on where it died, and pays once.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Machine output only: no summary, errors as JSON on stdout.")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="A line a round.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No summary.")]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="No progress bar.")]


@app.command()
def release(
    table: TablePath,
    marginals: Marginals = None,
    cube: Cube = None,
    ranges: Ranges = None,
    parities: Parities = None,
    workload: WorkloadPath = None,
    domain: DomainPath = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    neighbours: NeighbourRelation = None,
    contributions: Contributions = None,
    privacy_id: PrivacyId = None,
    lines: Lines = None,
    multiline: Multiline = None,
    rounds: Rounds = None,
    max_cells: MaxCells = None,
    max_memory: MaxMemory = None,
    time_budget: TimeBudget = None,
    engine: Engine = None,
    domain_budget: DomainBudget = None,
    rows: Rows = None,
    columns: Columns = None,
    output: Annotated[
        Optional[Path],
        typer.Option(
            "-o", "--output", envvar="FMWEM_OUTPUT", help="Output file.  [default: NAME.synthetic.parquet]"
        ),
    ] = None,
    model: Annotated[
        Optional[Path], typer.Option(envvar="FMWEM_MODEL", help="Also save the model here.")
    ] = None,
    overwrite: Overwrite = None,
    sample_seed: SampleSeed = None,
    ledger: LedgerPath = None,
    dataset: DatasetName = None,
    run_id: RunId = None,
    config: Config = None,
    json_only: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    no_progress: NoProgress = False,
) -> None:
    """Turn a private table into a synthetic one under differential privacy."""
    settings = _settings(locals())
    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job
    from factored_mwem.kernels import warmup

    silent = quiet or json_only
    if not silent and settings.get("engine") != "mwem" and warmup.is_cold():
        console.say("first run: compiling for this machine, once; later runs start at once")
    done = None
    try:
        with console.progress(
            show=console.wants_progress(no_progress) and not silent, verbose=verbose
        ) as report:
            done = job.run(table, settings, report)
        print(json.dumps(done.facts), flush=True)
        if not silent:
            console.say(console.summary(done))
    except (KeyboardInterrupt, Stopped, OSError) as error:
        if done is not None:
            raise unsaid(error, done.facts) from None
        if isinstance(error, KeyboardInterrupt):  # the parser would swallow it
            raise Stopped(130) from error
        raise


@app.command()
def check(
    table: TablePath,
    marginals: Marginals = None,
    cube: Cube = None,
    ranges: Ranges = None,
    parities: Parities = None,
    workload: WorkloadPath = None,
    domain: DomainPath = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    neighbours: NeighbourRelation = None,
    contributions: Contributions = None,
    privacy_id: PrivacyId = None,
    lines: Lines = None,
    multiline: Multiline = None,
    rounds: Rounds = None,
    max_cells: MaxCells = None,
    max_memory: MaxMemory = None,
    time_budget: TimeBudget = None,
    engine: Engine = None,
    columns: Columns = None,
    assume_rows: Annotated[
        int, typer.Option(help="Your guess of the table's rows, for the plan.", min=1)
    ] = 10_000,
    config: Config = None,
    json_only: Json = False,
) -> None:
    """Dry run on public facts only: what a release would do and how noisy it would be. Reads no row, spends
    nothing.
    """
    settings = _settings(locals())
    from dataclasses import asdict

    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job

    found, unit = job.dry_run(table, settings, assume_rows)
    print(json.dumps(asdict(found)) if json_only else console.forecast_text(found, assume_rows, unit))


@app.command()
def sample(
    model: Annotated[Path, typer.Argument(help="Model file that `fmwem release --model` wrote.")],
    n: Annotated[int, typer.Option("-n", "--rows", help="Rows to draw.", min=0, max=CLI_MAX_ROWS)],
    output: Annotated[
        Optional[Path], typer.Option("-o", "--output", help="Output file.  [default: MODEL.sample.parquet]")
    ] = None,
    sample_seed: SampleSeed = None,
    overwrite: Overwrite = None,
) -> None:
    """Draw more rows from a saved model, at no privacy cost."""
    from factored_mwem.cli import jobs as job

    print(
        json.dumps(
            job.draw(
                model,
                n,
                output or Path(f"{model.stem}.sample.parquet"),
                seed=sample_seed,
                overwrite=bool(overwrite),
            )
        )
    )


@app.command()
def evaluate(
    real: TablePath,
    synthetic: Annotated[Path, typer.Argument(help="Synthetic file to compare with it.")],
    marginals: Annotated[int, typer.Option("--marginals", help="Highest order of marginal.", min=1)] = 3,
    cube: Cube = None,
    ranges: Ranges = None,
    parities: Parities = None,
    workload: WorkloadPath = None,
    domain: DomainPath = None,
    columns: Columns = None,
    lines: Lines = None,
    multiline: Multiline = None,
    json_only: Json = False,
) -> None:
    """NOT PRIVATE: errors of a synthetic table against the real one, by order, of what else is asked, and the
    worst ten marginals.
    """
    settings = {**locals(), "columns": names_of(columns)}
    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job

    found = job.compare(real, synthetic, marginals, settings)
    by_order = {k: {"mean": mean, "worst": worst} for k, (mean, worst) in found.by_order.items()}
    asked = [
        {"asked": words, "questions": count, "mean": mean, "worst": worst}
        for words, count, mean, worst in found.asked
    ]
    facts = {"private": False, "by_order": by_order, "asked": asked, "worst": found.worst}
    print(json.dumps(facts) if json_only else console.errors_text(found))


@app.command()
def verify(
    table: TablePath,
    marginals: Marginals = None,
    cube: Cube = None,
    ranges: Ranges = None,
    parities: Parities = None,
    workload: WorkloadPath = None,
    domain: DomainPath = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    neighbours: NeighbourRelation = None,
    contributions: Contributions = None,
    privacy_id: PrivacyId = None,
    lines: Lines = None,
    multiline: Multiline = None,
    rounds: Rounds = None,
    max_cells: MaxCells = None,
    max_memory: MaxMemory = None,
    time_budget: TimeBudget = None,
    engine: Engine = None,
    domain_budget: DomainBudget = None,
    columns: Columns = None,
    pairs: Annotated[int, typer.Option(help="Neighbours of the table to compare it with.", min=1)] = 100,
    config: Config = None,
    json_only: Json = False,
    no_progress: NoProgress = False,
) -> None:
    """NOT PRIVATE: release the table, replay that on neighbours of it, and compare what reached the noise
    with what was charged.

    Exit code 1 where something moved by more. Nothing is published or entered in a ledger. Copies of the
    table go to a private folder in TMPDIR, removed at the end; a killed run leaves it, and the next one
    removes it.
    """
    settings = _settings(locals())
    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job

    with console.counted(pairs, show=console.wants_progress(no_progress) and not json_only) as report:
        found = job.verified(table, settings, pairs, report)
    print(json.dumps(found.facts) if json_only else console.verified_text(found), flush=True)
    if not found.holds:
        raise typer.Exit(1)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """The settings in force, from all parameters of a command by name; those that are no settings are left
    out.
    """
    from factored_mwem.cli.settings import FLAGS, check_environment, merge, read_config

    check_environment()
    settings = merge(
        {key: given[key] for key in FLAGS if key in given},
        read_config(given["config"]) if given["config"] else {},
    )
    if re.fullmatch("-?[0-9]{1,18}", str(settings.get("rounds", ""))):
        settings["rounds"] = int(settings["rounds"])
    settings["columns"] = names_of(settings.get("columns"))
    return settings


def main() -> None:
    """Run the command line; every failure is one line and the documented exit code."""
    run(app)
