"""What a person sees: ``dagster dev`` on a store with a crawl in it, read in a real browser."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium")
CRAWL = "CC-DEMO-2026-01"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(900),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; .ci/run installs it"),
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def ui(tmp_path_factory):
    """A small demo crawl taken through the funnel, and the UI on the same state."""
    from gristmill.demo.make import make_demo

    home = tmp_path_factory.mktemp("home")
    make_demo(home / "demo", pages=60)
    shutil.copy(ROOT / "dagster.yaml", home / "dagster.yaml")
    pipeline = home / "demo" / "pipeline.yaml"
    env = {**os.environ, "DAGSTER_HOME": str(home), "GRISTMILL_PIPELINE": str(pipeline)}
    subprocess.run([sys.executable, str(ROOT / "launch.py"), "--pipeline", str(pipeline), "--crawl", CRAWL,
                    "--workers", "2"], env=env, check=True, cwd=home, timeout=600)
    port = free_port()
    with (home / "dev.log").open("wb") as log:
        server = subprocess.Popen(
            [str(Path(sys.executable).parent / "dagster"), "dev", "-w", str(ROOT / "workspace.yaml"), "-h", "127.0.0.1",
             "-p", str(port)],
            env=env, cwd=home / "demo", stdout=log, stderr=log, start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.time() + 120
        while True:
            try:
                urllib.request.urlopen(f"{url}/server_info", timeout=5).read()
                break
            except OSError:
                assert server.poll() is None, (home / "dev.log").read_text()[-3000:]
                assert time.time() < deadline, (home / "dev.log").read_text()[-3000:]
                time.sleep(0.5)
        yield url
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.fixture(scope="module")
def page(ui):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET, headless=True)
        page = browser.new_page(viewport={"width": 1600, "height": 1100})
        page.set_default_timeout(90_000)
        yield page
        browser.close()


def wait_for(page, *texts):
    for text in texts:
        page.get_by_text(text, exact=False).first.wait_for()
    return page.inner_text("body")


def test_no_dialog_covers_the_asset_graph_and_it_shows_the_funnel(page, ui):
    page.goto(f"{ui}/locations/gristmill/asset-groups/deduplicate")
    text = wait_for(page, "signatures", "band_buckets", "clusters")
    assert "near" in text
    assert "newsletter" not in text.lower()
    assert page.locator("[role=dialog]").count() == 0


def test_a_partition_page_shows_what_went_in_and_out_and_why(page, ui):
    page.goto(f"{ui}/assets/language?view=partitions&partition={CRAWL}|0000")
    text = wait_for(page, "documents_in", "documents_out", "retention")
    assert "content_digest" in text
    assert "reason" in text


def test_a_check_page_shows_the_verdict_and_its_evidence(page, ui):
    page.goto(f"{ui}/assets/near?view=checks&checkDetail=retention")
    text = wait_for(page, "retention", "Documents kept by near")
    assert "Passed" in text or "Evaluation" in text
