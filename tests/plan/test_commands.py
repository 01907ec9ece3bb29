"""The commands of planning and operating, as a person calls them."""

import json
from itertools import pairwise

import pytest
import yaml

from gristmill import cli
from gristmill.commands import project
from gristmill.funnel import FUNNEL
from gristmill.plan import archive as cold
from gristmill.registry import Registry
from tests.plan.test_small_crawl import duplicate


def write(small, path, params):
    path.write_text(yaml.safe_dump({"site": {k: v for k, v in small.site.model_dump(mode="json").items()
                                             if k in ("store", "landing", "holdout", "models") and v is not None},
                                    "params": params.model_dump(mode="json")}))
    return str(path)


@pytest.fixture
def files(small, tmp_path):
    """(the site's parameter file, one with another quality parameter)."""
    return (write(small, tmp_path / "pipeline.yaml", small.pipeline.params),
            write(small, tmp_path / "new.yaml", small.changed(quality={"first_chars": 900}).params))


@pytest.fixture
def launched(monkeypatch):
    calls = []
    monkeypatch.setattr(project, "run_launch", lambda arguments, **_: calls.append(list(arguments)) or 0)
    return calls


def stages_of(arguments):
    return [b for a, b in pairwise(arguments) if a == "--stage"]


def test_a_change_is_told_and_launched_exactly(small, files, launched, capsys):
    old, new = files
    assert cli.main(["plan", "change", "--pipeline", old, "--to", new]) == 0
    told = capsys.readouterr().out
    assert launched == []
    assert "quality.first_chars: 2000 -> 900" in told
    assert "to do: re-score" in told
    assert cli.main(["plan", "change", "--pipeline", old, "--to", new, "--launch", "--workers", "2"]) == 0
    below = {"quality", *small.plan.downstream("quality")}
    (call,) = launched
    assert call[:6] == ["--pipeline", new, "--crawl", small.crawl, "--workers", "2"]
    assert stages_of(call) == [s.name for s in FUNNEL if s.name in below]


def test_nothing_is_launched_where_nothing_is_to_do(files, launched, capsys):
    assert cli.main(["plan", "change", "--pipeline", files[0], "--launch"]) == 0
    assert "to do: nothing" in capsys.readouterr().out
    assert launched == []


def test_another_store_cannot_be_compared(small, files, tmp_path, capsys):
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump({"site": {"store": "elsewhere"}}))
    assert cli.main(["plan", "change", "--pipeline", files[0], "--to", str(other)]) == 1
    assert "nothing to compare" in capsys.readouterr().err


@pytest.mark.parametrize(("section", "fields", "message"), [
    ("grid", {"host_buckets": 8}, "grid.host_buckets is 8, and the store "),
    ("extract", {"holdout_hash": None}, "extract.holdout_hash is not set: extraction starts only"),
    ("tokenize", {"tokenizer": None}, "tokenize.tokenizer is not set: pin a tokenizer.json"),
])
def test_what_can_never_run_has_no_price(small, files, tmp_path, capsys, section, fields, message):
    never = write(small, tmp_path / "never.yaml", small.changed(**{section: fields}).params)
    assert cli.main(["plan", "change", "--pipeline", files[0], "--to", never]) == 1
    told = capsys.readouterr()
    assert message in told.err
    assert told.out == ""


def test_an_archived_input_is_restored_before_anything_starts(small, tmp_path, files, launched, elsewhere, capsys):
    assert cli.main(["archive", small.crawl, "--to", str(elsewhere), "--pipeline", files[0]]) == 0
    new = write(small, tmp_path / "lang.yaml", small.changed(language={"threshold": 0.7}).params)
    assert cli.main(["plan", "change", "--pipeline", files[0], "--to", new, "--launch"]) == 1
    assert launched == []
    assert f"gristmill restore {small.crawl} --asset text" in capsys.readouterr().err
    assert cli.main(["restore", small.crawl, "--pipeline", files[0]]) == 0
    assert "restored" in capsys.readouterr().out
    assert cli.main(["plan", "change", "--pipeline", files[0], "--to", new, "--launch"]) == 0
    assert stages_of(launched[0])[0] == "language"


