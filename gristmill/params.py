"""Parameters that change bytes: one frozen model a stage, read from one ``pipeline.yaml``.

Belongs here: names, reference values, where each value comes from, and their validation. Does not belong here: knobs
that change only speed (workers, batch sizes), connections, secrets.
"""

import datetime as dt
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork, ValidationError, field_validator, model_validator

from gristmill.errors import ParameterError
from gristmill.observe.paging.config import Paging
from gristmill.strict_json import require_text
from gristmill.validation import sentences


class Params(BaseModel):
    """Base: frozen, and a misspelt name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelRef(Params):
    """A model file of the registry, by name and pinned sha256 (64 hex digits)."""

    name: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class EmbedderParams(Params):
    """A sentence-embedding model: an ``.onnx`` file with its tokenizer, or a folder of sentence-transformers."""

    model: ModelRef = ModelRef(
        name="all-MiniLM-L6-v2.int8.onnx", sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
    )
    tokenizer: ModelRef | None = ModelRef(  # None: the tokenizer.json inside the folder
        name="all-MiniLM-L6-v2.tokenizer.json",
        sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    )
    pooling: Literal["mean", "cls"] = "mean"  # of an .onnx whose output is one vector a token; a folder says its own
    max_tokens: int = Field(256, ge=8)  # what is longer is cut, and counted
    prefix: str = ""  # before every text, for models trained with one ("passage: ")


class GridParams(Params):
    """The grid's static side. Frozen for the life of a store."""

    host_buckets: int = Field(64, ge=1, le=9999)  # 64 in production: see docs/decisions.md
    parts_per_bucket: int = Field(64, ge=1)


class AcquireParams(Params):
    """Reading the landing area and splitting it."""

    range_bytes: int = Field(1 << 30, ge=1 << 12)  # a larger file is several pieces; Common Crawl's are about 1 GB
    run_bytes: int = Field(1 << 30, ge=1 << 12)  # of frames spooled before they are laid out by bucket
    max_record_bytes: int = Field(64 << 20, ge=1 << 10)  # over this: cut and tagged; a worker holds 6 times it
    max_payload_bytes: int = Field(32 << 20, ge=1 << 10)  # after Content-Encoding; extraction's own cap is 8 MiB
    max_inflate_ratio: int = Field(1000, ge=2)  # gzip's own bound is 1,032; more than this is a bomb


class UniqueParams(Params):
    """Which records go on, which are held out, and what a crawler trap is."""

    keep_status: tuple[int, ...] = (200,)
    content_types: tuple[str, ...] = ("text/html", "application/xhtml+xml", "text/plain")
    web_sample_modulus: int = Field(1000, ge=1)  # url_hash % 1000 == 0 is held out for ever
    time_forward_after: str | None = None  # ISO date or time, UTC; pages fetched later are held out
    robots_agent: str = "CCBot"  # who fetched: Common Crawl's name; an own crawl names its own
    trap_min_urls: int = Field(10_000, ge=1)  # own choice: calendars and session ids pass it within one crawl
    trap_max_unique_share: float = Field(0.1, ge=0, le=1)  # distinct payloads over distinct URLs

    @field_validator("time_forward_after", mode="before")
    @classmethod
    def _is_a_time(cls, value: object) -> object:
        if isinstance(value, dt.date):  # YAML reads an unquoted date as one
            return value.isoformat()
        if isinstance(value, str):
            try:
                dt.datetime.fromisoformat(value)
            except ValueError as error:
                raise ValueError(f"{value!r} is no ISO date or time, such as 2026-05-25") from error
        return value


class ExtractParams(Params):
    """HTML to text."""

    engine: str = "two_pass"
    max_bytes: int = 8 << 20
    cpu_seconds: float = 5.0
    wall_seconds: float = 60.0
    max_replacement_share: float = 0.02
    max_hidden_share: float = 0.05
    holdout_hash: str | None = None  # manifest hash of the frozen hold-outs; without it extraction refuses to start


