"""Tokenizers: a pinned file, a reference engine, a fast engine where it is exact, and a fingerprint of behaviour.

Belongs here: loading Hugging Face ``tokenizer.json`` and tiktoken rank files, encoding a batch to flat arrays, the
check of the fast engine against the reference, and what the tokenizer does to a fixed list of probes. Does not belong
here: training one (``train.py``), which text is encoded (``release_text.py``), BOS/EOS placement in shards
(``stages.py``).

Text is only ever data: a control token spelt out in a page ("<|endoftext|>") is encoded as ordinary characters.
"""

import base64
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.errors import ModelError, ParameterError
from gristmill.fingerprint import digest

LOG = logging.getLogger(__name__)

# What differs between library versions of one tokenizer file has been the pre-tokenizer (contractions, digits, runs of
# spaces, line ends), the normaliser (composed and decomposed accents), added tokens, and bytes outside the vocabulary.
PROBES: tuple[str, ...] = (
    "",
    "Hello world",
    " Hello  world   ",
    "I'm, you're; we'LL don't",
    "0 12 345 6789 3.14159 1,000,000",
    "\n\n  line one\r\n\tline two\n\n\n",
    "caf\u00e9 cafe\u0301 na\u00efve \u212b \ufb01",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3001\u4e2d\u6587\u6587\u672c",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea \u0939\u093f\u0928\u094d\u0926\u0940",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd",
    "<|endoftext|><s></s>[INST]<|im_start|>",
    "def f(x):\n    return x**2  # squared\n",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "\u0000\ufeff\u00ad\u200b\ud7ff\ue000\uffff",
)


@dataclass(frozen=True)
class Encoded:
    """A batch of texts as flat ids: text ``i`` is ``ids[offsets[i]:offsets[i + 1]]``."""

    ids: np.ndarray  # uint32
    offsets: np.ndarray  # uint64, one more than texts


@dataclass
class EngineCheck:
    """What the comparison of the fast engine with the reference on a sample said."""

    sampled: int = 0
    mismatches: int = 0
    first: str | None = None  # the first differing text's head, for the log


