import gzip
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from gristmill import models
from gristmill.errors import ModelError, ParameterError
from gristmill.tokens import tokenizer as lib
from gristmill.tokens.train import train_bpe

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "05_tokenizers"
TEXTS = [
    "The quick brown fox's 123 tails.",
    "  two  spaces\n\n\ttab",
    "na\u00efve caf\u00e9 e\u0301",
    "\u65e5\u672c\u8a9e text",
    "\U0001f44d\U0001f3fd ok",
    "<|endoftext|> is only text",
    "",
    " ",
    "a" * 500,
    "x\r\ny\r\n",
]


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("tok") / "t.json"
    words = "mill grain flour stone wheel water river bread oven baker 123 4567 don't can't".split()  # noqa: SIM905
    rng = random.Random(3)
    return path, train_bpe([" ".join(rng.choices(words, k=50)) for _ in range(300)], 400, path)


def load(small, **given) -> lib.Tokenizer:
    path, sha = small
    return lib.load(path, name="t.json", sha256=sha, **{"eos_token": "<|endoftext|>", **given})


def ids_of(encoded: lib.Encoded) -> list[list[int]]:
    return [encoded.ids[int(a) : int(b)].tolist() for a, b in zip(encoded.offsets, encoded.offsets[1:])]


def fuzzed(n: int, seed: int) -> list[str]:
    """Strings over everything that has tripped tokenizers: controls, joiners, planes, runs, special-token spellings."""
    rng = random.Random(seed)
    pools = [
        "abcdefghijklmnop '",
        "0123456789.,",
        " \t\n\r\u00a0\u2003\u3000",
        "\u0300\u0301\u200d\u200b\ufeff\u00ad",
        "\u65e5\u672c\u4e2d\u6587\u0627\u0628\u05d0\u0915\u0e01\uac00",
        "\U0001f600\U0001f468\U0001f3fd\U00020000",
        "'s'll'RE<|endoftext|>[INST]",
        '{}()[];:=+-*/\\"`~!@#$%^&',
        "\x00\x01\x1f\x7f\ufffd\uffff",
    ]
    out = []
    for _ in range(n):
        text = ""
        for _ in range(rng.randint(0, 12)):
            pool = rng.choice(pools)
            text += (
                rng.choice(pool) * rng.choice([1, 1, 1, 2, 7])
                if rng.random() < 0.5
                else "".join(rng.choices(pool, k=rng.randint(1, 6)))
            )
        if rng.random() < 0.1:
            text += chr(
                rng.choice([rng.randint(0x80, 0xD7FF), rng.randint(0xE000, 0xFFFF), rng.randint(0x10000, 0x10FFFF)])
            )
        out.append(text)
    return out


def test_both_engines_agree_with_the_tokenizers_library_and_take_text_as_data(small):
    tok = load(small)
    plain = tokenizers.Tokenizer.from_file(str(small[0]))
    plain.encode_special_tokens = True
    want = [plain.encode(t, add_special_tokens=False).ids for t in TEXTS]
    assert ids_of(tok.encode(TEXTS)) == want == ids_of(tok.reference(TEXTS))
    assert tok.engine == "fast"
    assert tok.eos_id not in want[5], "a control token spelt in a page must stay characters"


def test_engines_agree_on_fuzzed_strings(small):
    tok = load(small)
    texts = fuzzed(20_000, 11)
    fast, reference = tok.encode(texts), tok.reference(texts)
    assert np.array_equal(fast.offsets, reference.offsets)
    assert np.array_equal(fast.ids, reference.ids)


def test_truncation_and_padding_saved_in_the_file_do_not_cut_documents(small, tmp_path):
    model = tokenizers.Tokenizer.from_file(str(small[0]))
    model.enable_truncation(8)
    model.enable_padding(length=16)
    path = tmp_path / "used.json"
    model.save(str(path))
    tok = lib.load(path, name="used", sha256=models.sha256_of(path))
    long = "river " * 100
    for encoded in (tok.encode([long, "a"]), tok.reference([long, "a"])):
        assert len(ids_of(encoded)[0]) > 90
        assert len(ids_of(encoded)[1]) < 16


