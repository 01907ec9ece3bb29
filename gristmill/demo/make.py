"""``gristmill demo make``: the demo crawl, its truth, hold-outs, tokenizer, classifier and parameter file.

Belongs here: the order of things, the files and their names, and not doing again what is done. Does not belong here:
what is planted (``plants.py``, ``hostile.py``) and how models are trained (their own folders).

Everything is made on this machine, without a network, from texts that every machine with this Python has; two makes
give the same bytes, and the second rewrites nothing.
"""

import hashlib
import json
import platform
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from gristmill import models
from gristmill.acquire import holdout
from gristmill.demo import hostile, plants
from gristmill.demo.crawl import CUTOFF, SPRING, WINTER, Builder
from gristmill.demo.truth import FILE, DemoTruth, read_truth
from gristmill.demo.warc import listing
from gristmill.fingerprint import canonical_json, digest
from gristmill.params import ModelRef

CRAWLS = (WINTER, SPRING)
PAGES = 500
STATE = "demo.json"
PIPELINE, RECIPE = "pipeline.yaml", "recipe.yaml"
LANDING, HOLDOUT, MODELS, BENCHMARKS = "landing", "holdout", "models", "benchmarks"
VOCABULARY = 8192
SEQ_LEN = 256
TRAP_URLS = 50
# Everything below decides bytes of the demo, besides this package's own source.
DEPENDS = ("numpy", "scipy", "scikit-learn", "pyarrow", "babel", "tokenizers", "fasttext-numpy2", "blake3", "xxhash")
SOURCES = (
    "tokens/train.py",
    "quality/fasttext_classifier.py",
    "quality/quantiles.py",
    "acquire/holdout.py",
    "models.py",
)
STEPS: tuple[Callable[[Builder], None], ...] = (
    plants.ordinary,
    plants.copies,
    plants.near_copies,
    plants.template_farm,
    plants.languages,
    plants.personal_data,
    plants.leaks,
    plants.opted_out,
    plants.revisits,
    hostile.mojibake,
    hostile.hidden,
    hostile.oversized,
    hostile.slow,
    hostile.not_pages,
    hostile.degenerate,
    hostile.damaged,
    hostile.trap,
    plants.held_out,
)


CONFIG = (PIPELINE, RECIPE)  # a person's to change once they are there


def make_demo(out: str | Path, pages: int = PAGES) -> DemoTruth:
    """Make the demo under a folder, or find that it is there.

    Args:
        out: folder; ``landing``, ``holdout``, ``models``, ``benchmarks``, ``pipeline.yaml``, ``recipe.yaml``,
            ``truth.json`` and ``demo.json`` are made in it.
        pages: ordinary pages; from 300 on the full set of plants is added (about 800 fetches at 500), under it a
            small one.

    Returns:
        The truth, and in ``written`` and ``untouched`` which files this call wrote and which it found as they must be.

    Raises:
        GristmillError: this Python holds too little text.
    """
    folder = Path(out)
    key = _key(pages)
    done = _state(folder)
    if done.get("key") == key and all(
        (folder / name).exists() if name in CONFIG else _sha256(folder / name) == sha
        for name, sha in done["files"].items()
    ):
        truth = read_truth(folder)
        truth.untouched = sorted(done["files"])
        return truth
    builder = Builder(pages)
    for step in STEPS:
        step(builder)
    files = _landing(builder)
    truth = builder.truth
    files |= _benchmarks(truth)
    files[FILE] = truth.to_bytes()
    written = [name for name, data in sorted(files.items()) if _write(folder / name, data)]
    root = f"{HOLDOUT}/{digest(truth.benchmarks)[:12]}"  # write-once: other benchmarks are another hold-out
    before = _files(folder, root, MODELS)
    pins = _pins(folder, builder, root)
    config = {PIPELINE: _pipeline(pins, root), RECIPE: _recipe(pages, truth)}
    written += [name for name, data in config.items() if _write_config(folder, name, data, done.get("files", {}))]
    made = {name: hashlib.sha256(data).hexdigest() for name, data in {**files, **config}.items()}
    pinned = _files(folder, root, MODELS)
    written += sorted(set(pinned) - set(before))
    made |= pinned
    for name in sorted(set(done.get("files", {})) - set(made)):
        if name.startswith(f"{LANDING}/"):  # of a demo of another size; hold-outs and models stay, by their hash
            (folder / name).unlink(missing_ok=True)
    _write(folder / STATE, canonical_json({"key": key, "pages": pages, "files": made}) + b"\n")
    truth.written = sorted(written)
    truth.untouched = sorted(set(made) - set(written))
    return truth


