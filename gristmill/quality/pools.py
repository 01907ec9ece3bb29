"""Documents with their scores out of a store, as an ablation reads them.

Belongs here: joining texts, scores and hosts of crawls. Does not belong here: what is done with them (``ablation.py``,
``ensemble.py``).
"""

from collections.abc import Sequence

import numpy as np

from gristmill.deduplicate.documents import documents
from gristmill.errors import ParameterError
from gristmill.funnel import BY_NAME, Plan
from gristmill.identity import host_of
from gristmill.params import SiteConfig
from gristmill.partition import Partition
from gristmill.quality.ablation import Pool
from gristmill.store import Store


def read_pool(store: Store, plan: Plan, site: SiteConfig, crawls: Sequence[str], column: str, *,
              buckets: Sequence[int] | None = None, lang: str | None = None) -> Pool:
    """Documents of crawls that survived deduplication, with one column of the table ``quality``.

    A document that several crawls hold is of the first that has it.

    Args:
        store, plan, site: where.
        crawls: generations, in order.
        column: such as ``ensemble_percentile`` or ``score_NAME``.
        buckets: host buckets; default all. A host lies in one bucket, so some buckets are a sample of hosts.
        lang: of this language alone.

    Raises:
        ParameterError: there is no such column.
        MissingPartitionError: a crawl was not taken through ``quality``.
    """
    ids: dict[str, int] = {}
    texts: list[str] = []
    scores: list[float] = []
    hosts: list[str] = []
    generations: list[str] = []
    for crawl in crawls:
        for bucket in range(plan.buckets) if buckets is None else buckets:
            part = Partition(store, plan, BY_NAME["quality"], crawl, bucket, site)
            scored = part.read("quality")
            if column not in scored.column_names:
                raise ParameterError(f"the table quality of {crawl} has no column {column}: "
                                     f"{', '.join(scored.column_names[3:])}")
            docs = documents(part, after="near")
            told = part.read("language", ["record_id", "lang"])
            langs = dict(zip(told["record_id"].to_pylist(), told["lang"].to_pylist(), strict=True))
            rows = part.read("text", ["record_id", "url"])
            urls = dict(zip(rows["record_id"].to_pylist(), rows["url"].to_pylist(), strict=True))
            values = dict(zip(scored["doc_id"].to_pylist(), scored[column].to_pylist(), strict=True))
            for doc, record, text in zip(docs["doc_id"].to_pylist(), docs["record_id"].to_pylist(),
                                         docs["text"].to_pylist(), strict=True):
                if doc.hex() in ids or (lang is not None and langs[record] != lang):
                    continue
                ids[doc.hex()] = len(texts)
                texts.append(text)
                scores.append(np.nan if values[doc] is None else float(values[doc]))
                hosts.append(host_of(urls[record] or ""))
                generations.append(crawl)
    return Pool(list(ids), texts, np.array(scores, float), hosts, generations)


def read_scores(store: Store, plan: Plan, site: SiteConfig, crawls: Sequence[str], *,
                buckets: Sequence[int] | None = None) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Scores of documents that survived deduplication, as reference quantiles are frozen from.

    Returns:
        scorer -> float64 (n), NaN where it gives none; language and source tier of each document, str (n).

    Raises:
        ParameterError: no scorer is pinned.
        MissingPartitionError: a crawl was not taken through ``quality``.
    """
    tables, langs, tiers = [], [], []
    for crawl in crawls:
        for bucket in range(plan.buckets) if buckets is None else buckets:
            part = Partition(store, plan, BY_NAME["quality"], crawl, bucket, site)
            scored = part.read("quality")
            told = _by_record(part, "language", "lang")
            where = _by_record(part, "provenance", "source_tier")
            records = scored["record_id"].to_pylist()
            langs += [told.get(r) or "und" for r in records]
            tiers += [where.get(r) or "unknown" for r in records]
            tables.append(scored.select([n for n in scored.column_names if n.startswith("score_")]))
    names = tables[0].column_names if tables else []
    if not names:
        raise ParameterError("no scorer is pinned (params.quality): there is nothing to freeze quantiles of")
    scores = {name.removeprefix("score_"): np.concatenate([
        t[name].cast("float64").to_numpy(zero_copy_only=False) for t in tables]) for name in names}
    return scores, np.array(langs, object), np.array(tiers, object)


def _by_record(part: Partition, asset: str, column: str) -> dict[bytes, str | None]:
    table = part.read(asset, ["record_id", column])
    return dict(zip(table["record_id"].to_pylist(), table[column].to_pylist(), strict=True))