class LanguageParams(Params):
    """Language identification and its gate, and the degenerate-text gate."""

    model: ModelRef = ModelRef(
        name="lid.176.ftz", sha256="8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83"
    )
    first_chars: int = 1000
    threshold: float = 0.65  # large languages
    small_threshold: float = 0.90
    small_script_share: float = 0.8
    min_words: int = 50
    min_chars: int = 200
    max_line_share: float = 0.90  # of what came as markup; in plain text a line is often a paragraph
    min_letter_share: float = 0.10


class LineParams(Params):
    """Boilerplate lines: in more than max(min_docs, share x documents) documents of a crawl."""

    min_docs: int = Field(100, ge=1)
    share: float = Field(10_000 / 9e10, ge=0, le=1)  # the reference: 10,000 at 9e10 documents


class MinHashParams(Params):
    """Signatures and bands. Presets are in ``deduplicate/minhash.py``; the numbers here are what counts."""

    shingle: Literal["word", "char"] = "word"
    n: int = Field(5, ge=1)  # units a shingle: FineWeb's 5 words
    bands: int = Field(14, ge=1, le=255)
    rows: int = Field(8, ge=1)
    seed: int = Field(1, ge=0)
    fold_digits: bool = False  # folded, pages of one template with other numbers are one page


class ClusterParams(Params):
    """Edges, verification, components."""

    bands_per_pass: int = Field(5, ge=1)  # bounds memory; the result is the same
    verify: Literal["none", "signature", "jaccard"] = "jaccard"  # signature merges 8 % of a template's pages at J = 0.7
    verify_at: float = Field(0.8, gt=0, le=1)
    sure_at: float = Field(0.95, gt=0, le=1)  # jaccard: an estimate from here on is taken without reading the texts
    max_leaders: int = Field(256, ge=1)
    bucket_cap: int = Field(10_000, ge=1)
    cluster_cap: int = Field(1_000, ge=2)


class BandIndexParams(Params):
    """The index across crawls."""

    max_postings: int = Field(64, ge=1)
    bits_per_key: int = Field(12, ge=1)  # 0.5 % of false positives; 8 bits give 3 %
    min_band_matches: int = Field(4, ge=1)  # for 14 x 8; other presets state their own


class ScorerParams(Params):
    """One more scorer of the ensemble."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")  # names its columns
    # ngram: an ARPA model of quality/perplexity.py; encoder: heads of quality/heads.py on a sentence encoder's vectors;
    # transformer: a folder of a transformers sequence classifier in ONNX, of quality/transformer.py
    kind: Literal["fasttext", "ngram", "encoder", "transformer"] = "fasttext"
    model: ModelRef
    label: str = "__label__hq"  # fastText's or the transformer's label, or the encoder's head: its value is the score
    head: Literal["softmax", "sigmoid", "regression"] = "softmax"  # transformer: how its outputs were trained
    max_tokens: int = Field(512, ge=8)  # transformer: it reads a text's first
    embedder: EmbedderParams = EmbedderParams(max_tokens=512)  # encoder; those that name the same share one pass
    languages: tuple[str, ...] = ()  # ISO 639-3; empty: every language


class QualityParams(Params):
    """Scorers. Thresholds are not here: they belong to the manifest."""

    classifier: ModelRef | None = None  # fastText, DCLM's form; demo make trains one. Its column is score_classifier
    scorers: tuple[ScorerParams, ...] = ()  # further members of the ensemble
    quantiles: ModelRef | None = None  # frozen reference quantiles; without them scores have no percentile
    # a fastText model of 2-grams gains nothing beyond; 2.2 x faster than whole texts
    first_chars: int = Field(2000, ge=1)

    @model_validator(mode="after")
    def _distinct(self) -> "QualityParams":
        names = [s.name for s in self.scorers] + (["classifier"] if self.classifier else [])
        double = sorted({n for n in names if names.count(n) > 1 or n == "ensemble"})
        if double:
            raise ValueError(f"scorers: {double[0]} names another one's columns already")
        return self


class SemanticParams(Params):
    """Semantic duplicates, by embeddings. Off for every tier that is not named; the web's is not."""

    tiers: tuple[str, ...] = ("synthetic",)
    embedder: EmbedderParams = EmbedderParams()
    epsilon: float = Field(0.05, gt=0, lt=1)  # goes at cosine 1 - epsilon; choose it by `audit pairs --semantic`
    docs_per_cluster: int = Field(1_000, ge=1)  # decides the number of clusters
    cluster_cap: int = Field(4_000, ge=2)  # over this a second k-means; the search in a cluster is quadratic
    sample: int = Field(200_000, ge=1)  # documents that centroids are trained on
    iterations: int = Field(20, ge=1)
    kmeans: Literal["torch", "cuml"] = "torch"
    seed: int = Field(1, ge=0)


