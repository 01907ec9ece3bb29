"""The code location: everything Dagster knows, built from one parameter file.

Belongs here: reading ``GRISTMILL_PIPELINE`` (the only place that does) and putting assets, checks and resources
together. Nothing is wired at import of any other module.
"""

import warnings
from pathlib import Path
from typing import Any

import dagster as dg

# The house uses partitioned checks and owners, which Dagster marks as preview and beta: known, pinned, tested.
for _category in (dg.PreviewWarning, dg.BetaWarning):
    warnings.filterwarnings("ignore", category=_category)

from assets.manifest import manifest_asset  # noqa: E402
from assets.stages import stage_assets  # noqa: E402
from checks.crawl import crawl_checks  # noqa: E402
from checks.standing import SITE, standing_checks, standing_schedule  # noqa: E402
from checks.yields import yield_checks  # noqa: E402
from gristmill.commands.places import parameter_file  # noqa: E402
from gristmill.errors import ParameterError  # noqa: E402
from gristmill.frozen import require_buckets  # noqa: E402
from gristmill.funnel import FUNNEL, Plan  # noqa: E402
from gristmill.observe.progress import Reporter, Silent  # noqa: E402
from gristmill.params import Pipeline, SiteConfig, read_pipeline  # noqa: E402
from gristmill.store import Store  # noqa: E402
from resources.held_sqlite import hold_connections  # noqa: E402
from resources.places import Places  # noqa: E402
from sensors.landing import landing_sensor  # noqa: E402
from sensors.pages import pages_sensor  # noqa: E402
from sensors.upkeep import upkeep_schedules  # noqa: E402

ROOT = Path(__file__).resolve().parent
# With the executor k8s the run's own pod only starts the steps' pods and waits; steps do not inherit a run's tags.
COORDINATOR = {"dagster-k8s/config": {"container_config": {"resources": {
    "requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}}}}


def pipeline_file() -> Path:
    """The parameter file in force, as every command finds it. Raises ParameterError where there is none."""
    return parameter_file(ROOT)


def build_definitions(pipeline: Pipeline | None = None, *, reporter: Reporter | None = None,
                      resources: dict[str, Any] | None = None) -> dg.Definitions:
    """All definitions.

    Args:
        pipeline: parameters and places; None reads the file in force.
        reporter: told of progress.
        resources: replace resources by name (tests, deployments).

    Raises:
        ParameterError: the store's grid has another number of host buckets.
    """
    chosen = pipeline or read_pipeline(pipeline_file())
    plan = Plan(chosen.params)
    site = chosen.site
    if (Path(site.store) / "registry").is_dir():  # a bucket is asked by the first step of a run, not at every load
        require_buckets(Store(site.store), plan, record=False)
    assets = stage_assets(plan, reporter or Silent(), site)
    on_grid = [a for a, s in zip(assets, FUNNEL, strict=True) if s.on_grid]
    checks = [*yield_checks(assets, plan), *crawl_checks(assets, plan)]
    standing = standing_checks(plan)
    standing_job, hourly = standing_schedule(standing)
    manifest = manifest_asset(plan, site)
    tags = COORDINATOR if site.executor == "k8s" else {}
    jobs = [
        dg.define_asset_job("funnel_job", selection=dg.AssetSelection.assets(*on_grid), tags=tags,
                            description="From a landed crawl to its catalogue, over a range of buckets."),
        *(dg.define_asset_job(f"{s.name}_job", selection=dg.AssetSelection.assets(a), description=s.summary,
                              tags=tags)
          for a, s in zip(assets, FUNNEL, strict=True) if not s.on_grid),
        dg.define_asset_job("manifest_job", selection=dg.AssetSelection.assets(manifest), tags=tags,
                            description="Freeze a dataset version."),
    ]
    return dg.Definitions(
        assets=[*assets, manifest, SITE],
        asset_checks=[*checks, *standing],
        jobs=[*jobs, standing_job],
        sensors=[landing_sensor(plan, jobs), *([pages_sensor(site.paging)] if site.paging else [])],
        schedules=[*upkeep_schedules(plan, site), hourly],
        resources={
            "places": Places(store=site.store, landing=site.landing, holdout=site.holdout, models=site.models,
                             holdout_env=site.holdout_env),
            **(resources or {}),
        },
        executor=executor_of(site),
    )


def executor_of(site: SiteConfig) -> dg.ExecutorDefinition:
    """Where the steps of a run go: this process, or a pod each. ``gristmill run`` always stays in its process."""
    if site.executor == "in_process":
        return dg.in_process_executor
    try:
        from dagster_k8s import k8s_job_executor
    except ImportError as error:
        raise ParameterError("site.executor is k8s: install the extra k8s (pip install '.[k8s]' in the repository's "
                             "folder)") from error
    return k8s_job_executor


@dg.definitions
def defs() -> dg.Definitions:
    """What ``dagster dev`` and the runs it starts load; read when they ask, not at import."""
    hold_connections()
    return build_definitions()
