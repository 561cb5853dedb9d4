"""Dagster: one release for every partition, paid for once however often its step or its run is tried."""

import dagster as dg

from factored_mwem import FmwemError, release

JOB = {"table": "adult.csv", "domain": "adult.domain.json", "workload": 2, "epsilon": 0.5}
BOOKS = {"ledger": "budget.ledger", "dataset": "adult"}


@dg.asset(
    partitions_def=dg.DailyPartitionsDefinition("2026-01-01"),
    config_schema=dg.Field(dict, default_value={"folder": ".", "job": {**JOB, **BOOKS}}),
    retry_policy=dg.RetryPolicy(max_retries=3, delay=60),
    check_specs=[dg.AssetCheckSpec("epsilon", asset="synthetic")],
)
def synthetic(context):
    job, out = context.op_config["job"], f"{context.op_config['folder']}/{context.partition_key}.parquet"
    try:
        manifest = release(**job, run_id=f"synthetic {context.partition_key}").write(out, overwrite=True)
    except FmwemError as error:
        raise dg.Failure(f"{error} ({error.advice})", allow_retries=error.retryable) from None
    facts = {"epsilon": manifest.recompute(), "manifest": manifest.model_dump(mode="json")}
    check = dg.AssetCheckResult(passed=facts["epsilon"] <= job["epsilon"])
    return dg.MaterializeResult(metadata=facts, check_results=[check])
