"""dbt-duckdb: a Python model, released once for every `dbt run --vars 'run_id: NAME'` and free after that."""

from factored_mwem import FmwemError, release

JOB = {"domain": "adult.domain.json", "workload": 2, "epsilon": 0.5}
BOOKS = {"ledger": "budget.ledger", "dataset": "adult"}


def model(dbt, session):
    dbt.config(materialized="table")
    run_id, folder = dbt.config.meta_get("run_id"), dbt.config.meta_get("folder")
    try:
        made = release(dbt.source("private", "adult"), **JOB, **BOOKS, run_id=f"synthetic {run_id}")
        made.write(f"{folder}/{run_id}.parquet", overwrite=True)
    except FmwemError as error:
        what = "run it again" if error.retryable else error.advice
        raise RuntimeError(f"{error} ({what})") from None
    return session.read_parquet(f"{folder}/{run_id}.parquet")
