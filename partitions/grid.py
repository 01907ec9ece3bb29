"""The one grid: ``crawl`` (dynamic) x ``host_bucket`` (static), and how stages depend across it.

Belongs here: partitions definitions, mappings between them, and keys. Does not belong here: assets. Dagster sorts the
dimensions by name, so a key reads ``CC-MAIN-2026-26|0007``.
"""

import dagster as dg

CRAWL = "crawl"
HOST_BUCKET = "host_bucket"
VERSION = "dataset_version"


def crawls() -> dg.DynamicPartitionsDefinition:
    """One key a snapshot of a web crawl, or a delivery of another source. A key is never deleted."""
    return dg.DynamicPartitionsDefinition(name=CRAWL)


def versions() -> dg.DynamicPartitionsDefinition:
    """One key a dataset version (a manifest)."""
    return dg.DynamicPartitionsDefinition(name=VERSION)


def bucket_key(bucket: int) -> str:
    """Four digits, everywhere."""
    return f"{bucket:04d}"


def grid(buckets: int) -> dg.MultiPartitionsDefinition:
    """The grid of crawls and host buckets."""
    return dg.MultiPartitionsDefinition(
        {CRAWL: crawls(), HOST_BUCKET: dg.StaticPartitionsDefinition([bucket_key(b) for b in range(buckets)])}
    )


def all_buckets() -> dg.MultiPartitionMapping:
    """A shuffle: the same crawl, and all of its buckets."""
    return dg.MultiPartitionMapping({CRAWL: dg.DimensionPartitionMapping(CRAWL, dg.IdentityPartitionMapping())})


def crawl_of_grid() -> dg.MultiToSingleDimensionPartitionMapping:
    """Between an asset by crawl and one on the grid, in either direction."""
    return dg.MultiToSingleDimensionPartitionMapping(partition_dimension_name=CRAWL)


def range_tags(crawl: str, first: int, last: int) -> dict[str, str]:
    """Run tags that make one run take a contiguous range of a crawl's buckets."""
    return {
        "dagster/asset_partition_range_start": f"{crawl}|{bucket_key(first)}",
        "dagster/asset_partition_range_end": f"{crawl}|{bucket_key(last)}",
    }
