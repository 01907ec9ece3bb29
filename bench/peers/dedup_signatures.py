"""Signatures of word 5-grams, 112 values, by another tool: TOOL TEXTS.parquet COUNT. CPU seconds of one thread."""

import json
import sys
import time

import pyarrow.parquet as pq


def datatrove(language_words: str):
    from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature

    step = MinhashDedupSignature("unused", MinhashConfig())
    if language_words == "whitespace":

        class Words:
            def word_tokenize(self, text):
                return text.split()

        step.word_tokenizer = Words()
    return lambda text: step.get_signature(step.get_shingles(text))


def rensa():
    from rensa import RMinHash

    def sign(text):
        words = text.split()
        sketch = RMinHash(num_perm=112, seed=1)
        sketch.update([" ".join(words[i : i + 5]) for i in range(max(len(words) - 4, 1))])
        return sketch.digest()

    return sign


def datasketch():
    import xxhash
    from datasketch import MinHash

    def sign(text):
        words = text.split()
        sketch = MinHash(num_perm=112, seed=1, hashfunc=xxhash.xxh32_intdigest)
        sketch.update_batch([" ".join(words[i : i + 5]).encode() for i in range(max(len(words) - 4, 1))])
        return sketch.digest()

    return sign


MAKERS = {"datatrove-whitespace": lambda: datatrove("whitespace"), "datatrove-default": lambda: datatrove("default"),
          "rensa": rensa, "datasketch": datasketch}


def main() -> None:
    tool, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    texts = pq.read_table(path)["text"].slice(0, count).to_pylist()
    sign = MAKERS[tool]()
    sign(texts[0])
    best = float("inf")
    for _ in range(3):
        begun = time.process_time()
        for text in texts:
            sign(text)
        best = min(best, time.process_time() - begun)
    print(json.dumps({"docs_per_s": len(texts) / best}))


if __name__ == "__main__":
    main()
