import dataclasses
import json

import numpy as np
import pyarrow as pa
import pytest

from gristmill import models, schemas
from gristmill.cli import main
from gristmill.errors import ModelError
from gristmill.quality import fasttext_classifier as ft
from gristmill.quality import heuristics, quantiles
from tests.deduplicate.world import World, world
from tests.quality.test_fasttext_classifier import BAD, GOOD, texts

DEDUP = ("exact", "line_candidates", "line_counts", "lines", "signatures", "band_buckets", "clusters", "band_matches",
         "near")


@pytest.fixture(scope="module")
def scored(tmp_path_factory) -> tuple[World, list[str], list[str]]:
    folder = tmp_path_factory.mktemp("w")
    path = ft.train_demo(texts(GOOD, 200, 1), texts(BAD, 200, 2), folder / "demo.bin")
    sample = ft.Classifier(path).score(texts(GOOD, 200, 3) + texts(BAD, 200, 4))
    frozen = quantiles.write(quantiles.freeze({("classifier", "eng", "cc"): sample}), folder / "quantiles.json")
    cache = folder / "models"
    w = world(folder, quality={
        "classifier": models.put(path, cache).model_dump(), "quantiles": models.put(frozen, cache).model_dump(),
    })
    w = dataclasses.replace(w, site=w.site.model_copy(update={"models": str(cache)}))
    good, bad = texts(GOOD, 12, 5), texts(BAD, 12, 6)
    w.land("A", [*good, *bad, good[0]])
    w.run("A", (*DEDUP, "heuristics", "quality"))
    return w, good, bad


def test_heuristics_are_those_of_each_text_and_nothing_is_dropped(scored):
    w, _, _ = scored
    rows = w.rows("heuristics", "A")
    survivors = {d for d, r in w.rows("near", "A").items() if r["survives"]}
    assert set(rows) == survivors
    assert len(rows) == 24
    by_record = {r["record_id"]: r["text"] for r in w.table("text", "A").to_pylist()}
    for row in rows.values():
        one = heuristics.measure(pa.array([by_record[row["record_id"]]], pa.large_string()), ["eng"]).to_pylist()[0]
        assert {k: row[k] for k in one} == one
    counts = [w.part("heuristics", "A").manifest("heuristics", b) for b in range(4)]
    assert sum(m.counts.docs_in for m in counts) == sum(m.counts.docs_out for m in counts) == 24
    assert sum(m.info["rule_sets"]["mc4"] for m in counts) == 0  # no text has three lines
    assert all(m.info["would_pass"] <= m.counts.docs_in for m in counts)


def test_tables_are_sorted_by_document_and_hold_their_schema(scored):
    w, _, _ = scored
    for name, schema in (("heuristics", schemas.HEURISTICS), ("quality", schemas.QUALITY)):
        for bucket in range(4):
            table = w.part(name, "A", bucket).read(name)
            assert table.column_names[: len(schema.names)] == schema.names
            ids = table["doc_id"].to_pylist()
            assert ids == sorted(ids)


def test_scores_part_good_from_bad_and_percentiles_follow(scored):
    w, good, bad = scored
    by_record = {r["record_id"]: r["text"] for r in w.table("text", "A").to_pylist()}
    rows = list(w.rows("quality", "A").values())
    scores = {by_record[r["record_id"]]: r for r in rows}
    assert min(scores[t]["score_classifier"] for t in good) > max(scores[t]["score_classifier"] for t in bad)
    for r in rows:
        assert 0 <= r["ensemble_percentile"] <= 1
        assert r["percentile_classifier"] == r["ensemble_max"] == r["ensemble_mean"] == r["ensemble_percentile"]
    order = np.argsort([r["score_classifier"] for r in rows])
    assert (np.diff(np.array([r["ensemble_percentile"] for r in rows])[order]) >= 0).all()


def test_quantiles_frozen_from_a_crawl_are_what_the_next_run_measures_against(scored, tmp_path, capsys):
    w, _, _ = scored
    pipeline = tmp_path / "pipeline.yaml"
    params = w.plan.params.model_dump(mode="json")
    site = {**w.site.model_dump(mode="json", exclude_none=True, exclude_defaults=True), "store": str(w.store.root)}
    pipeline.write_text(json.dumps({"site": site, "params": params}))
    call = ["quality", "freeze", "--pipeline", str(pipeline), "--out", str(tmp_path / "q.json"), "--models",
            str(tmp_path / "cache")]
    assert main([*call, "--crawl", "A"]) == 0
    pinned = json.loads(capsys.readouterr().out.split("quantiles: ")[1])
    found = quantiles.read(tmp_path / "cache" / pinned["sha256"] / "q.json")
    assert ("classifier", "eng", "cc") in found.tables
    rows = list(w.rows("quality", "A").values())
    got = found.percentiles("classifier", np.array([r["score_classifier"] for r in rows]),
                            *(np.array([x] * len(rows), object) for x in ("eng", "cc")))
    assert (got >= 0.5).mean() == pytest.approx(0.5, abs=0.05)
    assert main([*call, "--crawl", "A", "--bucket", "0"]) == 1  # six documents are no reference
    assert "the least is 20" in capsys.readouterr().err
    assert main([*call, "--crawl", "B"]) == 1


def test_bytes_do_not_depend_on_the_run(scored):
    w, _, _ = scored
    before = w.digests("A", ("heuristics", "quality"))
    w.run("A", ("heuristics", "quality"), force=True)
    assert w.digests("A", ("heuristics", "quality")) == before


def test_without_a_classifier_there_is_no_such_column_and_no_percentile(tmp_path):
    w = world(tmp_path)
    w.land("A", texts(GOOD, 3, 9), [0, 0, 1])
    w.run("A", (*DEDUP, "heuristics", "quality"))
    table = w.table("quality", "A")
    assert table.column_names == schemas.QUALITY.names
    assert table["ensemble_percentile"].null_count == table.num_rows == 3
    assert w.part("quality", "A", 3).read("quality").num_rows == 0  # an empty bucket has its empty table


def test_a_model_that_is_not_there_says_what_to_do(tmp_path):
    w = world(tmp_path, quality={"classifier": {"name": "gone.bin", "sha256": "0" * 64}})
    w.land("A", texts(GOOD, 2, 9))
    w.run("A", DEDUP)
    with pytest.raises(ModelError, match=r"gone\.bin"):
        w.run("A", ("quality",))
