"""``explain`` says of a version what the version itself shows, whatever parameters are in force today."""

from gristmill import schemas
from gristmill.explain import explain, render
from gristmill.identity import url_hash
from gristmill.release.lineage import whereis
from gristmill.release.purge import purge
from tests.release.conftest import shared_world, world  # noqa: F401
from tests.release.test_forget import URL, other_parameters, victim_of
from tests.release.test_versions import build, finder
from tests.release.world import World


def raw_index(world: World, crawl: str) -> None:  # noqa: F811
    for bucket in range(world.plan.buckets):
        rows = [{"crawl": crawl, "record_id": d.record_id, "url": d.url, "url_hash": url_hash(d.url), "fetch_ts": d.ts}
                for d in world.docs[crawl] if world.bucket_of(d) == bucket]
        world._put("raw_warc", crawl, bucket, schemas.RAW_INDEX, rows)
        world._put("quarantine", crawl, bucket, schemas.QUARANTINE, [])


def told(world: World, plan, **asked):  # noqa: F811
    found = explain(world.store, plan, world.site, URL, crawl="A", **asked)
    assert len(found) == 1
    return found[0]


def test_a_version_of_other_parameters_is_told_by_its_own(world):  # noqa: F811
    raw_index(world, "A")
    one = build(world)
    other = other_parameters(world)
    build(other, "v2")
    assert one.hash
    for plan in (world.plan, other.plan):
        found = told(world, plan)
        for version in ("v1", "v2"):
            assert bool(found.versions[version]) == bool(whereis(world.store, version, URL))
            assert found.versions[version] == ["hi"] or found.versions[version] == ["lo"]
        assert "not selected" not in render([found])


def test_after_its_bytes_were_deleted_no_shard_is_named(world):  # noqa: F811
    raw_index(world, "A")
    build(world)
    purge(world.store, finder(world), URL)
    build(world, "v2")
    found = told(world, world.plan)
    assert (found.shard, found.reason) == (None, "bytes_deleted")
    assert found.versions["v1"]
    assert found.versions["v2"] == []
    assert found.steps[-1] == ("manifest v2", "its bytes had been deleted when the version was built")
    assert "bytes_deleted" in render([found])
    neighbour = next(d for d in world.docs["A"] if d.host == victim_of(world).host and d.url != URL and d.percentile)
    kept = explain(world.store, world.plan, world.site, neighbour.url, crawl="A")[0]
    assert kept.versions["v2"]
    assert kept.shard is not None
    assert any(kept.shard in path for path, _ in world.store.blobs.list("shards")), "a shard that is there"
