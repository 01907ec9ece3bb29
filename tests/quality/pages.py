"""Real pages for the tests of measures, where they are."""

import gzip
import json
from pathlib import Path


def gold_texts(shared: Path, *names: str) -> list[str]:
    """Main texts of the extraction sets under ../shared/data/02_extraction, non-empty ones."""
    out = []
    for name in names:
        with gzip.open(shared / "02_extraction" / f"{name}_pub.gold.jsonl.gz", "rt", encoding="utf-8") as file:
            out += [text for line in file if (text := json.loads(line)["text"])]
    return out
