"""A seed for native generators that follows SB3's seeding without disturbing it."""

from __future__ import annotations

import hashlib

import numpy as np

from sb3_webscale.errors import InvalidInputError

__all__ = ["native_seed"]


def native_seed(seed: int | None, purpose: str) -> int:
    """
    :param seed: explicit seed, 0 <= seed < 2**64, or None to derive one from the state of NumPy's global generator,
        which SB3 seeds before it builds the buffer; no number is drawn from it
    :param purpose: keeps generators with the same seed apart
    :return: 64-bit seed
    :raises InvalidInputError: when ``seed`` is out of range
    """
    digest = hashlib.blake2b(purpose.encode(), digest_size=8)
    if seed is not None:
        if not 0 <= seed < 2**64:
            msg = (
                f"seed is {seed}, but must lie in [0, 2**64): pass a non-negative integer, or None to follow SB3's seed"
            )
            raise InvalidInputError(msg)
        digest.update(int(seed).to_bytes(8, "little"))
    else:
        state = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
        digest.update(state["key"].tobytes() + int(state["pos"]).to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little")
