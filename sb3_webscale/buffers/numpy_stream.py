"""Integers from NumPy's global random stream, which SB3 draws from, in a third of NumPy's time."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from sb3_webscale import _native

__all__ = ["randint"]

_MOST = 2**32


def randint(low: int, high: int, count: int) -> npt.NDArray[np.int64]:
    """The numbers of ``np.random.randint(low, high, size=count)``; the stream then stands where it would.

    :param low: smallest number
    :param high: one more than the largest
    :param count: how many
    :return: int64 (count,)
    """
    if high - low > _MOST or not _native_agrees():
        return np.random.randint(low, high, size=count)  # noqa: NPY002
    generator = np.random.get_bit_generator()  # type: ignore[attr-defined]
    with generator.lock:
        return _native.bounded_integers(generator.capsule, low, high, count)


@cache
def _native_agrees() -> bool:
    """Whether this NumPy draws as the native code does, as its promise of unchanged streams (NEP 19) has it."""
    if not hasattr(np.random, "get_bit_generator"):
        return False
    ours, theirs = np.random.MT19937(0), np.random.RandomState(np.random.MT19937(0))
    return all(
        np.array_equal(
            _native.bounded_integers(ours.capsule, low, low + bound, 100), theirs.randint(low, low + bound, size=100)
        )
        for low, bound in ((0, 1), (1, 5), (0, 2**20), (3, 1_000_003), (0, 2**32 - 1), (0, 2**32))
    )