def test_the_elected_are_registered_and_launched(small, files, launched, monkeypatch, capsys):
    bucket, doc = duplicate(small)
    listed = [{"crawl": small.crawl, "host_bucket": (bucket + 1) % 4, "doc_id": doc.hex()},  # its record lies elsewhere
              {"crawl": small.crawl, "host_bucket": 0, "doc_id": "00" * 16}]
    monkeypatch.setattr("gristmill.plan.reelect.registered", lambda store: ["v1"])
    monkeypatch.setattr("gristmill.plan.reelect.to_tokenise", lambda store, version: listed)
    assert cli.main(["plan", "change", "--pipeline", files[0]]) == 0
    told = capsys.readouterr().out
    assert doc.hex() in told
    assert "1 elected documents have no row" in told
    assert Registry(small.store).elected(small.crawl, bucket) == []  # told, not done
    assert cli.main(["plan", "change", "--pipeline", files[0], "--launch"]) == 0
    assert Registry(small.store).elected(small.crawl, bucket) == [doc.hex()]
    assert {"near", "heuristics", "tokens", "shards", "catalogue"} <= set(stages_of(launched[0]))


def test_the_plan_of_a_corpus_is_printed_and_written(small, files, tmp_path, capsys):
    page = tmp_path / "plan.html"
    assert cli.main(["plan", "funnel", "--pipeline", files[0], "--out", str(page)]) == 0
    told = capsys.readouterr().out
    assert "$2,400" in told
    assert "Assumptions that this installation contradicts" in told
    assert "that is how stages start, not how they work" in told
    assert small.crawl in page.read_text()
    assert cli.main(["plan", "funnel", "--assumed-only"]) == 0
    assert "measured here" not in capsys.readouterr().out


def test_profile_and_bill_of_a_crawl(small, files, capsys):
    assert cli.main(["profile", small.crawl, "--pipeline", files[0]]) == 0
    assert "most of it" in capsys.readouterr().out
    assert cli.main(["bill", small.crawl, "--pipeline", files[0]]) == 0
    assert "core-hours" in capsys.readouterr().out
    for command in ("profile", "bill", "restore"):
        assert cli.main([command, "no-such", "--pipeline", files[0]]) == 1
        assert "no crawl 'no-such'" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "message"), [
    (["restore", "CRAWL", "--asset", "nosuch"], "there is no asset 'nosuch'; there are: band_buckets, "),
    (["archive", "CRAWL", "--to", "x", "--asset", "txt"], "there is no asset 'txt'; did you mean 'text'?"),
    (["plan", "change", "--to", "nope.yaml"], "--to nope.yaml: no such file"),
    (["plan", "change", "--workers", "-1"], "--workers must be 0 (one a core) or more"),
    (["collect", "--also", "nope.yaml"], "--also: no such file: nope.yaml"),
    (["bill", "--assumptions", "nope.yaml"], "no assumptions file nope.yaml"),
])
def test_what_is_not_there_is_named(small, files, words, message, capsys):
    named = [small.crawl if w == "CRAWL" else w for w in words]
    assert cli.main([*named, "--pipeline", files[0]]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("words", "message"), [
    (["archive", "--keep", "1"], "name the archive"),
    (["archive", "--to", "x"], "name crawls, or a bound"),
    (["archive", "--to", "x", "--keep", "-1"], "must be 0 or more"),
])
def test_an_archive_asks_for_what_it_needs(files, words, message, capsys):
    assert cli.main([*words, "--pipeline", files[0]]) == 1
    assert message in capsys.readouterr().err


def test_the_bound_keeps_the_newest_hot(small, files, elsewhere, capsys):
    assert cli.main(["archive", "--to", str(elsewhere), "--keep", "1", "--pipeline", files[0]]) == 0
    assert "no crawl is past the bound" in capsys.readouterr().out
    assert cli.main(["archive", "--lifecycle"]) == 0
    assert json.loads(capsys.readouterr().out)["Rules"][0]["Status"] == "Enabled"


def test_an_archive_in_a_bucket(small, s3_server, monkeypatch):
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    before = {p: small.store.blobs.get(p) for p, _ in small.store.blobs.list("text")}
    moved = cold.archive(small.store, small.crawl, "s3://mill/archive", assets=["text"])
    assert moved.files == sum(not p.rpartition("/")[2].startswith("_") for p in before)
    assert cold.archived_crawls(small.store) == {small.crawl: 4}
    cold.restore(small.store, small.crawl)
    assert {p: small.store.blobs.get(p) for p, _ in small.store.blobs.list("text")} == before
