"""The ablation of a threshold, on pools whose truth is planted: good text, noise, and repeats of a few good pages."""

import dataclasses
import json
import random
import sys

import numpy as np
import pytest

from gristmill import models
from gristmill.cli import main
from gristmill.errors import ParameterError
from gristmill.quality import diversity
from gristmill.quality import fasttext_classifier as ft
from gristmill.quality.ablation import CONTROL, CommandProxy, Mean, Pool, ProxyError, ablate, render
from gristmill.quality.byte_model import ByteModel
from tests.deduplicate.world import world
from tests.quality.test_fasttext_classifier import BAD, GOOD, texts
from tests.quality.test_stages import DEDUP


def noise(n: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choice("qxzjkvwpbf 0123456789") for _ in range(300)) for _ in range(n)]


def pool() -> Pool:
    good, bad = texts(GOOD, 60, 1), noise(60, 2)
    scores = np.array([0.9] * 60 + [0.1] * 59 + [np.nan])
    return Pool([str(i) for i in range(120)], [*good, *bad], scores, [f"h{i % 10}" for i in range(60)] + ["spam"] * 60,
                ["A", "B"] * 60)


@pytest.fixture(scope="module")
def planted():
    return ablate(pool(), {"good": texts(GOOD, 20, 9)}, [0.5, 0.05], tokens=6_000, seeds=range(1, 7))


def test_a_byte_model_gives_probabilities_that_sum_to_one_and_its_kernel_is_its_definition():
    model = ByteModel(["abracadabra", "a cadaver"], order=4)
    for context in (b"", b"a", b"abr", b"zz", b"dab", b"longer than the order abr"):
        assert sum(model.plain(context, b) for b in range(256)) == pytest.approx(1)
    text = "abra cad ünseen"
    data = text.encode()
    plain = -sum(np.log2(model.plain(data[:i], data[i])) for i in range(len(data))) / len(data)
    assert model.bits([text]) == pytest.approx(plain)
    assert model.bits(["abracadabra"]) < model.bits(["zzzzz"])
    assert np.isnan(model.bits([]))
    assert ByteModel([]).bits(["x" * 40]) == 8  # nothing known: 8 bits a byte


def test_the_pool_without_noise_wins_and_the_gain_is_beyond_its_interval(planted):
    found = planted
    control, low, high = found.candidates
    assert [c.name for c in found.candidates] == [CONTROL, ">= 0.05", ">= 0.5"]
    assert high.losses["good"].mean < control.losses["good"].mean
    assert high.gains["good"].mean - high.gains["good"].half > 0
    assert control.gains["good"] == Mean(0.0, 0.0)
    assert low.tokens < control.tokens  # a document without a score is in the control alone
    assert sum(c.diversity.documents for c in (control, low, high)) == 120 + 119 + 60
    assert high.diversity.hosts == 10
    assert {g: d.documents for g, d in high.by_generation.items()} == {"A": 30, "B": 30}
    assert "unfiltered" in render(found)
    assert json.loads(json.dumps(found.plain()))["candidates"][2]["threshold"] == 0.5


def test_draws_are_of_equal_tokens_and_the_same_for_the_same_seed():
    seen: list[tuple[int, int]] = []

    class Counting:
        def size(self, text):
            return len(text.split())

        def judge(self, drawn, evaluations, seed):
            seen.append((seed, sum(map(self.size, drawn))))
            return {"e": float(hash(tuple(drawn)) % 1000)}

    first = ablate(pool(), {"e": ["held"]}, [0.5], tokens=1500, seeds=(1, 2), proxy=Counting())
    assert all(1500 <= n < 1500 + 100 for _, n in seen)
    again = ablate(pool(), {"e": ["held"]}, [0.5], tokens=1500, seeds=(1, 2), proxy=Counting())
    assert first.plain() == again.plain()


