"""Airflow 3: one release for every run of the Dag, paid for once however often its task is tried."""

from airflow.sdk import DAG, Asset, Metadata, task
from airflow.sdk.exceptions import AirflowFailException

from factored_mwem import FmwemError, release

JOB = {"table": "adult.csv", "domain": "adult.domain.json", "workload": 2, "epsilon": 0.5}
BOOKS = {"ledger": "budget.ledger", "dataset": "adult"}
SYNTHETIC = Asset("adult_synthetic")


@task(retries=3, retry_delay=60, outlets=[SYNTHETIC])
def publish(folder, job, *, run_id=None, ti=None):
    try:
        made = release(**job, run_id=f"{ti.task_id} {run_id}")
        manifest = made.write(f"{folder}/{run_id}.parquet", overwrite=True)
    except FmwemError as error:
        final = AirflowFailException(f"{error} ({error.advice})")
        raise error if error.retryable else final from None
    yield Metadata(SYNTHETIC, {"manifest": manifest.model_dump(mode="json")})


with DAG("release_adult", schedule="@daily", catchup=False):
    publish(".", {**JOB, **BOOKS})