@dataclass
class Tokenizer:
    """One tokenizer file, by hash.

    Attributes:
        name, sha256: as pinned.
        vocab_size: ids are below it, added tokens included.
        bos_id, eos_id: ids of the named control tokens, None where none is named.
    """

    name: str
    sha256: str
    vocab_size: int
    bos_id: int | None
    eos_id: int | None
    _reference: Callable[[Sequence[str]], Encoded]
    _fast: Callable[[Sequence[str]], Encoded] | None
    use_fast: bool = field(default=True)
    refused: int = 0  # texts that the fast engine would not take and the reference encoded

    @property
    def engine(self) -> str:
        """``fast`` or ``reference``: which one ``encode`` uses now."""
        return "fast" if self.use_fast and self._fast is not None else "reference"

    def reference(self, texts: Sequence[str]) -> Encoded:
        """Ids by the reference library (tokenizers or tiktoken), whatever the state of the fast engine."""
        return self._reference(texts)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Ids without BOS or EOS, texts taken as data throughout. By the fast engine while that has been exact."""
        if self.use_fast and self._fast is not None:
            return self._fast_or_reference(self._fast, texts)
        return self._reference(texts)

    def _fast_or_reference(self, fast: Callable[[Sequence[str]], Encoded], texts: Sequence[str]) -> Encoded:
        """The fast engine's ids; a text that it refuses (a byte outside the vocabulary) goes to the reference, counted.

        The reference drops such bytes, or writes the unknown token, as the file says: that is what exact means.
        """
        try:
            return fast(texts)
        except (ValueError, RuntimeError) as error:
            if len(texts) == 1:
                self.refused += 1
                LOG.info("tokenizer %s: the fast engine refuses a text (%s); the reference takes it", self.name, error)
                return self._reference(texts)
        middle = len(texts) // 2
        left = self._fast_or_reference(fast, texts[:middle])
        right = self._fast_or_reference(fast, texts[middle:])
        offsets = np.concatenate([left.offsets, right.offsets[1:] + left.offsets[-1]])
        return Encoded(np.concatenate([left.ids, right.ids]), offsets)

    def check(self, sample: Sequence[str]) -> EngineCheck:
        """Compare the engines on a sample; one difference turns the fast one off, loudly.

        Returns what was found; the caller reports ``mismatches``. The probes are always part of the sample.
        """
        out = EngineCheck(sampled=len(sample))
        if self._fast is None:
            return out
        texts = [*PROBES, *sample]
        want = self._reference(texts)
        got = self._fast_or_reference(self._fast, texts)
        for i, text in enumerate(texts):
            a = want.ids[int(want.offsets[i]) : int(want.offsets[i + 1])]
            b = got.ids[int(got.offsets[i]) : int(got.offsets[i + 1])]
            if not np.array_equal(a, b):
                out.mismatches += 1
                out.first = out.first or text[:80]
        if out.mismatches:
            self.use_fast = False
            LOG.warning(
                "tokenizer %s: the fast engine differs from the reference on %d of %d texts (first: %r); the reference "
                "is used, about 20 times slower",
                self.name,
                out.mismatches,
                len(texts),
                out.first,
            )
        return out

    def behaviour(self) -> dict[str, Any]:
        """Probe strings and their ids by the reference, and a sha256 over both: stands in the manifest.

        By the reference, since that is what shards hold, whichever engine wrote them (``check``). The same file has
        been loaded with another pre-tokenizer by another library version (open-instruct#1896), so the file's hash alone
        does not say what it does.
        """
        encoded = self._reference(PROBES)
        probes = [
            [text, encoded.ids[int(encoded.offsets[i]) : int(encoded.offsets[i + 1])].tolist()]
            for i, text in enumerate(PROBES)
        ]
        return {"probes": probes, "sha256": digest(probes)}

    def describe(self) -> dict[str, Any]:
        """The manifest's ``tokenizer`` field."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "vocab_size": self.vocab_size,
            "bos_id": self.bos_id,
            "eos_id": self.eos_id,
            "behaviour": self.behaviour(),
        }


def flatten(lists: Iterable[Sequence[int]]) -> Encoded:
    """Lists of ids as one flat batch."""
    arrays = [np.asarray(ids, np.uint32) for ids in lists]
    offsets = np.zeros(len(arrays) + 1, np.uint64)
    np.cumsum([len(a) for a in arrays], out=offsets[1:])
    return Encoded(np.concatenate(arrays) if arrays else np.zeros(0, np.uint32), offsets)


def load(
    path: Path,
    *,
    name: str,
    sha256: str,
    bos_token: str | None = None,
    eos_token: str | None = None,
    pattern: str | None = None,
    special_tokens: Mapping[str, int] | None = None,
) -> Tokenizer:
    """Load a tokenizer file whose bytes must have the pinned sha256.

    Args:
        path: Hugging Face ``tokenizer.json``, or a tiktoken rank file (``base64 rank`` lines).
        name: for messages and the manifest.
        sha256: hex digest of the file.
        bos_token, eos_token: spelling of the control tokens; None where the tokenizer has none.
        pattern: tiktoken only: the pre-tokenizer's regular expression, which a rank file does not hold.
        special_tokens: tiktoken only: control tokens and ids, which a rank file does not hold either.

    Raises:
        ModelError: other bytes than pinned, or a file of neither kind.
        ParameterError: a named control token that the tokenizer does not have; a tiktoken file without pattern.
    """
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ModelError(
            f"tokenizer {name}: {path} has sha256 {found}, pinned is {sha256}: restore the file or pin it anew"
        )
    if data.lstrip()[:1] == b"{":
        return _huggingface(data, name, sha256, bos_token, eos_token)
    return _tiktoken(data, path, name, sha256, bos_token, eos_token, pattern, special_tokens or {})


