"""datatrove's buckets and cluster stages over given band keys: KEYS.npy FOLDER. CPU seconds and documents removed."""

import json
import sys
import time
from pathlib import Path

import numpy as np
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupBuckets, MinhashDedupCluster
from datatrove.utils.logging import logger


def write_signatures(keys: np.ndarray, folder: Path) -> None:
    """Files as its first stage leaves them: a band's eight values (the key, then zeros) and the document, sorted."""
    for band, values in enumerate(keys):
        rows = np.zeros(len(values), [(f"f{i}", "<u8") for i in range(8)] + [("doc", "<u4")])
        rows["f0"] = values >> np.uint64(4)  # its values stay under 2^61 - 1
        rows["doc"] = np.arange(len(values))
        rows.sort(order=rows.dtype.names)
        path = folder / "signatures" / f"bucket_{band:03d}" / "00000.minhash.sig"
        path.parent.mkdir(parents=True)
        path.write_bytes(rows.tobytes())


def main() -> None:
    logger.remove()
    keys, folder = np.load(sys.argv[1]), Path(sys.argv[2])
    write_signatures(keys, folder)
    config = MinhashConfig()
    begun = time.process_time()
    step = MinhashDedupBuckets(str(folder / "signatures"), str(folder / "pairs"), config=config, lines_to_buffer=1000)
    for band in range(len(keys)):
        step.run(None, band, len(keys))
    MinhashDedupCluster(str(folder / "pairs"), str(folder / "removed"), config=config).run(None, 0, 1)
    spent = time.process_time() - begun
    removed = sum(p.stat().st_size for p in (folder / "removed").rglob("*.remove")) // 4
    print(json.dumps({"cpu_s": spent, "removed": removed}))


if __name__ == "__main__":
    main()
