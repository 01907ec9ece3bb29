"""Tokenising on one core beside the reference libraries.

Each engine runs in a process of its own on text that it sees for the first time: both fast engines and tiktoken keep
pieces, so a second pass measures a cache. Ids are compared on all of it, and on fuzzed strings.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.gold import SHARED, available
from bench.report import Report

TEXT_BYTES = 12 << 20
BATCH = 256


def corpus() -> list[str]:
    """Different texts: gold pages, benchmark items, sentences where they are, then the standard library's sources."""
    out: list[str] = []
    if available():
        for path in sorted((SHARED / "02_extraction").glob("*.gold.jsonl.gz")):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                out += [t for t in (json.loads(line).get("text") for line in lines) if t]
        for path in sorted((SHARED / "06_benchmarks").glob("*.jsonl.gz")):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                out += [" ".join(str(v) for v in json.loads(line).values()) for line in lines]
        with gzip.open(SHARED / "03_langid" / "lingua_sentences.jsonl.gz", "rt", encoding="utf-8") as lines:
            rows = [
                next((v for v in json.loads(line).values() if isinstance(v, str) and len(v) > 20), "") for line in lines
            ]
        out += ["\n".join(rows[i : i + 20]) for i in range(0, len(rows), 20)]
    size = sum(len(t.encode()) for t in out)
    for path in sorted(Path(os.__file__).parent.rglob("*.py")):
        if size >= TEXT_BYTES:
            break
        text = path.read_text("utf-8", "replace")
        out.append(text)
        size += len(text.encode())
    return out


def tokenizer_file(folder: Path, texts: list[str]) -> Path:
    """A 49k vocabulary where it is, else one trained here."""
    real = SHARED / "05_tokenizers" / "smollm2" / "tokenizer.json"
    if real.exists():
        return real
    from gristmill.tokens.train import train_bpe

    train_bpe(texts[::10], 16_384, folder / "tokenizer.json")
    return folder / "tokenizer.json"


def engine(which: str, tokenizer: str, texts_file: str) -> None:
    """Run one engine over the texts on one core and print seconds of CPU and a digest of the ids."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import hashlib

    import numpy as np

    from gristmill.models import sha256_of
    from gristmill.tokens.tokenizer import load

    texts = json.loads(Path(texts_file).read_text())
    batches = [texts[i : i + BATCH] for i in range(0, len(texts), BATCH)]
    digest = hashlib.sha256()
    if which == "ours":
        tok = load(Path(tokenizer), name="bench", sha256=sha256_of(Path(tokenizer)))
        tok.encode(["warm"])
        start = time.process_time()
        found = [tok.encode(batch).ids for batch in batches]
    else:
        import tokenizers

        model = tokenizers.Tokenizer.from_file(tokenizer)
        model.encode_special_tokens = True
        model.encode_batch(["warm"])
        start = time.process_time()
        found = [[e.ids for e in model.encode_batch(batch, add_special_tokens=False)] for batch in batches]
    seconds = time.process_time() - start
    for batch in found:
        for ids in batch if which != "ours" else [batch]:
            digest.update(np.asarray(ids, "<u4").tobytes())
    print(json.dumps({"seconds": seconds, "digest": digest.hexdigest()}))


def run_engine(which: str, tokenizer: Path, texts_file: Path) -> dict[str, object]:
    """``engine`` in a fresh process whose libraries may use one thread."""
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-m", "bench.tokens", which, str(tokenizer), str(texts_file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def tokenising(report: Report) -> None:
    """Speed and exactness against ``tokenizers.encode_batch``."""
    texts = corpus()
    size = sum(len(t.encode()) for t in texts) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = tokenizer_file(Path(folder), texts)
        file = Path(folder) / "texts.json"
        file.write_text(json.dumps(texts))
        # Side by side in turns, the better of two each: the machine may be shared.
        runs = [(run_engine("ours", tokenizer, file), run_engine("theirs", tokenizer, file)) for _ in range(2)]
        ours, theirs = (min((r[i] for r in runs), key=lambda r: r["seconds"]) for i in (0, 1))
        fast, slow = size / float(ours["seconds"]), size / float(theirs["seconds"])
        report.add(
            f"tokenising, MB a CPU second, one core, {size:.0f} MB of fresh text ({tokenizer.parent.name})", fast, slow,
            fast / slow, ">= 10 x tokenizers encode_batch", fast / slow >= 10,
        )  # fmt: skip
        same = ours["digest"] == theirs["digest"]
        report.add("ids equal on all of it", "equal" if same else "differ", None, None, "equal", same)
        fuzz = fuzzed_equal(tokenizer)
        report.add("fuzzed strings with other ids, of 20,000", fuzz, 0, None, "0", fuzz == 0)


def fuzzed_equal(tokenizer: Path) -> int:
    """How many of 20,000 fuzzed strings the fast engine encodes otherwise than the reference."""
    import numpy as np

    from gristmill.models import sha256_of
    from gristmill.tokens.tokenizer import load
    from tests.tokens.test_tokenizer import fuzzed

    tok = load(tokenizer, name="bench", sha256=sha256_of(tokenizer))
    texts = fuzzed(20_000, 99)
    a, b = tok.encode(texts), tok.reference(texts)
    different = 0
    for i in range(len(texts)):
        one = a.ids[int(a.offsets[i]) : int(a.offsets[i + 1])]
        two = b.ids[int(b.offsets[i]) : int(b.offsets[i + 1])]
        different += not np.array_equal(one, two)
    return different


def main() -> None:
    """All of it."""
    report = Report("tokens")
    tokenising(report)
    report.write()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        engine(*sys.argv[1:4])
    else:
        main()