def _huggingface(data: bytes, name: str, sha256: str, bos_token: str | None, eos_token: str | None) -> Tokenizer:
    import tokenizers

    text = data.decode("utf-8")
    try:
        model = tokenizers.Tokenizer.from_str(text)
    except Exception as error:
        raise ModelError(f"tokenizer {name} is JSON but no tokenizer.json: {error}") from error
    model.no_truncation()  # a file saved after use may carry both, and would cut documents silently
    model.no_padding()
    model.encode_special_tokens = True

    def reference(texts: Sequence[str]) -> Encoded:
        return flatten(e.ids for e in model.encode_batch_fast(list(texts), add_special_tokens=False))

    return Tokenizer(
        name,
        sha256,
        model.get_vocab_size(with_added_tokens=True),
        _control(name, "bos_token", bos_token, model.token_to_id),
        _control(name, "eos_token", eos_token, model.token_to_id),
        reference,
        _fast_huggingface(name, text),
    )


def _fast_huggingface(name: str, text: str) -> Callable[[Sequence[str]], Encoded] | None:
    import fastokens

    config = json.loads(text)
    config["truncation"] = config["padding"] = None
    try:
        engine = fastokens.Tokenizer.from_json_str(json.dumps(config))
    except (ValueError, RuntimeError, TypeError) as error:
        LOG.warning("tokenizer %s: the fast engine cannot load it (%s); the reference is used", name, error)
        return None
    return _flat(engine)


def _flat(engine: Any) -> Callable[[Sequence[str]], Encoded]:
    def encode(texts: Sequence[str]) -> Encoded:
        ids, offsets = engine.encode_batch_flat(list(texts), False, True)
        return Encoded(np.frombuffer(ids, "<u4"), np.frombuffer(offsets, "<u8"))

    return encode


def _tiktoken(
    data: bytes,
    path: Path,
    name: str,
    sha256: str,
    bos_token: str | None,
    eos_token: str | None,
    pattern: str | None,
    special_tokens: Mapping[str, int],
) -> Tokenizer:
    import fastokens
    import tiktoken

    if pattern is None:
        raise ParameterError(
            f"tokenizer {name}: this is no tokenizer.json, and a tiktoken file holds ranks only: give its regular "
            "expression and control tokens too (tokenize.pattern and tokenize.special_tokens in the parameter file; "
            "`gristmill init` takes --pattern and --special-token)"
        )
    try:
        ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in data.splitlines() if line)}
    except ValueError as error:
        raise ModelError(f"tokenizer {name}: {path} is neither tokenizer.json nor a tiktoken file: {error}") from error
    specials = dict(special_tokens)
    model = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=specials)

    def reference(texts: Sequence[str]) -> Encoded:
        return flatten(model.encode_ordinary(t) for t in texts)

    fast: Callable[[Sequence[str]], Encoded] | None = None
    try:
        fast = _flat(fastokens.Tokenizer.from_tiktoken(str(path), pattern=pattern, special_tokens=specials))
    except (ValueError, RuntimeError, TypeError) as error:
        LOG.warning("tokenizer %s: the fast engine cannot load it (%s); the reference is used", name, error)
    return Tokenizer(
        name,
        sha256,
        max([*ranks.values(), *specials.values()]) + 1,
        _control(name, "bos_token", bos_token, specials.get),
        _control(name, "eos_token", eos_token, specials.get),
        reference,
        fast,
    )


def _control(name: str, which: str, token: str | None, lookup: Callable[[str], int | None]) -> int | None:
    if token is None:
        return None
    found = lookup(token)
    if found is None:
        raise ParameterError(
            f"tokenize.{which}: tokenizer {name} has no token {token!r}; name one that it has, or null"
        )
    return int(found)
