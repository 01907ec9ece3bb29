"""The encoder classifier on one CPU core: batches by length beside fixed batches, and who waits for whom.

``python -m bench.quality_encoder`` (``--small`` for fewer texts). Times are CPU time of one thread for the model;
tokenising is measured as texts a second of one core beside the model's texts a second of one core. Texts are real
pages of ``../shared`` where they are, each also cut into its paragraphs (pages alone are mostly longer than the
encoder reads, and then nothing is padded either way), else documentation.
"""

import argparse
import random
import time

import numpy as np

from bench.heuristics import pages
from bench.report import Report
from bench.texts import paragraphs
from gristmill.embed.embedding import embed, padded
from gristmill.embed.engines import open_engine
from gristmill.quality.encoder import ENCODER, FIRST_CHARS

FIXED = 32  # rows of a fixed batch: sentence-transformers' and most libraries' default


def corpora(small: bool) -> dict[str, list[str]]:
    """Name -> texts in a random order, as a crawl gives them."""
    rng = random.Random(1)
    real = pages(600)
    out = {}
    if real:
        pieces = [p for text in real for p in text.split("\n") if p.strip()]
        # documents as a web crawl's are after deduplication: short ones are many, long ones carry the tokens
        short = rng.sample(pieces, min(len(pieces), 3 * len(real)))
        out["real pages and their paragraphs"] = [*real, *short]
        out["real pages"] = real
    else:
        out["documentation"] = paragraphs()[:2000]
    size = 64 if small else 512
    return {name: rng.sample(texts, min(size // 4 if name == "real pages" else size, len(texts)))
            for name, texts in out.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    report = Report("quality_encoder")
    engine = open_engine(ENCODER, "models", "cpu", 1)
    for name, texts in corpora(small).items():
        cut = [t[:FIRST_CHARS] for t in texts]
        began = time.process_time()
        ids = [e.ids for e in engine.tokenizer.encode_batch(cut)]
        tokenising = time.process_time() - began
        began = time.process_time()
        vectors, stats = embed(cut, ENCODER, cache_dir="models")
        ours = time.process_time() - began - tokenising  # embed tokenises them once more
        began = time.process_time()
        theirs_padded, fixed = 0, np.empty_like(vectors)
        for start in range(0, len(ids), FIXED):
            batch = ids[start : start + FIXED]
            theirs_padded += len(batch) * max(map(len, batch))
            fixed[start : start + FIXED] = engine.run(*padded(batch, engine.pad_id))
        theirs = time.process_time() - began
        waste = 1 - stats.tokens / theirs_padded
        report.add(f"{name}: texts/s of the model, one core; theirs: fixed batches of {FIXED}", len(texts) / ours,
                   len(texts) / theirs, theirs / ours, ">= 1.5 x" if "paragraphs" in name or "doc" in name else "",
                   theirs / ours >= 1.5 if "paragraphs" in name or "doc" in name else None,
                   f"{stats.tokens / len(texts):.0f} tokens a text; vectors agree to "
                   f"{1 - (vectors * fixed).sum(axis=1).min():.1e} of cosine")
        report.add(f"{name}: padding waste", stats.padding_waste, waste, waste / max(stats.padding_waste, 1e-9))
        report.add(f"{name}: tokenising, texts/s of one core", len(texts) / tokenising, len(texts) / ours,
                   ours / tokenising, "faster than the model", tokenising < ours, "theirs: our model's texts/s; it "
                   "runs ahead in a thread, so it is a bottleneck only below 1")
    report.write()


if __name__ == "__main__":
    main()
