"""A run of its own process, to be killed: takes a demo to a manifest, and says what it has committed.

    python run_demo.py DEMO STORE WORKERS [PIPELINE VERSION]

prints a line for every partition, and last the manifest's hash.
"""

import sys
from pathlib import Path

from gristmill.demo.make import CRAWLS
from gristmill.funnel import Plan
from gristmill.params import read_pipeline
from gristmill.release.manifest import build_manifest
from gristmill.runner import run_funnel
from gristmill.store import Store


def main(demo: Path, place: Path, workers: int, file: str = "pipeline.yaml", version: str = "mini") -> str:
    """The manifest's hash."""
    pipeline = read_pipeline(demo / file)
    plan, store = Plan(pipeline.params), Store(place)
    site = pipeline.site.model_copy(update={"store": str(place)})
    for crawl in CRAWLS:
        for stage, made in run_funnel(store, plan, site, crawl, workers=workers):
            print(stage.name, crawl, made.bucket, "computed" if made.computed else "current", flush=True)
    return build_manifest(store, plan, site, str(demo / "recipe.yaml"), version, workers=workers).hash


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]), flush=True)
