"""Prefect 3: one release for every flow run, paid for once however often the run or its task is tried."""

from prefect import flow, task
from prefect.runtime import flow_run

from factored_mwem import release

JOB = {"table": "adult.csv", "domain": "adult.domain.json", "workload": 2, "epsilon": 0.5}
BOOKS = {"ledger": "budget.ledger", "dataset": "adult"}


def may_succeed(task, run, state):
    return getattr(state.result(raise_on_failure=False), "retryable", True)


@task(retries=3, retry_delay_seconds=60, retry_condition_fn=may_succeed)
def publish(folder, job):
    made = release(**job, run_id=f"publish {flow_run.id}")
    return made.write(f"{folder}/{flow_run.id}.parquet", overwrite=True).model_dump(mode="json")


@flow
def synthetic(folder: str = ".", job: dict = {**JOB, **BOOKS}):  # noqa: B006
    return publish(folder, job)