def _write_config(folder: Path, name: str, data: bytes, before: dict[str, str]) -> bool:
    """Write a parameter file, unless a person has changed the one that is there; says whether anything was written.

    A changed file stays while what we would write is what we wrote then. Otherwise its hashes would no longer fit: it
    is kept beside the new one, as ``NAME.edited``.
    """
    found, ours = _sha256(folder / name), before.get(name)
    if found is None or found == ours or ours is None:
        return _write(folder / name, data)
    if hashlib.sha256(data).hexdigest() == ours:
        return False
    (folder / name).replace(folder / f"{name}.edited")
    return _write(folder / name, data)


def summary(truth: DemoTruth, out: str | Path) -> str:
    """What ``gristmill demo make`` prints."""
    fetches = sum(c["fetches"] for c in truth.crawls.values())
    kinds = sum(len(v) for v in truth.plants.values())
    what = f"{fetches} fetches in {len(truth.crawls)} crawls ({', '.join(truth.crawls)}), {kinds} things planted"
    if not truth.written:
        return f"{out}: nothing changed, nothing written; {what}"
    return f"{out}: {len(truth.written)} files written, {len(truth.untouched)} untouched; {what}"


def _landing(builder: Builder) -> dict[str, bytes]:
    """WARC files and listings, with a WET file in the first crawl's."""
    files = builder.files()
    truth = builder.truth
    name, data = hostile.refused(builder, WINTER, files)
    listed = truth.crawls[WINTER]["listed"] = [*truth.crawls[WINTER]["files"], name]
    files |= {name: data, f"crawl-data/{WINTER}/warc.paths.gz": listing(listed)}
    for plant in truth.plants["damaged_member"]:
        plant["file"] = builder.file_of(plant["page"])
    return {f"{LANDING}/{path}": content for path, content in files.items()}


