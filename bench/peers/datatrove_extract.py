"""datatrove's WARC reader and trafilatura block over a folder of WARC files: documents and seconds.

Prints one JSON line; seconds are wall time of the executor alone, without imports.

Comments are left out, as always there; trafilatura's process-wide duplicate cache is off, as in ours.

    python datatrove_extract.py FOLDER OUT WORKERS (precision|balanced)
"""

import json
import shutil
import sys
import time
from importlib.metadata import version
from pathlib import Path


def main(folder: Path, out: Path, workers: int, focus: str) -> dict:
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.extractors import Trafilatura
    from datatrove.pipeline.readers import WarcReader
    from datatrove.pipeline.writers.jsonl import JsonlWriter

    shutil.rmtree(out, ignore_errors=True)
    started = time.perf_counter()
    LocalPipelineExecutor(
        pipeline=[
            WarcReader(str(folder), glob_pattern="*.warc.gz"),
            Trafilatura(favour_precision=focus == "precision", timeout=5.0, deduplicate=False),
            JsonlWriter(str(out / "texts")),
        ],
        tasks=workers,
        workers=workers,
        logging_dir=str(out / "logs"),
    ).run()
    seconds = time.perf_counter() - started
    stats = json.loads((out / "logs" / "stats.json").read_text())
    written = next(s for s in stats if "Writer" in s["name"] or "Jsonl" in s["name"])["stats"]["total"]
    docs = written["total"] if isinstance(written, dict) else written
    return {"seconds": seconds, "docs": docs, "trafilatura": version("trafilatura"), "datatrove": version("datatrove")}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