class WordListParams(Params):
    """A registered word list: one folded word or phrase a line."""

    category: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    lang: str | None = None  # ISO 639-3; None: every language
    file: ModelRef


class HashListParams(Params):
    """A registered list of what must never be used: one hash in hex a line."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    kind: Literal["exact", "near"] = "exact"  # exact: doc_id, 32 digits; near: 64-bit simhash, 16 digits
    file: ModelRef


class NerParams(Params):
    """Names and addresses in prose, by a token classifier in ONNX (``gristmill/safety/ner.py``)."""

    model: ModelRef = ModelRef(
        name="rampart-ner", sha256="1c790052fc3208cb7345bf10671a0364c7497832f6ad1281b01ed5c95501f9e5"
    )
    kinds: tuple[Literal["address", "name"], ...] = ("address", "name")  # what is looked for and stored
    scrub: tuple[Literal["address", "name"], ...] = ("address",)  # what a release replaces; names stay
    languages: tuple[str, ...] = ()  # ISO 639-3: only these are read (the packaged model is English's); empty: all
    threshold: float = Field(0.5, gt=0, lt=1)  # mean probability of a word's tokens
    window: int = Field(128, ge=16, le=512)  # tokens: about as much as the model's own package reads at a time
    overlap: int = Field(32, ge=0)  # tokens two windows share; each takes the half that is further from its own edge

    @model_validator(mode="after")
    def _fits(self) -> "NerParams":
        if self.overlap * 2 > self.window:
            raise ValueError(f"overlap {self.overlap} must be at most half of window {self.window}")
        if not set(self.scrub) <= set(self.kinds):
            raise ValueError(f"scrub {list(self.scrub)} must be among kinds {list(self.kinds)}")
        return self


class SafetyParams(Params):
    """PII, toxicity, spam, hard removal. Scores are stored; only hash lists say "never"."""

    private_ips: bool = False
    phone_countries: tuple[str, ...] | None = None  # national telephone formats without context; None: all known
    ner: NerParams | None = None  # names and addresses: {} turns it on; it needs the extra embed and a model
    word_lists: tuple[WordListParams, ...] = ()  # none is packaged: a weak signal that the user brings
    toxicity: ModelRef | None = None  # a fastText model whose labels are categories (__label__NAME)
    # heads of an encoder, one a category, and the encoder they were trained on: columns toxicity_HEAD
    toxicity_heads: ModelRef | None = None
    toxicity_embedder: EmbedderParams = EmbedderParams(max_tokens=512)
    hash_lists: tuple[HashListParams, ...] = ()
    near_bits: int = Field(3, ge=0, le=3)  # differing bits of 64 that still match a near hash


class DecontaminateParams(Params):
    """algorithms.md section 5."""

    n: int = Field(13, ge=8, le=32)
    min_run: int = Field(10, ge=1)  # consecutive n-grams of one item: 22 words
    min_run_unspaced: int = Field(16, ge=1)  # the same for scripts without spaces: 28 characters
    short_n: int = Field(8, ge=4, le=13)
    short_unspaced: int = Field(13, ge=8)  # characters: shorter spans of such scripts are not checkable
    max_items: int = Field(3, ge=1)  # an n-gram in more items of a benchmark than this is a template
    fuzzy_n: int = Field(5, ge=2, le=13)
    fuzzy_containment: float = Field(0.6, gt=0, le=1)
    fuzzy_window: float = Field(1.5, ge=1)
    fuzzy_min_shingles: int = Field(12, ge=1)  # fewer distinct telling shingles than this prove nothing
    bits_per_key: float = Field(9.6, gt=0)
    semantic: EmbedderParams | None = None  # names an encoder: passages of like meaning are flagged, pending review
    semantic_cosine: float = Field(0.85, gt=0, le=1)  # choose it on paraphrases of one's own items
    semantic_tiers: tuple[str, ...] = ("synthetic",)


class TokenizeParams(Params):
    """Tokenizer and shards."""

    tokenizer: ModelRef | None = None  # tokenizer.json or a tiktoken rank file
    bos: bool = False  # a document starts with bos_token
    eos: bool = True  # and ends with eos_token
    bos_token: str | None = None
    eos_token: str | None = "<|endoftext|>"  # noqa: S105 - a token of text, not a secret
    pattern: str | None = None  # tiktoken files only: the pre-tokenizer's expression, which they do not hold
    special_tokens: dict[str, int] | None = None  # tiktoken files only
    floor: float = 0.0  # tokenise_floor: percentile of the ensemble under which a document is not tokenised
    shard_tokens: int = 30_000_000
    seed: int = 1


class BandParams(Params):
    """A site's own band of a stage; what is not given stays the baseline's. Shares of 1."""

    low: float | None = Field(None, ge=0, le=1)
    high: float | None = Field(None, ge=0, le=1)
    width: float | None = Field(None, gt=0, le=1)
    one_sided: bool | None = None
    blocking: bool | None = None


class ObserveParams(Params):
    """What counts as out of band. It decides what people are told, never what a stage makes."""

    baseline: Literal["web", "demo", "own"] = "own"  # web: a whole crawl of it; own: this site's crawls only
    trailing: int = Field(5, ge=1)  # crawls looked back on
    min_docs: int = Field(200, ge=1)  # below this a partition says little
    volume_factor: float = Field(2.0, gt=1)  # a crawl this much larger or smaller than the last ones is told
    drift_floor: float = Field(0.02, gt=0, le=1)  # Jensen-Shannon distance squared, bits: less is no drift
    contract_days: int = Field(60, ge=0)  # a contract that ends within these days is told
    fresh_days: int = Field(45, ge=1)  # the newest crawl of a family older than this is told
    bands: dict[str, BandParams] = Field(default_factory=dict)  # stage, or end_to_end


class PipelineParams(Params):
    """All of it. ``schema_version`` guards against a file written for another release."""

    schema_version: Literal[1] = 1
    grid: GridParams = GridParams()
    acquire: AcquireParams = AcquireParams()
    unique: UniqueParams = UniqueParams()
    extract: ExtractParams = ExtractParams()
    language: LanguageParams = LanguageParams()
    lines: LineParams = LineParams()
    minhash: MinHashParams = MinHashParams()
    clusters: ClusterParams = ClusterParams()
    band_index: BandIndexParams = BandIndexParams()
    quality: QualityParams = QualityParams()
    semantic: SemanticParams = SemanticParams()
    safety: SafetyParams = SafetyParams()
    decontaminate: DecontaminateParams = DecontaminateParams()
    tokenize: TokenizeParams = TokenizeParams()
    observe: ObserveParams = ObserveParams()


class RobotsSweep(BaseModel):
    """How ``gristmill robots sweep`` reads robots.txt again. Never part of a fingerprint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agents: tuple[str, ...] = Field(("CCBot",), min_length=1)  # whose pages these are: as policy.robots_agents
    user_agent: str = Field("gristmill-robots/1", pattern=r"^[!-~][ -~]*$")  # name a contact: "mill/1 (+mailto:...)"
    every_hours: float = Field(20, gt=0)  # what was read later than this is not read again
    most_seconds: float = Field(6 * 3600, gt=0)  # of one sweep; the next one begins with what was read longest ago
    concurrency: int = Field(16, ge=1, le=256)  # hosts at once
    address_seconds: float = Field(1.0, ge=0)  # between two requests to one address, whatever its names
    timeout_seconds: float = Field(20, gt=0)  # of one robots.txt with all its redirects
    unreachable: Literal["keep", "disallow"] = "keep"  # 5xx, no answer: the last rules hold; without any: this
    allow_networks: tuple[IPvAnyNetwork, ...] = ()  # private addresses that may be asked: an own crawl of an intranet


