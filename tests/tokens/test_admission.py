import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.tokens.admission import RUN_ONLY, SHORT_TAIL, WINDOW, bounds, check, check_plain

VOCABULARY = 5_000


def run(ids, lang="eng"):
    scratch = np.zeros(VOCABULARY, np.int32)
    out = check(np.asarray(ids, np.uint32), lang, scratch)
    assert not scratch.any(), "the scratch counts must come back as zeros"
    return out


def varied(n: int, seed: int = 1) -> list[int]:
    return np.random.default_rng(seed).integers(100, 4000, n).tolist()


def test_ordinary_text_is_admitted():
    assert run(varied(20_000)) == ("", 0.0, 0.0, 0)
    assert run([]) == ("", 0.0, 0.0, 0)


def test_a_run_of_one_token_is_rejected_at_its_bound_wherever_it_stands():
    assert run(varied(5000) + [7] * 999 + varied(5000))[0] != "token_run"
    reason, value, bound, _ = run(varied(5000) + [7] * 1000 + varied(5000))
    assert (reason, value, bound) == ("token_run", 1000.0, 1000.0)


def test_a_bad_window_inside_a_good_document_is_found_and_named():
    reason, value, bound, window = run(varied(WINDOW * 2) + [1, 2, 3] * (WINDOW // 3 + 1) + varied(WINDOW * 2))
    assert reason == "low_entropy"
    assert value <= bound == 2.0
    assert window == WINDOW * 2


def test_one_token_over_thirty_percent():
    ids = varied(2000)
    ids[::3] = [9] * len(ids[::3])
    reason, value, bound, _ = run(ids)
    assert (reason, bound) == ("dominant_token", 0.30)
    assert value == pytest.approx(1 / 3, abs=0.01)


def test_scripts_spelt_in_bytes_have_wider_bounds():
    """Burmese or Amharic by a Latin tokenizer: a lead byte before each letter is half of any honest text."""
    rng = np.random.default_rng(3)
    ids = np.empty(6000, np.int64)
    ids[::2] = 225
    ids[1::2] = rng.integers(128, 190, 3000)
    assert run(ids, "eng")[0] == "dominant_token"
    for lang in ("mya", "amh", "khm"):
        assert run(ids, lang)[0] == "", lang
        assert bounds(lang)[0] == bounds("eng")[0], "the run rule holds for every language"


def test_a_short_document_has_only_the_run_rule():
    assert run([5] * (RUN_ONLY - 1))[0] == ""
    assert run([5] * RUN_ONLY)[0] == "low_entropy"


def test_a_short_tail_joins_the_window_before_it():
    bad_tail = [3] * (SHORT_TAIL - 1)
    assert run(varied(WINDOW) + bad_tail)[0] == "", "a tail under 512 tokens is 11 % of its window"
    assert run(varied(WINDOW) + [3] * SHORT_TAIL)[0] == "low_entropy", "of 512 it is a window of its own"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 1200)), max_size=12),
    st.integers(0, 3000),
    st.sampled_from(["eng", "mya"]),
)
def test_the_kernel_is_the_plain_definition(runs, extra, lang):
    ids = [t for token, n in runs for t in [token] * n] + varied(extra, 7)
    got, want = run(ids, lang), check_plain(ids, lang)
    assert got[0] == want[0]
    assert got[1:] == pytest.approx(want[1:])
