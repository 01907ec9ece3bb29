"""Fingerprints: one value, one spelling; a value with no stable bytes raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.fingerprint import canonical_json, fingerprint
from gristmill.params import PipelineParams

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values, max_size=6))
def test_the_order_of_keys_does_not_matter(value):
    shuffled = dict(reversed(list(value.items())))
    assert canonical_json(value) == canonical_json(shuffled)
    assert fingerprint(value) == fingerprint(shuffled)


@pytest.mark.parametrize("value", [{1, 2}, lambda: 0, float("nan"), float("inf"), object(), {1: "a"}])
def test_a_value_with_no_stable_bytes_raises(value):
    with pytest.raises(TypeError):
        canonical_json({"x": value})


def test_every_parameter_counts():
    base = PipelineParams()
    changed = base.model_copy(update={"language": base.language.model_copy(update={"threshold": 0.66})})
    assert fingerprint(base) != fingerprint(changed)
    assert fingerprint(base) == fingerprint(PipelineParams())
