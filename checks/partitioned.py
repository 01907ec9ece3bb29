"""Check results of single partitions, in range runs too.

Belongs here: the one place that writes an evaluation a partition. Dagster 1.13 stores a range run's check once, with no
partition, so the evaluations are written here directly. Does not belong here: what is judged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.events import DagsterEvent, DagsterEventType


@dataclass(frozen=True)
class Evaluation:
    """What a check says of one partition."""

    partition: str
    passed: bool
    metadata: Mapping[str, Any]


def latest_materializations(
    instance: dg.DagsterInstance, asset: dg.AssetKey, partitions: Sequence[str]
) -> dict[str, dg.EventLogRecord]:
    """Partition -> its newest materialisation, in one query."""
    if not partitions:
        return {}
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=asset, asset_partitions=list(partitions)), limit=4 * len(partitions)
    ).records
    out: dict[str, dg.EventLogRecord] = {}
    for record in records:  # newest first
        if record.partition_key is not None:
            out.setdefault(record.partition_key, record)
    return out


def report_evaluations(
    context: dg.AssetCheckExecutionContext, check: dg.AssetCheckKey, evaluations: Sequence[Evaluation],
    severity: dg.AssetCheckSeverity, blocking: bool,
) -> None:
    """Write one evaluation a partition, aimed at its newest materialisation, under this run's id.

    Without the target the UI's Partitions tab stays empty; without the events the planned rows stay planned for ever.
    """
    newest = latest_materializations(context.instance, check.asset_key, [e.partition for e in evaluations])
    for evaluation in evaluations:
        record = newest.get(evaluation.partition)
        target = None if record is None else AssetCheckEvaluationTargetMaterializationData(
            storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
        )
        context.instance.report_dagster_event(
            DagsterEvent(
                event_type_value=DagsterEventType.ASSET_CHECK_EVALUATION.value,
                job_name=context.run.job_name,
                event_specific_data=dg.AssetCheckEvaluation(
                    asset_key=check.asset_key, check_name=check.name, passed=evaluation.passed, severity=severity,
                    metadata={k: dg.MetadataValue.json(v) if isinstance(v, dict | list) else _value(v)
                              for k, v in evaluation.metadata.items()},
                    partition=evaluation.partition, blocking=blocking, target_materialization_data=target,
                ),
            ),
            run_id=context.run.run_id,
        )


def _value(value: Any) -> dg.MetadataValue:
    if isinstance(value, bool):
        return dg.MetadataValue.bool(value)
    if isinstance(value, int):
        return dg.MetadataValue.int(value)
    if isinstance(value, float):
        return dg.MetadataValue.float(value)
    return value if isinstance(value, dg.MetadataValue) else dg.MetadataValue.text(str(value))
