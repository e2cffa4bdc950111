"""Integers drawn natively from NumPy's global stream are NumPy's own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_webscale import _native
from sb3_webscale.buffers import numpy_stream

BOUNDS = st.one_of(st.integers(1, 300), st.integers(1, 2**33), st.sampled_from([2**31, 2**32 - 1, 2**32, 2**32 + 1]))


@given(
    seed=st.integers(0, 2**32 - 1),
    calls=st.lists(st.tuples(st.integers(-5, 2**20), BOUNDS, st.integers(0, 400)), max_size=6),
)
def test_numbers_and_the_stream_after_them_are_numpys(seed: int, calls: list[tuple[int, int, int]]) -> None:
    np.random.seed(seed)
    expected = [np.random.randint(low, low + bound, size=count) for low, bound, count in calls]
    after = np.random.random_sample()
    np.random.seed(seed)
    drawn = [numpy_stream.randint(low, low + bound, count) for low, bound, count in calls]
    assert all(map(np.array_equal, expected, drawn))
    assert np.random.random_sample() == after


def test_a_numpy_that_draws_otherwise_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    np.random.seed(0)
    expected = np.random.randint(0, 1000, size=10)
    np.random.seed(0)
    monkeypatch.setattr(_native, "bounded_integers", lambda generator, low, high, count: np.zeros(count, np.int64))
    numpy_stream._native_agrees.cache_clear()
    try:
        assert np.array_equal(numpy_stream.randint(0, 1000, 10), expected)
        assert not numpy_stream._native_agrees()
    finally:
        numpy_stream._native_agrees.cache_clear()


def test_this_numpy_agrees() -> None:
    assert numpy_stream._native_agrees()


def test_what_is_no_bit_generator_is_refused() -> None:
    with pytest.raises(ValueError, match="PyCapsule"):
        _native.bounded_integers(_capsule_of_another_kind(), 0, 5, 1)
    with pytest.raises(ValueError, match="must lie in 1 to 2\\^32"):
        _native.bounded_integers(np.random.MT19937(0).capsule, 3, 3, 1)


def _capsule_of_another_kind() -> object:
    import datetime  # its C interface is a capsule too

    return datetime.datetime_CAPI  # type: ignore[attr-defined]