class GpuPods(BaseModel):
    """What a pod of a GPU stage has that others have not. Never part of a fingerprint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str = ""  # the image with the GPU packages; empty is the one of the other pods
    count: int = Field(1, ge=1)
    resource: str = "nvidia.com/gpu"
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[dict[str, str], ...] = ()
    limits: dict[str, str] = Field(default_factory=dict)  # cpu, memory
    priority_class: str = ""


class SiteConfig(BaseModel):
    """Where things are. Never part of a fingerprint. Paths are relative to the file they stand in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: str = "state/store"
    landing: str = "state/landing"
    holdout: str = "state/holdout"
    models: str = "state/models"
    recipe: str | None = None
    assumptions: str | None = None  # prices and volumes that differ from gristmill/plan/assumptions.yaml
    archive: str | None = None  # where old crawls' heavy files go; a bucket with a lifecycle rule, or another disk
    holdout_env: str = Field("", pattern=r"^[A-Z0-9_]*$")  # HOLDOUT_: credentials from HOLDOUT_AWS_ACCESS_KEY_ID, ...
    executor: Literal["in_process", "k8s"] = "in_process"  # k8s: Dagster gives every stage of a run a pod of its own
    gpu: GpuPods | None = None  # with executor k8s: where stages that use a GPU go
    robots: RobotsSweep = RobotsSweep()
    paging: Paging | None = None  # without it nobody is paged
    # called with a JSON file {"crawl", "hash_list", "doc_ids"} for every hash list that names a document
    report_command: tuple[str, ...] = ()


