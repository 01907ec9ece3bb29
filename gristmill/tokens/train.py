"""A small byte-level BPE tokenizer from texts, for the demonstration.

Belongs here: training only. Does not belong here: loading and encoding (``tokenizer.py``).
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

EOS = "<|endoftext|>"
BOS = "<|startoftext|>"


def train_bpe(texts: Iterable[str], vocab_size: int = 8192, out: str | Path = "tokenizer.json") -> str:
    """Train byte-level BPE and write ``tokenizer.json``; return its sha256 (hex).

    The same texts in the same order give the same file: the trainer breaks ties by token ids, and counts are exact.
    Fewer texts than the vocabulary needs give a smaller vocabulary.

    Args:
        texts: training texts.
        vocab_size: entries wanted, the 256 bytes and two control tokens included.
        out: file to write; its folder is made.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        special_tokens=[EOS, BOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    model.train_from_iterator(texts, trainer)
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = model.to_str(pretty=False).encode("utf-8")
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()
