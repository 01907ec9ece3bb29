"""Store, landing and models in S3: the same manifest, byte for byte, as from local folders."""

import shutil
import uuid

import pytest
import yaml

from gristmill.blobs import open_blobs
from tests.launch.test_run import CRAWL, Home, manifest_hash, mini_demo  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(900)]


def test_a_crawl_from_s3_to_s3_gives_the_manifest_that_local_folders_give(tmp_path, mini_demo, s3_server):  # noqa: F811
    local = Home(tmp_path / "local", mini_demo)
    here = local.run("run", "--crawl", CRAWL, "--manifest", "v1", "--workers", "2")
    assert here.returncode == 0, here.stderr[-3000:]

    there = Home(tmp_path / "remote", mini_demo)
    place = f"s3://mill/{uuid.uuid4().hex}"
    landing = open_blobs(f"{place}/landing", s3_server.options())
    for file in sorted((mini_demo / "landing").rglob("*")):
        if file.is_file():
            landing.put(file.relative_to(mini_demo / "landing").as_posix(), file.read_bytes())
    data = yaml.safe_load(there.pipeline.read_text())
    data["site"].update(store=f"{place}/store", landing=f"{place}/landing")
    there.pipeline.write_text(yaml.safe_dump(data))
    shutil.rmtree(there.folder / "demo" / "landing")
    there.env.update(s3_server.environment())
    ran = there.run("run", "--crawl", CRAWL, "--manifest", "v1", "--workers", "2")
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert manifest_hash(ran.stdout) == manifest_hash(here.stdout)
    again = there.run("run", "--crawl", CRAWL, "--manifest", "v1")
    assert "nothing to do" in again.stdout