def test_a_short_horizon_repeats_and_ties_are_told(planted):
    same = dataclasses.replace(pool(), texts=texts(GOOD, 120, 3), scores=np.array([0.9] * 10 + [0.1] * 110))
    found = ablate(same, {"good": texts(GOOD, 20, 9)}, [0.5], tokens=4_000, horizon=400_000, seeds=(1, 2))
    told = " | ".join(found.warnings)
    assert "horizon is short" in told
    assert ">= 0.5: at the horizon" in told
    assert "2 seeds" in told
    assert found.candidates[1].epochs > 1
    assert planted.warnings == ()
    alike = ablate(same, {"good": texts(GOOD, 20, 9)}, [0.05], tokens=12_000)
    assert any("cannot be told apart" in w for w in alike.warnings)


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(ParameterError, match="score >= 2"):
        ablate(pool(), {"e": ["held"]}, [2], tokens=100)
    with pytest.raises(ParameterError, match="1 evaluation texts are in the pool"):
        ablate(pool(), {"e": [pool().texts[0]]}, [0.5], tokens=100)
    with pytest.raises(ParameterError, match="evaluation texts"):
        ablate(pool(), {}, [0.5], tokens=100)


def test_a_trainer_of_ones_own_is_given_texts_and_evaluations_and_its_losses_count(tmp_path):
    script = tmp_path / "trainer.py"
    script.write_text(
        "import json, pathlib, sys\n"
        "train = [json.loads(x)['text'] for x in open(sys.argv[1])]\n"
        "held = sorted(p.stem for p in pathlib.Path(sys.argv[2]).iterdir())\n"
        "print('loading')\nprint(json.dumps({h: sum('qx' in t for t in train) for h in held}))\n")
    proxy = CommandProxy(f"{sys.executable} {script}")
    found = ablate(pool(), {"e": ["held"]}, [0.5], tokens=12_000, seeds=(1, 2), proxy=proxy)
    assert found.candidates[1].losses["e"].mean == 0 < found.candidates[0].losses["e"].mean
    with pytest.raises(ProxyError, match="gave no losses"):
        ablate(pool(), {"e": ["held"]}, [0.5], tokens=100, proxy=CommandProxy(f"{sys.executable} -c pass"))


def test_diversity_sees_narrowing():
    wide = texts(GOOD, 40, 1) + texts(BAD, 40, 2)
    hosts = [f"h{i}" for i in range(80)]
    subjects = diversity.topics(wide)
    whole = diversity.measure(wide, hosts, subjects)
    narrow = diversity.measure(wide[:40], ["one"] * 40, subjects[:40])
    assert whole.effective_hosts == pytest.approx(80)
    assert narrow.effective_hosts == 1
    assert narrow.effective_topics < whole.effective_topics
    assert narrow.type_token_ratio < whole.type_token_ratio
    assert whole.length_p10 == whole.length_p50 == 60
    assert diversity.effective([]) == 0
    assert np.isnan(diversity.measure(["a b"], ["h"], np.zeros(1, int)).type_token_ratio)


def test_the_command_runs_end_to_end_on_a_store(tmp_path, capsys):
    path = ft.train_demo(texts(GOOD, 60, 1), texts(BAD, 60, 2), tmp_path / "demo.bin")
    pinned = models.put(path, tmp_path / "models").model_dump()
    w = world(tmp_path, quality={"classifier": pinned})
    w = dataclasses.replace(w, site=w.site.model_copy(update={"models": str(tmp_path / "models")}))
    w.land("A", [*texts(GOOD, 12, 5), *texts(BAD, 12, 6)])
    w.run("A", (*DEDUP, "quality"))
    (tmp_path / "pipeline.yaml").write_text(json.dumps({
        "site": {"store": str(tmp_path / "store"), "models": str(tmp_path / "models")},
        "params": {"grid": {"host_buckets": 4}, "quality": {"classifier": pinned}}}))
    (tmp_path / "held.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts(GOOD, 10, 7)))
    code = main(["quality", "ablate", "--pipeline", str(tmp_path / "pipeline.yaml"), "--crawl", "A", "--column",
                 "score_classifier", "--threshold", "0.5", "--evaluate", "theorems", str(tmp_path / "held.jsonl"),
                 "--tokens", "3000", "--out", str(tmp_path / "table.json")])
    assert code == 0
    assert "theorems" in capsys.readouterr().out
    control, kept = json.loads((tmp_path / "table.json").read_text())["candidates"]
    assert kept["losses"]["theorems"]["mean"] < control["losses"]["theorems"]["mean"]
    assert control["diversity"]["documents"] == 24
    assert kept["diversity"]["documents"] == 12