class Pipeline(BaseModel):
    """One ``pipeline.yaml``: where things are, and what decides bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    site: SiteConfig = SiteConfig()
    params: PipelineParams = PipelineParams()


NAME_A_FILE = "pass --pipeline FILE, set GRISTMILL_PIPELINE, write one with `gristmill init`, or run `make demo`"


def read_pipeline(path: str | Path) -> Pipeline:
    """Read a parameter file; relative places are resolved against its folder.

    Raises:
        ParameterError: naming the file, the field and what is wrong.
    """
    file = Path(path)
    try:
        data: Any = require_text(yaml.safe_load(file.read_text("utf-8")))
    except FileNotFoundError as error:
        raise ParameterError(f"no parameter file {file}: {NAME_A_FILE}") from error
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ParameterError(f"{file} cannot be read as YAML: {error}") from error
    if data is None:  # with the defaults it would name another store, and all would look well there
        raise ParameterError(f"{file} is empty: `gristmill init` writes a parameter file")
    try:
        pipeline = Pipeline.model_validate(data)
    except ValidationError as error:
        raise ParameterError(f"{file}: {sentences(error, Pipeline)}") from error
    base = file.resolve().parent
    places = ("store", "landing", "holdout", "models", "recipe", "assumptions", "archive")
    update: dict[str, Any] = {n: _resolve(base, getattr(pipeline.site, n)) for n in places}
    if pipeline.site.paging is not None:
        update["paging"] = pipeline.site.paging.resolved(base)
    site = pipeline.site.model_copy(update=update)
    return pipeline.model_copy(update={"site": site})


def _resolve(base: Path, place: str | None) -> str | None:
    if place is None or "://" in place or Path(place).is_absolute():
        return place
    return str(base / place)
