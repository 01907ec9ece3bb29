"""What a person sees: ``dagster dev`` on a store with a crawl in it, read in a real browser."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
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


@dataclass
class Site:
    """The UI's address, and the store it works on."""

    url: str
    store: Path

    def partitions(self, asset):
        """Folders of an asset's committed partitions of the crawl, by bucket."""
        return sorted(p.parent for p in self.store.glob(f"{asset}/*/crawl={CRAWL}/*/_manifest.json"))


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
        yield Site(url, home / "demo" / "store")
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
    return page.inner_text("body") if hasattr(page, "goto") else page.inner_text()


def test_no_dialog_covers_the_asset_graph_and_it_shows_the_funnel(page, ui):
    page.goto(f"{ui.url}/locations/gristmill/asset-groups/deduplicate")
    text = wait_for(page, "signatures", "band_buckets", "clusters")
    assert "near" in text
    assert "newsletter" not in text.lower()
    assert page.locator("[role=dialog]").count() == 0


def test_a_partition_page_shows_what_went_in_and_out_and_why(page, ui):
    page.goto(f"{ui.url}/assets/language?view=partitions&partition={CRAWL}|0000")
    text = wait_for(page, "documents_in", "documents_out", "retention")
    assert "content_digest" in text
    assert "reason" in text


def test_a_check_page_shows_the_verdict_and_its_evidence(page, ui):
    page.goto(f"{ui.url}/assets/near?view=checks&checkDetail=retention")
    text = wait_for(page, "retention", "What near keeps, of documents and bytes")
    assert "Passed" in text or "Evaluation" in text


def choose(page, dialog, keys):
    """Tick keys in the dialog's next list of partitions, and close the list."""
    dialog.get_by_text("Select a partition").first.click()
    for key in keys:
        page.locator("[role=menuitem], label").filter(has_text=key).last.click()
    dialog.get_by_text("Launch runs to materialize").click()


def test_a_person_backfills_some_buckets_of_a_crawl_and_sees_what_went_in_what_came_out_and_why(page, ui):
    def counted(asset):
        return [json.loads((p / "_manifest.json").read_text())["counts"] for p in ui.partitions(asset)[:2]]

    # A stage that stopped something in the first two buckets, so that there is a why.
    asset = next(a for a in ("language", "text", "unique_records") if any(c["reasons"] for c in counted(a)))
    lost, rows = ui.partitions(asset)[:2], counted(asset)
    for folder in lost:
        shutil.rmtree(folder)
    page.goto(f"{ui.url}/assets/{asset}?view=partitions")
    page.get_by_role("button", name="Materialize").first.click()
    dialog = page.locator("[role=dialog]").first
    choose(page, dialog, [CRAWL])
    choose(page, dialog, ["0000", "0001"])
    wait_for(dialog, "2 partitions")
    dialog.get_by_role("button", name="Launch backfill").click()
    page.get_by_text("Created backfill").first.wait_for()
    page.get_by_text("View", exact=True).first.click()
    page.wait_for_url("**/runs/b/**")
    page.get_by_text("Succeeded", exact=True).first.wait_for()
    page.get_by_text("100% completed").first.wait_for(timeout=240_000)
    assert ui.partitions(asset)[:2] == lost, "both are made again, under the same fingerprint"

    for number, counts in enumerate(rows):
        page.goto(f"{ui.url}/assets/{asset}?view=partitions&partition={CRAWL}|{number:04d}")
        text = " ".join(wait_for(page, "documents_in", "reasons").split())
        assert f"documents_in {counts['docs_in']} " in text
        assert f"documents_out {counts['docs_out']} " in text
        assert "computed true" in text
        for reason, n in counts["reasons"].items():
            assert f"{reason} {n}" in text

    # The run's page shows the progress as log lines.
    run = page.locator("a[href*='/runs/']").first.get_attribute("href").split("?")[0]
    page.goto(f"{ui.url}{run}?logs={asset}%3A")
    total = sum(c["docs_in"] for c in rows)
    wait_for(page, f"{asset}: 2/2 partitions (2 computed), {total:,} documents in")
