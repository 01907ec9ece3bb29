"""Growth: the work of deduplication a document is the same in a crawl eight times as large."""

from pathlib import Path

import pytest

pytest.importorskip("scipy")
SIZES = (2_000, 16_000)


@pytest.mark.slow
def test_the_work_a_document_does_not_grow_with_the_crawl(tmp_path: Path) -> None:
    """Counted, since seconds on a shared machine say little; the benchmark holds CPU time to the same 15 %."""
    from bench.dedup_growth import BUCKETS, PLAN, land, stages
    from gristmill.funnel import BY_NAME
    from gristmill.params import SiteConfig
    from gristmill.partition import Partition
    from gristmill.store import Store

    work: dict[int, dict[str, float]] = {}
    for n in SIZES:
        store = Store(tmp_path / f"crawl{n}")
        land(tmp_path / f"crawl{n}", n)
        stages(store)
        counted: dict[str, float] = {}
        for stage, facts in (("band_buckets", ("members", "compared", "edges")),
                             ("clusters", ("texts_read", "pairs_read", "members")), ("band_index", ("entries",))):
            for bucket in range(BUCKETS):
                manifest = Partition(store, PLAN, BY_NAME[stage], "C", bucket, SiteConfig()).manifest(stage)
                for fact in facts:
                    counted[f"{stage} {fact}"] = counted.get(f"{stage} {fact}", 0) + manifest.info.get(fact, 0) / n
        work[n] = counted
    few, many = (work[n] for n in SIZES)
    assert few["clusters texts_read"] > 0.1, "pairs of J about 0.88 are read"
    for what, count in many.items():
        assert count <= 1.15 * few[what], (what, few[what], count)
