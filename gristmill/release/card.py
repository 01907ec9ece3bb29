"""The data set card (stub to be replaced below)."""

from typing import Any

from gristmill.store import Store


def write(
    store: Store, plan: Any, site: Any, manifest: dict[str, Any], manifest_hash: str, stats: dict[str, Any]
) -> None:
    """Write."""
    store.blobs.put(f"manifests/{manifest['version']}/report.html", b"<html></html>")
