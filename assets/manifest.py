"""The manifest of a dataset version as an asset, partitioned by version and started explicitly.

Belongs here: wiring the library's manifest builder. Does not belong here: recipes, policy, selection.
"""

from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from gristmill.errors import ManifestError
from gristmill.funnel import FUNNEL, Plan
from gristmill.params import SiteConfig
from partitions import grid as grids
from resources.places import Places


class ManifestConfig(dg.Config):
    """What a version is built from. Empty means: every crawl that has a catalogue, and the site's recipe."""

    crawls: list[str] = Field(default_factory=list)
    recipe: str = ""


def manifest_asset(plan: Plan, site: SiteConfig) -> dg.AssetsDefinition:
    """The frozen manifest: shards and selected documents by source, with every exclusion counted."""
    read = ("catalogue", "catalogue_records", "contamination_report", "shards")

    @dg.asset(
        name="manifest", group_name="release", partitions_def=grids.versions(), owners=["team:data-engineering"],
        kinds={"json"}, description="A frozen dataset version: which documents of which shards, by which recipe.",
        deps=[dg.AssetDep(s.name, partition_mapping=dg.AllPartitionMapping()) for s in FUNNEL if s.name in read],
        backfill_policy=dg.BackfillPolicy.multi_run(1),
    )
    def _manifest(context: dg.AssetExecutionContext, config: ManifestConfig, places: Places) -> dg.MaterializeResult:
        from gristmill.release.manifest import build_manifest

        recipe = config.recipe or site.recipe
        if not recipe:
            raise ManifestError("no recipe: name one in pipeline.yaml (site.recipe) or in the run's configuration")
        built = build_manifest(
            places.open_store(), plan, places.site(), Path(recipe), context.partition_key, config.crawls or None
        )
        return dg.MaterializeResult(
            metadata=built_facts(built, places.store), data_version=dg.DataVersion(built.hash)
        )

    return _manifest


def built_facts(built: Any, root: str) -> dict[str, Any]:
    """What the UI shows of a manifest."""
    report = f"{root}/manifests/{built.version}/report.html"
    return {
        "hash": built.hash,
        "report": dg.MetadataValue.path(report),
        **{k: v for k, v in built.facts.items() if isinstance(v, bool | int | float | str)},
    }