def test_another_file_than_pinned_is_refused(small, tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(small[0].read_bytes().replace(b"river", b"rivet"))
    with pytest.raises(ModelError, match="pinned"):
        lib.load(path, name="t", sha256=small[1])


def test_a_control_token_that_is_not_there_is_named(small):
    with pytest.raises(ParameterError, match="</s>"):
        load(small, bos_token="</s>")


def test_junk_is_neither_kind_of_file(tmp_path):
    for content in (b"{}", b"not a tokenizer\n"):
        path = tmp_path / "x"
        path.write_bytes(content)
        with pytest.raises(ModelError):
            lib.load(path, name="x", sha256=models.sha256_of(path), pattern="x", special_tokens={})


def test_a_fast_engine_that_differs_is_dropped_loudly(small, caplog):
    tok = load(small)
    exact = tok._fast

    text = "Hello world"
    head = int(tok.reference([text]).ids[0])

    def wrong(texts):
        got = exact(texts)
        return lib.Encoded(np.where(got.ids == head, head + 1, got.ids).astype(np.uint32), got.offsets)

    tok._fast = wrong
    assert tok.behaviour() == load(small).behaviour(), "the manifest says what the shards hold"
    found = tok.check([text])
    assert found.mismatches >= 1
    assert tok.engine == "reference"
    assert "differs from the reference" in caplog.text
    assert ids_of(tok.encode([text])) == ids_of(tok.reference([text]))


def test_an_exact_fast_engine_stays(small):
    tok = load(small)
    assert tok.check(TEXTS).mismatches == 0
    assert tok.engine == "fast"


def test_behaviour_changes_with_the_pretokenizer_while_the_vocabulary_does_not(small, tmp_path):
    """What happened with one file under two library versions (open-instruct#1896): same ids, other splits."""
    config = json.loads(small[0].read_text())
    config["pre_tokenizer"]["add_prefix_space"] = True
    path = tmp_path / "t.json"
    path.write_text(json.dumps(config))
    a, b = load(small), lib.load(path, name="t.json", sha256=models.sha256_of(path), eos_token="<|endoftext|>")
    assert a.vocab_size == b.vocab_size
    assert a.behaviour()["sha256"] != b.behaviour()["sha256"]
    assert a.behaviour() == load(small).behaviour()
    assert a.describe()["behaviour"]["probes"][1][0] == "Hello world"


def test_training_twice_gives_the_same_file(tmp_path):
    texts = [f"some text about mill number {i} and its {i % 7} wheels" for i in range(500)]
    a, b = train_bpe(texts, 500, tmp_path / "a.json"), train_bpe(iter(texts), 500, tmp_path / "b.json")
    assert a == b
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    tok = lib.load(tmp_path / "a.json", name="a", sha256=a, bos_token="<|startoftext|>", eos_token="<|endoftext|>")
    assert (tok.eos_id, tok.bos_id) == (0, 1)
    assert tok.vocab_size <= 500
    # Byte-level: every byte is in the vocabulary, so no text is out of it.
    assert len(tok.encode(["\u2603\x00"]).ids) > 0


def cl100k(monkeypatch) -> tuple[str, dict[str, int]]:
    """The published pattern and control tokens, as the installed tiktoken has them, without its download."""
    module = sys.modules.get("tiktoken_ext.openai_public") or __import__("tiktoken_ext.openai_public", fromlist=["x"])
    monkeypatch.setattr(module, "load_tiktoken_bpe", lambda *a, **k: {})
    spec = module.cl100k_base()
    return spec["pat_str"], spec["special_tokens"]


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real tokenizers (../shared) are not on this machine")
def test_cl100k_from_its_rank_file(tmp_path, monkeypatch):
    path = tmp_path / "cl100k_base.tiktoken"
    path.write_bytes(gzip.decompress((SHARED / "cl100k_base.tiktoken.gz").read_bytes()))
    pattern, specials = cl100k(monkeypatch)
    sha = models.sha256_of(path)
    with pytest.raises(ParameterError, match="pattern"):
        lib.load(path, name="cl100k", sha256=sha)
    tok = lib.load(path, name="cl100k", sha256=sha, eos_token="<|endoftext|>", pattern=pattern, special_tokens=specials)
    assert (tok.eos_id, tok.vocab_size) == (100257, 100277)
    # Well-known ids of this encoding.
    assert ids_of(tok.encode(["hello world"])) == [[15339, 1917]]
    texts = [*TEXTS, *fuzzed(3000, 5)]
    assert ids_of(tok.encode(texts)) == ids_of(tok.reference(texts))
    assert tok.check(texts).mismatches == 0


def test_bytes_outside_the_vocabulary_go_to_the_reference_alone(small, tmp_path):
    """The fast engine refuses a whole batch for one such byte; the reference drops the byte."""
    config = json.loads(small[0].read_text())
    vocabulary = config["model"]["vocab"]
    vocabulary["unused"] = vocabulary.pop("\u00f2")  # how byte-level BPE spells byte 0xf2
    path = tmp_path / "t.json"
    path.write_text(json.dumps(config))
    tok = lib.load(path, name="t.json", sha256=models.sha256_of(path))
    texts = ["river", "a \U00080000 b", "mill \U000a1234", "stone"] * 3
    assert ids_of(tok.encode(texts)) == ids_of(tok.reference(texts))
    assert tok.refused == 6
    assert tok.check(texts).mismatches == 0


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real tokenizers (../shared) are not on this machine")
@pytest.mark.parametrize("seed", [1, 2])
def test_smollm2_on_fuzzed_strings(seed):
    path = SHARED / "smollm2" / "tokenizer.json"
    tok = lib.load(
        path, name="smollm2", sha256=models.sha256_of(path), eos_token="<|endoftext|>", bos_token="<|im_start|>"
    )
    texts = [*TEXTS, *fuzzed(10_000, seed)]
    fast, reference = tok.encode(texts), tok.reference(texts)
    assert np.array_equal(fast.offsets, reference.offsets)
    assert np.array_equal(fast.ids, reference.ids)
