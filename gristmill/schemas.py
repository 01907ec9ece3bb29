"""Every table on disk: its columns, their types and what they mean, in one place.

Belongs here: Arrow schemas, and the check that a table has the columns it promises. Does not belong here: how a column
is computed. The why of each table is in ``docs/decisions.md`` and the stage's module.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from gristmill.errors import SchemaError

ID = pa.binary(16)  # record_id, doc_id, cluster ids: the first 16 bytes of a blake3
TS = pa.timestamp("us", tz="UTC")


def _schema(**columns: tuple[pa.DataType, str]) -> pa.Schema:
    return pa.schema([pa.field(n, t, metadata={"description": d}) for n, (t, d) in columns.items()])


_CRAWL = (pa.string(), "the snapshot or delivery")
_RECORD = (ID, "one fetch: blake3(URI, date, raw SHA-1 of the body)")
_DOC = (ID, "one text: blake3(normalised text)")

# What a crawl's listing names, as dealt to slices: byte ranges of files.
LANDING = _schema(
    slice=(pa.int32(), "which slice reads it"),
    path=(pa.string(), "file in the landing area"),
    file_bytes=(pa.int64(), "its size"),
    start=(pa.int64(), "records whose member begins from here"),
    end=(pa.int64(), "to before here"),
    kind=(pa.string(), "warc, or refused"),
    why=(pa.string(), "why it is refused"),
    source_tier=(pa.string(), "own_crawl, cc, licensed, code, academic, synthetic"),
    license_id=(pa.string(), "of the delivery (source.yaml), or null"),
)

# One source pointer format everywhere: the file, the byte offset of the compressed member, its length.
RAW_INDEX = _schema(
    crawl=_CRAWL,
    record_id=_RECORD,
    url=(pa.string(), "target URI as fetched, without <>"),
    url_hash=(pa.uint64(), "xxh3-64 of the canonical URL"),
    host=(pa.string(), "host of the URL, lower case"),
    host_id=(pa.uint64(), "xxh3-64 of the container (the host)"),
    fetch_ts=(TS, "WARC-Date"),
    source_tier=(pa.string(), "own_crawl, cc, licensed, code, academic, synthetic"),
    license_id=(pa.string(), "of the delivery (source.yaml), or null"),
    record_type=(pa.string(), "response, resource or revisit"),
    http_status=(pa.int32(), "status code; 0 where there is none"),
    content_type=(pa.string(), "media type, lower case, without parameters"),
    charset=(pa.string(), "charset parameter of the HTTP header, or null"),
    payload_digest=(pa.binary(20), "SHA-1 of the transfer-decoded body, computed"),
    digest_ok=(pa.bool_(), "does the recorded payload digest agree; null where none was recorded"),
    truncated=(pa.string(), "WARC-Truncated, or null"),
    refers_to_url=(pa.string(), "revisit: WARC-Refers-To-Target-URI (or its own URI)"),
    refers_to_ts=(TS, "revisit: WARC-Refers-To-Date"),
    robots_state=(pa.string(), "allowed, disallowed_at_fetch, unknown, retro_optout"),
    tags=(pa.list_(pa.string()), "what was wrong or cut while reading, sorted"),
    warc_path=(pa.string(), "source file in the landing area"),
    offset=(pa.int64(), "byte offset of the member in the source file"),
    length=(pa.int64(), "bytes of the member in the source file"),
    part_offset=(pa.int64(), "byte offset of the zstd frame in this partition's .warc.zst"),
    part_length=(pa.int64(), "bytes of that frame"),
)

UNIQUE_RECORDS = _schema(
    crawl=_CRAWL,
    record_id=_RECORD,
    kept=(pa.bool_(), "goes on to extraction"),
    reason=(pa.string(), "why not, null if kept: robots_txt, recrawl, recrawl_earlier, revisit, revisit_unresolved, "
                         "status, not_text"),
    of_record_id=(ID, "the record that it repeats"),
    of_crawl=(pa.string(), "the crawl of that record"),
    holdout=(pa.string(), "web_sample, time_forward or null: goes through the funnel, never into a manifest"),
)

# Role "seen" of unique_records: what later crawls compare with. Sorted by (url_hash, payload_digest).
SEEN_PAYLOADS = _schema(
    url_hash=(pa.uint64(), "canonical"),
    payload_digest=(pa.binary(20), "SHA-1 of the transfer-decoded body"),
    record_id=_RECORD,
    fetch_ts=(TS, "of that record"),
)

# Role "robots" of unique_records: every version of robots.txt that the crawl fetched, sorted by (authority, fetch_ts).
ROBOTS = _schema(
    crawl=_CRAWL,
    authority=(pa.string(), "scheme, host and port that it governs"),
    host_id=(pa.uint64(), "container"),
    fetch_ts=(TS, "WARC-Date"),
    http_status=(pa.int32(), "2xx is parsed, 4xx allows all, 5xx disallows all (RFC 9309)"),
    record_id=_RECORD,
    body=(pa.binary(), "at most 500 KiB of it"),
)

# Role "hosts" of unique_records (by payload) and of provenance (by text): evidence on crawler traps. A host lies in one
# bucket, so its counts are whole.
HOSTS = _schema(
    crawl=_CRAWL,
    host=(pa.string(), "host"),
    host_id=(pa.uint64(), "container"),
    n_records=(pa.int64(), "fetches, of any status and kind"),
    n_urls=(pa.int64(), "distinct canonical URLs among textual pages that were answered"),
    n_unique_payloads=(pa.int64(), "distinct payload digests among them; by text: distinct doc_ids"),
    unique_share=(pa.float64(), "n_unique_payloads / n_urls; 1 where there is none"),
    trap=(pa.bool_(), "over the bound of URLs and under the bound of unique_share"),
)

TEXT = _schema(
    crawl=_CRAWL,
    record_id=_RECORD,
    doc_id=_DOC,
    source_id=(pa.string(), "the supplier's own id, kept through the funnel; null for web pages"),
    url=(pa.string(), "as in raw_index"),
    fetch_ts=(TS, "as in raw_index: part of the order"),
    text=(pa.large_string(), "extracted text; all spans and offsets refer to its UTF-8 bytes"),
    title=(pa.string(), "title, or null"),
    extractor=(pa.string(), "engine and version that made this text"),
    extract_meta=(pa.string(), "JSON: charset, tags (truncated, mojibake_fixed, ...), hidden_share"),
    n_chars=(pa.int64(), "code points"),
    n_bytes=(pa.int64(), "UTF-8 bytes"),
)

# Role "origins" of text, where a supplier says so of any document of the bucket; sorted by record_id.
ORIGINS = _schema(
    record_id=_RECORD,
    derived_from=(ID, "parent document of synthetic text"),
    generator_model_id=(pa.string(), "for synthetic text"),
    prompt_template_id=(pa.string(), "for synthetic text"),
)

QUARANTINE = _schema(
    crawl=_CRAWL,
    record_id=(ID, "null where no record could be read"),
    stage=(pa.string(), "the stage that set it aside"),
    reason=(pa.string(), "one word: see quarantine reasons in docs"),
    detail=(pa.string(), "the value against the bound, or the error, at most 500 characters"),
    url=(pa.string(), "where known"),
    warc_path=(pa.string(), "source file"),
    offset=(pa.int64(), "byte offset there"),
    length=(pa.int64(), "bytes there; -1 where unknown"),
)

LANGUAGE = _schema(
    crawl=_CRAWL,
    record_id=_RECORD,
    doc_id=_DOC,
    lang=(pa.string(), "ISO 639-3; und where nothing claims it"),
    script=(pa.string(), "ISO 15924 of most letters"),
    lang_conf=(pa.float32(), "probability, clipped to 1"),
    lang2=(pa.string(), "second guess"),
    lang2_conf=(pa.float32(), "its probability"),
    script_share=(pa.float32(), "share of letters in a script that the language is written in"),
    n_words=(pa.int32(), "words as for shingles"),
    n_chars=(pa.int32(), "code points"),
    longest_line_share=(pa.float32(), "characters of the longest line over all"),
    letter_share=(pa.float32(), "letters over all non-space characters"),
    gate=(pa.string(), "null goes on; no_language, script_mismatch, degenerate_short, degenerate_line, "
                       "degenerate_letters"),
)

# Partition = range of doc_id. Role "data" has all rows sorted by (doc_id, order); role "by_bucket" the same rows cut
# by the host bucket of the record, which is how later stages read them.
EXACT = _schema(
    crawl=_CRAWL,
    record_id=_RECORD,
    doc_id=_DOC,
    host_bucket=(pa.uint16(), "bucket of the record"),
    fetch_ts=(TS, "part of the order"),
    first=(pa.bool_(), "represents its doc_id in this crawl"),
    dup_of=(ID, "record_id of the first, null for the first itself"),
    dup_count=(pa.uint32(), "records of this crawl with this doc_id"),
    seen_crawl=(pa.string(), "earliest earlier crawl that holds this doc_id, or null"),
    seen_record_id=(ID, "its first record there"),
)

LINE_CANDIDATES = _schema(
    line=(pa.uint64(), "hash of a line frequent in this bucket, ascending"),
    docs=(pa.int64(), "documents of this bucket that hold it"),
)

LINE_COUNTS = _schema(
    line=(pa.uint64(), "hash of a candidate line of the crawl, ascending; those of this bucket only"),
    docs=(pa.int64(), "documents of this bucket that hold it, exactly"),
)

# Role "removed" of lines: what was taken out here, to be read by people.
REMOVED_LINES = _schema(
    line=(pa.uint64(), "hash, ascending"),
    docs=(pa.int64(), "documents of the crawl that hold it"),
    bound=(pa.int64(), "N: a line in more documents than this is boilerplate"),
    sample=(pa.large_string(), "the line as it stands in a document of this bucket, at most 500 characters"),
)

LINES = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    record_id=_RECORD,
    n_lines=(pa.int32(), "non-empty lines"),
    removed=(pa.list_(pa.uint64()), "hashes of the lines taken out, ascending, distinct"),
    n_removed=(pa.int32(), "lines taken out"),
    bytes_after=(pa.int64(), "UTF-8 bytes left"),
    empty_after=(pa.bool_(), "nothing is left: tagged, not dropped"),
)

# Role "data" beside role "signatures" (raw little-endian uint32, n x K, same row order) and role "bands" (by range).
SIGNATURES = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    record_id=_RECORD,
    n_shingles=(pa.int32(), "shingles before taking distinct ones"),
)

BAND_KEYS = _schema(
    band=(pa.uint8(), "band number"),
    key=(pa.uint64(), "64 bits mixed from the band's values and its number"),
    doc_id=_DOC,
    row=(pa.uint32(), "row in the signatures partition"),
    host_bucket=(pa.uint16(), "its partition"),
)

# Partition = range of band key.
BAND_BUCKETS = _schema(
    crawl=_CRAWL,
    band=(pa.uint8(), "the band in which they met"),
    key=(pa.uint64(), "band key"),
    anchor=(ID, "the leader that the member matched"),
    doc_id=_DOC,
    similarity=(pa.float32(), "estimated Jaccard; null when verification is none"),
)

# Partition = range of doc_id; role "by_bucket" is read by near. Only documents in a cluster of two or more have a row.
CLUSTERS = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    dup_cluster_id=(ID, "doc_id of the smallest member by id"),
    dup_cluster_size=(pa.uint32(), "members in this crawl"),
    dup_of=(ID, "doc_id of the first in order; null for itself"),
    similarity=(pa.float32(), "similarity of the edge that decided"),
)

NEAR = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    record_id=_RECORD,
    dup_cluster_id=(ID, "cluster, its own doc_id when alone"),
    dup_cluster_size=(pa.uint32(), "members"),
    dup_of=(ID, "doc_id of the first in order, null when kept"),
    similarity=(pa.float32(), "that decided"),
    matched_crawl=(pa.string(), "earlier crawl with a near-verbatim copy, or null"),
    matched_doc_id=(ID, "that copy"),
    matched_bands=(pa.uint8(), "band votes"),
    survives=(pa.bool_(), "first of its cluster and new: scored and tokenised"),
)

# Partition = range of band key, cut by host bucket: what near decides by.
BAND_MATCHES = _schema(
    band=(pa.uint8(), "band number"),
    key=(pa.uint64(), "a band key that an earlier crawl has"),
    host_bucket=(pa.uint16(), "with a document of this crawl that has it"),
    matched_crawl=(pa.string(), "the earlier crawl"),
    matched_doc_id=(ID, "its document"),
)

BAND_INDEX = _schema(
    band=(pa.uint8(), "band number"),
    key=(pa.uint64(), "ascending within a band"),
    doc_id=_DOC,
)

PROVENANCE = _schema(
    crawl=_CRAWL,
    record_id=_RECORD,
    doc_id=_DOC,
    url=(pa.string(), "as fetched"),
    url_hash=(pa.uint64(), "canonical"),
    host=(pa.string(), "host"),
    host_id=(pa.uint64(), "container"),
    fetch_ts=(TS, "WARC-Date"),
    source_tier=(pa.string(), "tier"),
    license_id=(pa.string(), "licence, or null where none is known"),
    robots_state=(pa.string(), "at fetch"),
    lang=(pa.string(), "ISO 639-3"),
    lang_conf=(pa.float32(), "probability"),
    content_type=(pa.string(), "media type"),
    warc_path=(pa.string(), "source file"),
    offset=(pa.int64(), "offset there"),
    length=(pa.int64(), "length there"),
    source_id=(pa.string(), "the supplier's own id; null for web pages"),
    derived_from=(ID, "parent document of synthetic text"),
    generator_model_id=(pa.string(), "for synthetic text"),
    prompt_template_id=(pa.string(), "for synthetic text"),
)

_SHARE = pa.float32()
HEURISTICS = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    record_id=_RECORD,
    n_chars=(pa.int32(), "code points"),
    n_words=(pa.int32(), "words as for shingles"),
    n_lines=(pa.int32(), "lines that are not blank"),
    n_paragraphs=(pa.int32(), "runs of lines between blank ones"),
    n_sentences=(pa.int32(), "sentences of all lines"),
    longest_word=(pa.int32(), "code points"),
    longest_line=(pa.int32(), "code points"),
    long_lines=(pa.int32(), "mC4: lines of 200 characters or more"),
    c4_sentences=(pa.int32(), "C4: sentences of lines that its line rules keep"),
    c4_lines=(pa.int32(), "C4: lines kept"),
    c4_no_terminal=(pa.int32(), "C4: lines that end no sentence"),
    c4_few_words=(pa.int32(), "C4: lines under three words"),
    c4_long_word=(pa.int32(), "C4: lines with a word over 1,000 characters"),
    c4_javascript=(pa.int32(), "C4: lines that mention Javascript"),
    c4_policy=(pa.int32(), "C4: lines on cookies and terms"),
    c4_lorem=(pa.int32(), "C4: lines with lorem ipsum"),
    c4_curly=(pa.int32(), "C4: lines with a curly bracket"),
    rw_upper_lines=(pa.int32(), "RefinedWeb: lines mostly in capitals"),
    rw_numeric_lines=(pa.int32(), "RefinedWeb: lines of numbers only"),
    rw_counter_lines=(pa.int32(), "RefinedWeb: counters (3 likes)"),
    rw_one_word_lines=(pa.int32(), "RefinedWeb: lines of one word"),
    rw_snippet_lines=(pa.int32(), "RefinedWeb: short lines with a phrase of the page's furniture"),
    stop_words=(pa.int32(), "Gopher: distinct stop words of the language; null where none are known"),
    mean_word_length=(_SHARE, "Gopher: code points a word"),
    hash_word_ratio=(_SHARE, "Gopher: # a word"),
    ellipsis_word_ratio=(_SHARE, "Gopher: ellipses a word"),
    bullet_line_ratio=(_SHARE, "Gopher: lines that begin with a bullet"),
    ellipsis_line_ratio=(_SHARE, "Gopher: lines that end with an ellipsis"),
    alpha_word_ratio=(_SHARE, "Gopher: words with a letter"),
    dup_line_frac=(_SHARE, "Gopher: lines seen before"),
    dup_line_char_frac=(_SHARE, "Gopher: their characters"),
    dup_para_frac=(_SHARE, "Gopher: paragraphs seen before"),
    dup_para_char_frac=(_SHARE, "Gopher: their characters"),
    top_2gram_char_frac=(_SHARE, "Gopher: characters in the most frequent 2-gram"),
    top_3gram_char_frac=(_SHARE, "Gopher: the same for 3-grams"),
    top_4gram_char_frac=(_SHARE, "Gopher: the same for 4-grams"),
    dup_5gram_char_frac=(_SHARE, "Gopher: characters in 5-grams seen before"),
    dup_6gram_char_frac=(_SHARE, "Gopher: the same for 6-grams"),
    dup_7gram_char_frac=(_SHARE, "Gopher: the same for 7-grams"),
    dup_8gram_char_frac=(_SHARE, "Gopher: the same for 8-grams"),
    dup_9gram_char_frac=(_SHARE, "Gopher: the same for 9-grams"),
    dup_10gram_char_frac=(_SHARE, "Gopher: the same for 10-grams"),
    line_punct_ratio=(_SHARE, "FineWeb: lines that end with punctuation"),
    short_line_ratio=(_SHARE, "FineWeb: lines of at most 30 characters"),
    char_dup_ratio=(_SHARE, "FineWeb: characters in lines seen before, over all but newlines"),
    new_line_ratio=(_SHARE, "FineWeb: newlines a word"),
    rw_removed_word_ratio=(_SHARE, "RefinedWeb: words in lines that its line rules take out"),
    digit_ratio=(_SHARE, "decimal digits over characters"),
    upper_ratio=(_SHARE, "capitals over letters"),
    space_ratio=(_SHARE, "white space over characters"),
    type_token_ratio=(_SHARE, "distinct words over words"),
    word_entropy=(_SHARE, "bits, of the distribution of words"),
)

# Further columns: score_NAME and percentile_NAME of every scorer.
QUALITY = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    record_id=_RECORD,
    ensemble_max=(_SHARE, "highest percentile of any scorer; null where none has one"),
    ensemble_mean=(_SHARE, "mean percentile of the scorers"),
    ensemble_percentile=(_SHARE, "in [0, 1], of ensemble_max among frozen reference quantiles"),
)

# Role "data" beside role "vectors" (raw little-endian float32, n x dim, same row order). Only documents of the tiers of
# params.semantic have a row.
EMBEDDINGS = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    record_id=_RECORD,
    fetch_ts=(TS, "part of the order"),
    source_tier=(pa.string(), "tier"),
)

# Partition = range of clusters; role "by_bucket" is what documents and the catalogue read. Sorted by doc_id.
SEMANTIC = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    host_bucket=(pa.uint16(), "bucket of the record"),
    source_tier=(pa.string(), "tier"),
    cluster=(pa.int32(), "of the k-means"),
    nearest=(ID, "the better document, itself kept, that it is most like; null for the best of a cluster"),
    cosine=(pa.float32(), "with it"),
    removed=(pa.bool_(), "a semantic duplicate of it: not tokenised"),
)

CONTAMINATION = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    record_id=_RECORD,
    benchmark=(pa.string(), "benchmark"),
    item=(pa.string(), "item id there"),
    span=(pa.string(), "question, options, answer, prompt, solution, ..."),
    method=(pa.string(), "ngram, short or fuzzy"),
    longest_run=(pa.int32(), "words in a row (characters in unspaced scripts)"),
    containment=(pa.float32(), "fuzzy: share of the span's shingles in the window"),
    start=(pa.int64(), "byte offset in the extracted text"),
    end=(pa.int64(), "end offset"),
    whole=(pa.bool_(), "the whole span of the item occurs"),
)

# Role "excerpts" of contamination: what the report shows beside the item's own text.
CONTAMINATION_EXCERPTS = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    benchmark=(pa.string(), "benchmark"),
    item=(pa.string(), "item id there"),
    span=(pa.string(), "as in contamination"),
    before=(pa.large_string(), "the text before the match, at most 80 characters"),
    matched=(pa.large_string(), "the matched text, at most 600 characters"),
    after=(pa.large_string(), "the text after it, at most 80 characters"),
)

PII_SPAN = pa.struct([("start", pa.uint32()), ("end", pa.uint32()), ("kind", pa.string())])

# Further columns: words_CATEGORY of every word list, toxicity_LABEL of the classifier; with ``ner`` kept_spans, like
# pii_spans, of what a release leaves in place.
SAFETY = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    record_id=_RECORD,
    pii_spans=(pa.list_(PII_SPAN), "personal data: bytes of the extracted text, in order, without overlaps"),
    link_word_ratio=(_SHARE, "spam: written-out links a word"),
    spam_phrase_ratio=(_SHARE, "spam: phrases of selling and baiting a word"),
    top_word_share=(_SHARE, "SEO: share of the most frequent word of four letters or more"),
    hard_removal=(pa.string(), "the hash list that holds this document, or null"),
)

CATALOGUE_RECORDS = _schema(
    crawl=_CRAWL,
    record_id=_RECORD,
    doc_id=_DOC,
    url=(pa.string(), "as fetched"),
    url_hash=(pa.uint64(), "canonical"),
    host=(pa.string(), "host"),
    host_id=(pa.uint64(), "container"),
    fetch_ts=(TS, "WARC-Date"),
    source_tier=(pa.string(), "tier"),
    license_id=(pa.string(), "licence"),
    robots_state=(pa.string(), "at fetch"),
    holdout=(pa.string(), "web_sample, time_forward or null"),
    first=(pa.bool_(), "represents its doc_id"),
    dup_cluster_id=(ID, "near-duplicate cluster of the document; null where it never got there"),
    derived_from=(ID, "parent document of synthetic text"),
    generator_model_id=(pa.string(), "for synthetic text"),
    trap=(pa.bool_(), "its host looks like a crawler trap (unique_records, role hosts)"),
)

# Role "data": one row a document that reached this stage, in its host bucket. Role "by_range": the same rows cut by
# keyed hash, with shard_key and ids (large_list<uint32>, BOS and EOS included; empty where it was not admitted).
TOKENS = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    record_id=_RECORD,
    host_bucket=(pa.uint16(), "bucket of the record"),
    row=(pa.uint32(), "row of its provenance in that bucket: the locator"),
    source_tier=(pa.string(), "tier"),
    license_id=(pa.string(), "licence"),
    lang=(pa.string(), "ISO 639-3"),
    stratum=(pa.string(), "tier.language.quality band.length bucket; null where it was not tokenised"),
    n_tokens=(pa.int64(), "tokens, BOS and EOS included; 0 where it was not tokenised"),
    n_bytes=(pa.int64(), "UTF-8 bytes of the released text"),
    reason=(pa.string(), "null enters a shard; tokenize_floor, empty, token_run, low_entropy, dominant_token"),
    value=(pa.float64(), "the value that decided"),
    bound=(pa.float64(), "against this bound"),
    window=(pa.int64(), "first token of the window that decided"),
)

# Partition = range of keyed hash(doc_id). Role "data": one row a shard. Role "by_bucket": SHARDED_DOCS by host bucket.
SHARDS = _schema(
    crawl=_CRAWL,
    stratum=(pa.string(), "tier.language.quality band.length bucket"),
    hash=(pa.string(), "sha256 over .bin and .idx, hex"),
    path=(pa.string(), "its files in the store without .bin, .idx, .meta, .docs"),
    n_docs=(pa.int64(), "documents"),
    n_tokens=(pa.int64(), "tokens"),
    n_bytes=(pa.int64(), "bytes of .bin"),
    sha256_bin=(pa.string(), "hex"),
    sha256_idx=(pa.string(), "hex"),
    sha256_docs=(pa.string(), "hex"),
)

SHARDED_DOCS = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    record_id=_RECORD,
    shard=(pa.string(), "content hash; null where the document is in none"),
    ordinal=(pa.uint32(), "its number in the shard"),
    stratum=(pa.string(), "of the shard"),
    n_tokens=(pa.int64(), "tokens, BOS and EOS included"),
    n_bytes=(pa.int64(), "bytes of the released text"),
    reason=(pa.string(), "why it is in no shard"),
    value=(pa.float64(), "the value that decided"),
    bound=(pa.float64(), "against this bound"),
    window=(pa.int64(), "first token of the window that decided"),
)

# The .docs file beside a shard.
SHARD_DOCS = _schema(
    ordinal=(pa.uint32(), "0, 1, ... in the shard"),
    doc_id=_DOC,
    record_id=_RECORD,
    crawl=_CRAWL,
    host_bucket=(pa.uint16(), "partition of its provenance row"),
    row=(pa.uint32(), "that row"),
    n_tokens=(pa.uint32(), "tokens"),
)

# What a predicate may name. Columns of heuristics, quality and safety (a measure, a scorer, a category) follow these.
CATALOGUE = _schema(
    crawl=_CRAWL,
    doc_id=_DOC,
    record_id=_RECORD,
    url=(pa.string(), "of the first record, as fetched"),
    url_hash=(pa.uint64(), "canonical"),
    host=(pa.string(), "host"),
    host_id=(pa.uint64(), "container"),
    fetch_ts=(TS, "WARC-Date"),
    source_tier=(pa.string(), "tier"),
    license_id=(pa.string(), "licence, or null where none is known"),
    robots_state=(pa.string(), "at fetch"),
    content_type=(pa.string(), "media type"),
    source_id=(pa.string(), "the supplier's own id, of the first record; null for web pages"),
    derived_from=(ID, "parent document of synthetic text"),
    generator_model_id=(pa.string(), "for synthetic text"),
    prompt_template_id=(pa.string(), "for synthetic text"),
    title=(pa.string(), "title"),
    extractor=(pa.string(), "engine and version"),
    n_chars=(pa.int64(), "code points of the extracted text"),
    n_bytes=(pa.int64(), "its UTF-8 bytes"),
    lang=(pa.string(), "ISO 639-3"),
    script=(pa.string(), "ISO 15924"),
    lang_conf=(pa.float32(), "probability"),
    script_share=(pa.float32(), "share of letters in a script of the language"),
    n_words=(pa.int32(), "words"),
    dup_count=(pa.uint32(), "records of this crawl with this text"),
    dup_cluster_id=(ID, "near-duplicate cluster"),
    dup_cluster_size=(pa.uint32(), "its members"),
    dup_of=(ID, "first of the cluster; null when kept"),
    similarity=(pa.float32(), "that decided"),
    matched_crawl=(pa.string(), "earlier crawl with a near-verbatim copy"),
    matched_doc_id=(ID, "that copy"),
    matched_bands=(pa.uint8(), "band votes"),
    survives=(pa.bool_(), "offered to the tokenizer"),
    semantic_of=(ID, "the better document of like meaning; null when kept, or never compared"),
    semantic_cosine=(pa.float32(), "with it, or with the kept one most like it"),
    lines_removed=(pa.int32(), "boilerplate lines taken out"),
    bytes_after=(pa.int64(), "bytes left after that"),
    shard=(pa.string(), "content hash; null where the document is in none"),
    ordinal=(pa.uint32(), "its number there"),
    stratum=(pa.string(), "of the shard"),
    n_tokens=(pa.int64(), "tokens, BOS and EOS included"),
    released_bytes=(pa.int64(), "bytes of the released text"),
    length_bucket=(pa.int8(), "0: under 1k tokens, 1: 4k, 2: 16k, 3: 64k, 4: longer"),
    not_tokenised=(pa.string(), "why it is in no shard: floor or admission"),
    not_tokenised_value=(pa.float64(), "the value that decided"),
    not_tokenised_bound=(pa.float64(), "against this bound"),
    contaminated=(pa.bool_(), "holds a benchmark item"),
    benchmarks=(pa.list_(pa.string()), "which benchmarks, sorted"),
    longest_run=(pa.int32(), "words in a row shared with one item"),
)

YIELDS = _schema(
    crawl=_CRAWL,
    host_bucket=(pa.int16(), "bucket or range"),
    stage=(pa.string(), "asset"),
    docs_in=(pa.int64(), "documents that came in"),
    docs_out=(pa.int64(), "that go on"),
    bytes_in=(pa.int64(), "bytes that came in"),
    bytes_out=(pa.int64(), "that go on"),
    reason=(pa.string(), "null for the totals row; else why documents stopped here"),
    docs=(pa.int64(), "documents of that reason"),
)


def check(table: pa.Table, schema: pa.Schema, name: str, *, extra: bool = False) -> pa.Table:
    """Return ``table`` with the schema's columns in its order, cast to its types.

    Args:
        table: what a stage made.
        schema: what it promises.
        name: for the message.
        extra: allow further columns (measures, scorers), which follow in their own order.

    Raises:
        SchemaError: naming the missing or unexpected columns, or the one that cannot be cast.
    """
    missing = [n for n in schema.names if n not in table.column_names]
    surplus = [n for n in table.column_names if n not in schema.names]
    if missing or (surplus and not extra):
        raise SchemaError(f"table {name}: missing columns {missing}, unexpected {surplus}; see gristmill/schemas.py")
    columns = []
    for field in schema:
        try:
            columns.append(table.column(field.name).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SchemaError(f"table {name}, column {field.name}: {error}") from error
    fields = list(schema)
    for n in surplus:
        columns.append(table.column(n))
        fields.append(pa.field(n, table.schema.field(n).type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def empty(schema: pa.Schema) -> pa.Table:
    """A table of no rows."""
    return schema.empty_table()


def from_rows(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    """Rows as mappings; a column that a row lacks is null."""
    return pa.Table.from_pylist([dict(r) for r in rows], schema=schema)