def _benchmarks(truth: DemoTruth) -> dict[str, bytes]:
    """The benchmarks as JSON lines, as somebody would download them."""
    out: dict[str, bytes] = {}
    for item in truth.benchmarks:
        line = {k: v for k, v in item.items() if k != "benchmark"}
        name = f"{BENCHMARKS}/{item['benchmark']}.jsonl"
        out[name] = out.get(name, b"") + json.dumps(line, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    return out


def _pins(folder: Path, builder: Builder, root: str) -> dict[str, Any]:
    """Freeze the hold-outs and train the models; the hashes that parameters must name."""
    from gristmill.quality.fasttext_classifier import Classifier, train_demo
    from gristmill.quality.quantiles import ANY, freeze, write
    from gristmill.tokens.train import train_bpe

    names = sorted({b["benchmark"] for b in builder.truth.benchmarks})
    frozen = holdout.freeze(
        str(folder / root),
        {n: folder / BENCHMARKS / f"{n}.jsonl" for n in names},
        {"item": "id", "question": "question", "answer": "answer"},
    )
    texts = {f["name"]: f for f in builder.truth.fetches if f["text"]}
    ordinary = [f for name, f in texts.items() if name.startswith("page-")]
    good = [f["text"] for f in ordinary if f["template"] in ("article", "docs", "wiki")]
    bad = [f["text"] for f in ordinary if f["template"] in ("forum", "listing", "product")]
    others = [f["text"] for f in texts.values() if f["lang"] not in ("eng", "und")]
    with tempfile.TemporaryDirectory() as place:
        tokenizer, classifier = Path(place, "demo-bpe.json"), Path(place, "demo-quality.bin")
        train_bpe([*good, *bad, *others], VOCABULARY, tokenizer)
        train_demo(good, bad, classifier)
        scores = Classifier(classifier).score([f["text"] for f in texts.values()])
        by_lang: dict[str, list[float]] = {}
        for fetch, score in zip(texts.values(), scores.tolist()):
            by_lang.setdefault(fetch["lang"], []).append(score)
        reference = freeze({("classifier", lang, ANY): np.array(values) for lang, values in sorted(by_lang.items())})
        quantiles = write(reference, Path(place, "demo-quantiles.json"))
        return {
            "holdout": frozen,
            "tokenizer": models.put(tokenizer, folder / MODELS),
            "classifier": models.put(classifier, folder / MODELS),
            "quantiles": models.put(quantiles, folder / MODELS),
        }


def _pipeline(pins: Mapping[str, Any], root: str) -> bytes:
    """The parameter file: small bounds, because the crawls are small."""

    def ref(model: ModelRef) -> dict[str, str]:
        return {"name": model.name, "sha256": model.sha256}

    data = {
        "site": {"store": "store", "landing": LANDING, "holdout": root, "models": MODELS, "recipe": RECIPE},
        "params": {
            "grid": {"host_buckets": 4, "parts_per_bucket": 4},
            "unique": {"time_forward_after": CUTOFF.date().isoformat(), "trap_min_urls": TRAP_URLS},
            "extract": {"holdout_hash": pins["holdout"]},
            "lines": {"min_docs": plants.LINE_BOUND},
            "quality": {"classifier": ref(pins["classifier"]), "quantiles": ref(pins["quantiles"])},
            "tokenize": {"tokenizer": ref(pins["tokenizer"]), "shard_tokens": 50_000},
            "observe": {"baseline": "demo"},
        },
    }
    note = "# Made by `gristmill demo make`; hashes are of the hold-outs and models made with it.\n"
    return note.encode() + yaml.safe_dump(data, sort_keys=False, allow_unicode=True).encode()


def _recipe(pages: int, truth: DemoTruth) -> bytes:
    """Two sources, two phases, few tokens; and a policy that leaves out the host that intake calls a trap."""
    data: dict[str, Any] = {
        "name": "demo",
        "seed": 7,
        "sources": {"english": {"where": "lang = 'eng'"}, "other": {"where": "lang != 'eng'"}},
        "phases": [
            {
                "name": "main",
                "tokens": pages * 480 // SEQ_LEN // 8 * SEQ_LEN * 8,
                "seq_len": SEQ_LEN,
                "samples_per_step": 8,
                "weights": {"english": "0.8", "other": "0.2"},
            },
            {
                "name": "anneal",
                "tokens": pages * 120 // SEQ_LEN // 8 * SEQ_LEN * 8,
                "seq_len": SEQ_LEN,
                "samples_per_step": 8,
                "weights": {"english": "0.9", "other": "0.1"},
            },
        ],
    }
    data["policy"] = {"traps": [plant["host"] for plant in truth.plants["trap"]]}
    return yaml.safe_dump(data, sort_keys=False).encode()


def _key(pages: int) -> str:
    """A hash of all that decides the demo's bytes."""
    library = Path(__file__).parents[1]
    sources = [*sorted(Path(__file__).parent.glob("*.py")), *(library / s for s in SOURCES)]
    return digest(
        {
            "pages": pages,
            "python": platform.python_version(),
            "packages": {name: _version(name) for name in DEPENDS},
            "sources": {s.relative_to(library).as_posix(): hashlib.sha256(s.read_bytes()).hexdigest() for s in sources},
        }
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _state(folder: Path) -> dict[str, Any]:
    try:
        data = json.loads((folder / STATE).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return data if isinstance(data, dict) and isinstance(data.get("files"), dict) else {}


def _sha256(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except (FileNotFoundError, IsADirectoryError):
        return None


def _files(folder: Path, *below: str) -> dict[str, str]:
    """Path -> sha256 of all files in some of the demo's folders."""
    found = [p for place in below for p in (folder / place).rglob("*") if p.is_file()]
    return {p.relative_to(folder).as_posix(): _sha256(p) or "" for p in sorted(found)}


def _write(file: Path, data: bytes) -> bool:
    """Write aside and move in, unless the file is so already."""
    if _sha256(file) == hashlib.sha256(data).hexdigest():
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f".{file.name}.new")
    aside.write_bytes(data)
    aside.replace(file)
    return True
